"""Hits: their text and marks, and how further ones are loaded."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import Document
from purlin.index.sources import open_source
from purlin.index.sources.products.records import from_record
from tests.support.browser import Tab
from tests.support.hash_encoder import HashEncoder
from tests.support.indented import INDENTED
from tests.support.pages import HOSTILE, LONG, hold, let_go, on_page, searched, served, shown
from tests.support.paths import DATA
from tests.support.scripts import evaluated
from tests.support.serving import FUNCTIONS, PATIENTLY, REFERENCE_PAGE, make, numbered


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
    make(tmp_path, "shop", [from_record(record) for record in records], "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=shop&query=shirt+large")
        assert tab.texts(".hit h3") == ["Shirt"]
        assert sorted(tab.texts(".variants li")) == ["S", "Small"]
        assert tab.run("document.querySelector('.variants a').href") == "https://shop.example/Small"
        assert tab.run("document.querySelector('.more').hidden")
        assert tab.requests.count(f"{address}search") == 1


def test_hits_of_changed_files_are_marked(tmp_path: Path, tab: Tab) -> None:
    (tmp_path / "src").mkdir()
    for name in ("same", "other"):
        (tmp_path / "src" / f"{name}.py").write_text(f"def {name}():\n    return 1\n")
    sources = open_source("code", [tmp_path / "src"])
    origin = (str(tmp_path / "src"),)
    build(tmp_path / "home", "code", "code", sources, HashEncoder(), options=Options(origin=origin))
    time.sleep(0.05)
    (tmp_path / "src" / "other.py").write_text("def other():\n    return 2\n")
    with served(tmp_path / "home") as address:
        shown(tab, f"{address}#search?query=return")
        stale = "[...document.querySelectorAll('.hit')].map(one => [one.dataset.hit, !!one.querySelector('.stale')])"
        assert dict(tab.run(stale)) == {"other.py::other": True, "same.py::same": False}


def test_reference_without_an_address_has_no_dead_links(tmp_path: Path, tab: Tab) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "functions.html").write_text(REFERENCE_PAGE)
    sources = open_source("reference", [tmp_path / "pages"])
    build(tmp_path / "home", "library", "reference", sources, HashEncoder())
    with served(tmp_path / "home") as address:
        shown(tab, f"{address}#search?corpus=library&query=close+the+file")
        assert tab.texts(".hit .path")[0] == "functions.html"
        assert tab.run("document.querySelectorAll('main a[target]').length") == 0


@pytest.fixture
def far(tmp_path: Path, tab: Tab) -> Iterator[Tab]:
    """A search whose further hits must be requested."""
    make(tmp_path, "many", numbered(120), "reference")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=many&query=number")
        tab.run(
            "while (document.querySelectorAll('.hit').length < 50) document.querySelector('.more').click()"
        )
        hold(tab, "search")
        yield tab


def test_loading_more_does_not_block_the_next_search(far: Tab) -> None:
    far.go("#search?corpus=many&query=number+of")
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
    far.focus("input[type=search]")
    let_go(far)
    far.until("document.querySelectorAll('.hit').length === 60")
    assert far.run("document.activeElement.type") == "search"
    far.run(
        "while (document.querySelectorAll('.hit').length < 100) document.querySelector('.more').click()"
    )
    far.focus(".more")
    far.click(".more")
    far.until("held.length")
    let_go(far)
    far.until("document.querySelectorAll('.hit').length > 100")
    assert far.run("document.activeElement === document.querySelectorAll('.hit')[100]")


def test_texts_run_in_their_own_direction(tmp_path: Path, tab: Tab) -> None:
    lamp = Document(id="l", kind="product", title="מנורת קריאה", body="מנורה לקריאה, with USB-C.")
    make(tmp_path, "lamps", [lamp], "product")
    code = Document(
        id="c", kind="code", title="מיין", body="def מיין(רשימה):\n    return רשימה",
        fields={"language": "python"},
    )  # fmt: skip
    make(tmp_path, "code", [code])
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


def test_hits_without_a_score_are_left_out(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "code", FUNCTIONS)
    with served(tmp_path) as address:
        reply = httpx.post(
            f"{address}search", json={"corpus": "code", "query": "fetch page"}, **PATIENTLY
        ).json()
        scores = [round(hit["score"], 2) for hit in reply["hits"]]
        assert scores[0] > scores[-1] == 0
        shown(tab, f"{address}#search?corpus=code&query=fetch+page")
        assert len(tab.texts(".hit")) == sum(score > 0 for score in scores)
        assert tab.run("document.querySelector('.more').hidden")


def test_more_hits_are_loaded_on_request(tmp_path: Path, tab: Tab) -> None:
    make(tmp_path, "many", numbered(120), "reference")
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


def test_common_indentation_is_removed() -> None:
    definitions = [definition for definition, _ in INDENTED]
    assert evaluated("code.js", f"{json.dumps(definitions)}.map((code) => m.surplus(...code))") == [
        surplus for _, surplus in INDENTED
    ]


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
