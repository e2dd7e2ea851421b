"""Tools for agents: their arguments, what they say of themselves, and their results.

A tool works on a `Backend`: the corpora of a server, or a workspace and the corpora of a home. Each
result names the corpus, build and encoder it comes from, marks what has changed since, and fits
into a budget of tokens (see `purlin.app.budget`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

from pydantic import Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema

from purlin.app.budget import (
    DEFAULT_TOKENS,
    MAX_TOKENS,
    MIN_TOKENS,
    Head,
    Part,
    Result,
    fit,
    fit_lines,
)
from purlin.app.errors import explain, listed
from purlin.app.fields import (
    MAX_TEXT_CHARS,
    MAX_VALUE_CHARS,
    Conditions,
    CorpusName,
    Labels,
    Strict,
    Text,
)
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.qa.ask import UNLIKELY
from purlin.index.records import Answer, Content, Hit, Kind, Location
from purlin.index.search.corpus import Corpus
from purlin.index.search.filters import beginning_with
from purlin.index.search.limits import MAX_QUERY_CHARS
from purlin.index.search.several import MAX_CORPORA
from purlin.index.search.snippets import first_line, telling_row
from purlin.index.search.why import relevant, why
from purlin.replies import ClassifyReply, DocumentReply, QaReply, SearchReply

if TYPE_CHECKING:
    from purlin.app.open_builds import OfKind

MAX_HITS = 20
MAX_TEXTS_PER_CALL = 100
MAX_ID_CHARS = 2_000
_MAX_SHOWN = 200  # characters of a title, path or link
_MAX_NOTES = 400  # characters on what is not indexed
_MAX_FIELDS = 12  # fields of a product that are shown
_MAX_VARIANTS = 5  # variants of a product whose ids are shown
_TELLING_ROWS = 16  # of long code, so many rows that say most about the query are in the middle
_PLACE = re.compile(r"(?P<path>.+):(?P<line>[1-9]\d{0,8})(?:-\d{1,9})?")
_LINES = r"[1-9]\d{0,8}(-[1-9]\d{0,8})?"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, which stands for the innermost document that has it."""

    path: str
    line: int


_Reply = TypeVar("_Reply", SearchReply, QaReply)

# A document's id, or its place.
Where = str | Place


def document_id(corpus: Corpus, where: Where) -> str:
    """Id of the document at a place; an id is returned as it is. Raises NotFound."""
    return corpus.document_at(where.path, where.line).id if isinstance(where, Place) else where


class Backend(Protocol):
    """What the tools work on."""

    def of_kind(self, kind: Kind) -> OfKind:
        """Corpora of a kind that can be searched, and which cannot be now. Raises Opening."""
        ...

    def default(self, kind: Kind) -> str | None:
        """Corpus that a call means if it names none, whatever others there are."""
        ...

    def kind(self, corpus: str) -> Kind | None:
        """Kind of a corpus; None while that is not known. Raises NotFound."""
        ...

    def relative(self, corpus: str, path: str) -> str:
        """Path of a file or folder as the corpus writes it. Raises InvalidInput for one outside."""
        ...

    def search(
        self,
        corpora: Sequence[str],
        query: str,
        k: int,
        filter: Mapping[str, Any],
        content: Content,
    ) -> SearchReply:
        """Hits of one or several corpora, with their explanations.

        `content` matters where documents say what they are.
        """
        ...

    def related(self, corpus: str, where: Where, k: int) -> SearchReply:
        """Documents near one, nearest first, without itself. Raises NotFound."""
        ...

    def document(self, corpus: str, where: Where) -> DocumentReply:
        """A whole document. Raises NotFound."""
        ...

    def unread(self, corpus: str, beginning: str) -> str | None:
        """Which files whose path begins so are not indexed, and why; None if all are."""
        ...

    def ask(self, corpus: str, question: str, k: int) -> QaReply:
        """Answers from a reference. Raises NotFound without a reader."""
        ...

    def classify(
        self,
        texts: list[str],
        labels: list[str] | None,
        classifier: str | None,
        *,
        multi_label: bool,
        transductive: bool,
    ) -> ClassifyReply:
        """Labels of texts, by the names of labels or by a trained classifier."""
        ...


