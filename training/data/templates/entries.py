"""Definitions of a reference, parsed once for all templates."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from purlin.index.qa.signatures import MAX_SIGNATURE_CHARS, CharSpan, Parameter, overloads
from purlin.index.records import Document, Span
from purlin.training.data.templates.rules import Directive, Rules

MAX_BODY_CHARS = 20_000  # the rest of a body is ignored
MAX_SENTENCE_CHARS = 400
MAX_PARAMETER_CHARS = 60  # of its name, default or type
MAX_TERM_CHARS = 120
_PARAGRAPH = re.compile(r"[^\n]+(?:\n[^\n]+)*")

_STOP = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bcf)[.;:](?=[)\]”\"’']?(?:\s|$))|\n|$"
)

VERSION = re.compile(
    r"(?P<what>New|Added|Changed|Deprecated) (?:in|since) (?:version |[A-Z]\w* )(?P<version>\d(?:[\d.]*\d)?)"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A definition, parsed once for all templates; paragraphs are spans of the body."""

    body: str
    rules: Rules
    term: str
    noun: str
    where: str
    name: Span | None
    signature: str
    parameters: Mapping[str, tuple[Parameter, ...]]
    paragraphs: tuple[Span, ...]

    @property
    def description(self) -> Span | None:
        """The first sentence, without notes before it."""
        for paragraph in self.paragraphs:
            if not self.is_note(paragraph) and not self.body.startswith("- ", paragraph.start):
                return next(sentence_spans(self.body, paragraph), None)
        return None

    def is_note(self, paragraph: Span) -> bool:
        """Tell whether a paragraph is a note, about a version for example."""
        return self.body.startswith(self.rules.notes, paragraph.start)

    def prose(self) -> Iterator[Span]:
        """Yield the sentences of all paragraphs except notes about versions."""
        for paragraph in self.paragraphs:
            if not VERSION.match(self.body, paragraph.start):
                yield from sentence_spans(self.body, paragraph)

    def text(self, span: Span) -> str:
        """Return the words of a span."""
        return self.body[span.start : span.end]


def sentence_spans(body: str, paragraph: Span) -> Iterator[Span]:
    """Yield a paragraph's sentences without full stops; colons and line ends end them too."""
    start = paragraph.start

    for stop in _STOP.finditer(body, paragraph.start, paragraph.end):
        while start < stop.start() and body[start].isspace():
            start += 1
        if start < stop.start() <= start + MAX_SENTENCE_CHARS:
            yield Span(start, stop.start())
        start = stop.end()


def parse_entry(document: Document, rules: Rules) -> Entry:
    """Parse the definition in a document."""
    names = document.fields.get("names")
    title = names[0] if isinstance(names, tuple) and names else document.title
    term = title[:MAX_TERM_CHARS]

    field = document.fields.get("signature")
    signature = field if isinstance(field, str) and document.body.startswith(field) else ""
    directive = _directive(document, term, signature, rules)
    if directive and directive.link:
        # The title is a signature where the source's reader could not parse it.
        term = term.partition("(")[0]
    owner = term.rpartition(".")[0]

    return Entry(
        body=document.body,
        rules=rules,
        term=term,
        noun=directive.noun if directive else "",
        where=f" {directive.link} {owner}" if directive and directive.link and owner else "",
        name=_term_span(term, signature),
        signature=signature,
        parameters=_parameters(signature if directive else ""),
        paragraphs=tuple(_paragraphs(document, len(signature))),
    )


def _directive(document: Document, term: str, signature: str, rules: Rules) -> Directive | None:
    """Return the first directive that fits; a function of a class, `Box.put`, is a method."""
    kind = document.fields.get("directive")
    owner, _, name = term.rpartition(".")
    if kind == "function" and owner.rpartition(".")[2][:1].isupper():
        kind = "method"
    anchor = (document.location.url or "").rpartition("#")[2]

    for directive in rules.directives:
        fits = signature.startswith(directive.starts) and anchor.startswith(directive.anchor)
        if directive.kind == kind and fits and (name.isupper() or not directive.upper):
            return directive
    return None


def _term_span(term: str, signature: str) -> Span | None:
    """Find the term in the signature, with as many of its dotted parts as it has there."""
    line = signature[:MAX_SIGNATURE_CHARS]

    while term:
        start = line.find(term)
        end = start + len(term)
        before, after = line[:start][-1:], line[end : end + 1]
        if start >= 0 and not before.isidentifier() and not after.isidentifier():
            return Span(start, end)
        term = term.partition(".")[2]
    return None


def _parameters(signature: str) -> dict[str, tuple[Parameter, ...]]:
    """Parse the parameters of all lines; what is too long for a question is left out."""
    return {
        name: tuple(
            replace(
                parameter,
                default=_short(parameter.default),
                annotation=_short(parameter.annotation),
            )
            for parameter in parameters
        )
        for name, parameters in overloads(signature).items()
        if len(name) <= MAX_PARAMETER_CHARS
    }


def _short(span: CharSpan | None) -> CharSpan | None:
    return span if span and span[1] - span[0] <= MAX_PARAMETER_CHARS else None


def _paragraphs(document: Document, start: int) -> Iterator[Span]:
    """Yield the paragraphs of prose, without those that touch a signature, table or code block."""
    atoms = sorted((atom.start, atom.end) for atom in document.atoms)
    for match in _PARAGRAPH.finditer(document.body, start, MAX_BODY_CHARS):
        before = bisect_right(atoms, (match.end() - 1, len(document.body))) - 1
        if before < 0 or atoms[before][1] <= match.start():
            yield Span(match.start(), match.end())


class Candidate(NamedTuple):
    """A possible answer: its span, the form of the question, and values for the placeholders.

    `described` is the sentence that the question repeats, if it does.
    """

    form: str
    start: int
    end: int
    values: Mapping[str, str]
    described: Span | None = None
