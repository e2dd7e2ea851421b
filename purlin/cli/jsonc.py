"""Edits of JSON files with comments that leave everything else as it is.

Editors and agents keep their settings as JSON with comments and trailing commas. A value is set or
removed by a change of the text around it; what the change means is checked by reading the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_DEPTH = 100
_SPACE = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TO_LINE_END = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/[ \t]*(?=\r?\n))?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"[-+.\w]+")


class NotJson(ValueError):
    """A text that is no JSON, also if comments and trailing commas are allowed."""


@dataclass(slots=True)
class _Node:
    """A value of the text with its place: `text[start:end]`.

    An object has the nodes of its members by name, with the places of the names, and may end in a
    comma, whose place is `comma`.
    """

    value: Any
    start: int
    end: int
    members: dict[str, tuple[int, _Node]] = field(default_factory=dict)
    comma: int | None = None


def parse(text: str) -> Any:
    """Return the value of a text; an empty one is an empty object. Raises NotJson."""
    return _parse(text).value


def set_value(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with the value at a path of names, objects on the way made if missing.

    Raises NotJson, also if something on the way is no object.
    """
    root = _parse(text)
    expected = _with(root.value, path, value)
    if root.start == root.end:
        separator = "\n" if text and not text.endswith("\n") else ""
        return set_value(f"{text}{separator}{{}}\n", path, value)

    node, depth = root, 0
    while depth < len(path) and path[depth] in node.members:
        node, depth = node.members[path[depth]][1], depth + 1
    missing = path[depth:]
    if not missing and node.value == value:
        return text
    if not missing:
        edited = text[: node.start] + json.dumps(value, ensure_ascii=False) + text[node.end :]
    else:
        for name in reversed(missing[1:]):
            value = {name: value}
        edited = _inserted(text, node, missing[0], value)
    return _checked(edited, expected)