_Path = Annotated[str, Field(max_length=MAX_VALUE_CHARS - 1)]  # as a beginning it is one longer
_Corpus = CorpusName | None
Budget = Field(
    default=DEFAULT_TOKENS,
    ge=MIN_TOKENS,
    le=MAX_TOKENS,
    description="The result has at most about so many tokens.",
)
K = Field(default=5, ge=1, le=MAX_HITS, description="Hits at most.")
DocumentId = Field(
    min_length=1,
    max_length=MAX_ID_CHARS,
    description="A hit's path:line, or a document's id.",
    examples=["src/app.py:120", "src/app.py::App.run"],
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: `scope` is what a key needs; `description` says when to use it and when not."""

    name: str
    title: str
    scope: str
    description: str
    arguments: type[Strict]
    call: Callable[[Any, Backend], Result]

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, without titles and null defaults, which only cost tokens."""
        schema = self.arguments.model_json_schema(schema_generator=_Untitled)
        for key in ("title", "description"):
            schema.pop(key, None)

        for details in schema["properties"].values():
            if details.get("default", 0) is None:
                del details["default"]
        return schema

    def run(self, arguments: Mapping[str, Any], backend: Backend) -> Result:
        """Check the arguments and call the tool. Raises PurlinError."""
        try:
            checked = self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            # Locations begin with the part of the request, as FastAPI has them.
            errors = [{**details, "loc": ("body", *details["loc"])} for details in error.errors()]
            raise InvalidInput(explain(errors)[0]) from None
        return self.call(checked, backend)


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: CoreSchema | Any) -> bool:
        return False

    def nullable_schema(self, schema: Any) -> Any:
        """Leave null out: an agent that has no value leaves the argument out."""
        return self.generate_inner(schema["schema"])


# ---- search_code


