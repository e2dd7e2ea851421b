from pathlib import Path

import numpy as np
import pytest

from purlin.index.search import dense
from purlin.index.search.dense import Dense, VectorSegment


def _vectors(rows: int, dim: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(max(rows // 40, 1), dim))
    vectors = centres[random.integers(0, len(centres), rows)] + 0.7 * random.normal(
        size=(rows, dim)
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan what has more than 4096 rows."""
    monkeypatch.setattr(dense, "EXACT_ROWS", 4096)


def _dense(vectors: np.ndarray, directory: Path) -> Dense:
    np.save(directory / "vectors.npy", vectors)
    dense.build_index(directory)
    return Dense([VectorSegment.load(directory)])


def _queries(vectors: np.ndarray, count: int) -> np.ndarray:
    random = np.random.default_rng(1)
    queries = vectors[random.integers(0, len(vectors), count)] + 0.04 * random.normal(
        size=(count, vectors.shape[1])
    )
    return (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("count", "dim"), [(1, 8), (7, 63), (4096, 64)])
def test_few_rows_are_scored_exactly(tmp_path: Path, count: int, dim: int) -> None:
    vectors = _vectors(count, dim, seed=count)
    opened = _dense(vectors, tmp_path)
    for query in _queries(vectors, 20):
        cosines = vectors.astype(np.float32) @ query
        depth = min(100, count)
        rows, scores = opened.search(query, depth)
        np.testing.assert_allclose(scores, np.sort(cosines)[::-1][:depth], atol=1e-6)
        np.testing.assert_allclose(cosines[rows], scores, atol=1e-6)


def test_scan_finds_the_nearest_rows(tmp_path: Path) -> None:
    vectors = _vectors(20_000, 384, seed=5)
    opened = _dense(vectors, tmp_path)
    shares = []
    for query in _queries(vectors, 50):
        cosines = vectors.astype(np.float32) @ query
        rows, scores = opened.search(query, 100)
        np.testing.assert_allclose(
            scores, cosines[rows], atol=1e-6
        )  # whatever is rows has its exact score
        assert (np.diff(scores) <= 0).all()
        shares.append(np.isin(np.argsort(-cosines)[:100], rows).mean())
    assert np.mean(shares) >= 0.99


def test_build_index_measures_recall(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", _vectors(6000, 64, seed=6))
    assert 0.99 <= dense.build_index(tmp_path) <= 1


@pytest.mark.parametrize("share", [0.9, 0.5, 0.01, 0.0])
def test_filter_restricts_rows_without_loss(tmp_path: Path, share: float) -> None:
    vectors = _vectors(20_000, 64, seed=3)
    opened = _dense(vectors, tmp_path)
    allowed = np.random.default_rng(2).random(20_000) < share
    shares = []
    for query in _queries(vectors, 20):
        rows, _ = opened.search(query, 50, allowed)
        assert allowed[rows].all()
        assert len(rows) == min(50, allowed.sum())
        cosines = np.where(allowed, vectors.astype(np.float32) @ query, -9)
        shares.append(np.isin(np.argsort(-cosines)[: len(rows)], rows).mean() if len(rows) else 1)
    assert np.mean(shares) >= 0.99


def test_filter_far_from_the_query_is_exact(tmp_path: Path) -> None:
    vectors = _vectors(20_000, 64, seed=3)
    opened = _dense(vectors, tmp_path)
    query = vectors[0].astype(np.float32)
    cosines = vectors.astype(np.float32) @ query
    allowed = cosines < np.median(cosines)
    rows, scores = opened.search(query, 50, allowed)
    np.testing.assert_allclose(scores, np.sort(cosines[allowed])[::-1][:50], atol=1e-6)
    assert allowed[rows].all()


def test_depth_beyond_the_rows_returns_all(tmp_path: Path) -> None:
    vectors = _vectors(5, 16, seed=4)
    rows, _ = _dense(vectors, tmp_path).search(vectors[2].astype(np.float32), 100)
    assert sorted(rows) == [0, 1, 2, 3, 4]
    assert rows[0] == 2


@pytest.mark.parametrize("share", [None, 0.5, 0.01])
def test_segments_are_searched_like_one(tmp_path: Path, share: float | None) -> None:
    vectors = _vectors(7000, 64, seed=8)
    vectors[6500] = vectors[10]
    parts = []
    for number, part in enumerate((vectors[:6000], vectors[6000:])):
        (tmp_path / str(number)).mkdir()
        np.save(tmp_path / str(number) / "vectors.npy", part)
        dense.build_index(tmp_path / str(number))
        parts.append(VectorSegment.load(tmp_path / str(number)))
    opened = Dense(parts)
    allowed = None if share is None else np.random.default_rng(3).random(7000) < share

    shares = []
    for query in [vectors[10].astype(np.float32), *_queries(vectors, 20)]:
        cosines = vectors.astype(np.float32) @ query
        rows, scores = opened.search(query, 50, allowed)
        np.testing.assert_allclose(scores, cosines[rows], atol=1e-6)
        np.testing.assert_array_equal(opened.scores(query, rows), scores)
        expected = np.argsort(-np.where(True if allowed is None else allowed, cosines, -9))[:50]
        shares.append(np.isin(expected, rows).mean())
    assert np.mean(shares) >= 0.98
    # Equal vectors have equal cosines, and the first row comes first.
    rows, scores = opened.search(vectors[10].astype(np.float32), 2)
    assert (rows.tolist(), scores[0] == scores[1]) == ([10, 6500], True)


@pytest.mark.parametrize("missing", ["when built", "when opened"])
def test_without_faiss_all_rows_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    vectors = _vectors(6000, 64, seed=7)
    np.save(tmp_path / "vectors.npy", vectors)

    with monkeypatch.context() as patch:
        if missing == "when built":
            patch.setattr("importlib.util.find_spec", lambda name: None)
        dense.build_index(tmp_path)
    if missing == "when opened":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    opened = Dense([VectorSegment.load(tmp_path)])

    for query in _queries(vectors, 20):
        cosines = vectors.astype(np.float32) @ query
        rows, _ = opened.search(query, 100)
        assert set(rows) == set(np.argsort(-cosines, kind="stable")[:100])
