"""Read the structure of a reference's entries: their kind, names, parameters and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from purlin.index.records import Document, Passage
from purlin.index.texts.passages import stripped_span

MAX_SIGNATURE_CHARS = 4_000  # the rest of a signature is ignored
MAX_PARAMETERS = 64

CharSpan = tuple[int, int]  # start and end of characters in a text

_SWITCH_DEFAULTS = ("true", "false")
# Of C++, Erlang, Ruby and Rust: `Set#add`, `Vec::push`, `lists:seq`.
_SEPARATOR = re.compile(r"(?<=\w)(?:#(?=\S)|::(?=\w)|:(?=[a-z]))")
_BETWEEN_WORDS = re.compile(r"[\s*&]+")
# Below the call, as Racket has them: `max-allow-wait : exact-nonnegative-integer? = 4`.
_DECLARED = re.compile(r"(?P<name>[^\s()\[\]]+) : \S.*?(?: = (?P<default>\S.*))?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a signature; `default` and `annotation` are spans of that signature.

    It is `optional` if it has a default or stands in brackets, as in `range(start[, step])`, and a
    `switch` if its default is true or false.
    """

    name: str
    default: CharSpan | None = None
    annotation: CharSpan | None = None
    optional: bool = False
    switch: bool = False


@dataclass(frozen=True, slots=True)
class PassageStructure:
    """The structure of the entry that a passage belongs to.

    `names` and the defaults of `parameters` are spans of the passage's text. The signature ends at
    `signature_end`, which is 0 for a passage without one. `is_first` says that the passage begins the
    entry.
    """

    directive: str = "section"
    module: str = ""
    signature_end: int = 0
    names: tuple[CharSpan, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    is_first: bool = True


def passage_structure(document: Document, passage: Passage) -> PassageStructure:
    """Return what the document's fields and signature say of one of its passages."""
    signature = _signature(document)
    kind = directive(document)
    module = str(document.fields.get("module", ""))
    parameters = tuple(signature_parameters(signature))

    if passage.start > 0:
        # The signature is in the first passage, and so are the defaults.
        parameters = tuple(replace(parameter, default=None) for parameter in parameters)
        return PassageStructure(kind, module, parameters=parameters, is_first=False)

    names = tuple(span for span in own_names(document) if span[1] <= passage.end)
    signature_end = min(passage.end, len(signature))
    return PassageStructure(kind, module, signature_end, names, parameters)


def directive(document: Document) -> str:
    """Return an entry's directive; a method whose signature has no parentheses is an attribute."""
    name = str(document.fields.get("directive", "section"))
    return "attribute" if name == "method" and "(" not in _signature(document) else name


def own_names(document: Document) -> Iterator[CharSpan]:
    """Yield the spans of an entry's names in its signature, with their qualifiers: `str.split`."""
    signature = _signature(document)
    position = 0

    for name in entry_names(document):
        last_part = re.escape(name.rpartition(".")[2])
        pattern = re.compile(rf"(?<![\w.-])(?:\w+\.)*{last_part}(?![\w-])")
        match = pattern.search(signature, position)
        if match is not None:
            # The next name stands after this one.
            position = match.end()
            yield match.span()


def entry_names(document: Document) -> tuple[str, ...]:
    """Return the names of an entry, which may have several, without the rest of their signatures."""
    names = document.fields.get("names")
    titles = names if isinstance(names, tuple) else (document.title,)
    return tuple(name for title in titles if (name := _bare_name(title)))


def _bare_name(title: str) -> str:
    """Return the name in a title: `range` of "class range(stop)"."""
    before, parenthesis, _ = title.partition("(")
    words = before.strip(" ,:;").split(" ")
    return dotted(words[-1] if parenthesis else " ".join(words))


def dotted(name: str) -> str:
    """Return a qualified name with dots between its parts."""
    return _SEPARATOR.sub(".", name)


def _signature(document: Document) -> str:
    signature = str(document.fields.get("signature", ""))[:MAX_SIGNATURE_CHARS]
    return signature if document.body.startswith(signature) else ""


# -- parameters


def signature_parameters(signature: str) -> list[Parameter]:
    """Return the parameters of all lines of a signature, each name once, at most MAX_PARAMETERS."""
    return [first for first, *_ in islice(overloads(signature).values(), MAX_PARAMETERS)]


def overloads(signature: str) -> dict[str, tuple[Parameter, ...]]:
    """Map each parameter's name to its parameters in all lines, whose defaults may differ."""
    parameters: dict[str, tuple[Parameter, ...]] = {}

    for parameter in _parameters_of_lines(signature):
        parameters[parameter.name] = (*parameters.get(parameter.name, ()), parameter)
    return parameters


def _parameters_of_lines(signature: str) -> Iterator[Parameter]:
    line_start = 0
    for line in signature[:MAX_SIGNATURE_CHARS].split("\n"):
        declared = _DECLARED.fullmatch(line) if line_start else None
        if declared is not None:
            yield _declared_parameter(declared, line_start)
            line_start += len(line) + 1
            continue

        opening = line.find("(") + 1
        pieces = _split_parameters(line, opening) if opening else iter(())

        for start, end, bracketed in islice(pieces, MAX_PARAMETERS):
            parameter = _parse_parameter(signature, line_start + start, line_start + end, bracketed)
            if parameter is not None:
                yield parameter
        line_start += len(line) + 1


def _declared_parameter(declared: re.Match[str], line_start: int) -> Parameter:
    """Return the parameter that a line of its own declares."""
    start, end = declared.span("default")
    default = (line_start + start, line_start + end) if start >= 0 else None
    return Parameter(declared["name"], default, optional=default is not None)


def _split_parameters(line: str, start: int) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, whether in brackets) of each piece between the outermost commas.

    Pascal has semicolons in their place.

    A bracket before any `=` or `:` of its piece, or in front of a comma, marks optional parameters;
    all other brackets, and quotes after a `=` or `:`, belong to a default or an annotation.
    """
    depth, brackets = 0, 0
    quote, has_value = "", False

    for position in range(start, len(line)):
        char = line[position]
        if quote:
            quote = "" if char == quote else quote
        elif has_value and char in "'\"":
            quote = char
        elif char in "({" or (char == "[" and has_value and not _opens_optional(line, position)):
            depth += 1
        elif depth and char in ")}]":
            depth -= 1
        elif not depth and char in ",;[])":
            yield start, position, brackets > 0
            brackets = max(0, brackets + (char == "[") - (char == "]"))
            start, has_value = position + 1, False
            if char == ")":
                return
        has_value = has_value or (char in "=:" and not depth)


def _opens_optional(line: str, position: int) -> bool:
    """Return whether the bracket is that of `a=1[, b]` rather than of a list or an index."""
    return line.startswith((",", " ,"), position + 1)


def _parse_parameter(signature: str, start: int, end: int, bracketed: bool) -> Parameter | None:
    """Parse `name`, `name: annotation = default` or C's `type *name`; None without a name."""
    declared, equals, _ = signature[start:end].partition("=")
    before_colon, colon, _ = declared.partition(":")

    # What stands before the last word is a C type, or the stars of `**options`.
    name = _BETWEEN_WORDS.split(before_colon.rstrip())[-1]
    if not name.isidentifier():
        return None

    declared_end = start + len(declared)
    annotation = _strip(signature, start + len(before_colon) + 1, declared_end) if colon else None
    default = _strip(signature, declared_end + 1, end) if equals else None
    switch = default is not None and signature[slice(*default)].lower() in _SWITCH_DEFAULTS
    return Parameter(name, default, annotation, bracketed or default is not None, switch)


def _strip(text: str, start: int, end: int) -> CharSpan | None:
    """Return the span without white space at its ends, or None if nothing is left."""
    first, last = stripped_span(text, start, end)
    return (first, last) if first < last else None