class SearchCode(Strict):
    """Arguments of `search_code`."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="What the code does, in plain words, or a name.",
        examples=["read rows from a csv file", "retry with backoff"],
    )
    corpus: _Corpus = Field(default=None, description="One code base of several [default: all].")
    path: _Path | None = Field(
        default=None, description="Only files whose path begins so: a folder, or a whole path."
    )
    without_path: _Path | None = Field(default=None, description="Files to leave out: tests/.")
    language: Text | None = Field(
        default=None, description="Only this language.", examples=["python", "go"]
    )
    content: Content = Field(
        default="code", description="What is searched: docs are READMEs and other prose."
    )
    k: int = K
    max_tokens: int = Budget


def search_code(arguments: SearchCode, backend: Backend) -> Result:
    """Find code: hits with path and lines, why they match, and their text."""
    corpora, left_out = _corpora(backend, "code", arguments.corpus)
    conditions: dict[str, Any] = {}
    if arguments.language:
        conditions["language"] = arguments.language
    paths: dict[str, Any] = {}
    if arguments.path and (path := backend.relative(corpora[0], arguments.path)):
        paths |= beginning_with(path)
    if arguments.without_path and (path := backend.relative(corpora[0], arguments.without_path)):
        paths["not"] = beginning_with(path)
    if paths:
        conditions["path"] = paths

    reply = backend.search(corpora, arguments.query, arguments.k, conditions, arguments.content)
    reply = _with_left_out(reply, left_out)
    if conditions and not reply.hits:
        return _nothing_passes(arguments, corpora, reply, backend)
    return _code_hits(reply, arguments.max_tokens, query=arguments.query)


def _nothing_passes(
    arguments: SearchCode, corpora: Sequence[str], reply: SearchReply, backend: Backend
) -> Result:
    """A result without hits, which says what to change about the path and the language."""
    filters = [
        f"{name} {value[:_MAX_SHOWN]}"
        for name, value in (
            ("language", arguments.language),
            ("path", arguments.path),
            ("without_path", arguments.without_path),
        )
        if value
    ]
    advice = "leave it out" if len(filters) == 1 else "leave one of them out"
    if arguments.content != "all":
        advice += ', or search content "all"'
    text = f"Nothing in {_names(reply)} fits {' and '.join(filters)}: {advice}."
    if arguments.path:
        beginning = backend.relative(corpora[0], arguments.path)
        notes = (backend.unread(corpus, beginning) for corpus in corpora)
        text += "".join(f" {note}." for note in notes if note)[:_MAX_NOTES]
    if arguments.language:
        nearest = backend.search(corpora, arguments.query, MAX_HITS, {}, arguments.content)
        languages = sorted({str(hit.fields.get("language", "")) for hit in nearest.hits} - {""})
        text += f" Languages of the nearest hits: {', '.join(languages)[:_MAX_SHOWN] or 'none'}."
    head = _warned(Head(text, _origin_fields(reply)), reply)
    return fit(lambda _: head, "hits", [], arguments.max_tokens)


def _code_hits(
    reply: SearchReply, max_tokens: int, *, query: str = "", near: str | None = None
) -> Result:
    """Hits in code as a result, those in files that have changed since marked."""
    reply = _without_unlike(reply)
    changed = {(hit.corpus, hit.location.path) for hit in reply.hits if hit.stale}
    parts = [_code_part(query, hit) for hit in reply.hits]
    return fit(
        lambda count: _search_head(reply, count, near, len(changed)), "hits", parts, max_tokens
    )


def _without_unlike(reply: SearchReply) -> SearchReply:
    """The reply without hits that have nothing in common with the query."""
    return replace(reply, hits=tuple(relevant(reply.hits)))


def _search_head(reply: SearchReply, count: int, near: str | None = None, changed: int = 0) -> Head:
    """The head of a result that shows the first `count` hits."""
    shown = reply.hits[:count]
    if not shown:
        return _warned(Head(f"Nothing in {_names(reply)} fits.", _origin_fields(reply)), reply)

    total = "1 hit" if len(reply.hits) == 1 else f"{len(reply.hits)} hits"
    subject = f" near {near[:_MAX_SHOWN]}" if near else ""
    text = f"{total}{subject} in {_origin_text(reply, shown)}"
    structured = _origin_fields(reply, shown)
    if changed:
        text += f"; files changed since: {changed}, read these before you rely on them"
        structured["changed_files"] = changed
    return _warned(Head(text, structured), reply)


def _warned(head: Head, reply: SearchReply | QaReply) -> Head:
    """Add what limits the reply, such as that only one of two retrievers answered."""
    if isinstance(reply, SearchReply) and reply.corrected is not None:
        corrected = reply.corrected[:_MAX_SHOWN]
        text = f"{head.text}. Searched for {corrected!r}"
        head = Head(text, {**head.structured, "corrected": corrected})
    if reply.warning is None:
        return head
    warning = reply.warning[:_MAX_SHOWN]
    return Head(f"{head.text}. {warning}", {**head.structured, "warning": warning})


def _origins(reply: SearchReply | QaReply, shown: Sequence[Hit]) -> list[dict[str, Any]]:
    """Corpus, build and encoder of the corpus that a reply is of; of several, those of `shown`."""
    searched: Sequence[Any] = [reply]
    if isinstance(reply, SearchReply) and reply.corpora:
        names = {hit.corpus for hit in shown}
        searched = [each for each in reply.corpora if each.corpus in names]
    return [
        {"corpus": each.corpus, "build": each.build, "encoder": each.encoder} for each in searched
    ]


def _origin_fields(reply: SearchReply | QaReply, shown: Sequence[Hit] = ()) -> dict[str, Any]:
    """The origins as JSON."""
    origins = _origins(reply, shown)
    if isinstance(reply, SearchReply) and reply.corpora:
        return {"corpora": origins}
    return origins[0]


def _origin_text(reply: SearchReply | QaReply, shown: Sequence[Hit] = ()) -> str:
    """The origins as text."""
    return ", ".join(
        f"{origin['corpus']} (build {origin['build']}, {origin['encoder']})"
        for origin in _origins(reply, shown)
    )


def _names(reply: SearchReply) -> str:
    """Names of all corpora that were searched, as many as a line takes."""
    names = [str(each.corpus) for each in reply.corpora or [reply]]
    line = ", ".join(names)
    return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}… ({len(names)} corpora)"


def _code_part(query: str, hit: Hit) -> Part:
    path, lines, span = _place(hit.location, hit.document_id)
    title = hit.title[:_MAX_SHOWN]
    reason = _reason(query, hit)

    fields: dict[str, Any] = {
        "path": path,
        **lines,
        "title": title,
        "score": hit.score,
        "why": reason,
    }
    head = f"{path}{span} {title} · {hit.score:.2f} · {reason}"
    if hit.corpus:
        fields["corpus"] = hit.corpus
        head = f"{hit.corpus}: {head}"
    if hit.stale:
        fields["changed"] = True
        head = f"{head} · CHANGED since"
    return Part(head, fields, "code", hit.text, _focus(query, hit.text), first_line(hit))


def _focus(query: str, code: str) -> int:
    """The offset of the middle of the lines that say most about the query; 0 is the beginning."""
    row = telling_row(query, code, _TELLING_ROWS)
    lines = code.split("\n")[: row + _TELLING_ROWS // 2 if row else 0]
    return sum(len(line) + 1 for line in lines)


def _place(location: Location, document_id: str) -> tuple[str, dict[str, Any], str]:
    """Path, lines as fields, and lines as text (`:1-3`) of a document."""
    path = (location.path or document_id)[:_MAX_SHOWN]
    if not location.start_line:
        return path, {}, ""
    lines = {"start_line": location.start_line, "end_line": location.end_line}
    return path, lines, f":{location.start_line}-{location.end_line}"


def _reason(query: str, hit: Hit) -> str:
    """Why a hit matches, as people read it; words of a query can be of any length."""
    return why(query, hit)[:_MAX_SHOWN]


# ---- find_related


class FindRelated(Strict):
    """Arguments of `find_related`."""

    id: str = DocumentId
    corpus: _Corpus = Field(default=None, description="The corpus of the hit.")
    k: int = K
    max_tokens: int = Budget


def find_related(arguments: FindRelated, backend: Backend) -> Result:
    """Find the code that is nearest in meaning to a given function or class."""
    corpus = _any_corpus(backend, arguments.corpus)
    reply = backend.related(corpus, _where(backend, corpus, arguments.id), arguments.k)
    return _code_hits(reply, arguments.max_tokens, near=arguments.id)


def _where(backend: Backend, corpus: str, identifier: str) -> Where:
    """The place that `path:line` or `path:first-last` means in code; anything else is an id."""
    match = _PLACE.fullmatch(identifier)
    # Ids of products and of sections may look like places.
    if match is None or backend.kind(corpus) != "code":
        return identifier
    return Place(backend.relative(corpus, match["path"]), int(match["line"]))


# ---- read_document


class ReadDocument(Strict):
    """Arguments of `read_document`."""

    id: str = DocumentId
    lines: str | None = Field(
        default=None,
        max_length=20,
        pattern=f"^{_LINES}$",
        description="Of the document's text, counted from 1.",
        examples=["1-80"],
    )
    corpus: _Corpus = Field(default=None, description="The corpus of the hit.")
    max_tokens: int = Budget


def read_document(arguments: ReadDocument, backend: Backend) -> Result:
    """Read a whole document, or some of its lines, as it was indexed."""
    corpus = _any_corpus(backend, arguments.corpus)
    reply = backend.document(corpus, _where(backend, corpus, arguments.id))
    lines = reply.body.split("\n")
    first, last = _line_range(arguments.lines, len(lines))
    head = _document_head(reply, corpus, len(lines))
    return fit_lines(head, lines, first, last, arguments.max_tokens)


def _document_head(reply: DocumentReply, corpus: str, total_lines: int) -> Head:
    path, location, span = _place(reply.location, reply.id)
    identifier, title = reply.id[:_MAX_SHOWN], reply.title[:_MAX_SHOWN]
    # What the id ends or begins with is not said again.
    names = {}
    if not f"{identifier}::".startswith(f"{path}::"):
        names["path"] = path
    if not f"::{identifier}".endswith(f"::{title}"):
        names["title"] = title

    text = f"{path}{span} {title} · {corpus} (build {reply.build})"
    return Head(
        f"{text} · CHANGED since" if reply.stale else text,
        {
            "id": identifier,
            **names,
            **location,
            "corpus": corpus,
            "build": reply.build,
            "changed": bool(reply.stale),
            "total_lines": total_lines,
        },
    )


def _line_range(lines: str | None, total: int) -> tuple[int, int]:
    """First and last line, from 1; all without a range. Raises InvalidInput."""
    if lines is None:
        return 1, total
    first_text, _, last_text = lines.partition("-")
    first, last = int(first_text), int(last_text or first_text)
    if not first <= last or first > total:
        raise InvalidInput(
            f"lines is {lines}; give FIRST-LAST within 1-{total}, the lines of this document.",
            field="lines",
        )
    return first, min(last, total)


# ---- search_products


class SearchProducts(Strict):
    """Arguments of `search_products`."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="What is wanted, as a shopper says it.",
    )
    corpus: _Corpus = Field(default=None, description="One catalogue of several [default: all].")
    filter: Conditions = Field(
        default={},
        description='Field -> a value, a list (any of them), {"gte": …, "lte": …}, or {"not": one of these}.',
        examples=[{"price": {"lte": 20}, "brand": {"not": "Acme"}}],
    )
    k: int = K
    max_tokens: int = Budget


