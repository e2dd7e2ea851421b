"""What a query quotes from code: the words of a message, a flag, or a name that nothing defines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

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
# The same of a message with a value in it: "timed out (5)" of `f"timed out ({seconds})"`.
MIN_MESSAGE_RUN, MIN_MESSAGE_TELLING = 3, 2
# A run of so many words that say something is a quotation whatever else is in the query, such as the
# time and the fields of a line of a log. It counts as if it were this share of the query, as does the
# place where an option that the query names is declared.
LONG_RUN, SHARE_OF_LONG_RUN = 6, 0.8
# Words of a value.
_MAX_VALUE = 5
# Documents that have less of a query, by the idf of its words, are not read: the values are what most lack.
LEAST_WEIGHT = 0.2
# Words of a query that are compared.
_MAX_WORDS = 100
# A query that is half a quotation counts only a quarter of one, as with the names of symbols.
_POWER = 2.0
# Less than a document that is named.
_LEVEL = 0.9

_WORD = re.compile(r"\w+")
# How code has the place of a value in a message: `%s`, `{name}`, `#{name}`, `" + name + "`; and the word
# that stands for it when texts are compared.
_PLACE = re.compile(
    r"%[-+0-9.#]{0,8}[a-zA-Z]|[#$]?\{[^{}\n]{0,100}\}"
    r"|[\"'] ?[.+] ?[$\w][\w.$()>\[\]-]{0,100}(?: ?[.+] ?[\"'])?"
)
_VALUE = "\N{LATIN LETTER ALVEOLAR CLICK}"
# The type of an error, which stands before its message.
_TYPE = re.compile(r"[\w.$:\\]*(?:Error|Exception|Warning|Failure|Panic): ")
_FLAG = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*\w)")
_SYMBOL = re.compile(r"[^\W\d]\w*")


def quotes(
    query: str, weights: Mapping[str, float], titles: Collection[str]
) -> Callable[[Document], float] | None:
    """Return a function that tells how much of a query a document has word for word, in 0-1.

    `weights` maps the query's tokens to their idf. Names that are the last ones of `titles`, in any case,
    are no quotations, as their definitions are what the query names. None if the query quotes nothing.
    """
    if error_type := _TYPE.match(query):
        query = query[error_type.end() :]
        own = set(tokens(query))
        weights = {token: weight for token, weight in weights.items() if token in own}
    words = list(itertools.islice(_WORD.finditer(query), _MAX_WORDS))
    defined = {title.rpartition(".")[2].lower() for title in titles}
    compared = query[: words[-1].end() if words else 0]
    patterns = dict(_literals(compared, defined))
    declarations = [re.compile(_declaration(match[1])) for match in _FLAG.finditer(compared)]
    total = sum(weights.values())
    if not total or not (patterns or len(words) >= MIN_RUN):
        return None

    # What has none of these has no run either, and need not be read for the places of values.
    lower = [word[0].lower() for word in words]
    pairs = [f"{a} {b}" for a, b in itertools.pairwise(lower) if tokens(a) or tokens(b)]

    def share(document: Document) -> float:
        texts = [
            text
            for text, pattern in patterns.items()
            # Most documents have most literals not at all, and a pattern takes far longer to say so.
            if text in document.body and re.search(pattern, document.body)
        ]
        plain = " ".join(_WORD.findall(document.body.lower()))
        longest = 0
        if any(pair in plain for pair in pairs):
            for start, end, telling in _runs(words, _compared(plain, document.body)):
                texts.append(query[start:end])
                longest = max(longest, telling)

        own = {token for text in texts for token in tokens(text)}
        part = sum(weights.get(token, 0.0) for token in own) / total
        is_declared = any(pattern.search(document.body) for pattern in declarations)
        if longest >= LONG_RUN or is_declared:
            part = max(part, SHARE_OF_LONG_RUN)
        return float(_LEVEL * part**_POWER) if part >= MIN_SHARE else 0.0

    return share


def _compared(plain: str, body: str) -> str:
    """Return the words of a text, `plain`, and the same with a word for each place of a value in a message."""
    with_places = " ".join(_WORD.findall(_PLACE.sub(f" {_VALUE} ", body).lower()))
    return f" {plain} \n {with_places} "


def _literals(query: str, defined: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the flags and the names of a query, each with a pattern of how code has it."""
    for match in _FLAG.finditer(query):
        yield match[1], rf"(?<![\w-])--{re.escape(match[1])}(?![\w-])|{_declaration(match[1])}"
    for match in _SYMBOL.finditer(query):
        if is_telling(match[0]) and match[0].lower() not in defined:
            yield match[0], rf"(?<![\w$]){match[0]}(?![\w$])"


def _declaration(flag: str) -> str:
    """Return a pattern of how parsers are given an option: in quotes, often with its type: `"dry-run|n=s"`."""
    return rf"[\"'`|](?:--)?{re.escape(flag)}[\"'`|=:!+]"


def _runs(words: Sequence[re.Match[str]], body: str) -> Iterator[tuple[int, int, int]]:
    """Yield the longest runs of words that a body has, if they are long enough: (start, end, telling).

    They start and end there in the query, and so many of their words say something. Where the body has
    the place of a value, a run goes on behind the value.
    """
    lower = [word[0].lower() for word in words]
    first = 0
    while first < len(words):
        start, last, shared = _run(lower, first, body)
        has_value = last - start > len(shared)
        least, least_telling = (
            (MIN_MESSAGE_RUN, MIN_MESSAGE_TELLING) if has_value else (MIN_RUN, MIN_TELLING)
        )
        if len(shared) < least:
            first += 1
            continue
        telling = sum(len(word) > 1 and bool(tokens(word)) for word in shared)
        if telling >= least_telling:
            yield words[start].start(), words[last - 1].end(), telling
        first = last


def _run(lower: Sequence[str], first: int, body: str) -> tuple[int, int, list[str]]:
    """Return (start, end) of the longest run around the word `first`, and those of its words that a body has.

    The others are values.
    """
    text, last, shared = f" {lower[first]} ", first + 1, [lower[first]]
    if text not in body:
        return first, last, []

    while (longer := _longer(text, lower, last, body)) is not None:
        text, end = longer
        shared.append(lower[end])
        last = end + 1

    if len(lower) - last <= _MAX_VALUE and f"{text}{_VALUE} " in body:
        last = len(lower)
    start = 0 if first <= _MAX_VALUE and f" {_VALUE}{text}" in body else first
    return start, last, shared


def _longer(text: str, lower: Sequence[str], last: int, body: str) -> tuple[str, int] | None:
    """Return a run with its next word in the body, and the number of that word; None at its end.

    It is the word `last`, or one behind a value that begins with that.
    """
    with_value = f"{text}{_VALUE} "
    for end in range(last, min(last + _MAX_VALUE + 1, len(lower))):
        longer = f"{text if end == last else with_value}{lower[end]} "
        if longer in body:
            return longer, end
        if end == last and with_value not in body:
            return None
    return None
