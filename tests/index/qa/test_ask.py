from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.builds import current
from purlin.index.errors import InvalidInput
from purlin.index.evaluation.answers import Question
from purlin.index.indexing.build import build
from purlin.index.qa.ask import READ_DEPTH, answer_question
from purlin.index.qa.judging import hit_entry, judge_corpus
from purlin.index.qa.reader import RELEASED_READER, Reader
from purlin.index.search.corpus import Corpus
from purlin.index.search.limits import MAX_QUERY_CHARS
from purlin.index.sources import open_source
from tests.support.corpora import new_corpus
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import FUNCTIONS, REFERENCE_PAGE, make


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, pages = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("pages")
    (pages / "functions.html").write_text(REFERENCE_PAGE)
    sources = open_source("reference", [pages], base_url="https://example.org")
    build(home, "library", "reference", sources, HashEncoder())
    make(home, "code", FUNCTIONS)
    return home


@pytest.fixture(scope="module")
def library(home: Path) -> Corpus:
    return Corpus.load(current(home, "library"), HashEncoder())


@pytest.fixture(scope="module")
def reader(reader_directory: Path) -> Reader:
    return Reader.load(reader_directory, threads=1)


def test_answers_are_words_of_their_passages(library: Corpus, reader: Reader) -> None:
    result = answer_question(library, reader, "What is the default step of range?", k=5)
    assert len(result.answers) == 5
    passages = {hit.id: hit.text for hit in result.hits}
    for answer in result.answers:
        assert answer.passage[answer.start : answer.end] == answer.text != ""
        assert answer.passage == passages[answer.passage_id]
        if said := answer.sentence:
            assert answer.passage[said.start : said.end] == said.text != ""
    assert any(answer.sentence for answer in result.answers)
    assert 0 <= result.answerable <= 1


def test_answers_have_enclosing_terms_and_a_url(library: Corpus, reader: Reader) -> None:
    result = answer_question(library, reader, "What is the default step of range?", k=5)
    starts = [answer for answer in result.answers if answer.title == "range.start"]
    assert all(answer.terms == ("class range(start, stop[, step])",) for answer in starts)
    assert {answer.url for answer in result.answers} <= {
        "https://example.org/functions.html#range",
        "https://example.org/functions.html#range.start",
        "https://example.org/functions.html#close",
        "https://example.org/functions.html#functions",
    }


def test_every_step_is_timed(library: Corpus, reader: Reader) -> None:
    result = answer_question(library, reader, "What is the default step of range?")
    assert result.timings_ms.keys() >= {"encode", "dense", "lexical", "rank", "read"}


def test_hits_are_in_the_readers_order(library: Corpus, reader: Reader) -> None:
    result = answer_question(library, reader, "first value", depth=2, max_hits=10)
    assert result.read_count == 2
    assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))
    relevance = [hit.scores["reader"] for hit in result.hits if "reader" in hit.scores]
    assert len(relevance) == 2
    assert relevance == sorted(relevance, reverse=True)
    assert all("reader" in hit.scores for hit in result.hits[:2])
    assert len({hit.id for hit in result.hits}) == len(result.hits)


@pytest.mark.parametrize(
    ("question", "titles"),
    [
        ("What is the default step of range?", {"class range(start, stop[, step])", "range.start"}),
        ("What closes a file?", {"close(file)"}),
    ],
)
def test_passages_far_behind_the_best_are_not_read(
    library: Corpus, reader: Reader, question: str, titles: set[str]
) -> None:
    result = answer_question(library, reader, question)
    assert result.read_count == len(titles)
    assert len(result.hits) == 4
    assert {hit.title for hit in result.hits if "reader" in hit.scores} == titles


