"""Why a hit was found, in a few words: which words of the query it has, and which retriever counts."""

from __future__ import annotations

import re

from purlin.index.records import Hit
from purlin.index.search.lexical import tokens

_WORD = re.compile(r"[^\W_]+(?:[-_.:/]+[^\W_]+)*")
# Words of one place that are listed.
_LISTED = 4


def why(query: str, hit: Hit) -> str:
    """Tell in one line why `hit`, which must have its explanation, answers `query`.

    Such as "name: session, cookie; text: signed; meaning 0.62".
    """
    explanation = hit.explanation or {}
    if explanation.get("named"):
        return "it is what you named"

    parts = [f"{place}: {', '.join(words[:_LISTED])}" for place, words in _words(query, hit)]
    if (cosine := hit.scores.get("dense")) is not None:
        parts.append(f"meaning {cosine:.2f}")
    return "; ".join(parts)


def _words(query: str, hit: Hit) -> list[tuple[str, list[str]]]:
    """The query's words by the first place that has them."""
    places = {
        "name": frozenset(tokens(hit.title)),
        "path": frozenset(tokens(hit.location.path or "")),
        "text": frozenset(tokens(hit.text)),
    }
    words: dict[str, list[str]] = {place: [] for place in places}
    for word in dict.fromkeys(_WORD.findall(query)):
        own = frozenset(tokens(word))
        for place, known in places.items():
            if not own.isdisjoint(known):
                words[place].append(word)
                break
    return [(place, listed) for place, listed in words.items() if listed]
