"""Match the words that open blocks with those that close them, such as `begin` and `end`.

Ada, Pascal and VHDL close nearly everything by `end`, and a subprogram begins long before its
`begin`. A stack of what is open tells which `end` is whose. Names after `end`, qualified names and
the sections of a file bring it back into step where a preprocessor left more open than closed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# A head of this many bytes between two brackets, and with so many brackets, has no end.
_MAX_STEP, _MAX_STEPS, _AFTER_MARK = 2000, 20, 300
_STOP = re.compile(rb"[(;]")


@dataclass(frozen=True, eq=False)
class BlockWords:
    """The words of a language that open and close blocks.

    `words` has a group for each role, of which a match has one:

    - `unit`: a definition, whose name is in `unit_name`;
    - `begin`: the statements of the unit, or a block of their own;
    - `open`: any other block that `close` closes; the last word of the match is its kind;
    - `members`: the same, of declarations;
    - `close`: closes the last one, or the unit of the name in `end_name`;
    - `pair`, `pair_end`: what has an `end` of its own; their last words are equal;
    - `bodiless`: the unit before has no body; `declarations`: those that follow have none;
    - `top`: here nothing is open;
    - any other: nothing happens.

    `body_mark` is what a unit with a body has before the next semicolon; without it, every unit has
    one. `needs_begin` says that a unit without `begin` is never closed. Words in `never_in` open
    nothing in a block of that kind.
    """

    words: re.Pattern[bytes]
    body_mark: re.Pattern[bytes] | None = None
    needs_begin: bool = False
    never_in: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class _Open:
    """A block that is open: its kind is empty for a unit."""

    start: int
    kind: bytes
    name: bytes = b""
    has_begun: bool = False
    has_members: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether it is a unit whose statements have not begun."""
        return not self.kind and not self.has_begun


