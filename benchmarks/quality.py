"""How well encoders search the development sets: every cell of one table from one program.

    python benchmarks/quality.py --data DIR --out FILE.json --encoder base=DIR
        [--encoder NAME=DIR ...] [--hybrid] [--bm25] [--sets cosqa csn ...] [--full] [--cache DIR]

DIR holds `cosqa`, `csn_challenge`, `icecat` and `crowdflower` in BEIR's form, and `code_pairs`. Dense rows are
exhaustive search; hybrid and BM25 rows are what the server answers: corpora are built in a temporary home and searched.
The text of a document is the one that indexing encodes. Means come with 95 % intervals and with the paired difference
to the first encoder; FILE.json has the value of every query too. `--cache` keeps vectors, so that what an encoder has
encoded once is not encoded again.

Without `--full`, csn is pooled: of each language the judged functions and 4,000 random others, the same for all
encoders. Of code_pairs each distinct summary of the dev functions of a language is a query, searched among these and
functions from the head of the language's train file, 2,000 in all, and among those of all languages together; every
function with the query's summary is relevant.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import logging
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index import builds
from index.encoder import RELEASED_ENCODER, Encoder, Role, TextEncoder, Vectors
from index.evaluation import ranking
from index.evaluation.ranking import RESAMPLES, Difference, Measure, Qrels, Run
from index.indexing.build import build
from index.passages import render, split
from index.records import Document, Kind, Mode, SourceFile
from index.search.corpus import Corpus
from index.sources import open_source

SETS = ("cosqa", "csn", "icecat", "crowdflower", "code_pairs")
POOLED_OTHERS = 4000  # functions of a language beside the judged ones
CANDIDATES = 2000  # functions of a language, at least
DEPTH = 100
_QUERIES_AT_ONCE = 256
_Values = NDArray[np.float64]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Column:
    """Judged queries, and what they are searched among: all documents of a set, or those in one language."""

    name: str
    measure: str
    queries: Mapping[str, str]
    qrels: Qrels
    language: str = ""


@dataclass(frozen=True, slots=True)
class JudgedSet:
    name: str
    kind: Kind
    documents: tuple[Document, ...]
    columns: tuple[Column, ...]
    pooled: bool = False

    def rows(self, column: Column) -> NDArray[np.int64]:
        """Of the documents that the column's queries are searched among."""
        wanted = [
            not column.language or d.fields["language"] == column.language for d in self.documents
        ]
        return np.flatnonzero(wanted)


@dataclass(frozen=True, slots=True)
class Result:
    """One cell. `values` has the measure of each query; a mean of columns has them as `parts` instead."""

    measure: Measure
    documents: int
    pooled: bool
    values: Mapping[str, float]
    run: Run
    qrels: Qrels
    parts: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    mode: Mode
    fingerprint: str
    results: Mapping[str, Result]


# ---- sets


@lru_cache(maxsize=len(SETS))
def load(name: str, data: Path, full: bool = False) -> JudgedSet:
    """One of `SETS`; `full` concerns csn alone."""
    match name:
        case "csn":
            return _csn(data / "csn_challenge", full)
        case "code_pairs":
            return _code_pairs(data / "code_pairs")
        case "cosqa":
            return _beir(data / name, "code", "MRR@100")
    return _beir(data / name, "product", "nDCG@10")


def _beir(directory: Path, kind: Kind, measure: str) -> JudgedSet:
    qrels = ranking.read_qrels(directory / "qrels" / "dev.tsv")
    column = Column(directory.name, measure, _queries(directory, qrels), qrels)
    return JudgedSet(directory.name, kind, tuple(_documents(directory, kind)), (column,))


def _queries(directory: Path, qrels: Qrels) -> dict[str, str]:
    texts = ranking.read_queries(directory / "queries.jsonl")
    return {query: texts[query] for query in qrels}


def _documents(directory: Path, kind: Kind) -> Iterator[Document]:
    for file in open_source(kind, [directory / "corpus.jsonl.gz"]):
        if isinstance(file, SourceFile):
            yield from (item for item in file.read() if isinstance(item, Document))


