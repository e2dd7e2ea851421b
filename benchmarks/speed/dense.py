"""Measure dense indexes over the same vectors: recall, time of a query, memory and build time.

    python -m benchmarks.speed.dense --vectors base/vectors.npy --queries queries.jsonl [--rows 200000]

`vectors.npy` is that of a build, or a directory of chunks that `benchmarks.speed.vectors` wrote.
`queries.jsonl` has real queries that are not passages; they are encoded by the released encoder.
Every index proposes candidates, which are scored again with the float16 vectors in memory, but for
the one of Purlin, which reads them from disk. A query takes one thread, a build all cores. Prints a
Markdown table. The true nearest are found by all inner products; a row as near as they are counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.vectors import read_matrix
from purlin.index.cpus import available_cpus
from purlin.index.encoder import TRANSFORMER_ENCODER, Vectors, load_encoder
from purlin.index.evaluation.ranking import read_queries
from purlin.index.search import ann, dense

Rows = NDArray[np.int64]
Search = Callable[[Vectors, int, NDArray[np.bool_] | None], Rows]

DEPTHS = ((10, 10), (200, 100))
SHARES = (0.5, 0.1, 0.01, 0.001, 0.0001)
OVERFETCH = 2
BLOCK_ROWS = 32_768
INNER = faiss.METRIC_INNER_PRODUCT


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--most-queries", type=int, default=500)
    parser.add_argument("--only", help="Part of the names of the indexes that are measured.")
    options = parser.parse_args()

    read = read_matrix if options.vectors.is_dir() else np.load
    vectors = read(options.vectors)[: options.rows]
    queries = _read_queries(options.queries)[: options.most_queries]
    restrictions = {"none": None} | _masks(len(vectors))
    nearest = {
        name: _exact_cosines(vectors, queries, 100, allowed)
        for name, allowed in restrictions.items()
    }

    print("| index | build s | bytes/row | filter | depth | recall | ms | p95 |")
    print("|---|---|---|---|---|---|---|---|")
    for name, build_s, size, search in _indexes(vectors, options.only or ""):
        faiss.omp_set_num_threads(1)
        for restriction, allowed in restrictions.items():
            if allowed is not None and not name.startswith(("Purlin", "IVF")):
                continue
            for depth, first in DEPTHS:
                recall, times = _measured(
                    search, vectors, queries, depth, nearest[restriction][:, :first], allowed
                )
                p50, p95 = np.percentile(times, [50, 95])
                print(
                    f"| {name} | {build_s:.0f} | {size:.0f} | {restriction} | {depth} "
                    f"| {recall:.4f} | {p50:.2f} | {p95:.2f} |",
                    flush=True,
                )
        # The next index is built by all cores.
        faiss.omp_set_num_threads(available_cpus())


def _read_queries(path: Path) -> Vectors:
    """Vectors of the queries of a JSONL file, or of an `.npy` file as they are."""
    if path.suffix == ".npy":
        vectors: Vectors = np.load(path)
        return vectors
    return load_encoder(TRANSFORMER_ENCODER).encode(list(read_queries(path).values()), role="query")


def _masks(rows: int) -> dict[str, NDArray[np.bool_]]:
    """Filters by the share of rows that they allow; of few rows, the strictest allow none."""
    random = np.random.default_rng(0)
    masks = {f"{100 * share:g} %": random.random(rows) < share for share in SHARES}
    return {name: allowed for name, allowed in masks.items() if allowed.any()}


def _measured(
    search: Search,
    vectors: NDArray[np.float16],
    queries: Vectors,
    depth: int,
    nearest: Vectors,
    allowed: NDArray[np.bool_] | None,
) -> tuple[float, list[float]]:
    """Mean share of the nearest cosines (queries, n) found, and the milliseconds of each query."""
    shares, times = [], []
    for query, expected in zip(queries, nearest, strict=True):
        start = time.perf_counter()
        rows = search(query, depth, allowed)
        times.append((time.perf_counter() - start) * 1000)
        cosines = np.vecdot(vectors[rows].astype(np.float32), query)
        shares.append(ann.recall(expected, cosines))

    return float(np.mean(shares)), times


def _exact_cosines(
    vectors: NDArray[np.float16], queries: Vectors, count: int, allowed: NDArray[np.bool_] | None
) -> Vectors:
    """Cosines (queries, n) of the nearest vectors, best first; `count` if there are so many."""
    numbers = np.arange(len(vectors)) if allowed is None else np.flatnonzero(allowed)

    def blocks() -> Iterator[Vectors]:
        for start in range(0, len(numbers), BLOCK_ROWS):
            yield vectors[numbers[start : start + BLOCK_ROWS]].astype(np.float32)

    return ann.exact_cosines(queries, blocks, min(count, len(numbers)))


# ---- indexes


def _indexes(vectors: NDArray[np.float16], part: str) -> Iterator[tuple[str, float, float, Search]]:
    """Yield the name, build seconds, bytes per row in memory, and search of each index."""
    if part.lower() in "purlin":
        with tempfile.TemporaryDirectory() as directory:
            np.save(Path(directory) / dense.VECTORS_FILE, vectors)
            start = time.perf_counter()
            chosen = dense.build_index(Path(directory))
            build_s = time.perf_counter() - start
            segment = dense.VectorSegment.load(Path(directory))
            name = f"Purlin, beam {chosen.get('beam')}, widening {chosen.get('widening')}"
            yield (
                name,
                build_s,
                chosen["bytes_per_passage"],
                lambda query, depth, allowed: segment.search(query, depth, allowed)[0],
            )

    for name, index, efforts in _candidates(vectors.shape[1], len(vectors)):
        if part not in name:
            continue
        start = time.perf_counter()
        index.train(vectors[:: max(len(vectors) // 100_000, 1)].astype(np.float32))
        for block in range(0, len(vectors), BLOCK_ROWS):
            index.add(vectors[block : block + BLOCK_ROWS].astype(np.float32))
        build_s = time.perf_counter() - start
        size = len(faiss.serialize_index(index)) / len(vectors)
        for effort in efforts:
            label = f"{name}, {effort}" if effort else name
            yield label, build_s, size, _searcher(index, vectors, effort)


def _candidates(dim: int, rows: int) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """Yield names, untrained indexes, and the beams or numbers of lists to try."""
    codes = faiss.ScalarQuantizer
    yield "PQ fast scan", faiss.IndexPQFastScan(dim, dim // 2, 4, INNER), (0,)
    for bits in (4, 8):
        for degree in (16, 32):
            index = faiss.IndexHNSWSQ(dim, getattr(codes, f"QT_{bits}bit"), degree, INNER)
            index.hnsw.efConstruction = 80
            yield f"HNSW{degree} SQ{bits}", index, (64, 128, 256, 512)

    lists = 2 ** int(np.log2(4 * np.sqrt(rows)))
    probes = tuple(lists * share // 128 for share in (2, 8, 16, 32))
    for bits in (4, 6, 8):
        kind = getattr(codes, f"QT_{bits}bit")
        index = faiss.IndexIVFScalarQuantizer(_centroids(dim), dim, lists, kind, INNER)
        yield f"IVF{lists} SQ{bits}", _owning(index), probes
    index = faiss.IndexIVFPQFastScan(_centroids(dim), dim, lists, dim // 2, 4, INNER)
    yield f"IVF{lists} PQ fast scan", _owning(index), probes
    for bits in (1, 4):
        index = faiss.IndexIVFRaBitQ(_centroids(dim), dim, lists, INNER, True, bits)
        yield f"IVF{lists} RaBitQ {bits}", _owning(index), probes


def _centroids(dim: int) -> faiss.IndexFlatIP:
    """An index that the one built over it frees."""
    index = faiss.IndexFlatIP(dim)
    index.this.disown()
    return index


def _owning(index: Any) -> Any:
    index.own_fields = True
    return index


def _searcher(index: Any, vectors: NDArray[np.float16], effort: int) -> Search:
    """Search with a beam or a number of lists, and score the candidates again."""

    def search(query: Vectors, depth: int, allowed: NDArray[np.bool_] | None) -> Rows:
        count = OVERFETCH * depth + 20
        parameters = None
        if isinstance(index, faiss.IndexIVF):
            parameters = faiss.SearchParametersIVF(nprobe=effort)
            if allowed is not None:
                bits = np.packbits(allowed, bitorder="little")
                parameters = faiss.SearchParametersIVF(
                    nprobe=effort, sel=faiss.IDSelectorBitmap(bits)
                )
        elif isinstance(index, faiss.IndexHNSW):
            parameters = faiss.SearchParametersHNSW(efSearch=max(effort, count))

        rows = index.search(query[None], count, params=parameters)[1][0]
        rows = rows[rows >= 0]
        cosines = np.vecdot(vectors[rows].astype(np.float32), query)
        nearest: Rows = rows[np.argsort(-cosines)[:depth]]
        return nearest

    return search


if __name__ == "__main__":
    main()