def search_products(arguments: SearchProducts, backend: Backend) -> Result:
    """Find products: hits with id, title, fields and description."""
    corpora, left_out = _corpora(backend, "product", arguments.corpus)
    reply = backend.search(corpora, arguments.query, arguments.k, arguments.filter, "all")
    reply = _without_unlike(_with_left_out(reply, left_out))
    parts = [_product_part(arguments.query, hit) for hit in reply.hits]
    return fit(lambda count: _search_head(reply, count), "hits", parts, arguments.max_tokens)


def _product_part(query: str, hit: Hit) -> Part:
    shown = {name: value for name, value in hit.fields.items() if len(str(value)) <= _MAX_SHOWN}
    shown = dict(list(shown.items())[:_MAX_FIELDS])
    title, reason = hit.title[:_MAX_SHOWN], _reason(query, hit)

    identifier = hit.document_id[:_MAX_SHOWN]
    values = ", ".join(f"{name}={value}" for name, value in shown.items())
    head = f"{identifier} {title} · {hit.score:.2f} · {reason} · {values}".removesuffix(" · ")
    fields = {
        "id": identifier,
        "title": title,
        "score": hit.score,
        "why": reason,
        "fields": shown,
    }
    if hit.variants:
        variants = [variant.id[:_MAX_SHOWN] for variant in hit.variants[:_MAX_VARIANTS]]
        fields["variants"] = variants
        head += f" · variants: {', '.join(variants)}"
    if hit.corpus:
        fields["corpus"] = hit.corpus
        head = f"{hit.corpus}: {head}"
    return Part(head, fields, "text", hit.text)


