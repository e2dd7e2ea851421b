"""What a query quotes from code: the words of a message, a flag, or a name that nothing defines."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

from purlin.index.records import Document
from purlin.index.search.lexical.tokens import tokens
from purlin.index.search.ranking.repository import is_telling

# The text of so many documents may be compared: those with the highest scores by words.
DEPTH = 50
# A query of which a document has less than this word for word only happens to share some words.
MIN_SHARE = 0.5
# A query may have fewer words of a document by chance, one after the other, or fewer that say something:
# "a function's arguments" are four words, of which two do.
MIN_RUN, MIN_TELLING = 4, 3
# Words of a query that are compared.
_MAX_WORDS = 100
# A query that is half a quotation counts only a quarter of one, as with the names of symbols.
_POWER = 2.0
# Less than a document that is named.
_LEVEL = 0.9

_WORD = re.compile(r"\w+")
_FLAG = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*\w)")
_SYMBOL = re.compile(r"[^\W\d]\w*")


def quotes(
    query: str, weights: Mapping[str, float], titles: Collection[str]
) -> Callable[[Document], float] | None:
    """Return a function that tells how much of a query a document has word for word, in 0-1.

    `weights` maps the query's tokens to their idf. Names that are the last ones of `titles`, in any case,
    are no quotations, as their definitions are what the query names. None if the query quotes nothing.
    """
    words = list(islice(_WORD.finditer(query), _MAX_WORDS))
    defined = {title.rpartition(".")[2].lower() for title in titles}
    patterns = dict(_literals(query[: words[-1].end() if words else 0], defined))
    total = sum(weights.values())
    if not total or not (patterns or len(words) >= MIN_RUN):
        return None

    def share(document: Document) -> float:
        texts = [
            text
            for text, pattern in patterns.items()
            # Most documents have most literals not at all, and a pattern takes far longer to say so.
            if text in document.body and re.search(pattern, document.body)
        ]
        if len(words) >= MIN_RUN:
            body = f" {' '.join(_WORD.findall(document.body.lower()))} "
            texts += (query[slice(*run)] for run in _runs(words, body))
        own = {token for text in texts for token in tokens(text)}
        part = sum(weights.get(token, 0.0) for token in own) / total
        return float(_LEVEL * part**_POWER) if part >= MIN_SHARE else 0.0

    return share


def _literals(query: str, defined: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the flags and the names of a query, each with a pattern of how code has it."""
    for match in _FLAG.finditer(query):
        name = re.escape(match[1])
        # Parsers of options are given the name in quotes, often with its type: `"dry-run|n=s"`.
        yield match[1], rf"(?<![\w-])--{name}(?![\w-])|[\"'`|]{name}[\"'`|=:!+]"
    for match in _SYMBOL.finditer(query):
        if is_telling(match[0]) and match[0].lower() not in defined:
            yield match[0], rf"(?<![\w$]){match[0]}(?![\w$])"


def _runs(words: Sequence[re.Match[str]], body: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) in the query of the longest runs of words that a body has, if they are long enough."""
    lower = [word[0].lower() for word in words]
    first = 0
    while first + MIN_RUN <= len(words):
        last = first + MIN_RUN
        if f" {' '.join(lower[first:last])} " not in body:
            first += 1
            continue
        while last < len(words) and f" {' '.join(lower[first : last + 1])} " in body:
            last += 1
        if sum(len(word) > 1 and bool(tokens(word)) for word in lower[first:last]) >= MIN_TELLING:
            yield words[first].start(), words[last - 1].end()
        first = last
