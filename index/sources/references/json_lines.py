"""Tell in which line of a document in JSON something stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import count

_SPACE = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


def line(text: str, keys: Iterable[str]) -> int | None:
    """Return the line of the key or item that keys lead to; None if there is none before an error.

    Items have their numbers for keys. Python's parser passes over what stands before the line;
    nothing behind it is read.
    """
    start, value = None, _after_space(text, 0)
    try:
        for key in keys:
            members = _members(text, value)
            start, value = next((start, value) for name, start, value in members if name == key)
    except (StopIteration, ValueError, RecursionError):
        return None
    return None if start is None else text.count("\n", 0, start) + 1


def _members(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yield each key of an object, or number of an item, with where it and its value begin."""
    opening = text[start : start + 1]
    if opening not in ("{", "["):
        return

    start = _after_space(text, start + 1)
    for number in count():
        if text[start : start + 1] in ("}", "]"):
            return

        name, value = str(number), start
        if opening == "{":
            name, end = _decode(text, start)
            value = _after_space(text, _after_space(text, end) + 1)  # behind the colon
        yield name, start, value

        _, end = _decode(text, value)
        start = _after_space(text, end)
        if text[start : start + 1] == ",":
            start = _after_space(text, start + 1)


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position
