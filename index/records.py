"""Records that travel from source to hit.

All are frozen, and none knows how it is stored or searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["code", "product", "reference"]
Mode = Literal["hybrid", "dense", "lexical"]
# What a text is to an encoder.
Role = Literal["query", "passage"]
Architecture = Literal["transformer", "static", "ensemble"]
Splitter = Literal["whole", "simple", "structure", "extended"]
Secondary = Literal["demote", "leave-out", "keep"]
Content = Literal["code", "docs", "config", "all"]
Value = str | int | float | bool | tuple[str, ...]
# A file's size in bytes, and when its content or status last changed, in nanoseconds.
Stamp = tuple[int, int]
KINDS: tuple[Kind, ...] = ("code", "product", "reference")

# Ends the name of a file in the path of one of its parts: no file's name has it.
PART = "\0"
# Longer texts cannot be filtered on.
MAX_FILTERABLE_CHARS = 256


def is_text(text: str) -> bool:
    """Whether the text is valid Unicode, so that it can be stored and sent.

    A lone surrogate is not. Python reads one from a byte that is not UTF-8, or from a JSON escape.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """The text with a question mark for each lone surrogate, so that it can be stored and sent."""
    return text.encode(errors="replace").decode()


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets into `Document.body`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Location:
    """Where a document came from.

    Lines count from 1, and both ends are included. `url` may have an anchor.
    """

    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One unit of search: a function, a product, a definition.

    `id` is unique in its corpus and stays the same in every rebuild of unchanged sources.
    `title` is the qualified name, product title, defined term or section heading.
    `body` is the text that is shown and quoted, and that all offsets refer to: source code as in
    its file, a product's description and bullets, a definition with its signature and examples.
    `summary` is the prose in or about the body: docstring, doc comment, a product's description and
    bullets without its attributes. It is empty for references, whose body is prose.
    `context` has the enclosing names, outermost first: classes, headings, enclosing terms.
    `fields` can be filtered on; nested mappings are flattened with dots (`attrs.colour`).
    `atoms` are spans that a splitter never cuts: signatures, code blocks, table rows.
    `around` has lines of its file that are in no document, each block with the number of its first
    line: what stands before this document, or at the end of the file. Only regular expressions find
    them.
    """

    id: str
    kind: Kind
    title: str
    body: str
    summary: str = ""
    context: tuple[str, ...] = ()
    location: Location = Location()
    fields: Mapping[str, Value] = field(default_factory=dict)
    atoms: tuple[Span, ...] = ()
    around: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of a source that a reader skipped, with the reason in words.

    `line` counts from 1; for tables it is the row. `by_choice` marks what could be read, but is left
    out for what it is, such as data among source files. `passing` marks a failure that may not
    repeat with the same content: a time limit, or a file that could not be read. `cut_off` marks
    where a file of records ends too early: all that would follow is lost.
    """

    path: str
    reason: str
    line: int | None = None
    by_choice: bool = False
    passing: bool = field(default=False, kw_only=True)
    cut_off: bool = field(default=False, kw_only=True)

    @property
    def location(self) -> str:
        """The path, and the line if there is one: `feed.csv:12`."""
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A part of a source that is read or reused as a whole: a file, or a module for docstrings.

    `path` is relative to the source's root, with forward slashes; that of a part of a long file
    ends with PART and the part's name. `digest` covers the content and the reader's version and
    options: it changes whenever `read()` would yield anything else, except for failures that are
    `passing`.

    While a file has the `stamp`, it has the same digest. None means that this cannot be relied on:
    the reader does not give stamps, or the file changed so recently that its time may not tell.

    `columns` maps standard columns of products to those of the file that serve as them.
    """

    path: str
    digest: str
    read: Callable[[], Iterator[Document | Skipped]]
    stamp: Stamp | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Passage:
    """A span of a document that is encoded and returned as one: `document.body[start:end]`.

    `context` is what the splitter puts before the text for the encoder, such as enclosing terms. It
    is not part of the body.
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
class Variant:
    """Another hit of a group, such as another size of a product.

    `fields` are those that differ from the fields of the hit that it belongs to.
    """

    id: str
    score: float
    title: str
    fields: Mapping[str, Value]
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result.

    `score` is in 0-1 and comparable between queries; `scores` has those of the single retrievers.
    `highlights` are (start, end) character offsets into `text`. `explanation` is present only on
    request: the weights of the dense score and of feedback in it, what each query term adds to the
    lexical score, the prior, whether a product is an accessory of what the query names, the nearest
    earlier query in the corpus's log and, for the code of a repository, the parts of the score (see
    docs/measures.md). `corpus` is present if several were searched, `stale` is true if the hit's file
    has changed since the build. `variants` are the other hits of its group, best first, where
    `group_by` was given.
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
    corpus: str | None = None
    stale: bool | None = None
    variants: tuple[Variant, ...] | None = None


@dataclass(frozen=True, slots=True)
class SearchedCorpus:
    """One of several corpora of a search: its build, its encoder, and what it can return.

    `reranker` is the model that scored its first hits again, if one did, `corrected` the query as it
    was searched, if that is another spelling.
    """

    corpus: str
    build: str
    encoder: str
    total: int
    reranker: str | None = None
    corrected: str | None = None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Words of a passage: `passage[start:end] == text`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question: `passage[start:end] == text`, exact words of a document.

    `score` is in 0-1 and comparable between questions. `terms` are the enclosing terms or headings,
    outermost first; `title` is the document's own, and `url` leads to it. `sentence` is the one in
    which the answer stands; for an answer outside of all, such as a name in a signature, it is the
    sentence of the passage that fits the question best, or None if the passage has none.
    """

    text: str
    score: float
    start: int
    end: int
    passage_id: str
    title: str
    terms: tuple[str, ...]
    url: str | None = None
    passage: str = ""
    sentence: Excerpt | None = None

    @property
    def shown_sentence(self) -> str:
        """The sentence to show beside the answer; "" if there is none or the answer is all of it."""
        if self.sentence is None or self.sentence.text == self.text:
            return ""
        return self.sentence.text


@dataclass(frozen=True, slots=True)
class LabelScore:
    """A label and how well it fits, in 0-1."""

    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Classification:
    """Labels of one text.

    `label` is the best label, or None if its `score` is below the requested `min_score`. `margin`
    is the best score less the second best (less 0 if there is only one label). `ranking` has the
    best labels, best first. If labels were scored each on its own, `labels` are those that fit:
    that score at least `min_score`, or, if that is 0, 0.5 and a third of the best one's odds.
    """

    label: str | None
    score: float
    margin: float
    ranking: tuple[LabelScore, ...]
    labels: tuple[str, ...] | None = None
