"""Problems in words, and the key that a server asks for."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tests.support.browser import Tab
from tests.support.pages import KEY, served, shown


def test_browser_enforces_the_policy(site: str, tab: Tab) -> None:
    shown(tab, site)
    refused = "(() => { try { document.body.innerHTML = '<b>'; } catch (error) { return error.name; } })()"
    assert tab.run(refused) == "TypeError"
    report = "document.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective))"
    put = "document.body.append(Object.assign(document.createElement('img'), { src: 'data:,' }))"
    assert tab.run(f"new Promise((done) => {{ {report}; {put}; }})") == "img-src"
    assert all(
        "Content Security Policy" in complaint or "TrustedHTML" in complaint
        for complaint in tab.complaints
    )
    tab.complaints.clear()


def test_key_is_requested_and_forgotten(home: Path, tab: Tab) -> None:
    with served(
        home, keys=f"reader search sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"
    ) as address:
        shown(tab, f"{address}#search?corpus=code&query=sort")
        assert tab.texts(".problem h2") == ["This server asks for a key"]
        tab.click(".problem button")
        tab.type("a key with spaces")
        tab.press("Enter")
        assert "no spaces" in tab.texts("#key-wrong")[0]
        tab.run("document.querySelector('#key-field').value = ''")
        tab.type("another-key")
        tab.press("Enter")
        tab.until("document.querySelector('.problem h2').innerText.includes('not accept this key')")
        tab.click(".problem button")
        tab.type(KEY)
        tab.press("Enter")
        tab.until("document.querySelector('.hits')")
        assert tab.run("sessionStorage.getItem('purlin-key')") == KEY
        assert KEY not in tab.run(
            "document.documentElement.outerHTML + location.href + JSON.stringify(localStorage)"
        )
        shown(tab, f"{address}#search?corpus=code&query=numbers")
        assert tab.texts(".hit h3")
        tab.go("#corpora")
        tab.until("document.querySelectorAll('.stock-card').length === 3")
        shown(tab, f"{address}#classify?labels=a,b&texts=x")
        assert tab.texts(".problem h2") == ["This key does not open that"]
        tab.run(f"location.href = '{address}#search?corpus=code&query=numbers'")
        tab.until("document.querySelector('.view.search:not([hidden]) .hit')")
        tab.click("#key-button")
        tab.click("#key-forget")
        tab.until("document.querySelector('.view.search .problem')")
        tab.run(f"location.href = '{address}#search?corpus=code&query=sort'")
        tab.until("document.querySelector('.view.search .problem')")
        assert tab.run("sessionStorage.getItem('purlin-key')") is None


def test_time_to_wait_is_shown_once(home: Path, tab: Tab) -> None:
    with served(home, keys=f"reader search {KEY} 1") as address:
        shown(tab, address)
        tab.run(f"sessionStorage.setItem('purlin-key', '{KEY}')")
        shown(tab, f"{address}#search?corpus=code&query=sort")  # the list of corpora counts, too
        assert tab.texts(".problem h2") == ["A little slower, please"]
        assert len(re.findall(r"\d s\b", tab.texts(".problem")[0])) == 1
        tab.run("sessionStorage.clear()")


def test_key_is_not_requested_if_useless(site: str, tab: Tab) -> None:
    shown(tab, site)
    refused = "{ type: 'urn:purlin:problem:not-allowed', detail: 'Not known as x.' }"
    tab.run(
        f"window.fetch = async () => new Response(JSON.stringify({refused}), {{ status: 403 }}), null"
    )
    tab.go("#search?corpus=code&query=x")
    tab.until("document.querySelector('.problem')")
    assert tab.texts(".problem h2") == ["This is not open here"]
    assert tab.texts(".problem button") == []


def test_problems_are_shown_in_words(home: Path, tab: Tab) -> None:
    with served(home) as address:
        shown(tab, f"{address}#search?corpus=none&query=x")
        assert tab.texts(".problem h2") == ["That is not there"]
        assert tab.texts(".problem p") == [
            "There is no corpus 'none'. Corpora: code, lamps, library."
        ]
        shown(tab, f"{address}#search?corpus=code&query=x&filter=%7B%22languag%22:1%7D")
        assert "Did you mean 'language'?" in tab.texts(".problem")[0]
        shown(tab, f"{address}#search?corpus=kind:books&query=x")
        assert tab.texts(".problem")[0].count("corpus must be a name") == 1
        shown(tab, f"{address}#search?corpus=lamps&query=lamp")
        tab.run("document.querySelector('.hits').dataset.old = 1")
    tab.run("document.querySelector('.ask-form').requestSubmit()")
    tab.until("document.querySelector('.problem')")
    assert tab.texts(".problem h2") == ["The server cannot be reached"]
    assert tab.run("document.querySelector('.problem').offsetWidth") > 400
    assert tab.texts(".problem button") == ["Try again"]
