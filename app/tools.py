"""Tools for agents: three calls whose results fit into a budget of tokens.

Without the tokenizer of the agent's language model, a token counts as three bytes of UTF-8. Code
and English have more, so that results are rather too short than too long. A tool returns its
result twice, as text and as JSON, and each fits the budget.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import GenerateJsonSchema, SkipJsonSchema
from pydantic_core import CoreSchema

from purlin.app.problems import Opening
from purlin.app.routes import classify_reply, qa_reply, search_reply
from purlin.app.schemas import (
    MAX_TEXT_CHARS,
    MAX_VALUE_CHARS,
    ClassifyRequest,
    CorpusName,
    Labels,
    QaRequest,
    SearchRequest,
    Strict,
    Text,
)
from purlin.app.service import Service
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.qa.ask import MAX_ANSWERS
from purlin.index.records import Answer, Hit, Kind
from purlin.index.search.corpus import MAX_QUERY_CHARS
from purlin.replies import SearchReply

BYTES_PER_TOKEN = 3
MIN_TOKENS, MAX_TOKENS = 200, 20_000
MAX_HITS = 20
MAX_TEXTS_PER_CALL = 100
_MARK = 40  # bytes reserved for the note on what was cut
_QUOTES = 2  # bytes around a text as JSON
_MIN_PART = 40  # shortest part of a line worth showing, in characters
_MAX_WORDS = 5  # words given as the reason of a hit
_MAX_NAMES = 20  # corpora listed in an error
_MAX_SHOWN = 200  # characters of a title, path or link
_LAST = "\U0010ffff"  # sorts after every character

_Null = SkipJsonSchema[None]
_Path = Annotated[str, Field(max_length=MAX_VALUE_CHARS - len(_LAST))]
Budget = Field(
    default=2_000,
    ge=MIN_TOKENS,
    le=MAX_TOKENS,
    description="The result has at most about so many tokens.",
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool: the same content as text and as JSON."""

    text: str
    structured: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: `scope` is what a key needs; `description` says when to use it and when not."""

    name: str
    title: str
    scope: str
    description: str
    arguments: type[Strict]
    call: Callable[[Any, Service], Result]

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, without titles and null defaults, which only cost tokens."""
        schema = self.arguments.model_json_schema(schema_generator=_Untitled)
        for key in ("title", "description"):
            schema.pop(key, None)

        for details in schema["properties"].values():
            if details.get("default", 0) is None:
                del details["default"]
        return schema


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: CoreSchema | Any) -> bool:
        return False


# ---- search_code


