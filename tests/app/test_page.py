"""The page at `/`: its routes and, if Chromium is installed, its behaviour in a browser."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

import httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from purlin.app.main import create_app
from purlin.app.page import FILES, POLICY, prefers_html
from purlin.app.settings import Settings
from purlin.index.classify.trained import publish_classifier
from purlin.index.indexing.build import build
from purlin.index.indexing.gate import Judgements
from purlin.index.records import Document, Location
from purlin.index.sources import open_source
from purlin.index.sources.products.records import from_record
from tests.support.browser import CHROMIUM, Tab, browsing
from tests.support.hash_encoder import HashEncoder
from tests.support.indented import INDENTED
from tests.support.paths import DATA
from tests.support.scripts import WEB, evaluated
from tests.support.serving import FUNCTIONS, REFERENCE_PAGE, make, numbered, problem, serving, until
from tests.support.tiny import staged

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
KEY = "a-key-for-the-page-of-tests"

LONG = "\n".join(
    [
        "def walk(tree):",
        *(f"        step_{n}(tree)  # onwards" for n in range(1, 39)),
        "        return tree",
    ]
)
HOSTILE = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 2</script>'
CODE = [
    *FUNCTIONS,
    Document(
        id="walk.py::walk",
        kind="code",
        title="Forest.walk",
        body=LONG,
        context=("Forest",),
        location=Location("walk.py", 7, 46),
        fields={"language": "python"},
    ),
    Document(
        id="odd.py::emoji",
        kind="code",
        title="emoji",
        body='def emoji():\n    return "🎉🎉 party 🎉 hat"  # 🎉 party',
        location=Location("odd.py", 1, 2),
        fields={"language": "python"},
    ),
    Document(
        id="evil.py::evil",
        kind="code",
        title=HOSTILE,
        body=f"# evil\n{HOSTILE}\n</code></pre>",
        context=(HOSTILE,),
        location=Location(f"{HOSTILE}.py", 1, 3, "javascript:window.hacked=3"),
        fields={"language": HOSTILE[:40]},
    ),
]
COLOURS = "red red green green green blue blue white white white".split() * 3
PRODUCTS = [
    Document(
        id=f"p{n}",
        kind="product",
        title=f"Lamp {n} {colour}",
        body=f"A lamp to read by.\nDims\nColour: {colour}",
        fields={"colour": colour, "price": 10.5 + n, "attrs.usb_socket": n % 2 == 0, "watts": n},
    )
    for n, colour in enumerate(COLOURS)
]


# ---- the routes


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, pages = tmp_path_factory.mktemp("page"), tmp_path_factory.mktemp("pages")
    (pages / "functions.html").write_text(REFERENCE_PAGE)
    make(home, "code", CODE, HashEncoder())
    make(home, "lamps", PRODUCTS, HashEncoder(), "product")
    sources = open_source("reference", [pages], base_url="https://example.org")
    judged = Judgements({"q": "range step"}, {"q": {"functions.html#range": 1.0}})
    build(home, "library", "reference", sources, HashEncoder(), origin=(str(pages),), judged=judged)
    return home


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with serving(home) as client:
        yield client


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (BROWSER["Accept"], True),
        ("text/html", True),
        ("TEXT/HTML ; Q=0.3", True),
        ("text/*", True),
        ("application/json;q=0.5, text/html", True),
        ("*/*;q=0.9, application/json;q=0.1", True),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("text/html;q=0.5, application/json", False),
        ("text/html;q=0, */*", False),
        ("text/html;q=1.2.3", False),
        ("image/png", False),
    ],
)
def test_browsers_get_the_page_and_programs_json(
    client: TestClient, accept: str, html: bool
) -> None:
    response = client.get("/", headers={"Accept": accept})
    assert response.status_code == 200
    assert response.headers["vary"] == "Accept"
    assert response.headers["content-type"] == (
        "text/html; charset=utf-8" if html else "application/json"
    )


def test_links_for_programs_hold_below_a_path(client: TestClient) -> None:
    links = client.get("/").json()
    assert links.pop("name") == "Purlin"
    for link in links.values():
        below = urljoin("https://example.org/purlin/", link)
        assert below.startswith("https://example.org/purlin/")
        assert client.get(below.removeprefix("https://example.org/purlin")).status_code == 200


def test_description_holds_below_a_path(client: TestClient) -> None:
    """A client resolves the server's address against that of the description."""
    (server,) = client.get("/openapi.json").json()["servers"]
    below = urljoin("https://example.org/purlin/openapi.json", f"{server['url']}/search")
    assert below == "https://example.org/purlin/search"


@given(
    st.lists(
        st.sampled_from(
            ["text/html", "*/*", "text/*", ";", "q=", "0.5", "7", ",", " ", ".", "²", "é"]
        )
    ).map("".join)
)
def test_any_accept_header_is_understood(accept: str) -> None:
    assert prefers_html(accept) in (True, False)
    assert not prefers_html(f"{accept},application/json;q=1")


def test_policy_allows_only_the_pages_own_files(client: TestClient) -> None:
    response = client.get("/", headers=BROWSER)
    assert response.headers["content-security-policy"] == POLICY
    assert POLICY.startswith("default-src 'none'; ")
    assert not re.search(r"unsafe|https?:|\*|data:|blob:", POLICY)
    for directive in (
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "trusted-types 'none'",
    ):
        assert directive in POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cross-origin-opener-policy"] == "same-origin"


class Markup(HTMLParser):
    """Collects the references of a page, and the inline code that a strict policy forbids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.inline: list[str] = []
        self._in_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._in_script = tag == "script"
        if tag == "style" or (tag == "script" and "src" not in attributes):
            self.inline.append(tag)
        self.inline += [name for name in attributes if name == "style" or name.startswith("on")]
        self.references += [
            str(attributes[name]) for name in ("src", "href", "action") if name in attributes
        ]

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


def test_page_has_no_inline_code_or_foreign_links(
    client: TestClient,
) -> None:
    markup = Markup(client.get("/", headers=BROWSER).text)
    assert markup.inline == []
    assert {"web/style.css", "web/app.js", "web/theme.js"} <= set(markup.references)
    for reference in markup.references:
        assert reference.startswith("#") or client.get(f"/{reference}").status_code == 200


def test_every_file_is_served_and_packaged() -> None:
    assert {file.name for file in WEB.iterdir()} == {"index.html", *FILES}
    project = tomllib.loads((WEB.parent.parent / "pyproject.toml").read_text())
    assert "web/*" in project["tool"]["setuptools"]["package-data"]["purlin.app"]


@pytest.mark.parametrize("name", FILES)
def test_unchanged_file_is_answered_with_304(client: TestClient, name: str) -> None:
    response = client.get(f"/web/{name}")
    assert response.status_code == 200
    assert response.content == (WEB / name).read_bytes()
    assert response.headers["content-type"] == FILES[name]
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-content-type-options"] == "nosniff"
    tag = response.headers["etag"]
    for etag in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = client.get(f"/web/{name}", headers={"If-None-Match": etag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(f"/web/{name}", headers={"If-None-Match": '"other"'}).status_code == 200
    head = client.head(f"/web/{name}")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)


@pytest.mark.parametrize(
    "path",
    [
        "/web/",
        "/web/index.html",
        "/web/none.js",
        "/web/app.js/",
        "/web/APP.JS",
        "/web/app.js%00",
        "/web/..%2Fmain.py",
        "/web/%2e%2e/main.py",
        "/web/%2e%2e%2fmain.py",
        "/web/..%5cmain.py",
        "/web/....//main.py",
        "/web//etc/passwd",
        "/web/%2Fetc%2Fpasswd",
        "/web/style.css%2F..%2F..%2Fpage.py",
        "/web/" + "x" * 5000,
    ],
)
def test_other_files_are_not_served(client: TestClient, path: str) -> None:
    assert problem(client.get(path), 404)["type"] == "about:blank"


def test_page_needs_no_key(home: Path) -> None:
    with serving(home, keys=f"reader search {KEY}") as client:
        assert client.get("/", headers=BROWSER).status_code == 200
        assert client.get("/web/app.js").status_code == 200
        problem(client.post("/", headers=BROWSER), 405)
        problem(client.get("/corpora"), 401)
        assert "/web/{file}" not in client.get("/openapi.json").json()["paths"]


def test_scripts_never_parse_text_as_markup() -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setHTML|srcdoc|DOMParser"
    for file in WEB.glob("*.js"):
        script = file.read_text()
        assert not re.search(forbidden, script), file.name
        assert (
            re.findall(r"https?://[^\"' ]+", script.replace("http://www.w3.org/2000/svg", "")) == []
        ), file.name
        assert set(re.findall(r"from \"\./([^\"]+)\"", script)) <= set(FILES), file.name
        # Requests are relative to the page, so that it can be below a path of another site.
        assert not re.search(r"(?:get|post|fetch)\([\"'`]/", script), file.name


# ---- the page in a browser


@contextmanager
def served(home: Path, **settings: Any) -> Iterator[str]:
    """Run a server in a thread, and yield its address."""
    created = create_app(Settings(home=home, **settings), HashEncoder())
    config = uvicorn.Config(
        created, port=0, ws="none", log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        while httpx.get(f"{address}readyz").status_code != 200:
            time.sleep(0.01)
        yield address
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def site(home: Path) -> Iterator[str]:
    if CHROMIUM is None:
        pytest.skip("takes a Chromium: apt-get install chromium, or Google Chrome")
    with served(home, reader=home / "none") as address:
        yield address


@pytest.fixture(scope="module")
def tab(site: str) -> Iterator[Tab]:
    """A browser for all tests here; nothing that they do may make it complain or ask elsewhere."""
    with browsing() as tab:
        yield tab
        assert [
            url
            for url in tab.requests
            if not url.startswith(("http://127.0.0.1:", "about:", "data:"))
        ] == []


@pytest.fixture(autouse=True)
def quiet(request: pytest.FixtureRequest) -> Iterator[None]:
    """Clear the storage after each browser test, and fail it for console messages."""
    if "tab" not in request.fixturenames:
        yield
        return
    tab = request.getfixturevalue("tab")
    tab.look()
    tab.complaints.clear()
    yield
    tab.run("sessionStorage.clear(), localStorage.clear()")
    assert [
        complaint for complaint in tab.complaints if "Failed to load resource" not in complaint
    ] == []


IDLE = "document.querySelector('.view:not([hidden]) .results > *') && !document.querySelector('[aria-busy]')"


def shown(tab: Tab, address: str) -> None:
    tab.open(address)
    tab.until(IDLE)


def on_page(tab: Tab, module: str, expression: str) -> Any:
    """Evaluate an expression in which `m` is one of the page's modules."""
    return tab.run(f"import('/web/{module}').then((m) => ({expression}))")


