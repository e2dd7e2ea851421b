"""Tokens and calls until an agent has read the right file: `search_code` against grep and reading.

    python -m benchmarks.search.agents REPOSITORIES ANNOTATIONS [--encoder static] [--repo NAME ...]

REPOSITORIES has a directory for each repository of ANNOTATIONS, a JSON file with queries and the
files that answer them. A query is solved when code of one of its `relevant` files was read. Both
agents are scripts, not language models: they see whether a file is right as soon as they read it.

search_code   Call 1 is the tool with k = 5 and max_tokens = 1,750, its defaults, call 2 with k = 20
              and 4,000; then this agent goes on as `grep, paths`. All of an answer counts as read.
search, short The same, but call 1 has max_tokens = 1,000.
grep          Call 1 searches all source files for the query's content words (case-insensitive, as
              parts of words) and lists the 20 files with the most distinct words, then with the
              most matching lines. Each further call reads one file of the list, in its order: the
              matching lines with 10 lines around each, at most 2,000 tokens.
grep, paths   The same, but a word in the path counts as well: for an agent that looks at names.
grep, whole   As `grep, paths`, but each file is read from its beginning, at most 2,000 lines.

A query that is not solved counts with all that was read, and as unsolved in the shares. A token is
four characters. The list of the tools, which each session reads once, is counted apart.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.options import command_parser
from purlin.app.agents import fresh
from purlin.app.agents.budget import DEFAULT_TOKENS
from purlin.app.agents.code import SearchCode, search_code
from purlin.app.agents.local import LocalCorpora
from purlin.app.agents.tools import TOOLS

CHARS_PER_TOKEN = 4
LISTED_FILES = 20
WINDOW_LINES = 10
READ_TOKENS = 2_000
READ_LINES = 2_000
Searches = tuple[tuple[int, int], ...]  # (k, max_tokens) of one call after the other
SEARCHES: Searches = ((5, DEFAULT_TOKENS), (20, 4_000))
SHORT_SEARCHES: Searches = ((5, 1_000), (20, 4_000))
SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx")
CALLS = (1, 2, 3, 5)
TOKENS = (1_000, 2_000, 4_000, 8_000)
STOP_WORDS = frozenset(
    "a an and are as at be by can do does for from get gets has have how if in into is it its of on "
    "or other than that the their them these this to use used uses using what when where which who "
    "why with work works".split()
)


@dataclass(slots=True)
class Reading:
    """What an agent has read for one query: calls, characters, and whether it met the right file."""

    calls: int = 0
    characters: int = 0
    solved: bool = False

    @property
    def tokens(self) -> int:
        return round(self.characters / CHARS_PER_TOKEN)

    def add(self, text: str, files: Sequence[str], right: frozenset[str]) -> None:
        """Count one call that showed `text` with code of `files`."""
        self.calls += 1
        self.characters += len(text)
        self.solved = not right.isdisjoint(files)


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    category: str
    right: frozenset[str]


@dataclass(slots=True)
class Repository:
    """The source files of a repository below its root, by path; read once."""

    root: Path
    files: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path) -> Repository:
        repository = cls(root)
        for path in sorted(root.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                repository.files[path.relative_to(root).as_posix()] = text.splitlines()
        return repository


# ---- agents


def content_words(query: str) -> list[str]:
    """The words of a query that a grep would be for, in lower case."""
    words = re.findall(r"[A-Za-z0-9_]+", query.lower())
    return [word for word in dict.fromkeys(words) if word not in STOP_WORDS and len(word) > 1]


def ranked_files(repository: Repository, words: Sequence[str], *, paths: bool) -> list[str]:
    """The files with the most distinct words first, then with the most matching lines."""
    keys: dict[str, tuple[int, int]] = {}
    for path, lines in repository.files.items():
        lowered = [line.lower() for line in lines]
        matching = sum(any(word in line for word in words) for line in lowered)
        texts = [*lowered, path.lower()] if paths else lowered
        distinct = sum(any(word in text for text in texts) for word in words)
        if distinct:
            keys[path] = (-distinct, -matching)

    return sorted(keys, key=lambda path: (keys[path], path))[:LISTED_FILES]


def windows(lines: Sequence[str], words: Sequence[str]) -> str:
    """The matching lines with some around them, numbered as grep has them, cut to the limit."""
    shown: set[int] = set()
    for number, line in enumerate(lines):
        if any(word in line.lower() for word in words):
            shown.update(range(number - WINDOW_LINES, number + WINDOW_LINES + 1))

    text = "\n".join(
        f"{number + 1}:{lines[number]}" for number in sorted(shown) if 0 <= number < len(lines)
    )
    return text[: READ_TOKENS * CHARS_PER_TOKEN]


def whole(lines: Sequence[str], words: Sequence[str]) -> str:
    """The beginning of a file, numbered."""
    return "\n".join(f"{number}:{line}" for number, line in enumerate(lines[:READ_LINES], 1))


def grep(
    repository: Repository,
    query: Query,
    reading: Reading,
    *,
    paths: bool = False,
    read: Callable[[Sequence[str], Sequence[str]], str] = windows,
) -> None:
    words = content_words(query.text)
    files = ranked_files(repository, words, paths=paths)
    reading.add("\n".join(files), (), query.right)
    for path in files:
        reading.add(read(repository.files[path], words), (path,), query.right)
        if reading.solved:
            return


def search(
    repository: Repository,
    query: Query,
    reading: Reading,
    *,
    corpora: LocalCorpora,
    searches: Searches = SEARCHES,
) -> None:
    for k, max_tokens in searches:
        arguments = SearchCode(query=query.text, k=k, max_tokens=max_tokens)
        result = search_code(arguments, corpora)
        files = [
            hit["path"]
            for hit in result.structured["hits"]
            if hit.get("code") or "same_code_as" in hit
        ]
        reading.add(result.text, files, query.right)
        if reading.solved:
            return

    grep(repository, query, reading, paths=True)


# ---- measuring


def queries(repository: Mapping[str, Any]) -> Iterator[Query]:
    """The queries of a repository; paths of right files below its benchmark root."""
    prefix = "" if repository["benchmark_root"] in ("", ".") else f"{repository['benchmark_root']}/"
    for query in repository["queries"]:
        paths = [
            target if isinstance(target, str) else target["path"] for target in query["relevant"]
        ]
        right = frozenset(path.removeprefix(prefix) for path in paths)
        yield Query(query["query"], query["category"], right)


def measured(
    repositories: Path, annotations: Mapping[str, Any], encoder: str, names: Sequence[str]
) -> dict[str, list[Reading]]:
    readings: dict[str, list[Reading]] = {}
    # On a busy machine, too, the calls are what is measured.
    fresh.ANSWER_S = 3600.0
    for described in annotations["repos"]:
        if names and described["name"] not in names:
            continue
        root = repositories / described["name"] / described["benchmark_root"]
        repository = Repository.read(root)
        corpora = LocalCorpora(root, Path(os.environ["PURLIN_CACHE"]) / "none", encoder)

        agents: dict[str, Callable[[Repository, Query, Reading], None]] = {
            "search_code": partial(search, corpora=corpora),
            "search, short": partial(search, corpora=corpora, searches=SHORT_SEARCHES),
            "grep": grep,
            "grep, paths": partial(grep, paths=True),
            "grep, whole": partial(grep, paths=True, read=whole),
        }
        for query in queries(described):
            assert query.right & repository.files.keys(), query
            for name, agent in agents.items():
                reading = Reading()
                agent(repository, query, reading)
                readings.setdefault(name, []).append(reading)
    return readings


def print_table(readings: Mapping[str, Sequence[Reading]]) -> None:
    """Print medians, means and the shares of queries solved within some calls and tokens."""
    shares = [f"<= {n} calls" for n in CALLS] + [f"<= {n // 1000}k tokens" for n in TOKENS]
    print(
        "| agent | tokens median | mean | calls median | mean |", " | ".join(shares), "| solved |"
    )
    print("|---" * (6 + len(shares)) + "|")

    for name, each in readings.items():
        tokens = [reading.tokens for reading in each]
        calls = [reading.calls for reading in each]
        solved = [reading for reading in each if reading.solved]
        counts = [sum(reading.calls <= limit for reading in solved) for limit in CALLS]
        counts += [sum(reading.tokens <= limit for reading in solved) for limit in TOKENS]

        row = [
            f"{statistics.median(tokens):,.0f}",
            f"{statistics.mean(tokens):,.0f}",
            f"{statistics.median(calls):.0f}",
            f"{statistics.mean(calls):.1f}",
            *(f"{count / len(each):.0%}" for count in (*counts, len(solved))),
        ]
        print(f"| {name} |", " | ".join(row), "|")


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("annotations", type=Path)
    parser.add_argument("--encoder", default="static")
    parser.add_argument("--repo", action="append", default=[])
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        os.environ["PURLIN_CACHE"] = scratch
        annotations = json.loads(options.annotations.read_text())
        readings = measured(options.repositories, annotations, options.encoder, options.repo)

    print(f"{len(readings['search_code'])} queries, encoder {options.encoder}")
    print_table(readings)
    schemas = [{"name": t.name, "description": t.description, "s": t.schema()} for t in TOOLS]
    print(f"list of the tools: {len(json.dumps(schemas)) / CHARS_PER_TOKEN:,.0f} tokens")


if __name__ == "__main__":
    main()