def remove_value(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path; the same text if there is none."""
    node = _parse(text)
    for name in path[:-1]:
        if name not in node.members:
            return text
        node = node.members[name][1]
    if path[-1] not in node.members:
        return text

    start, member = node.members[path[-1]]
    after = _skip(text, member.end)
    if text[after : after + 1] == ",":
        end = after + 1
    else:
        # The last member: the comma before it goes, too.
        end = member.end
        start = _comma_before(text, node, path[-1], start)
    # The rest of its line goes if the member has the line for itself.
    line_start = text.rfind("\n", 0, start) + 1
    if not text[line_start:start].strip() and _ends_line(text, end):
        start, end = line_start, text.find("\n", end) + 1 or len(text)
    return _checked(text[:start] + text[end:], _without(parse(text), path))


# ---- reading


def _parse(text: str) -> _Node:
    start = _skip(text, 0)
    if start == len(text):
        return _Node({}, start, start)
    node = _value(text, start, 0)
    if _skip(text, node.end) != len(text):
        raise NotJson(f"there is something after the end of the value, {_line(text, node.end)}")
    return node


def _value(text: str, at: int, depth: int) -> _Node:
    if depth > MAX_DEPTH:
        raise NotJson(f"it is nested more than {MAX_DEPTH} deep")
    if text[at : at + 1] == "{":
        return _object(text, at, depth)
    if text[at : at + 1] == "[":
        return _array(text, at, depth)

    match = _STRING.match(text, at) or _SCALAR.match(text, at)
    if match is None:
        raise NotJson(f"a value is expected, {_line(text, at)}")
    return _Node(_read(text, match), at, match.end())


def _read(text: str, match: re.Match[str]) -> Any:
    """Return the value of what looks like a string or another scalar. Raises NotJson."""
    try:
        return json.loads(match[0])
    except ValueError:
        raise NotJson(f"{match[0][:40]} is no value, {_line(text, match.start())}") from None


def _object(text: str, start: int, depth: int) -> _Node:
    node = _Node({}, start, start)
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}":
        name = _STRING.match(text, at)
        if name is None:
            raise NotJson(f"a name in double quotes is expected, {_line(text, at)}")
        colon = _skip(text, name.end())
        if text[colon : colon + 1] != ":":
            raise NotJson(f"a colon is expected, {_line(text, colon)}")

        member = _value(text, _skip(text, colon + 1), depth + 1)
        key = _read(text, name)
        if key in node.members:
            raise NotJson(f"the name {key[:40]!r} is there twice, {_line(text, at)}")
        node.members[key] = (at, member)
        node.value[key] = member.value
        at, node.comma = _after(text, member.end, "}")
    node.end = at + 1
    return node


def _array(text: str, start: int, depth: int) -> _Node:
    values = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "]":
        item = _value(text, at, depth + 1)
        values.append(item.value)
        at, _ = _after(text, item.end, "]")
    return _Node(values, start, at + 1)


def _after(text: str, end: int, closing: str) -> tuple[int, int | None]:
    """Where the next member or the closing bracket begins, and the place of a comma before it."""
    at = _skip(text, end)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1), at
    if text[at : at + 1] != closing:
        raise NotJson(f"a comma or {closing} is expected, {_line(text, at)}")
    return at, None


def _skip(text: str, at: int) -> int:
    """Where white space and comments end."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _line(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"


# ---- writing


def _inserted(text: str, node: _Node, name: str, value: Any) -> str:
    """The text with a new last member of an object."""
    if not isinstance(node.value, dict):
        raise NotJson(f"an object is expected around {name!r}, {_line(text, node.start)}")
    if not node.members:
        return _into_empty(text, node, name, value)

    last_start, last = list(node.members.values())[-1]
    if "\n" not in text[node.start : node.end]:
        member = f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        at = last.end if node.comma is None else node.comma + 1
        return f"{text[:at]}{'' if node.comma is not None else ','}{member}{text[at:]}"

    layout = _Layout.of(text)
    indentation = _indentation(text, last_start)
    member = f"{layout.newline}{indentation}{layout.member(name, value, indentation)}"
    if node.comma is not None:
        at = _end_of_line(text, node.comma + 1)
        return f"{text[:at]}{member},{text[at:]}"
    at = _end_of_line(text, last.end)
    return f"{text[: last.end]},{text[last.end : at]}{member}{text[at:]}"


def _into_empty(text: str, node: _Node, name: str, value: Any) -> str:
    layout = _Layout.of(text)
    outer = _indentation(text, node.start)
    inner = outer + layout.unit
    # Comments inside stay before the member.
    kept = text[node.start + 1 : node.end - 1].rstrip()
    member = f"{layout.newline}{inner}{layout.member(name, value, inner)}{layout.newline}{outer}"
    return f"{text[: node.start]}{{{kept}{member}}}{text[node.end :]}"


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a text is laid out: ends of lines, and what one level is indented by."""

    newline: str
    unit: str

    @classmethod
    def of(cls, text: str) -> _Layout:
        first_indented = re.search(r"\n([ \t]+)\S", text)
        unit = first_indented[1] if first_indented else "  "
        return cls("\r\n" if "\r\n" in text else "\n", unit)

    def member(self, name: str, value: Any, indentation: str) -> str:
        """A member; an object's own members are in lines of their own."""
        if not isinstance(value, dict) or not value:
            return f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"

        inner = indentation + self.unit
        lines = [
            f"{self.newline}{inner}{self.member(key, item, inner)}" for key, item in value.items()
        ]
        return f"{json.dumps(name)}: {{{','.join(lines)}{self.newline}{indentation}}}"


def _indentation(text: str, at: int) -> str:
    """White space at the beginning of the line of an offset."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _end_of_line(text: str, at: int) -> int:
    """Where a comment behind `at` on the same line ends; `at` itself if more follows there."""
    match = _TO_LINE_END.match(text, at)
    end = match.end() if match else at
    return end if _ends_line(text, end) else at


def _ends_line(text: str, at: int) -> bool:
    return not text[at : text.find("\n", at) if "\n" in text[at:] else len(text)].strip()


def _comma_before(text: str, node: _Node, name: str, start: int) -> int:
    """Where the comma before the last member is, or the member itself if it is the only one."""
    names = list(node.members)
    if len(names) == 1:
        return start
    previous = node.members[names[names.index(name) - 1]][1]
    return _skip(text, previous.end)


def _with(value: Any, path: Sequence[str], new: Any) -> Any:
    if not path:
        return new
    if not isinstance(value, Mapping):
        raise NotJson(f"an object is expected around {path[0]!r}")
    return {**value, path[0]: _with(value.get(path[0], {}), path[1:], new)}


def _without(value: Any, path: Sequence[str]) -> Any:
    if len(path) == 1:
        return {name: item for name, item in value.items() if name != path[0]}
    return {**value, path[0]: _without(value[path[0]], path[1:])}


def _checked(text: str, expected: Any) -> str:
    if parse(text) != expected:
        raise NotJson("its structure is too unusual to change it safely")
    return text
