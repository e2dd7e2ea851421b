"""Read YAML as the values that JSON would have.

No tag makes an object, an alias counts as what it stands for, and numbers stay as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from purlin.index.errors import InvalidInput

MAX_VALUES = 500_000  # with those that aliases repeat
MAX_DEPTH = 100

# Of two parsers, one is in C and twenty times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Each would be compared with all before it, and no document has a use for them here.
_TAG_DIRECTIVE = re.compile("^%TAG", re.MULTILINE)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_MERGED = "<<"


def value(text: str) -> Any:
    """Return the value of the first document.

    Raises InvalidInput if it is not valid, is nested too deeply or has too many values.
    """
    with _refused():
        return _Document(text).value()


def lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each key and item of the first document by the keys that lead to it.

    Items have their numbers for keys. Raises as `value` does.
    """
    with _refused():
        return _Document(text).lines()


@contextmanager
def _refused() -> Iterator[None]:
    """Tell in a sentence why the parser gave up."""
    try:
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1:,})" if mark else ""
        problem = " ".join((getattr(error, "problem", None) or str(error)).split())
        raise InvalidInput(f"not valid YAML: {problem}{line}") from None


class _Document:
    def __init__(self, text: str) -> None:
        if _TAG_DIRECTIVE.search(text):
            raise InvalidInput("YAML with a %TAG directive, which is not read; remove it")
        self._events = yaml.parse(text, Loader=_LOADER)
        self._room = MAX_VALUES
        self._anchored: dict[str, tuple[Any, int]] = {}  # with the number of values in it
        self._path: list[str] = []
        self._lines: dict[tuple[str, ...], int] | None = None

    def value(self) -> Any:
        for event in self._events:
            if isinstance(event, yaml.NodeEvent):
                node = self._node(event, MAX_DEPTH)
                # Text behind its end, and before another document begins, is an error.
                next(self._events)
                next(self._events)
                return node
        return None

    def lines(self) -> dict[tuple[str, ...], int]:
        self._lines = {}
        self.value()
        return self._lines

    def _child(self, key: str, line: int, event: yaml.NodeEvent, depth: int) -> Any:
        """Read what a key, or the number of an item, leads to."""
        if self._lines is None:
            return self._node(event, depth)
        self._path.append(key)
        self._lines[tuple(self._path)] = line + 1
        node = self._node(event, depth)
        self._path.pop()
        return node

    def _node(self, event: yaml.NodeEvent, depth: int) -> Any:
        if depth <= 0:
            raise InvalidInput(f"YAML nested more than {MAX_DEPTH} levels deep; flatten it")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)

        room = self._room
        self._take(1)
        node: Any
        if isinstance(event, yaml.MappingStartEvent):
            node = self._mapping(depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                number, line = str(len(node)), item.start_mark.line
                node.append(self._child(number, line, item, depth - 1))
        else:
            is_plain = event.implicit[0]
            node = _WORDS.get(event.value.lower(), event.value) if is_plain else event.value

        if event.anchor:
            self._anchored[event.anchor] = node, room - self._room
        return node

    def _mapping(self, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent):
                raise InvalidInput(
                    f"YAML with a key that is no text (line {key.start_mark.line + 1:,}); quote it"
                )
            line = key.start_mark.line
            mapping[key.value] = self._child(key.value, line, next(self._events), depth - 1)

        if _MERGED not in mapping:
            return mapping

        source = mapping.pop(_MERGED)
        merged: dict[str, Any] = {}
        # Their values are counted already, by their aliases. Of several with a key, the first counts.
        for each in source if isinstance(source, list) else [source]:
            for key, value in each.items() if isinstance(each, dict) else ():
                merged.setdefault(key, value)
        return {**merged, **mapping}

    def _alias(self, event: yaml.AliasEvent) -> Any:
        if event.anchor not in self._anchored:
            # What is not at its end yet has no value either: no value may have itself in it.
            line = event.start_mark.line + 1
            raise InvalidInput(f"YAML with an alias of no value, *{event.anchor} (line {line:,})")
        node, size = self._anchored[event.anchor]
        self._take(size)
        return node

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise InvalidInput(
                f"YAML with more than {MAX_VALUES:,} values, with those that aliases repeat; split it"
            )
