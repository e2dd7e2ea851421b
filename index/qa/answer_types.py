"""What kind of answer an English question expects, and where a passage has stretches of that kind.

A reader's probabilities say where an answer stands; the expected answer type says what it must look like: who asks
"since when" wants a version, whatever the passage is mostly about (expected answer types, Li and Roth 2002). In a
reference an answer is often the name of an entry, of one kind or another: `entries` says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

MAX_CANDIDATES = 64
MAX_CHARS = 20_000  # of a passage that are looked at

_NAME = r"[A-Za-z_]\w*"
_WHICH = r"\b(?:which|what|name of the|kind of)(?: [\w.'-]+){0,3}? "
_NUMBER = r"(?<!version )(?<![\w.])(?:-?\d[\d_]*(?:\.\d+)?|\((?:-?\d+(?:, )?)+\))(?![\w.]*\w)"
_QUOTED = r"'[^'\n]{0,40}'|\"[^\"\n]{0,40}\""
_LITERAL = rf"{_NUMBER}|{_QUOTED}|\b(?:None|True|False|NULL|null|true|false|[A-Z][A-Z_]{{3,}})\b"
_ENDINGS = "Error|Exception|Warning|Exit|Interrupt|Iteration|Empty|Full|Timeout|Expired|NotFound|DoesNotExist|Failure"
_EXCEPTION = rf"\b(?:{_NAME}\.)*(?:\w*(?:{_ENDINGS})|error|timeout)\b"
_CONSTANT = r"\b(?:[A-Za-z_]\w*\.)*[A-Z][A-Z0-9_]{2,}\b"
_OPTION = r"(?<![\w-])-{1,2}[A-Za-z][\w-]*"
_CLASS = (
    r"(?i:\breturns?|\bas|\bis) (?:an? |the )?"
    r"(?P<name>(?:\w+\.)*[A-Z]\w+|\d-tuples?|tuple|list|dict\w*|str\w*|int\w*|float|bytes|set)\b"
)
_FUNCTION = r"(?m)^(?P<name>(?:\w+\.)*[A-Za-z_]\w*) ?(?=\()"
_PLAIN, _HYPHENED = re.compile(r"\w+"), re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class AnswerType:
    """`asked` is found in questions that name the type, `hinted` in those that imply it where none is named; `found`
    in passages, where the answer is its group `name` or all of it. `entries` are the directives of the entries whose
    own name is such an answer. `said` is often found in the sentence that tells it.
    """

    name: str
    asked: re.Pattern[str]
    hinted: re.Pattern[str]
    found: re.Pattern[str]
    entries: frozenset[str]
    said: re.Pattern[str]


def _type(
    name: str, asked: str, hinted: str, found: str, entries: str = "", said: str = ""
) -> AnswerType:
    asked_for, implied, told = (
        re.compile(one or "(?!)", re.IGNORECASE) for one in (asked, hinted, said)
    )
    return AnswerType(
        name, asked_for, implied, re.compile(found or "(?!)"), frozenset(entries.split()), told
    )


TYPES = (
    _type(
        "exception",
        _WHICH + r"(?:exceptions?|errors?)\b",
        r"\b(?:exception|error|raises?|raised|throws?|thrown|goes wrong|must i catch)\b(?! away\b)",
        _EXCEPTION,
        "exception",
        r"\brais|\bthrow",
    ),
    _type(
        "parameter",
        _WHICH + r"(?:arguments?|parameters?|keyword)\b",
        r"\b(?:argument|parameter|keyword|kwarg)(?:\W*$| (?:of|that|to|for)\b)"
        r"|\bwhat (?:do|must|should) i (?:pass|switch on)\b(?! as\b)",
        "",
    ),
    _type(
        "module",
        _WHICH + r"(?:module|package)\b",
        r"\bmodule (?:for|called)\b|\bmodule\W*$|^module\b",
        "",
    ),
    _type(
        "version",
        _WHICH
        + r"(?:versions?|release)\b|\b(?:which|what|first|minimum) (?:python|django)\b(?! \d)|\bsince when\b",
        r"\bsince (?:which|what)\b"
        r"|\b(?:new|added|introduced|available|deprecated) (?:in|since)\b|\bfirst (?:version|release|python)\b"
        r"|\b(?:version|release)\W*$|\bwhen (?:did|was)\b.*\b(?:appear|added|introduced|deprecated)\b",
        r"\b\d{1,2}(?:\.\d{1,2}){1,2}\b",
    ),
    _type(
        "type",
        r"\b(?:what|which) (?:type|class)\b(?! (?:variable|attribute))|\bas what\b|\bwhat (?:type|kind|class) of\b",
        "",
        _CLASS,
        "class",
    ),
    _type(
        "attribute",
        _WHICH + r"(?:attribute|property|member|field|list|class variable|instance variable)\b",
        r"\b(?:attribute|property|class variable|instance variable)\b",
        "",
        "attribute data member property",
    ),
    _type(
        "option",
        _WHICH + r"(?:option|switch)\b",
        r"\b(?:command[- ]line )?(?:option|switch)\b",
        _OPTION,
        "option cmdoption",
    ),
    _type(
        "variable",
        _WHICH + r"environment variable\b",
        r"\benvironment variable\b",
        _CONSTANT,
        "envvar var",
    ),
    _type(
        "constant",
        _WHICH + r"(?:constant|flag|setting|mode|severity|level)\b",
        r"\b(?:constant|flag|setting)\b|\bwhat (?:do|must|should) i (?:pass|set)\b",
        _CONSTANT,
        "data attribute member var macro term",
    ),
    _type(
        "function",
        _WHICH
        + r"(?:functions?|methods?|routines?|helpers?|commands?|aggregate)\b|\b(?:function|method|routine)\W*$",
        r"\b(?:function|method|routine)\b|\b(?:do|should|must|can) i (?:call|run|use)\b|\bwhat (?:gives|turns|makes)\b",
        _FUNCTION,
        "function method class staticmethod classmethod macro",
    ),
    _type(
        "number",
        r"\bhow (?:many|long|large|big|much|often|deep|wide|full)\b|"
        + _WHICH
        + r"(?:number|port|size|length|level)\b",
        r"\bmax\w* \w+ (?:length|size)\b|\b(?:level|size|length|number) of\b",
        _NUMBER,
    ),
    _type(
        "value",
        _WHICH + r"default\b",
        r"\bdefaults?\b|\bunless\b|\bwhen (?:none|it) is (?:given|not set|omitted)\b"
        r"|\bif i (?:don't|do not|only|leave|omit|say nothing|pass no|name no|choose no)\b|\binitial value\b"
        r"|\bwith nothing but\b|\bempty parentheses\b|\bwithout (?:an |any )?arguments?\b|\bstock value\b",
        _LITERAL,
        said=r"\bdefault|\bomitted\b",
    ),
    _type(
        "result",
        "",
        r"\b(?:returns?|returned|evaluates to|receive|result)\b|\bdo i get\W*$|\bdoes \S+ give\b|\w\(\)|\bwhat value\b",
        _LITERAL,
        said=r"\breturn",
    ),
)
NAME = _type(
    "name",
    "",
    "",
    "",
    "function method class attribute data member property exception option envvar var macro term",
)
VALUE = next(kind for kind in TYPES if kind.name == "value")
_OF_VALUES = (
    "function",
    "option",
    "constant",
    "name",
)  # whose name may be a value: "the default mode"


def expected(question: str) -> AnswerType:
    """The type that the question names, or else the first that its wording implies, or else NAME: that of an entry."""
    named = [
        (kind.name == "number", match.end(), kind)
        for kind in TYPES
        if (match := kind.asked.search(question))
    ]
    hinted = (kind for kind in TYPES if kind.hinted.search(question))
    found = min(named, key=lambda each: each[:2])[2] if named else next(hinted, NAME)
    return VALUE if found.name in _OF_VALUES and VALUE.hinted.search(question) else found


def candidates(kind: AnswerType, text: str) -> Iterator[tuple[int, int]]:
    """Stretches (start, end) of a passage that are of this kind by their look, at most MAX_CANDIDATES."""
    for number, match in enumerate(kind.found.finditer(text, 0, MAX_CHARS)):
        if number == MAX_CANDIDATES:
            return
        yield match.span("name" if "name" in kind.found.groupindex else 0)


def echoes(question: str, answer: str) -> bool:
    """Whether the question names the answer itself, or its last part: `mkdir` of "Path.mkdir(mode)"."""
    names = _HYPHENED.findall(answer.partition("(")[0])
    last = names[-1].lower() if names else ""
    return len(last) > 1 and last in _names_in(question)


@lru_cache(maxsize=256)
def _names_in(question: str) -> frozenset[str]:
    lower = question.lower()
    return frozenset((*_PLAIN.findall(lower), *_HYPHENED.findall(lower)))
