"""Measure how well repositories are searched, by the rules that the queries were published with.

    python -m benchmarks.search.repo_search --repos DIR --data DIR [--encoder transformer static]
        [--modes hybrid lexical dense] [--out FILE.json]
    python -m benchmarks.search.repo_search --repos DIR --queries questions/repositories --split dev

`--data` has `annotations.json`: repositories, with queries of three categories and the files, or
lines of files, that answer each. `--repos` has the repositories by name. Of each, the directory
`benchmark_root` is indexed as a corpus in a temporary home, and searched for code, the first ten
hits of each query. The rank of a target is that of the first hit in its file and, where lines are
given, touching these; every target gains 1, and nDCG@10 is the mean over queries.

Prints a row for each encoder and mode: the mean over all queries, and by category, with 95 %
bootstrap intervals over queries, then the means by repository. The model's weights were fitted on
these queries; docs/lab-notebook.md has the figures with each repository left out.

`--queries` has a file of queries for each repository instead, which is indexed whole. Further
measures are then the share of queries whose first hit, and one of whose first three hits, touches
a target, and MRR@10, also by repository. No weight was fitted on the split `test`. With
`--translations questions/translations/searches.jsonl --language de`, the same queries are searched in
another language.
"""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import command_parser
from purlin.index import builds
from purlin.index.encoder import TextEncoder, encoder_directory, load_encoder
from purlin.index.evaluation.ranking import measure
from purlin.index.indexing.build import build
from purlin.index.records import Location, Mode
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source

DEPTH = 10
CODE = {"content": "code"}
CATEGORIES = ("symbol", "semantic", "architecture")


@dataclass(frozen=True, slots=True)
class Target:
    """A file that answers a query, or some of its lines; its path is the repository's.

    Of targets with the same `need`, one is enough for the task.
    """

    path: str
    start_line: int | None = None
    end_line: int | None = None
    need: int | None = None

    def has(self, location: Location, root: str) -> bool:
        """Whether a hit in a corpus of `root` is in the file and touches the lines."""
        path = f"{root}/{location.path}" if root else location.path
        if path != self.path:
            return False
        if self.start_line is None or self.end_line is None:
            return True
        first, last = location.start_line or 1, location.end_line or math.inf
        return first <= self.end_line and last >= self.start_line


