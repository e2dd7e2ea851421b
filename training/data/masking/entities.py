"""Entities of passages, which are masked: identifiers of code, and nouns of products."""

from __future__ import annotations

import tokenize
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import accumulate
from keyword import iskeyword

from purlin.index.records import Kind, Span
from purlin.index.sources.code.languages import LANGUAGES
from purlin.training.data.masking.code_start import code_start
from purlin.training.data.masking.identifiers import identifiers
from purlin.training.data.masking.masks import entity_share
from purlin.training.data.masking.nouns import shared_nouns, singular
from purlin.training.data.pairs.pair import Pair

# Characters of a passage that are searched for entities: more than any base model reads.
MAX_MASKED_CHARS = 20_000

# Pairs of a source whose entities are counted for the report.
MEASURED_PAIRS = 500

ENTITY_METHODS: dict[Kind, str] = {
    "code": "identifiers by Python's tokenizer and tree-sitter, as in the paper",
    "product": "nouns by rules of Purlin's own, where the paper takes NLTK's tagger",
}
"""How entities are found, by kind of pair."""


_LANGUAGE_NAMES = frozenset(language.name for language in LANGUAGES)

# Of all versions from 3.10 on, so that the entities do not depend on the Python that runs this.
_SOFT_KEYWORDS = frozenset({"_", "match", "case", "type"})


def entities(pair: Pair) -> tuple[Span, ...]:
    """Return the spans of the passage's entities, in order and without overlaps.

    Code, in the languages of `LANGUAGES`: identifiers, that is variables, functions, methods, types
    and libraries. They include `self` and `cls`, as in CodeT5, which the paper follows, so that
    entities are the same share of Python as in its table 5. Prose before the code has no entities.

    Products: nouns that the title shares with the rest of the passage, at every occurrence.

    References and code in other languages have none; `mask_spans` masks random spans there.
    """
    passage = pair.passage[:MAX_MASKED_CHARS]
    if pair.kind == "product":
        return _shared_nouns(pair.title, passage)
    if pair.kind != "code" or pair.language not in _LANGUAGE_NAMES:
        return ()

    start = code_start(passage, pair.language)
    code = passage[start:]
    names = python_names(code) if pair.language == "python" else None
    if names is None:
        names = tuple(identifiers(code, pair.language))
    return tuple(Span(start + name.start, start + name.end) for name in names)


def describe_entities(pairs: Sequence[Pair]) -> str:
    """Say how entities are found in pairs of one source, and how much of the text they are.

    The share of words can be compared with the paper's table 5. It is that of `MEASURED_PAIRS`
    pairs, spread evenly.
    """
    measured = pairs[:: max(1, len(pairs) // MEASURED_PAIRS)][:MEASURED_PAIRS]
    kinds = {pair.kind for pair in measured}
    methods = [method for kind, method in ENTITY_METHODS.items() if kind in kinds]

    spans = [entities(pair) for pair in measured]
    with_entities = sum(map(bool, spans)) / len(measured)
    words = sum(
        entity_share(pair.passage[:MAX_MASKED_CHARS], entity_spans)
        for pair, entity_spans in zip(measured, spans, strict=True)
    ) / len(measured)
    return (
        f"{' and '.join(methods) or 'random spans'}; {with_entities:.0%} of {len(measured):,} pairs have "
        f"entities, {words:.1%} of the words; the others get random spans"
    )


def python_names(code: str) -> tuple[Span, ...] | None:
    """Return the names that Python's own tokenizer finds, as in the paper; None if it fails.

    Keywords and soft keywords are not names. Unlike those of a parser, the names include those in
    `print` statements and, before Python 3.12, none inside f-strings.
    """
    lines = StringIO(code).readlines()
    line_starts = [0, *accumulate(map(len, lines))]

    names = []
    try:
        for token in tokenize.generate_tokens(iter(lines).__next__):
            if token.type == tokenize.ERRORTOKEN and not token.string.isspace():
                return None
            if token.type == tokenize.NAME and not _is_keyword(token.string):
                line, column = token.start
                start = line_starts[line - 1] + column
                names.append(Span(start, start + len(token.string)))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    return tuple(names)


def _is_keyword(name: str) -> bool:
    return iskeyword(name) or name in _SOFT_KEYWORDS


def _shared_nouns(title: str, passage: str) -> tuple[Span, ...]:
    """Return the title's nouns that occur twice or more and also outside the title's own copy."""
    spans = shared_nouns(title, passage)
    words = [singular(passage[span.start : span.end]) for span in spans]
    counts = Counter(words)

    title_start = passage.find(title)
    inside = range(title_start, title_start + len(title)) if title_start >= 0 else range(0)
    outside = {word for span, word in zip(spans, words, strict=True) if span.start not in inside}

    return tuple(
        span
        for span, word in zip(spans, words, strict=True)
        if counts[word] > 1 and word in outside
    )