class SearchCode(Strict):
    """Arguments of `search_code`."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="What the code does, in plain words, or a name.",
        examples=["read rows from a csv file", "retry with backoff"],
    )
    corpus: CorpusName | _Null = Field(
        default=None, description="Needed only where several code bases are indexed."
    )
    path: _Path | _Null = Field(
        default=None, description="Only files whose path begins so: a folder, or a whole path."
    )
    language: Text | _Null = Field(
        default=None, description="Only this language, in lower case.", examples=["python"]
    )
    k: int = Field(default=5, ge=1, le=MAX_HITS, description="Hits at most.")
    max_tokens: int = Budget


def search_code(arguments: SearchCode, service: Service) -> Result:
    """Find code: hits with path and lines, why they match, and their text."""
    conditions: dict[str, Any] = {"language": arguments.language} if arguments.language else {}
    if path := (arguments.path or "").removeprefix("./"):
        # All paths that begin with this one.
        conditions["path"] = {"gte": path, "lte": path + _LAST}

    corpus = _corpus(service, "code", arguments.corpus)
    request = SearchRequest(query=arguments.query, corpus=corpus, k=arguments.k, filter=conditions)
    reply = search_reply(request, service)
    parts = [_code_part(hit) for hit in reply.hits]
    return _fit(_search_head(reply), "hits", parts, arguments.max_tokens)


def _search_head(reply: SearchReply) -> _Head:
    count = f"{len(reply.hits)} hits in {reply.corpus}"
    text = count if reply.hits else f"Nothing in {reply.corpus} fits."
    return _Head(text, {"corpus": reply.corpus, "build": reply.build, "encoder": reply.encoder})


def _code_part(hit: Hit) -> _Part:
    location = hit.location
    path = (location.path or hit.document_id)[:_MAX_SHOWN]
    title = hit.title[:_MAX_SHOWN]
    why = _why(hit)

    lines = {}
    span = ""
    if location.start_line:
        lines = {"start_line": location.start_line, "end_line": location.end_line}
        span = f":{location.start_line}-{location.end_line}"

    fields = {"path": path, **lines, "title": title, "score": hit.score, "why": why}
    head = f"{path}{span} {title} · {hit.score:.2f} · {why}"
    return _Part(head, fields, "code", hit.text)


def _why(hit: Hit) -> str:
    """Why a hit matches: the words of the query that it has, if any."""
    words = dict.fromkeys(hit.text[start:end].lower()[:40] for start, end in hit.highlights)
    return f"has {', '.join(list(words)[:_MAX_WORDS])}" if words else "near in meaning"


# ---- ask_reference


class AskReference(Strict):
    """Arguments of `ask_reference`."""

    question: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="One question in plain words.",
        examples=["What is the default step of range?"],
    )
    corpus: CorpusName | _Null = Field(
        default=None, description="Needed only where several references are indexed."
    )
    k: int = Field(default=3, ge=1, le=MAX_ANSWERS, description="Answers at most.")
    max_tokens: int = Budget


def ask_reference(arguments: AskReference, service: Service) -> Result:
    """Answer a question in the reference's words, each answer with its passage and link."""
    corpus = _corpus(service, "reference", arguments.corpus)
    request = QaRequest(question=arguments.question, corpus=corpus, k=arguments.k)
    reply = qa_reply(request, service)

    # Answers of one passage refer to the first of them.
    first: dict[str, int] = {}
    parts = []
    for number, answer in enumerate(reply.answers, 1):
        first.setdefault(answer.passage_id, number)
        parts.append(_answer_part(answer, number, first[answer.passage_id]))

    head = _Head(
        f"{len(reply.answers)} answers from {corpus}; "
        f"answerable {reply.answerable:.2f} (low: it may be silent)",
        {
            "answerable": reply.answerable,
            "corpus": reply.corpus,
            "build": reply.build,
            "encoder": reply.encoder,
            "reader": reply.reader,
        },
    )
    return _fit(head, "answers", parts, arguments.max_tokens)


def _answer_part(answer: Answer, number: int, first: int) -> _Part:
    """Answer `number`, with its passage unless answer `first` already shows that."""
    name = " > ".join([*answer.terms, answer.title])[-_MAX_SHOWN:]
    fields: dict[str, Any] = {"text": answer.text, "score": answer.score, "of": name}
    head = f"{json.dumps(answer.text, ensure_ascii=False)} ({answer.score:.2f}) · {name}"
    if answer.url:
        fields["url"] = answer.url
        head = f"{head} · {answer.url}"

    if first < number:
        return _Part(f"{head} · passage of {first}", fields | {"passage_of": first})
    return _Part(head, fields, "passage", answer.passage, answer.start)


# ---- classify


class ClassifyTexts(Strict):
    """Arguments of `classify`."""

    texts: list[Annotated[str, Field(max_length=MAX_TEXT_CHARS)]] = Field(
        min_length=1,
        max_length=MAX_TEXTS_PER_CALL,
        description="The texts, each at most a few paragraphs.",
    )
    labels: Labels | _Null = Field(
        default=None,
        description="Labels to choose from, as plain words; give these or `classifier`.",
    )
    classifier: str | _Null = Field(
        default=None, max_length=64, description="A trained classifier's name."
    )
    multi_label: bool = Field(default=False, description="Score each of `labels` on its own.")
    max_tokens: int = Budget


