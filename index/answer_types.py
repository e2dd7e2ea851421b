"""What kind of answer an English question expects, and where a passage has stretches of that kind.

A reader's probabilities say where an answer stands; the expected answer type says what it must look like: who asks
"since when" wants a version, whatever the passage is mostly about (expected answer types, Li and Roth 2002).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MATCH = 8.0  # added to the logarithm of the probability of a span of the expected type
ECHO = -8.0  # and to that of a span that the question names itself
MAX_CANDIDATES = 64
SIGNATURE_CHARS = 600

_NAME = r"[A-Za-z_]\w*"
_WHICH = r"\b(?:which|what|name of the|kind of)(?: \w+){0,3}? "
_NUMBER = r"(?<!version )(?<![\w.])(?:-?\d[\d_]*(?:\.\d+)?|\((?:-?\d+(?:, )?)+\))(?![\w.]*\w)"
_LITERAL = (
    rf"{_NUMBER}|'[^'\n]{{0,40}}'|\"[^\"\n]{{0,40}}\"|\b(?:None|True|False|NULL|null|true|false|[A-Z][A-Z_]{{3,}})\b"
)
_ENDINGS = "Error|Exception|Warning|Exit|Interrupt|Iteration|Empty|Full|Timeout|Expired|NotFound|DoesNotExist|Failure"
_EXCEPTION = rf"\b(?:{_NAME}\.)*(?:\w*(?:{_ENDINGS})|error|timeout)\b"
_PARAMETER = rf"(?<=[(,\[* ]){_NAME}(?=\s*[=,):\[\]])|--[\w-]+"
_MODULE = rf"(?m)^{_NAME}(?=\.)|\b{_NAME}(?= (?:module|—))"


@dataclass(frozen=True, slots=True)
class AnswerType:
    """`asked` is found in questions that name the type, `hinted` in those that imply it where none is named; `found`
    in passages, only in their signatures if `signature`.
    """

    name: str
    asked: re.Pattern[str]
    hinted: re.Pattern[str]
    found: re.Pattern[str]
    signature: bool = False


def _type(name: str, asked: str, hinted: str, found: str, *, signature: bool = False) -> AnswerType:
    patterns = (re.compile(asked, re.IGNORECASE), re.compile(hinted or "(?!)", re.IGNORECASE), re.compile(found))
    return AnswerType(name, *patterns, signature)


TYPES = (
    _type(
        "exception",
        _WHICH + r"(?:exceptions?|errors?)\b",
        r"\b(?:exception|error|raises?|raised|throws?|thrown|goes wrong"
        r"|must i catch)\b",
        _EXCEPTION,
    ),
    _type(
        "parameter",
        _WHICH + r"(?:arguments?|parameters?|keywords?|option)\b",
        r"\b(?:argument|parameter|keyword|kwarg)\b"
        r"|\bwhat (?:do|must|should) i (?:pass|switch on)\b",
        _PARAMETER,
        signature=True,
    ),
    _type("module", _WHICH + r"module\b", r"\bmodule (?:for|called)\b|\bmodule\W*$", _MODULE),
    _type(
        "version",
        _WHICH + r"(?:versions?|release|python|django)\b|\bsince when\b",
        r"\bsince (?:which|what)\b"
        r"|\b(?:new|added|introduced|available|deprecated) (?:in|since)\b|\bfirst (?:version|release|python)\b"
        r"|\b(?:version|release)\W*$|\bwhen (?:did|was)\b.*\b(?:appear|added|introduced|deprecated)\b",
        r"\b\d{1,2}(?:\.\d{1,2}){1,2}\b",
    ),
    _type(
        "number",
        r"\bhow (?:many|long|large|big|much|often|deep|wide)\b|" + _WHICH + r"(?:number|port|size|length|level)\b",
        r"\bmax\w* \w+ (?:length|size)\b|\b(?:level|size|length|number) of\b",
        _NUMBER,
    ),
    _type(
        "value",
        _WHICH + r"default\b",
        r"\bdefaults?\b|\bunless\b|\bwhen (?:none|it) is (?:given|not set|omitted)\b"
        r"|\bif i (?:don't|do not|only|leave|omit|say nothing)\b|\bwithout arguments\b|\binitial value\b",
        _LITERAL,
    ),
)


def expected(question: str) -> AnswerType | None:
    """The type that the question names, or else the first that its wording implies, if any."""
    named = [(match.end(), kind) for kind in TYPES if (match := kind.asked.search(question))]
    if named:
        return min(named, key=lambda each: each[0])[1]
    return next((kind for kind in TYPES if kind.hinted.search(question)), None)


def candidates(kind: AnswerType, text: str) -> Iterator[tuple[int, int]]:
    """Stretches (start, end) of a passage that are of this kind, at most MAX_CANDIDATES."""
    end = len(text)
    if kind.signature:
        end = min(SIGNATURE_CHARS, text.find("\n\n") if "\n\n" in text else len(text))
    for number, match in enumerate(kind.found.finditer(text, 0, end)):
        if number == MAX_CANDIDATES:
            return
        yield match.span()


def echoes(question: str, answer: str) -> bool:
    """Whether the question names the answer itself, or its last part: `mkdir` of "Path.mkdir(mode)"."""
    names = re.findall(r"[\w-]+", answer.partition("(")[0])
    last = names[-1].lower() if names else ""
    return len(last) > 1 and re.search(rf"(?<!\w){re.escape(last)}(?!\w)", question.lower()) is not None