# ---- ask_reference


class AskReference(Strict):
    """Arguments of `ask_reference`."""

    question: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="One question in plain words.",
        examples=["What is the default step of range?"],
    )
    corpus: _Corpus = Field(
        default=None, description="Needed only where several references are indexed."
    )
    k: int = Field(default=3, ge=1, le=MAX_HITS, description="Answers at most.")
    max_tokens: int = Budget


def ask_reference(arguments: AskReference, backend: Backend) -> Result:
    """Answer a question in the reference's words, each answer with its passage and link."""
    corpora, left_out = _corpora(backend, "reference", arguments.corpus)
    corpus = _only(corpora)
    reply = _with_left_out(backend.ask(corpus, arguments.question, arguments.k), left_out)

    # Answers of one passage refer to the first of them.
    first: dict[str, int] = {}
    stale = {hit.id for hit in reply.hits if hit.stale}
    parts = []
    for number, answer in enumerate(reply.answers, 1):
        first.setdefault(answer.passage_id, number)
        changed = answer.passage_id in stale
        parts.append(_answer_part(answer, number, first[answer.passage_id], changed=changed))

    doubt = " (low: it may be silent)" if reply.answerable < UNLIKELY else ""
    head = Head(
        f"{len(reply.answers)} answers from {_origin_text(reply)}; "
        f"answerable {reply.answerable:.2f}{doubt}",
        {
            "answerable": reply.answerable,
            "answer_type": reply.answer_type,
            **_origin_fields(reply),
            "reader": reply.reader,
        },
    )
    warned = _warned(head, reply)
    return fit(lambda _: warned, "answers", parts, arguments.max_tokens)


