"""Answers about what a function does in the end: what it returns or raises, and when."""

from __future__ import annotations

import re
from collections.abc import Iterator

from purlin.index.records import Span
from purlin.training.data.templates.entries import Candidate, Entry
from purlin.training.data.templates.parameters import is_value
from purlin.training.data.templates.phrases import COORDINATED, MIN_WORDS, without_asides
from purlin.training.data.templates.rules import Rules

_CONDITIONAL = re.compile(
    r"(?:[Rr]eturn|(?:It |This function |This method )?[Rr]eturns|, returns|and returns?) "
    r"(?P<value>(?:an? )?[\w.'\"“”-]+(?: [a-z-]+){0,3}?) (?P<word>if|when|on|unless) (?P<condition>.+)"
)

_TAIL = re.compile(
    r",? (?:else|otherwise)\b.*|,? (?:and|or) (?:returns?|False|None|True|raises?|-?\d)\b.*"
    r"|, (?:or|and|but|False|None|True|NULL|non-?zero|zero|returns?|-?\d|(?:an? )?\w+ (?:if|on|when))\b.*"
)

_NAME = r"(?!(?:An|The|This|It|If|When|True|False|None)\b)(?:[A-Za-z_]\w*\.)*[A-Z]\w*[a-z]\w*"
_EXCEPTION = rf"(?P<exception>{_NAME})(?: exception| error)?"
_WHEN = r"(?P<word>[Ii]f|[Ww]hen|[Uu]nless)"
_RAISED = r"(?:is|will be) (?:raised|thrown)"

_RAISES = (
    re.compile(
        rf"(?P<before>.*?)\b(?:[Rr]aises?|[Tt]hrows?) (?:an? |the )?{_EXCEPTION} {_WHEN} (?P<condition>.+)"
    ),
    re.compile(rf"(?:An? |The )?{_EXCEPTION} {_RAISED} {_WHEN} (?P<condition>.+)"),
    re.compile(rf"{_WHEN} (?P<condition>[^,]+), (?:then )?(?:an? |the )?{_EXCEPTION} {_RAISED}$"),
    re.compile(
        rf"{_WHEN} (?P<condition>[^,]+), (?:then |it |this \w+ )?raises? (?:an? |the )?{_EXCEPTION}$"
    ),
    re.compile(rf"(?:- )?(?:Raises: )?{_EXCEPTION} [–-] {_WHEN} (?P<condition>.+)"),
)

_UNSURE = re.compile(r"\b(?:not|never|no longer|instead|other|than|rather|may|might|can)\b|n’t\b|,")

_CUT = re.compile(
    r",| \(| (?:if|when|unless|otherwise|so that|but|whose|where|which|because|since|in which)\b| — | - | – "
)

_CONDITIONS = frozenset([" if", " when", " unless"])
_EMPTY_CONDITIONS = ("it", "successful", "success")

_RETURNED = re.compile(
    r"(?:(?:It |This \w+ )?[Rr]eturns|Return) "
    r"(?!whether|if|when|to|from|without|immediately|value)"
)


def find_returns(entry: Entry) -> Iterator[Candidate]:
    """Ask for the value that the first sentence returns, and for values under a condition."""
    span = entry.description
    if span is None or not entry.noun or not entry.signature.rstrip().endswith((")", "]")):
        return

    answer = _returned(entry, span)
    if answer is not None:
        yield Candidate("return value", answer.start, answer.end, {})

    for sentence in entry.prose():
        match = _CONDITIONAL.search(entry.body, sentence.start, sentence.end)
        condition = _condition(entry, match) if match else ""
        if match and condition and _is_returned(match["value"], entry.rules):
            yield Candidate("conditional return", *match.span("value"), {"condition": condition})


def _is_returned(text: str, rules: Rules) -> bool:
    """Return whether it is a value such as `None` or "an empty list", not "a flag indicating"."""
    words = text.split()
    is_code = len(words) == 1 and (is_value(text) or text.startswith("non"))
    is_whole = words[0] in ("a", "an") or is_code

    is_cut_off = words[-1].endswith("ing") or words[-1] in rules.dangling
    return is_whole and not is_cut_off and not rules.is_vague.search(text)


def _returned(entry: Entry, sentence: Span) -> Span | None:
    """Find the value in a sentence such as "Returns the number of lines, or ..."."""
    start = _RETURNED.match(entry.body, sentence.start, sentence.end)
    if start is None:
        return None

    # What is returned under a condition is no answer to "What does it return?".
    cut = _CUT.search(entry.body, start.end(), sentence.end)
    if cut and cut[0] in _CONDITIONS:
        return None

    span = Span(start.end(), cut.start() if cut else sentence.end)
    answer = entry.body[span.start : span.end]
    has_fit_length = 1 <= len(answer.split()) <= entry.rules.max_answer_words
    has_verb = any(match[2] in entry.rules.thirds for match in COORDINATED.finditer(answer))
    is_sound = has_fit_length and without_asides(answer, entry.rules) and not has_verb
    return span if is_sound else None


def _condition(entry: Entry, match: re.Match[str]) -> str:
    """Return "if the file does not exist"; empty if it is vague or too long."""
    text = _TAIL.sub("", match["condition"], count=1)
    cleaned = without_asides(text, entry.rules)

    words = cleaned.split()
    has_fit_length = MIN_WORDS <= len(words) <= entry.rules.max_words
    if not has_fit_length or words[0] in _EMPTY_CONDITIONS:
        return ""
    return f"{match['word'].lower()} {cleaned}"


def find_exceptions(entry: Entry) -> Iterator[Candidate]:
    """Ask for exceptions by sentences such as "Raises KeyError if the key is not there"."""
    if not entry.noun:
        return

    for sentence in entry.prose():
        match = _raises(entry.body, sentence)
        condition = _condition(entry, match) if match else ""
        if match and condition:
            yield Candidate("exception", *match.span("exception"), {"condition": condition})


def _raises(body: str, sentence: Span) -> re.Match[str] | None:
    """Match the first pattern that fits, unless what comes before is a "may" or a "not"."""
    for pattern in _RAISES:
        match = pattern.match(body, sentence.start, sentence.end)
        if match and not _UNSURE.search(match.groupdict().get("before") or ""):
            return match
    return None
