"""Read .gitignore files, and tell what their patterns exclude."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from purlin.index.records import Skipped

MAX_IGNORE_BYTES = 1024 * 1024
MAX_IGNORE_LINE = 500

# Each further wildcard multiplies the time to match a long file name by its length.
MAX_IGNORE_STARS = 4

# How pathspec begins the expression of a pattern that may match in any directory.
_ANYWHERE = "^(?:.+/)?"


@dataclass(frozen=True, slots=True)
class Ignore:
    """One .gitignore.

    `base` is its directory relative to the root, and `outside` the root relative to its directory,
    if it lies above; both are empty or end in a slash. `groups` are its patterns, in order, joined
    where neighbours agree on two questions: whether they look at the last name only, and whether
    they exclude.
    """

    base: str
    groups: tuple[tuple[bool, bool, re.Pattern[str]], ...]
    outside: str = ""

    def verdict(self, path: str, name: str) -> bool | None:
        """Whether the path, whose last part is `name`, is excluded; None if no pattern matches.

        Both end in a slash if they are those of a directory.
        """
        below = self.outside + path[len(self.base) :]
        for name_only, excludes, pattern in reversed(self.groups):
            if pattern.match(name if name_only else below):
                return excludes
        return None

    def excludes_any(self, parts: Sequence[str]) -> bool:
        """Whether a directory on the way down these parts is excluded."""
        path = ""
        for part in parts:
            path += f"{part}/"
            if self.verdict(path, f"{part}/"):
                return True
        return False


def is_ignored(path: str, name: str, ignores: tuple[Ignore, ...]) -> bool:
    """Whether the innermost .gitignore with a pattern for the path excludes it."""
    for ignore in reversed(ignores):
        verdict = ignore.verdict(path, name)
        if verdict is not None:
            return verdict
    return False


def parse_ignore(content: bytes, name: str, base: str) -> Iterator[Ignore | Skipped]:
    """The patterns of a .gitignore; one that is not applied is a `Skipped` of the file's name."""
    patterns = []
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        try:
            pattern = _pattern(line)
        except ValueError as error:
            yield Skipped(name, f"this pattern is not applied: {error}", number)
        else:
            if pattern is not None:
                patterns.append(pattern)

    if patterns:
        yield Ignore(base, tuple(_joined(patterns)))


def _pattern(line: str) -> tuple[bool, bool, str] | None:
    """Whether a line looks at names only, whether it excludes, and its expression.

    None for a comment. Raises ValueError for a pattern that is invalid or could take very long.
    """
    if len(line) > MAX_IGNORE_LINE:
        raise ValueError(f"longer than {MAX_IGNORE_LINE} characters")
    if not line.startswith("#") and len(re.findall(r"\*+", line)) > MAX_IGNORE_STARS:
        raise ValueError(f"more than {MAX_IGNORE_STARS} wildcards")

    pattern = GitIgnoreSpecPattern(line)
    if pattern.include is None or pattern.regex is None:
        return None

    # Joined expressions cannot have a group of the same name.
    expression = pattern.regex.pattern.replace("(?P<ps_d>/)", "/")
    # Git excludes what is in the directory, and so sees what a later pattern takes back.
    if line.rstrip().endswith("/**") and expression.endswith("/"):
        expression += "."
    name_only = "/" not in line.strip().rstrip("/") and expression.startswith(_ANYWHERE)
    return name_only, pattern.include, expression.removeprefix(_ANYWHERE if name_only else "")


def _joined(
    patterns: Iterable[tuple[bool, bool, str]],
) -> Iterator[tuple[bool, bool, re.Pattern[str]]]:
    for (name_only, excludes), group in groupby(patterns, key=lambda pattern: pattern[:2]):
        expressions = "|".join(f"(?:{expression})" for _, _, expression in group)
        yield name_only, excludes, re.compile(expressions)
