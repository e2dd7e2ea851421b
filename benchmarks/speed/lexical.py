"""Measure the lexical index alone: its build, and four-word queries on one thread.

    python -m benchmarks.speed.lexical --functions DIR --data DIR --out DIR [--queries 300] [--checked 30]
        [--depth 100]

`--functions` has the rows that `benchmarks.speed.functions` collected, `--data` the queries. The index in
`--out` is built unless it is there. The first `--checked` queries are also answered by scoring all
rows that have one of their words: the first rows and their scores must be the same. Times are of
the thread, not of the clock, so that other processes disturb them less.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.options import command_parser
from benchmarks.speed.corpora import load_queries
from benchmarks.speed.functions import read_functions
from purlin.index.search.arrays import LexicalScores, Rows
from purlin.index.search.lexical.bm25 import Lexical, top
from purlin.index.search.lexical.builder import LexicalBuilder
from purlin.index.search.lexical.postings import Postings
from purlin.index.texts.passages import path_text

_WORDS = 4
_Result = TypeVar("_Result")


def texts(directory: Path) -> Iterator[str]:
    """Yield the text of each function as a corpus of code indexes it."""
    for row in read_functions(directory):
        summary = "" if row["docstring"] in row["code"] else row["docstring"]
        yield "\n".join([row["name"], row["name"], path_text(row["path"]), summary, row["code"]])


def build(functions: Path, directory: Path) -> None:
    """Build the index, and print how long it took and the process's peak memory."""
    started = time.thread_time()
    builder = LexicalBuilder(directory)
    count = 0
    for text in texts(functions):
        builder.add(text)
        count += 1
    builder.close()
    took = time.thread_time() - started

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = sum(path.stat().st_size for path in directory.iterdir()) / 2**20
    print(
        f"built {count:,} functions: {took:.0f} s, {peak:.0f} MiB at most, {size:.0f} MiB on disk"
    )


def score_all(
    index: Lexical, weights: Mapping[str, float], depth: int
) -> tuple[Rows, LexicalScores]:
    """Score every row that has a token of the query, without leaving any out."""
    rows = index.matching(weights)
    scores = index.scores(weights, rows)
    best = top(scores, depth)
    return rows[best], scores[best]


def timed(call: Callable[[], _Result]) -> tuple[_Result, float]:
    """Return what a call returns, and its milliseconds."""
    started = time.thread_time()
    result = call()
    return result, (time.thread_time() - started) * 1000


def measure(directory: Path, queries: list[str], checked: int, depth: int) -> None:
    """Print the milliseconds of a search, and check the first results against scoring all."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    postings, took = timed(lambda: Postings.load(directory))
    index = Lexical([postings])
    print(f"opened {index.rows:,} rows in {took:.0f} ms")

    searches = []
    for number, query in enumerate(queries):
        (weights, (rows, scores)), took = timed(partial(_search, index, query, depth))
        searches.append(took)
        if number < checked:
            all_rows, all_scores = score_all(index, weights, depth)
            if rows.tolist() != all_rows.tolist() or scores.tolist() != all_scores.tolist():
                raise SystemExit(f"The first {depth} rows of {query!r} are not the best ones.")

    p50, p95, p99 = np.percentile(searches, [50, 95, 99])
    print(f"search: p50 {p50:.2f} ms, p95 {p95:.2f} ms, p99 {p99:.2f} ms, n = {len(searches)}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"memory of the open index and its searches: {grown:.0f} MiB at most")


def _search(
    index: Lexical, query: str, depth: int
) -> tuple[Mapping[str, float], tuple[Rows, LexicalScores]]:
    weights = index.weights(query)
    return weights, index.search(weights, depth)


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--functions", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--checked", type=int, default=30)
    parser.add_argument("--depth", type=int, default=100)
    options = parser.parse_args()

    if not (options.out / "lengths.npy").is_file():
        build(options.functions, options.out)
    words = (query.split() for query in load_queries(options.data))
    queries = [" ".join(parts[:_WORDS]) for parts in words if len(parts) >= _WORDS]
    measure(options.out, queries[: options.queries], options.checked, options.depth)


if __name__ == "__main__":
    main()
