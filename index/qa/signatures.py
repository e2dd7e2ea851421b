"""What the structure of a reference's entry says: its kind, its names, its parameters and their defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from index.records import Document, Passage

MAX_SIGNATURE = 2_000  # characters that are looked at
MAX_PARAMETERS = 64

Place = tuple[int, int]  # characters of a text

_PARAMETER = re.compile(r"[\s*&]*(?:[\w.]+[\s*&]+)*?([^\W\d]\w*)\s*(?::[^=]*|(?==|$))(=?)\s*")
_SWITCHES = ("true", "false")
_OPENING, _CLOSING, _QUOTES = "([{", ")]}", "'\""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a signature; `default` (start, end) is where its default stands.

    It is `optional` if it has one, or stands in brackets as in `range(start[, step])`; a `switch` if that is true or
    false.
    """

    name: str
    default: Place | None
    optional: bool
    switch: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a passage's entry. `names` and the defaults of `parameters` are places of the passage's text.

    `signature` is where the signature ends, 0 for a passage without it.
    """

    directive: str = "section"
    module: str = ""
    signature: int = 0
    names: tuple[Place, ...] = ()
    parameters: tuple[Parameter, ...] = ()


def entry_of(document: Document, passage: Passage) -> Entry:
    """What the document's structure says of one of its passages."""
    signature = _signature(document)
    known = directive(document), str(document.fields.get("module", ""))
    found = tuple(parameters(signature))
    if passage.start > 0:
        return Entry(*known, parameters=tuple(replace(one, default=None) for one in found))
    names = tuple(place for place in own_names(document) if place[1] <= passage.end)
    return Entry(*known, min(passage.end, len(signature)), names, found)


def directive(document: Document) -> str:
    """What kind of entry it is; a method without parentheses is an attribute to who reads it."""
    named = str(document.fields.get("directive", "section"))
    return "attribute" if named == "method" and "(" not in _signature(document) else named


def own_names(document: Document) -> Iterator[Place]:
    """Where a definition's names stand in its signature, with what qualifies them there: `str.split`."""
    signature, at = _signature(document), 0
    for name in names_of(document):
        last = re.escape(name.rpartition(".")[2])
        match = re.compile(rf"(?<![\w.-])(?:\w+\.)*{last}(?![\w-])").search(signature, at)
        if match is not None:
            at = match.end()
            yield match.span()


def names_of(document: Document) -> tuple[str, ...]:
    """What a definition is called; all its names if it has several."""
    names = document.fields.get("names")
    every = names if isinstance(names, tuple) else (document.title,)
    return tuple(bare for name in every if (bare := _bare(name)))


def _bare(name: str) -> str:
    """Without what stands before and after: `range` of "class range(stop)"."""
    before, parenthesis, _ = name.partition("(")
    words = before.strip(" ,:;").split(" ")
    return words[-1] if parenthesis else " ".join(words)


def _signature(document: Document) -> str:
    signature = str(document.fields.get("signature", ""))[:MAX_SIGNATURE]
    return signature if document.body.startswith(signature) else ""


def parameters(signature: str) -> Iterator[Parameter]:
    """The parameters of all lines of a signature, at most MAX_PARAMETERS, each name once."""
    seen: set[str] = set()
    for start, end, bracketed in _pieces(signature):
        match = _PARAMETER.match(signature[start:end])
        if match is None or match[1] in seen or len(seen) == MAX_PARAMETERS:
            continue
        seen.add(match[1])
        last = start + len(signature[start:end].rstrip())
        default = (start + match.end(), last) if match[2] and start + match.end() < last else None
        switch = default is not None and signature[slice(*default)].lower() in _SWITCHES
        yield Parameter(match[1], default, bracketed or default is not None, switch)


def _pieces(signature: str) -> Iterator[tuple[int, int, bool]]:
    """What commas part within the outermost parentheses of each line, and whether it stands in brackets.

    Brackets that follow no `=` are those of optional parameters: their content counts as if they were not there.
    """
    depth, brackets, start, quote = 0, 0, 0, ""
    for at, char in enumerate(signature):
        if quote or char in _QUOTES:
            quote = "" if char == quote else quote or char
        elif char == "\n":
            depth = brackets = 0
        elif depth == 1 and char in "[]" and "=" not in signature[start:at]:
            if signature[start:at].strip(" ,*["):
                yield start, at, brackets > 0
            start, brackets = at + 1, max(0, brackets + (1 if char == "[" else -1))
        elif char in _OPENING:
            depth += 1
            start = at + 1 if depth == 1 else start
        elif char in ",)]}" and depth == 1:
            yield start, at, brackets > 0
            start, depth = at + 1, depth - (char in _CLOSING)
        elif char in _CLOSING:
            depth = max(0, depth - 1)
