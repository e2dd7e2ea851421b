"""Nearest vectors: a 4-bit scan proposes rows, the stored vectors decide.

FAISS scans codes of 4 bits per two dimensions (`IndexPQFastScan`, a sixteenth of the memory of
float32). The best rows are scored again with the half-precision vectors, so scores are always those
of the stored vectors. How many rows the scan must propose to miss none of the first hundred is
measured when the index is built, and stored with the recall in `dense.json`. If there are few rows,
or few that pass a filter, all are scored without a scan.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import Vectors
from purlin.index.storage import read_array

Rows = NDArray[np.int64]

# Up to this many rows are all scored, without a scan.
EXACT_ROWS = 4096
_BATCH_ROWS = 16_384
_TRAINING_ROWS = 4096
_TRAINING_ROUNDS = 5
_PROBES, _PROBE_DEPTH, _NOISE = 64, 100, 0.04
# Rows proposed per requested row: the first that reaches the recall is taken.
_OVERFETCH = (5, 20, 80)
_RECALL = 0.99


def build_index(directory: Path) -> dict[str, float]:
    """Make `dense.faiss` and `dense.json` from `vectors.npy` (n, dim) float16 in `directory`.

    Returns the measures for the manifest.
    """
    vectors = np.load(directory / "vectors.npy", mmap_mode="r")
    settings: dict[str, float] = {"overfetch": _OVERFETCH[0], "recall@100": 1.0}

    if len(vectors) > EXACT_ROWS:
        index = _trained(vectors)
        faiss.write_index(index, str(directory / "dense.faiss"))
        settings = _tuned(index, vectors)

    (directory / "dense.json").write_text(json.dumps(settings) + "\n")
    return {"dense recall@100": settings["recall@100"]}


def _trained(vectors: NDArray[np.float16]) -> faiss.Index:
    """FAISS index of all vectors, trained on a sample."""
    dim = vectors.shape[1]
    codes = dim // 2 if dim % 2 == 0 else dim
    index = faiss.IndexPQFastScan(dim, codes, 4, faiss.METRIC_INNER_PRODUCT)
    index.pq.cp.niter = _TRAINING_ROUNDS
    sample = np.sort(np.random.default_rng(0).choice(len(vectors), _TRAINING_ROWS, replace=False))

    # Training is 192 tiny clusterings: threads that wait for each other took 200 times longer.
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    index.train(vectors[sample].astype(np.float32))
    faiss.omp_set_num_threads(threads)

    for start in range(0, len(vectors), _BATCH_ROWS):
        index.add(vectors[start : start + _BATCH_ROWS].astype(np.float32))
    return index


def _tuned(index: faiss.Index, vectors: NDArray[np.float16]) -> dict[str, float]:
    """Smallest overfetch that reaches `_RECALL` on noisy copies of vectors, with its recall."""
    random = np.random.default_rng(1)
    sample = np.sort(random.choice(len(vectors), _PROBES, replace=False))
    probes = vectors[sample].astype(np.float32)
    probes += _NOISE * random.standard_normal(probes.shape, dtype=np.float32)

    batches = [
        vectors[start : start + _BATCH_ROWS].astype(np.float32) @ probes.T
        for start in range(0, len(vectors), _BATCH_ROWS)
    ]
    cosines = np.concatenate(batches)
    nearest = np.argpartition(-cosines, _PROBE_DEPTH, axis=0)[:_PROBE_DEPTH].T

    recall = 0.0
    for overfetch in _OVERFETCH:
        dense = Dense(vectors, index, overfetch)
        shares = [
            np.isin(rows, dense.search(probe, _PROBE_DEPTH)[0]).mean()
            for probe, rows in zip(probes, nearest, strict=True)
        ]
        recall = float(np.mean(shares))
        if recall >= _RECALL:
            break
    return {"overfetch": overfetch, "recall@100": round(recall, 4)}


def _read_index(content: bytes) -> faiss.Index:
    return faiss.deserialize_index(np.frombuffer(content, np.uint8))


class Dense:
    """The dense retriever: unit vectors of passages, one row each."""

    def __init__(
        self, vectors: NDArray[np.float16], index: faiss.Index | None, overfetch: float
    ) -> None:
        self._vectors = vectors
        self._index = index
        self._overfetch = overfetch

    @classmethod
    def load(cls, directory: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> Dense:
        """Read the files of `build_index` into memory; `read` returns the content of a file."""
        vectors = read_array(read(directory / "vectors.npy"))
        settings = json.loads(read(directory / "dense.json"))

        index = None
        if len(vectors) > EXACT_ROWS:
            index = _read_index(read(directory / "dense.faiss"))
        return cls(vectors, index, settings["overfetch"])

    def __len__(self) -> int:
        return len(self._vectors)

    def search(
        self, query: Vectors, depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, Vectors]:
        """Return rows and cosines of the `depth` vectors nearest to `query` (dim,), best first.

        `allowed` (n,) restricts the rows.
        """
        rows = self._candidates(query, depth, allowed)
        scores = self.scores(query, rows)
        order = np.lexsort((rows, -scores))[:depth]
        return rows[order], scores[order]

    def _candidates(self, query: Vectors, depth: int, allowed: NDArray[np.bool_] | None) -> Rows:
        """Rows that include the nearest `depth`: `overfetch` times as many, or all if few more."""
        needed = int(depth * self._overfetch)
        total = len(self) if allowed is None else int(np.count_nonzero(allowed))
        # Rounded up, and so many that a filter leaves `needed` of them on average.
        fetched = -(-needed * len(self) // max(total, 1))

        while (
            self._index is not None and total > max(needed, EXACT_ROWS) and fetched < len(self) // 2
        ):
            rows: Rows = self._index.search(query[None], fetched)[1][0]
            # FAISS fills up with -1.
            rows = rows[rows >= 0] if allowed is None else rows[(rows >= 0) & allowed[rows]]
            if len(rows) >= needed // 2:
                return rows
            fetched *= 4

        return np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """Return the cosines (len(rows),) of `query` (dim,) with the stored vectors of `rows`."""
        batches = [rows[start : start + _BATCH_ROWS] for start in range(0, len(rows), _BATCH_ROWS)]
        if not batches:
            return np.zeros(0, dtype=np.float32)

        cosines = [self._vectors[batch].astype(np.float32) @ query for batch in batches]
        return np.concatenate(cosines, dtype=np.float32)

    def mean(self, rows: Rows) -> Vectors:
        """Return the unit vector (dim,) between the stored vectors of `rows`."""
        total: Vectors = self._vectors[rows].astype(np.float32).sum(axis=0)
        return total / max(float(np.linalg.norm(total)), 1e-12)
