"""Measure how well encoders search the development sets, as one table.

    python -m benchmarks.search.quality --data DIR --out FILE.json --encoder base=DIR
        [--encoder NAME=DIR ...] [--hybrid] [--bm25] [--sets cosqa csn ...] [--full] [--cache DIR]

DIR holds `cosqa`, `csn_challenge`, `icecat` and `crowdflower` in BEIR's form, and `code_pairs`.
Dense rows are exhaustive search. Hybrid and BM25 rows are what the server answers: corpora are
built in a temporary home and searched. The text of a document is the one that indexing encodes.
Means come with 95 % intervals and with the paired difference to the first encoder. FILE.json also
has the value of every query. `--cache` keeps passage vectors for later calls.

`benchmarks.search.judged_sets` says what the sets are. Without `--full`, csn is pooled.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.options import command_parser
from benchmarks.search.judged_sets import SETS, Column, JudgedSet, load_set
from benchmarks.speed.vectors import CachedEncoder
from purlin.index import builds
from purlin.index.encoder import TRANSFORMER_ENCODER, TextEncoder, Vectors, load_encoder
from purlin.index.evaluation import ranking
from purlin.index.evaluation.ranking import RESAMPLES, Difference, Measure, Qrels, Run
from purlin.index.indexing.build import build
from purlin.index.records import Document, Mode, SourceFile
from purlin.index.search.corpus import Corpus
from purlin.index.texts.passages import render, split
from purlin.training.data.judged import JudgedSet as QuerySet
from purlin.training.data.judged import ranked

DEPTH = 100
_Values = NDArray[np.float64]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """A cell of the table: `values` has the measure of each query.

    A mean of several columns has no values of its own, but the columns' results as `parts`.
    """

    measure: Measure
    documents: int
    pooled: bool
    values: Mapping[str, float]
    run: Run
    qrels: Qrels
    parts: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: an encoder in one mode."""

    name: str
    mode: Mode
    fingerprint: str
    results: Mapping[str, Result]


# ---- vectors


def cached_encoder(cache: Path | None, name: str, encoder: TextEncoder) -> CachedEncoder:
    """Return an encoder that keeps its vectors of the set `name` in a directory below `cache`."""
    digest = hashlib.sha256(encoder.fingerprint.encode()).hexdigest()
    return CachedEncoder(encoder, cache / f"{name}-{digest[:16]}" if cache else None)


def passage_text(document: Document) -> str:
    """The text that indexing encodes; code and products have a single passage."""
    (passage,) = split(document)
    return render(document, passage)


# ---- search


def dense_run(judged: JudgedSet, encoder: TextEncoder, vectors: Vectors, column: Column) -> Run:
    """Exhaustive search; `vectors` are those of all documents of the set."""
    rows = judged.rows(column)
    queries = encoder.encode(list(column.queries.values()), role="query")
    passages = dict.fromkeys((judged.documents[row].id for row in rows), "")
    judged_queries = QuerySet(dict(column.queries), passages, column.qrels)
    return ranked(judged_queries, queries, vectors[rows])


def served_run(corpus: Corpus, mode: Mode, column: Column) -> Run:
    """What the server answers."""
    filters = {"language": column.language} if column.language else None
    run = {}
    for query, text in column.queries.items():
        hits = corpus.search(text, k=DEPTH, mode=mode, filter=filters).hits
        run[query] = [hit.document_id for hit in hits]
    return run


@contextmanager
def corpus_of(judged: JudgedSet, encoder: TextEncoder) -> Iterator[Corpus]:
    """Build and load the set as the server would, in a temporary home."""
    with tempfile.TemporaryDirectory() as home:
        source = SourceFile(judged.name, judged.name, lambda: iter(judged.documents))
        build(Path(home), judged.name, judged.kind, [source], encoder)

        corpus = Corpus.load(builds.current(Path(home), judged.name), encoder)
        try:
            yield corpus
        finally:
            corpus.close()


# ---- measures


def measure_modes(
    encoder: TextEncoder,
    data: Path,
    sets: Sequence[str],
    modes: Sequence[Mode],
    *,
    full: bool = False,
    cache: Path | None = None,
) -> dict[Mode, dict[str, Result]]:
    """Results by mode and column (`cosqa`, `csn.go`, `csn.mean`).

    Dense search is exhaustive. For the others, a set's corpus is built once.
    """
    results: dict[Mode, dict[str, Result]] = {mode: {} for mode in modes}
    for name in sets:
        started = time.perf_counter()
        judged = load_set(name, data, full)
        log.info("  %s: %s documents", name, f"{len(judged.documents):,}")

        cached = cached_encoder(cache, name, encoder)
        for mode, columns in _measure_set(judged, cached, modes).items():
            results[mode] |= columns
        log.info("  %s: done in %.0f s", name, time.perf_counter() - started)
    return results


