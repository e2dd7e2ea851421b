"""Hits that a reranker scores again: in one corpus, in several, over HTTP, on the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.encoder import TRANSFORMER_ENCODER
from purlin.index.errors import Damaged, InvalidInput, NotFound
from purlin.index.qa.reader import RELEASED_READER, Reader
from purlin.index.records import Document
from purlin.index.reranker import RELEASED_RERANKER, Reranker, Rerankers, logistic
from purlin.index.search import corpus as searching
from purlin.index.search.corpus import RERANK_DEPTH, Corpus
from purlin.index.search.several import search_corpora
from tests.support.corpora import new_corpus
from tests.support.cross_encoders import write_reranker
from tests.support.documents import functions, source
from tests.support.rerankers import WordReranker
from tests.support.serving import FUNCTIONS, make, problem, serving

WORDS = "alpha beta gamma delta upload retry parse open close".split()
QUERY = "alpha upload retry"


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return functions(80, WORDS)


@pytest.fixture(scope="module")
def corpora(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Document]
) -> tuple[Corpus, Corpus]:
    home, parts = tmp_path_factory.mktemp("home"), {"one": documents[:50], "two": documents[50:]}
    first, second = (
        new_corpus(home, "code", [source(f"{name}.py", part)], name=name)
        for name, part in parts.items()
    )
    return first, second


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reranker(tmp_path_factory.mktemp("reranker"), default=("code",))


# ---- one corpus


def test_the_first_hits_are_ordered_by_the_mean(corpora: tuple[Corpus, Corpus]) -> None:
    corpus, reranker = corpora[0], WordReranker(weight=0.7)
    before = corpus.search(QUERY, k=40).hits
    after = corpus.search(QUERY, k=40, reranker=reranker).hits
    relevance = {hit.id: hit.scores["rerank"] for hit in after[:RERANK_DEPTH]}

    expected = [
        (0.3 * hit.score + 0.7 * relevance[hit.id], hit.id) for hit in before[:RERANK_DEPTH]
    ]
    expected.sort(key=lambda pair: -pair[0])
    assert {hit.id for hit in after[:RERANK_DEPTH]} == {hit.id for hit in before[:RERANK_DEPTH]}
    assert [hit.score for hit in after[:RERANK_DEPTH]] == pytest.approx(
        [score for score, _ in expected], abs=2e-4
    )
    assert [hit.id for hit in after] != [hit.id for hit in before]


def test_hits_below_the_first_keep_their_order(corpora: tuple[Corpus, Corpus]) -> None:
    before = corpora[0].search(QUERY, k=50).hits
    after = corpora[0].search(QUERY, k=50, reranker=WordReranker()).hits
    scores = [hit.score for hit in after]

    assert [hit.id for hit in after[RERANK_DEPTH:]] == [hit.id for hit in before[RERANK_DEPTH:]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert "rerank" not in after[RERANK_DEPTH].scores


@pytest.mark.parametrize("offset", [0, 3, 17, 20, 33])
def test_pages_fit_together(corpora: tuple[Corpus, Corpus], offset: int) -> None:
    whole = corpora[0].search(QUERY, k=50, reranker=WordReranker()).hits
    page = corpora[0].search(QUERY, k=7, offset=offset, reranker=WordReranker()).hits
    assert [(hit.id, hit.score, hit.rank) for hit in page] == [
        (hit.id, hit.score, hit.rank) for hit in whole[offset : offset + 7]
    ]


def test_a_named_document_stays_first(
    corpora: tuple[Corpus, Corpus], documents: list[Document]
) -> None:
    title = documents[7].title
    hits = corpora[0].search(title, reranker=WordReranker(weight=1.0)).hits
    assert (hits[0].document_id, hits[0].score) == (documents[7].id, 1.0)


def test_the_explanation_adds_up(corpora: tuple[Corpus, Corpus]) -> None:
    result = corpora[0].search(QUERY, reranker=WordReranker(), explain=True)
    assert result.timings_ms["read"] >= 0
    for hit in result.hits:
        assert hit.explanation is not None
        part = hit.explanation["rerank"]
        mean = (1 - part["weight"]) * part["searched"] + part["weight"] * part["relevance"]
        assert part["reranker"] == "words"
        assert hit.score == pytest.approx(mean, abs=2e-4)


def test_what_is_not_read_in_time_keeps_its_order(
    corpora: tuple[Corpus, Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "RERANK_SECONDS", 60)
    reranker = WordReranker(seconds=25)
    before = corpora[0].search(QUERY, k=40)
    after = corpora[0].search(QUERY, k=40, reranker=reranker)

    assert len(reranker.read) == 3
    assert after.warning == f"The reranker read only 3 of {RERANK_DEPTH} hits in time."
    assert [hit.id for hit in after.hits[3:]] == [hit.id for hit in before.hits[3:]]


def test_a_search_without_hits_reads_nothing(corpora: tuple[Corpus, Corpus]) -> None:
    reranker = WordReranker()
    result = corpora[0].search("unheardof", mode="lexical", reranker=reranker)
    assert (result.hits, result.warning, reranker.read) == ((), None, [])


# ---- several corpora


def test_the_first_hits_of_all_corpora_are_read(corpora: tuple[Corpus, Corpus]) -> None:
    reranker = WordReranker()
    before = search_corpora(corpora, QUERY, k=RERANK_DEPTH)
    after = search_corpora(corpora, QUERY, k=50, rerankers=[reranker, reranker])

    assert sorted(reranker.read) == sorted(hit.document_id for hit in before.hits)
    scores = [hit.score for hit in after.hits]
    assert scores == sorted(scores, reverse=True)
    assert [each.reranker for each in after.corpora] == ["words", "words"]


def test_a_corpus_without_a_reranker_keeps_its_scores(corpora: tuple[Corpus, Corpus]) -> None:
    plain = {hit.id: hit.score for hit in search_corpora(corpora, QUERY, k=80).hits}
    reply = search_corpora(corpora, QUERY, k=80, rerankers=[WordReranker(), None])
    assert [each.reranker for each in reply.corpora] == ["words", None]
    for hit in reply.hits:
        if hit.corpus == "two":
            assert hit.score == plain[hit.id]


# ---- the exported model


def test_the_relevance_does_not_depend_on_other_texts(directory: Path) -> None:
    reranker = Reranker.load(directory, threads=2)
    texts = ["open the file", "close", "write a line of the path in read mode", "", "( ) :"]
    together = reranker.logits("return the path", texts)
    alone = [float(reranker.logits("return the path", [text])[0]) for text in texts]
    assert together.tolist() == pytest.approx(alone, abs=1e-6)
    assert len(set(together.tolist())) == len(texts)


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1))
def test_logistic_is_in_0_1_and_increases(logits: list[float]) -> None:
    values = logistic(np.sort(np.array(logits, dtype=np.float32)))
    exact = 1 / (1 + np.exp(-np.clip(np.sort(np.array(logits)), -700, 700)))
    assert np.allclose(values, exact, atol=1e-6)
    assert (np.diff(values) >= 0).all()


def test_a_late_deadline_reads_all_and_a_past_one_none(directory: Path) -> None:
    reranker = Reranker.load(directory, threads=1)
    texts = ["open the file"] * 5
    assert len(reranker.logits("open", texts, deadline=time.monotonic() + 60)) == 5
    assert len(reranker.logits("open", texts, deadline=time.monotonic() - 1)) == 0


@pytest.mark.parametrize(
    ("other", "words"),
    [(TRANSFORMER_ENCODER, "it is something else"), (RELEASED_READER, "it is a reader")],
)
def test_another_component_is_refused(other: Path, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        Reranker.load(other)
    assert refusal.value.field == "rerank"
    assert str(other.parent) not in str(refusal.value)


def test_damage_is_named(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no reranker directory gone"):
        Reranker.load(tmp_path / "gone")
    for path in directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    settings = json.loads((directory / "reranker.json").read_text())
    (tmp_path / "reranker.json").write_text(json.dumps(settings | {"weights": {"code": 2}}))
    with pytest.raises(Damaged, match=r"weights.code is 2; a share is from 0 to 1"):
        Reranker.load(tmp_path)


# ---- which one is chosen


def test_the_default_is_by_kind(directory: Path) -> None:
    def no_reader() -> Reader:
        raise NotFound("no reader")

    rerankers = Rerankers(directory, no_reader)
    chosen = rerankers.choose("code", None)
    assert chosen is not None
    assert chosen.name == "tiny-reranker"
    assert rerankers.choose("code", False) is None
    assert rerankers.choose("product", None) is None
    assert rerankers.choose("product", True) is chosen
    assert rerankers.choose("reference", None) is None
    with pytest.raises(InvalidInput, match="no reranker for corpora of kind reference"):
        rerankers.choose("reference", True)


def test_the_reader_reranks_references(tmp_path: Path) -> None:
    reader = Reader.load(RELEASED_READER, threads=1)
    rerankers = Rerankers(tmp_path / "gone", lambda: reader)
    with pytest.raises(NotFound):
        rerankers.choose("reference", True)

    documents = [
        Document("close", "reference", "close(file)", "Closes the file. Returns None."),
        Document("range", "reference", "range(start)", "If step is omitted, it defaults to 1."),
    ]
    with_default = Rerankers(RELEASED_RERANKER, lambda: reader)
    chosen = with_default.choose("reference", True)
    manual = new_corpus(tmp_path, "reference", [source("a", documents)])
    hits = manual.search("What is the default step of range?", reranker=chosen).hits
    assert hits[0].document_id == "range"
    assert hits[0].scores["rerank"] > hits[1].scores["rerank"]


# ---- HTTP


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, directory: Path) -> Iterator[TestClient]:
    home = tmp_path_factory.mktemp("home")
    make(home, "code", FUNCTIONS)
    make(home, "more", FUNCTIONS[:1])
    with serving(home, reranker=directory) as client:
        yield client


def test_search_reranks_by_default_and_says_so(client: TestClient) -> None:
    body = {"query": "sort numbers", "corpus": "code", "explain": True}
    reply = client.post("/search", json=body).json()
    assert reply["reranker"] == "tiny-reranker"
    assert {"dense", "lexical", "rerank"} == reply["hits"][0]["scores"].keys()
    assert reply["hits"][0]["explanation"]["rerank"]["reranker"] == "tiny-reranker"
    assert reply["timings_ms"]["read"] > 0

    plain = client.post("/search", json=body | {"rerank": False}).json()
    assert "reranker" not in plain
    assert "rerank" not in plain["hits"][0]["scores"]


def test_search_of_several_names_each_reranker(client: TestClient) -> None:
    body = {"query": "sort numbers", "corpus": ["code", "more"]}
    reply = client.post("/search", json=body).json()
    assert [each["reranker"] for each in reply["corpora"]] == ["tiny-reranker"] * 2
    assert len(reply["hits"]) == 4


def test_rerank_sorts_by_the_models_logits(client: TestClient, directory: Path) -> None:
    body = {"query": "open file", "texts": ["close", "open the file", "write a line"]}
    logits = Reranker.load(directory).logits("open file", body["texts"])
    reply = client.post("/rerank", json=body | {"raw_scores": True})
    assert reply.headers["Purlin-Model"] == "tiny-reranker"
    assert [each["index"] for each in reply.json()] == np.argsort(-logits).tolist()
    for scaled in client.post("/rerank", json=body).json():
        assert scaled["score"] == pytest.approx(float(logistic(logits)[scaled["index"]]), abs=1e-5)


def test_rerank_refuses_texts_that_are_too_long(client: TestClient) -> None:
    body = {"query": "open", "texts": ["close", "line " * 50]}
    refusal = problem(client.post("/rerank", json=body), 422)
    assert refusal["errors"][0]["field"] == "texts[1]"
    assert "have 54 tokens; this reranker reads 32" in refusal["detail"]
    assert client.post("/rerank", json=body | {"truncate": True}).status_code == 200


def test_a_directory_of_another_component_is_a_clear_error(tmp_path: Path) -> None:
    make(tmp_path, "code", FUNCTIONS)
    with serving(tmp_path, reranker=RELEASED_READER) as client:
        body = {"query": "sort", "corpus": "code", "rerank": True}
        refusal = problem(client.post("/search", json=body), 422)
        assert refusal["errors"][0]["field"] == "rerank"
        assert "has no reranker.json: it is a reader" in refusal["detail"]