def _csn(directory: Path, full: bool) -> JudgedSet:
    columns = []
    for path in sorted((directory / "qrels").glob("dev.*.tsv")):
        language, qrels = path.name.split(".")[1], ranking.read_qrels(path)
        columns.append(
            Column(f"csn.{language}", "nDCG@10", _queries(directory, qrels), qrels, language)
        )
    judged = {
        document for column in columns for grades in column.qrels.values() for document in grades
    }
    documents = list(_documents(directory, "code"))
    chosen = documents if full else pooled(documents, judged)
    return JudgedSet("csn", "code", tuple(chosen), tuple(columns), pooled=not full)


def pooled(
    documents: Iterable[Document], judged: Collection[str], others: int = POOLED_OTHERS
) -> list[Document]:
    """The judged documents and, of each language, `others` more at random, the same in every call."""
    kept: list[Document] = []
    rest: dict[object, list[Document]] = defaultdict(list)
    for document in documents:
        (kept if document.id in judged else rest[document.fields["language"]]).append(document)
    chance = random.Random(0)
    for found in rest.values():
        kept += chance.sample(found, min(others, len(found)))
    return kept


@dataclass(frozen=True, slots=True)
class Function:
    document: Document
    summary: str

    @property
    def key(self) -> str:
        """The same for summaries that differ in case and white space only."""
        return " ".join(self.summary.lower().split())


def _code_pairs(directory: Path) -> JudgedSet:
    asked: list[Function] = []
    candidates: list[Function] = []
    columns = []
    for path in sorted(directory.glob("*.dev.jsonl.gz")):
        language, dev = path.name.split(".")[0], list(_functions(path))
        others = islice(
            _functions(directory / f"{language}.train.jsonl.gz"), max(0, CANDIDATES - len(dev))
        )
        among = [*dev, *others]
        columns.append(pairs_column(f"code_pairs.{language}", dev, among, language))
        asked += dev
        candidates += among
    columns.append(pairs_column("code_pairs.all", asked, candidates))
    random.Random(0).shuffle(candidates)  # ties go by row: dev functions must not come first
    return JudgedSet(
        "code_pairs", "code", tuple(function.document for function in candidates), tuple(columns)
    )


def _functions(path: Path) -> Iterator[Function]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, row in enumerate(map(json.loads, lines)):
            id_ = f"{path.name.removesuffix('.jsonl.gz')}.{number}"
            fields = {"language": row["language"]}
            yield Function(
                Document(id_, "code", row["name"], row["code"], fields=fields), row["summary"]
            )


def pairs_column(
    name: str, asked: Sequence[Function], candidates: Iterable[Function], language: str = ""
) -> Column:
    """Each distinct summary of `asked` as a query; the candidates with the same summary are relevant to it."""
    relevant: dict[str, dict[str, float]] = defaultdict(dict)
    for function in candidates:
        relevant[function.key][function.document.id] = 1.0
    queries = {
        function.key: function for function in reversed(asked)
    }.values()  # the first of several stays
    return Column(
        name,
        "MRR@100",
        {function.document.id: function.summary for function in queries},
        {function.document.id: relevant[function.key] for function in queries},
        language,
    )


# ---- vectors


class Remembered:
    """An encoder that encodes no passage twice, nor one whose vector is in `file` (.npy) from an earlier run."""

    def __init__(self, encoder: TextEncoder, file: Path | None = None) -> None:
        self.name, self.dim, self.fingerprint = encoder.name, encoder.dim, encoder.fingerprint
        self._encoder, self._file = encoder, file
        self._known: dict[bytes, Vectors] = {}
        if file is not None and file.exists():
            saved = np.load(file, allow_pickle=False)
            self._known = dict(zip(saved["digest"].tolist(), saved["vector"], strict=True))

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        if role == "query":
            return self._encoder.encode(texts, role=role, progress=progress)
        digests = [
            hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            for text in texts
        ]
        new = {
            digest: text
            for digest, text in zip(digests, texts, strict=True)
            if digest not in self._known
        }
        if new:
            vectors = self._encoder.encode(
                list(new.values()), role=role, progress=_reporter(len(new))
            )
            self._known |= dict(zip(new, vectors, strict=True))
            self._save()
        return np.stack([self._known[digest] for digest in digests])

    def _save(self) -> None:
        if self._file is None:
            return
        saved = np.empty(len(self._known), dtype=[("digest", "V16"), ("vector", "f4", (self.dim,))])
        saved["digest"] = np.array(list(self._known), dtype="V16")
        saved["vector"] = np.stack(list(self._known.values()))
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".draft.npy")
        np.save(draft, saved, allow_pickle=False)
        draft.replace(self._file)


