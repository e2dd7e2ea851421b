"""Nearest vectors: a 4-bit scan proposes rows, the stored vectors decide.

FAISS scans codes of 4 bits per two dimensions (`IndexPQFastScan`, a sixteenth of the memory of float32); the best of
them are scored again with the half-precision vectors, so scores are always those of the vectors themselves. How many
rows the scan must propose so that none of the first hundred is missed is measured when the index is saved, and kept
with the recall in `dense.json`. Few rows, or few that pass a filter, are scored without a scan.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from index.encoder import Vectors
from index.storage import read_array

Rows = NDArray[np.int64]
EXACT_ROWS = 4096  # as few are all scored
_BATCH_ROWS = 16_384
_TRAINING_ROWS = 4096
_TRAINING_ROUNDS = 5
_PROBES, _PROBE_DEPTH, _NOISE = 64, 100, 0.04
_OVERFETCH = (5, 20, 80)  # rows proposed for each row asked for
_RECALL = 0.99


def save(directory: Path) -> dict[str, float]:
    """Make `dense.faiss` and `dense.json` from `vectors.npy` (n, dim) float16 in `directory`; returns the measures."""
    vectors = np.load(directory / "vectors.npy", mmap_mode="r")
    settings: dict[str, float] = {"overfetch": _OVERFETCH[0], "recall@100": 1.0}
    if len(vectors) > EXACT_ROWS:
        index = _made(vectors)
        faiss.write_index(index, str(directory / "dense.faiss"))
        settings = _tuned(index, vectors)
    (directory / "dense.json").write_text(json.dumps(settings) + "\n")
    return {"dense recall@100": settings["recall@100"]}


def _made(vectors: NDArray[np.float16]) -> faiss.Index:
    dim = vectors.shape[1]
    index = faiss.IndexPQFastScan(
        dim, dim // 2 if dim % 2 == 0 else dim, 4, faiss.METRIC_INNER_PRODUCT
    )
    index.pq.cp.niter = _TRAINING_ROUNDS
    sample = np.sort(np.random.default_rng(0).choice(len(vectors), _TRAINING_ROWS, replace=False))
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(
        1
    )  # training is 192 tiny clusterings: threads that wait for each other took 200 times longer
    index.train(vectors[sample].astype(np.float32))
    faiss.omp_set_num_threads(threads)
    for start in range(0, len(vectors), _BATCH_ROWS):
        index.add(vectors[start : start + _BATCH_ROWS].astype(np.float32))
    return index


def _tuned(index: faiss.Index, vectors: NDArray[np.float16]) -> dict[str, float]:
    """The least overfetch that reaches `_RECALL` on noisy copies of stored vectors, and that recall."""
    random = np.random.default_rng(1)
    probes = vectors[np.sort(random.choice(len(vectors), _PROBES, replace=False))].astype(
        np.float32
    )
    probes += _NOISE * random.standard_normal(probes.shape, dtype=np.float32)
    cosines = np.concatenate(
        [
            vectors[s : s + _BATCH_ROWS].astype(np.float32) @ probes.T
            for s in range(0, len(vectors), _BATCH_ROWS)
        ]
    )
    wanted = np.argpartition(-cosines, _PROBE_DEPTH, axis=0)[:_PROBE_DEPTH].T
    recall = 0.0
    for overfetch in _OVERFETCH:
        found = Dense(vectors, index, overfetch)
        shares = [
            np.isin(rows, found.search(probe, _PROBE_DEPTH)[0]).mean()
            for probe, rows in zip(probes, wanted, strict=True)
        ]
        recall = float(np.mean(shares))
        if recall >= _RECALL:
            break
    return {"overfetch": overfetch, "recall@100": round(recall, 4)}


def _index(content: bytes) -> faiss.Index:
    return faiss.deserialize_index(np.frombuffer(content, np.uint8))


class Dense:
    """Unit vectors of passages, one row each."""

    def __init__(
        self, vectors: NDArray[np.float16], index: faiss.Index | None, overfetch: float
    ) -> None:
        self._vectors = vectors
        self._index = index
        self._overfetch = overfetch

    @classmethod
    def load(cls, directory: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> Dense:
        """Read what `save` wrote into memory; `read` gives the content of a file."""
        vectors = read_array(read(directory / "vectors.npy"))
        settings = json.loads(read(directory / "dense.json"))
        index = _index(read(directory / "dense.faiss")) if len(vectors) > EXACT_ROWS else None
        return cls(vectors, index, settings["overfetch"])

    def __len__(self) -> int:
        return len(self._vectors)

    def search(
        self, query: Vectors, depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, Vectors]:
        """Rows and cosines of the `depth` nearest to `query` (dim,), best first; `allowed` (n,) restricts the rows."""
        rows = self._proposed(query, depth, allowed)
        scores = self.scores(query, rows)
        order = np.lexsort((rows, -scores))[:depth]
        return rows[order], scores[order]

    def _proposed(self, query: Vectors, depth: int, allowed: NDArray[np.bool_] | None) -> Rows:
        """Rows that hold the nearest `depth`: `overfetch` times as many, or all where that is not much more."""
        wanted = int(depth * self._overfetch)
        candidates = len(self) if allowed is None else int(np.count_nonzero(allowed))
        fetched = -(
            -wanted * len(self) // max(candidates, 1)
        )  # so that a filter leaves `wanted` on average
        while (
            self._index is not None
            and candidates > max(wanted, EXACT_ROWS)
            and fetched < len(self) // 2
        ):
            rows: Rows = self._index.search(query[None], fetched)[1][0]
            rows = rows[rows >= 0] if allowed is None else rows[(rows >= 0) & allowed[rows]]
            if len(rows) >= wanted // 2:
                return rows
            fetched *= 4
        return np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """(len(rows),) cosines of `query` (dim,) with the stored vectors of `rows`."""
        batches = [rows[start : start + _BATCH_ROWS] for start in range(0, len(rows), _BATCH_ROWS)]
        cosines = [self._vectors[batch].astype(np.float32) @ query for batch in batches]
        return (
            np.concatenate(cosines, dtype=np.float32) if cosines else np.zeros(0, dtype=np.float32)
        )
