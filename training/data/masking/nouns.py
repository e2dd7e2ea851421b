"""Find the nouns that a product's title and body share: what masked entity prediction masks.

A word of the title counts as a noun unless it is on a short list of other words (articles,
prepositions, pronouns, auxiliary verbs, frequent adjectives) or ends as adverbs and most adjectives
do. A word of letters and digits is a model number, and so a proper noun, except for quantities such
as 500GB and 10mm. Plain numbers never count.
"""

from __future__ import annotations

import re

from purlin.index.records import Span

_WORD = re.compile(r"[^\W_]+(?:[-/.'’+][^\W_]+)*\+?")
_HAS_LETTER = re.compile(r"[^\W\d_]")
_HAS_DIGIT = re.compile(r"\d")
_QUANTITY = re.compile(
    r"\d+(?:[./x-]\d+)*(?:st|nd|rd|th|mm|cm|m|in|ft|kg|g|oz|lbs?|ml|l|w|v|a|mah|[mg]?hz|[kmgt]b|rpm|dpi|ppm|mp|p|k|x)?"
)
_NON_NOUN_ENDING = re.compile(
    r".{3,}(?:ly|able|ible|less|ful|ous|ish|ive|ical|est|ized|ised|proof|resistant)"
)

# Nouns that end like an adverb or an adjective.
_NOUNS_DESPITE_ENDING = frozenset(
    "drive cable table dish brush polish varnish supply assembly family archive adhesive olive sleeve"
    " chest vest wrist mist".split()
)
_NON_NOUNS = frozenset(
    """
a an the this that these those all any each every both either neither no some such other another same own
i you he she it we they me him her us them my your his its our their who which what whose one two three four
and or nor but so yet if as than then though while when where because not also only just even still too very
of in on at by for from to with without into onto over under up down out off per via about above below between
during through across before after against along around within near plus minus versus vs upon toward towards
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
""".split()
)


def shared_nouns(title: str, body: str) -> tuple[Span, ...]:
    """Spans of the title's nouns in the body, in order; a plural in -s counts as its singular."""
    title_nouns = {
        singular(word) for word in _WORD.findall(title) if len(word) > 1 and _is_noun(word)
    }
    return tuple(
        Span(*match.span()) for match in _WORD.finditer(body) if singular(match[0]) in title_nouns
    )


def singular(word: str) -> str:
    """Lower-case the word and drop the -s of a plural: the form in which nouns are compared."""
    lower = word.lower()
    is_plural = len(lower) > 3 and lower.endswith("s") and not lower.endswith(("ss", "us", "is"))
    return lower[:-1] if is_plural else lower


def _is_noun(word: str) -> bool:
    lower = word.lower()
    if lower in _NON_NOUNS or not _HAS_LETTER.search(word):
        return False
    if _HAS_DIGIT.search(word):
        return not _QUANTITY.fullmatch(lower)
    return lower in _NOUNS_DESPITE_ENDING or not _NON_NOUN_ENDING.fullmatch(lower)
