"""Read YAML as the values that JSON would have.

No tag makes an object, an alias counts as what it stands for, and numbers stay as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
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


def line(text: str, keys: Iterable[str]) -> int | None:
    """Return the line of the key or item of the first document that keys lead to; None without one.

    Items have their numbers for keys, and what an alias repeats has no lines. Nothing behind the line
    is read. Raises as `value` does.
    """
    with _refused():
        events = _events(text)
        event = next((event for event in events if isinstance(event, yaml.NodeEvent)), None)
        number = None
        for key in keys:
            event, number = _member(events, event, key)
        return number


def _member(
    events: Iterator[yaml.Event], parent: yaml.Event | None, key: str
) -> tuple[yaml.Event | None, int | None]:
    """Read on to what a key, or the number of an item, leads to; return its event and its line."""
    is_mapping = isinstance(parent, yaml.MappingStartEvent)
    for number in count() if isinstance(parent, yaml.CollectionStartEvent) else ():
        event = next(events)
        if isinstance(event, yaml.CollectionEndEvent):
            break

        line = event.start_mark.line + 1
        name = getattr(event, "value", "") if is_mapping else str(number)
        if is_mapping:
            _pass_over(events, event)
            event = next(events)
        if name == key:
            return event, line
        _pass_over(events, event)
    return None, None


def _pass_over(events: Iterator[yaml.Event], event: yaml.Event) -> None:
    """Read on to the end of what begins with an event."""
    depth = int(isinstance(event, yaml.CollectionStartEvent))
    while depth:
        _check_depth(depth)
        event = next(events)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)


def _events(text: str) -> Iterator[yaml.Event]:
    if _TAG_DIRECTIVE.search(text):
        raise InvalidInput("YAML with a %TAG directive, which is not read; remove it")
    return iter(yaml.parse(text, Loader=_LOADER))


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"YAML nested more than {MAX_DEPTH} levels deep; flatten it")


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
        self._events = _events(text)
        self._room = MAX_VALUES
        self._anchored: dict[str, tuple[Any, int]] = {}  # with the number of values in it

    def value(self) -> Any:
        for event in self._events:
            if isinstance(event, yaml.NodeEvent):
                node = self._node(event, 1)
                # Text behind its end, and before another document begins, is an error.
                next(self._events)
                next(self._events)
                return node
        return None

    def _node(self, event: yaml.NodeEvent, depth: int) -> Any:
        _check_depth(depth)
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
                node.append(self._node(item, depth + 1))
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
            mapping[key.value] = self._node(next(self._events), depth + 1)

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
