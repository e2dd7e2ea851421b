"""Highlights: which characters of a hit's text match the query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from purlin.index.records import Kind
from purlin.index.search.lexical.languages import ENGLISH, Language
from purlin.index.search.lexical.tokens import matches, tokens
from purlin.index.texts.quantities import quantities

MAX_HIGHLIGHTS = 100


@dataclass(frozen=True, slots=True)
class HighlightTerms:
    """What is highlighted in the hits of a query: its tokens, and its quantities in one spelling."""

    tokens: frozenset[str] = frozenset()
    language: Language = ENGLISH
    quantities: frozenset[str] = frozenset()


def highlight_terms(query: str, kind: Kind, language: Language) -> HighlightTerms:
    """Return what is highlighted in a query's hits of a kind, whose texts are in `language`."""
    spellings = quantities(query) if kind == "product" else ()
    return HighlightTerms(
        frozenset(tokens(query, language)),
        language,
        frozenset(each.spelling for each in spellings),
    )


def highlights(text: str, terms: HighlightTerms) -> tuple[tuple[int, int], ...]:
    """Return the spans (start, end) of a text that match the terms, at most `MAX_HIGHLIGHTS`."""
    spans = matches(text, terms.tokens, terms.language)
    if terms.quantities:
        equal = [each for each in quantities(text) if each.spelling in terms.quantities]
        spans = _united([*spans, *((each.start, each.end) for each in equal)])
    return tuple(islice(spans, MAX_HIGHLIGHTS))


def _united(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans in order, those that overlap as one."""
    ordered = sorted(spans)
    start, end = ordered[0] if ordered else (0, 0)

    for next_start, next_end in ordered:
        if next_start >= end and next_start > start:
            yield start, end
            start = next_start
        end = max(end, next_end)

    if ordered:
        yield start, end
