"""Choose between the values of a sentence that states a condition for each: "0 if equal, 1 if not"."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import islice

from purlin.index.qa.signatures import CharSpan

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

    `words` are in lower case. A sentence with a single value yields none, nor does one with a tie.
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, MAX_CHARS)]
    values: dict[int, list[tuple[float, CharSpan]]] = defaultdict(list)
    for match in islice(_CONDITION.finditer(text, 0, MAX_CHARS), MAX_CONDITIONS):
        sentence = bisect_right(ends, match.start())
        values[sentence].append((_share(match["condition"], words), match.span("value")))

    for values_of_sentence in values.values():
        ranked = sorted(values_of_sentence, key=lambda value: -value[0])
        if len(ranked) > 1 and ranked[0][0] > ranked[1][0]:
            yield ranked[0][1]


def _share(condition: str, words: Collection[str]) -> float:
    """Return the share of a condition's words that are in `words`, plain words aside."""
    own_words = {word for word in _WORD.findall(condition.lower()) if word not in _PLAIN_WORDS}
    return sum(word in words for word in own_words) / len(own_words) if own_words else 0.0
