"""Possible answers in an entry, each with the form of the question that asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from purlin.index.records import Span
from purlin.training.data.templates.entries import MAX_SENTENCE_CHARS, VERSION, Candidate, Entry
from purlin.training.data.templates.outcomes import find_exceptions, find_returns
from purlin.training.data.templates.parameters import (
    find_defaults,
    find_described_parameters,
    find_settings,
    find_types,
)
from purlin.training.data.templates.phrases import (
    lower_first,
    reveals,
    verb_and_rest,
    without_asides,
)

# A note about the whole entry, not about a part of it.
_OUTDATED = re.compile(
    r"(?:, will be removed in version \d[\d.]*)?"
    r"(?:\.?\s*$|: (?:(?:Please )?[Uu]se |See |This (?:function|method|class|attribute|module|constant|exception) "
    r"|\S+ now supports ))"
)

_ADDED = re.compile(
    r"\b[Aa]dd(?:ed)? (?:the |an? )?(?:optional )?(?:new )?(?P<first>\w+)(?: keyword)?(?: argument| parameter)(?!s)"
    r"|: (?:The )?(?:optional )?(?P<second>\w+)(?: keyword)?(?: argument| parameter)? was added\b"
)


def find_candidates(entry: Entry, *, is_section: bool) -> Iterator[Candidate]:
    """Yield the possible answers in an entry; a section can only be that of a module."""
    if is_section:
        yield from _modules(entry)
        return

    yield from _terms(entry)
    yield from find_defaults(entry)
    yield from find_settings(entry)
    yield from find_described_parameters(entry)
    yield from find_types(entry)
    yield from find_returns(entry)
    yield from find_exceptions(entry)
    yield from _versions(entry)


def _terms(entry: Entry) -> Iterator[Candidate]:
    """Apply the paper's template: the first sentence's verb and rest ask for the term."""
    span = entry.description
    if span is None or entry.name is None:
        return
    values = verb_and_rest(entry, entry.text(span))
    if values:
        yield Candidate("term", entry.name.start, entry.name.end, values, span)


def _modules(entry: Entry) -> Iterator[Candidate]:
    """Ask for a module by a title such as `json — JSON encoder and decoder`.

    The answer is the module's name in the first paragraph that has it.
    """
    name, dash, synopsis = entry.term.partition(" — ")
    is_module = dash and re.fullmatch(r"[\w.]+", name)
    cleaned = without_asides(synopsis, entry.rules) if is_module else ""
    if not cleaned or reveals(cleaned, name):
        return

    words = (_find_word(entry.body, name, paragraph) for paragraph in entry.paragraphs)
    span = next((word for word in words if word is not None), None)
    if span is None:
        return

    values = verb_and_rest(entry, synopsis) | {"noun": "module"}
    if "third" in values:
        yield Candidate("term", span.start, span.end, values)
    elif cleaned.partition(" ")[0].lower() not in entry.rules.openings:
        rest = lower_first(cleaned, entry.rules)
        yield Candidate("module", span.start, span.end, {"rest": rest})


def _find_word(body: str, word: str, span: Span) -> Span | None:
    pattern = re.compile(rf"(?<![\w./]){re.escape(word)}(?![\w/]|\.\w)")
    match = pattern.search(body, span.start, span.end)
    return match and Span(*match.span())


def _versions(entry: Entry) -> Iterator[Candidate]:
    """Ask for the version that added or deprecated the entry, or added a parameter."""
    if not entry.noun:
        return

    for paragraph in entry.paragraphs:
        match = VERSION.match(entry.body, paragraph.start, paragraph.end)
        if match is None:
            continue

        kind, span, end = match["what"], match.span("version"), match.end()
        if kind == "Deprecated" and _OUTDATED.match(entry.body, end, paragraph.end):
            yield Candidate("deprecation", *span, {})
        elif kind == "Changed":
            name = _added_parameter(entry.body, end, paragraph.end)
            if name in entry.parameters:
                yield Candidate("parameter version", *span, {"parameter": name})
        elif kind in ("New", "Added") and _is_end_of_note(entry.body, end, paragraph.end):
            yield Candidate("version", *span, {})


def _added_parameter(body: str, start: int, end: int) -> str:
    """Return the parameter that a note on a change says was added, or an empty string."""
    match = _ADDED.search(body, start, min(end, start + MAX_SENTENCE_CHARS))
    return (match["first"] or match["second"]) if match else ""


def _is_end_of_note(body: str, start: int, end: int) -> bool:
    """Return whether only a full stop follows; otherwise the note is about a part of the entry."""
    return not body[start : min(end, start + 40)].strip(" .\n")
