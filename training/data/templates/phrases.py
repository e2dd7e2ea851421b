"""What descriptions say: their verb and what follows it, without what a question does not need."""

from __future__ import annotations

import re
from collections.abc import Mapping

from purlin.training.data.templates.entries import Entry
from purlin.training.data.templates.rules import Phrase, Rules

MIN_WORDS = 2  # after the verb
CLEAR_WORDS = 4  # a shorter description is unclear without its class or module
PHRASE_WORDS = 5  # of the longest phrase in `templates.toml`
_NOTE = re.compile(r"\s\([^()]*\)")

# Brackets that the sentence needs.
_NO_NOTE = re.compile(r"^\S+ \(|[*+/=<>%&|^-] \(|\b(?:an?|the|of|to|and|or) \(")

# Clauses that a question does not need.
_ASIDE = re.compile(
    r",? (?:or|and|else)? ?(?:\S+ )?(?:otherwise|else)\b.*$"
    r"|,? (?:or|and) (?:False|None|True|NULL|-?\d+) (?:if|when|on) .*$"
    r"|,? (?:and |which )?(?:it )?default(?:s|ing) to\b.*$"
    r"|,? (?:for example|for instance|e\.g|i\.e)\b.*$| [-–—] (?:\S+ ){2,}\S+$"
)

_CAPITAL_STAYS = re.compile(r"\S[^\sa-z’]|\S*[\d_.(]")


def verb_and_rest(entry: Entry, sentence: str) -> dict[str, str]:
    """Return the verb and the rest of a description.

    Empty for a description that begins otherwise, is too long, or reveals the term.
    """
    rules = entry.rules
    cleaned = without_asides(sentence, rules)
    opening = _opening(cleaned, rules) if cleaned else None
    if opening is None:
        return {}

    phrase, rest = opening
    if not MIN_WORDS <= len(rest.split()) <= rules.max_words or reveals(rest, entry.term):
        return {}
    values = {"third": phrase.third, "rest": rest}
    return values if phrase.plain == "-" or not entry.noun else values | {"plain": phrase.plain}


def without_asides(sentence: str, rules: Rules) -> str:
    """Drop notes in brackets and asides; empty for half a bracket or an unclear statement."""
    if _NO_NOTE.search(sentence):
        return ""
    text = _ASIDE.sub("", " ".join(_NOTE.sub("", sentence).split())).rstrip(" ,.")

    is_whole = all(
        text.count(opening) == text.count(closing) for opening, closing in ("()", "“”", "[]")
    )
    is_clear = not text.endswith("?") and text.rpartition(" ")[2] not in rules.dangling
    return text if is_whole and is_clear and not rules.is_vague.search(text) else ""


def _opening(text: str, rules: Rules) -> tuple[Phrase, str] | None:
    """Return the longest known beginning and the text after it."""
    text = rules.subject.sub("", text, count=1) if rules.subject.match(text) else text
    words = text.split()

    for count in range(min(PHRASE_WORDS, len(words) - 1), 0, -1):
        phrase = rules.openings.get(" ".join(words[:count]).lower())
        if phrase is not None:
            rest = words[count:]
            return (phrase, " ".join(rest)) if _fits_grammar(phrase, rest, rules) else None
    return None


def _fits_grammar(phrase: Phrase, rest: list[str], rules: Rules) -> bool:
    if phrase.noun:
        verb = next((word for word in rest if word in rules.finite or word in rules.relatives), "")
        return verb not in rules.finite
    return rest[0] not in rules.not_after


def reveals(rest: str, term: str) -> bool:
    """Return whether the rest has the term, unless that is an ordinary word such as `copy`."""
    name = term.rpartition(".")[2]
    if name.isalpha() and name.islower() and f"{name}(" not in rest:
        return False
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", rest) is not None


def lower_first(text: str, rules: Rules) -> str:
    """Lower the first letter of a sentence, except that of a name."""
    first = text.split(" ", 1)[0]
    keep = _CAPITAL_STAYS.match(first) is not None or re.split(r"\W", first)[0] in rules.proper
    return text if keep else text[:1].lower() + text[1:]


COORDINATED = re.compile(r"((?:, )?\b(?:and|or|then)|,) ([\w-]+)(?= ([\w’]+))")
_INFINITIVE = re.compile(r"\bto ([\w-]+)")


def inflected(rest: str, forms: Mapping[str, str], rules: Rules) -> str:
    """Inflect coordinated verbs: "the file and return a stream" to "the file and returns ...".

    What follows "to" stays as it is.
    """
    infinitives = (
        match.start() for match in _INFINITIVE.finditer(rest) if match[1] in rules.thirds
    )
    first_infinitive = next(infinitives, len(rest))

    def inflect(match: re.Match[str]) -> str:
        is_verb = match[2] not in rules.also_nouns or match[3] in rules.determiners
        if not is_verb or match.start() >= first_infinitive:
            return match[0]
        return f"{match[1]} {forms.get(match[2], match[2])}"

    return COORDINATED.sub(inflect, rest)
