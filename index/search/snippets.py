"""Which lines of a long text to show for a query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from purlin.index.records import Hit
from purlin.index.search.lexical.tokens import matches, tokens
from purlin.index.search.ranking.uses import relation_in

# A stretch is shown instead of the beginning if its words weigh more than this many times as much.
_MORE = 1.5
# Sums of the same weights may differ by this much, by the order in which they are added.
_ROUNDING = 1e-9
_WORD = re.compile(r"\w")


def opening_line(hit: Hit) -> str:
    """Return what tells what a hit is where only lines below are shown: its signature, or its first line."""
    return str(hit.fields.get("signature") or hit.text.partition("\n")[0])


def telling_row(
    query: str, text: str, rows: int, spans: Sequence[tuple[int, int]] | None = None
) -> int:
    """Return the first row of the `rows` consecutive rows that have most of the query's words.

    Of a query for what uses a symbol, these are the symbol's. With `spans` of the text, such as the
    lines that match a regular expression, these count instead of words.

    The beginning, row 0, is preferred, since it tells what the text is: another stretch must have
    more than half as much again. A word counts for less the more often the text has it.
    """
    words_at = _words_by_row(query, text, spans)
    if len(words_at) <= rows:
        return 0
    counts = Counter(word for words in words_at for word in words)

    # Slide the stretch down the text. Each distinct word inside counts once, however often it occurs.
    inside: Counter[str] = Counter()
    best_row, best, weight = 0, 0.0, 0.0
    for last, words in enumerate(words_at):
        for word in words:
            inside[word] += 1
            weight += 1 / counts[word] if inside[word] == 1 else 0.0
        first = last - rows + 1
        for word in words_at[first - 1] if first > 0 else ():
            inside[word] -= 1
            weight -= 1 / counts[word] if inside[word] == 0 else 0.0

        if first == 0:
            best = _MORE * weight
        elif first > 0 and weight > best + _ROUNDING:
            best_row, best = first, weight
    if not best_row:
        return 0

    # The last row of that stretch has a match. Centre the matches: as many rows below as above, but
    # none at the top that only closes what is not shown.
    first_match = next(row for row in range(best_row, len(words_at)) if words_at[row])
    lines = text.split("\n")
    centred = range((best_row + first_match) // 2, first_match + 1)
    start = next((row for row in centred if _WORD.search(lines[row])), first_match)
    return min(start, len(lines) - rows)


def _words_by_row(
    query: str, text: str, spans: Sequence[tuple[int, int]] | None
) -> list[list[str]]:
    """Return what counts in each row of a text: the `spans` that begin there, or the query's words."""
    if spans is None:
        relation = relation_in(query)
        spans = list(matches(text, frozenset(tokens(relation.symbol if relation else query))))

    ends = list(accumulate(len(line) + 1 for line in text.split("\n")))
    words_at: list[list[str]] = [[] for _ in ends]
    row = 0
    for start, end in spans:
        while ends[row] <= start:
            row += 1
        words_at[row].append(text[start:end].lower())
    return words_at


def with_short_lines(
    text: str, spans: Sequence[tuple[int, int]], max_chars: int
) -> tuple[str, list[tuple[int, int]]]:
    """Cut lines of more than `max_chars` around their first span; return the text and the spans in it.

    There are as many lines as before, and "…" stands for what is left out of one.
    """
    lines: list[str] = []
    moved: list[tuple[int, int]] = []
    offset = new_offset = 0
    for line in text.split("\n"):
        end_offset = offset + len(line)
        inside = [(start, end) for start, end in spans if offset <= start and end <= end_offset]
        span_start, span_end = inside[0] if inside else (offset, offset)
        # The beginning tells what the line is about: it is shown if the first span is in it.
        cut = span_end - offset - max_chars // 2 if span_end - offset > max_chars else 0
        cut = min(cut, span_start - offset)
        stop = min(cut + max_chars, len(line))

        shift = new_offset - offset - cut + (cut > 0)
        moved += [
            (start + shift, min(end, offset + stop) + shift)
            for start, end in inside
            if cut <= start - offset < stop
        ]
        lines.append(f"{'…' * (cut > 0)}{line[cut:stop]}{'…' * (stop < len(line))}")
        offset += len(line) + 1
        new_offset += len(lines[-1]) + 1
    return "\n".join(lines), moved
