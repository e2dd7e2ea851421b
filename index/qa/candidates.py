"""Find the spans that a passage's structure suggests as answers, whatever the reader thinks of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from itertools import chain, islice

from purlin.index.qa.answer_types import (
    ERRNO_NAMES,
    MAX_CANDIDATE_CHARS,
    MAX_CANDIDATES,
    NAME_TYPE,
    QUANTITY,
    AnswerType,
    candidate_spans,
    interval_spans,
    quantity_spans,
)
from purlin.index.qa.conditions import values_under_condition
from purlin.index.qa.question import ParsedQuestion
from purlin.index.qa.reference_words import DEFAULTS, RETURNED
from purlin.index.qa.signatures import CharSpan, PassageStructure
from purlin.index.qa.tables import named_cells

MAX_RETURNED_CHARS = 200

_QUOTES = "\"'`‘’“”"

# Words that are no answer by themselves, and words that are none at the beginning of a sentence: in lower
# case, the latter may be the keyword that is asked for.
_FUNCTION_WORDS = frozenset(
    "a an the this that these those it its they which respectively otherwise note"
    " return returns returned".split()
)
_OPENING_WORDS = frozenset(
    "All Also And Any Are As At By Each Every For From If In Is Multiple No Not On Only Or Some"
    " Then To When With".split()
)
_RETURNS = re.compile(r"\breturn(?:s|ing)? (?:values? (?:is|are) )?(?=\S)", re.IGNORECASE)
# Where a phrase after "returns" may end, from its longest reading to its shortest.
_PHRASE_ENDS = tuple(
    re.compile(rf"[.:;](?=\s|$)|\n|{end}\b")
    for end in (
        " (?:if|when|unless|otherwise)",
        "(?:, | (?:if|when|unless|otherwise|or))",
        "(?:, | (?:if|when|unless|otherwise|or|that|which|containing|representing|such|of|with|for"
        "|from|in|to))",
    )
)

# The type after the last arrow or "):" in a line of a signature, up to a clause about its variables.
_RETURN_TYPE = re.compile(
    r"(?:-> |→ |\): ?)(?P<type>(?:(?!->|→|\):)[^\n])+?)(?= (?:when|where)\b|[:;{ \t]*$)",
    re.MULTILINE,
)
# The type before a name, without what else C++, Java and others have there. No type stands before the
# name of what a keyword introduces, `pub fn open(`, or of a member, `$door->open(`.
_INTRODUCED = (
    "await|class|classmethod|coroutine|decorator|def|enum|event|exception|fn|fun|func|function|interface"
    "|macro|method|new|proc|procedure|staticmethod|sub|type|with"
)
_DECLARED_TYPE = re.compile(
    rf"(?![^\n]*\b(?:{_INTRODUCED})[ \t]*\Z)"
    r"(?:(?:abstract|async|constexpr|extern|final|inline|override|private|protected|public|static"
    r"|synchronized|virtual)\b[ \t]*)*+"
    r"(?P<type>[^\W\d](?:[^\n().=]*[^\s().=])?)(?:[ \t]+|(?<=[*&]))\Z"
)
_STATUS = re.compile(r"-?\d{1,6}")
_ERROR_CODE = re.compile(rf"[A-Z][A-Z\d]*(?:_[A-Z\d]+)+|{ERRNO_NAMES}")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))

# How a reference states a default: "Default: 50M", "defaults to no", "simple (the default)", "how
# wide it is (default 5)".
_SAYS_DEFAULT = r"\bdefault(?:s? to|ing to|s? is|s are| value is|s?:)"
# Several values may be written without spaces: "ctime,size,inode".
_INNER_COMMA = r"(?<=\w),(?=\w)"
_ABOUT_DEFAULT = "(?:for|if|in|is|on|since|to|unless|when)\\b"
_IS_DEFAULT = rf"\((?:the |by )?default(?: value)?(?:[),;.]| (?!is\b){_ABOUT_DEFAULT})"
_DEFAULTS = tuple(
    (name, re.compile(wording, re.IGNORECASE | re.MULTILINE))
    for name, wording in (
        ("labelled", r"^default(?: value)?s?[ \t]*[:=|][ \t]*(?P<value>\S[^\n|]{0,80})$"),
        ("stated", rf"{_SAYS_DEFAULT} (?P<value>(?:[^\s,;()]|{_INNER_COMMA}){{1,80}})"),
        (
            "stated",
            rf"{_SAYS_DEFAULT} (?P<value>(?:[^\n,;:()]|{_INNER_COMMA}){{1,80}}?)"
            rf"(?=(?!{_INNER_COMMA})[,;:()]|\.?\s*$|\.\s)",
        ),
        (
            "stated",
            rf"\((?:[\w ]{{1,30}}, )?default (?:value )?(?!value\b|{_ABOUT_DEFAULT})(?P<value>[^\n()]{{1,80}})\)",
        ),
        ("stated", r"\[default: (?P<value>[^\n\[\]]{1,80})\]"),
        ("stated", rf"(?P<value>[^\s(|]{{1,80}}) {_IS_DEFAULT}"),
        ("stated", rf"^(?P<value>[^\n(|]{{1,80}}) {_IS_DEFAULT}"),
        # A setting in code: `responseType: 'json', // default`.
        (
            "stated",
            r"^[ \t]{0,40}['\"]?[\w.$-]{1,80}['\"]?\??[ \t]*[:=][ \t]*(?P<value>\S[^\n]{0,80}?)"
            r",?[ \t]*(?://|#)[ \t]*default$",
        ),
        # kubectl prints `-f, --follow=false`; `--width=CM` names its value.
        (
            "stated",
            r"^-[\w, -]{1,80}=(?P<value>-?\d\S{0,40}|true|false|'[^'\n]{1,80}'|\[[^\[\]\n]{1,80}\])$",
        ),
    )
)

# What has a label of its own, "Type: integer", and how a reference lists the values of something.
_PROPERTY = re.compile(r"^(?P<label>[A-Z][\w ]{0,30}): (?P<value>\S[^\n]{0,300})$", re.MULTILINE)
_VALUES = tuple(
    (name, re.compile(wording, re.IGNORECASE | re.MULTILINE))
    for name, wording in (
        ("labelled", r"^one of: (?P<value>\S[^\n]{0,300})$"),
        # In the term of an option: `--sort=(yes|no|foldcase)`, `--color {always,never}`.
        (
            "labelled",
            r"^-[^\n]{0,80}?[=\[({< ](?P<value>\w[\w.-]{0,40}(?P<mark>[|,])\w[\w.-]{0,40}"
            r"(?:(?P=mark)\w[\w.-]{0,40}){0,32})(?=[\])}>\s.]|$)",
        ),
        ("stated", r"\bone of:? (?P<value>[^\n.;:|]{1,300})"),
        (
            "stated",
            r"\b(?:accepted|allowed|defined|legal|permitted|possible|supported|valid)"
            r" (?:choices|options|values)(?: (?!are\b)\w+){0,3}(?: are|:)(?: one of)?:? "
            r"(?P<value>[^\n.;:|]{1,300})",
        ),
    )
)

# How a reference states the largest and the smallest value of what it describes: "the maximum is 24",
# "a minimum of 10 seconds", by the word that question and text have.
_LIMITS = {
    word: (
        "stated",
        re.compile(rf"\b{word}(?: \w+){{0,4}}? (?:is|of) (?P<value>{QUANTITY})", re.IGNORECASE),
    )
    for word in ("maximum", "minimum")
}

# The feature with the total probability of the answer types for which a span is a candidate.
PROPOSED = "proposed"


def span_candidates(
    question: ParsedQuestion, text: str, structure: PassageStructure
) -> dict[CharSpan, dict[str, float]]:
    """Find the spans of a passage that its structure suggests as answers, each with its features.

    A feature that makes a span a candidate for a type of answer is weighted by that type's
    probability.
    """
    candidates: dict[CharSpan, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    for answer_type, share in question.types:
        for span, features in _candidates_of_type(answer_type, question, text, structure).items():
            for name, value in features.items():
                candidates[span][name] += share * value
            candidates[span][PROPOSED] += share

    for span, features in _stated_spans(question, text):
        candidates[span] |= {**features, PROPOSED: 1.0}
    return candidates


def _stated_spans(
    question: ParsedQuestion, text: str
) -> Iterator[tuple[CharSpan, dict[str, float]]]:
    """Yield what rows, labels and wordings tell of what the question names, for any type of answer."""
    for span, is_column_named in named_cells(text, question.words):
        yield span, {"row": 1.0, "column": float(is_column_named)}
    for span in _properties(text, question.words):
        yield span, {"labelled": 1.0}

    wordings = (
        *((*_DEFAULTS, *DEFAULTS) if question.asks_for_default else ()),
        *(_VALUES if question.asks_for_values else ()),
        *(wording for word, wording in _LIMITS.items() if word in question.words),
    )
    for span, name in _worded_values(wordings, text):
        yield span, {name: 1.0}
    for span in values_under_condition(text, question.words):
        yield span, {"condition": 1.0}


def _candidates_of_type(
    answer_type: AnswerType, question: ParsedQuestion, text: str, structure: PassageStructure
) -> dict[CharSpan, dict[str, float]]:
    """Find the spans that may be answers of one type."""
    candidates: dict[CharSpan, dict[str, float]] = defaultdict(dict)

    for span in candidate_spans(answer_type, text):
        candidates[span]["literal" if answer_type.name == "result" else "typed"] = 1.0
    if answer_type.name in ("number", "value"):
        # `range` may also be what the question is about: "How many bytes does range take?"
        intervals = list(interval_spans(text)) if "range" in question.words else []
        for span in intervals or quantity_spans(text):
            candidates[span] |= {"typed": 1.0, "quantity": 1.0}
    if answer_type.name in ("result", "type"):
        signature = text[: structure.signature_end]
        declared = _declared_types(signature, structure.names)
        is_phrase = answer_type.name == "result"
        phrases = _returned_phrases(text, structure.signature_end) if is_phrase else ()
        in_other_languages = _worded_values(RETURNED, text) if is_phrase else ()
        phrases = chain(phrases, (span for span, _ in in_other_languages))
        for span in chain(_returned_types(signature), declared, phrases):
            candidates[span]["returned"] = 1.0

    _add_names(candidates, answer_type, text, structure)
    _add_parameters(candidates, answer_type, question, text, structure)
    return candidates


def _add_names(
    candidates: dict[CharSpan, dict[str, float]],
    answer_type: AnswerType,
    text: str,
    structure: PassageStructure,
) -> None:
    """Add the names of the entry and of its module, if the question may ask for them."""
    is_exception = answer_type.name == "exception"
    asks_for_status = answer_type.name in ("number", "result", "value")
    for span in structure.names:
        # An entry that is a constant may be the code of an error: `CURLE_TOO_MANY_REDIRECTS`.
        is_code = is_exception and _ERROR_CODE.fullmatch(text, *span) is not None
        # A term that is a number may be a status: `4`, "Network failure."
        is_status = asks_for_status and _STATUS.fullmatch(text, *span) is not None
        if is_code or is_status or structure.directive in answer_type.directives:
            candidates[span]["own"] = 1.0

    if structure.module and answer_type.name == "module":
        for span in _occurrences(structure.module, text):
            candidates[span]["module"] = 1.0
    # A module is named by the section that introduces it, as a function is by its signature.
    if structure.module and answer_type is NAME_TYPE and structure.directive == "section":
        for span in _occurrences(structure.module, text)[:1]:
            candidates[span]["own"] = 1.0


def _add_parameters(
    candidates: dict[CharSpan, dict[str, float]],
    answer_type: AnswerType,
    question: ParsedQuestion,
    text: str,
    structure: PassageStructure,
) -> None:
    """Add parameters' defaults, or all occurrences of their names, if the question asks for them."""
    asks_for_name = answer_type.name in ("parameter", "option")

    for parameter in structure.parameters:
        default = parameter.default
        if question.asks_for_default and default is not None and default[1] <= len(text):
            # The default is a candidate without features of its own.
            candidates.setdefault(default, {})
        if not asks_for_name:
            continue
        for span in _occurrences(parameter.name, text):
            candidates[span] |= {
                "typed": 1.0,
                "optional": float(parameter.optional),
                "switch": float(parameter.switch),
            }


