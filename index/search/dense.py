"""Nearest vectors: by all inner products in small segments, by a graph in large ones.

The vectors of a segment of up to `EXACT_ROWS` rows are in memory, and all are scored. Those of a
larger one stay on disk. The candidates that the graph of `purlin.index.search.ann` proposes are
scored with them, so scores are always those of the stored vectors. Where FAISS, which makes graphs,
is not installed, all vectors of a large segment are read for a search.

    vectors.npy    float16 (rows, dim); a block file in a large segment
    dense.json     the kind of index, its settings and its recall
    dense.faiss    the graph of a large segment
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import Vectors
from purlin.index.search import ann
from purlin.index.search.ann import Graph
from purlin.index.search.arrays import Mask, Rows
from purlin.index.storage import array_header, read_array
from purlin.index.storage.blocks import BLOCK, UNCHECKED, BlockFile, FileReader, seal

VECTORS_FILE, SETTINGS_FILE, INDEX_FILE = "vectors.npy", "dense.json", "dense.faiss"
# Up to this many rows of a segment are all scored, without a graph; see docs/decisions.md.
EXACT_ROWS = 30_000
_BATCH_ROWS = 16_384
# Shifted left by 13 bits, the bits of a half-precision number are those of 2**-112 times its value in
# float32. Few rows at once stay in a processor's cache.
_SHIFT, _SIGN_AND_REST, _SCALE = 13, np.int32(-0x70002000), np.float32(2.0**112)
_ROWS_IN_CACHE = 512
_HEADER_BYTES = 4096  # more than the header of an array of two dimensions has
_SAMPLE_ROWS = 32_768
_TIMED_QUERIES, _TIMED_DEPTH = 8, 10
_ENGINE_PROBES = 128  # fewer than for a graph: each search of an engine takes longer


def build_index(
    directory: Path, *, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Index `vectors.npy` (n, dim) float16 in `directory`, a block at a time.

    `progress` is called before each block of vectors, with the number of those already in the graph.
    Returns the kind of index and its settings, and what was measured: recall@10, recall@100,
    bytes_per_passage and ms_per_query, the median at depth 10.
    """
    path = directory / VECTORS_FILE
    rows, dim = _shape(path)
    settings = {
        "index": "exact",
        "vectors": "memory" if rows <= EXACT_ROWS else "disk",
        "recall@10": 1.0,
        "recall@100": 1.0,
        "bytes_per_passage": 4 * dim if rows <= EXACT_ROWS else 0,
    }
    sample = _sample(path, rows)

    if rows > EXACT_ROWS:
        seal(path)
        if ann.is_available():
            settings |= _build_graph(directory, settings, sample, progress)

    (directory / SETTINGS_FILE).write_text(json.dumps(settings) + "\n")
    return {**settings, "ms_per_query": _median_ms(VectorSegment.load(directory), sample)}


def _build_graph(
    directory: Path,
    settings: Mapping[str, Any],
    sample: Vectors,
    progress: Callable[[int], None] | None,
) -> dict[str, Any]:
    """Write the graph of the vectors in `directory`; return its settings and recall.

    A function of its own, so that the graph's memory is free afterwards.
    """
    path = directory / VECTORS_FILE
    vectors = stored_vectors(directory, settings)
    graph = Graph.build(lambda: _blocks(path, progress), len(vectors), sample)
    recall = graph.tune(lambda: _blocks(path), sample, VectorSegment(vectors, graph).scores)
    graph.save(directory / INDEX_FILE)
    return {"index": "graph", **graph.settings, **recall}


def measure(path: Path, search: Callable[[Vectors, int], Vectors]) -> dict[str, float]:
    """Measure how another index searches the vectors in a file, in the way of `build_index`.

    `search` takes a vector (dim,) and a depth, and returns the cosines of its hits; a hit as near as a
    true neighbour counts as one. Returns recall@10, recall@100 and ms_per_query.
    """
    rows, _ = _shape(path)
    probes = ann.probes_near(_sample(path, rows), _ENGINE_PROBES)
    cosines = ann.exact_cosines(probes, lambda: _blocks(path), min(ann.MEASURED, rows))

    shallow, deep, times = [], [], []
    for probe, nearest in zip(probes, cosines, strict=True):
        start = time.perf_counter()
        hits = search(probe, ann.SHALLOW)
        times.append(time.perf_counter() - start)
        shallow.append(ann.recall(nearest[: ann.SHALLOW], hits))
        deep.append(ann.recall(nearest, search(probe, ann.DEEP)))
    return {
        "recall@10": round(float(np.mean(shallow)), 4),
        "recall@100": round(float(np.mean(deep)), 4),
        "ms_per_query": round(float(np.median(times)) * 1000, 3),
    }


