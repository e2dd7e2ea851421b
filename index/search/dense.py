"""Nearest vectors: by all inner products in small segments, by a 4-bit scan in large ones.

In a segment of up to `EXACT_ROWS` rows, all are scored. In a larger one, FAISS scans codes of 4
bits per two dimensions (`IndexPQFastScan`, a sixteenth of the memory of float32), and the best rows
are scored again with the half-precision vectors, so scores are always those of the stored vectors.
How many rows the scan must propose to miss none of the first hundred is measured when the index is
built, and stored with the recall in `dense.json`. If few rows pass a filter, all are scored; and so
are all rows of any segment where FAISS, which is optional, is not installed.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.blocks import UNCHECKED, Reader
from purlin.index.encoder import Vectors
from purlin.index.storage import read_array

# Importing it takes longer than a search of a small corpus, which does without it.
if TYPE_CHECKING:
    import faiss

Rows = NDArray[np.int64]

VECTORS_FILE, SETTINGS_FILE, INDEX_FILE = "vectors.npy", "dense.json", "dense.faiss"
# Up to this many rows of a segment are all scored, without a scan; see docs/decisions.md.
EXACT_ROWS = 30_000
_BATCH_ROWS = 16_384
_TRAINING_ROWS = 4096
_TRAINING_ROUNDS = 5
_PROBES, _PROBE_DEPTH, _NOISE = 64, 100, 0.04
# Rows proposed per requested row: the first that reaches the recall is taken.
_OVERFETCH = (5, 20, 80)
_RECALL = 0.99


def build_index(directory: Path) -> float:
    """Make `dense.faiss` and `dense.json` from `vectors.npy` (n, dim) float16 in `directory`.

    Returns the index's recall among the nearest hundred.
    """
    vectors = np.load(directory / VECTORS_FILE, mmap_mode="r")
    settings: dict[str, float] = {"overfetch": _OVERFETCH[0], "recall@100": 1.0}
    scanned = len(vectors) > EXACT_ROWS and _can_scan()

    if scanned:
        import faiss

        index = _trained(vectors)
        faiss.write_index(index, str(directory / INDEX_FILE))
        settings = _tuned(index, vectors)

    (directory / SETTINGS_FILE).write_text(json.dumps({"scanned": scanned, **settings}) + "\n")
    return settings["recall@100"]


def _can_scan() -> bool:
    return importlib.util.find_spec("faiss") is not None


def _trained(vectors: NDArray[np.float16]) -> faiss.Index:
    """FAISS index of all vectors, trained on a sample."""
    import faiss

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
        segment = VectorSegment(vectors, index, overfetch)
        shares = [
            np.isin(rows, segment.search(probe, _PROBE_DEPTH)[0]).mean()
            for probe, rows in zip(probes, nearest, strict=True)
        ]
        recall = float(np.mean(shares))
        if recall >= _RECALL:
            break
    return {"overfetch": overfetch, "recall@100": round(recall, 4)}


def _cosines(vectors: NDArray[Any], query: Vectors) -> Vectors:
    """Inner products (n,) of unit vectors (n, dim) with `query` (dim,).

    Equal vectors have equal cosines, wherever they are: each row is summed up on its own. And
    unlike a matrix product, this starts no threads, which wait for each other if cores are shared.
    """
    cosines: Vectors = np.vecdot(vectors.astype(np.float32, copy=False), query)
    return cosines


class VectorSegment:
    """Unit vectors of one segment's passages, one row each, float16 or float32."""

    def __init__(self, vectors: NDArray[Any], index: faiss.Index | None, overfetch: float) -> None:
        self._vectors = vectors
        self._index = index
        self._overfetch = overfetch

    @classmethod
    def load(cls, directory: Path, files: Reader = UNCHECKED) -> VectorSegment:
        """Read the files of `build_index` into memory; `read` returns the content of a file."""
        vectors = read_array(files.read(directory / VECTORS_FILE))
        settings = json.loads(files.read(directory / SETTINGS_FILE))
        if not settings["scanned"] or not _can_scan():
            # A product of half-precision numbers takes six times as long.
            return cls(vectors.astype(np.float32), None, settings["overfetch"])

        import faiss

        content = np.frombuffer(files.read(directory / INDEX_FILE), np.uint8)
        return cls(vectors, faiss.deserialize_index(content), settings["overfetch"])

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
        if self._index is None:
            return self._nearest(query, depth, allowed)

        # Rounded up, and so many that a filter leaves `needed` of them on average.
        fetched = -(-needed * len(self) // max(total, 1))
        while total > max(needed, EXACT_ROWS) and fetched < len(self) // 2:
            rows: Rows = self._index.search(query[None], fetched)[1][0]
            # FAISS fills up with -1.
            rows = rows[rows >= 0] if allowed is None else rows[(rows >= 0) & allowed[rows]]
            if len(rows) >= needed // 2:
                return rows
            fetched *= 4

        return np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)

    def _nearest(self, query: Vectors, depth: int, allowed: NDArray[np.bool_] | None) -> Rows:
        """The nearest `depth` rows; more if the last ones are equally near."""
        cosines = _cosines(self._vectors, query)
        if allowed is not None:
            cosines[~allowed] = -np.inf
        if depth >= len(cosines):
            return np.flatnonzero(cosines > -np.inf)

        position = len(cosines) - depth
        lowest = np.partition(cosines, position)[position]
        return np.flatnonzero(cosines >= max(lowest, -2.0))

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """Return the cosines (len(rows),) of `query` (dim,) with the stored vectors of `rows`."""
        batches = [rows[start : start + _BATCH_ROWS] for start in range(0, len(rows), _BATCH_ROWS)]
        if not batches:
            return np.zeros(0, dtype=np.float32)

        cosines = [_cosines(self._vectors[batch], query) for batch in batches]
        return np.concatenate(cosines, dtype=np.float32)

    def total(self, rows: Rows) -> Vectors:
        """Return the sum (dim,) of the stored vectors of `rows`."""
        total: Vectors = self._vectors[rows].astype(np.float32).sum(axis=0)
        return total


