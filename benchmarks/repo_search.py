"""Measure how well repositories are searched, by the rules that the queries were published with.

    python benchmarks/repo_search.py --repos DIR --data DIR [--encoder transformer static]
                                     [--modes hybrid lexical dense] [--out FILE.json]

`--data` has `annotations.json`: repositories, with queries of three categories and the files, or
lines of files, that answer each. `--repos` has the repositories by name. Of each, the directory
`benchmark_root` is indexed as a corpus in a temporary home, and searched for code, the first ten
hits of each query. The rank of a target is that of the first hit in its file and, where lines are
given, touching these; every target gains 1, and nDCG@10 is the mean over queries.

Prints a row for each encoder and mode: the mean over all queries, and by category, with 95 %
bootstrap intervals over queries, then the means by repository. The model's weights were fitted on
these queries; docs/lab-notebook.md has the figures with each repository left out.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index import builds
from purlin.index.encoder import TextEncoder, encoder_directory, load_encoder
from purlin.index.evaluation.ranking import measure
from purlin.index.indexing.build import build
from purlin.index.records import Location, Mode
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source

DEPTH = 10
CATEGORIES = ("symbol", "semantic", "architecture")


@dataclass(frozen=True, slots=True)
class Target:
    """A file that answers a query, or some of its lines; its path is the repository's."""

    path: str
    start_line: int | None = None
    end_line: int | None = None

    def has(self, location: Location, root: str) -> bool:
        """Whether a hit in a corpus of `root` is in the file and touches the lines."""
        if f"{root}/{location.path}" != self.path:
            return False
        if self.start_line is None or self.end_line is None:
            return True
        first, last = location.start_line or 1, location.end_line or math.inf
        return first <= self.end_line and last >= self.start_line


@dataclass(frozen=True, slots=True)
class Query:
    """A query with what answers it."""

    repository: str
    category: str
    text: str
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository; `root` is the directory of it that is indexed."""

    name: str
    root: str
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """nDCG@10 of every query, in the order of the annotations."""

    encoder: str
    mode: Mode
    values: Sequence[float]


def read_annotations(file: Path) -> list[Repository]:
    """Read repositories and their queries."""
    repositories = []
    for record in json.loads(file.read_bytes())["repos"]:
        queries = tuple(_query(record["name"], query) for query in record["queries"])
        repositories.append(Repository(record["name"], record["benchmark_root"], queries))
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


def search_repository(
    repository: Repository, repos: Path, encoder: TextEncoder, modes: Sequence[Mode]
) -> Iterator[tuple[Mode, list[float]]]:
    """Index a repository and yield, for each mode, the value of every query."""
    with tempfile.TemporaryDirectory() as home:
        source = open_source("code", [repos / repository.name / repository.root])
        build(Path(home), repository.name, "code", source, encoder)
        corpus = Corpus.load(builds.current(Path(home), repository.name), encoder)

        with closing(corpus):
            for mode in modes:
                yield (
                    mode,
                    [_value(corpus, query, repository.root, mode) for query in repository.queries],
                )


def _value(corpus: Corpus, query: Query, root: str, mode: Mode) -> float:
    hits = corpus.search(query.text, k=DEPTH, mode=mode, filter={"content": "code"}).hits
    return ndcg([hit.location for hit in hits], query.targets, root)


def measured_rows(
    repositories: Sequence[Repository],
    repos: Path,
    encoder: TextEncoder,
    modes: Sequence[Mode],
) -> list[Row]:
    """Measure one encoder in several modes."""
    values: dict[Mode, list[float]] = {mode: [] for mode in modes}
    for repository in repositories:
        for mode, measured in search_repository(repository, repos, encoder, modes):
            values[mode] += measured
    return [Row(encoder.name, mode, values[mode]) for mode in modes]


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
        groups = [_where(row, queries, "category", category) for category in CATEGORIES]
        cells = [cell(values) if values else "" for values in (row.values, *groups)]
        lines.append(f"| {row.encoder}, {row.mode} | {' | '.join(cells)} |")

    repositories = list(dict.fromkeys(query.repository for query in queries))
    lines += ["", f"| encoder, mode | {' | '.join(repositories)} |"]
    lines.append("|---" * (len(repositories) + 1) + "|")
    for row in rows:
        groups = [_where(row, queries, "repository", name) for name in repositories]
        means = [f"{np.mean(values):.3f}" for values in groups]
        lines.append(f"| {row.encoder}, {row.mode} | {' | '.join(means)} |")
    return "\n".join(lines)


def _where(row: Row, queries: Sequence[Query], name: str, value: str) -> list[float]:
    pairs = zip(queries, row.values, strict=True)
    return [measured for query, measured in pairs if getattr(query, name) == value]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repos", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", nargs="+", default=["transformer"])
    parser.add_argument("--modes", nargs="+", default=["hybrid", "lexical"])
    parser.add_argument("--out", type=Path, help="the value of every query, as JSON")
    options = parser.parse_args()

    repositories = read_annotations(options.data / "annotations.json")
    queries = [query for repository in repositories for query in repository.queries]
    rows = []
    for name in options.encoder:
        encoder = load_encoder(encoder_directory(name))
        rows += measured_rows(repositories, options.repos, encoder, options.modes)

    print(as_markdown(rows, queries))
    if options.out:
        options.out.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")


if __name__ == "__main__":
    main()