def _reporter(total: int) -> Callable[[int], None]:
    """Logs how many passages are encoded, every ten seconds and at the end."""
    started = last = time.perf_counter()
    done = 0

    def advance(more: int) -> None:
        nonlocal done, last
        done, now = done + more, time.perf_counter()
        if now - last >= 10 or done == total:
            last = now
            log.info(
                "    %s of %s passages encoded, %.0f s", f"{done:,}", f"{total:,}", now - started
            )

    return advance


def _cache_file(cache: Path, name: str, encoder: TextEncoder) -> Path:
    return cache / f"{name}-{hashlib.sha256(encoder.fingerprint.encode()).hexdigest()[:16]}.npy"


def passage_text(document: Document) -> str:
    """What indexing encodes: of code and products, the one passage that holds all."""
    (passage,) = split(document)
    return render(document, passage)


# ---- search


def nearest(queries: Vectors, passages: Vectors, depth: int = DEPTH) -> NDArray[np.int64]:
    """Rows of `passages` (n, dim) by inner product for each of `queries` (q, dim): (q, depth), ties in row order."""
    blocks = (
        queries[start : start + _QUERIES_AT_ONCE]
        for start in range(0, len(queries), _QUERIES_AT_ONCE)
    )
    return np.concatenate(
        [np.argsort(-(block @ passages.T), axis=1, kind="stable")[:, :depth] for block in blocks]
    )


def dense_run(judged: JudgedSet, encoder: TextEncoder, vectors: Vectors, column: Column) -> Run:
    rows = judged.rows(column)
    found = nearest(encoder.encode(list(column.queries.values()), role="query"), vectors[rows])
    return {
        query: [judged.documents[row].id for row in rows[ranked]]
        for query, ranked in zip(column.queries, found, strict=True)
    }


def served_run(corpus: Corpus, mode: Mode, column: Column) -> Run:
    """What the server answers."""
    chosen = {"language": column.language} if column.language else None
    return {
        query: [
            hit.document_id for hit in corpus.search(text, k=DEPTH, mode=mode, filter=chosen).hits
        ]
        for query, text in column.queries.items()
    }


@contextmanager
def _corpus(judged: JudgedSet, encoder: TextEncoder) -> Iterator[Corpus]:
    """The set as the server would have it, in a home of its own."""
    with tempfile.TemporaryDirectory() as home:
        source = SourceFile(judged.name, judged.name, lambda: iter(judged.documents))
        build(Path(home), judged.name, judged.kind, [source], encoder)
        corpus = Corpus.load(builds.current(Path(home), judged.name), encoder)
        try:
            yield corpus
        finally:
            corpus.close()


# ---- measures


def measure(
    encoder: TextEncoder,
    data: Path,
    sets: Sequence[str] = SETS,
    *,
    full: bool = False,
    cache: Path | None = None,
) -> dict[str, Result]:
    """Exhaustive dense search: a Result for each column of each set, such as `cosqa`, `csn.go`, `csn.mean`."""
    return measure_modes(encoder, data, sets, ["dense"], full=full, cache=cache)["dense"]


def measure_modes(
    encoder: TextEncoder,
    data: Path,
    sets: Sequence[str],
    modes: Sequence[Mode],
    *,
    full: bool = False,
    cache: Path | None = None,
) -> dict[Mode, dict[str, Result]]:
    """The same for several modes; a set's corpus is built once for all of them."""
    results: dict[Mode, dict[str, Result]] = {mode: {} for mode in modes}
    for name in sets:
        started = time.perf_counter()
        judged = load(name, data, full)
        log.info("  %s: %s documents", name, f"{len(judged.documents):,}")
        remembered = Remembered(encoder, _cache_file(cache, name, encoder) if cache else None)
        for mode, found in _measure_set(judged, remembered, modes).items():
            results[mode] |= found
        log.info("  %s: done in %.0f s", name, time.perf_counter() - started)
    return results


