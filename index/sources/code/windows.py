"""Cut the lines of a file into windows, at the places where a reader would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# An encoder reads about so much; a longer line is a window of its own.
MAX_WINDOW_LINES = 50
MAX_WINDOW_CHARS = 2000
# A window ends at a boundary in its second half, if there is one.
MIN_WINDOW_SHARE = 0.5


def windows(lines: Sequence[str], rows: Sequence[int]) -> Iterator[list[int]]:
    """The given rows in groups of a bounded size, each without blank rows at its ends.

    Of several rows that a group could end before, it is the last that follows a gap or a blank row
    and is not indented, else the last that follows either, else the last not indented.
    """
    start = 0
    while start < len(rows):
        end = _limit(lines, rows, start)
        if end < len(rows):
            first = start + max(1, int((end - start) * MIN_WINDOW_SHARE))
            end = max(range(first, end + 1), key=lambda at: (_weight(lines, rows, at), at))

        window = list(rows[start:end])
        while window and not lines[window[-1]].strip():
            window.pop()
        while window and not lines[window[0]].strip():
            window.pop(0)
        if window:
            yield window
        start = end


def _limit(lines: Sequence[str], rows: Sequence[int], start: int) -> int:
    """The position after the last row that still fits."""
    characters = 0
    for position in range(start, min(start + MAX_WINDOW_LINES, len(rows))):
        characters += len(lines[rows[position]]) + 1
        if characters > MAX_WINDOW_CHARS and position > start:
            return position
    return min(start + MAX_WINDOW_LINES, len(rows))


def _weight(lines: Sequence[str], rows: Sequence[int], position: int) -> int:
    """How good a place to cut is before the row at this position."""
    row, previous = rows[position] if position < len(rows) else -1, rows[position - 1]
    if row < 0:
        return 3
    is_apart = row != previous + 1 or not lines[previous].strip()
    is_plain = bool(lines[row].strip()) and not lines[row][:1].isspace()
    return 2 * is_apart + is_plain
