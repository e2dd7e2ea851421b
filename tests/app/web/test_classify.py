"""Texts that are classified."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from purlin.index.classify.trained import publish_classifier
from tests.support.browser import Tab
from tests.support.pages import hold, let_go, served, shown
from tests.support.serving import PATIENTLY
from tests.support.tiny import staged


def test_classification_is_kept_in_the_address(site: str, tab: Tab) -> None:
    body = {"texts": ["sort the numbers", "fetch a page"], "labels": ["page fetching", "sort"]}
    shown(tab, site)
    tab.go("#classify")
    tab.until("document.querySelector('#texts')")
    for field, lines in (("texts", body["texts"]), ("labels", body["labels"])):
        tab.run(f"document.querySelector('#{field}').focus()")
        tab.type("\n".join(lines))
    tab.press("Enter", modifiers=2)
    tab.until("document.querySelector('.classified')")
    results = httpx.post(f"{site}classify", json=body, **PATIENTLY).json()["results"]
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
    results = httpx.post(f"{site}classify", json=body, **PATIENTLY).json()["results"]
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
    tab.go("#classify")
    tab.until("document.querySelector('#texts')")
    tab.run("document.querySelector('#texts').value = " + json.dumps("\n".join(texts)))
    tab.run("document.querySelector('#labels').value = 'page fetching, sort'")
    tab.click("#together")
    assert tab.run("document.querySelector('#several').disabled")
    tab.run("document.querySelector('.classify-form').requestSubmit()")
    tab.until("document.querySelector('.classified')")

    results = httpx.post(f"{site}classify", json=body, **PATIENTLY).json()["results"]
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
    (result,) = httpx.post(f"{site}classify", json=body, **PATIENTLY).json()["results"]
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
        tab.focus("#texts")
        tab.type("business\nsports")
        tab.press("Enter", modifiers=2)
        tab.until("document.querySelector('.classified')")
        assert tab.texts(".classified .best .name") == ["business", "sports"]


def test_address_with_labels_ignores_the_classifier(tmp_path: Path, tab: Tab) -> None:
    publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
    with served(tmp_path) as address:
        shown(tab, f"{address}#classify?classifier=tickets&texts=sports")
        tab.until("document.querySelector('.classified')")
        tab.go("#classify?labels=fast,slow&texts=hello&several=1")
        tab.until("document.querySelector('.classified .text')?.innerText === 'hello'")
        assert set(tab.texts(".classified .name")) == {"fast", "slow"}
        assert "labels=fast" in tab.run("location.hash")
        assert tab.run("document.querySelector('#several').checked")


def test_long_texts_are_classified_in_the_background(site: str, tab: Tab) -> None:
    shown(tab, site)
    tab.go("#classify")
    tab.until("document.querySelector('#texts')")
    hold(tab, "classify")
    tab.run(
        "document.querySelector('#texts').value = 'long '.repeat(500), document.querySelector('#labels').value = 'a,b'"
    )
    tab.run("document.querySelector('.classify-form').requestSubmit()")
    tab.until("held.length")
    tab.go("#corpora")
    tab.until("document.querySelector('.stock-card')")
    tab.go("#classify")
    tab.until("document.querySelector('.view.classify:not([hidden])')")
    let_go(tab)
    tab.until("document.querySelector('.classified') && !document.querySelector('[aria-busy]')")