class Blocks:
    """Where the blocks of a source end, and statements that may have some in them."""

    def __init__(self, plain: bytes, words: BlockWords, pairs: Mapping[int, int]) -> None:
        self._plain = plain
        self._words = words
        self._pairs = pairs
        self._ends: dict[int, int] = {}
        self._open: list[_Open] = []
        self._open_pairs: dict[bytes, list[int]] = {}
        self._has_bodies = True
        self._last_end = 0

        self._read()
        self._starts = sorted(self._ends)

    def end_of_first(self, start: int, before: int) -> int | None:
        """The end of the first block that begins in this range; None if none does."""
        position = bisect_left(self._starts, start)
        is_there = position < len(self._starts) and self._starts[position] < before
        return self._ends[self._starts[position]] if is_there else None

    def statement_end(self, start: int) -> int | None:
        """The offset after the next semicolon outside of brackets and blocks; None if it is far."""
        position = start

        for _ in range(_MAX_STEPS):
            stop = _STOP.search(self._plain, position, position + _MAX_STEP)
            if stop is None:
                return None

            block = bisect_right(self._starts, position - 1)
            if block < len(self._starts) and self._starts[block] < stop.start():
                position = self._ends[self._starts[block]]
            elif stop[0] == b";":
                return stop.end()
            else:
                position = self._pairs.get(stop.start(), stop.end())

        return None

    def head_end(self, start: int) -> int | None:
        """Where the head of a unit ends: at the mark of its body, or at a semicolon."""
        mark = self._words.body_mark
        position = start

        for _ in range(_MAX_STEPS):
            limit = position + _MAX_STEP
            stop = _STOP.search(self._plain, position, limit)
            # What follows the mark may tell that it begins no body.
            mark_limit = stop.end() + _AFTER_MARK if stop else limit
            body = mark.search(self._plain, position, mark_limit) if mark else None

            if body is not None and (stop is None or body.start() < stop.start()):
                return body.start()
            if stop is None:
                return None
            if stop[0] == b";":
                return stop.start()
            position = self._pairs.get(stop.start(), len(self._plain))

        return None

    # ---- the stack

    def _read(self) -> None:
        brackets = sorted(item for item in self._pairs.items() if self._plain[item[0]] == ord("("))
        position, bracket_end = 0, 0

        for match in self._words.words.finditer(self._plain):
            while position < len(brackets) and brackets[position][0] < match.start():
                bracket_end = max(bracket_end, brackets[position][1])
                position += 1

            step = _STEPS.get(str(match.lastgroup))
            if step is not None and match.start() >= bracket_end:
                step(self, match)

    def _open_block(self, match: re.Match[bytes]) -> None:
        kind = _kind(match)
        top = self._open[-1].kind if self._open else b""
        if self._words.never_in.get(kind, b"-") != top:
            has_members = match.lastgroup == "members"
            self._open.append(_Open(match.start(), kind, has_members=has_members))

    def _open_pair(self, match: re.Match[bytes]) -> None:
        self._open_pairs.setdefault(_kind(match), []).append(match.start("pair"))

    def _close_pair(self, match: re.Match[bytes]) -> None:
        if starts := self._open_pairs.get(_kind(match)):
            self._ends[starts.pop()] = match.end()

    def _drop_unit(self, _: re.Match[bytes]) -> None:
        if self._open and self._open[-1].is_waiting:
            self._open.pop()

    def _begin_section(self, match: re.Match[bytes]) -> None:
        self._clear()
        self._has_bodies = match.lastgroup == "top"

    def _open_unit(self, match: re.Match[bytes]) -> None:
        name = (match["unit_name"] or b"").lower()
        if not self._has_bodies:
            return

        top = self._open[-1] if self._open else None
        is_declared = top is not None and top.has_members and self._words.needs_begin
        is_in_statements = top is not None and self._words.needs_begin and not top.is_waiting

        # What is qualified is in nothing else, and no statement has a unit inside.
        if b"." in name or (is_in_statements and not is_declared):
            self._clear()
        elif is_declared:
            return

        if self._words.body_mark is not None and name and not self._has_mark(match.end()):
            return
        self._open.append(_Open(match.start("unit"), b"", name))

    def _clear(self) -> None:
        """Close everything; the outermost unit ends where something was closed last."""
        outermost = self._open[0] if self._open else None
        if outermost and outermost.has_begun and self._last_end > outermost.start:
            self._ends[outermost.start] = self._last_end
        self._open.clear()

    def _has_mark(self, start: int) -> bool:
        end = self.head_end(start)
        return end is not None and self._plain[end : end + 1] != b";"

    def _begin(self, match: re.Match[bytes]) -> None:
        if self._open and self._open[-1].is_waiting:
            self._open[-1].has_begun = True
        else:
            self._open.append(_Open(match.start(), b"begin"))

    def _close(self, match: re.Match[bytes]) -> None:
        if self._words.needs_begin:
            while self._open and self._open[-1].is_waiting:
                self._open.pop()

        self._last_end = match.end()
        name = (match.groupdict().get("end_name") or b"").lower()
        depth = len(self._open)
        if name:
            nearest = range(depth - 1, max(-1, depth - 1 - _MAX_STEPS), -1)
            named = (at for at in nearest if self._open[at].name == name)
            # The name of another unit is that of something which is not open here.
            unmatched_depth = depth if depth and self._open[-1].name else depth - 1
            depth = next(named, unmatched_depth)
        else:
            depth -= 1
        if 0 <= depth < len(self._open):
            self._ends[self._open[depth].start] = match.end()
            del self._open[depth:]


# What the words of each role do.
_STEPS: dict[str, Callable[[Blocks, re.Match[bytes]], None]] = {
    "unit": Blocks._open_unit,
    "begin": Blocks._begin,
    "open": Blocks._open_block,
    "members": Blocks._open_block,
    "close": Blocks._close,
    "pair": Blocks._open_pair,
    "pair_end": Blocks._close_pair,
    "bodiless": Blocks._drop_unit,
    "declarations": Blocks._begin_section,
    "top": Blocks._begin_section,
}


def _kind(match: re.Match[bytes]) -> bytes:
    """The kind of a block, which is the last of the words that open or close it."""
    return match[0].split()[-1].lower()
