"""What agents can call: three tools whose results fit into a number of tokens.

No tokenizer of a language model is at hand, so a token counts as three bytes of UTF-8: code and English have more, so
that a result is rather shorter than it may be. What a tool returns is there twice, as text and as JSON; each fits.
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

from app.problems import Opening
from app.routes import answered, classified, searched
from app.schemas import (
    MAX_TEXT_CHARS,
    MAX_VALUE_CHARS,
    ClassifyRequest,
    CorpusName,
    Labels,
    QaRequest,
    SearchReply,
    SearchRequest,
    Strict,
    Text,
)
from app.service import Service
from index.errors import InvalidInput, NotFound
from index.qa.ask import MAX_ANSWERS
from index.records import Answer, Hit, Kind
from index.search.corpus import MAX_QUERY_CHARS

BYTES_PER_TOKEN = 3
MIN_TOKENS, MAX_TOKENS = 200, 20_000
MAX_HITS = 20
MAX_TEXTS = 100
_MARK = 40  # bytes for what is written where something was cut
_QUOTES = 2  # bytes around a text as JSON
_LEAST = 40  # characters of a line that are worth showing
_WORDS = 5  # that are told as the reason of a hit
_NAMES = 20  # of corpora in an error
_SHOWN = 200  # characters of a title, path or link
_LAST = "\U0010ffff"

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
    """What a tool returns, as text and as JSON of the same content."""

    text: str
    structured: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: `scope` is what a key needs for it, `about` tells an agent when to use it and when not."""

    name: str
    title: str
    scope: str
    about: str
    asked: type[Strict]
    call: Callable[[Any, Service], Result]

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, without what only costs tokens: titles, and null as a default."""
        schema = self.asked.model_json_schema(schema_generator=_Untitled)
        properties = {
            name: {key: value for key, value in about.items() if (key, value) != ("default", None)}
            for name, about in schema["properties"].items()
        }
        kept = {key: value for key, value in schema.items() if key not in ("title", "description")}
        return {**kept, "properties": properties}


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


def search_code(asked: SearchCode, service: Service) -> Result:
    """Hits with their place, why they were found, and their code."""
    conditions: dict[str, Any] = {"language": asked.language} if asked.language else {}
    if path := (asked.path or "").removeprefix("./"):
        conditions["path"] = {"gte": path, "lte": path + _LAST}
    corpus = _corpus(service, "code", asked.corpus)
    found = searched(
        SearchRequest(query=asked.query, corpus=corpus, k=asked.k, filter=conditions), service
    )
    return _fitted(
        _about_search(found), "hits", [_code(hit) for hit in found.hits], asked.max_tokens
    )


def _about_search(found: SearchReply) -> _About:
    what = (
        f"{len(found.hits)} hits in {found.corpus}"
        if found.hits
        else f"Nothing in {found.corpus} fits."
    )
    return _About(what, {"corpus": found.corpus, "build": found.build, "encoder": found.encoder})


def _code(hit: Hit) -> _Part:
    place, title = hit.location, hit.title[:_SHOWN]
    path, why = (place.path or hit.document_id)[:_SHOWN], _why(hit)
    lines = {"start_line": place.start_line, "end_line": place.end_line} if place.start_line else {}
    about = {"path": path, **lines, "title": title, "score": hit.score, "why": why}
    span = f":{place.start_line}-{place.end_line}" if lines else ""
    return _Part(f"{path}{span} {title} · {hit.score:.2f} · {why}", about, "code", hit.text)


def _why(hit: Hit) -> str:
    words = dict.fromkeys(hit.text[start:end].lower()[:40] for start, end in hit.highlights)
    return f"has {', '.join(list(words)[:_WORDS])}" if words else "near in meaning"


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


def ask_reference(asked: AskReference, service: Service) -> Result:
    """Answers in the reference's words, each with its passage and link."""
    corpus = _corpus(service, "reference", asked.corpus)
    found = answered(QaRequest(question=asked.question, corpus=corpus, k=asked.k), service)
    what = f"{len(found.answers)} answers from {corpus}; answerable {found.answerable:.2f} (low: it may be silent)"
    about = {
        "answerable": found.answerable,
        "corpus": found.corpus,
        "build": found.build,
        "encoder": found.encoder,
        "reader": found.reader,
    }
    first = {
        answer.passage_id: number for number, answer in reversed(list(enumerate(found.answers, 1)))
    }
    parts = [
        _answer(answer, number, first[answer.passage_id])
        for number, answer in enumerate(found.answers, 1)
    ]
    return _fitted(_About(what, about), "answers", parts, asked.max_tokens)