def _measure_set(
    judged: JudgedSet, encoder: TextEncoder, modes: Sequence[Mode]
) -> dict[Mode, dict[str, Result]]:
    results: dict[Mode, dict[str, Result]] = {}
    if "dense" in modes:
        texts = [passage_text(document) for document in judged.documents]
        vectors = encoder.encode(texts, role="passage")
        results["dense"] = _results(judged, partial(dense_run, judged, encoder, vectors))

    served: list[Mode] = [mode for mode in modes if mode != "dense"]
    if served:
        with corpus_of(judged, encoder) as corpus:
            for mode in served:
                results[mode] = _results(judged, partial(served_run, corpus, mode))
    return results


def _results(judged: JudgedSet, search: Callable[[Column], Run]) -> dict[str, Result]:
    results = {column.name: _result(judged, column, search(column)) for column in judged.columns}
    if judged.name == "csn":
        results["csn.mean"] = mean_of(list(results.values()))
    return results


def _result(judged: JudgedSet, column: Column, run: Run) -> Result:
    measures = {each.name: each for each in ranking.evaluate_run(run, column.qrels)}
    return Result(
        measure=measures[column.measure],
        documents=len(judged.rows(column)),
        pooled=judged.pooled,
        values=per_query(run, column),
        run=run,
        qrels=column.qrels,
    )


def per_query(run: Run, column: Column) -> dict[str, float]:
    """The measure of each query with a relevant document; their mean is the column's measure."""
    values = {}

    for query, ids in run.items():
        grades = column.qrels[query]
        relevant = {document for document, grade in grades.items() if grade > 0}
        # Queries without a relevant document have no reciprocal rank, and the means skip them.
        if relevant and column.measure == "MRR@100":
            values[query] = ranking.reciprocal_rank(ids, relevant)
        elif relevant:
            values[query] = ranking.ndcg(ids, grades)
    return values


def compare(first: Result, second: Result) -> Difference:
    """The second result less the first, paired by query."""
    if first.parts:
        return _compare_means(first, second)

    changes = ranking.compare_runs(first.run, second.run, first.qrels)
    return next(change for change in changes if change.name == first.measure.name)


def mean_of(parts: Sequence[Result]) -> Result:
    """The mean of the columns' means, with an interval over queries.

    A query is judged in several languages, so it is resampled in all of them together.
    """
    values = _matrix([part.values for part in parts])
    mean = float(np.nanmean(values, axis=1).mean())
    low, high = _interval(values)

    first = parts[0]
    measure = Measure(first.measure.name, mean, low, high, values.shape[1])
    documents = sum(part.documents for part in parts)
    return Result(measure, documents, first.pooled, {}, {}, {}, tuple(parts))


def _compare_means(first: Result, second: Result) -> Difference:
    first_values = _matrix([part.values for part in first.parts])
    second_values = _matrix([part.values for part in second.parts])
    gains = second_values - first_values

    low, high = _interval(gains)
    before, after = first.measure.mean, second.measure.mean
    p = _sign_flip(gains)
    return Difference(
        first.measure.name, before, after, after - before, low, high, p, gains.shape[1]
    )


def _matrix(columns: Sequence[Mapping[str, float]]) -> _Values:
    """Values of shape (columns, queries); NaN where a query is not judged in a column."""
    queries = list(dict.fromkeys(query for values in columns for query in values))
    return np.array([[values.get(query, np.nan) for query in queries] for values in columns])


