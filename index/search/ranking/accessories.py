"""Accessories rank after the products that they go with: "case for iPhone 12" is no iPhone 12.

A title names what an accessory goes with behind a word such as "for". Where all words of a query stand
there and nowhere before it, the query names what the accessory goes with, and not the accessory. Who
wants that names it, too: "iphone 12 case", "iphone 12 cover". Words of the brand tell nothing, as makers
sell both.
"""

from __future__ import annotations

import re
from functools import lru_cache

from purlin.index.records import Document
from purlin.index.search.lexical.languages import Language
from purlin.index.search.lexical.tokens import have_any, split, tokens, words

# On the score of an accessory.
FACTOR = 0.8
_ENGLISH = r"for|fits|compatible with"
# What stands before the thing that an accessory goes with.
_FOR = {
    "english": _ENGLISH,
    "german": rf"für|passend zu|kompatibel mit|{_ENGLISH}",
    "french": rf"pour|compatible avec|{_ENGLISH}",
    "dutch": rf"voor|geschikt voor|{_ENGLISH}",
    "spanish": rf"para|compatible con|{_ENGLISH}",
    "italian": rf"per|compatibile con|{_ENGLISH}",
    "swedish": rf"till|för|passar|kompatibel med|{_ENGLISH}",
    "danish": rf"til|passer til|kompatibel med|{_ENGLISH}",
    "norwegian": rf"til|passer til|kompatibel med|{_ENGLISH}",
    "polish": rf"do|dla|pasuje do|kompatybilny z|{_ENGLISH}",
    "czech": rf"do|na|pro|k|vhodný pro|kompatibilní s|{_ENGLISH}",
}
_PATTERNS = {
    language: re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)", re.IGNORECASE)
    for language, alternatives in _FOR.items()
}


def is_accessory(query: str, document: Document, language: Language) -> bool:
    """Return whether a product only goes with what the query names, by its title."""
    pattern = _PATTERNS[language.name]
    own, *fitting = pattern.split(document.title, maxsplit=1)
    if not fitting:
        return False

    brand = {*tokens(str(document.fields.get("brand", "")), language)}
    own_tokens, fitting_tokens = {*tokens(own, language)}, {*tokens(fitting[0], language)}
    telling = [
        forms for forms in _query_words(query, language) if forms and forms.isdisjoint(brand)
    ]
    return bool(telling) and all(
        not have_any(own_tokens, forms, language) and have_any(fitting_tokens, forms, language)
        for forms in telling
    )


# Each query is compared with many products.
@lru_cache(maxsize=16)
def _query_words(query: str, language: Language) -> tuple[frozenset[str], ...]:
    """Return the tokens of each word of a query before a "for" of its own, if it has one.

    Behind it, the query names what the product is to go with, too.
    """
    own = _PATTERNS[language.name].split(query, maxsplit=1)[0]
    return tuple(frozenset(split(word, language)) for word in words(own))
