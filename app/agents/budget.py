"""Fits the result of a tool into a budget of tokens.

Without the tokenizer of the agent's language model, a token counts as three bytes of UTF-8. Code
and English have more, so results are too short rather than too long. A tool returns its
result twice, as text and as JSON, and each fits the budget.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BYTES_PER_TOKEN = 3
MIN_TOKENS, MAX_TOKENS, DEFAULT_TOKENS = 200, 20_000, 1_750
_MARK = 40  # bytes reserved for the note on what was cut
# The last line of a result in which a text was cut.
_REST = "Cut: read_document shows a hit whole."
_OPENING = 160  # characters of what stands above a text that is shown from further below
_QUOTES = 2  # bytes around a text as JSON
_MIN_PART = 40  # shortest part of a line worth showing, in characters
# Bytes of a text, about twelve lines, without which another part would say too little.
_MIN_TEXT = 450
_MIN_WEIGHT = 0.1  # so that something is shown of a hit with a low score, too


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool, or its beginning: the same content as text and as JSON."""

    text: str
    structured: Mapping[str, Any]

    def size(self) -> int:
        """Bytes of the longer of the two."""
        return max(size(self.text), size(self.structured))


@dataclass(frozen=True, slots=True)
class Part:
    """One hit, answer or label ranking of a result.

    `head` and `fields` are shown whole, as text and as JSON. `text`, which JSON has as `name`, may
    be cut to the lines around the offset `focus`. A cut above has `opening` in its place and, if the
    lines are numbered from `first_line`, says at which the text continues. Among texts that are cut,
    each gets room in proportion to its `weight`.
    """

    head: str
    fields: Mapping[str, Any]
    name: str = ""
    text: str = ""
    focus: int = 0
    first_line: int | None = None
    opening: str = ""
    weight: float = 1.0

    def fixed_size(self) -> int:
        """Bytes of everything but the text."""
        return max(size(self.head), size(self.fields)) + len(self.name) + 20

    def text_size(self) -> int:
        """Bytes of the text with a note on what was cut of it; 0 if there is none."""
        return size(self.text) + _MARK if self.text else 0


def fit(
    head_of: Callable[[int], Result], name: str, parts: Sequence[Part], max_tokens: int
) -> Result:
    """Combine as many parts as fit, best first, and say how to get what does not.

    `head_of` makes the head of a result that shows the first N parts. The first part is always
    shown, so that a result is never empty for a small budget, and a further one only if something of
    its text can be. The texts share the remaining bytes: short ones are whole, long ones are cut.
    """
    budget = max_tokens * BYTES_PER_TOKEN - 3 * _MARK
    shown: list[Part] = []
    least_size = 0
    for part in parts:
        least_size += part.fixed_size() + min(part.text_size(), _MIN_TEXT)
        if shown and least_size + head_of(len(shown) + 1).size() > budget:
            break
        shown.append(part)
    omitted = len(parts) - len(shown)

    head = head_of(len(shown))
    room = budget - head.size() - sum(part.fixed_size() for part in shown)
    share = _share(shown, room)
    cut = [_cut(part, int(share * _weight(part)) - _MARK) for part in shown]

    lines = [head.text, *(f"{number}. {text}" for number, (text, _) in enumerate(cut, 1))]
    structured = {**head.structured, name: [fields for _, fields in cut]}
    if any("cut" in fields for _, fields in cut):
        lines.append(_REST)
    if omitted:
        lines.append(f"{omitted} more: raise max_tokens.")
        structured["left_out"] = omitted
    return Result("\n".join(lines), structured)


def fit_lines(
    head: Result, lines: Sequence[str], start: int, first: int, last: int, max_tokens: int
) -> Result:
    """Show as many of the lines `first` to `last` as fit, and where to go on.

    The first of `lines` has the number `start`. At least one line is shown, its end cut if it is
    too long by itself.
    """
    room = max_tokens * BYTES_PER_TOKEN - head.size() - 4 * _MARK

    end = first - 1
    while end < last and (line_size := size(lines[end + 1 - start]) - _QUOTES + 2) <= room:
        room -= line_size
        end += 1

    shown = list(lines[first - start : end + 1 - start])
    structured = {**head.structured, "first_line": first}
    texts = [head.text]
    if not shown:
        line = lines[first - start]
        _, stop = _part_of_line(line, 0, len(line), 0, room)
        shown, end = [line[: stop or _MIN_PART]], first
        structured["cut"] = True
        texts.append(f"Line {first} is cut: raise max_tokens.")

    texts += shown
    structured["text"] = "\n".join(shown)
    if end < last:
        texts.append(f"Lines {first}-{end}: go on with lines {end + 1}-{last}.")
        structured["next_lines"] = f"{end + 1}-{last}"
    return Result("\n".join(texts), structured)


