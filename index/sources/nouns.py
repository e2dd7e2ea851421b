"""Nouns and proper nouns that a product's title and body share: what masked entity prediction masks.

With NLTK and its English tagger on this machine, the tagger decides. Without, a word of the title counts as a noun
unless it is on a short list of other words (articles, prepositions, pronouns, auxiliary verbs, frequent adjectives)
or ends as adverbs and most adjectives do. A word of letters and digits is a model number, thus a proper noun, but for
quantities such as 500GB and 10mm. Plain numbers never count. Nothing is downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Literal, TypeAlias, cast

from index.records import Span

Tagger = Literal["nltk", "rules"]
_Tag: TypeAlias = Callable[[list[str]], list[tuple[str, str]]]

_WORD = re.compile(r"[^\W_]+(?:[-/.'’+][^\W_]+)*\+?")
_HAS_LETTER = re.compile(r"[^\W\d_]")
_HAS_DIGIT = re.compile(r"\d")
_QUANTITY = re.compile(
    r"\d+(?:[./x-]\d+)*(?:st|nd|rd|th|mm|cm|m|in|ft|kg|g|oz|lbs?|ml|l|w|v|a|mah|[mg]?hz|[kmgt]b|rpm|dpi|ppm|mp|p|k|x)?"
)
_OTHER_ENDING = re.compile(
    r".{3,}(?:ly|able|ible|less|ful|ous|ish|ive|ical|est|ized|ised|proof|resistant)"
)
_NOUN_ANYWAY = {
    *(
        "drive",
        "cable",
        "table",
        "dish",
        "brush",
        "polish",
        "varnish",
        "supply",
        "assembly",
        "family",
    ),
    *("archive", "adhesive", "olive", "sleeve", "chest", "vest", "wrist", "mist"),
}
_OTHER_WORDS = """
a an the this that these those all any each every both either neither no some such other another same own
i you he she it we they me him her us them my your his its our their who which what whose one two three four
and or nor but so yet if as than then though while when where because not also only just even still too very
of in on at by for from to with without into onto over under up down out off per via about above below between
during through across after before against along around within near plus minus versus vs upon toward towards
is are was were be been being am has have had having do does did doing can could will would shall should may
might must get gets got make makes made making let lets use used uses using include includes included including
comes come fits fit allows allow features keeps keep gives give provides provide
here there now how why more most less least much many few several ready once again always never
new old big small large extra mini long short high low tall wide narrow slim thin thick deep heavy light bright
dark full half single double dual triple quad multi ultra super compact portable wireless wired cordless external
internal automatic electric digital original genuine compatible classic modern soft hard hot cold warm cool wet
dry clean clear fast quick slow easy simple smart strong safe fresh free good great best better fine pure real
black white red blue green yellow grey gray brown orange purple silver golden beige
etc cm mm kg oz lb ft mah ghz mhz gb tb mb inch
"""
_NO_NOUNS = frozenset(_OTHER_WORDS.split())


def shared_nouns(title: str, body: str) -> tuple[Span, ...]:
    """Where in the body the nouns of its title stand, in order; a plural in -s counts as its singular."""
    titled = {singular(word) for word in _nouns(title)}
    return tuple(
        Span(*match.span()) for match in _WORD.finditer(body) if singular(match[0]) in titled
    )


def tagger() -> Tagger:
    """What decides on nouns here: "nltk" where the package and its English tagger's data are installed."""
    return "rules" if _nltk() is None else "nltk"


def _nouns(title: str) -> list[str]:
    words = [word for word in _WORD.findall(title) if len(word) > 1]
    tag = _nltk()
    chosen = (
        [word for word, part in tag(words) if part.startswith("NN")]
        if tag
        else filter(_is_noun, words)
    )
    return [word for word in chosen if _HAS_LETTER.search(word)]


@cache
def _nltk() -> _Tag | None:
    try:
        return cast(_Tag, import_module("nltk.tag.perceptron").PerceptronTagger().tag)
    except (ImportError, LookupError):
        return None


def _is_noun(word: str) -> bool:
    lower = word.lower()
    if lower in _NO_NOUNS:
        return False
    if _HAS_DIGIT.search(word):
        return not _QUANTITY.fullmatch(lower)
    return lower in _NOUN_ANYWAY or not _OTHER_ENDING.fullmatch(lower)


def singular(word: str) -> str:
    """Lower case, without a plural's -s: by this two nouns count as one."""
    lower = word.lower()
    return (
        lower[:-1]
        if len(lower) > 3 and lower.endswith("s") and not lower.endswith(("ss", "us", "is"))
        else lower
    )