def classify_texts(arguments: ClassifyTexts, service: Service) -> Result:
    """Find the best labels of each text."""
    request = ClassifyRequest(**arguments.model_dump(exclude={"max_tokens"}))
    reply = classify_reply(request, service)

    parts = []
    for result in reply.results:
        ranking = [
            {"label": label.label, "score": round(label.score, 4)} for label in result.ranking[:3]
        ]
        text = ", ".join(f"{label['label']} {label['score']:.2f}" for label in ranking)
        fields = {"label": result.label, "margin": round(result.margin, 4), "ranking": ranking}
        parts.append(_Part(text, fields))

    structured = {"encoder": reply.encoder}
    if reply.classifier:
        structured["classifier"] = reply.classifier
    text = f"{len(parts)} texts, the best labels of each"
    if reply.warnings:
        text = f"{text}. {reply.warnings[0][:_MAX_SHOWN]}"
    return _fit(_Head(text, structured), "results", parts, arguments.max_tokens)


# ---- choosing a corpus


def _corpus(service: Service, kind: Kind, name: str | None) -> str:
    """The corpus named in the call, or the only one of its kind.

    Raises InvalidInput, which lists the corpora to choose from, or NotFound.
    """
    if name is not None:
        opened = service.corpora.status(name).opened
        if opened is not None and opened.manifest.kind != kind:
            listed = ", ".join(_names(service, kind)[:_MAX_NAMES]) or "none"
            raise InvalidInput(
                f"Corpus {name!r} is of kind {opened.manifest.kind}. Those of kind {kind}: {listed}.",
                field="corpus",
            )
        return name

    names = _names(service, kind)
    if not names:
        raise NotFound(f"This server has no corpus of kind {kind}.", field="corpus")
    if len(names) > 1:
        raise InvalidInput(
            f"There are several: set `corpus` to one of {', '.join(names[:_MAX_NAMES])}.",
            field="corpus",
        )
    return names[0]


def _names(service: Service, kind: Kind) -> list[str]:
    """Corpora of a kind that are in service. Raises Opening while any is still being opened."""
    statuses = service.corpora.statuses()
    if any(status.state == "opening" for status in statuses):
        raise Opening("Corpora are still being opened: try again in a moment.", field="corpus")
    return [
        status.name
        for status in statuses
        if status.opened is not None and status.opened.manifest.kind == kind
    ]


# ---- fitting a result into its budget


@dataclass(frozen=True, slots=True)
class _Head:
    """The beginning of a result: a line of text, and the same for JSON."""

    text: str
    structured: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Part:
    """One hit, answer or label ranking of a result.

    `head` and `fields` are shown whole, as text and as JSON. `text`, which JSON has as `name`, may
    be cut to the lines around the offset `focus`.
    """

    head: str
    fields: Mapping[str, Any]
    name: str = ""
    text: str = ""
    focus: int = 0

    def fixed_size(self) -> int:
        """Bytes of everything but the text."""
        return max(_size(self.head), _size(self.fields)) + len(self.name) + 20


def _fit(head: _Head, name: str, parts: Sequence[_Part], max_tokens: int) -> Result:
    """Combine as many parts as fit, best first.

    Their texts share the remaining bytes: short ones are whole, long ones are cut to equal sizes.
    """
    head_size = max(_size(head.text), _size(head.structured))
    room = max_tokens * BYTES_PER_TOKEN - head_size - 2 * _MARK

    shown: list[_Part] = []
    for part in parts:
        if part.fixed_size() > room:
            break
        room -= part.fixed_size()
        shown.append(part)
    omitted = len(parts) - len(shown)

    limit = _share([_size(part.text) + _MARK for part in shown if part.text], room)
    cut = [_cut(part, limit - _MARK) for part in shown]

    lines = [head.text, *(f"{number}. {text}" for number, (text, _) in enumerate(cut, 1))]
    structured = {**head.structured, name: [fields for _, fields in cut]}
    if omitted:
        lines.append(f"{omitted} more: raise max_tokens.")
        structured["left_out"] = omitted
    return Result("\n".join(lines), structured)


