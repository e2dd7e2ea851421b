"""Measure what a reranker changes in the ranking of the development sets, by its weight.

    python -m benchmarks.search.rerank --data DIR --out FILE.jsonl --reranker DIR [--limit N] [--cache DIR]
        [--sets cosqa csn icecat crowdflower code_pairs] [--manual CORPUS=QUESTIONS.jsonl --home DIR]

DIR and `--cache` are as for `benchmarks/search/quality.py`, whose sets, corpora and measures are used here;
`--manual` adds a corpus of a home and questions about it, of which `--split` counts, by the rank of
the right entry. `--reranker` is the directory of a reranker or of a reader. The first 20 hits of the
released encoder's hybrid search are read, of `--limit` queries per column, evenly spaced.

FILE.jsonl gets a row per query: {column, query, ids, scores, relevance}. A call that was interrupted
goes on after its last row; the table is of all rows in the file. Each row of the table has the
measure of the search alone, then the difference by weight, with its 95 % interval over queries:
1.00 is the reranker alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.options import command_parser
from benchmarks.search.judged_sets import SETS, Column, load_set
from benchmarks.search.quality import cached_encoder, corpus_of, per_query
from purlin.index import builds
from purlin.index.encoder import TRANSFORMER_ENCODER, load_encoder
from purlin.index.evaluation import ranking
from purlin.index.evaluation.answers import read_questions
from purlin.index.qa.judging import hit_entry
from purlin.index.qa.reader import Reader
from purlin.index.qa.reader_settings import READER_SETTINGS
from purlin.index.reranker import ReadingReranker, Reranker
from purlin.index.search.contracts import PassageReranker
from purlin.index.search.corpus import RERANK_DEPTH, Corpus

WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
DEPTH = 100
_SECONDS = 3600.0  # enough to read every hit, so that results do not vary


@dataclass(frozen=True, slots=True)
class ReadHits:
    """The first hits of a query, best first: `ids` of up to DEPTH, and of the first of them the
    search's `scores` and the reranker's `relevance`.
    """

    column: str
    query: str
    ids: list[str]
    scores: list[float]
    relevance: list[float]

    def ranked(self, weight: float) -> list[str]:
        """Return the ids in the order of the mean of both, as a search returns them."""
        mixed = (1 - weight) * np.array(self.scores) + weight * np.array(self.relevance)
        order = np.argsort(-mixed, kind="stable").tolist()
        return [self.ids[row] for row in order] + self.ids[len(order) :]


class _Everywhere:
    """A reranker of the whole weight for any kind, which keeps what it read."""

    def __init__(self, reranker: PassageReranker) -> None:
        self.name = reranker.name
        self.weights = {"code": 1.0, "product": 1.0, "reference": 1.0}
        self.last: list[float] = []
        self._reranker = reranker

    def relevance(self, query: str, passages: Any, *, deadline: float | None = None) -> Any:
        values = self._reranker.relevance(query, passages, deadline=time.monotonic() + _SECONDS)
        self.last = values.tolist()
        return values


def read_column(
    corpus: Corpus, column: Column, reranker: PassageReranker, limit: int, finished: set[str]
) -> Iterator[ReadHits]:
    """Yield the hits of `limit` queries, except those that are `finished`."""
    judged = [query for query, grades in column.qrels.items() if any(grades.values())]
    kept = np.linspace(0, len(judged), min(limit, len(judged)), endpoint=False).astype(int)
    filters = {"language": column.language} if column.language else None
    everywhere = _Everywhere(reranker)

    for query in (judged[number] for number in kept.tolist()):
        if query in finished:
            continue
        text = column.queries[query]
        ranked = corpus.rank(text, DEPTH, filter=filters)
        ids = [_judged_id(column, hit) for hit in corpus.hits(ranked, 0, DEPTH)]
        scores = ranked.scores[:RERANK_DEPTH].tolist()

        corpus.reranked(ranked, RERANK_DEPTH, everywhere)
        yield ReadHits(column.name, query, ids, scores, everywhere.last)


def _judged_id(column: Column, hit: Any) -> str:
    return hit_entry(hit) if column.name.startswith("manual.") else hit.document_id


def manual_column(name: str, questions: Path, split: str) -> Column:
    """The answerable questions of a split as queries, to which their entry is relevant."""
    answerable = [each for each in read_questions(questions) if each.split == split and each.entry]
    queries = {each.id: each.question for each in answerable}
    qrels = {each.id: {str(each.entry): 1.0} for each in answerable}
    return Column(f"manual.{name}", "MRR@100", queries, qrels)


# ---- the table


def values(rows: Sequence[ReadHits], column: Column, weight: float) -> NDArray[np.float64]:
    """Return the column's measure (queries,) of the rankings with this weight."""
    run = {row.query: row.ranked(weight) for row in rows}
    return np.array(list(per_query(run, column).values()))