def _occurrences(name: str, text: str) -> list[CharSpan]:
    return [match.span() for match in re.finditer(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)]


def _properties(text: str, words: Set[str]) -> Iterator[CharSpan]:
    """Yield what stands behind labels whose words the question has, in the singular or plural."""
    singulars = {word.removesuffix("s") for word in words}
    for match in islice(_PROPERTY.finditer(text, 0, MAX_CANDIDATE_CHARS), MAX_CANDIDATES):
        if {word.removesuffix("s") for word in match["label"].lower().split()} <= singulars:
            yield match.span("value")


def _worded_values(
    wordings: Iterable[tuple[str, re.Pattern[str]]], text: str
) -> Iterator[tuple[CharSpan, str]]:
    """Yield the values that the text tells in some wordings, without quotes and stops, and how."""
    for name, wording in wordings:
        for match in islice(wording.finditer(text, 0, MAX_CANDIDATE_CHARS), MAX_CANDIDATES):
            value = match["value"]
            start = match.start("value") + len(value) - len(value.lstrip(_QUOTES))
            end = match.start("value") + len(value.rstrip(_QUOTES + ".,;: "))
            if start < end:
                yield (start, end), name


def _returned_types(signature: str) -> Iterator[CharSpan]:
    """Yield the type at the end of each line of a signature, and each of its alternatives.

    Rust's "-> Result<T, E>" has one; Erlang's "-> {ok, Binary} | eof" has `{ok, Binary}` and `eof`.
    """
    for match in islice(_RETURN_TYPE.finditer(signature), MAX_CANDIDATES):
        yield match.span("type")
        start = match.start("type")
        for alternative in match["type"].split(" | "):
            yield start, start + len(alternative)
            start += len(alternative) + len(" | ")


