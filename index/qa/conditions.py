"""Choose between the values of a sentence that states a condition for each: "0 if equal, 1 if not"."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import islice
from operator import itemgetter

from purlin.index.qa.signatures import CharSpan
from purlin.index.search.lexical.tokens import tokens

MAX_CHARS = 20_000  # the rest of a passage is not read
MAX_CONDITIONS = 64

# A value by its look, and the condition after it up to the next one or the end of the sentence.
_VALUE = (
    r"\"[^\"\n]{1,60}\"|'[^'\n]{1,60}'|‘[^’\n]{1,60}’|“[^”\n]{1,60}”"
    r"|(?<![\w.-])-?\d[\d.]{0,20}(?<!\.)(?!\w)|\b(?:[A-Z][A-Z_\d]{2,60}|[Tt]rue|TRUE|[Ff]alse|None|[Nn]ull|nil"
    r"|undefined|non-?zero|zero)\b"
)
_CONDITION = re.compile(
    rf"(?P<value>{_VALUE})[^\w\n.;]{{0,3}}(?:if|when|on|for) (?P<condition>[^\n.;]{{1,200}}?)"
    rf"(?=[;\n]|\.(?:\s|$)|$|,? (?:and|or|otherwise|but) |, (?:{_VALUE}))"
)
_SENTENCE_END = re.compile(r"\.\s|\n")
_WORD = re.compile(r"[\w-]+")
# Words that all conditions may have.
_PLAIN_WORDS = frozenset(
    "a an any are be been by given has have in is it its of on some such that the there this to was were".split()
)


def values_under_condition(text: str, words: Collection[str]) -> Iterator[CharSpan]:
    """Yield from each sentence the value whose condition has the largest share of its words in `words`.

    Of equal shares, that of more words counts: "1 if no lines are selected" beside "0 if a line is
    selected". `words` are in lower case; they may differ in their endings. A sentence with a single
    value yields none, nor does one with a tie.
    """
    stems = frozenset(map(_stem, words))
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, MAX_CHARS)]
    values: dict[int, list[tuple[tuple[float, int], CharSpan]]] = defaultdict(list)
    for match in islice(_CONDITION.finditer(text, 0, MAX_CHARS), MAX_CONDITIONS):
        sentence = bisect_right(ends, match.start())
        values[sentence].append((_share(match["condition"], stems), match.span("value")))

    for values_of_sentence in values.values():
        ranked = sorted(values_of_sentence, key=itemgetter(0), reverse=True)
        if len(ranked) > 1 and ranked[0][0] > ranked[1][0]:
            yield ranked[0][1]


def _share(condition: str, stems: Collection[str]) -> tuple[float, int]:
    """Return which share of a condition's words, plain ones aside, is in `stems`, and how many are."""
    words = _WORD.findall(condition.lower())
    own_stems = {_stem(word) for word in words if word not in _PLAIN_WORDS}
    shared = sum(stem in stems for stem in own_stems)
    return (shared / len(own_stems) if own_stems else 0.0), shared


def _stem(word: str) -> str:
    """Return a word without its ending; common words, such as "no", stay as they are."""
    return next(iter(tokens(word)), word)