def _answer_part(answer: Answer, number: int, first: int, *, changed: bool) -> Part:
    """Answer `number`, with its passage unless answer `first` already shows that."""
    name = " > ".join([*answer.terms, answer.title])[-_MAX_SHOWN:]
    fields: dict[str, Any] = {"text": answer.text, "score": answer.score, "of": name}
    if answer.shown_sentence:
        fields["sentence"] = answer.shown_sentence
    head = f"{json.dumps(answer.text, ensure_ascii=False)} ({answer.score:.2f}) · {name}"
    if answer.url:
        fields["url"] = answer.url
        head = f"{head} · {answer.url}"
    if changed:
        fields["changed"] = True
        head = f"{head} · CHANGED since"

    if first < number:
        return Part(f"{head} · passage of {first}", fields | {"passage_of": first})
    return Part(head, fields, "passage", answer.passage, answer.start)


# ---- classify


class ClassifyTexts(Strict):
    """Arguments of `classify`."""

    texts: list[Annotated[str, Field(max_length=MAX_TEXT_CHARS)]] = Field(
        min_length=1,
        max_length=MAX_TEXTS_PER_CALL,
        description="The texts, each at most a few paragraphs.",
    )
    labels: Labels | None = Field(
        default=None,
        description="Labels to choose from, as plain words; give these or `classifier`.",
    )
    classifier: str | None = Field(
        default=None, max_length=64, description="A trained classifier's name."
    )
    multi_label: bool = Field(default=False, description="Score each of `labels` on its own.")
    transductive: bool = Field(
        default=False,
        description="Let similar texts decide together: for some 100 of one kind, 50 gain nothing. "
        "Not with `classifier` or multi_label.",
    )
    max_tokens: int = Budget