def _share(sizes: Sequence[int], room: int) -> int:
    """The largest size per text with which all texts together fit into `room`."""
    for number, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - number)
        if size > share:
            return share
        # What a short text does not need is left for the longer ones.
        room -= size
    return max(sizes, default=0)


def _cut(part: _Part, room: int) -> tuple[str, dict[str, Any]]:
    """A part as text and as JSON, its text cut to `room` bytes."""
    if not part.text:
        return part.head, dict(part.fields)

    start, end = window(part.text, part.focus, room)
    text = part.text[start:end].strip("\n")
    above = _omitted_lines(part.text[:start])
    below = _omitted_lines(part.text[end:])

    fields = {**part.fields, part.name: text}
    if above or below:
        fields["cut"] = True
    return "\n".join(filter(None, [part.head, above, text, below])), fields


def _omitted_lines(text: str) -> str:
    """A note on how many lines were cut, empty if there is nothing but white space."""
    return f"… {len(text.strip().splitlines())} lines" if text.strip() else ""


def window(text: str, focus: int, room: int) -> tuple[int, int]:
    """(start, end) of the whole lines around offset `focus` that take at most `room` bytes as JSON.

    If not even the line of `focus` fits, it is a part of that line, or empty if that part would be
    too short to be useful.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text) if match.end() < len(text))]
    ends = [*starts[1:], len(text)]
    sizes = [_size(text[start:end]) - _QUOTES for start, end in zip(starts, ends, strict=True)]

    first = last = bisect_right(starts, focus) - 1
    room_left = room - _QUOTES - sizes[first]
    if room_left < 0:
        return _part_of_line(text, starts[first], ends[first], focus, room)

    # Add lines below and above in turn while they fit.
    grown = True
    while grown:
        grown = False
        for line in (last + 1, first - 1):
            if 0 <= line < len(sizes) and sizes[line] <= room_left:
                first = min(first, line)
                last = max(last, line)
                room_left -= sizes[line]
                grown = True
    return starts[first], ends[last]


def _part_of_line(text: str, start: int, end: int, focus: int, room: int) -> tuple[int, int]:
    """(start, end) of the part around `focus` of a line that fits, a quarter of it before."""
    width = room
    while width >= _MIN_PART:
        begin = max(start, min(focus - width // 4, end - width))
        if _size(text[begin : min(end, begin + width)]) <= room:
            return begin, min(end, begin + width)
        # A character may take several bytes: try fewer.
        width = width * 3 // 4
    return focus, focus


def _size(value: Any) -> int:
    """Bytes of a value as JSON, never fewer than as plain text; a lone surrogate counts as one."""
    return len(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


# ---- the tools

TOOLS = (
    Tool(
        "search_code",
        "Search code",
        "search",
        "Find functions, methods and classes in indexed source code by what they do, or by name. Use it to find where "
        "something is implemented or how this code base does a thing, before writing or changing code. Returns path "
        "and lines, why it was found, and the code, best first. Not for exact strings or patterns (grep), for a file "
        "whose path you know (read it), or for what documentation says (ask_reference).",
        SearchCode,
        search_code,
    ),
    Tool(
        "ask_reference",
        "Ask a reference",
        "qa",
        "Answer a question from indexed reference documentation in its exact words, with link and passage. Use it for "
        "facts on an API: what it does, parameters, defaults, return values, exceptions. `answerable` (0-1) is low "
        "where the reference seems silent: then do not rely on the answers. Not for how-tos over many pages, advice, "
        "or finding code (search_code).",
        AskReference,
        ask_reference,
    ),
    Tool(
        "classify",
        "Classify texts",
        "classify",
        f"Choose a label for each of up to {MAX_TEXTS_PER_CALL} texts at once: by the names of the "
        "labels, or by a trained classifier. Use it to sort, route or filter many texts (tickets, "
        "reviews, log lines) without reading each. "
        "Labels work best as plain words that say what they mean. Not for a text that you have read anyway, or for "
        "extracting facts; only the beginning of long texts counts, a few hundred tokens.",
        ClassifyTexts,
        classify_texts,
    ),
)