def _declared_types(signature: str, names: Iterable[CharSpan]) -> Iterator[CharSpan]:
    """Yield what stands before the names that are called, as C and Java have it: `char *spool(`."""
    for start, end in names:
        declared = _DECLARED_TYPE.match(signature, signature.rfind("\n", 0, start) + 1, start)
        if declared and signature[end : end + 2].lstrip().startswith("("):
            yield declared.span("type")


def _returned_phrases(text: str, start: int) -> Iterator[CharSpan]:
    """Yield phrases for what is returned: "a copy of the string" from "Return a copy of the string".

    A phrase is yielded in full, and again cut off before a comma or an added clause.
    """
    for match in islice(_RETURNS.finditer(text, start), MAX_CANDIDATES):
        first, limit = match.end(), match.end() + MAX_RETURNED_CHARS
        for phrase_end in _PHRASE_ENDS:
            end = _phrase_end(phrase_end, text, first, limit)
            if first < end <= limit:
                yield first, end


def _phrase_end(phrase_end: re.Pattern[str], text: str, first: int, limit: int) -> int:
    """Return where the phrase ends; a comma in brackets does not end it: "{ok, Binary}"."""
    for stop in phrase_end.finditer(text, first, limit):
        phrase = text[first : stop.start()]
        if all(phrase.count(opening) <= phrase.count(closing) for opening, closing in _BRACKETS):
            return stop.start()
    return len(text)


def may_answer(question: ParsedQuestion, answer: str) -> bool:
    """Return whether an answer says something: "the" does not, nor "return it" for a result."""
    if answer in _OPENING_WORDS or answer.lower() in _FUNCTION_WORDS:
        return False
    return question.answer_type.name != "result" or _RETURNS.match(answer) is None
