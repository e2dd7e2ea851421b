"""The records that travel from source to hit. All are frozen; none knows how it is stored or searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["code", "product", "reference"]
Mode = Literal["hybrid", "dense", "lexical"]
Splitter = Literal["whole", "simple", "structure", "extended"]
Secondary = Literal["demote", "leave-out", "keep"]
Value = str | int | float | bool | tuple[str, ...]
KINDS: tuple[Kind, ...] = ("code", "product", "reference")


MAX_FILTERABLE_CHARS = 256  # of a text; longer ones cannot be filtered on


def is_text(text: str) -> bool:
    """Whether it can be stored and sent: no half of a surrogate pair, such as a byte that is not UTF-8, is in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets into `Document.body`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Location:
    """Where a document came from. Lines count from 1 and include both ends; `url` may carry an anchor."""

    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One searchable thing: a function, a product, a definition.

    `id` is unique in its corpus and the same in every rebuild of unchanged sources.
    `title` is the qualified name, product title, or defined term (or section heading).
    `body` is what is shown and quoted, and the text that all offsets count in: source code as in its file, a
    product's description and bullets, a definition with its signature and examples.
    `summary` is the prose in or about the body: docstring, doc comment, a product's description and bullets without
    its attributes; empty for references, whose body is prose.
    `context` are the enclosing names, outermost first: class, heading path, terms of enclosing definitions.
    `fields` can be filtered on; nested mappings are flattened with dots (`attrs.colour`).
    `entities` are what masked entity prediction masks: identifiers, or nouns that title and body share.
    `atoms` are spans that a splitter never cuts: signatures, code blocks, table rows.
    """

    id: str
    kind: Kind
    title: str
    body: str
    summary: str = ""
    context: tuple[str, ...] = ()
    location: Location = Location()
    fields: Mapping[str, Value] = field(default_factory=dict)
    entities: tuple[Span, ...] = ()
    atoms: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something a reader left out, and why, in words. `line` counts from 1 (a row for tables).

    `passing` says that reading the same content again may go better: time ran out, or the file could not be read.
    """

    path: str
    reason: str
    line: int | None = None
    passing: bool = False


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One unit of a source that is read, or found unchanged, as a whole: a file, or a module for docstrings.

    `path` is relative to the source's root with forward slashes. `digest` changes whenever `read()` would yield
    something else, but for what is `passing`: it covers the content and the reader's version and options.
    """

    path: str
    digest: str
    read: Callable[[], Iterator[Document | Skipped]]


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a document's body that is encoded and returned as one: `document.body[start:end]`.

    `context` is what the splitter puts before the text for the encoder (enclosing terms, a signature); it is not
    part of the body.
    """

    document_id: str
    number: int
    start: int
    end: int
    context: str = ""

    @property
    def id(self) -> str:
        """The document's id, with `#number` from the second passage on."""
        return f"{self.document_id}#{self.number}" if self.number else self.document_id


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result. `score` is in 0-1 and comparable between queries; `scores` has the legs' own.

    `highlights` are (start, end) character offsets into `text`. `explanation` is there when it was asked for: the
    dense leg's weight, what each term of the query adds to the lexical score, the prior, and the earlier query of the
    corpus's log that is nearest.
    """

    id: str
    document_id: str
    rank: int
    score: float
    scores: Mapping[str, float]
    title: str
    text: str
    highlights: tuple[tuple[int, int], ...]
    location: Location
    fields: Mapping[str, Value]
    context: tuple[str, ...] = ()
    explanation: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question: `passage[start:end] == text`, exact words of a document.

    `score` is in 0-1 and comparable between questions. `terms` are the enclosing terms or headings, outermost first,
    `title` the document's own; `url` leads to it.
    """

    text: str
    score: float
    start: int
    end: int
    passage_id: str
    title: str
    terms: tuple[str, ...]
    passage: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class LabelScore:
    """One label and how well it fits, 0-1."""

    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Classification:
    """What was found for one text.

    `label` is the best label, or None where its `score` is below the `min_score` asked for. `margin` is how far the
    best score lies above the second (above 0 where there is one label). `ranking` has the best labels, best first.
    """

    label: str | None
    score: float
    margin: float
    ranking: tuple[LabelScore, ...]
