"""What a build has to say of its sources: which columns serve as what, what was left out, and warnings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from purlin.index.records import Skipped, printable

REMARKS_FILE = "remarks.json"
# Columns that a build names for each standard one; reasons, and places for each of them.
MOST_COLUMNS, MOST_REASONS, MOST_PLACES = 5, 20, 5
_SHOWN_CHARS = 200
# What differs between two rows that are left out for the same reason: quoted texts and numbers.
_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Parts of the sources that were left out for one reason, with the first places, as `feed.csv:12`.

    The reason is that of the first one: numbers and quoted texts in it may differ in the others.
    """

    reason: str
    count: int
    first: tuple[str, ...]

    def __str__(self) -> str:
        """One line for people."""
        more = ", …" if self.count > len(self.first) else ""
        return f"{self.count:,} left out ({', '.join(self.first)}{more}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Remarks:
    """What a build has to say of its sources.

    `columns` maps standard columns of products to those of the tables that serve as them. What was
    left out by choice is not in `left_out`.
    """

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Parse the content of a file that `save` wrote."""
        values = json.loads(content)
        left_out = (
            LeftOut(item["reason"], item["count"], tuple(item["first"]))
            for item in values["left_out"]
        )
        columns = {standard: tuple(names) for standard, names in values["columns"].items()}
        return cls(columns, tuple(left_out), tuple(values["warnings"]))

    def save(self, directory: Path) -> None:
        """Write the remarks into a build."""
        content = json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"
        (directory / REMARKS_FILE).write_text(content, encoding="utf-8")

    def lines(self) -> list[str]:
        """Lines for people: columns, warnings, and what was left out."""
        return [*self.columns_line(), *self.problems()]

    def problems(self) -> list[str]:
        """Lines for the log: warnings, and what was left out."""
        return [*self.warnings, *map(str, self.left_out)]

    def columns_line(self) -> Iterator[str]:
        """Yield the line that tells which columns serve as what, if the sources have any."""
        if self.columns:
            roles = (f"{standard}: {_listed(names)}" for standard, names in self.columns.items())
            yield f"columns: {'; '.join(roles)}"


def read_remarks(
    directory: Path, files: Mapping[str, object], read: Callable[[Path], bytes] = Path.read_bytes
) -> Remarks:
    """Return the remarks of a build with these `files`; builds of earlier versions have none."""
    if REMARKS_FILE not in files:
        return Remarks()
    return Remarks.parse(read(directory / REMARKS_FILE))


def summarised(skipped: Iterable[Skipped]) -> tuple[LeftOut, ...]:
    """Count what was left out by reason, most frequent first."""
    groups: dict[str, tuple[str, list[str], int]] = {}
    for item in skipped:
        if item.by_choice:
            continue
        kind = _PARTICULARS.sub("…", item.reason)
        reason, places, count = groups.get(kind, (item.reason, [], 0))
        if len(places) < MOST_PLACES:
            places.append(replace(item, path=shown(item.path)).location)
        groups[kind] = reason, places, count + 1

    ranked = sorted(groups.values(), key=lambda group: -group[2])
    return tuple(
        LeftOut(shown(reason), count, tuple(places))
        for reason, places, count in ranked[:MOST_REASONS]
    )


def column_changes(
    before: Mapping[str, tuple[str, ...]], now: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield a warning for each standard column that other columns serve as than in the build before."""
    if not before or not now:
        return

    for standard in dict.fromkeys([*before, *now]):
        earlier, names = before.get(standard, ()), now.get(standard, ())
        if set(earlier) != set(names):
            yield f"{standard} is read from {_listed(names)}; before, it was {_listed(earlier)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "no column"


def shown(text: str) -> str:
    """Return a text of the sources cut to what remarks show."""
    return printable(text[:_SHOWN_CHARS])
