"""The tool `read_document`: a hit whole, or some of its lines."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from purlin.app.agents.backend import Backend
from purlin.app.agents.budget import Result, fit_lines
from purlin.app.agents.choosing import any_corpus, opened_document
from purlin.app.agents.results import describe_location, limited, one_line
from purlin.app.agents.tool import MAX_SHOWN, Budget, CorpusArgument, DocumentId, Tool
from purlin.app.fields import Strict
from purlin.index.errors import InvalidInput
from purlin.index.records import Document
from purlin.index.search.hits import first_line

_LINES = r"[1-9]\d{0,8}(-[1-9]\d{0,8})?"


class ReadDocument(Strict):
    """Arguments of `read_document`."""

    id: str = DocumentId
    lines: str | None = Field(
        default=None,
        max_length=20,
        pattern=f"^{_LINES}$",
        description="Only these: of code, lines of its file, as hits have them; of anything else, of its text.",
        examples=["120-180"],
    )
    corpus: CorpusArgument = Field(default=None, description="The corpus of the hit.")
    max_tokens: int = Budget


def read_document(arguments: ReadDocument, backend: Backend) -> Result:
    """Read a whole document, or some of its lines, as it was indexed."""
    name = any_corpus(backend, arguments.corpus)
    with opened_document(backend, name, arguments.id) as (opened, document_id):
        corpus, warning = opened
        document = corpus.document(document_id)
        is_changed = bool(backend.changed(corpus, [document.location.path]))
    lines = document.body.split("\n")
    start = first_line(document.location, document.body) or 1
    first, last = _line_range(arguments.lines, start, start + len(lines) - 1)

    origin = {
        "corpus": name,
        "build": corpus.build,
        "changed": is_changed,
        "total_lines": len(lines),
    }
    head = limited(_document_head(document, origin), warning)
    return fit_lines(head, lines, start, first, last, arguments.max_tokens)


def _document_head(document: Document, origin: dict[str, Any]) -> Result:
    path, location, span = describe_location(document.location, document.id)
    identifier, title = document.id[:MAX_SHOWN], document.title[:MAX_SHOWN]
    # What the id ends or begins with is not said again.
    names = {}
    if not f"{identifier}::".startswith(f"{path}::"):
        names["path"] = path
    if not f"::{identifier}".endswith(f"::{title}"):
        names["title"] = title

    text = f"{path}{span} {title} · {origin['corpus']} (build {origin['build']})"
    if origin["changed"]:
        text += " · CHANGED since"
    return Result(one_line(text), {"id": identifier, **names, **location, **origin})


def _line_range(lines: str | None, start: int, end: int) -> tuple[int, int]:
    """First and last of the `lines` that a document from line `start` to `end` has; all without any.

    Raises InvalidInput if it has none of them.
    """
    if lines is None:
        return start, end

    first_text, _, last_text = lines.partition("-")
    first, last = int(first_text), int(last_text or first_text)
    if not first <= last or first > end or last < start:
        raise InvalidInput(
            f"lines is {lines}; give FIRST-LAST within {start}-{end}, the lines of this document.",
            field="lines",
        )

    return max(first, start), min(last, end)


READ_DOCUMENT = Tool(
    "read_document",
    "Read a document",
    "search",
    "Read a hit whole: a function, a section of docs, a product. Use it where a result was cut, or "
    "you cannot read the file. Not for files that you can read: they are newer.",
    ReadDocument,
    read_document,
)