class Dense:
    """The dense retriever: the vectors of one or more segments.

    The rows of a segment follow those of the one before it.
    """

    def __init__(self, segments: Sequence[VectorSegment]) -> None:
        self._segments = segments
        self._starts = [0, *accumulate(map(len, segments))]

    def __len__(self) -> int:
        return self._starts[-1]

    def search(
        self, query: Vectors, depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, Vectors]:
        """Return rows and cosines of the `depth` vectors nearest to `query` (dim,), best first.

        `allowed` (n,) restricts the rows.
        """
        all_rows, all_scores = [], []
        for segment, start, end in self._parts():
            rows, scores = segment.search(
                query, depth, allowed[start:end] if allowed is not None else None
            )
            all_rows.append(rows + start)
            all_scores.append(scores)

        rows, scores = np.concatenate(all_rows), np.concatenate(all_scores)
        order = np.lexsort((rows, -scores))[:depth]
        return rows[order], scores[order]

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """Return the cosines (len(rows),) of `query` (dim,) with the stored vectors of `rows`."""
        scores = np.zeros(len(rows), dtype=np.float32)
        for segment, start, end in self._parts():
            inside = (rows >= start) & (rows < end)
            scores[inside] = segment.scores(query, rows[inside] - start)
        return scores

    def mean(self, rows: Rows) -> Vectors:
        """Return the unit vector (dim,) between the stored vectors of `rows`."""
        totals = [
            segment.total(rows[(rows >= start) & (rows < end)] - start)
            for segment, start, end in self._parts()
        ]
        total: Vectors = np.sum(totals, axis=0)
        return total / max(float(np.linalg.norm(total)), 1e-12)

    def _parts(self) -> Iterator[tuple[VectorSegment, int, int]]:
        return zip(self._segments, self._starts, self._starts[1:], strict=False)
