import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.errors import Altered
from purlin.index.search import ann, dense
from purlin.index.search.dense import Dense, VectorSegment
from purlin.index.storage import blocks
from purlin.index.storage.blocks import UNCHECKED


def _vectors(rows: int, dim: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(max(rows // 40, 1), dim))
    vectors = centres[random.integers(0, len(centres), rows)] + 0.7 * random.normal(
        size=(rows, dim)
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Index what has more than 2048 rows."""
    monkeypatch.setattr(dense, "EXACT_ROWS", 2048)


def _dense(vectors: np.ndarray, directory: Path) -> Dense:
    directory.mkdir(exist_ok=True)
    np.save(directory / "vectors.npy", vectors)
    dense.build_index(directory)
    return Dense([VectorSegment.load(directory)])


def _queries(vectors: np.ndarray, count: int) -> np.ndarray:
    random = np.random.default_rng(1)
    noise = random.normal(size=(count, vectors.shape[1])) / np.sqrt(vectors.shape[1])
    queries = vectors[random.integers(0, len(vectors), count)] + 0.78 * noise
    return (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)


def _recall(
    opened: Dense, vectors: np.ndarray, depth: int, first: int, allowed: np.ndarray | None = None
) -> float:
    """Share of the nearest `first` that searches find; checks that rows and scores are right."""
    shares = []
    numbers = vectors.astype(np.float32)
    for query in _queries(vectors, 40):
        cosines = numbers @ query
        rows, scores = opened.search(query, depth, allowed)
        np.testing.assert_allclose(scores, cosines[rows], atol=1e-6)
        assert (np.diff(scores) <= 0).all()
        possible = len(vectors) if allowed is None else int(allowed.sum())
        assert len(set(rows.tolist())) == len(rows) == min(depth, possible)
        assert allowed is None or allowed[rows].all()

        masked = cosines if allowed is None else np.where(allowed, cosines, -9)
        nearest = np.argsort(-masked)[: min(first, possible)]
        shares.append(np.isin(nearest, rows).mean() if possible else 1.0)
    return float(np.mean(shares))


# ---- small segments


@pytest.mark.parametrize(("count", "dim"), [(1, 8), (7, 63), (2048, 64)])
def test_few_rows_are_scored_exactly(tmp_path: Path, count: int, dim: int) -> None:
    vectors = _vectors(count, dim, seed=count)
    opened = _dense(vectors, tmp_path)
    assert _recall(opened, vectors, 100, 100) == 1
    assert json.loads((tmp_path / "dense.json").read_bytes())["index"] == "exact"


def test_depth_beyond_the_rows_returns_all(tmp_path: Path) -> None:
    vectors = _vectors(5, 16, seed=4)
    rows, _ = _dense(vectors, tmp_path).search(vectors[2].astype(np.float32), 100)
    assert sorted(rows) == [0, 1, 2, 3, 4]
    assert rows[0] == 2


# ---- large segments


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, Dense, dict[str, float]]:
    """10,000 vectors, their index, and what was measured when it was built."""
    vectors = _vectors(10_000, 64, seed=3)
    directory = tmp_path_factory.mktemp("large")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "EXACT_ROWS", 2048)
        opened = _dense(vectors, directory)
    return vectors, opened, json.loads((directory / "dense.json").read_bytes())


def test_graph_finds_what_was_measured(large: tuple[np.ndarray, Dense, dict[str, float]]) -> None:
    vectors, opened, measured = large
    assert measured["index"] == "graph"
    # The measured queries are others: 40 of them differ by about a hundredth.
    assert _recall(opened, vectors, 10, 10) >= measured["recall@10"] - 0.02
    assert _recall(opened, vectors, 200, 100) >= measured["recall@100"] - 0.02
    assert measured["recall@10"] >= 0.98
    assert measured["recall@100"] >= 0.96


def test_copies_do_not_widen_the_beam(tmp_path: Path) -> None:
    # Which 10 of 30 copies are the nearest is chance, so no beam finds just those.
    vectors = np.repeat(_vectors(150, 64, seed=8), 30, axis=0)
    _dense(vectors, tmp_path)
    measured = json.loads((tmp_path / "dense.json").read_bytes())
    assert measured["beam"] < ann._BEAMS[-1]
    assert measured["recall@10"] >= 0.99


def test_many_rows_are_linked_more_widely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = _vectors(2500, 32, seed=9)
    for many_rows, beam in ((2500, 80), (2499, 200)):
        monkeypatch.setattr(ann, "MANY_ROWS", many_rows)
        graph = _dense(vectors, tmp_path)._segments[0]._graph
        assert graph is not None
        assert graph._index.hnsw.efConstruction == beam


def test_what_is_as_near_as_the_last_one_is_found() -> None:
    nearest = np.array([0.9, 0.8, 0.8, 0.7], np.float32)
    assert ann.recall(nearest, np.array([0.7, 0.7, 0.8, 0.9, 0.6], np.float32)) == 1
    assert ann.recall(nearest, np.array([0.9, 0.8], np.float32)) == 0.5
    assert ann.recall(nearest, np.array([0.69], np.float32)) == 0


def test_exact_cosines_are_those_of_all_rows() -> None:
    vectors = _vectors(1000, 16, seed=2).astype(np.float32)
    queries = _queries(vectors, 5)
    blocks = [vectors[:7], vectors[7:600], vectors[600:]]
    expected = -np.sort(-(queries @ vectors.T), axis=1)[:, :100]
    np.testing.assert_allclose(ann.exact_cosines(queries, lambda: blocks, 100), expected, atol=1e-6)


@given(
    share=st.sampled_from([1.0, 0.5, 0.1, 0.01, 0.001, 0.0]),
    depth=st.sampled_from([1, 10, 200]),
    seed=st.integers(0, 3),
)
@settings(max_examples=12)
def test_filter_restricts_rows_without_loss(
    large: tuple[np.ndarray, Dense, dict[str, float]], share: float, depth: int, seed: int
) -> None:
    vectors, opened, _ = large
    allowed = np.random.default_rng(seed).random(len(vectors)) < share
    assert _recall(opened, vectors, depth, min(depth, 100), allowed) >= 0.96


@pytest.mark.parametrize("share", [0.3, 0.2])
def test_the_first_walk_is_wide_enough_for_a_filter(
    large: tuple[np.ndarray, Dense, dict[str, float]], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, opened, _ = large
    walk, beams = ann.Graph._walk, []

    def counted(graph: ann.Graph, query: np.ndarray, count: int, beam: int) -> np.ndarray:
        beams.append(beam)
        return walk(graph, query, count, beam)

    monkeypatch.setattr(ann.Graph, "_walk", counted)
    # As if there were so many rows that walks are worth it, and no more than needed.
    monkeypatch.setattr(ann, "_ROWS_PER_BEAM", 1)
    graph = opened._segments[0]._graph
    assert graph is not None
    monkeypatch.setattr(graph, "_beam", 48)
    monkeypatch.setattr(graph, "_widening", 1.25)
    allowed = np.random.default_rng(5).random(len(vectors)) < share
    for query in _queries(vectors, 40):
        opened.search(query, 200, allowed)

    # A second walk is four times as wide.
    assert len(beams) == 40


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("side", [-1, 1])
def test_filter_of_one_region_is_searched_to_its_depth(
    large: tuple[np.ndarray, Dense, dict[str, float]], share: float, side: int
) -> None:
    """All allowed rows are near to the query, or all are far from it."""
    vectors, opened, _ = large
    query = vectors[0].astype(np.float32)
    cosines = vectors.astype(np.float32) @ query
    allowed = side * cosines > np.quantile(side * cosines, 1 - share)
    rows, scores = opened.search(query, 50, allowed)
    assert allowed[rows].all()
    assert len(rows) == 50
    # Codes tell vectors apart that differ by a hundredth.
    np.testing.assert_allclose(scores, np.sort(cosines[allowed])[::-1][:50], atol=0.02)


def test_builds_are_the_same_whatever_the_threads(tmp_path: Path) -> None:
    import faiss

    threads = faiss.omp_get_max_threads()
    contents = []
    for count in (1, 2, 4):
        faiss.omp_set_num_threads(count)
        directory = tmp_path / str(count)
        _dense(_vectors(3000, 32, seed=9), directory)
        contents.append([(directory / name).read_bytes() for name in ("dense.faiss", "dense.json")])
    faiss.omp_set_num_threads(threads)
    assert contents[0] == contents[1] == contents[2]


def test_vectors_that_change_on_disk_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MOST_IN_MEMORY", -1)
    vectors = _vectors(2500, 64, seed=6)
    opened = _dense(vectors, tmp_path)
    path = tmp_path / "vectors.npy"
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    with pytest.raises(Altered, match=r"vectors\.npy was altered"):
        opened.search(vectors[0].astype(np.float32), 10)


def test_graph_is_read_without_a_copy(tmp_path: Path) -> None:
    """Codes in memory are those of the content that was verified."""
    _dense(_vectors(3000, 64, seed=6), tmp_path)
    content = UNCHECKED.read(tmp_path / "dense.faiss")
    settings = json.loads((tmp_path / "dense.json").read_bytes())
    graph = ann.Graph.load(content, settings)
    start = np.frombuffer(content, np.uint8).ctypes.data
    assert start < graph._codes.ctypes.data < start + len(content)


@pytest.mark.parametrize(("dim", "degree"), [(192, 16), (144, 12), (96, 8), (64, 8)])
def test_short_vectors_have_fewer_links(dim: int, degree: int, tmp_path: Path) -> None:
    """Codes and links take a share of the vectors' memory, if any degree fits that."""
    np.save(tmp_path / "vectors.npy", _vectors(5000, dim, seed=6))
    chosen = dense.build_index(tmp_path)
    assert chosen["degree"] == degree
    bytes_per_row = (tmp_path / "dense.faiss").stat().st_size / 5000
    assert bytes_per_row == pytest.approx(chosen["bytes_per_passage"], rel=0.02)


def test_copies_of_one_vector_are_found(tmp_path: Path) -> None:
    """A graph of copies has no way out of them."""
    vectors = _vectors(6000, 64, seed=6)
    vectors[:5000] = vectors[0]
    opened = _dense(vectors, tmp_path)
    rows, scores = opened.search(vectors[5500].astype(np.float32), 10)
    assert rows[0] == 5500
    assert len(rows) == 10
    rows, scores = opened.search(vectors[0].astype(np.float32), 10)
    assert len(set(scores.tolist())) == 1


# ---- several segments, and none of FAISS


def test_cosines_of_vectors_in_half_precision_are_those_of_the_numbers() -> None:
    rng = np.random.default_rng(5)
    # All numbers that a unit vector can have, down to the smallest, in more rows than are taken at once.
    numbers = np.arange(0x3C01, dtype=np.uint16)
    halves = rng.permutation(np.concatenate([numbers, numbers | 0x8000])).view(np.float16)
    vectors = np.resize(halves, (2_000, 40))
    query = rng.standard_normal(40).astype(np.float32)
    expected = np.vecdot(vectors.astype(np.float32), query)
    assert np.array_equal(dense._cosines(vectors, query), expected)


@pytest.mark.parametrize("share", [None, 0.5, 0.01])
def test_segments_are_searched_like_one(tmp_path: Path, share: float | None) -> None:
    vectors = _vectors(3500, 64, seed=8)
    vectors[3250] = vectors[10]
    parts = []
    for number, part in enumerate((vectors[:3000], vectors[3000:])):
        _dense(part, tmp_path / str(number))
        parts.append(VectorSegment.load(tmp_path / str(number)))
    opened = Dense(parts)
    allowed = None if share is None else np.random.default_rng(3).random(len(vectors)) < share
    assert _recall(opened, vectors, 50, 10, allowed) >= 0.98

    query = vectors[10].astype(np.float32)
    rows, scores = opened.search(query, 50, allowed)
    np.testing.assert_array_equal(opened.scores(query, rows), scores)
    # Equal vectors have equal cosines, and the first row comes first.
    rows, scores = opened.search(query, 2)
    assert (rows.tolist(), scores[0] == scores[1]) == ([10, 3250], True)


@pytest.mark.parametrize("missing", ["when built", "when opened"])
def test_without_faiss_all_rows_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    vectors = _vectors(2500, 64, seed=7)
    np.save(tmp_path / "vectors.npy", vectors)

    with monkeypatch.context() as patch:
        if missing == "when built":
            patch.setattr("importlib.util.find_spec", lambda name: None)
        dense.build_index(tmp_path)
    if missing == "when opened":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    opened = Dense([VectorSegment.load(tmp_path)])

    assert _recall(opened, vectors, 100, 100) == 1
    allowed = np.random.default_rng(2).random(len(vectors)) < 0.002
    assert _recall(opened, vectors, 100, 100, allowed) == 1


@pytest.mark.parametrize("rows", [7, 3000])
def test_other_indexes_are_measured_by_what_they_find(
    tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "_ENGINE_PROBES", 512)
    vectors = _vectors(rows, 64, seed=8)
    np.save(tmp_path / "vectors.npy", vectors)
    built = dense.build_index(tmp_path)
    segment = VectorSegment.load(tmp_path)
    path = tmp_path / "vectors.npy"

    measured = dense.measure(path, lambda query, depth: segment.search(query, depth)[1])
    assert measured.keys() == {"recall@10", "recall@100", "ms_per_query"}
    for name in ("recall@10", "recall@100"):
        assert measured[name] == pytest.approx(built[name], abs=1e-3)

    def half(query: np.ndarray, depth: int) -> np.ndarray:
        cosines = np.sort(vectors.astype(np.float32) @ query)[::-1]
        return cosines[: min(depth, 10) // 2]

    measured = dense.measure(path, half)
    assert measured["recall@10"] == pytest.approx(5 / min(rows, 10), abs=1e-4)
    assert measured["recall@100"] == pytest.approx(5 / min(rows, 100), abs=1e-4)
