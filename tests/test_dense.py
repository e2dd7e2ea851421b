from pathlib import Path

import numpy as np
import pytest

from index.search import dense
from index.search.dense import Dense


def _vectors(rows: int, dim: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(max(rows // 40, 1), dim))
    vectors = centres[random.integers(0, len(centres), rows)] + 0.7 * random.normal(
        size=(rows, dim)
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def _dense(vectors: np.ndarray, directory: Path) -> Dense:
    np.save(directory / "vectors.npy", vectors)
    dense.build_index(directory)
    return Dense.load(directory)


def _queries(vectors: np.ndarray, count: int) -> np.ndarray:
    random = np.random.default_rng(1)
    queries = vectors[random.integers(0, len(vectors), count)] + 0.04 * random.normal(
        size=(count, vectors.shape[1])
    )
    return (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("rows", "dim"), [(1, 8), (7, 63), (4096, 64)])
def test_few_rows_are_numpy_brute_force(tmp_path: Path, rows: int, dim: int) -> None:
    vectors = _vectors(rows, dim, seed=rows)
    opened = _dense(vectors, tmp_path)
    for query in _queries(vectors, 20):
        cosines = vectors.astype(np.float32) @ query
        depth = min(100, rows)
        found, scores = opened.search(query, depth)
        np.testing.assert_allclose(scores, np.sort(cosines)[::-1][:depth], atol=1e-6)
        np.testing.assert_allclose(cosines[found], scores, atol=1e-6)


def test_a_scan_finds_what_numpy_finds(tmp_path: Path) -> None:
    vectors = _vectors(20_000, 384, seed=5)
    opened = _dense(vectors, tmp_path)
    shares = []
    for query in _queries(vectors, 50):
        cosines = vectors.astype(np.float32) @ query
        found, scores = opened.search(query, 100)
        np.testing.assert_allclose(
            scores, cosines[found], atol=1e-6
        )  # whatever is found has its exact score
        assert (np.diff(scores) <= 0).all()
        shares.append(np.isin(np.argsort(-cosines)[:100], found).mean())
    assert np.mean(shares) >= 0.99


def test_the_recall_is_measured_when_saving(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", _vectors(6000, 64, seed=6))
    assert 0.99 <= dense.build_index(tmp_path)["dense recall@100"] <= 1


@pytest.mark.parametrize("share", [0.9, 0.5, 0.01, 0.0])
def test_only_allowed_rows_are_found_and_none_is_missed(tmp_path: Path, share: float) -> None:
    vectors = _vectors(20_000, 64, seed=3)
    opened = _dense(vectors, tmp_path)
    allowed = np.random.default_rng(2).random(20_000) < share
    shares = []
    for query in _queries(vectors, 20):
        found, _ = opened.search(query, 50, allowed)
        assert allowed[found].all()
        assert len(found) == min(50, allowed.sum())
        cosines = np.where(allowed, vectors.astype(np.float32) @ query, -9)
        shares.append(
            np.isin(np.argsort(-cosines)[: len(found)], found).mean() if len(found) else 1
        )
    assert np.mean(shares) >= 0.99


def test_a_filter_far_from_the_query_still_finds_all_it_should(tmp_path: Path) -> None:
    vectors = _vectors(20_000, 64, seed=3)
    opened = _dense(vectors, tmp_path)
    query = vectors[0].astype(np.float32)
    cosines = vectors.astype(np.float32) @ query
    allowed = cosines < np.median(cosines)
    found, scores = opened.search(query, 50, allowed)
    np.testing.assert_allclose(scores, np.sort(cosines[allowed])[::-1][:50], atol=1e-6)
    assert allowed[found].all()


def test_depth_beyond_the_rows_gives_all(tmp_path: Path) -> None:
    vectors = _vectors(5, 16, seed=4)
    found, _ = _dense(vectors, tmp_path).search(vectors[2].astype(np.float32), 100)
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert found[0] == 2