def _answer(answer: Answer, number: int, first: int) -> _Part:
    """A passage is shown with its first answer only."""
    again = first < number
    name = " > ".join([*answer.terms, answer.title])[-_SHOWN:]
    about: dict[str, Any] = {"text": answer.text, "score": answer.score, "of": name}
    head = f"{json.dumps(answer.text, ensure_ascii=False)} ({answer.score:.2f}) · {name}"
    if answer.url:
        about, head = about | {"url": answer.url}, f"{head} · {answer.url}"
    if again:
        return _Part(f"{head} · passage of {first}", about | {"passage_of": first})
    return _Part(head, about, "passage", answer.passage, answer.start)


# ---- classify


class Classify(Strict):
    """Arguments of `classify`."""

    texts: list[Annotated[str, Field(max_length=MAX_TEXT_CHARS)]] = Field(
        min_length=1, max_length=MAX_TEXTS, description="The texts, each at most a few paragraphs."
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


def classify(asked: Classify, service: Service) -> Result:
    """The best label of each text."""
    found = classified(ClassifyRequest(**asked.model_dump(exclude={"max_tokens"})), service)
    parts = []
    for result in found.results:
        best = [{"label": one.label, "score": round(one.score, 4)} for one in result.ranking[:3]]
        head = ", ".join(f"{one['label']} {one['score']:.2f}" for one in best)
        parts.append(
            _Part(head, {"label": result.label, "margin": round(result.margin, 4), "ranking": best})
        )
    about = {"encoder": found.encoder} | (
        {"classifier": found.classifier} if found.classifier else {}
    )
    what = f"{len(parts)} texts, the best labels of each"
    if found.warnings:
        what = f"{what}. {found.warnings[0][:_SHOWN]}"
    return _fitted(_About(what, about), "results", parts, asked.max_tokens)


# ---- which corpus


def _corpus(service: Service, kind: Kind, given: str | None) -> str:
    """The corpus to ask: what was given, or the only one of its kind. Raises InvalidInput that lists them."""
    if given is not None:
        opened = service.corpora.status(given).opened
        if opened is not None and opened.manifest.kind != kind:
            listed = ", ".join(_names(service, kind)[:_NAMES]) or "none"
            raise InvalidInput(
                f"Corpus {given!r} is of kind {opened.manifest.kind}. Those of kind {kind}: {listed}.",
                field="corpus",
            )
        return given
    names = _names(service, kind)
    if not names:
        raise NotFound(f"This server has no corpus of kind {kind}.", field="corpus")
    if len(names) > 1:
        raise InvalidInput(
            f"There are several: set `corpus` to one of {', '.join(names[:_NAMES])}.",
            field="corpus",
        )
    return names[0]


def _names(service: Service, kind: Kind) -> list[str]:
    statuses = service.corpora.statuses()
    if any(status.state == "opening" for status in statuses):
        raise Opening("Corpora are still being opened: try again in a moment.", field="corpus")
    return [
        one.name for one in statuses if one.opened is not None and one.opened.manifest.kind == kind
    ]


# ---- fitting a result into its budget


@dataclass(frozen=True, slots=True)
class _About:
    """What comes first: a line or two, and the same for JSON."""

    text: str
    structured: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Part:
    """One hit, answer or result: what is shown whole, and a text, by name, that is cut around `at` where needed."""

    head: str
    about: Mapping[str, Any]
    name: str = ""
    text: str = ""
    at: int = 0

    def fixed(self) -> int:
        """Bytes of all but the text."""
        return max(_size(self.head), _size(self.about)) + len(self.name) + 20


def _fitted(about: _About, name: str, parts: Sequence[_Part], max_tokens: int) -> Result:
    """All parts that find room, best first. Their texts share what is left: short ones whole, long ones cut alike."""
    room = (
        max_tokens * BYTES_PER_TOKEN - max(_size(about.text), _size(about.structured)) - 2 * _MARK
    )
    kept: list[_Part] = []
    for part in parts:
        if part.fixed() > room:
            break
        room -= part.fixed()
        kept.append(part)
    level = _level([_size(part.text) + _MARK for part in kept if part.text], room)
    shown = [_cut(part, level - _MARK) for part in kept]
    left = len(parts) - len(kept)
    lines = [about.text, *(f"{number}. {text}" for number, (text, _) in enumerate(shown, 1))]
    lines += [f"{left} more: raise max_tokens."] if left else []
    structured = {**about.structured, name: [found for _, found in shown]} | (
        {"left_out": left} if left else {}
    )
    return Result("\n".join(lines), structured)


def _level(costs: Sequence[int], room: int) -> int:
    """The most that each may take so that all together take no more than `room`."""
    for number, cost in enumerate(sorted(costs)):
        share = room // (len(costs) - number)
        if cost > share:
            return share
        room -= cost
    return max(costs, default=0)


def _cut(part: _Part, room: int) -> tuple[str, dict[str, Any]]:
    """A part as text and as JSON."""
    if not part.text:
        return part.head, dict(part.about)
    start, end = window(part.text, part.at, room)
    text, above, below = (
        part.text[start:end].strip("\n"),
        _left_out(part.text[:start]),
        _left_out(part.text[end:]),
    )
    found = {**part.about, part.name: text} | ({"cut": True} if above or below else {})
    return "\n".join(filter(None, [part.head, above, text, below])), found


def _left_out(text: str) -> str:
    return f"… {len(text.strip().splitlines())} lines" if text.strip() else ""


def window(text: str, at: int, room: int) -> tuple[int, int]:
    """(start, end) of the whole lines around offset `at` that take at most `room` bytes as JSON.

    Where not even the line of `at` finds room it is a part of that line, or nothing where that would tell nothing.
    """
    starts = [0, *(mark.end() for mark in re.finditer("\n", text) if mark.end() < len(text))]
    ends = [*starts[1:], len(text)]
    costs = [_size(text[start:end]) - _QUOTES for start, end in zip(starts, ends, strict=True)]
    first = last = bisect_right(starts, at) - 1
    left = room - _QUOTES - costs[first]
    if left < 0:
        return _part_of_line(text, starts[first], ends[first], at, room)
    grown = True
    while grown:
        grown = False
        for line in (last + 1, first - 1):
            if 0 <= line < len(costs) and costs[line] <= left:
                first, last, left, grown = (
                    min(first, line),
                    max(last, line),
                    left - costs[line],
                    True,
                )
    return starts[first], ends[last]


def _part_of_line(text: str, start: int, end: int, at: int, room: int) -> tuple[int, int]:
    width = room
    while width >= _LEAST:
        begin = max(start, min(at - width // 4, end - width))
        if _size(text[begin : min(end, begin + width)]) <= room:
            return begin, min(end, begin + width)
        width = width * 3 // 4
    return at, at


def _size(value: Any) -> int:
    """Bytes as JSON, which are never fewer than those of a text as it is. A half surrogate pair counts as one."""
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
        f"Choose a label for each of up to {MAX_TEXTS} texts at once: by the names of the labels, or by a trained "
        "classifier. Use it to sort, route or filter many texts (tickets, reviews, log lines) without reading each. "
        "Labels work best as plain words that say what they mean. Not for a text that you have read anyway, or for "
        "extracting facts; only the beginning of long texts counts, a few hundred tokens.",
        Classify,
        classify,
    ),
)
