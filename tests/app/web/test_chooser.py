"""The corpora to choose from, and those that are still being built."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest

from tests.support.browser import Tab
from tests.support.pages import (
    BUILDING,
    CODE,
    IDLE,
    PRODUCTS,
    hold,
    let_go,
    searched,
    served,
    shown,
)
from tests.support.scripts import evaluated
from tests.support.serving import FUNCTIONS, PATIENTLY, make, numbered, until


def test_several_corpora_are_searched_at_once(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "more", FUNCTIONS)
    make(tmp_path, "code", CODE)
    make(tmp_path, "lamps", PRODUCTS, "product")
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
        make(tmp_path, f"service-{number:02}", FUNCTIONS[:1])
    for name in ("lamps", "shades"):
        make(tmp_path, name, PRODUCTS[:3], "product")
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
    make(tmp_path, "code", FUNCTIONS)
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=code&query=sort")
        make(tmp_path, "lamps", PRODUCTS, "product")
        until(
            lambda: (
                httpx.get(f"{address}corpora/lamps", **PATIENTLY).json().get("state") == "serving"
            )
        )
        tab.go("#search?corpus=lamps&query=lamp")
        tab.until("document.querySelector('.hit.product')")
        assert tab.run("document.querySelector('.chooser :checked').value") == "lamps"


def test_building_corpora_are_shown_until_they_arrive(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#corpora")
    tab.run(BUILDING)
    tab.go("#ask")
    tab.until("document.querySelector('.view.ask .soon')")
    tab.go("#search")
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

    tab.go("#corpora")
    tab.until("document.querySelectorAll('.stock-card').length === 2")
    assert tab.texts(".state") == ["building", "serving"]
    tab.focus(".stock-card .open")
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
        make(tmp_path, "many", numbered(3), "reference")
        tab.until(f"document.querySelector('{arrival}') && !document.querySelector('.empty')")


def test_changing_corpus_without_a_query_clears_hits(site: str, tab: Tab) -> None:
    for view, path in (
        ("search?corpus=library&query", "search"),
        ("ask?corpus=library&question", "qa"),
    ):
        shown(tab, site)
        hold(tab, path)
        tab.go(f"#{view}=range")
        tab.until("held.length")
        tab.run("document.querySelector('.view:not([hidden]) [type=search]').value = ''")
        tab.run(
            "document.querySelector('.view:not([hidden]) :checked').dispatchEvent(new Event('change'))"
        )
        tab.until("!document.querySelector('[aria-busy]')")
        let_go(tab)
        time.sleep(0.3)
        assert tab.run("document.querySelector('.view:not([hidden]) .hit') === null")


def test_choosing_a_corpus_keeps_the_focus(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=code&query=sort")
    tab.focus(".chooser input:checked")
    for name in ("lamps", "library"):
        tab.press("ArrowDown")
        tab.until(f"location.hash.includes('{name}')")
        tab.until(IDLE)
        tab.until(f"document.activeElement.value === '{name}'")


def test_the_focus_goes_along_to_the_corpus_of_the_address(site: str, tab: Tab) -> None:
    """Else the arrow keys would go on from a corpus that is no longer chosen."""
    shown(tab, f"{site}#search?corpus=code&query=sort")
    tab.focus(".chooser input:checked")
    tab.go("#search?corpus=library&query=sort")
    tab.until("document.querySelector('.chooser input:checked').value === 'library'")
    tab.until("document.activeElement.value === 'library'")


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
    corpora = [
        {"name": "shop", "kind": "product"},
        {"name": "src", "kind": "code"},
        {"name": "new", "kind": None},
    ]
    expression = f"m.kindsOf({json.dumps(choice)}, {json.dumps(corpora)})"
    assert evaluated("chooser.js", expression) == kinds
