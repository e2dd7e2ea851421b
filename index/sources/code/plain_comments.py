"""Tell of the comments in a source without a grammar where they are and what they are about."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator


class Rows:
    """The rows of a source, which count from 0."""

    def __init__(self, source: bytes) -> None:
        self._breaks = [match.start() for match in re.finditer(rb"\n", source)]
        self._length = len(source)

    def row(self, offset: int) -> int:
        """Return the row of an offset."""
        return bisect_left(self._breaks, offset)

    def start(self, row: int) -> int:
        """Return the offset where a row begins."""
        return self._breaks[row - 1] + 1 if row else 0

    def end(self, offset: int) -> int:
        """Return the offset where the row of an offset ends."""
        row = self.row(offset)
        return self._breaks[row] if row < len(self._breaks) else self._length


class PlainComments:
    """The comments of a source by their `spans`, in order.

    A doc comment ends at most `doc_gap` lines above its definition.
    """

    def __init__(self, source: bytes, rows: Rows, doc_gap: int) -> None:
        self._source, self._rows, self._doc_gap = source, rows, doc_gap
        self.spans: list[tuple[int, int]] = []

    def rows(self) -> set[int]:
        """Return the rows of comments on lines of their own."""
        own = (span for span in self.spans if self._is_on_own_line(span[0]))
        return {
            row
            for start, end in own
            for row in range(self._rows.row(start), self._rows.row(end - 1) + 1)
        }

    def above(self, start: int) -> tuple[str, int]:
        """Return text and first row of the comments right above; "" and the row without any."""
        position = bisect_left(self.spans, (start, 0))
        first = start
        while position > 0:
            comment_start, comment_end = self.spans[position - 1]
            lines = self._doc_gap if first == start else 1
            is_near = self._is_near(comment_end, first, lines)
            if not is_near or not self._is_on_own_line(comment_start):
                break
            position, first = position - 1, comment_start

        return self._source[first:start].decode().strip(), self._rows.row(first)

    def remark(self, start: int) -> str:
        """Return the comment after `##` at the end of a line, which makefiles print as help."""
        position = bisect_left(self.spans, (start, 0))
        if position == len(self.spans):
            return ""
        comment_start, comment_end = self.spans[position]
        is_on_line = comment_start < self._rows.end(start)
        is_remark = is_on_line and self._source.startswith(b"##", comment_start)
        return self._source[comment_start:comment_end].decode() if is_remark else ""

    def before(self, end: int) -> Iterator[tuple[str, int]]:
        """Yield text and row of each run of comments that a source begins with, up to an offset."""
        position = 0
        while position < len(self.spans):
            start, first_end = self.spans[position]
            if start > end or not self._is_on_own_line(start):
                return
            position, run_end = self._run_from(position + 1, first_end)
            yield self._source[start:run_end].decode(), self._rows.row(start)

    def end_of_run(self, end: int) -> int:
        """Return where the comments on the lines right below an offset end."""
        return self._run_from(bisect_left(self.spans, (end, 0)), end)[1]

    def _run_from(self, position: int, end: int) -> tuple[int, int]:
        """The position after the comments from here on that are on the lines right below `end`.

        With it, where they end.
        """
        while position < len(self.spans):
            start, next_end = self.spans[position]
            if not self._is_near(end, start):
                break
            position, end = position + 1, next_end
        return position, end

    def _is_near(self, end: int, start: int, lines: int = 1) -> bool:
        """Whether what begins here is right after what ends there, or so many lines below."""
        gap = self._source[end:start]
        return not gap.strip() and gap.count(b"\n") <= lines

    def _is_on_own_line(self, offset: int) -> bool:
        return not self._source[self._rows.start(self._rows.row(offset)) : offset].strip()
