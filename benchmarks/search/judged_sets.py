"""The development sets of `benchmarks.search.quality`: their documents, and judged queries over them.

Without `full`, csn is pooled: each language has its judged functions and 4,000 random others, the
same in every call.

In code_pairs, each distinct summary of a language's dev functions is a query. The candidates are
these functions and the first ones of the language's train file, 2,000 in all; the column
`code_pairs.all` has the candidates of all languages together. Every function with the query's
summary is relevant.

In searches, the queries are the dev split of questions/searches. The candidates are the functions
that they lead to and the first ones of the language's train file, 2,000 a language in all, with
their comments.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.vectors import read_documents
from purlin.index.evaluation import ranking
from purlin.index.evaluation.ranking import Qrels
from purlin.index.records import Document, Kind, Skipped
from purlin.training.data.pairs.augment import with_comment
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.data.pairs.rows import function_key, pairs_from_rows, plain_pair

SETS = ("cosqa", "csn", "icecat", "crowdflower", "code_pairs", "searches")
POOLED_OTHERS = 4000  # functions of a language in csn, beside the judged ones
CANDIDATES = 2000  # functions of a language in code_pairs and searches, or all targets if more
STYLES = ("web", "repository")
SEARCHES = Path(__file__).parents[2] / "questions" / "searches"


@dataclass(frozen=True, slots=True)
class Column:
    """Judged queries over all documents of a set, or over those in `language`."""

    name: str
    measure: str
    queries: Mapping[str, str]
    qrels: Qrels
    language: str = ""


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Documents and the columns of queries over them; `pooled` if some documents are left out."""

    name: str
    kind: Kind
    documents: tuple[Document, ...]
    columns: tuple[Column, ...]
    pooled: bool = False

    def rows(self, column: Column) -> NDArray[np.int64]:
        """Rows of the documents that the column's queries are searched among."""
        if not column.language:
            return np.arange(len(self.documents))
        languages = [document.fields["language"] for document in self.documents]
        return np.array(
            [row for row, language in enumerate(languages) if language == column.language],
            dtype=np.int64,
        )


@lru_cache(maxsize=len(SETS))
def load_set(name: str, data: Path, full: bool = False) -> JudgedSet:
    """Read one of `SETS`; `full` applies to csn only."""
    match name:
        case "csn":
            return _csn(data / "csn_challenge", full)
        case "code_pairs":
            return _code_pairs(data / "code_pairs")
        case "searches":
            return _searches(data / "code_pairs")
        case "cosqa":
            return _beir(data / name, "code", "MRR@100")
    return _beir(data / name, "product", "nDCG@10")


def _beir(directory: Path, kind: Kind, measure: str) -> JudgedSet:
    qrels = ranking.read_qrels(directory / "qrels" / "dev.tsv")
    column = Column(directory.name, measure, _queries(directory, qrels), qrels)
    documents = read_documents(directory / "corpus.jsonl.gz", kind)
    return JudgedSet(directory.name, kind, tuple(documents), (column,))


def _queries(directory: Path, qrels: Qrels) -> dict[str, str]:
    texts = ranking.read_queries(directory / "queries.jsonl")
    return {query: texts[query] for query in qrels}


def _csn(directory: Path, full: bool) -> JudgedSet:
    columns = []
    judged: set[str] = set()
    for path in sorted((directory / "qrels").glob("dev.*.tsv")):
        language = path.name.split(".")[1]
        qrels = ranking.read_qrels(path)
        queries = _queries(directory, qrels)
        columns.append(Column(f"csn.{language}", "nDCG@10", queries, qrels, language))
        for grades in qrels.values():
            judged.update(grades)

    documents = list(read_documents(directory / "corpus.jsonl.gz"))
    chosen = documents if full else pooled(documents, judged)
    return JudgedSet("csn", "code", tuple(chosen), tuple(columns), pooled=not full)


def pooled(
    documents: Iterable[Document], judged: Collection[str], others: int = POOLED_OTHERS
) -> list[Document]:
    """The judged documents and `others` random ones of each language, the same in every call."""
    pool: list[Document] = []
    rest: dict[object, list[Document]] = defaultdict(list)
    for document in documents:
        if document.id in judged:
            pool.append(document)
        else:
            rest[document.fields["language"]].append(document)

    generator = random.Random(0)
    for unjudged in rest.values():
        pool += generator.sample(unjudged, min(others, len(unjudged)))
    return pool


