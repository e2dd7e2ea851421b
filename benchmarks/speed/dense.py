"""Measure the dense index of a build: recall, time of a query, memory and build time.

    python -m benchmarks.speed.dense --vectors base/vectors.npy --queries queries.jsonl [--rows 200000]

`vectors.npy` is that of a build, or a directory of chunks that `benchmarks.speed.vectors` wrote.
`queries.jsonl` has real queries that are not passages; they are encoded by the released encoder.
A query takes one thread, the build all cores. Prints a Markdown table. The true nearest are found by
all inner products; a row as near as they are counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.options import command_parser
from benchmarks.speed.vectors import read_matrix
from purlin.index.encoder import TRANSFORMER_ENCODER, Vectors, load_encoder
from purlin.index.evaluation.ranking import read_queries
from purlin.index.search import ann, dense

# How many rows a query asks for, and how many of the nearest count.
DEPTHS = ((10, 10), (200, 100))
SHARES = (0.5, 0.1, 0.01, 0.001, 0.0001)
BLOCK_ROWS = 32_768


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--most-queries", type=int, default=500)
    options = parser.parse_args()

    read = read_matrix if options.vectors.is_dir() else np.load
    vectors = read(options.vectors)[: options.rows]
    queries = _read_queries(options.queries)[: options.most_queries]
    with tempfile.TemporaryDirectory() as directory:
        segment = _build(vectors, Path(directory))
        faiss.omp_set_num_threads(1)
        _print_searches(segment, vectors, queries)


def _read_queries(path: Path) -> Vectors:
    """Vectors of the queries of a JSONL file, or of an `.npy` file as they are."""
    if path.suffix == ".npy":
        vectors: Vectors = np.load(path)
        return vectors
    return load_encoder(TRANSFORMER_ENCODER).encode(list(read_queries(path).values()), role="query")


def _build(vectors: NDArray[np.float16], directory: Path) -> dense.VectorSegment:
    """Build the index as a build of a corpus does, and print what it chose and cost."""
    np.save(directory / dense.VECTORS_FILE, vectors)
    started = time.perf_counter()
    chosen = dense.build_index(directory)
    seconds = time.perf_counter() - started

    print(
        f"beam {chosen.get('beam')}, widening {chosen.get('widening')}: built in {seconds:.0f} s, "
        f"{chosen['bytes_per_passage']:.0f} bytes a row\n"
    )
    return dense.VectorSegment.load(directory)


def _print_searches(
    segment: dense.VectorSegment, vectors: NDArray[np.float16], queries: Vectors
) -> None:
    """Print recall and times without a filter, and with filters that allow some share of the rows."""
    random = np.random.default_rng(0)
    masks = {f"{100 * share:g} %": random.random(len(vectors)) < share for share in SHARES}
    # Of few rows, the strictest filters allow none.
    filters = {"none": None} | {name: allowed for name, allowed in masks.items() if allowed.any()}

    print("| filter | depth | recall | ms | p95 |\n|---|---|---|---|---|")
    for name, allowed in filters.items():
        nearest = _exact_cosines(vectors, queries, 100, allowed)
        for depth, count in DEPTHS:
            recalls, times = [], []
            for query, expected in zip(queries, nearest[:, :count], strict=True):
                started = time.perf_counter()
                rows, _ = segment.search(query, depth, allowed)
                times.append((time.perf_counter() - started) * 1000)
                cosines = np.vecdot(vectors[rows].astype(np.float32), query)
                recalls.append(ann.recall(expected, cosines))

            p50, p95 = np.percentile(times, [50, 95])
            print(
                f"| {name} | {depth} | {np.mean(recalls):.4f} | {p50:.2f} | {p95:.2f} |", flush=True
            )


def _exact_cosines(
    vectors: NDArray[np.float16], queries: Vectors, count: int, allowed: NDArray[np.bool_] | None
) -> Vectors:
    """Cosines (queries, n) of the nearest vectors, best first; `count` if there are so many."""
    numbers = np.arange(len(vectors)) if allowed is None else np.flatnonzero(allowed)

    def blocks() -> Iterator[Vectors]:
        for start in range(0, len(numbers), BLOCK_ROWS):
            yield vectors[numbers[start : start + BLOCK_ROWS]].astype(np.float32)

    return ann.exact_cosines(queries, blocks, min(count, len(numbers)))


if __name__ == "__main__":
    main()