@dataclass(frozen=True, slots=True)
class Query:
    """A query with what answers it; `category` is empty where queries have none."""

    repository: str
    category: str
    text: str
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository; `root` is the directory of it that is indexed, empty for the whole."""

    name: str
    root: str
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """nDCG@10 of every query, in order, and the rank of the first hit that touches a target, or 0."""

    encoder: str
    mode: Mode
    values: Sequence[float]
    ranks: Sequence[int]

    def measures(self) -> dict[str, Sequence[float]]:
        """Map each measure to its values."""
        return {
            "nDCG@10": self.values,
            "first": [float(rank == 1) for rank in self.ranks],
            "first three": [float(0 < rank <= 3) for rank in self.ranks],
            "MRR@10": [1 / rank if rank else 0.0 for rank in self.ranks],
        }


def read_annotations(file: Path) -> list[Repository]:
    """Read repositories and their queries."""
    repositories = []
    for record in json.loads(file.read_bytes())["repos"]:
        queries = tuple(_query(record["name"], query) for query in record["queries"])
        repositories.append(Repository(record["name"], record["benchmark_root"], queries))
    return repositories


def read_translations(file: Path, language: str) -> dict[str, str]:
    """Map the ids of queries to their text in a language."""
    records = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {record["id"]: record["query"] for record in records if record["language"] == language}


def read_queries(
    directory: Path, split: str, translations: Mapping[str, str] | None = None
) -> list[Repository]:
    """Read the queries of a split from the files of repositories, `NAME.jsonl`.

    With `translations`, those that have one are read, in its words.
    """
    repositories = []
    for file in sorted(directory.glob("*.jsonl")):
        records = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        queries = tuple(
            Query(
                file.stem,
                "",
                translations[record["id"]] if translations else record["query"],
                tuple(Target(**t) for t in record["targets"]),
            )
            for record in records
            if record["split"] == split and (not translations or record["id"] in translations)
        )
        if queries:
            repositories.append(Repository(file.stem, "", queries))

    return repositories


def _query(repository: str, record: Mapping[str, Any]) -> Query:
    targets = [
        Target(target) if isinstance(target, str) else Target(**target)
        for target in (*record["relevant"], *record.get("secondary", ()))
    ]
    return Query(repository, record["category"], record["query"], tuple(targets))


def ndcg(hits: Sequence[Location], targets: Sequence[Target], root: str) -> float:
    """Discounted gain of the targets at their first hits, as a share of the best possible."""
    gain = 0.0
    for target in targets:
        ranks = (rank for rank, hit in enumerate(hits[:DEPTH], 1) if target.has(hit, root))
        if rank := next(ranks, 0):
            gain += 1 / math.log2(rank + 1)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(len(targets), DEPTH) + 1))


def first_rank(hits: Sequence[Location], targets: Sequence[Target], root: str) -> int:
    """Rank of the first hit that touches a target, or 0 if none of the first ten does."""
    ranks = (
        rank
        for rank, hit in enumerate(hits[:DEPTH], 1)
        if any(target.has(hit, root) for target in targets)
    )
    return next(ranks, 0)


def search_repository(
    repository: Repository, repos: Path, encoder: TextEncoder, modes: Sequence[Mode]
) -> Iterator[tuple[Mode, Query, list[Location]]]:
    """Index a repository and yield the hits of every query in each mode."""
    with tempfile.TemporaryDirectory() as home:
        source = open_source("code", [repos / repository.name / repository.root])
        build(Path(home), repository.name, "code", source, encoder)
        corpus = Corpus.load(builds.current(Path(home), repository.name), encoder)

        with closing(corpus):
            for mode, query in itertools.product(modes, repository.queries):
                results = corpus.search(query.text, k=DEPTH, mode=mode, filter=CODE)
                yield mode, query, [hit.location for hit in results.hits]


def measured_rows(
    repositories: Sequence[Repository],
    repos: Path,
    encoder: TextEncoder,
    modes: Sequence[Mode],
) -> list[Row]:
    """Measure one encoder in several modes."""
    values: dict[Mode, list[float]] = {mode: [] for mode in modes}
    ranks: dict[Mode, list[int]] = {mode: [] for mode in modes}
    for repository in repositories:
        for mode, query, hits in search_repository(repository, repos, encoder, modes):
            values[mode].append(ndcg(hits, query.targets, repository.root))
            ranks[mode].append(first_rank(hits, query.targets, repository.root))
    return [Row(encoder.name, mode, values[mode], ranks[mode]) for mode in modes]


# ---- output


def cell(values: Sequence[float]) -> str:
    """Mean and interval."""
    result = measure("nDCG@10", np.array(values), len(values))
    return f"{result.mean:.3f} ({result.low:.3f}-{result.high:.3f})"


def as_markdown(rows: Sequence[Row], queries: Sequence[Query]) -> str:
    """Two tables: by category with intervals, and by repository."""
    counts = [sum(query.category == category for query in queries) for category in CATEGORIES]
    names = [f"{name} ({count})" for name, count in zip(CATEGORIES, counts, strict=True)]
    lines = [f"| encoder, mode | all ({len(queries)}) | {' | '.join(names)} |", "|---" * 5 + "|"]
    for row in rows:
        groups = [_where(row.values, queries, "category", category) for category in CATEGORIES]
        cells = [cell(values) if values else "" for values in (row.values, *groups)]
        lines.append(f"| {row.encoder}, {row.mode} | {' | '.join(cells)} |")

    return "\n".join([*lines, "", *_by_repository(rows, queries, "nDCG@10")])


def measures_as_markdown(rows: Sequence[Row], queries: Sequence[Query]) -> str:
    """A table of the measures with intervals, and one of each measure by repository."""
    names = list(rows[0].measures())
    lines = [f"| encoder, mode ({len(queries)}) | {' | '.join(names)} |", "|---" * 5 + "|"]

    for row in rows:
        cells = [cell(values) for values in row.measures().values()]
        lines.append(f"| {row.encoder}, {row.mode} | {' | '.join(cells)} |")

    for name in names:
        lines += ["", f"{name}:", "", *_by_repository(rows, queries, name)]

    return "\n".join(lines)


def _by_repository(rows: Sequence[Row], queries: Sequence[Query], name: str) -> list[str]:
    repositories = list(dict.fromkeys(query.repository for query in queries))
    lines = [f"| encoder, mode | {' | '.join(repositories)} |"]
    lines.append("|---" * (len(repositories) + 1) + "|")

    for row in rows:
        values = row.measures()[name]
        groups = [_where(values, queries, "repository", repository) for repository in repositories]
        means = [f"{np.mean(group):.3f}" for group in groups]
        lines.append(f"| {row.encoder}, {row.mode} | {' | '.join(means)} |")

    return lines


def _where(values: Sequence[float], queries: Sequence[Query], name: str, value: str) -> list[float]:
    pairs = zip(queries, values, strict=True)
    return [measured for query, measured in pairs if getattr(query, name) == value]


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--repos", type=Path, required=True)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path)
    source.add_argument("--queries", type=Path)
    parser.add_argument("--split", choices=["dev", "test"], default="dev")
    parser.add_argument("--translations", type=Path, help="the queries in other languages")
    parser.add_argument("--language", help="of the translations, such as de")
    parser.add_argument("--encoder", nargs="+", default=["transformer"])
    parser.add_argument("--modes", nargs="+", default=["hybrid", "lexical"])
    parser.add_argument("--out", type=Path, help="the value of every query, as JSON")
    options = parser.parse_args()

    if options.queries:
        translations = None
        if options.translations:
            translations = read_translations(options.translations, options.language)
        repositories = read_queries(options.queries, options.split, translations)
    else:
        repositories = read_annotations(options.data / "annotations.json")
    queries = [query for repository in repositories for query in repository.queries]
    rows = []
    for name in options.encoder:
        encoder = load_encoder(encoder_directory(name))
        rows += measured_rows(repositories, options.repos, encoder, options.modes)

    print((measures_as_markdown if options.queries else as_markdown)(rows, queries))
    if options.out:
        options.out.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")


if __name__ == "__main__":
    main()