def _shape(path: Path) -> tuple[int, int]:
    with path.open("rb") as file:
        return _read_header(file)


def _read_header(file: IO[bytes]) -> tuple[int, int]:
    """Read the header, and return the shape (rows, dim) of the array after it. Raises ValueError."""
    shape, dtype, _, start = array_header(file.read(_HEADER_BYTES))
    if dtype != np.dtype("<f2") or len(shape) != 2:
        raise ValueError(f"{VECTORS_FILE} has {dtype} numbers of shape {shape}")
    file.seek(start)
    return shape[0], shape[1]


def _blocks(path: Path, progress: Callable[[int], None] | None = None) -> Iterator[Vectors]:
    """Yield the vectors of a file, float32, in the order of their rows."""
    with path.open("rb") as file:
        rows, dim = _read_header(file)

        for start in range(0, rows, _BATCH_ROWS):
            if progress is not None:
                progress(start)

            count = min(_BATCH_ROWS, rows - start)
            block = np.fromfile(file, np.float16, count * dim).reshape(count, dim)
            yield block.astype(np.float32)


def _sample(path: Path, rows: int) -> Vectors:
    """Return every n-th vector (m, dim), with n such that there are at most `_SAMPLE_ROWS`."""
    step = max(-(-rows // _SAMPLE_ROWS), 1)
    parts, start = [], 0
    for block in _blocks(path):
        parts.append(block[-start % step :: step])
        start += len(block)
    return np.concatenate(parts) if parts else np.empty((0, 0), dtype=np.float32)


def _median_ms(segment: VectorSegment, queries: Vectors) -> float:
    """Return the median time of a search of the segment, in milliseconds."""
    times = []
    for query in queries[:: max(len(queries) // _TIMED_QUERIES, 1)][:_TIMED_QUERIES]:
        start = time.perf_counter()
        segment.search(query, _TIMED_DEPTH)
        times.append(time.perf_counter() - start)
    return round(float(np.median(times)) * 1000, 3) if times else 0.0


def _cosines(vectors: NDArray[Any], query: Vectors) -> Vectors:
    """Return the inner products (n,) of unit vectors (n, dim) with `query` (dim,).

    Each row is summed on its own, so equal vectors have equal cosines wherever they are. Unlike a
    matrix product, this starts no threads, which would wait for each other on shared cores.
    """
    if vectors.dtype == np.float16:
        return _cosines_of_halves(vectors, query)
    cosines: Vectors = np.vecdot(vectors, query)
    return cosines


def _cosines_of_halves(vectors: NDArray[np.float16], query: Vectors) -> Vectors:
    """Return what `_cosines` does for vectors in float16, which have neither infinity nor NaN.

    numpy takes five times as long to convert them.
    """
    cosines = np.empty(len(vectors), dtype=np.float32)
    numbers = np.empty((_ROWS_IN_CACHE, vectors.shape[1]), dtype=np.int32)
    scaled_query = query * _SCALE
    for start in range(0, len(vectors), _ROWS_IN_CACHE):
        halves = vectors[start : start + _ROWS_IN_CACHE].view("<i2")
        bits = numbers[: len(halves)]
        np.copyto(bits, halves)
        np.left_shift(bits, _SHIFT, out=bits)
        # Between the sign and the exponent are copies of the sign.
        np.bitwise_and(bits, _SIGN_AND_REST, out=bits)
        cosines[start : start + len(bits)] = np.vecdot(bits.view(np.float32), scaled_query)
    return cosines


def _least_of_nearest(cosines: Vectors, depth: int) -> float:
    """Return the least of the `depth` highest cosines (n,), but more than the -inf of excluded rows."""
    if not depth or not len(cosines):
        return math.inf
    position = max(len(cosines) - depth, 0)
    # No cosine is as low as -2, whatever its rounding error.
    return max(float(np.partition(cosines, position)[position]), -2.0)


class _InMemory:
    """Vectors (n, dim) in float32: with half-precision numbers, a product takes six times as long."""

    def __init__(self, vectors: NDArray[Any]) -> None:
        self._vectors: Vectors = vectors.astype(np.float32, copy=False)
        self.dim = self._vectors.shape[1]

    def __len__(self) -> int:
        return len(self._vectors)

    def take(self, rows: Rows) -> Vectors:
        return self._vectors[rows]

    def batches(self) -> Iterable[tuple[int, Vectors]]:
        yield 0, self._vectors


class _OnDisk:
    """Vectors (n, dim) in float16 in a block file. Reading raises Altered."""

    def __init__(self, file: BlockFile) -> None:
        header = io.BytesIO(file.read(0, BLOCK))
        self._rows, self.dim = _read_header(header)
        self._file = file
        self._offset = header.tell()

    def __len__(self) -> int:
        return self._rows

    def take(self, rows: Rows) -> NDArray[np.float16]:
        content = self._file.rows(rows, 2 * self.dim, self._offset)
        return content.view("<f2")

    def batches(self) -> Iterable[tuple[int, NDArray[np.float16]]]:
        for start in range(0, self._rows, _BATCH_ROWS):
            stop = min(start + _BATCH_ROWS, self._rows)
            content = self._file.read(*(self._offset + 2 * self.dim * row for row in (start, stop)))
            yield start, np.frombuffer(content, "<f2").reshape(-1, self.dim)


# The vectors of a segment, one a row.
StoredVectors = _InMemory | _OnDisk


def stored_vectors(
    directory: Path, settings: Mapping[str, Any], files: FileReader = UNCHECKED
) -> StoredVectors:
    """Open the vectors that `build_index` has indexed with these settings."""
    path = directory / VECTORS_FILE
    if settings["vectors"] == "memory":
        return _InMemory(read_array(files.read(path)))
    return _OnDisk(files.blocks(path))


class VectorSegment:
    """Unit vectors of one segment's passages, one row each."""

    def __init__(self, vectors: StoredVectors, graph: Graph | None) -> None:
        self._vectors = vectors
        self._graph = graph

    @classmethod
    def load(cls, directory: Path, files: FileReader = UNCHECKED) -> Self:
        """Open the files of `build_index`: the vectors of a large segment stay on disk."""
        settings = json.loads(files.read(directory / SETTINGS_FILE))
        graph = None
        if settings["index"] == "graph" and ann.is_available():
            graph = Graph.load(files.read(directory / INDEX_FILE), settings)
        return cls(stored_vectors(directory, settings, files), graph)

    def __len__(self) -> int:
        return len(self._vectors)

    def search(
        self, query: Vectors, depth: int, allowed: Mask | None = None
    ) -> tuple[Rows, Vectors]:
        """Return rows and cosines of the `depth` vectors nearest to `query` (dim,), best first.

        `allowed` (n,) restricts the rows.
        """
        if self._graph is None:
            rows, scores = self._nearest(query, depth, allowed)
        else:
            rows = self._graph.candidates(query, depth, allowed)
            scores = self.scores(query, rows)
        order = np.lexsort((rows, -scores))[:depth]
        return rows[order], scores[order]

    def _nearest(self, query: Vectors, depth: int, allowed: Mask | None) -> tuple[Rows, Vectors]:
        """Return the nearest `depth` rows and their cosines, or more if the last ones are equally near."""
        all_rows, all_cosines = [], []
        for start, vectors in self._vectors.batches():
            cosines = _cosines(vectors, query)
            if allowed is not None:
                cosines[~allowed[start : start + len(cosines)]] = -np.inf

            rows = np.flatnonzero(cosines >= _least_of_nearest(cosines, depth))
            all_rows.append(start + rows)
            all_cosines.append(cosines[rows])
        return np.concatenate(all_rows), np.concatenate(all_cosines)

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """Return the cosines (len(rows),) of `query` (dim,) with the stored vectors of `rows`."""
        cosines = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), _BATCH_ROWS):
            batch = slice(start, start + _BATCH_ROWS)
            cosines[batch] = _cosines(self._vectors.take(rows[batch]), query)
        return cosines

    def total(self, rows: Rows) -> Vectors:
        """Return the sum (dim,) of the stored vectors of `rows`."""
        total: Vectors = self._vectors.take(rows).astype(np.float32).sum(axis=0)
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
        self, query: Vectors, depth: int, allowed: Mask | None = None
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
