"""The view of all corpora: their state and measures."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.support.browser import Tab
from tests.support.pages import BUILDING, CODE, on_page, served, shown
from tests.support.serving import FUNCTIONS, PATIENTLY, make, until


def test_refused_corpora_alone_are_named(tmp_path: Path, tab: Tab) -> None:
    build = make(tmp_path, "torn", FUNCTIONS)
    (build / "base" / "documents.bin").write_bytes(b"torn")
    with served(tmp_path) as address:
        shown(tab, address)
        assert tab.texts(".empty p") == ["The server cannot use torn. See why"]
        tab.click(".empty a")
        tab.until("document.querySelector('[data-name=torn] .notice')")


def test_refused_corpus_shows_the_reason(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "good", FUNCTIONS)
    (make(tmp_path, "torn", FUNCTIONS) / "base" / "documents.bin").write_bytes(b"torn")
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
    about = httpx.get(f"{site}corpora/code", **PATIENTLY).json()
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
    until(lambda: "stale" in httpx.get(f"{site}corpora/library", **PATIENTLY).json())
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
    make(tmp_path, "code", FUNCTIONS)
    with served(tmp_path) as address:
        shown(tab, address)
        (corpus,) = httpx.get(f"{address}corpora", **PATIENTLY).json()["corpora"]
        tab.run(BUILDING)
        progress = {"stage": "encode", "done": 45, "total": 100}
        tab.run(f"window.listed = [{json.dumps(corpus | {'building': progress})}], null")
        tab.requests.clear()
        tab.go("#corpora")
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