def _interval(values: _Values) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of the rows' means (columns, queries), over queries."""
    queries = values.shape[1]
    uniform = np.full(queries, 1 / queries)
    counts = np.random.default_rng(0).multinomial(queries, uniform, size=RESAMPLES)

    # Of shape (resamples, columns); a column without a judged query has the sum 0.
    judged = np.maximum(counts @ ~np.isnan(values).T, 1)
    column_means = counts @ np.nan_to_num(values).T / judged
    low, high = np.percentile(column_means.mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def _sign_flip(gains: _Values) -> float:
    """Two-sided p of the mean of the rows' means; a query's sign is flipped in all columns."""
    judged = (~np.isnan(gains)).sum(axis=1, keepdims=True)
    shares = (np.nan_to_num(gains) / judged).mean(axis=0)

    signs = np.random.default_rng(0).integers(2, size=(RESAMPLES, len(shares))) * 2.0 - 1.0
    extreme = np.abs(signs @ shares) >= abs(shares.sum()) - 1e-12
    return float((1 + extreme.sum()) / (1 + RESAMPLES))


# ---- output


def differences(rows: Sequence[Row]) -> list[dict[str, Difference]]:
    """For each row, its differences to the first row of its mode; none for that row itself."""
    firsts: dict[Mode, Row] = {}
    changes: list[dict[str, Difference]] = []

    for row in rows:
        first = firsts.setdefault(row.mode, row)
        if first is row:
            changes.append({})
            continue
        changes.append(
            {name: compare(first.results[name], result) for name, result in row.results.items()}
        )
    return changes


def markdown_table(
    title: str, columns: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]
) -> str:
    names = [title, *columns]
    lines = [names, ["---"] * len(names), *([name, *cells] for name, cells in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def as_markdown(rows: Sequence[Row], changes: Sequence[Mapping[str, Difference]]) -> str:
    """A table of means and, if there is a second encoder, one of differences."""
    columns = [heading(name, result) for name, result in rows[0].results.items()]
    means = [(row.name, map(mean_cell, row.results.values())) for row in rows]
    text = markdown_table("encoder", columns, means)

    compared = [
        (row.name, map(change_cell, row_changes.values()))
        for row, row_changes in zip(rows, changes, strict=True)
        if row_changes
    ]
    if compared:
        text += "\n\n" + markdown_table("difference to the first", rows[0].results, compared)
    return text


def heading(name: str, result: Result) -> str:
    size = f"{result.measure.queries:,} queries, {result.documents:,} documents"
    pooled = ", pooled" if result.pooled else ""
    return f"{name} {result.measure.name} ({size}{pooled})"


def mean_cell(result: Result) -> str:
    return f"{result.measure.mean:.4f} ({result.measure.low:.4f}-{result.measure.high:.4f})"


def change_cell(change: Difference) -> str:
    return f"{change.mean:+.4f} ({change.low:+.4f} to {change.high:+.4f}), p {change.p:.4f}"


def as_json(
    rows: Sequence[Row], changes: Sequence[Mapping[str, Difference]]
) -> list[dict[str, Any]]:
    """A record for each row and column."""
    return [
        {
            "row": row.name,
            "mode": row.mode,
            "fingerprint": row.fingerprint,
            "column": name,
            "documents": result.documents,
            "pooled": result.pooled,
            "measure": asdict(result.measure),
            "difference": asdict(row_changes[name]) if name in row_changes else None,
            "values": result.values,
        }
        for row, row_changes in zip(rows, changes, strict=True)
        for name, result in row.results.items()
    ]


def named_directory(text: str) -> tuple[str, Path]:
    """Parse NAME=DIR."""
    name, equals, directory = text.partition("=")
    if not (name and equals and directory):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DIR")
    return name, Path(directory)


def measured_rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of each encoder; BM25 needs none and is measured with the first."""
    served: list[Mode] = ["hybrid"] if options.hybrid else []
    encoders = options.encoder or [("released", TRANSFORMER_ENCODER)]
    for number, (name, directory) in enumerate(encoders):
        log.info("%s", name)
        encoder = load_encoder(directory)
        lexical: list[Mode] = ["lexical"] if options.bm25 and number == 0 else []
        modes: list[Mode] = [*lexical, "dense", *served]
        results = measure_modes(
            encoder, options.data, options.sets, modes, full=options.full, cache=options.cache
        )

        labels: dict[Mode, str] = {"lexical": "BM25", "dense": name, "hybrid": f"{name}, hybrid"}
        for mode in modes:
            fingerprint = "" if mode == "lexical" else encoder.fingerprint
            yield Row(labels[mode], mode, fingerprint, results[mode])


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--encoder",
        type=named_directory,
        action="append",
        metavar="NAME=DIR",
        help="default: the released one",
    )
    parser.add_argument("--hybrid", action="store_true", help="add rows of the hybrid mode")
    parser.add_argument("--bm25", action="store_true", help="add a row of BM25 alone")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--full", action="store_true", help="csn among all 122,561 functions")
    parser.add_argument("--cache", type=Path, help="directory of vectors from earlier calls")
    options = parser.parse_args()

    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)

    order: Sequence[Mode] = ("lexical", "dense", "hybrid")
    rows = sorted(measured_rows(options), key=lambda row: order.index(row.mode))
    changes = differences(rows)
    records = as_json(rows, changes)
    options.out.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    print(as_markdown(rows, changes))


if __name__ == "__main__":
    main()
