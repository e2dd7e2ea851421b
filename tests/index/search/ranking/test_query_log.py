"""A query log against brute force, in builds and in searches."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index import builds
from purlin.index.errors import Damaged, InvalidInput, NotFound
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking import query_log
from purlin.index.search.ranking.query_log import BLEND, FLOOR, Logged, QueryLog, blend, read_log
from tests.support.corpora import new_corpus
from tests.support.documents import functions, source
from tests.support.hash_encoder import HashEncoder

WORDS = "open close read write file line path mode upload retry parse name alpha beta".split()
LOG = [
    Logged("shut the door of the house", "m.py::f3"),
    Logged("how do I lock up", "m.py::f3"),
    Logged("lock up", "m.py::f40"),
    Logged("gamma rays", "m.py::f41"),
    Logged("no such place", "nowhere"),
]


def build_corpus(home: Path, log: list[Logged], encoder: HashEncoder, count: int = 600) -> Corpus:
    sources = [source("m.py", functions(count, WORDS))]
    return new_corpus(home, "code", sources, encoder, log=log)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return build_corpus(tmp_path_factory.mktemp("home"), LOG, HashEncoder())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return build_corpus(tmp_path_factory.mktemp("home"), [], HashEncoder())


def near(query: str, document: str) -> float:
    """From the definition."""
    encoder = HashEncoder()
    query_vector = encoder.encode([query], role="query")[0]
    earlier = [logged.query for logged in LOG if logged.document == document]
    cosines = encoder.encode(earlier, role="query") @ query_vector if earlier else [0.0]
    return max(0.0, (float(max(cosines)) - FLOOR) / (1 - FLOOR))


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("query", ["lock up the door", "gamma rays", "retry the upload", "f40"])
def test_nearness_raises_scores(corpus: Corpus, plain: Corpus, query: str, mode: str) -> None:
    before = {hit.id: hit for hit in plain.search(query, k=600, mode=mode).hits}  # type: ignore[arg-type]
    hits = corpus.search(query, k=600, mode=mode).hits  # type: ignore[arg-type]
    assert {hit.id for hit in hits} == set(before)
    for hit in hits:
        nearness = 0.0 if mode == "lexical" else near(query, hit.document_id)
        assert hit.score == pytest.approx(
            1 - (1 - before[hit.id].score) * (1 - BLEND * nearness), abs=2e-3
        )
        assert hit.scores.get("log", 0.0) == pytest.approx(nearness, abs=2e-3)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_explanation_quotes_the_earlier_query(corpus: Corpus) -> None:
    hit = corpus.search("shut the door of the house", k=1, explain=True).hits[0]
    assert hit.document_id == "m.py::f3"
    assert hit.explanation is not None
    assert hit.explanation["earlier"] == "shut the door of the house"
    second = corpus.search("lock up", k=1, explain=True).hits[0]
    assert second.explanation is not None
    assert (second.document_id, second.explanation["earlier"]) == ("m.py::f40", "lock up")
    last = corpus.search("f599", k=1, explain=True).hits[0]
    assert last.explanation is not None
    assert last.explanation["earlier"] == ""


@settings(max_examples=20)
@given(st.integers(1, 30), st.sampled_from(["lock up", "upload retry door", "gamma"]))
def test_pages_are_consistent_with_a_log(corpus: Corpus, k: int, query: str) -> None:
    whole = [hit.id for hit in corpus.search(query, k=90).hits]
    pages = [
        hit.id for start in range(0, 90, k) for hit in corpus.search(query, k=k, offset=start).hits
    ]
    assert pages[:90] == whole


def test_filter_applies_to_logged_documents(corpus: Corpus) -> None:
    assert corpus.search("lock up", k=3).hits[0].document_id == "m.py::f40"
    hits = corpus.search("lock up", k=600, filter={"language": "go"}).hits
    assert "m.py::f40" not in {hit.document_id for hit in hits}
    assert len(hits) == 200


def test_many_near_documents_are_ranked_exactly(tmp_path: Path, encoder: HashEncoder) -> None:
    """More than are looked at first: 500 of 600, each by another query."""
    random = np.random.default_rng(7)
    log = [Logged(" ".join(random.choice(WORDS, 4)), f"m.py::f{n}") for n in range(500)]
    corpus = build_corpus(tmp_path, log, encoder)
    query_vector = encoder.encode(["open file"], role="query")[0]
    plain = {
        hit.id: hit.score
        for hit in build_corpus(tmp_path / "plain", [], encoder).search("open file", k=600).hits
    }
    vectors = {logged.document: encoder.encode([logged.query], role="query")[0] for logged in log}
    expected = [
        1
        - (1 - score)
        * (
            1
            - BLEND
            * max(0.0, float(vectors.get(id_, 0 * query_vector) @ query_vector) - FLOOR)
            / (1 - FLOOR)
        )
        for id_, score in plain.items()
    ]
    scores = [hit.score for hit in corpus.search("open file", k=40).hits]
    np.testing.assert_allclose(scores, sorted(expected, reverse=True)[:40], atol=2e-3)


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=5), st.floats(0, 1, width=32))
def test_blended_scores_rise_within_bounds(scores: list[float], nearness: float) -> None:
    given_ = np.array(scores, dtype=np.float32)
    none, some = blend(given_, np.zeros_like(given_)), blend(given_, np.full_like(given_, nearness))
    np.testing.assert_allclose(none, given_, atol=1e-6)
    assert ((some >= none - 1e-6) & (some <= 1.0)).all()


def test_nearness_equals_a_loop() -> None:
    random = np.random.default_rng(3)
    vectors = random.normal(size=(40, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.sort(random.integers(0, 15, 40))
    log, query = QueryLog(vectors, rows, [f"q{n}" for n in range(40)]), vectors[5]
    nearness = log.nearness(query).of(np.arange(20))
    for row in range(20):
        cosines = {n: float(vectors[n] @ query) for n in range(40) if rows[n] == row}
        expected = max(0.0, (max(cosines.values()) - FLOOR) / (1 - FLOOR)) if cosines else 0.0
        assert nearness[row] == pytest.approx(expected, abs=1e-5)
        assert log.nearest(query, row) == (
            f"q{max(cosines, key=cosines.__getitem__)}" if cosines else ""
        )


# Builds


def test_rebuild_encodes_only_new_queries(tmp_path: Path, encoder: HashEncoder) -> None:
    first = build_corpus(tmp_path, LOG, encoder)
    assert first.manifest.logged == 4

    second_encoder = HashEncoder()
    again = build_corpus(tmp_path, [*LOG, Logged("new words", "m.py::f9")], second_encoder)

    assert again.manifest.logged == 5
    assert second_encoder.encoded == ["new words"]
    assert again.search("lock up", k=1).hits[0].document_id == "m.py::f40"
    assert build_corpus(tmp_path, [], encoder).manifest.logged == 0


def test_log_without_known_documents_is_refused(tmp_path: Path, encoder: HashEncoder) -> None:
    with pytest.raises(InvalidInput, match="None of the 1 queries leads to a document") as raised:
        build_corpus(tmp_path, [Logged("q", "nowhere")], encoder)
    assert raised.value.field == "query_log"
    assert builds.corpora(tmp_path) == []


@pytest.mark.parametrize(
    "name", [query_log.VECTORS_FILE, query_log.DOCUMENTS_FILE, query_log.TEXTS_FILE]
)
def test_a_damaged_log_is_named(tmp_path: Path, encoder: HashEncoder, name: str) -> None:
    build_corpus(tmp_path, LOG, encoder).close()
    path = builds.current(tmp_path, "c") / name
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match=name):
        Corpus.load(builds.current(tmp_path, "c"), encoder)


# Files


def test_read_log_keeps_each_pair_once(tmp_path: Path) -> None:
    rows = [
        {"query": " a ", "document": "x"},
        {"query": "a", "document": "x", "day": 3},
        {"query": "a", "document": "y"},
    ]
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert read_log(path) == [Logged("a", "x"), Logged("a", "y")]


def test_long_queries_are_cut(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps({"query": "x" * 9000, "document": "d"}))
    assert len(read_log(tmp_path / "log.jsonl")[0].query) == query_log.MAX_LOGGED_CHARS


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        (
            '{"query": "q", "document": "d"}\n["q", "d"]\n',
            "line 2 is not a JSON object with a query",
        ),
        ('{"query": " ", "document": "d"}\n', "line 1 is not a JSON object"),
        ('{"query": "\\ud800 q", "document": "d"}\n', "line 1 is not a JSON object"),
        ('{"query": "q", "document": 3}\n', "line 1 is not a JSON object"),
        ('{"query": "q"', "line 1: not valid JSON"),
        ("[" * 100_000, "line 1: not valid JSON"),
    ],
)
def test_invalid_lines_are_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "log.jsonl").write_text(text)
    with pytest.raises(InvalidInput, match=problem):
        read_log(tmp_path / "log.jsonl")


def test_long_or_missing_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_log, "MAX_LOGGED", 2)
    (tmp_path / "log.jsonl").write_text('{"query": "q", "document": "d"}\n' * 3)
    with pytest.raises(InvalidInput, match="at most 2 lines are allowed"):
        read_log(tmp_path / "log.jsonl")
    with pytest.raises(NotFound):
        read_log(tmp_path / "none.jsonl")
