"""A search by keyboard, its address, and what is shown while the server works."""

from __future__ import annotations

import json

import pytest

from tests.support.browser import Tab
from tests.support.pages import IDLE, hold, let_go, searched, shown


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


def test_corrected_query_is_shown_above_the_hits(site: str, tab: Tab) -> None:
    assert searched(site, corpus="lamps", query="whitte lamp")["corrected"] == "white lamp"
    shown(tab, f"{site}#search?corpus=lamps&query=whitte+lamp")
    assert "Searched for “white lamp”." in tab.texts(".results > p")
    assert tab.run("document.querySelector('.hits').offsetWidth") > 700
    assert tab.run("document.querySelector('.facets').offsetWidth") < 300


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
    tab.go("#classify?labels=a,b&texts=left")
    tab.until("window.release")
    # The awaited reply arrives after the address has changed, but before that event.
    tab.run(f"location.hash = {json.dumps(following)}, window.release()")
    tab.until(there)
    assert tab.run("location.hash") == following


def test_waiting_is_shown_and_announced(site: str, tab: Tab) -> None:
    shown(tab, site)
    hold(tab, "search")
    tab.go("#search?corpus=code&query=sort")
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
    tab.go("#search")
    tab.until(
        "document.querySelector('.view.search .waiting')?.innerText === 'Waiting for the server.'"
    )
    let_go(tab)
    tab.until("document.querySelector('.view.search .cards')")
    assert not tab.run("document.querySelector('.waiting, [aria-busy]')")
