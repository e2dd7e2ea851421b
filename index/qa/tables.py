"""Read the tables in a passage: a row is a line whose cells are joined by " | "."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import islice

from purlin.index.qa.signatures import CharSpan
from purlin.index.texts.passages import stripped_span

MAX_ROWS = 64
MIN_NAMED_SHARE = 0.5
ROW = re.compile(r"(?m)^.* \| .*$")

_CELL_WORD = re.compile(r"[\w-]{2,}")


@dataclass(frozen=True, slots=True)
class _Row:
    """The cells of a row: their spans and their words in lower case."""

    spans: list[CharSpan]
    words: list[frozenset[str]]

    def named_share(self, words: Set[str]) -> float:
        """Return the share of the first cell's words that is in `words`."""
        first = self.words[0]
        return len(first & words) / len(first) if first else 0.0


def named_cells(text: str, words: Set[str]) -> Iterator[tuple[CharSpan, bool]]:
    """Yield the cells of the rows that the words name, and whether the words name the column, too.

    A row is named if the words include at least half of its first cell's words, and no larger share
    of any other row's: where a table has both, "value size" does not name "key size". One word of its
    head names a column. All words are in lower case.
    """
    for rows in _tables(text):
        # The first row has the columns' heads, unless the passage begins after them.
        has_heads = not any("_" in word for word in rows[0].words[0] & words)
        heads = rows[0].words if has_heads else [frozenset[str]()] * len(rows[0].words)
        candidates = [row for row in rows[has_heads:] if len(row.words) == len(heads)]
        largest = max((row.named_share(words) for row in candidates), default=0.0)

        for row in candidates:
            if row.named_share(words) >= max(largest, MIN_NAMED_SHARE):
                for span, head in zip(row.spans[1:], heads[1:], strict=True):
                    if span[0] < span[1]:
                        yield span, not head.isdisjoint(words)


def _tables(text: str) -> Iterator[list[_Row]]:
    """Yield the rows of each table, which are consecutive lines."""
    rows: list[_Row] = []
    table_end = -1

    for line in islice(ROW.finditer(text), MAX_ROWS):
        if rows and line.start() != table_end + 1:
            yield rows
            rows = []
        spans = list(_cells(text, *line.span()))
        cells = (text[slice(*span)].lower() for span in spans)
        rows.append(_Row(spans, [frozenset(_CELL_WORD.findall(cell)) for cell in cells]))
        table_end = line.end()
    if rows:
        yield rows


def _cells(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Yield the cells of a row, without the white space around them."""
    for cell in text[start:end].split(" | "):
        yield stripped_span(text, start, start + len(cell))
        start += len(cell) + len(" | ")
