"""What an agent has on the table after one search for a task, and after two, beside one grep.

    python -m benchmarks.search.tasks REPOSITORIES QUERIES [--split dev]

REPOSITORIES has a directory for each file NAME.jsonl of QUERIES, such as questions/repositories/fourth.
A row is a task: its `query`, the word that an expert would `grep`, and `targets`, the files and lines
that it takes. Targets of one `need` are alternatives; each without one is a need of its own.

first   `search_code` with its defaults: a need is met if one of the hits touches its lines.
second  The same again, over all content, with k = 10 and max_tokens = 4,000.
grep    The lines that `grep -rnIE` finds, as many as take 2,000 tokens: met if a line is one of its lines.

Prints each task with the rank of the hit that meets each need, 0 if none does, then the shares. A token
is four characters.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from benchmarks.options import command_parser
from benchmarks.search.agents import CHARS_PER_TOKEN, READ_TOKENS
from benchmarks.search.repo_search import Target
from purlin.app.agents import fresh
from purlin.app.agents.code import SearchCode, search_code
from purlin.app.agents.local import LocalCorpora
from purlin.index.records import Location

SECOND = {"content": "all", "k": 10, "max_tokens": 4_000}
Needs = Sequence[Sequence[Target]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rank of the hit that meets each need by the first and the second search, and which grep meets."""

    first: Sequence[int]
    second: Sequence[int]
    grep: Sequence[bool]
    tokens: int
    grep_tokens: int

    @property
    def either(self) -> Sequence[bool]:
        """Which needs are met by one of the two searches."""
        return [bool(rank or later) for rank, later in zip(self.first, self.second, strict=True)]


def needs_of(record: Mapping[str, Any]) -> Needs:
    """The targets of a task by need."""
    targets = [Target(**target) for target in record["targets"]]
    by_need = groupby(enumerate(targets), key=lambda each: each[1].need or -each[0] - 1)
    return [[target for _, target in group] for _, group in by_need]


def outcome(record: Mapping[str, Any], corpora: LocalCorpora, root: Path) -> Outcome:
    """What the searches and grep give for a task."""
    needs = needs_of(record)
    first = search_code(SearchCode(query=record["query"]), corpora)
    second = search_code(SearchCode(query=record["query"], **SECOND), corpora)

    grep = ["grep", "-rnIE", record["grep"], "."]
    output = subprocess.run(grep, cwd=root, capture_output=True, check=False).stdout
    text = output.decode(errors="replace")
    lines = list(_lines(text[: READ_TOKENS * CHARS_PER_TOKEN]))

    return Outcome(
        _ranks(needs, [_location(hit) for hit in first.structured["hits"]]),
        _ranks(needs, [_location(hit) for hit in second.structured["hits"]]),
        [rank > 0 for rank in _ranks(needs, lines)],
        len(first.text) // CHARS_PER_TOKEN,
        len(text) // CHARS_PER_TOKEN,
    )


def _location(hit: Mapping[str, Any]) -> Location:
    return Location(hit["path"], hit.get("start_line"), hit.get("end_line"))


def _lines(output: str) -> Iterator[Location]:
    """The lines that grep shows whole."""
    for line in output.split("\n")[:-1]:
        path, _, rest = line.partition(":")
        number = rest.partition(":")[0]
        if number.isdigit():
            yield Location(path.removeprefix("./"), int(number), int(number))


def _ranks(needs: Needs, locations: Sequence[Location]) -> list[int]:
    """The rank of the first location that meets each need, or 0."""
    return [
        next(
            (
                rank
                for rank, location in enumerate(locations, 1)
                if any(target.has(location, "") for target in targets)
            ),
            0,
        )
        for targets in needs
    ]


def measured(repositories: Path, queries: Path, split: str) -> Iterator[tuple[str, Outcome]]:
    """Each task with its outcome, by the static encoder."""
    # On a busy machine, too, the calls are what is measured.
    fresh.ANSWER_S = 3600.0
    for file in sorted(queries.glob("*.jsonl")):
        root = repositories / file.stem
        corpora = LocalCorpora(root, Path(os.environ["PURLIN_CACHE"]) / "none", "static")
        for record in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            if record["split"] == split:
                yield f"{record['id']}: {record['query']}", outcome(record, corpora, root)


def print_shares(outcomes: Sequence[Outcome]) -> None:
    """Print how many tasks have any of their needs met, how many all, and how many needs are met."""
    needs = sum(len(each.first) for each in outcomes)
    print(f"| {len(outcomes)} tasks, {needs} needs | any | all | needs |\n|---|---|---|---|")
    for name in ("first", "either", "grep"):
        met = [getattr(each, name) for each in outcomes]
        any_met, all_met = sum(map(any, met)), sum(map(all, met))
        print(f"| {name} | {any_met} | {all_met} | {sum(map(bool, chain.from_iterable(met)))} |")

    tokens = statistics.median(each.tokens for each in outcomes)
    grep_tokens = statistics.median(each.grep_tokens for each in outcomes)
    print(f"tokens, median: first search {tokens:,.0f}, all that grep finds {grep_tokens:,.0f}")


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--split", default="dev")
    options = parser.parse_args()

    outcomes = []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["PURLIN_CACHE"] = scratch
        for task, each in measured(options.repositories, options.queries, options.split):
            print(task, list(each.first), list(each.second), list(each.grep))
            outcomes.append(each)
    print_shares(outcomes)


if __name__ == "__main__":
    main()
