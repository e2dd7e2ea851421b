"""Why a hit was found, in a few words: which words of the query it has, and what counts most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from purlin.index.records import Hit
from purlin.index.search.lexical.languages import ENGLISH, LANGUAGES, Language
from purlin.index.search.lexical.tokens import (
    LETTERS,
    UNSPACED_RUN,
    compiled,
    have_any,
    pieces,
    tokens,
)
from purlin.index.search.ranking.defaults import setting_in
from purlin.index.search.ranking.kinds import kind_in
from purlin.index.search.ranking.options import asks_for_options
from purlin.index.search.ranking.uses import relation_in

_WORD = rf"{LETTERS}(?:[-_.:/]+{LETTERS})*|{UNSPACED_RUN}"
_ASCII_WORD = r"[A-Za-z0-9]+(?:[-_.:/]+[A-Za-z0-9]+)*"
# Words that are listed for each part of a hit.
_LISTED = 4
# The parts of a score in words.
_PARTS = {
    "path": "its path",
    "name": "its name",
    "file": "its file",
    "definition": "its name",
    "quote": "what you quoted",
}


def relevant(hits: Sequence[Hit]) -> list[Hit]:
    """Leave out the hits whose score is shown as 0.00: they have nothing to do with the query."""
    return [hit for hit in hits if round(hit.score, 2) > 0 or _matching_lines(hit)]


def why(query: str, hit: Hit) -> str:
    """Tell in one line why `hit`, which must have its explanation, was found for `query`.

    For example "name: session, cookie; text: signed; meaning 0.62; mostly words".
    """
    explanation = hit.explanation or {}
    if explanation.get("named"):
        return "it is what you named"

    if (relation := relation_in(query)) and _is_related(relation.name, hit):
        return f"{relation.verb} {relation.name}"

    query = as_searched(query, hit)
    reasons = [f"{part}: {', '.join(words[:_LISTED])}" for part, words in _words(query, hit)]
    if count := _matching_lines(hit):
        reasons.insert(0, f"{count} lines match" if count > 1 else "1 line matches")
    largest = _largest(hit.scores, explanation)
    is_compared = len(hit.scores) > 1 and (reasons or largest != "meaning")
    if (cosine := hit.scores.get("dense")) is not None:
        reasons.append(f"meaning {cosine:.2f}")
    if largest == _PARTS["quote"]:
        largest = _answered(query) or largest
    if explanation.get("accessory"):
        reasons.append("goes with what you named")
    return "; ".join([*reasons, f"mostly {largest}"] if is_compared else reasons)


def _answered(query: str) -> str | None:
    """Return what code answers a query that asks for it without its words; None for another query."""
    if asks_for_options(query):
        return "the options that it declares"
    if kind_in(query):
        return "what others of the kind share"
    return "the default that it sets" if setting_in(query) else None


def _matching_lines(hit: Hit) -> int:
    """Return how many lines of a hit match the regular expression of the search; 0 without one."""
    return int((hit.explanation or {}).get("matching_lines", 0))


def as_searched(query: str, hit: Hit) -> str:
    """Return the query in the spelling that found a hit, which must have its explanation."""
    return str((hit.explanation or {}).get("corrected", query))


def _is_related(name: str, hit: Hit) -> bool:
    """Return whether a hit was found because it uses or tests a name, or inherits from it."""
    parts = (hit.explanation or {}).get("parts", {})
    return parts.get("definition", 0.0) > 0 and hit.title.rpartition(".")[2] != name


def _words(query: str, hit: Hit) -> list[tuple[str, list[str]]]:
    """Return the query's words, each under the first part of the hit that has it."""
    language = LANGUAGES[(hit.explanation or {}).get("language", ENGLISH.name)]
    tokens_of = {
        "name": frozenset(tokens(hit.title, language)),
        "path": frozenset(tokens(hit.location.path or "", language)),
        "text": frozenset(tokens(hit.text, language)),
    }

    # By lower case, so that none is listed twice.
    words: dict[str, dict[str, str]] = {part: {} for part in tokens_of}
    pattern = compiled(_ASCII_WORD if query.isascii() else _WORD)

    for word in dict.fromkeys(pattern.findall(query)):
        own = frozenset(tokens(word, language))
        for part, part_tokens in tokens_of.items():
            if have_any(part_tokens, own, language):
                for each in _matching(word, part_tokens, language):
                    words[part].setdefault(each.lower(), each)
                break

    return [(part, list(listed.values())) for part, listed in words.items() if listed]


def _matching(word: str, part_tokens: frozenset[str], language: Language) -> list[str]:
    """Return a word of the query if the part has it as a whole, else those of its pieces that match."""
    whole, *others = tokens(word, language)
    if part_tokens.issuperset(others or [whole]):
        return [word]
    matching = [
        piece for piece in pieces(word) if not part_tokens.isdisjoint(tokens(piece, language))
    ]
    return matching or [word]


def _largest(scores: Mapping[str, float], explanation: Mapping[str, Any]) -> str:
    """Return what adds most to the score: words, meaning, or a part of the ranking model."""
    weight = float(explanation.get("dense_weight", 1.0))
    feedback_weight = float(explanation.get("feedback_weight", 0.0))
    shares: dict[str, float] = {
        "meaning": weight * (1 - feedback_weight) * max(scores.get("dense", 0.0), 0.0),
        "the other hits": weight * feedback_weight * max(scores.get("feedback", 0.0), 0.0),
        "words": (1 - weight) * scores.get("lexical", 0.0) ** explanation.get("lexical_power", 1.0),
        "earlier queries": scores.get("log", 0.0),
    }

    parts: dict[str, float] = dict(explanation.get("parts", {}))
    if total := sum(shares.values()):
        # The model weighs the text as a whole.
        text = parts.pop("text", total)
        shares = {name: share * text / total for name, share in shares.items()}

    for part, value in parts.items():
        name = _PARTS.get(part, part)
        shares[name] = shares.get(name, 0.0) + value

    return max(shares, key=lambda name: shares[name])
