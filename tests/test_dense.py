from pathlib import Path

import numpy as np
import pytest

from index import dense
from index.dense import Dense


def _vectors(rows: int, dim: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(max(rows // 40, 1), dim))
    vectors = centres[random.integers(0, len(centres), rows)] + 0.7 * random.normal(size=(rows, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def _dense(vectors: np.ndarray, directory: Path) -> Dense:
    np.save(directory / "vectors.npy", vectors)
    dense.save(directory)
    return Dense.load(directory)


@pytest.mark.parametrize(("rows", "dim"), [(1, 8), (7, 64), (5000, 384)])
def test_search_is_numpy_brute_force(tmp_path: Path, rows: int, dim: int) -> None:
    vectors = _vectors(rows, dim, seed=rows)
    opened = _dense(vectors, tmp_path)
    random = np.random.default_rng(1)
    for _ in range(20):
        query = random.normal(size=dim).astype(np.float32)
        query /= np.linalg.norm(query)
        cosines = vectors.astype(np.float32) @ query
        depth = min(100, rows)
        found, scores = opened.search(query, depth)
        best = np.argsort(-cosines, kind="stable")[:depth]
        np.testing.assert_allclose(scores, cosines[best], atol=1e-6)
        np.testing.assert_allclose(cosines[found], cosines[best], atol=1e-6)


def test_only_allowed_rows_are_found(tmp_path: Path) -> None:
    vectors = _vectors(1000, 32, seed=3)
    opened = _dense(vectors, tmp_path)
    allowed = np.zeros(1000, dtype=np.bool_)
    allowed[[3, 500, 999]] = True
    found, _ = opened.search(vectors[0].astype(np.float32), 10, allowed)
    assert sorted(found) == [3, 500, 999]
    found, _ = opened.search(vectors[0].astype(np.float32), 10, np.zeros(1000, dtype=np.bool_))
    assert len(found) == 0


def test_depth_beyond_the_rows_gives_all(tmp_path: Path) -> None:
    vectors = _vectors(5, 16, seed=4)
    found, _ = _dense(vectors, tmp_path).search(vectors[2].astype(np.float32), 100)
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert found[0] == 2
