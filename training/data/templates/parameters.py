"""Answers about parameters and settings: defaults, types, and what each is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from purlin.index.qa.signatures import CharSpan
from purlin.index.records import Span
from purlin.training.data.templates.entries import MAX_BODY_CHARS, Candidate, Entry
from purlin.training.data.templates.phrases import (
    CLEAR_WORDS,
    reveals,
    verb_and_rest,
    without_asides,
)

_ANOTHER = re.compile(
    r"(?:\band|,) (?:the )?(\w+) (?:is|are|has|must|can|may|should|specifies|defaults)\b"
)

_PARAMETER = r"(?:[Tt]he )?(?:optional )?(?P<parameter>\w+)(?: keyword)?(?: argument| parameter)?"

_ITEM = re.compile(
    r"(?:- )?(?:Parameters: )?\*{0,2}(?P<parameter>\w+)(?: \((?P<type>[^()\n:=]{1,60})\))? [–-] (?=\S)"
)

_PARAMETER_FIRST = re.compile(_PARAMETER + r" (?=\S)")
_RETURN_TYPE = re.compile(r"^(?:- )?Return type: (?P<type>\S.{0,60}?)\.?$", re.MULTILINE)
_ARROW = re.compile(r"\) (?:→|->) (?P<type>\S.{0,60})$", re.MULTILINE)
_UNIT = r"(?: (?:milli|micro)?seconds?| minutes?| hours?| days?| (?:kilo|mega|giga)?bytes| [kMG]B)?"

_VALUE = (
    r"(?P<value>\"[^\"\n]{1,60}\"|'[^'\n]{1,60}'|“[^”\n]{1,60}”|‘[^’\n]{1,60}’|"
    rf"-?\d(?:[\w.]*\w)?{_UNIT}|[A-Za-z_](?:[\w.]*\w)?(?:\(\))?)(?=$|[,;:.)]| \(| which| if| when| and)"
)

_PARAMETER_DEFAULTS = (
    re.compile(
        rf"\b[Ii]f {_PARAMETER} is (?:omitted|missing|absent|not \w+),? (?:it )?defaults to {_VALUE}"
    ),
    re.compile(rf"{_PARAMETER} defaults to {_VALUE}"),
    re.compile(rf"\b[Dd]efault (?:value )?(?:for|of) {_PARAMETER} is {_VALUE}"),
)

_DEFAULT = re.compile(
    rf"(?:\b[Tt]he default(?: value)? is|(?:^|(?<=[.;:] ))(?:It d|D)efaults to|^Default:) {_VALUE}",
    re.MULTILINE,
)

# `--max-tries` and `json.encoder` name one entry, `-t` and `name` may name many.
_DISTINCTIVE_NAME = re.compile(r"(?=.*[._-]\w|[A-Z_]{3})\S{3,}")
_PLAIN_VALUES = frozenset(["true", "false", "none", "null", "on", "off", "zero"])
_BEING = ("is a ", "is an ", "is the ", "is used ", "must be ", "should be ", "can be ", "may be ")


def find_defaults(entry: Entry) -> Iterator[Candidate]:
    """Ask for defaults: the signature's if its lines agree, else those that prose states."""
    for name, stated in entry.parameters.items():
        default = _agreed(entry, [parameter.default for parameter in stated])
        if default and _is_telling_default(entry, default):
            yield Candidate("default value", default.start, default.end, {"parameter": name})

    for name, value in _prose_defaults(entry):
        if not any(parameter.default for parameter in entry.parameters[name]):
            yield Candidate("default value", value.start, value.end, {"parameter": name})


def _agreed(entry: Entry, spans: Sequence[CharSpan | None]) -> Span | None:
    """Return the first of the spans if all of them have the same text."""
    stated = [Span(*span) for span in spans if span is not None]
    texts = {entry.text(span) for span in stated}
    return stated[0] if len(texts) == 1 else None