@dataclass(frozen=True, slots=True)
class SummarizedFunction:
    """A function of code_pairs as a document, with the summary that serves as a query."""

    document: Document
    summary: str

    @property
    def key(self) -> str:
        """The same for summaries that differ in case and white space only."""
        return " ".join(self.summary.lower().split())


def _code_pairs(directory: Path) -> JudgedSet:
    all_dev: list[SummarizedFunction] = []
    all_candidates: list[SummarizedFunction] = []
    columns = []
    for path in sorted(directory.glob("*.dev.jsonl.gz")):
        language = path.name.split(".")[0]
        dev = list(_functions(path))
        train = _functions(directory / f"{language}.train.jsonl.gz")
        candidates = [*dev, *islice(train, max(0, CANDIDATES - len(dev)))]

        columns.append(pairs_column(f"code_pairs.{language}", dev, candidates, language))
        all_dev += dev
        all_candidates += candidates
    columns.append(pairs_column("code_pairs.all", all_dev, all_candidates))

    # Ties are broken by row, so dev functions must not come first.
    random.Random(0).shuffle(all_candidates)
    documents = tuple(function.document for function in all_candidates)
    return JudgedSet("code_pairs", "code", documents, tuple(columns))


def _functions(path: Path) -> Iterator[SummarizedFunction]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, row in enumerate(map(json.loads, lines)):
            id_ = f"{path.name.removesuffix('.jsonl.gz')}.{number}"
            fields = {"language": row["language"]}
            document = Document(id_, "code", row["name"], row["code"], fields=fields)
            yield SummarizedFunction(document, row["summary"])


def pairs_column(
    name: str,
    functions: Sequence[SummarizedFunction],
    candidates: Iterable[SummarizedFunction],
    language: str = "",
) -> Column:
    """Each distinct summary of `functions` as a query, to which candidates with it are relevant."""
    relevant: dict[str, dict[str, float]] = defaultdict(dict)
    for function in candidates:
        relevant[function.key][function.document.id] = 1.0

    # In reverse, so that the first of several functions with one summary stays.
    distinct = {function.key: function for function in reversed(functions)}.values()
    queries = {function.document.id: function.summary for function in distinct}
    qrels = {function.document.id: relevant[function.key] for function in distinct}
    return Column(name, "MRR@100", queries, qrels, language)


def _searches(directory: Path) -> JudgedSet:
    queries: dict[str, dict[str, str]] = {style: {} for style in STYLES}
    qrels: dict[str, dict[str, dict[str, float]]] = {style: {} for style in STYLES}
    documents: list[Document] = []

    for path in sorted(directory.glob("*.train.jsonl.gz")):
        language = path.name.split(".")[0]
        searches = _dev_searches(SEARCHES / f"{language}.jsonl")
        targets: list[Document] = []
        distractors: list[Document] = []
        for number, draft in enumerate(pairs_from_rows(PairSource("pairs", path), plain_pair)):
            if isinstance(draft, Skipped):
                continue
            rows = searches.pop(function_key(draft.pair.passage), [])
            if not rows and len(distractors) == CANDIDATES:
                continue

            document = _commented(f"{language}.{number}", draft.pair)
            (targets if rows else distractors).append(document)
            for row in rows:
                queries[row["style"]][document.id] = row["queries"][0]
                qrels[row["style"]][document.id] = {document.id: 1.0}
        documents += [*targets, *distractors[: max(0, CANDIDATES - len(targets))]]

    # Ties are broken by row, so the targets must not come first.
    random.Random(0).shuffle(documents)
    columns = [
        Column(f"searches.{style}", "MRR@100", queries[style], qrels[style]) for style in STYLES
    ]
    return JudgedSet("searches", "code", tuple(documents), tuple(columns))


def _dev_searches(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Map the keys of functions to the rows of the dev split that lead to them."""
    searches: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if row["split"] == "dev":
            searches[row["function"]].append(row)
    return searches


def _commented(id_: str, pair: Pair) -> Document:
    """Return the function with its comment where an index has it."""
    fields = {"language": pair.language}
    if pair.language == "python":
        return Document(id_, "code", "", with_comment(pair, whole=True), fields=fields)
    return Document(id_, "code", "", pair.passage, summary=pair.comment, fields=fields)