def _measure_set(
    judged: JudgedSet, encoder: TextEncoder, modes: Sequence[Mode]
) -> dict[Mode, dict[str, Result]]:
    found: dict[Mode, dict[str, Result]] = {}
    if "dense" in modes:
        vectors = encoder.encode(
            [passage_text(document) for document in judged.documents], role="passage"
        )
        found["dense"] = _results(judged, partial(dense_run, judged, encoder, vectors))
    served: list[Mode] = [mode for mode in modes if mode != "dense"]
    if served:
        with _corpus(judged, encoder) as corpus:
            for mode in served:
                found[mode] = _results(judged, partial(served_run, corpus, mode))
    return found


def _results(judged: JudgedSet, search: Callable[[Column], Run]) -> dict[str, Result]:
    results = {column.name: _result(judged, column, search(column)) for column in judged.columns}
    if judged.name == "csn":
        results["csn.mean"] = mean_of(list(results.values()))
    return results


def _result(judged: JudgedSet, column: Column, run: Run) -> Result:
    found = next(m for m in ranking.evaluate_run(run, column.qrels) if m.name == column.measure)
    return Result(
        found, len(judged.rows(column)), judged.pooled, per_query(run, column), run, column.qrels
    )


def per_query(run: Run, column: Column) -> dict[str, float]:
    """The measure of each query that has a relevant document: what `index.evaluation.ranking` takes the mean of."""
    values = {}
    for query, grades in column.qrels.items():
        relevant = {document for document, grade in grades.items() if grade > 0}
        if relevant and column.measure == "MRR@100":
            values[query] = ranking.reciprocal_rank(run[query], relevant)
        elif relevant:
            values[query] = ranking.ndcg(run[query], grades)
    return values


def compare(first: Result, second: Result) -> Difference:
    """How much better the second is, query by query."""
    if first.parts:
        return _compare_means(first, second)
    found = ranking.compare_runs(first.run, second.run, first.qrels)
    return next(difference for difference in found if difference.name == first.measure.name)


def mean_of(parts: Sequence[Result]) -> Result:
    """The mean of the columns' means. As one query is asked in several languages, whole queries are resampled."""
    values = _matrix([part.values for part in parts])
    low, high = _interval(values)
    documents, (first, *_) = sum(part.documents for part in parts), parts
    mean = Measure(
        first.measure.name, float(np.nanmean(values, axis=1).mean()), low, high, values.shape[1]
    )
    return Result(mean, documents, first.pooled, {}, {}, {}, tuple(parts))


def _compare_means(first: Result, second: Result) -> Difference:
    values_a, values_b = (
        _matrix([part.values for part in result.parts]) for result in (first, second)
    )
    gained = values_b - values_a
    low, high = _interval(gained)
    means = first.measure.mean, second.measure.mean, second.measure.mean - first.measure.mean
    return Difference(first.measure.name, *means, low, high, _sign_flip(gained), gained.shape[1])


def _matrix(columns: Sequence[Mapping[str, float]]) -> _Values:
    """(columns, queries), NaN where a query is not judged in a column."""
    queries = list(dict.fromkeys(query for values in columns for query in values))
    return np.array([[values.get(query, np.nan) for query in queries] for values in columns])