def test_several_passages_of_a_document_are_retrieved(tmp_path: Path) -> None:
    paragraphs = "".join(f"<p>{'words and more ' * 20} number{n}.</p>" for n in range(12))
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "long.html").write_text(
        f"<html><body><section id='s'><h1>Long</h1>{paragraphs}</section></body></html>"
    )
    corpus = new_corpus(tmp_path, "reference", open_source("reference", [pages]))
    retrieved = corpus.passages("words number7 number8", 5).passages
    assert len({each.document.id for each in retrieved}) < len(retrieved)
    scores = [each.hit.score for each in retrieved]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("question", "k", "field"),
    [
        ("", 3, "question"),
        (" \n", 3, "question"),
        ("\ud800", 3, "question"),
        ("a", 0, "k"),
        ("a", 21, "k"),
    ],
)
def test_invalid_input_names_its_field(
    library: Corpus, reader: Reader, question: str, k: int, field: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        answer_question(library, reader, question, k=k)
    assert raised.value.field == field


def test_a_long_question_is_refused_with_the_limit(library: Corpus, reader: Reader) -> None:
    with pytest.raises(InvalidInput, match=f"at most {MAX_QUERY_CHARS:,}"):
        answer_question(library, reader, "word " * 10_000)


def test_only_returned_hits_have_highlights(library: Corpus, reader: Reader) -> None:
    retrieved = library.passages("close", 3).passages
    assert all(each.hit.highlights == () for each in retrieved)
    hits = answer_question(library, reader, "close").hits
    close = next(hit for hit in hits if hit_entry(hit).endswith("#close"))
    assert (0, 5) in close.highlights


@pytest.mark.parametrize(
    ("question", "entry"),
    [("range.start if omitted", "range.start"), ("what attribute is start", "range.start")],
)
def test_the_named_entry_is_read_first(
    library: Corpus, reader: Reader, question: str, entry: str
) -> None:
    [hit] = answer_question(library, reader, question, depth=1, max_hits=1).hits
    assert hit.title == entry


# Judging


STEP = Question(
    "1", "What is the default step of range?", ("1",), "functions.html#range", "default", "dev"
)
HAMLET = Question("2", "Who wrote Hamlet?", (), None, "which", "dev")


def test_passages_alone_are_judged(library: Corpus) -> None:
    counts: list[int] = []
    step, hamlet = judge_corpus(library, None, [STEP, HAMLET], progress=counts.append)
    assert counts == [1, 2]
    assert (step.entry_rank, step.answer_rank) == (1, 1)
    assert hamlet.entry_rank is None
    assert step.answerable > hamlet.answerable


def test_answers_of_a_reader_are_judged(library: Corpus, reader: Reader) -> None:
    step, hamlet = judge_corpus(library, reader, [STEP, HAMLET], depth=READ_DEPTH)
    assert step.entry_rank in (1, 2, 3, 4)
    assert hamlet.entry_rank is None


def test_an_entry_does_not_depend_on_the_base_url(library: Corpus) -> None:
    first, *_ = library.passages("close", 3).passages
    assert hit_entry(first.hit) == "functions.html#close"


@pytest.mark.parametrize("name", ["reference-reader-int8", "reference-reader-l12-int8"])
def test_readers_of_the_repository_answer(library: Corpus, name: str) -> None:
    released = Reader.load(RELEASED_READER.parent / name, threads=1)
    result = answer_question(library, released, "What is the default step of range?", k=1)

    assert released.name == name
    assert [answer.text for answer in result.answers] == ["1"]


def test_a_section_that_two_pages_have_is_read_once(tmp_path: Path, reader: Reader) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in ("functions.html", "manual.html"):
        (pages / name).write_text(REFERENCE_PAGE)
    corpus = new_corpus(tmp_path, "reference", open_source("reference", [pages]))

    result = answer_question(corpus, reader, "What is the default step of range?", max_hits=100)
    texts = [(hit.title, hit.text) for hit in result.hits]
    assert len(texts) > 3
    assert len(set(texts)) == len(texts)

    # Nor is a copy one more passage that the first one is ahead of.
    (pages / "manual.html").unlink()
    alone = new_corpus(tmp_path / "alone", "reference", open_source("reference", [pages]))
    first_shares = [
        answer_question(each, reader, "What is the default step of range?").calibration_features[-1]
        for each in (corpus, alone)
    ]
    assert first_shares[0] == pytest.approx(first_shares[1], rel=0.05)


def test_a_corpus_of_another_kind_is_refused(home: Path, reader: Reader) -> None:
    corpus = Corpus.load(current(home, "code"), HashEncoder())
    with pytest.raises(InvalidInput, match="'code' is of kind code") as raised:
        answer_question(corpus, reader, "What?")
    assert raised.value.field == "corpus"


def test_a_reference_in_another_language_is_read_as_it_is_written(
    tmp_path: Path, reader: Reader
) -> None:
    (tmp_path / "seite.html").write_text(
        "<html><body><h1>Sitzungen</h1><p>Eine Sitzung wird nach einiger Zeit beendet, wenn sich der "
        "Benutzer nicht meldet. Die Voreinstellung ist 30 Tage, und niemand kann sie ändern.</p></body></html>"
    )
    home = tmp_path / "home"
    build(home, "seiten", "reference", open_source("reference", [tmp_path]), HashEncoder())
    corpus = Corpus.load(current(home, "seiten"), HashEncoder())
    result = answer_question(corpus, reader, "Was ist der Standardwert einer Sitzung?", k=20)
    assert result.read_as == "default value of Was ist der einer Sitzung"
    assert any(answer.text in ("30", "30 Tage") for answer in result.answers)