def searched(site: str, **body: Any) -> Any:
    """Return the reply to a search, without the hits that the page leaves out."""
    reply = httpx.post(f"{site}search", json={"k": 50, **body}).json()
    return reply | {"hits": [hit for hit in reply["hits"] if round(hit["score"], 2) > 0]}


def test_search_by_keyboard(site: str, tab: Tab) -> None:
    shown(tab, site)
    tab.press("/", "Escape")
    assert tab.run("document.activeElement === document.body")
    tab.press("/")
    assert tab.run("document.activeElement.type + document.activeElement.value") == "search"
    tab.type("walk step tree")
    tab.press("Enter")
    tab.until("document.querySelector('.hits')")
    assert tab.run("location.hash") == "#search?corpus=code&query=walk+step+tree"
    assert tab.run("document.title") == "walk step tree · Purlin"
    titles = [hit["title"] for hit in searched(site, corpus="code", query="walk step tree")["hits"]]
    assert tab.texts(".hit h3") == titles
    tab.press("ArrowDown", "ArrowDown", "ArrowUp")
    focused = "document.activeElement.dataset.hit"
    assert tab.run(focused) == "walk.py::walk"
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert tab.run("document.querySelectorAll('[data-hit=\"walk.py::walk\"] .line').length") == 12
    tab.press("Enter")
    assert tab.run("document.querySelectorAll('[data-hit=\"walk.py::walk\"] .line').length") == 40
    tab.press("Enter")
    assert tab.run("document.querySelectorAll('[data-hit=\"walk.py::walk\"] .line').length") == 12
    tab.press("ArrowDown")
    assert tab.run(focused) != "walk.py::walk"
    tab.press("Escape")
    assert tab.run("document.activeElement.type") == "search"
    tab.press("Escape", "?")
    assert tab.run("document.querySelector('[type=search]').value") == "walk step tree"
    assert tab.run("document.querySelector('#help-dialog').open")
    tab.press("Escape")
    assert not tab.run("document.querySelector('#help-dialog').open")
    shown(tab, f"{site}#corpora")
    tab.press("/")
    assert tab.run("location.hash + document.activeElement.type") == "#searchsearch"