def _is_telling_default(entry: Entry, default: Span) -> bool:
    last = entry.text(default).rpartition(".")[2]
    return last not in entry.rules.sentinels and not last.startswith("<")


def _prose_defaults(entry: Entry) -> Iterator[tuple[str, Span]]:
    """Find defaults such as in "If the step argument is omitted, it defaults to 1"."""
    if not entry.parameters:
        return

    for sentence in entry.prose():
        for pattern in _PARAMETER_DEFAULTS:
            match = pattern.search(entry.body, sentence.start, sentence.end)
            if match and match["parameter"] in entry.parameters and is_value(match["value"]):
                yield match["parameter"], Span(*match.span("value"))
                break


def is_value(text: str) -> bool:
    """Return whether a text is a number, a quotation or a word of code, unlike "the"."""
    return not text.isalpha() or not text.islower() or text in _PLAIN_VALUES


def find_settings(entry: Entry) -> Iterator[Candidate]:
    """Ask for the default of an entry without arguments: an attribute, option or setting."""
    if "(" in entry.signature or not entry.name or not _DISTINCTIVE_NAME.fullmatch(entry.term):
        return

    for paragraph in entry.paragraphs:
        match = _DEFAULT.search(entry.body, paragraph.start, paragraph.end)
        if match and is_value(match["value"]) and not entry.body.startswith("- ", paragraph.start):
            yield Candidate("default setting", *match.span("value"), {})
            return


def find_described_parameters(entry: Entry) -> Iterator[Candidate]:
    """Ask about parameters in field lists, and in sentences that begin with their names."""
    if not entry.parameters:
        return

    for sentence in entry.prose():
        item = _ITEM.match(entry.body, sentence.start, sentence.end)
        about = item or _PARAMETER_FIRST.match(entry.body, sentence.start, sentence.end)
        if about is None or about["parameter"] not in entry.parameters:
            continue
        name = about["parameter"]
        if item and item["type"]:
            yield Candidate("parameter type", *item.span("type"), {"parameter": name})

        purpose = entry.body[about.end() : sentence.end]
        values = _parameter_purpose(entry, purpose, listed=item is not None)
        if values and not reveals(values["rest"], name):
            yield Candidate("parameter", *about.span("parameter"), values)
            stated = entry.parameters[name]
            default = _agreed(entry, [parameter.default for parameter in stated])
            if default and _is_telling_default(entry, default):
                yield Candidate("described default", default.start, default.end, values)


def _parameter_purpose(entry: Entry, text: str, *, listed: bool) -> dict[str, str]:
    """Return what a parameter does: a description in a list, a third person in prose."""
    if listed:
        values = verb_and_rest(entry, text)
        return values if values and len(values["rest"].split()) >= CLEAR_WORDS else {}

    cleaned = without_asides(text, entry.rules)
    verb, _, rest = cleaned.partition(" ")
    is_known_verb = verb in entry.rules.plains and verb not in ("is", "defaults")
    is_statement = cleaned.startswith(_BEING) or is_known_verb
    fits = CLEAR_WORDS <= len(rest.split()) <= entry.rules.max_words

    # "The size and mode are ..." would be answered by two parameters.
    is_about_several = any(match[1] in entry.parameters for match in _ANOTHER.finditer(rest))
    is_usable = is_statement and fits and not is_about_several
    return {"third": verb, "rest": rest} if is_usable else {}


def find_types(entry: Entry) -> Iterator[Candidate]:
    """Ask for the annotations of parameters, and for return types."""
    for name, stated in entry.parameters.items():
        annotation = _agreed(entry, [parameter.annotation for parameter in stated])
        if annotation:
            yield Candidate("parameter type", annotation.start, annotation.end, {"parameter": name})

    in_fields = _RETURN_TYPE.search(entry.body, len(entry.signature), MAX_BODY_CHARS)
    match = _ARROW.search(entry.signature) or in_fields
    if match and entry.noun:
        yield Candidate("return type", *match.span("type"), {})