def _share(parts: Sequence[Part], room: int) -> float:
    """The largest size per weight with which the texts of all parts together fit into `room`."""
    weight = sum(map(_weight, parts))
    share = 0.0
    for part in sorted(parts, key=lambda part: part.text_size() / _weight(part)):
        share = room / weight
        if part.text_size() > share * _weight(part):
            break
        # What a short text does not need is left for the longer ones.
        room -= part.text_size()
        weight -= _weight(part)
    return share


def _weight(part: Part) -> float:
    return max(part.weight, _MIN_WEIGHT)


def _cut(part: Part, room: int) -> tuple[str, dict[str, Any]]:
    """A part as text and as JSON, its text cut to `room` bytes."""
    if not part.text:
        return part.head, dict(part.fields)

    start, end = window(part.text, part.focus, room)
    if opening := _opening(part, start):
        start, end = window(part.text, part.focus, room - size(opening))
    # What is shorter than a note on it is shown instead.
    if size(part.text[end:]) <= _MARK // 2:
        end = len(part.text)
    text = part.text[start:end].strip("\n")
    above = _omitted_lines(part.text[:start])
    below = _omitted_lines(part.text[end:])

    fields = {**part.fields, part.name: text}
    if above or below:
        fields["cut"] = True
    if opening:
        fields["opening"] = opening
        mark = _omitted_lines(part.text[:start].partition("\n")[2])
        if part.first_line is not None:
            before = part.text[: end - len(part.text[start:end].lstrip("\n"))]
            fields["code_line"] = part.first_line + before.count("\n")
            mark = f"… line {fields['code_line']}:"
        above = "\n".join(filter(None, [opening, mark]))
    return "\n".join(filter(None, [part.head, above, text, below])), fields


def _opening(part: Part, start: int) -> str:
    """What stands above a text that is cut from its beginning to `start`."""
    if not part.text[:start].strip():
        return ""
    opening = part.opening
    return opening if len(opening) <= _OPENING else f"{opening[: _OPENING - 1]}…"


def _omitted_lines(text: str) -> str:
    """A note on how many lines were cut, empty if there is nothing but white space."""
    count = len(text.strip().splitlines())
    return f"… {count} {'line' if count == 1 else 'lines'}" if count else ""


def window(text: str, focus: int, room: int) -> tuple[int, int]:
    """(start, end) of the whole lines around offset `focus` that take at most `room` bytes as JSON.

    If not even the line of `focus` fits, it is a part of that line, or empty if that part would be
    too short to be useful.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text) if match.end() < len(text))]
    ends = [*starts[1:], len(text)]
    sizes = [size(text[start:end]) - _QUOTES for start, end in zip(starts, ends, strict=True)]

    first = last = bisect_right(starts, focus) - 1
    room_left = room - _QUOTES - sizes[first]
    if room_left < 0:
        return _part_of_line(text, starts[first], ends[first], focus, room)

    # Add lines below and above in turn while they fit.
    grown = True
    while grown:
        grown = False
        for line in (last + 1, first - 1):
            if 0 <= line < len(sizes) and sizes[line] <= room_left:
                first = min(first, line)
                last = max(last, line)
                room_left -= sizes[line]
                grown = True
    return starts[first], ends[last]


def _part_of_line(text: str, start: int, end: int, focus: int, room: int) -> tuple[int, int]:
    """(start, end) of the part around `focus` of a line that fits, a quarter of it before."""
    width = room
    while width >= _MIN_PART:
        begin = max(start, min(focus - width // 4, end - width))
        if size(text[begin : min(end, begin + width)]) <= room:
            return begin, min(end, begin + width)

        # A character may take several bytes: try fewer.
        width = width * 3 // 4

    return focus, focus


def size(value: Any) -> int:
    """Bytes of a value as JSON, never fewer than as plain text; a lone surrogate counts as one."""
    return len(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