def test_code_has_line_numbers_and_marks(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=code&query=walk+step+tree")
    block = "[data-hit='walk.py::walk'] "
    lines = tab.run(
        f'[...document.querySelectorAll("{block}.line")].map(one => [one.dataset.number, one.textContent])'
    )
    assert lines[0] == ["7", "def walk(tree):\n"]
    assert lines[1] == ["8", "    step_1(tree)  # onwards\n"]  # no deeper than it has to be
    assert tab.texts(f"{block}.t-keyword") == ["def"]
    assert tab.texts(f"{block}.t-comment")[0] == "# onwards"
    assert tab.texts(f"{block}.hit-line mark")[:2] == ["walk", "tree"]
    assert tab.texts(f"{block}.path") == ["walk.py:7-46"]
    assert tab.texts(f"{block}h3 .outer") == ["Forest."]


def test_copying_tells_how_it_went(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=code&query=walk")
    copying = "navigator.clipboard.writeText = async (text) => (window.copied = text), null"
    tab.run(copying)
    block = "[data-hit='walk.py::walk'] "
    tab.click(f"{block}.source .copy")
    tab.until("document.querySelector('#said').textContent === 'Copied.'")
    assert tab.run("copied") == LONG
    tab.click(f"{block}.where .copy")
    tab.until("copied === 'walk.py:7'")
    tab.run("navigator.clipboard.writeText = () => Promise.reject(new DOMException('')), null")
    tab.click(".copy")
    tab.until("document.querySelector('#said').textContent === 'Not allowed.'")


def test_marks_are_correct_after_emoji(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=code&query=emoji+party+hat")
    (hit,) = [
        hit
        for hit in searched(site, corpus="code", query="emoji party hat")["hits"]
        if hit["title"] == "emoji"
    ]
    expected = [hit["text"][start:end] for start, end in hit["highlights"]]
    assert expected.count("party") == 2
    assert tab.texts("[data-hit='odd.py::emoji'] mark") == expected


def test_corpus_content_is_never_executed(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=code&query=evil")
    assert HOSTILE in tab.texts(".hit h3")
    assert any(HOSTILE in text for text in tab.texts(".hit pre"))
    shown(
        tab,
        f"{site}#search?corpus=code&filter=%3Cb%3E&mode=%3Cb%3E&query={HOSTILE.replace('=', '%3D')}",
    )
    assert tab.run("document.querySelectorAll('main img, main script').length") == 0
    assert tab.run("[...document.links].filter(one => !/^https?:$/.test(one.protocol)).length") == 0
    assert tab.run("window.hacked === undefined")
    assert (
        on_page(
            tab,
            "dom.js",
            "m.page('javascript:1') ?? m.page(' JaVaScRiPt:1') ?? m.page('data:text/html,x')",
        )
        is None
    )
    assert on_page(tab, "dom.js", "m.page('a/b.html#c')") == "a/b.html#c"


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


def tick(tab: Tab, value: str) -> None:
    """Tick a value of a facet, and wait for the hits."""
    tab.run(
        "[...document.querySelectorAll('.facet label')].find(one => one.innerText.startsWith("
        f"{json.dumps(value)})).querySelector('input').click()"
    )
    time.sleep(0.1)  # the address changes first
    tab.until(IDLE)


def facet(tab: Tab, label: str) -> dict[str, str]:
    """The values of a facet with their counts; those that are ticked have a star."""
    values = (
        "[...document.querySelectorAll('.facet')].find(one => one.firstChild.innerText === "
        f"{json.dumps(label)})?.querySelectorAll('label:not([hidden])') ?? []"
    )
    rows = tab.run(
        f"[...{values}].map(one => [one.children[1].innerText + (one.querySelector(':checked') ? '*' : ''),"
        " one.children[2].innerText])"
    )
    return dict(rows)


def test_products_are_filtered_by_clicking_values(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp+to+read")
    assert len(tab.texts(".hit")) == 10
    tab.click(".more")
    assert len(tab.texts(".hit")) == 20
    assert tab.texts(".facet legend") == ["Colour", "Price", "Watts", "Usb socket"]
    assert facet(tab, "Colour") == {"green": "9", "white": "9", "red": "6", "blue": "6"}
    tick(tab, "blue")
    assert len(tab.texts(".hit")) == 6
    assert tab.run("new URLSearchParams(location.hash.split('?')[1]).get('filter')") == (
        '{"colour":"blue"}'
    )
    tab.run(
        "[...document.querySelectorAll('.fields button')].find(one => one.innerText.includes('Yes')).click()"
    )
    tab.until("document.querySelectorAll('.condition').length === 2")
    assert tab.texts(".condition > :nth-child(n+2)") == [
        "Colour", "blue", "×", "Usb socket", "Yes", "×",
    ]  # fmt: skip
    assert len(tab.texts(".hit")) == 3
    tab.run("history.back()")
    tab.until("document.querySelectorAll('.condition').length === 1")
    tab.click(".condition")
    tab.until("!document.querySelector('.condition')")
    tab.run("document.querySelector('[aria-label=\"Price from\"]').focus()")
    tab.type("30")
    tab.press("Enter")
    tab.until("document.querySelector('.condition')")
    assert tab.texts(".condition b") == ["from 30"]
    assert sorted(float(text) for text in tab.texts(".price")) == [30.5 + n for n in range(10)]
    assert tab.run("document.querySelector('[aria-label=\"Price from\"]').value") == "30"


def test_values_of_a_field_are_alternatives(site: str, tab: Tab) -> None:
    """Its counts are those without its own condition, those of the others are within all conditions."""
    shown(tab, f"{site}#search?corpus=lamps&query=lamp+to+read")
    tab.run("document.querySelector('.facet input[value=blue]').focus()")
    tick(tab, "blue")
    tick(tab, "red")
    assert tab.run("document.activeElement.value") == "blue"
    assert len(tab.texts(".hit")) == 10
    assert "12" in tab.texts(".overview h2")[0]
    assert tab.texts(".condition b") == ["blue", "red"]
    assert facet(tab, "Colour") == {"green": "9", "white": "9", "red*": "6", "blue*": "6"}
    filtered = {"colour": ["blue", "red"]}
    hits = searched(site, corpus="lamps", query="lamp to read", filter=filtered)["hits"]
    sockets = [hit["fields"]["attrs.usb_socket"] for hit in hits]
    expected = {"Yes": str(sockets.count(True)), "No": str(sockets.count(False))}
    assert facet(tab, "Usb socket") == expected

    tick(tab, "Yes")
    assert facet(tab, "Usb socket") == {
        f"{name}{'*' * (name == 'Yes')}": count for name, count in expected.items()
    }
    assert sum(map(int, facet(tab, "Colour").values())) == 15  # every second lamp has a socket
    tick(tab, "blue")
    assert tab.texts(".condition b") == ["red", "Yes"]
    tab.run("history.back()")
    tab.until("document.querySelectorAll('.condition').length === 3")
    assert facet(tab, "Colour").keys() == {"green", "white", "red*", "blue*"}
    tab.click(".clear")
    tab.until("!document.querySelector('.condition')")
    # What is ticked is shown, even where none of the best hits has it.
    conditions = quote(json.dumps({"colour": ["mauve", "red"]}))
    shown(tab, f"{site}#search?corpus=lamps&query=lamp&filter={conditions}")
    assert facet(tab, "Colour")["mauve*"] == "0"


def test_two_quick_ticks_both_count(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp")
    hold(tab, "search")
    for value in ("blue", "red"):
        tab.run(f"document.querySelector('.facet input[value={value}]').click()")
        tab.until(f"location.hash.includes('{value}')")
        tab.until("held.length")
    let_go(tab)
    tab.until("document.querySelectorAll('.condition').length === 2")


def test_facets_stay_open_in_a_small_window(site: str, tab: Tab) -> None:
    tab.look(390, 844)
    shown(tab, f"{site}#search?corpus=lamps&query=lamp")
    assert not tab.run("document.querySelector('.facets').open")
    tab.run("document.querySelector('.facets').open = true")
    tab.run("document.querySelector('.facet input[value=red]').focus()")
    tab.run("document.activeElement.scrollIntoView({ block: 'center' })")
    before = tab.run("window.scrollY")
    tick(tab, "red")
    assert tab.run("document.querySelector('.facets').open && window.scrollY") == before > 0


def test_rare_values_are_shown_on_request(tmp_path: Path, tab: Tab) -> None:
    lamps = [
        Document(id=f"{name}{n}", kind="product", title="Lamp", body="Lit.", fields={"brand": name})
        for name in ("Ash", "Bay", "Elm", "Fir", "Oak", "Yew", "Gum", "gum", "Box")
        for n in range(2)
    ]
    make(tmp_path, "lamps", lamps, HashEncoder(), "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=lamps&query=lamp")
        brands = facet(tab, "Brand")
        # The filter makes no difference between Gum and gum, nor do the counts.
        assert len(brands) == 6
        assert brands["Gum"] == "4"
        tab.click(".facet .quiet")
        assert len(facet(tab, "Brand")) == 8
        assert tab.run("document.activeElement.type") == "checkbox"
        tick(tab, "Gum")
        assert len(tab.texts(".hit")) == 4


def test_quantities_are_read_with_their_units(tmp_path: Path, tab: Tab) -> None:
    records = [
        {
            "id": str(n),
            "title": f"Lamp {n}",
            "power_w": 5 * (n % 3 + 1),
            "weight (kg)": 1.5,
            "length": "2 m",
        }
        for n in range(9)
    ]
    make(tmp_path, "lamps", [from_record(record) for record in records], HashEncoder(), "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=lamps&query=lamp+10+w")
        chips = [text.split("\n") for text in tab.texts(".hit:first-of-type .fields button")]
        assert {"Power", "Weight", "Length"} <= {label for label, _ in chips}
        assert {"1.5 kg", "2 m"} <= {value for _, value in chips}
        assert facet(tab, "Power") == {"5 W": "3", "10 W": "3", "15 W": "3"}
        tick(tab, "10 W")
        assert tab.texts(".condition span:not(.unseen)") == ["Power"]
        assert tab.texts(".condition b") == ["10 W"]
        assert len(tab.texts(".hit")) == 3


def test_fields_may_have_names_that_every_object_has(tmp_path: Path, tab: Tab) -> None:
    records = [
        {"id": str(n), "title": f"Car {n}", "constructor": ("Lotus", "Ferrari")[n % 2]}
        for n in range(6)
    ]
    make(tmp_path, "cars", [from_record(record) for record in records], HashEncoder(), "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=cars&query=car")
        assert facet(tab, "Constructor") == {"Lotus": "3", "Ferrari": "3"}
        tick(tab, "Lotus")
        assert tab.texts(".condition b") == ["Lotus"]
        assert len(tab.texts(".hit")) == 3


@pytest.mark.parametrize(
    ("leave", "there"),
    [
        ("document.querySelector('.facet input').click()", "document.querySelector('.condition')"),
        ("location.hash = '#corpora'", "document.querySelector('.stock-card')"),
    ],
)
def test_back_shows_what_was_there(site: str, tab: Tab, leave: str, there: str) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp+to+read")
    tab.click(".more")
    tab.run("window.scrollTo(0, document.body.scrollHeight)")
    before = tab.run("[window.scrollY, document.querySelectorAll('.hit').length]")
    assert before[0] > 900

    tab.run(leave)
    tab.until(f"{there} && {IDLE}")
    assert tab.run("window.scrollY") == 0
    tab.requests.clear()
    tab.run("history.back()")
    tab.until("document.querySelectorAll('.view.search:not([hidden]) .hit').length === 20")
    tab.until(f"window.scrollY === {before[0]}")
    assert tab.requests == []

    tab.run("document.querySelector('.ask-form').requestSubmit()")
    tab.until("document.querySelectorAll('.hit').length === 10")


def test_excluded_values_are_shown_as_conditions(site: str, tab: Tab) -> None:
    conditions = json.dumps({"colour": {"not": ["red", "blue"]}, "watts": {"not": {"gte": 20}}})
    shown(tab, f"{site}#search?corpus=lamps&query=lamp&filter={quote(conditions)}")
    assert tab.texts(".condition b") == ["not red or blue", "not from 20"]


def test_corrected_query_is_shown_above_the_hits(site: str, tab: Tab) -> None:
    assert searched(site, corpus="lamps", query="whitte lamp")["corrected"] == "white lamp"
    shown(tab, f"{site}#search?corpus=lamps&query=whitte+lamp")
    assert "Searched for “white lamp”." in tab.texts(".results > p")
    assert tab.run("document.querySelector('.hits').offsetWidth") > 700
    assert tab.run("document.querySelector('.facets').offsetWidth") < 300


def test_variants_of_a_product_are_one_hit(tmp_path: Path, tab: Tab) -> None:
    records = [
        {"sku": "S", "title": "Shirt", "price": 30},
        *(
            {
                "sku": f"S-{size}",
                "parent_sku": "S",
                "title": "Shirt",
                "size": size,
                "url": f"https://shop.example/{size}",
            }
            for size in ("Small", "Large")
        ),
        {"sku": "H", "title": "Hat"},
    ]
    make(tmp_path, "shop", [from_record(record) for record in records], HashEncoder(), "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=shop&query=shirt+large")
        assert tab.texts(".hit h3") == ["Shirt"]
        assert sorted(tab.texts(".variants li")) == ["S", "Small"]
        assert tab.run("document.querySelector('.variants a').href") == "https://shop.example/Small"
        assert tab.run("document.querySelector('.more').hidden")
        assert tab.requests.count(f"{address}search") == 1


def test_filter_belongs_to_its_corpus(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp&filter=%7B%22colour%22%3A%22blue%22%7D")
    tab.run("document.querySelector('input[type=search]').value = ''")
    tab.click(".chooser input[value='code']")
    tab.run("document.querySelector('input[type=search]').focus()")
    tab.type("sort numbers")
    tab.press("Enter")
    tab.until("document.querySelector('.hit')")
    assert not tab.texts(".condition")
    shown(tab, f"{site}#search?corpus=code&query=sort&filter=%7B%22colour%22%3A%22blue%22%7D")
    tab.until("document.querySelector('.condition')")
    assert not tab.texts(".hit")
    tab.click(".condition")
    tab.until("document.querySelector('.hit')")
    tab.complaints.clear()


def test_several_corpora_are_searched_at_once(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "more", FUNCTIONS, HashEncoder())
    make(tmp_path, "code", CODE, HashEncoder())
    make(tmp_path, "lamps", PRODUCTS, HashEncoder(), "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=code&query=sort+numbers")
        assert tab.texts(".chooser b") == ["code", "lamps", "more", "All code", "All"]
        assert tab.texts(".hit .tag.corpus") == []

        tab.click(".chooser input[value='kind:code']")
        tab.until("document.querySelector('.hit .tag.corpus')")
        assert tab.run("location.hash") == "#search?corpus=kind%3Acode&query=sort+numbers"
        hits = searched(address, corpus={"kind": "code"}, query="sort numbers")["hits"]
        assert tab.texts(".hit .tag.corpus") == [hit["corpus"] for hit in hits]
        assert set(tab.texts(".hit .tag.corpus")[:2]) == {"code", "more"}

        shown(tab, f"{address}#search?corpus=code%2Clamps%2Cmore&query=lamp+to+sort")
        assert (
            tab.run("document.querySelector('.chooser input:checked').value") == "code,lamps,more"
        )
        hits = searched(address, corpus=["code", "lamps", "more"], query="lamp to sort")["hits"]
        assert tab.run("[...document.querySelectorAll('.hit')].map(one => one.classList[1])") == [
            "product" if hit["corpus"] == "lamps" else "code" for hit in hits[:10]
        ]


def test_many_corpora_are_a_menu(tmp_path: Path, tab: Tab) -> None:
    for number in range(17):
        make(tmp_path, f"service-{number:02}", FUNCTIONS[:1], HashEncoder())
    for name in ("lamps", "shades"):
        make(tmp_path, name, PRODUCTS[:3], HashEncoder(), "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=service-07&query=lamp")
        menu = ".chooser select"
        assert tab.run(f"document.querySelector('{menu}').value") == "service-07"
        labels = f"[...document.querySelectorAll('{menu} optgroup')].map(one => one.label)"
        assert tab.run(labels) == ["Code", "Products", "Several at once"]
        # A search takes 16 corpora: all of the code are too many.
        assert tab.texts(f"{menu} optgroup:last-of-type option") == ["All products"]

        tab.run(f"document.querySelector('{menu}').focus()")
        tab.press("l")
        tab.until("document.querySelectorAll('.hit.product').length === 3")
        assert tab.texts(".hit h3") == [
            hit["title"] for hit in searched(address, corpus="lamps", query="lamp")["hits"]
        ]
        assert tab.run(f"document.activeElement === document.querySelector('{menu}')")


def test_searches_share_a_list_of_corpora(site: str, tab: Tab) -> None:
    tab.requests.clear()
    shown(tab, f"{site}#search?corpus=code&query=sort+lamp+range")
    for corpus, kind in (("lamps", "product"), ("library", "reference")):
        tab.click(f".chooser input[value='{corpus}']")
        tab.until(f"document.querySelector('.hit.{kind}')")
    sent = [url.removeprefix(site) for url in tab.requests if "/web/" not in url]
    assert [path for path in sent if path in ("corpora", "search")] == [
        "corpora", "search", "search", "search",
    ]  # fmt: skip


def test_corpus_that_is_new_is_looked_up(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "code", FUNCTIONS, HashEncoder())
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=code&query=sort")
        make(tmp_path, "lamps", PRODUCTS, HashEncoder(), "product")
        until(lambda: httpx.get(f"{address}corpora/lamps").json().get("state") == "serving")
        tab.run("location.hash = '#search?corpus=lamps&query=lamp'")
        tab.until("document.querySelector('.hit.product')")
        assert tab.run("document.querySelector('.chooser :checked').value") == "lamps"


def test_hits_of_changed_files_are_marked(tmp_path: Path, tab: Tab) -> None:
    (tmp_path / "src").mkdir()
    for name in ("same", "other"):
        (tmp_path / "src" / f"{name}.py").write_text(f"def {name}():\n    return 1\n")
    sources = open_source("code", [tmp_path / "src"])
    origin = (str(tmp_path / "src"),)
    build(tmp_path / "home", "code", "code", sources, HashEncoder(), origin=origin)
    time.sleep(0.05)
    (tmp_path / "src" / "other.py").write_text("def other():\n    return 2\n")
    with served(tmp_path / "home") as address:
        shown(tab, f"{address}#search?query=return")
        stale = "[...document.querySelectorAll('.hit')].map(one => [one.dataset.hit, !!one.querySelector('.stale')])"
        assert dict(tab.run(stale)) == {"other.py::other": True, "same.py::same": False}


BUILDING = """
window.listed = [{name: "docs", kind: "reference", state: "building", building: {stage: "waiting", done: 0}},
                 {name: "src", kind: "code", state: "building", building: {stage: "read", done: 4096}}];
window.real = window.real ?? window.fetch;
window.fetch = (path, ...rest) => path === "corpora"
  ? Promise.resolve(new Response(JSON.stringify({corpora: window.listed}))) : window.real(path, ...rest);
null
"""


def test_building_corpora_are_shown_until_they_arrive(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#corpora")
    tab.run(BUILDING)
    tab.run("location.hash = '#ask'")
    tab.until("document.querySelector('.view.ask .soon')")
    tab.run("location.hash = '#search'")
    tab.until("document.querySelector('.view.search .soon')")
    pills = ".view.search .chooser label"
    assert tab.texts(pills) == ["docs\nwaiting", "src\nreading 4,096"]
    assert tab.run("document.querySelector('.view.search .chooser input:checked')") is None
    assert "reading docs, src" in tab.texts(".view.search .soon")[0]

    tab.run(
        "window.listed[1] = {name: 'src', kind: 'code', state: 'serving', documents: 9, "
        "building: {stage: 'encode', done: 45, total: 100, remaining_s: 7, encoder: 'better'}}, null"
    )
    tab.until("document.querySelector('.view.search .chooser input:checked')?.value === 'src'")
    tab.until("!document.querySelector('.view.search .soon')")
    assert tab.texts(pills) == ["docs\nwaiting", "src\n9 functions, encoding 45 %"]

    tab.run("location.hash = '#corpora'")
    tab.until("document.querySelectorAll('.stock-card').length === 2")
    assert tab.texts(".state") == ["building", "serving"]
    tab.run("document.querySelector('.stock-card .open').focus()")
    tab.run("window.listed = window.listed.slice(1), window.listed[0].building = undefined, null")
    tab.until("document.querySelectorAll('.stock-card').length === 1")
    assert tab.run("document.activeElement.className") == "open"


@pytest.mark.parametrize(
    ("view", "heading", "kinds", "arrival"),
    [
        ("search", "Nothing to search yet", ["code", "product", "reference"], ".chooser :checked"),
        ("ask", "No reference to ask yet", ["reference"], ".chooser :checked"),
        ("corpora", "Nothing to search yet", ["code", "product", "reference"], ".stock-card"),
    ],
)
def test_first_corpus_appears_by_itself(
    tmp_path: Path, tab: Tab, view: str, heading: str, kinds: list[str], arrival: str
) -> None:
    with served(tmp_path) as address:
        shown(tab, f"{address}#{view}")
        assert tab.texts(".empty h2") == [heading]
        commands = tab.texts(".empty pre")[0].splitlines()
        assert commands == [f"purlin index build {kind} PATH --name NAME" for kind in kinds]
        make(tmp_path, "many", numbered(3), HashEncoder(), "reference")
        tab.until(f"document.querySelector('{arrival}') && !document.querySelector('.empty')")


def test_refused_corpora_alone_are_named(tmp_path: Path, tab: Tab) -> None:
    build = make(tmp_path, "torn", FUNCTIONS, HashEncoder())
    (build / "base" / "documents.bin").write_bytes(b"torn")
    with served(tmp_path) as address:
        shown(tab, address)
        assert tab.texts(".empty p") == ["The server cannot use torn. See why"]
        tab.click(".empty a")
        tab.until("document.querySelector('[data-name=torn] .notice')")


def test_answers_are_marked_in_their_passages(home: Path, tab: Tab, reader_directory: Path) -> None:
    question = "What is the default step of range?"
    with served(home, reader=reader_directory) as address:
        reply = httpx.post(f"{address}qa", json={"question": question, "corpus": "library"}).json()
        shown(tab, f"{address}#ask?corpus=library&question={question}")
        assert [text.strip() for text in tab.texts(".answer h3")] == [
            answer["text"].strip() for answer in reply["answers"]
        ]
        for number, answer in enumerate(reply["answers"]):
            marked = f"[...document.querySelectorAll('.answer')][{number}].querySelectorAll('mark')"
            assert (
                tab.run(f"[...{marked}].map(one => one.textContent).join('')").split()
                == answer["text"].split()
            )
        assert (
            [text.split() for text in tab.texts(".answer .says")]
            == [
                answer["sentence"]["text"].split()
                for answer in reply["answers"]
                if answer.get("sentence") and answer["sentence"]["text"] != answer["text"]
            ]
            != []
        )
        # Only the best answer's passage is unfolded; the others have their sentence.
        folded = "[...document.querySelectorAll('.answer')].map(one => !!one.querySelector('details:not([open]) mark'))"
        sentences = [bool(answer.get("sentence")) for answer in reply["answers"]]
        assert tab.run(folded) == [False, *sentences[1:]]

        links = tab.run("[...document.querySelectorAll('.answer a')].map(one => one.href)")
        assert links == [answer["url"] for answer in reply["answers"] if answer.get("url")] != []
        assert tab.texts(".answer a") == [
            f"Read it at {link.removeprefix('https://')}" for link in links
        ]
        assert f"{round(reply['answerable'] * 100)} %" in tab.texts(".verdict")[0]
        likelihood, best = tab.texts(".verdict h2")[0], tab.texts(".answer h3")[0]
        assert tab.texts("#said")[0].split() == f"{likelihood}: {best}".split()


def test_reference_without_an_address_has_no_dead_links(tmp_path: Path, tab: Tab) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "functions.html").write_text(REFERENCE_PAGE)
    sources = open_source("reference", [tmp_path / "pages"])
    build(tmp_path / "home", "library", "reference", sources, HashEncoder())
    with served(tmp_path / "home") as address:
        shown(tab, f"{address}#search?corpus=library&query=close+the+file")
        assert tab.texts(".hit .path")[0] == "functions.html"
        assert tab.run("document.querySelectorAll('main a[target]').length") == 0


def test_ask_falls_back_to_search_without_a_reader(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#ask?corpus=library&question=close+the+file")
    assert "This server has no reader" in tab.texts(".no-reader")[0]
    assert tab.texts(".no-reader code") == ["purlin train refqa"]
    assert tab.texts(".hit h3")[0] == "close(file)"
    link = tab.run(
        "document.querySelector('.hit h3 a').href + ' ' + document.querySelector('.hit h3 a').rel"
    )
    assert link == "https://example.org/functions.html#close noopener noreferrer"


def test_classification_is_kept_in_the_address(site: str, tab: Tab) -> None:
    body = {"texts": ["sort the numbers", "fetch a page"], "labels": ["page fetching", "sort"]}
    shown(tab, site)
    tab.run("location.hash = '#classify'")
    tab.until("document.querySelector('#texts')")
    for field, lines in (("texts", body["texts"]), ("labels", body["labels"])):
        tab.run(f"document.querySelector('#{field}').focus()")
        tab.type("\n".join(lines))
    tab.press("Enter", modifiers=2)
    tab.until("document.querySelector('.classified')")
    results = httpx.post(f"{site}classify", json=body).json()["results"]
    assert tab.texts(".classified .text") == body["texts"]
    assert tab.texts(".classified .best .name") == [entry["label"] for entry in results]
    shares = tab.run(
        "[...document.querySelectorAll('.classified .bar')].map(one => +one.style.getPropertyValue('--share'))"
    )
    assert shares == [entry["score"] for result in results for entry in result["ranking"]]
    address, before = tab.run("location.href"), tab.texts(".classified")
    shown(tab, address)
    assert tab.texts(".classified") == before
    tab.click(".example")
    tab.until("document.querySelectorAll('.classified li.card').length === 4")
    tab.click("nav a[href='#corpora']")
    tab.until("document.querySelector('.stock-card')")
    tab.click("nav a[href^='#classify']")
    tab.until("document.querySelectorAll('.classified li.card').length === 4")
    assert "dough" in tab.run("document.querySelector('#texts').value")


def test_labels_are_copied_as_a_table(site: str, tab: Tab) -> None:
    texts = ["sort the numbers", "fetch a\tpage", "sort pages", "fetch numbers"]
    body = {"texts": texts, "labels": ["page fetching", "sort"]}
    results = httpx.post(f"{site}classify", json=body).json()["results"]
    tab.look(360, 740)
    tab.open(f"{site}#classify")
    tab.until("document.querySelector('#texts')")
    tab.run("document.querySelector('#texts').value = " + json.dumps("\n".join(texts)))
    tab.run("document.querySelector('#labels').value = 'page fetching, sort'")
    tab.click(".classify-form [type=submit]")
    tab.until("document.querySelector('.classified')")
    # They are below the form, which fills a small window.
    tab.until("document.querySelector('.summary').getBoundingClientRect().top < innerHeight / 2")

    tab.run("navigator.clipboard.writeText = async (text) => (window.copied = text), null")
    tab.click(".summary .copy")
    tab.until("document.querySelector('#said').textContent === 'Copied.'")
    assert tab.run("copied").split("\n") == [
        f"{text.expandtabs(1)}\t{result['label']}\t{result['score']}"
        for text, result in zip(texts, results, strict=True)
    ]


def test_texts_decide_together(site: str, tab: Tab) -> None:
    texts = ["sort the numbers", "fetch a page", "sort pages", "fetch numbers"]
    body = {"texts": texts, "labels": ["page fetching", "sort"], "transductive": True}
    shown(tab, site)
    tab.run("location.hash = '#classify'")
    tab.until("document.querySelector('#texts')")
    tab.run("document.querySelector('#texts').value = " + json.dumps("\n".join(texts)))
    tab.run("document.querySelector('#labels').value = 'page fetching, sort'")
    tab.click("#together")
    assert tab.run("document.querySelector('#several').disabled")
    tab.run("document.querySelector('.classify-form').requestSubmit()")
    tab.until("document.querySelector('.classified')")

    results = httpx.post(f"{site}classify", json=body).json()["results"]
    shares = "[...document.querySelectorAll('.classified .bar')].map(one => +one.style.getPropertyValue('--share'))"
    scores = [entry["score"] for result in results for entry in result["ranking"]]
    assert tab.run(shares) == scores

    address = tab.run("location.href")
    assert "together=1" in address
    shown(tab, address)
    tab.until("document.querySelector('.classified')")
    assert tab.run("document.querySelector('#together').checked")
    assert tab.run(shares) == scores

    tab.click("#together")
    tab.click("#several")
    assert tab.run("document.querySelector('#together').disabled")


def test_all_labels_that_fit_are_marked(site: str, tab: Tab) -> None:
    body = {
        "texts": ["this text is about sort"],
        "labels": ["sort", "text", "queue"],
        "multi_label": True,
    }
    (result,) = httpx.post(f"{site}classify", json=body).json()["results"]
    assert set(result["labels"]) == {"sort", "text"}

    shown(tab, f"{site}#classify?labels=sort,text,queue&texts=this+text+is+about+sort&several=1")
    tab.until("document.querySelector('.classified')")
    assert tab.texts(".classified .best .name") == result["labels"]


def test_trained_classifier_is_chosen_by_name(tmp_path: Path, tab: Tab) -> None:
    publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
    with served(tmp_path) as address:
        shown(tab, f"{address}#corpora")
        assert tab.texts(".empty h2") == ["Nothing to search yet"]
        assert tab.texts(".stock-card h3") == ["tickets"]
        tab.click(".stock-card .open")
        tab.until("document.querySelector('#classifier')?.value === 'tickets'")
        assert not tab.run("document.querySelector('#labels').checkVisibility()")
        assert tab.run("document.querySelectorAll('.check input:disabled').length") == 2
        tab.run("document.querySelector('#texts').focus()")
        tab.type("business\nsports")
        tab.press("Enter", modifiers=2)
        tab.until("document.querySelector('.classified')")
        assert tab.texts(".classified .best .name") == ["business", "sports"]


def test_address_with_labels_ignores_the_classifier(tmp_path: Path, tab: Tab) -> None:
    publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
    with served(tmp_path) as address:
        shown(tab, f"{address}#classify?classifier=tickets&texts=sports")
        tab.until("document.querySelector('.classified')")
        tab.run("location.hash = '#classify?labels=fast,slow&texts=hello&several=1'")
        tab.until("document.querySelector('.classified .text')?.innerText === 'hello'")
        assert set(tab.texts(".classified .name")) == {"fast", "slow"}
        assert "labels=fast" in tab.run("location.hash")
        assert tab.run("document.querySelector('#several').checked")


def test_refused_corpus_shows_the_reason(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "good", FUNCTIONS, HashEncoder())
    (make(tmp_path, "torn", FUNCTIONS, HashEncoder()) / "base" / "documents.bin").write_bytes(
        b"torn"
    )
    with served(tmp_path) as address:
        shown(tab, f"{address}#corpora")
        assert dict(zip(tab.texts(".stock-card h3"), tab.texts(".state"), strict=True)) == {
            "good": "serving",
            "torn": "refused",
        }
        assert "documents.bin" in tab.texts("[data-name=torn] .notice")[0]
        shown(tab, f"{address}#search?corpus=torn&query=sort")
        assert tab.texts(".problem h2") == ["This needs the operator's attention"]
        assert tab.run(
            "[...document.querySelectorAll('.chooser input')].map(one => one.disabled)"
        ) == [False, True]


def test_corpora_show_their_state(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#corpora")
    assert tab.texts(".stock-card h3") == ["code", "lamps", "library"]
    assert tab.texts(".state") == ["serving"] * 3
    about = httpx.get(f"{site}corpora/code").json()
    assert f"{len(CODE)} functions" in tab.texts(".stock-card header")[0]
    assert not tab.run(
        "document.querySelector('.measures').checkVisibility({ contentVisibilityAuto: true })"
    )
    tab.click(".stock-card summary")
    assert about["build"] in tab.texts(".stock-card")[0].replace("\n", "")
    assert (
        tab.run("document.querySelector('svg.measure').getAttribute('aria-label')")
        == "dense recall@100: 1.000"
    )
    until(lambda: "stale" in httpx.get(f"{site}corpora/library").json())
    shown(tab, site)
    shown(tab, f"{site}#corpora")
    (facts,) = tab.texts("[data-name=library] > .facts")
    assert "Sources\npages" in facts
    assert "Since then\nnothing changed" in facts
    assert "Judged by\n1 query, nDCG@10" in facts
    assert (
        tab.run("document.querySelectorAll('[data-name=library] svg.measure .interval').length")
        == 3
    )
    tab.click(".stock-card .open")
    tab.until(
        "document.querySelector('.view.search:not([hidden]) .chooser input:checked')?.value === 'code'"
    )


def test_details_of_a_build_are_requested_once(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "code", FUNCTIONS, HashEncoder())
    with served(tmp_path) as address:
        shown(tab, address)
        (corpus,) = httpx.get(f"{address}corpora").json()["corpora"]
        tab.run(BUILDING)
        progress = {"stage": "encode", "done": 45, "total": 100}
        tab.run(f"window.listed = [{json.dumps(corpus | {'building': progress})}], null")
        tab.requests.clear()
        tab.run("location.hash = '#corpora'")
        tab.until("document.querySelector('.measure')")
        tab.click(".stock-card summary")
        tab.run("window.listed[0].building.done = 55, null")
        tab.until("document.querySelector('.facts')?.innerText.includes('encoding 55 %')")
        assert tab.texts(".stock-card details[open] .measures dd") == ["1.000"]
        assert tab.requests.count(f"{address}corpora/code") == 1


def test_measures_are_drawn_with_intervals(site: str, tab: Tab) -> None:
    shown(tab, site)
    measures = {
        "MRR@100": {"mean": 0.545, "low": 0.509, "high": 0.579, "queries": 500},
        "dense": [{"name": "nDCG@10", "mean": 0.5, "low": 0.4, "high": 0.6}],
        "check": {"halves": 0.25, "deep": {"er": 0.125}},
        "texts": 12345,
        "nearly": 0.99999,
        "note": "none",
    }
    flat = on_page(tab, "chart.js", f"m.flat({json.dumps(measures)})")
    assert [each["name"] for each in flat] == [
        "MRR@100", "dense, nDCG@10", "check, halves", "check, deep, er", "texts", "nearly",
    ]  # fmt: skip
    drawn = on_page(
        tab,
        "chart.js",
        f"[...m.measureTable({json.dumps(measures)}).querySelectorAll('dd')].map("
        "one => [one.innerText, one.querySelector('.interval')?.getAttribute('x'), "
        "one.querySelector('.interval')?.getAttribute('width')])",
    )
    assert drawn[0] == ["0.545 (0.509–0.579)", "50.90%", "7.00%"]
    assert drawn[1] == ["0.500 (0.400–0.600)", "40.00%", "20.00%"]
    assert [cells[0] for cells in drawn[2:]] == ["0.250", "0.125", "12,345", "> 0.999"]
    assert (
        on_page(tab, "chart.js", "[null, [], {}, 'x', 3].map((one) => m.measureTable(one))")
        == [None] * 5
    )


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
        tab.run("location.hash = '#corpora'")
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


@pytest.mark.parametrize(
    ("following", "there"),
    [
        ("#corpora", "document.querySelector('.view.corpora:not([hidden])')"),
        ("#classify?labels=c,d&texts=next", "document.querySelector('#texts').value === 'next'"),
    ],
)
def test_navigation_cancels_a_pending_view(site: str, tab: Tab, following: str, there: str) -> None:
    shown(tab, f"{site}#search")
    held = "{ ok: true, json: async () => ({ classifiers: [], results: [] }) }"
    tab.run(
        f"window.fetch = () => new Promise((release) => (window.release = () => release({held}))), null"
    )
    tab.run("location.hash = '#classify?labels=a,b&texts=left'")
    tab.until("window.release")
    # The awaited reply arrives after the address has changed, but before that event.
    tab.run(f"location.hash = {json.dumps(following)}, window.release()")
    tab.until(there)
    assert tab.run("location.hash") == following


def hold(tab: Tab, path: str) -> None:
    """From now on requests to `path` wait for `held.splice(0).forEach(go => go())`."""
    tab.run(
        "(real => { window.held = []; window.fetch = (path, options) => path !== "
        f"{json.dumps(path)} ? real(path, options) : new Promise((done, failed) => {{ const {{ signal }} = options;"
        "signal?.addEventListener('abort', () => failed(new DOMException('', 'AbortError')));"
        "window.held.push(() => signal?.aborted || done(real(path, options))); }); })(window.fetch)"
    )


def let_go(tab: Tab) -> None:
    tab.run("held.splice(0).forEach(go => go())")


@pytest.fixture
def far(tmp_path: Path, tab: Tab) -> Iterator[Tab]:
    """A search whose further hits must be requested."""
    make(tmp_path, "many", numbered(120), HashEncoder(), "reference")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=many&query=number")
        tab.run(
            "while (document.querySelectorAll('.hit').length < 50) document.querySelector('.more').click()"
        )
        hold(tab, "search")
        yield tab


def test_loading_more_does_not_block_the_next_search(far: Tab) -> None:
    far.run("location.hash = '#search?corpus=many&query=number+of'")
    far.until("held.length")
    far.click(".more")
    let_go(far)
    far.until(
        "document.querySelectorAll('.hit').length === 10 && !document.querySelector('[aria-busy]')"
    )


def test_hits_stay_if_further_ones_cannot_be_loaded(far: Tab) -> None:
    far.run("window.there = window.fetch, window.fetch = () => Promise.reject(new TypeError())")
    far.click(".more")
    far.until("document.querySelector('.missed .problem')")
    assert len(far.texts(".hit")) == 50
    far.run("window.fetch = window.there")
    far.click(".problem button")
    far.until("held.length")
    let_go(far)
    far.until("document.querySelectorAll('.hit').length === 60")
    assert not far.texts(".problem")


def test_late_hits_do_not_steal_the_focus(far: Tab) -> None:
    far.click(".more")
    far.until("held.length")
    far.run("document.querySelector('input[type=search]').focus()")
    let_go(far)
    far.until("document.querySelectorAll('.hit').length === 60")
    assert far.run("document.activeElement.type") == "search"
    far.run(
        "while (document.querySelectorAll('.hit').length < 100) document.querySelector('.more').click()"
    )
    far.run("document.querySelector('.more').focus()")
    far.click(".more")
    far.until("held.length")
    let_go(far)
    far.until("document.querySelectorAll('.hit').length > 100")
    assert far.run("document.activeElement === document.querySelectorAll('.hit')[100]")


def test_changing_corpus_without_a_query_clears_hits(site: str, tab: Tab) -> None:
    for view, path in (
        ("search?corpus=library&query", "search"),
        ("ask?corpus=library&question", "qa"),
    ):
        shown(tab, site)
        hold(tab, path)
        tab.run(f"location.hash = '#{view}=range'")
        tab.until("held.length")
        tab.run("document.querySelector('.view:not([hidden]) [type=search]').value = ''")
        tab.run(
            "document.querySelector('.view:not([hidden]) :checked').dispatchEvent(new Event('change'))"
        )
        tab.until("!document.querySelector('[aria-busy]')")
        let_go(tab)
        time.sleep(0.3)
        assert tab.run("document.querySelector('.view:not([hidden]) .hit') === null")


def test_empty_view_sends_no_request(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#ask?corpus=library&question=close")
    hold(tab, "qa")
    tab.run("location.hash = '#ask?corpus=library&question=range'")
    tab.until("held.length")
    tab.run("location.hash = '#ask'")
    tab.until("!document.querySelector('.view.ask .no-reader')")
    assert tab.run("document.querySelector('[aria-busy]') === null")


def test_long_texts_are_classified_in_the_background(site: str, tab: Tab) -> None:
    shown(tab, site)
    tab.run("location.hash = '#classify'")
    tab.until("document.querySelector('#texts')")
    hold(tab, "classify")
    tab.run(
        "document.querySelector('#texts').value = 'long '.repeat(500), document.querySelector('#labels').value = 'a,b'"
    )
    tab.run("document.querySelector('.classify-form').requestSubmit()")
    tab.until("held.length")
    tab.run("location.hash = '#corpora'")
    tab.until("document.querySelector('.stock-card')")
    tab.run("location.hash = '#classify'")
    tab.until("document.querySelector('.view.classify:not([hidden])')")
    let_go(tab)
    tab.until("document.querySelector('.classified') && !document.querySelector('[aria-busy]')")


def test_choosing_a_corpus_keeps_the_focus(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=code&query=sort")
    tab.run("document.querySelector('.chooser input:checked').focus()")
    for name in ("lamps", "library"):
        tab.press("ArrowDown")
        tab.until(f"location.hash.includes('{name}')")
        tab.until(IDLE)
        tab.until(f"document.activeElement.value === '{name}'")


def test_the_focus_goes_along_to_the_corpus_of_the_address(site: str, tab: Tab) -> None:
    """Else the arrow keys would go on from a corpus that is no longer chosen."""
    shown(tab, f"{site}#search?corpus=code&query=sort")
    tab.run("document.querySelector('.chooser input:checked').focus()")
    tab.run("location.hash = '#search?corpus=library&query=sort'")
    tab.until("document.querySelector('.chooser input:checked').value === 'library'")
    tab.until("document.activeElement.value === 'library'")


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
    tab.run("location.hash = '#search?corpus=code&query=x'")
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


def test_dark_and_light(site: str, tab: Tab) -> None:
    def paper() -> str:
        return str(tab.run("getComputedStyle(document.body).backgroundColor"))

    shown(tab, site)
    light = paper()
    tab.look(dark=True)
    dark = paper()
    assert light != dark
    tab.click("#theme-button")
    assert paper() == light
    shown(tab, site)
    assert paper() == light
    tab.click("#theme-button")
    assert paper() == dark
    assert tab.run("localStorage.length") == 0
    tab.look(dark=False)
    assert paper() == light


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_the_window(site: str, tab: Tab, width: int) -> None:
    tab.look(width, 740)
    addresses = [
        "",
        "#search?corpus=code&query=walk+evil",
        "#search?corpus=lamps&query=lamp",
        "#search?corpus=library&query=range",
        "#ask?corpus=library&question=range",
        f"#classify?labels=a,b&texts={'x' * 200}",
        "#corpora",
        "#search?corpus=none&query=x",
    ]
    for address in addresses:
        shown(tab, site + address)
        assert tab.run("document.documentElement.scrollWidth") <= width, address


def test_every_control_has_a_name(site: str, tab: Tab) -> None:
    for address in (
        "#search?corpus=lamps&query=lamp",
        "#ask",
        "#classify?labels=a,b&texts=x",
        "#corpora",
    ):
        tab.open(site + address)
        tab.until("document.querySelector('.view')")
        nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
        roles = {
            "button",
            "link",
            "textbox",
            "searchbox",
            "combobox",
            "checkbox",
            "radio",
            "spinbutton",
            "img",
        }
        controls = [
            node for node in nodes if not node["ignored"] and node["role"]["value"] in roles
        ]
        assert len(controls) > 8
        assert [node for node in controls if not node.get("name", {}).get("value")] == []


def test_prints_whole_hits_in_dark_ink(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp")
    tab.look(dark=True)
    tab.run("document.documentElement.dataset.theme = 'dark'")
    assert tab.texts(".facets")[0]
    tab.call("Emulation.setEmulatedMedia", media="print")
    hits = "document.querySelector('.hits').offsetWidth / document.querySelector('.results').offsetWidth"
    assert tab.run(hits) == 1
    assert tab.run("getComputedStyle(document.body).color") == "rgb(30, 35, 39)"
    for hidden in (".facets", ".ask-form button", "footer"):
        assert not tab.run(f"document.querySelector('{hidden}').checkVisibility()"), hidden
    # What was asked is on the paper, too.
    assert tab.run("document.querySelector('.ask-form input').checkVisibility()")
    tab.call("Emulation.setEmulatedMedia", media="")


def test_texts_run_in_their_own_direction(tmp_path: Path, tab: Tab) -> None:
    lamp = Document(id="l", kind="product", title="מנורת קריאה", body="מנורה לקריאה, with USB-C.")
    make(tmp_path, "lamps", [lamp], HashEncoder(), "product")
    code = Document(
        id="c", kind="code", title="מיין", body="def מיין(רשימה):\n    return רשימה",
        fields={"language": "python"},
    )  # fmt: skip
    make(tmp_path, "code", [code], HashEncoder())
    left = """((words) => { const range = document.createRange();
      const node = document.createTreeWalker(document.querySelector('.hit'), NodeFilter.SHOW_TEXT);
      while (node.nextNode()) {
        const at = node.currentNode.data.indexOf(words);
        if (at < 0) continue;
        range.setStart(node.currentNode, at), range.setEnd(node.currentNode, at + words.length);
        return range.getBoundingClientRect().left;
      } })"""
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=lamps&query=מנורה")
        assert tab.run("getComputedStyle(document.querySelector('[type=search]')).direction") == (
            "rtl"
        )
        assert tab.run(f"{left}('with USB-C') < {left}('לקריאה')")
        shown(tab, f"{address}#search?corpus=code&query=מיין")
        assert tab.run(f"{left}('מיין') < {left}('רשימה')")


# The texts with a contrast below that of WCAG 1.4.3; what is disabled is exempt.
PALE = """(() => {
  const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const painted = (colours) => {
    colours.forEach((colour) => { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); });
    return context.getImageData(0, 0, 1, 1).data;
  };
  const luminance = (pixel) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
    const share = pixel[i] / 255;
    return sum + weight * (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4);
  }, 0);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const pale = [];
  while (texts.nextNode()) {
    const around = [];
    for (let node = texts.currentNode.parentElement; node; node = node.parentElement) around.unshift(node);
    const own = around.at(-1);
    const exempt = own.closest('dialog, .unseen, .skip, .copy, noscript, :disabled + span');
    if (exempt || !texts.currentNode.data.trim() || !own.checkVisibility()) continue;
    const styles = around.map((node) => getComputedStyle(node));
    const ground = ['#fff', ...styles.map((style) => style.backgroundColor)];
    const opacity = styles.reduce((product, style) => product * style.opacity, 1);
    const behind = luminance(painted(ground));
    context.globalAlpha = 1;
    painted(ground);
    context.globalAlpha = opacity;
    const ink = luminance(painted([styles.at(-1).color]));
    context.globalAlpha = 1;
    const contrast = (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
    const large = parseFloat(styles.at(-1).fontSize) >= 24;
    if (contrast < (large ? 3 : 4.5)) pale.push([texts.currentNode.data, contrast]);
  }
  return pale;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_texts_have_enough_contrast(site: str, tab: Tab, dark: bool) -> None:
    tab.look(dark=dark)
    for address in (
        "",
        "#search?corpus=code&query=walk+evil",
        "#search?corpus=lamps&query=lamp&filter=%7B%22colour%22%3A%22blue%22%7D",
        "#ask?corpus=library&question=range",
        "#corpora",
    ):
        shown(tab, site + address)
        assert tab.run(PALE) == [], address


HEADINGS = """[...document.querySelectorAll('h1, h2, h3, h4')]
  .filter((heading) => heading.checkVisibility() && !heading.closest('dialog'))
  .map((heading) => +heading.tagName.slice(1))"""


@pytest.mark.parametrize(
    ("address", "title"),
    [
        ("", "Purlin"),
        ("#search?corpus=lamps&query=lamp", "lamp · Purlin"),
        ("#search?corpus=none&query=lamp", "lamp · Purlin"),
        ("#ask?corpus=library&question=range", "range · Purlin"),
        ("#classify?labels=a,b&texts=x", "Classify · Purlin"),
        ("#corpora", "Corpora · Purlin"),
    ],
)
def test_title_and_headings_name_what_is_shown(
    site: str, tab: Tab, address: str, title: str
) -> None:
    shown(tab, site + address)
    assert tab.run("document.title") == title
    levels = tab.run(HEADINGS)
    assert levels[0] == 1
    assert all(level <= above + 1 for above, level in pairwise(levels))


def test_focus_stays_in_results_that_are_replaced(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp&filter=%7B%22colour%22%3A%22blue%22%7D")
    tab.run("document.querySelector('.condition').focus()")
    tab.press("Enter")
    tab.until("!document.querySelector('.condition')")
    assert tab.run("document.activeElement === document.querySelector('.results h2')")
    assert tab.texts("#said") == tab.texts(".overview h2")


def test_waiting_is_shown_and_announced(site: str, tab: Tab) -> None:
    shown(tab, site)
    hold(tab, "search")
    tab.run("location.hash = '#search?corpus=code&query=sort'")
    tab.until("document.querySelector('#said').textContent === 'Waiting for the server.'")
    assert tab.texts(".results") != ["Waiting for the server."]  # what was there stays
    moving = "getComputedStyle(document.querySelector('.results'), '::before').animationName"
    assert tab.run(moving) == "waiting"
    let_go(tab)
    tab.until(IDLE)


def test_slow_server_is_waited_for_visibly(site: str, tab: Tab) -> None:
    """Also by those who come first, before there is anything to see."""
    tab.open(f"{site}#classify")
    tab.until("document.querySelector('#texts')")
    hold(tab, "corpora")
    tab.run("location.hash = '#search'")
    tab.until(
        "document.querySelector('.view.search .waiting')?.innerText === 'Waiting for the server.'"
    )
    let_go(tab)
    tab.until("document.querySelector('.view.search .cards')")
    assert not tab.run("document.querySelector('.waiting, [aria-busy]')")


def test_hits_without_a_score_are_left_out(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "code", FUNCTIONS, HashEncoder())
    with served(tmp_path) as address:
        reply = httpx.post(
            f"{address}search", json={"corpus": "code", "query": "fetch page"}
        ).json()
        scores = [round(hit["score"], 2) for hit in reply["hits"]]
        assert scores[0] > scores[-1] == 0
        shown(tab, f"{address}#search?corpus=code&query=fetch+page")
        assert len(tab.texts(".hit")) == sum(score > 0 for score in scores)
        assert tab.run("document.querySelector('.more').hidden")


def test_more_hits_are_loaded_on_request(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "many", numbered(120), HashEncoder(), "reference")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=many&query=number")
        total = searched(address, corpus="many", query="number")["total"]
        for count in range(20, total + 10, 10):
            tab.click(".more")
            tab.until(f"document.querySelectorAll('.hit').length === {min(count, total)}")
        assert tab.run("document.querySelector('.more').hidden")
        assert (
            len(set(tab.run("[...document.querySelectorAll('.hit')].map(one => one.dataset.hit)")))
            == total
        )


# ---- modules by themselves

LANGUAGES = {
    "garden.rb": "ruby", "router.js": "javascript", "queue.ts": "typescript", "badge.tsx": "tsx",
    "Ledger.java": "java", "shelf.py": "python", "mailer.php": "php", "ring.go": "go",
}  # fmt: skip


@pytest.mark.parametrize("name", LANGUAGES)
def test_code_of_every_language_is_coloured(name: str) -> None:
    text = (DATA / "code" / name).read_text()
    tokens = evaluated("syntax.js", f"m.tokens({json.dumps(text)}, '{LANGUAGES[name]}')")
    ends = [0, *(token["end"] for token in tokens)]
    assert all(
        end <= token["start"] < token["end"] for end, token in zip(ends, tokens, strict=False)
    )
    kinds = {token["kind"] for token in tokens}
    assert {"keyword", "string"} <= kinds <= {
        "keyword", "string", "comment", "number", "constant", "function", "type", "decorator",
    }  # fmt: skip
    keywords = {
        text[token["start"] : token["end"]] for token in tokens if token["kind"] == "keyword"
    }
    assert keywords & {"def", "function", "func", "class", "return", "public"}


@pytest.mark.parametrize(
    "piece", ['"', "'", "/*", "`", '"""', "\\", "0", "a", "@", "#", "//", "\n", "🎉", "0x", "r'''"]
)
def test_crafted_code_is_coloured_quickly(piece: str) -> None:
    text = f"{json.dumps(piece)}.repeat(20000)"
    script = f"['python', 'php', 'java', 'tsx', 'go'].map(one => m.tokens({text}, one).length)"
    assert len(evaluated("syntax.js", script)) == 5


def test_code_of_an_unknown_language_has_no_colours() -> None:
    assert evaluated("syntax.js", "m.tokens('def f(): pass', 'constructor')") == []


def test_code_point_offsets_become_string_offsets() -> None:
    text = "a🎉b🎉🎉c"
    spans = [[5, 6], [0, 1], [2, 3], [3, 5], [6, 9]]
    pieces = evaluated(
        "marks.js",
        f"m.unitSpans({json.dumps(text)}, {spans}).map(s => {json.dumps(text)}.slice(s.start, s.end))",
    )
    assert pieces == ["a", "b", "🎉🎉", "c", ""]
    cut = evaluated(
        "marks.js",
        "m.pieces('ab\\ncd', 0, 5, [{start: 1, end: 4, kind: 'string'}], [{start: 0, end: 2}])",
    )
    assert [(span["start"], span["end"], span.get("kind"), span["marked"]) for span in cut] == [
        (0, 1, None, True),
        (1, 2, "string", True),
        (2, 3, "string", False),
        (3, 4, "string", False),
        (4, 5, None, False),
    ]


@pytest.mark.parametrize(
    ("choice", "kinds"),
    [
        ("shop", ["product"]),
        ("shop,src", ["product", "code"]),
        ("kind:product", ["product"]),
        ("src", ["code"]),
        ("new", [None]),
        ("unknown", []),
        ("", []),
    ],
)
def test_a_choice_of_corpora_has_their_kinds(choice: str, kinds: list[str | None]) -> None:
    known = [
        {"name": "shop", "kind": "product"},
        {"name": "src", "kind": "code"},
        {"name": "new", "kind": None},
    ]
    expression = f"m.kindsOf({json.dumps(choice)}, {json.dumps(known)})"
    assert evaluated("chooser.js", expression) == kinds


def test_common_indentation_is_removed() -> None:
    definitions = [definition for definition, _ in INDENTED]
    assert evaluated("code.js", f"{json.dumps(definitions)}.map((code) => m.surplus(...code))") == [
        surplus for _, surplus in INDENTED
    ]


def test_labels_of_fields_have_no_units() -> None:
    names = {
        "attrs.power_w": ["Power", "W"],
        "Weight (kg)": ["Weight", "kg"],
        "discount [%]": ["Discount", "%"],
        "attrs.screen_size_inches": ["Screen size", "inches"],
        "attrs.usb_socket": ["Usb socket", ""],
        "w": ["W", ""],
    }
    read = evaluated(
        "fields.js",
        f"{json.dumps(list(names))}.map((name) => Object.values(m.reading(name, true)))",
    )
    assert dict(zip(names, read, strict=True)) == names
    assert evaluated("fields.js", "m.reading('built_in', false).label") == "Built in"
