"""Passages by the paper's splitters, and where in them the words of a definition are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
from purlin.index.records import Document, Splitter
from purlin.index.sources.references import manual
from purlin.index.sources.references.html.reader import read_page
from purlin.index.texts.passages import render
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.data.questions.reader_questions import load_questions
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.data.questions.splitting import SplitReference, read_split
from purlin.training.dev import DevSet
from tests.support.paths import DATA

REFERENCE = DATA / "reference"
SPLITTERS: list[Splitter | None] = [None, "simple", "structure", "extended"]

PAGE = """<h1>Looms</h1><p>What weaves.</p>
<h2>Classes</h2>
<dl class="py class"><dt id="loom.Loom">class <b class=descname>loom.Loom</b>(warp)</dt><dd><p>Weaves a warp.</p>
  <dl class="py method"><dt id="loom.Loom.close"><b class=descname>close</b>()</dt><dd>
  <p>Return the shuttle.</p></dd></dl>
  <p>Looms are large.</p></dd></dl>
<h2>Other</h2><p>Weaves a warp.</p><p>Return the shuttle.</p>"""


def split_page(markup: str, splitter: Splitter) -> SplitReference:
    """Split one page as `read_split` does."""
    definitions = list(manual.documents(read_page(markup), "loom.html"))
    whole = list(manual.documents(read_page(markup, whole=True), "loom.html"))
    result = SplitReference()
    result.add(definitions, whole if splitter == "simple" else definitions, splitter)
    return result


def text_of(result: SplitReference, row: int) -> str:
    document, passage = result.passages[row]
    return document.body[passage.start : passage.end]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "loom.html").write_text(PAGE)
    return tmp_path


def test_only_extended_passages_have_the_terms_above(page: Path) -> None:
    texts = {
        splitter: [render(*passage) for passage in read_split(page, splitter).passages]
        for splitter in SPLITTERS
    }
    assert texts["simple"] == [
        "Looms\nLooms\n\nWhat weaves.\n\nClasses\n\nclass loom.Loom(warp)\n\nWeaves a warp.\n\nclose()"
        "\n\nReturn the shuttle.\n\nLooms are large.\n\nOther\n\nWeaves a warp.\n\nReturn the shuttle."
    ]
    close = [text for text in texts["structure"] if "close()" in text]
    assert close == ["Looms\nclose()\n\nReturn the shuttle."]
    close = [text for text in texts["extended"] if "close()" in text]
    assert close == ["loom.Loom\nloom.Loom.close\nclose()\n\nReturn the shuttle."]
    assert texts["extended"] == texts[None]


def test_segments_keep_headings_as_text_alone(page: Path) -> None:
    [file] = manual.files(page, unit="segment")
    segments = [item for item in file.read() if isinstance(item, Document)]  # type: ignore[union-attr]
    assert {segment.title for segment in segments} == {"Looms"}
    assert not any(segment.context or "headings" in segment.fields for segment in segments)
    assert [segment.body for segment in segments if "Other" in segment.body] == [
        "Other\n\nWeaves a warp.\n\nReturn the shuttle."
    ]


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_a_located_span_has_the_words_of_its_definition(splitter: Splitter | None) -> None:
    result = read_split(REFERENCE, splitter)
    located = lines = 0
    for document in result.definitions:
        start = 0
        for line in document.body.split("\n"):
            for row, offset in result.locate(document.id, start, start + len(line)):
                assert text_of(result, row)[offset : offset + len(line)] == line
                located += bool(line)
            lines += bool(line)
            start += len(line) + 1

    # Windows of 100 words cut some lines in two.
    assert located >= 0.8 * lines > 20


def test_equal_lines_are_told_apart_by_their_place(page: Path) -> None:
    """The words of a method are in the window where it stands, not where they come again."""
    result = split_page(
        PAGE.replace("</dd></dl>\n  <p>", f"</dd></dl>\n  <p>{'word ' * 100}"), "simple"
    )
    close = next(each for each in result.definitions if each.title == "loom.Loom.close")
    start = close.body.index("Return")
    [(row, offset)] = result.locate(close.id, start, start + len("Return the shuttle."))
    assert row == 0
    assert text_of(result, 0)[:offset].endswith("close()\n\n")

    other = next(each for each in result.definitions if each.title == "Other")
    start = other.body.index("Return")
    [(row, _)] = result.locate(other.id, start, start + len("Return the shuttle."))
    assert row == len(result.passages) - 1


def test_text_after_nested_definitions_is_found(page: Path) -> None:
    result = read_split(page, "simple")
    loom = next(each for each in result.definitions if each.title == "loom.Loom")
    start = loom.body.index("Looms are large.")
    [(row, offset)] = result.locate(loom.id, start, len(loom.body))
    assert text_of(result, row)[offset:].startswith("Looms are large.\n\nOther")


@given(st.lists(st.sampled_from(["a", "b b", "c c c", "read it"]), min_size=1, max_size=30))
def test_every_word_of_a_page_is_in_a_passage_of_its_entry(words: list[str]) -> None:
    items = "".join(
        f"<dl><dt id=t{n}>term {n}</dt><dd>{words_of}</dd></dl>" for n, words_of in enumerate(words)
    )
    result = split_page(f"<h1>Page</h1>{items}", "simple")
    for number, document in enumerate(result.definitions):
        if "signature" in document.fields:
            parts = result.parts[document.id]
            text = " ".join(
                text_of(result, part.row)[part.offset : part.offset + part.end - part.start]
                for part in parts
            )
            assert text.split() == document.body.split(), number


def test_pairs_of_a_splitter_have_its_passages(tmp_path: Path, page: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        'verbs = ["weave"]\n[[forms]]\nname = "term"\ntexts = ["What {noun} {third} {rest}?"]\n'
        '[[directives]]\nkind = "class"\nnoun = "class"\n'
    )
    for splitter in SPLITTERS:
        source = PairSource("templates", page, rules=rules, splitter=splitter)
        [pair] = [pair for pair in read_pairs(source) if isinstance(pair, Pair)]
        assert pair.queries == ("What class weaves a warp?",)
        passages = [render(*passage) for passage in read_split(page, splitter).passages]
        assert pair.passage in passages

        pool, [question] = load_questions(
            QuestionSource(format="templates", path=page, rules=rules, splitter=splitter), {}
        )
        assert question.answers(pool) == ["loom.Loom"]


@pytest.mark.parametrize("kind", [PairSource, DevSet])
def test_a_splitter_is_refused_where_nothing_is_split(kind: type) -> None:
    options = {"format": "pairs", "path": REFERENCE, "splitter": "simple"}
    with pytest.raises(InvalidInput, match="splitter belongs to the formats") as raised:
        kind(**options, **({"name": "dev"} if kind is DevSet else {}))
    assert raised.value.field == "splitter"
