from __future__ import annotations

from pathlib import Path

import pytest

from index.builds import current
from index.errors import InvalidInput
from index.evaluation.answers import Question
from index.indexing.build import build
from index.qa.ask import DEPTH, ask, entry_of, judged
from index.qa.reader import Reader
from index.search.corpus import MAX_QUERY_CHARS, Corpus
from index.sources import open_source
from tests.conftest import HashEncoder
from tests.serving import FUNCTIONS, make

HTML = """<html><head><title>Functions</title></head><body><section id="functions"><h1>Functions</h1>
<p>They are always there.</p>
<dl class="py class"><dt id="range"><code>class range(start, stop[, step])</code></dt>
<dd><p>Numbers in order. If step is omitted, it defaults to 1.</p>
<dl class="py attribute"><dt id="range.start"><code>start</code></dt>
<dd><p>The start of the range, 0 if it was omitted.</p></dd></dl></dd></dl>
<dl class="py function"><dt id="close"><code>close(file)</code></dt><dd><p>Closes the file. Returns None.</p></dd></dl>
</section></body></html>"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, pages = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("pages")
    (pages / "functions.html").write_text(HTML)
    build(
        home,
        "library",
        "reference",
        open_source("reference", [pages], base_url="https://example.org"),
        HashEncoder(),
    )
    make(home, "code", FUNCTIONS, HashEncoder())
    return home


@pytest.fixture(scope="module")
def library(home: Path) -> Corpus:
    return Corpus.load(current(home, "library"), HashEncoder())


@pytest.fixture(scope="module")
def reader(reader_directory: Path) -> Reader:
    return Reader.load(reader_directory, threads=1)


def test_answers_are_exact_words_of_passages_with_terms_and_link(
    library: Corpus, reader: Reader
) -> None:
    found = ask(library, reader, "What is the default step of range?", k=5)
    assert len(found.answers) == 5
    passages = {hit.id: hit.text for hit in found.hits}
    for answer in found.answers:
        assert answer.passage[answer.start : answer.end] == answer.text != ""
        assert answer.passage == passages[answer.passage_id]
    starts = [answer for answer in found.answers if answer.title == "range.start"]
    assert all(answer.terms == ("class range(start, stop[, step])",) for answer in starts)
    assert {answer.url for answer in found.answers} <= {
        "https://example.org/functions.html#range",
        "https://example.org/functions.html#range.start",
        "https://example.org/functions.html#close",
        "https://example.org/functions.html#functions",
    }
    assert 0 <= found.answerable <= 1
    assert found.timings_ms.keys() >= {"encode", "dense", "lexical", "rank", "read"}


def test_hits_are_in_the_readers_order_and_what_was_not_read_comes_after(
    library: Corpus, reader: Reader
) -> None:
    found = ask(library, reader, "range", depth=2, hits=10)
    assert found.read == 2
    assert [hit.rank for hit in found.hits] == list(range(1, len(found.hits) + 1))
    read = [hit.scores["reader"] for hit in found.hits if "reader" in hit.scores]
    assert len(read) == 2
    assert read == sorted(read, reverse=True)
    assert all("reader" in hit.scores for hit in found.hits[:2])
    assert len({hit.id for hit in found.hits}) == len(found.hits)


def test_a_second_passage_of_a_document_is_found_too(tmp_path: Path, reader: Reader) -> None:
    paragraphs = "".join(f"<p>{'words and more ' * 20} number{n}.</p>" for n in range(12))
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "long.html").write_text(
        f"<html><body><section id='s'><h1>Long</h1>{paragraphs}</section></body></html>"
    )
    build(tmp_path, "long", "reference", open_source("reference", [pages]), HashEncoder())
    corpus = Corpus.load(current(tmp_path, "long"), HashEncoder())
    passages, _ = corpus.passages("words number7 number8", 5)
    assert len({one.document.id for one in passages}) < len(passages)
    scores = [one.hit.score for one in passages]
    assert scores == sorted(scores, reverse=True)


def test_a_corpus_of_another_kind_is_refused(home: Path, reader: Reader) -> None:
    with pytest.raises(InvalidInput, match="'code' is of kind code") as raised:
        ask(Corpus.load(current(home, "code"), HashEncoder()), reader, "What?")
    assert raised.value.field == "corpus"


@pytest.mark.parametrize(
    ("question", "k", "field"),
    [("", 3, "question"), (" \n", 3, "question"), ("a", 0, "k"), ("a", 21, "k")],
)
def test_bad_questions_name_their_field(
    library: Corpus, reader: Reader, question: str, k: int, field: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        ask(library, reader, question, k=k)
    assert raised.value.field == field


def test_a_question_of_ten_thousand_words_is_refused_with_the_limit(
    library: Corpus, reader: Reader
) -> None:
    with pytest.raises(InvalidInput, match=f"at most {MAX_QUERY_CHARS:,}"):
        ask(library, reader, "word " * 10_000)


def test_questions_are_judged_with_a_reader_and_without(library: Corpus, reader: Reader) -> None:
    step = Question(
        "1",
        "What is the default step of range?",
        ("1",),
        "functions.html#range",
        "default value",
        "dev",
    )
    none = Question("2", "Who wrote Hamlet?", (), None, "which", "dev")
    told: list[int] = []
    alone = judged(library, None, [step, none], progress=told.append)
    read = judged(library, reader, [step, none], depth=DEPTH)
    assert told == [1, 2]
    assert alone[0].entry_rank == 1
    assert alone[0].answer_rank == 1
    assert alone[1].entry_rank is None
    assert read[0].entry_rank in (1, 2, 3, 4)
    assert alone[0].answerable > alone[1].answerable


def test_only_hits_that_are_shown_have_highlights(library: Corpus, reader: Reader) -> None:
    found, _ = library.passages("close", 3)
    assert all(one.hit.highlights == () for one in found)
    shown = next(
        hit for hit in ask(library, reader, "close").hits if entry_of(hit).endswith("#close")
    )
    assert (0, 5) in shown.highlights


def test_the_entry_that_is_named_is_read_first(library: Corpus, reader: Reader) -> None:
    for question, entry in (
        ("range.start if omitted", "range.start"),
        ("what attribute is start", "range.start"),
    ):
        [hit] = ask(library, reader, question, depth=1, hits=1).hits
        assert hit.title == entry


def test_an_entry_is_known_wherever_the_reference_is_served_from(library: Corpus) -> None:
    (one, *_), _ = library.passages("close", 3)
    assert entry_of(one.hit) == "functions.html#close"