def classify_texts(arguments: ClassifyTexts, backend: Backend) -> Result:
    """Find the best labels of each text."""
    reply = backend.classify(
        arguments.texts,
        arguments.labels,
        arguments.classifier,
        multi_label=arguments.multi_label,
        transductive=arguments.transductive,
    )

    parts = []
    for result in reply.results:
        ranking = [
            {"label": label.label, "score": round(label.score, 4)} for label in result.ranking[:3]
        ]
        text = ", ".join(f"{label['label']} {label['score']:.2f}" for label in ranking)
        fields = {"label": result.label, "margin": round(result.margin, 4), "ranking": ranking}
        parts.append(Part(text, fields))

    structured = {"encoder": reply.encoder}
    if reply.classifier:
        structured["classifier"] = reply.classifier
    text = f"{len(parts)} texts, the best labels of each"
    if reply.warnings:
        text = f"{text}. {reply.warnings[0][:_MAX_SHOWN]}"
    head = Head(text, structured)
    return fit(lambda _: head, "results", parts, arguments.max_tokens)


# ---- choosing a corpus


def _corpora(backend: Backend, kind: Kind, name: str | None) -> tuple[list[str], str | None]:
    """The corpus named in the call, or the default one, or all of its kind.

    If all are meant, also a sentence on those that cannot be searched now. Raises InvalidInput,
    which lists the corpora to choose from, or NotFound.
    """
    if name is not None:
        actual = backend.kind(name)
        if actual not in (kind, None):
            raise InvalidInput(
                f"Corpus {name!r} is of kind {actual}. "
                f"Those of kind {kind}: {listed(backend.of_kind(kind).names) or 'none'}.",
                field="corpus",
            )
        return [name], None

    if (default := backend.default(kind)) is not None:
        return [default], None
    names, left_out = backend.of_kind(kind)
    if not names:
        raise NotFound(f"There is no corpus of kind {kind} here.", field="corpus")
    return (names if len(names) <= MAX_CORPORA else [_only(names)]), left_out


def _with_left_out(reply: _Reply, left_out: str | None) -> _Reply:
    """Warn of what was left out, before what limits the reply itself."""
    return replace(reply, warning=" ".join(filter(None, [left_out, reply.warning])) or None)


def _any_corpus(backend: Backend, name: str | None) -> str:
    """The corpus named in the call, or the one for code, or the only one there is."""
    if name is not None:
        backend.kind(name)
        return name
    if (default := backend.default("code")) is not None:
        return default

    names = backend.of_kind("code").names or [
        name for kind in ("reference", "product") for name in backend.of_kind(kind).names
    ]
    if not names:
        raise NotFound("There is no corpus here.", field="corpus")
    return _only(names)


def _only(names: Sequence[str]) -> str:
    if len(names) > 1:
        raise InvalidInput(
            f"There are several: set `corpus` to one of {listed(names)}.", field="corpus"
        )
    return names[0]


# ---- the tools

TOOLS = (
    Tool(
        "search_code",
        "Search code",
        "search",
        "Find functions, methods and classes in source code by what they do, or by name. Use it to find where "
        "something is implemented or how this code base does a thing, before writing or changing code. Returns path "
        "and lines, why it was found, and the code, best first; for 'who calls NAME', its callers. Not for exact "
        "strings or patterns (grep), for a file whose path you know (read it), or for what documentation says "
        "(ask_reference).",
        SearchCode,
        search_code,
    ),
    Tool(
        "find_related",
        "Find related code",
        "search",
        "Find the code nearest in meaning to a function or class: others like it, its twins in other languages, its "
        "tests. Use it before changing one of several alike places, or to follow a convention. Not for callers or "
        "definitions of a name (search_code).",
        FindRelated,
        find_related,
    ),
    Tool(
        "read_document",
        "Read a document",
        "search",
        "Read a hit whole: a function, a section of documentation, a product. Use it where a result was cut, or where "
        "you cannot read the file itself. Not for files that you can read: their content is newer.",
        ReadDocument,
        read_document,
    ),
    Tool(
        "search_products",
        "Search products",
        "search",
        "Find products in an indexed catalogue by what they are and what they are for, with filters on fields. "
        "Use it for what a shopper asks for. Not for code or documentation.",
        SearchProducts,
        search_products,
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
