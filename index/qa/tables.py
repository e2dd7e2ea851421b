"""Read the tables in a passage: a row is a line whose cells are joined by " | "."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import islice

from purlin.index.qa.signatures import CharSpan

MAX_ROWS = 64
ROW = re.compile(r"(?m)^.* \| .*$")

_CELL_WORD = re.compile(r"[\w-]{2,}")


def named_cells(text: str, words: Set[str]) -> Iterator[tuple[CharSpan, bool]]:
    """Yield the cells of the rows whose first cell the words name, and whether they name the column.

    They name a row with at least half of its first cell's words, and a column with one of its
    head's. All words are in lower case.
    """
    heads: list[frozenset[str]] = []
    table_end = -2  # of no table: the next character does not go on with one

    for row in islice(ROW.finditer(text), MAX_ROWS):
        spans = list(_cells(text, *row.span()))
        cells = [frozenset(_CELL_WORD.findall(text[slice(*span)].lower())) for span in spans]
        named = cells[0] & words

        # Rows that follow each other are one table, whose first row has the columns' heads, unless
        # a passage begins behind them.
        is_first = row.start() != table_end + 1
        is_head = is_first and not any("_" in word for word in named)
        if is_first:
            heads = cells if is_head else [frozenset()] * len(cells)
        table_end = row.end()

        is_named = 0 < len(cells[0]) <= 2 * len(named)
        if is_named and not is_head and len(cells) == len(heads):
            for span, head in zip(spans[1:], heads[1:], strict=True):
                if span[0] < span[1]:
                    yield span, not head.isdisjoint(words)


def _cells(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Yield the cells of a row, without the white space around them."""
    for cell in text[start:end].split(" | "):
        first = start + len(cell) - len(cell.lstrip())
        yield first, first + len(cell.strip())
        start += len(cell) + len(" | ")
