"""What a segment stores of one document: a record of two lines of JSON, and what names it.

The first line has what ranking needs of every candidate, and is read alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from purlin.index.records import Document, Kind, Location, Passage, Skipped, Span, printable
from purlin.index.search.lexical.tokens import distinct_tokens
from purlin.index.search.store.filters import ANY_CASE, Scalar, filterable
from purlin.index.search.store.names import hash_of
from purlin.index.texts.passages import path_text


class Head(NamedTuple):
    """What names a document. `path` is that of its file; None for records of a list.

    `title_tokens` and `path_tokens` are the distinct tokens of both, separated by spaces.
    """

    id: str
    title: str
    path: str | None
    title_tokens: str
    path_tokens: str


class Entry(NamedTuple):
    """What a store writes of a document. `path` is empty for a record of a list.

    `lengths` are those of its passages in characters, `digests` those of their rendered texts.
    """

    record: bytes
    lengths: Sequence[int]
    id_hash: int
    title_hash: int
    path: str
    fields: Sequence[tuple[str, Scalar]]
    digests: Sequence[bytes]


def entry_of(document: Document, passages: Iterable[tuple[Passage, bytes]]) -> Entry:
    """Return the entry of a document with its passages and the digests of their rendered texts.

    Raises UnicodeEncodeError.
    """
    listed = list(passages)
    any_case = document.kind in ANY_CASE

    return Entry(
        _record(document, [passage for passage, _ in listed]),
        [passage.end - passage.start for passage, _ in listed],
        hash_of(document.id),
        hash_of(folded_title(document.title)),
        path_of(document),
        list(filterable(document.fields, any_case=any_case)),
        [digest for _, digest in listed],
    )


def storable(skipped: Skipped) -> tuple[str, str, int | None, bool]:
    """Return the columns of what was skipped, its texts such that they can be stored."""
    return printable(skipped.path), printable(skipped.reason), skipped.line, skipped.by_choice


def folded_title(title: str) -> str:
    """Return the title in lower case, as far as it is ASCII."""
    return title.translate(_LOWER)


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def json_line(value: object) -> bytes:
    """Return a value as one line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _record(document: Document, passages: Sequence[Passage]) -> bytes:
    location = document.location
    path = path_of(document)
    names = distinct_tokens(document.title), _path_tokens(path)
    head = [document.id, document.title, len(path), *names]

    values = {
        "body": document.body,
        "summary": document.summary,
        "context": document.context,
        "location": [location.path, location.start_line, location.end_line, location.url],
        "fields": dict(document.fields),
        "atoms": [(span.start, span.end) for span in document.atoms],
        "around": document.around,
        "passages": [
            (passage.number, passage.start, passage.end, passage.context) for passage in passages
        ],
    }

    return json_line(head) + json_line({key: value for key, value in values.items() if value})


# The documents of a file follow each other.
@lru_cache(maxsize=16)
def _path_tokens(path: str) -> str:
    return distinct_tokens(path_text(path))


def path_of(document: Document) -> str:
    """Path of the document's file, which its id begins with; empty for a record of a list."""
    path = document.location.path or ""
    return path if document.id.startswith(f"{path}::") else ""


def parse_texts(content: bytes) -> list[str]:
    """Return the lines of each passage of a record: its text and, of the first one, those around.

    Nothing else of the record is read. Raises as `parse_record`.
    """
    record = json.loads(content[content.index(b"\n") :].decode())
    body = record.get("body", "")
    texts = [body[start:end] for _, start, end, *_ in record.get("passages", ())]
    if around := [lines for _, lines in record.get("around", ())]:
        texts[0] = "\n".join([texts[0], *around])
    return texts


def parse_record(content: bytes, kind: Kind) -> tuple[Document, Sequence[Any]]:
    """Return the document of a record, and the columns of its passages.

    Raises ValueError, KeyError, TypeError or AttributeError for what is no record.
    """
    head, _, rest = content.partition(b"\n")
    identifier, title, *_ = json.loads(head)
    record = json.loads(rest)

    fields = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record.get("fields", {}).items()
    }

    document = Document(
        id=identifier,
        kind=kind,
        title=title,
        body=record.get("body", ""),
        summary=record.get("summary", ""),
        context=tuple(record.get("context", ())),
        location=Location(*record["location"]),
        fields=fields,
        atoms=tuple(Span(*span) for span in record.get("atoms", ())),
        around=tuple((first, lines) for first, lines in record.get("around", ())),
    )

    return document, record.get("passages", ())
