"""Find the settings that a block of code lists with comments, such as `timeout: 30, // in seconds`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

MIN_SETTINGS = 3
MAX_LINES = 5_000  # of a block; the rest of a longer one is not worth an entry per line

# Of data and of objects: in other languages, what follows a comment is a statement.
_LANGUAGES = frozenset(
    "conf dotenv env ini javascript js json json5 jsonc properties toml ts typescript yaml yml".split()
)
# `name:` or `name =`, also in quotes, and with `?` where TypeScript says that it may be left out.
_SETTING = re.compile(
    r"[ \t]*[\"']?(?P<name>[A-Za-z_$][\w.$-]{0,80})[\"']?\??[ \t]*(?::|=(?!=))(?=\s|[\"'\[{\d]|$)"
)
_COMMENT = re.compile(r"[ \t]*(?://+|#+)[ \t]?(?P<text>.*)")
_REMARK = re.compile(r"[\s,](?://|#)[ \t]*\S")
_BRACKETS = re.compile(r"[\s()\[\]{},;]*")


@dataclass(slots=True)
class Setting:
    """A setting: its name, the line that sets it, the comments above it and the lines below it."""

    name: str
    line: str
    comments: list[str]
    value: list[str] = field(default_factory=list)


def commented_settings(code: str, language: str) -> tuple[list[str], list[Setting]] | None:
    """Return a block's settings and the lines before and after them; None for any other code.

    At least half of the settings must have a comment, above them or on their line. What is indented
    deeper belongs to the value of a setting.
    """
    lines = code.rstrip().expandtabs(4).split("\n")
    if language.lower() not in _LANGUAGES or len(lines) > MAX_LINES:
        return None
    indent = _indent_of_settings(lines)
    return None if indent is None else _read(lines, indent)


def _indent_of_settings(lines: Sequence[str]) -> int | None:
    """Return the indentation of the settings with comments, if there are enough."""
    settings, commented = Counter[int](), Counter[int]()
    for before, line in pairwise(["", *lines]):
        if _SETTING.match(line):
            settings[_indent(line)] += 1
            commented[_indent(line)] += bool(_COMMENT.match(before) or _REMARK.search(line))

    indent, count = max(commented.items(), key=lambda item: item[1], default=(0, 0))
    return indent if count >= MIN_SETTINGS and 2 * count >= settings[indent] else None


def _read(lines: Sequence[str], indent: int) -> tuple[list[str], list[Setting]]:
    around: list[str] = []
    settings: list[Setting] = []
    comments: list[str] = []

    for line in lines:
        comment = _COMMENT.match(line)
        setting = _SETTING.match(line) if _indent(line) == indent else None
        if comment and _indent(line) == indent:
            comments.append(comment["text"])
        elif setting:
            settings.append(Setting(setting["name"], line.strip(), comments))
            comments = []
        elif settings and _goes_on(line, indent):
            settings[-1].value.append(line)
        else:
            around.append(line)

    around += comments
    return [line for line in around if not _BRACKETS.fullmatch(line)], settings


def _goes_on(line: str, indent: int) -> bool:
    """Return whether a line belongs to the value of the setting above it."""
    closes = _indent(line) == indent and line.lstrip().startswith((")", "]", "}"))
    return closes or _indent(line) > indent or not line.strip()


def paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Yield the paragraphs of comments, which empty ones part."""
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(line.strip())
        elif paragraph:
            yield "\n".join(paragraph)
            paragraph = []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