def _interval(values: _Values) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of the rows' means (columns, queries), over queries."""
    queries = values.shape[1]
    counts = np.random.default_rng(0).multinomial(
        queries, np.full(queries, 1 / queries), size=RESAMPLES
    )
    judged = np.maximum(counts @ ~np.isnan(values).T, 1)
    low, high = np.percentile((counts @ np.nan_to_num(values).T / judged).mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def _sign_flip(gained: _Values) -> float:
    """Two-sided p of the mean of the rows' means, a query's sign being the same in all columns."""
    shares = (np.nan_to_num(gained) / (~np.isnan(gained)).sum(axis=1, keepdims=True)).mean(axis=0)
    signs = np.random.default_rng(0).integers(2, size=(RESAMPLES, len(shares))) * 2.0 - 1.0
    extreme = np.abs(signs @ shares) >= abs(shares.sum()) - 1e-12
    return float((1 + extreme.sum()) / (1 + RESAMPLES))


# ---- output


def differences(rows: Sequence[Row]) -> list[dict[str, Difference]]:
    """For each row, its differences to the first row of its mode; none for that row itself."""
    firsts: dict[Mode, Row] = {}
    found: list[dict[str, Difference]] = []
    for row in rows:
        first = firsts.setdefault(row.mode, row)
        pairs = ((name, first.results[name], result) for name, result in row.results.items())
        found.append({} if first is row else {name: compare(a, b) for name, a, b in pairs})
    return found


def table(title: str, columns: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Markdown."""
    names = [title, *columns]
    lines = [names, ["---"] * len(names), *([name, *cells] for name, cells in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def as_markdown(rows: Sequence[Row], found: Sequence[Mapping[str, Difference]]) -> str:
    columns = [heading(name, result) for name, result in rows[0].results.items()]
    means = table(
        "encoder", columns, [(row.name, map(mean_cell, row.results.values())) for row in rows]
    )
    changes = [
        (row.name, map(change_cell, each.values()))
        for row, each in zip(rows, found, strict=True)
        if each
    ]
    return (
        f"{means}\n\n{table('difference to the first', rows[0].results, changes)}"
        if changes
        else means
    )


def heading(name: str, result: Result) -> str:
    pooled = ", pooled" if result.pooled else ""
    return f"{name} {result.measure.name} ({result.measure.queries:,} queries, {result.documents:,} documents{pooled})"


def mean_cell(result: Result) -> str:
    return f"{result.measure.mean:.4f} ({result.measure.low:.4f}-{result.measure.high:.4f})"


def change_cell(change: Difference) -> str:
    return f"{change.mean:+.4f} ({change.low:+.4f} to {change.high:+.4f}), p {change.p:.4f}"


def as_json(rows: Sequence[Row], found: Sequence[Mapping[str, Difference]]) -> list[dict[str, Any]]:
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
            "difference": asdict(each[name]) if name in each else None,
            "values": result.values,
        }
        for row, each in zip(rows, found, strict=True)
        for name, result in row.results.items()
    ]


def named(text: str) -> tuple[str, Path]:
    name, equals, directory = text.partition("=")
    if not (name and equals and directory):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DIR")
    return name, Path(directory)


def measured_rows(options: argparse.Namespace) -> Iterator[Row]:
    served: list[Mode] = ["hybrid"] if options.hybrid else []
    for number, (name, directory) in enumerate(options.encoder or [("released", RELEASED_ENCODER)]):
        log.info("%s", name)
        encoder = Encoder.load(directory)
        lexical: list[Mode] = ["lexical"] if options.bm25 and number == 0 else []
        modes: list[Mode] = [*lexical, "dense", *served]
        found = measure_modes(
            encoder, options.data, options.sets, modes, full=options.full, cache=options.cache
        )
        for mode in modes:
            label = {"lexical": "BM25", "dense": name, "hybrid": f"{name}, hybrid"}[mode]
            yield Row(label, mode, "" if mode == "lexical" else encoder.fingerprint, found[mode])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--encoder",
        type=named,
        action="append",
        metavar="NAME=DIR",
        help="default: the released one",
    )
    parser.add_argument("--hybrid", action="store_true", help="also as the server's hybrid mode")
    parser.add_argument("--bm25", action="store_true", help="a row of BM25 alone")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--full", action="store_true", help="csn among all 122,561 functions")
    parser.add_argument("--cache", type=Path, help="where vectors are kept")
    options = parser.parse_args()

    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    order: Sequence[Mode] = ("lexical", "dense", "hybrid")
    rows = sorted(measured_rows(options), key=lambda row: order.index(row.mode))
    found = differences(rows)
    options.out.write_text(json.dumps(as_json(rows, found), indent=1) + "\n", encoding="utf-8")
    print(as_markdown(rows, found))


if __name__ == "__main__":
    main()
