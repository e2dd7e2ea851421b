"""Tell what type of answer a question expects, and find spans of that type in a passage.

The reader's probabilities say where an answer may be; the expected type says what it must look
like: "since when" asks for a version, whatever the passage is about (expected answer types, Li and
Roth 2002). In a reference, many answers are names of entries, so a type also lists the directives
of the entries that such an answer may name.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from purlin.index.qa.reference_words import DEFAULT_WORDS, RETURN_WORDS

MAX_CANDIDATES = 64
MAX_CANDIDATE_CHARS = 20_000  # the rest of a passage is not searched

_NAME = r"[A-Za-z_]\w*"
# What stands before a name. Bounded, because the time would grow with the square of the text's length.
_QUALIFIER = rf"(?:{_NAME}\.){{0,8}}"
_WHICH = r"\b(?:which|what|name of the|kind of)(?: [\w.'+#-]+){0,3}? "
# A question for all values that something may have, not for those that a call returns.
_VALUES = (
    r"\b(?:which|what)(?: [\w.-]+){0,2} values\b(?!.*\breturn)"
    r"|\b(?:accepted|allowed|legal|permitted|possible|supported|valid) (?:choices|options|values)\b"
)
_NUMBER = r"(?<!version )(?<![\w.])(?:-?\d[\d_]*(?:\.\d+)?|\((?:-?\d+(?:, )?)+\))(?![\w.]*\w)"
_QUOTED = r"'[^'\n]{0,40}'|\"[^\"\n]{0,40}\"|‘[^’\n]{0,40}’|“[^”\n]{0,40}”"
_LITERAL = rf"{_NUMBER}|{_QUOTED}|\b(?:None|True|False|NULL|null|true|false|[A-Z][A-Z_]{{3,}})\b"
_ENDINGS = (
    "Error|Exception|Warning|Exit|Interrupt|Iteration|Empty|Full|Timeout|Expired|NotFound"
    "|DoesNotExist|Failure"
)
# Of the system: ENOENT, ESRCH; two may have one number, as EAGAIN and EWOULDBLOCK.
ERRNO_NAMES = "|".join(name for name in dir(errno) if name.startswith("E"))
# By its ending, by what names it, or as a constant: `ERR_INVALID_URL`, `G_FILE_ERROR_EXIST`, `ENOENT`.
_EXCEPTION = (
    rf"\b{_QUALIFIER}(?:\w*(?:{_ENDINGS})|error|timeout)\b"
    rf"|(?:(?<=[Rr]aises )|(?<=[Tt]hrows )|(?<=thrown: )|(?<=Throws: )){_QUALIFIER}[A-Z]\w+"
    r"|\b(?:[A-Z\d]{1,40}_){0,8}[A-Z]{0,20}ERR(?:OR)?(?:_[A-Z\d]{1,40}){0,8}\b"
    rf"|\b(?:{ERRNO_NAMES})\b"
)
_CONSTANT = rf"\b{_QUALIFIER}[A-Z][A-Z0-9_]{{2,}}\b"
_OPTION = r"(?<![\w-])-{1,2}[A-Za-z][\w-]*"
_CLASS = (
    r"(?i:\breturns?|\bas|\bis) (?:an? |the )?"
    r"(?P<name>(?:\w+\.){0,8}[A-Z]\w+|\d-tuples?|tuple|list|dict\w*|str\w*|int\w*|float|bytes|set)\b"
)
_UNIT = (
    r"(?:(?:nano|micro|milli)?seconds?|minutes?|hours?|days?|weeks?|(?:kilo|mega|giga)?(?:bytes?|bits?)"
    r"|[kKMGT]i?B|pixels?|characters?|lines?|pages?|blocks?|degrees?|radians?|percent|ticks?)"
)
_BOUND = r"[-+]?\d[\d.]{0,20}"
_INTERVAL = re.compile(
    rf"[\[(]{_BOUND}(?:, | - ){_BOUND}[\])]|(?<![\w.-]){_BOUND} (?:to|through|and|-|–) {_BOUND}(?<!\.)"
)
_NUMBER_WORD = r"\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen)\b"
_DURATION = r"(?<![\w.])(?:\d{1,20}(?:\.\d{1,20})?(?:[nuµm]?s|min|[mhd])){1,4}(?!\w)"
_QUANTITY = re.compile(
    rf"(?:(?<![\w.])-?\d[\d,_]{{0,20}}(?:\.\d{{1,20}})?|\bone\b|{_NUMBER_WORD})[ -]?{_UNIT}\b|{_DURATION}"
)
# A number, with its unit if it has one.
QUANTITY = rf"-?\d(?:[\d,.]{{0,20}}\d)?(?!\w)(?: {_UNIT}\b)?"
_FUNCTION = r"(?m)^(?P<name>(?:\w+\.){0,8}[A-Za-z_]\w*) ?(?=\()"


@dataclass(frozen=True, slots=True)
class AnswerType:
    """A type of answer: which questions expect it, and what it looks like in a passage.

    `named` matches questions that name the type, `implied` those whose wording implies it. `look`
    matches answers, by its group `name` if it has one. The name of an entry is such an answer if
    `directives` has the entry's directive. `sentence` matches words of sentences that give one.
    """

    name: str
    named: re.Pattern[str]
    implied: re.Pattern[str]
    look: re.Pattern[str]
    directives: frozenset[str]
    sentence: re.Pattern[str]


_NEVER = "(?!)"


def _type(
    name: str, named: str, implied: str, look: str, directives: str = "", sentence: str = ""
) -> AnswerType:
    return AnswerType(
        name,
        re.compile(named or _NEVER, re.IGNORECASE),
        re.compile(implied or _NEVER, re.IGNORECASE),
        re.compile(look or _NEVER),
        frozenset(directives.split()),
        re.compile(sentence or _NEVER, re.IGNORECASE),
    )


# In the order of precedence among implied types.
ANSWER_TYPES = (
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
        "parameter",
    ),
    _type(
        "module",
        _WHICH + r"(?:module|package|header file)\b",
        r"\bmodule (?:for|called)\b|\bmodule\W*$|^module\b"
        r"|\bheaders? (?:file\b|(?:do|must|should) i (?:need|include)\b|to include\b|(?:of|for) \w+::)",
        r"(?<=#include )<[\w./+-]+>|(?<=header )<[\w./+-]+>",
    ),
    _type(
        "version",
        _WHICH
        + r"(?:versions?|release)\b|\b(?:which|what|first|minimum) (?:python|django)\b(?! \d)"
        r"|\bsince when\b",
        r"\bsince (?:which|what)\b"
        r"|\b(?:new|added|introduced|available|deprecated) (?:in|since)\b"
        r"|\bfirst (?:version|release|python)\b"
        r"|\b(?:version|release)\W*$|\b(?:added|introduced|deprecated) when\b|\bsince\W*$"
        r"|\bwhen (?:did|was)\b.*\b(?:appear|added|introduced|deprecated)\b",
        r"(?:\b|(?<=\bv))\d{1,2}(?:\.\d{1,2}){1,3}\b|\bC(?:\+\+)?\d\d\b",
    ),
    _type(
        "type",
        r"\b(?:what|which) (?:type|class)\b(?! (?:variable|attribute))|\bas what\b"
        r"|\bwhat (?:type|kind|class) of\b|\breturn type\b|\bthe (?:data )?type of\b",
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
        "data attribute member var macro term option",
    ),
    _type(
        "function",
        _WHICH + r"(?:functions?|methods?|routines?|helpers?|commands?|aggregate)\b"
        r"|\b(?:function|method|routine)\W*$",
        r"\b(?:function|method|routine)\b|\b(?:do|should|must|can) i (?:call|run|use)\b"
        r"|\bwhat (?:gives|turns|makes)\b",
        _FUNCTION,
        "function method class staticmethod classmethod macro",
    ),
    _type(
        "unit",
        r"\b(?:which|what) units?\b(?! tests?\b)",
        r"\bunits?\W*$|\bunits? (?:of|for)\b|\b(?:measured|counted|expressed) in\b",
        rf"\b{_UNIT}(?:(?:, | and | or ){_UNIT})*\b",
        sentence=r"\bunits?\b|\btaken as\b|\bmeasured\b|\bin (?:\w+)?(?:seconds|bytes)\b",
    ),
    _type(
        "value",
        rf"{_WHICH}default\b|{_VALUES}",
        r"\bdefaults?\b|\bunless\b|\bwhen (?:none|it) is (?:given|not set|omitted)\b"
        r"|\bif i (?:don't|do not|only|leave|omit|say nothing|pass no|name no|choose no)\b"
        r"|\binitial value\b|\bleft out\b|\bout of the box\b|\bstock settings?\b|\bbefore i set\b"
        r"|\b(?:if|when) (?:unset|omitted|not (?:set|given|specified))\b|\bsays? nothing\b|\bis silent\b"
        r"|\bwith nothing but\b|\bempty parentheses\b|\bwithout (?:an |any )?arguments?\b"
        r"|\bstock value\b",
        _LITERAL,
        sentence=rf"\bdefault|\bomitted\b|{DEFAULT_WORDS}",
    ),
    _type(
        "number",
        r"\bhow (?:many|long|large|big|much|often|deep|wide|full)\b|"
        + _WHICH
        + r"(?:number|port|size|length|level|complexity|range)\b",
        r"\bmax\w* \w+ (?:length|size)\b|\b(?:level|size|length|number|complexity|range) of\b",
        rf"{_NUMBER}|{_NUMBER_WORD}|\bO\([^()\n]{{1,30}}(?:\([^()\n]{{1,20}}\))?[^()\n]{{0,10}}\)",
    ),
    _type(
        "result",
        "",
        r"\b(?:returns?|returned|evaluates to|receive|result)\b|\bwhat do i get\b|\bdo i get\W*$"
        r"|\bdoes \S+ (?:give|hand|tell|yield|report)\b|\b(?:gives?|hands?|yields?) (?:me|you|back)\b"
        r"|\bcomes? (?:back|out)\b|\w\(\)|\bwhat value\b",
        _LITERAL,
        sentence=rf"\breturn|{RETURN_WORDS}",
    ),
)
NAME_TYPE = _type(
    "name",
    "",
    "",
    "",
    "function method class attribute data member property exception option envvar var macro term",
)
SENTENCE_TYPE = _type(
    "sentence", "", "", "", "function method class attribute data member property"
)

# Where a question begins, after what leads up to it: "it is empty, why", "a list: what if ..."
_START = r"(?:^|[.,;:!?]\s+|\b(?:so|and|but) )"

# Questions that want a statement, by what it must say, in the order of precedence.
_STATEMENTS = {
    "condition": re.compile(
        r"\bwhat happens\b|\bwhat (?:would|will|could|can) happen\b|\bwhat becomes of\b"
        rf"|{_START}what if\b"
        r"|^(?:do|does|can|will|must|may|is|are) (?!i\b|there\b).*\b(?:if|when|while|after|before)\b"
        rf"|{_START}what (?:does .* do|is called) (?:with|when|if)\b",
        re.IGNORECASE,
    ),
    "reason": re.compile(
        rf"{_START}why\b|\bwhy\W*$|\bhow come\b|^what is the (?:reason|point)\b"
        r"|^is it (?:worth|safe|bad)\b",
        re.IGNORECASE,
    ),
    "advice": re.compile(
        r"^(?:so |and )?how (?:do|to|can|could|should|would|might|does one)\b",
        re.IGNORECASE,
    ),
    "occasion": re.compile(
        rf"{_START}when (?:do|does|should|would|is|are|must|can|will)\b|\bwhen to\b"
        r"|\bin (?:which|what) (?:case|situation)s?\b|^should (?:i|we|one) (?:use|take|prefer)\b",
        re.IGNORECASE,
    ),
    "purpose": re.compile(
        rf"{_START}what (?:exactly )?(?:does|do|did) .*"
        r"\b(?:do|mean|control|check|affect|change|stand for)\b"
        r"|\bwhat (?:does|do) (?:it|that|this|they) (?:do|mean)\b"
        r"|^what(?: is| are|'s) (?:the )?\S+(?: \S+){0,3} (?:for|about|used for|good for)\b"
        r"|^what(?: is|'s) (?:an?|the (?:purpose|difference|meaning|use|effect|idea))\b"
        r"|^what are |^what(?: is|'s) [\w.]+\W*$|^what(?: is|'s) in (?:the )?\S+(?: module)?\W*$"
        # A name by its look: "what is __dict__ of an object", "what is ContentHandler in xml.sax"
        r"|^what(?: is|'s) (?:the )?[\w.]{0,80}(?:[._]|(?-i:[a-z][A-Z]))[\w.]{0,80}(?: \S+){0,4}\W*$"
        r"|\bwhat(?: is|'s| are) (?:it|that|this|they)(?: for)?\W*$"
        r"|\bwhat for\W*$|\b(?:meaning|effect|purpose)\W*$|^what changes\b"
        r"|^what(?: is|'s) the \S+ (?:argument|parameter|option|flag|keyword) (?:of|in|to|for)\b"
        r"|^what (?:is|are|was) .* for\W*$|^(?:explain|describe|difference between)\b"
        # Names alone: "safe parameter of urllib.parse.quote", "any_order in AsyncMock.assert_awaits"
        r"|^(?!which|what)[\w.]+(?: [\w.]+){0,2} (?:parameter|argument|option|flag|attribute|keyword)\W*$"
        r"|^\w+ (?:parameter|argument|keyword|option|attribute) (?:of|in|for) [\w.]+\W*$"
        r"|^\w+ (?:in|of) \w+\.[\w.]+\W*$",
        re.IGNORECASE,
    ),
    # Yes or no: "does str.split keep empty strings" ("do a merge" is no question), and how it works.
    "fact": re.compile(
        r"^(?:so |and )?(?:does|did|is|are|was|were|can|could|may|must|will|would|should|has"
        r"|do (?:i|we|you|they|\w+s)|how (?:does|did|will)) (?!there\b|.*\b(?:what|which|when|name)\b)",
        re.IGNORECASE,
    ),
}
STATEMENT_KINDS = tuple(_STATEMENTS)
_WHAT_HAPPENS = re.compile(r"\bwhat (?:happens|becomes of)\b", re.IGNORECASE)
# Words of questions that want a value, though they are worded like one for a purpose: "what does it
# return".
_ASKS_VALUE = re.compile(
    r"\bdefaults?\b|\breturn(?:s|ed)?\b|\braised?s?\b|\bversion\b|\bm(?:ax|in)imum\b"
    r"|\bunits?\b|\bcomplexity\b|\bmeasured in\b|^(?:type|result|value|number|step|name)\b"
    rf"|{_VALUES}",
    re.IGNORECASE,
)
_ASKS_NAME = re.compile(r"\bwhat (?:do i|does it|is the name)\b", re.IGNORECASE)
# Yes-or-no questions of these types have a value for an answer: "is it on by default?".
_VALUES_OF_FACTS = ("value", "number", "unit", "version", "variable")
TYPES_BY_NAME = {answer_type.name: answer_type for answer_type in (*ANSWER_TYPES, NAME_TYPE)}
VALUE_TYPE, EXCEPTION_TYPE = TYPES_BY_NAME["value"], TYPES_BY_NAME["exception"]

# A question for a default may name one of these types and still want a value: "the default mode".
_MAY_MEAN_VALUE = ("function", "option", "constant", "name")


def statement_kind(question: str) -> str:
    """Return what a question wants stated, one of STATEMENT_KINDS; "" if it wants a value."""
    question = question.strip()
    kinds = (kind for kind, wording in _STATEMENTS.items() if wording.search(question))
    kind = next(kinds, "")

    if kind == "purpose":
        return "" if _ASKS_VALUE.search(question) else kind
    if kind == "condition" and _WHAT_HAPPENS.search(question):
        # "What happens when a function is ...": no function is asked for.
        return "" if EXCEPTION_TYPE.named.search(question) else kind
    if kind == "fact" and _implied_type(question).name in _VALUES_OF_FACTS:
        return ""
    is_for_value = _named_type(question) is not None or _ASKS_NAME.search(question)
    return "" if is_for_value else kind


def asks_for_values(question: str) -> bool:
    """Return whether a question asks for all the values that something may have."""
    return re.search(_VALUES, question, re.IGNORECASE) is not None


def expected_type(question: str) -> AnswerType:
    """Return the type of answer that the wording of a question asks for.

    That is SENTENCE_TYPE if it wants a statement. Otherwise it is the type that the question names,
    else the first that it implies, else NAME_TYPE.
    """
    if statement_kind(question):
        return SENTENCE_TYPE
    answer_type = _named_type(question) or _implied_type(question)

    if answer_type.name in _MAY_MEAN_VALUE and VALUE_TYPE.implied.search(question):
        return VALUE_TYPE
    return answer_type


def _named_type(question: str) -> AnswerType | None:
    """Return the type named first; a number counts last, as many questions have "how many" in them."""
    # By the end of the match: in "which attribute of a function" the attribute comes first.
    matches = []
    for answer_type in ANSWER_TYPES:
        if match := answer_type.named.search(question):
            matches.append((answer_type.name == "number", match.end(), answer_type))
    return min(matches, key=lambda match: match[:2])[2] if matches else None


def _implied_type(question: str) -> AnswerType:
    implied = (answer_type for answer_type in ANSWER_TYPES if answer_type.implied.search(question))
    return next(implied, NAME_TYPE)


def matching_rules(question: str) -> Iterator[str]:
    """Yield a name for each rule that matches a question, and for the type that the rules choose."""
    yield f"type: {expected_type(question).name}"

    for answer_type in ANSWER_TYPES:
        if answer_type.named.search(question):
            yield f"named: {answer_type.name}"
        if answer_type.implied.search(question):
            yield f"implied: {answer_type.name}"
    for kind, wording in _STATEMENTS.items():
        if wording.search(question):
            yield f"statement: {kind}"


def quantity_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of numbers with their unit, "10 megabytes", at most MAX_CANDIDATES."""
    return _spans(_QUANTITY, text)


def interval_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of ranges of numbers, "[0.5, 100]" or "1 to 5", at most MAX_CANDIDATES."""
    return _spans(_INTERVAL, text)


def candidate_spans(answer_type: AnswerType, text: str) -> Iterator[tuple[int, int]]:
    """Yield spans of a passage that look like the type, at most MAX_CANDIDATES."""
    return _spans(answer_type.look, text)


def _spans(look: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    group: str | int = "name" if "name" in look.groupindex else 0
    matches = look.finditer(text, 0, MAX_CANDIDATE_CHARS)
    return (match.span(group) for match in islice(matches, MAX_CANDIDATES))