def table(rows: Sequence[ReadHits], columns: Sequence[Column]) -> str:
    """Return the differences of every column by weight, as Markdown."""
    by_column: dict[str, list[ReadHits]] = defaultdict(list)
    for row in rows:
        by_column[row.column].append(row)

    head = ["set", "measure", "queries", "search", *(f"{weight:.2f}" for weight in WEIGHTS)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for column in columns:
        if not (own := by_column[column.name]):
            continue
        before = values(own, column, 0.0)
        cells = [column.name, column.measure, str(len(own)), f"{before.mean():.3f}"]
        for weight in WEIGHTS:
            change = ranking.difference(column.measure, before, values(own, column, weight))
            cells.append(f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


# ---- command


def _read_rows(path: Path) -> list[ReadHits]:
    return [ReadHits(**row) for _, row in ranking.read_records(path)] if path.is_file() else []


def main() -> None:
    """Read what is missing in the file, and print the table."""
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="development sets in BEIR's form")
    add("--out", type=Path, required=True, help="rows per query")
    add("--reranker", type=Path, required=True, help="directory of a reranker or a reader")
    add("--encoder", type=Path, default=TRANSFORMER_ENCODER, help="directory of the encoder")
    add("--sets", nargs="*", default=[], choices=SETS, help="development sets")
    add("--manual", action="append", default=[], metavar="CORPUS=QUESTIONS", help="a reference")
    add("--home", type=Path, default=Path("var"), help="where the corpora of --manual are")
    add("--split", default="dev", help="split of the questions of --manual")
    add("--limit", type=int, default=10**6, help="queries per column")
    add("--cache", type=Path, help="directory of vectors, as for benchmarks/search/quality.py")
    add("--threads", type=int, help="threads of the reranker")
    options = parser.parse_args()

    rows, columns = _read_rows(options.out), []
    finished: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        finished[row.column].add(row.query)

    with options.out.open("a") as file:
        for corpus, column in _searched(options):
            columns.append(column)
            reranker = _reranker(options.reranker, options.threads)
            for row in read_column(corpus, column, reranker, options.limit, finished[column.name]):
                rows.append(row)
                record = {name: getattr(row, name) for name in ReadHits.__slots__}
                file.write(json.dumps(record) + "\n")
                file.flush()
    print(table(rows, columns))


def _reranker(directory: Path, threads: int | None) -> PassageReranker:
    if (directory / READER_SETTINGS).is_file():
        return ReadingReranker(Reader.load(directory, threads=threads))
    return Reranker.load(directory, threads=threads)


def _searched(options: argparse.Namespace) -> Iterator[tuple[Corpus, Column]]:
    """Yield every column with the open corpus that its queries search."""
    encoder = load_encoder(options.encoder)
    for manual in options.manual:
        name, _, questions = manual.partition("=")
        corpus = Corpus.load(builds.current(options.home, name), encoder)
        yield corpus, manual_column(name, Path(questions), options.split)
        corpus.close()

    for name in options.sets:
        judged = load_set(name, options.data)
        with corpus_of(judged, cached_encoder(options.cache, name, encoder)) as corpus:
            for column in judged.columns:
                yield corpus, column


if __name__ == "__main__":
    main()
