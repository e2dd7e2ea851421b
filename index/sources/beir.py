"""Read a BEIR corpus as documents of any kind.

BEIR's corpora are JSON Lines, maybe gzipped, whose records have `_id`, `title` and `text`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from purlin.index import versions
from purlin.index.errors import InvalidInput
from purlin.index.records import Document, Kind, Location, Skipped, SourceFile, Value
from purlin.index.sources.encodings import valid_text
from purlin.index.sources.files import file_stamp, unchanged
from purlin.index.sources.parts import cut, part_files
from purlin.index.sources.tables import Row, identified, read_rows
from purlin.index.storage.digests import DigestMap, digest

CORPUS_SUFFIXES = (".jsonl", ".jsonl.gz")
MAX_ID_CHARS = 2000
MAX_RECORD_FIELDS = 500
MAX_RECORD_NESTING = 8
PEEK_ROWS = 20

# The other keys of a record become fields.
_TEXT_KEYS = frozenset({"_id", "title", "text"})

_Rows = Callable[[], Iterator[Row | Skipped]]


def is_corpus(path: Path) -> bool:
    """Whether a file is a BEIR corpus: JSON Lines whose first record has an `_id`."""
    if not path.name.lower().endswith(CORPUS_SUFFIXES) or not path.is_file():
        return False

    # `files` reports what is wrong with a file that cannot be read.
    rows = islice(read_rows(path, path.name), PEEK_ROWS)
    return "_id" in next((row.record for row in rows if isinstance(row, Row)), ())


def files(path: Path, kind: Kind) -> Iterator[SourceFile | Skipped]:
    """Yield the corpus as one file whose documents are of `kind`, or a `Skipped` if unreadable.

    A long one comes in parts, see `purlin.index.sources.parts`.
    """
    if kind == "product":
        # Before the build begins: lxml loses a Ctrl-C that comes while it is being imported.
        from purlin.index.sources.products import records  # noqa: F401

    return _files(path, kind)


def _files(path: Path, kind: Kind) -> Iterator[SourceFile | Skipped]:
    before, name = file_stamp(path), path.name
    try:
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        yield Skipped(name, f"cannot be read: {error.strerror}")
        return

    def digest_of(content: str) -> str:
        # `_product_document` goes through the reader of catalogues.
        facts = f"beir {versions.BEIR} {versions.CATALOGUES} {kind} {name} {content}"
        return hashlib.sha256(facts.encode()).hexdigest()

    def read(rows: _Rows) -> Iterator[Document | Skipped]:
        return unchanged(_read(rows(), name, kind), path, name, before)

    rows = partial(read_rows, path, name)
    parts = cut(identified(row, _id) for row in rows())
    if not parts:
        yield SourceFile(name, digest_of(content), partial(read, rows))
        return
    yield from part_files(name, parts, rows, read, digest_of)


def _read(rows: Iterator[Row | Skipped], name: str, kind: Kind) -> Iterator[Document | Skipped]:
    """Documents of a file's rows; a broken row is a `Skipped` with its line number."""
    ids = DigestMap()
    for row in rows:
        if isinstance(row, Skipped):
            yield row
            continue

        try:
            document = _document(row.record, kind)
            key = digest(document.id)
            if ids.get(key) is not None:
                raise InvalidInput(f"the _id {document.id!r} was used before")
        except InvalidInput as error:
            yield Skipped(name, error.message, row.number)
        else:
            ids.add(key, row.number)
            yield document


def _document(record: Mapping[str, Any], kind: Kind) -> Document:
    return _product_document(record) if kind == "product" else _text_document(record, kind)


def _product_document(record: Mapping[str, Any]) -> Document:
    """The document that a catalogue's record gives, with its brand and attributes."""
    from purlin.index.sources.products import records

    id_ = _id(record)
    return replace(records.from_record(record), id=id_)


def _text_document(record: Mapping[str, Any], kind: Kind) -> Document:
    id_, title, body = _id(record), _text(record, "title"), _text(record, "text")
    if not title and not body:
        raise InvalidInput("neither a title nor a text")
    valid_text(json.dumps(record, ensure_ascii=False))

    fields = _flatten({name: value for name, value in record.items() if name not in _TEXT_KEYS})
    return Document(
        id=id_,
        kind=kind,
        title=title,
        body=body,
        summary=_summary(record, body) if kind == "code" else "",
        context=_context_terms(record) if kind == "reference" else (),
        location=_location(record, id_),
        fields=fields,
    )


def _id(record: Mapping[str, Any]) -> str:
    id_ = record.get("_id")
    if isinstance(id_, bool) or not isinstance(id_, str | int) or id_ == "":
        raise InvalidInput("no _id, or one that is neither text nor a whole number")
    if len(str(id_)) > MAX_ID_CHARS:
        raise InvalidInput(f"the _id is longer than {MAX_ID_CHARS} characters")
    return str(id_)


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInput(f"{name} is not text")
    return str(value)


def _summary(record: Mapping[str, Any], body: str) -> str:
    """The docstring, unless the code contains it (white space aside)."""
    docstring = record.get("docstring")
    if not isinstance(docstring, str) or " ".join(docstring.split()) in " ".join(body.split()):
        return ""
    return docstring.strip()


def _context_terms(record: Mapping[str, Any]) -> tuple[str, ...]:
    terms = record.get("terms")
    if not isinstance(terms, list):
        return ()
    return tuple(term for term in terms if isinstance(term, str))


def _location(record: Mapping[str, Any], id_: str) -> Location:
    path, url = record.get("path"), record.get("url")
    if not isinstance(url, str):
        url = id_ if id_.startswith(("http://", "https://")) else None

    start, end = _line_number(record, "start"), _line_number(record, "end")
    return Location(path if isinstance(path, str) else None, start, end, url)


def _line_number(record: Mapping[str, Any], edge: str) -> int | None:
    values = (record.get(f"{edge}_line"), record.get(edge))
    # type() rather than isinstance(): True is an int, but no line number.
    return next((value for value in values if type(value) is int and 0 < value < 2**31), None)


def _flatten(record: Mapping[str, Any], prefix: str = "", depth: int = 1) -> dict[str, Value]:
    """Turn a JSON object into filterable fields.

    Nested names are joined with dots, items of lists become text, nulls are dropped. Raises
    InvalidInput beyond `MAX_RECORD_FIELDS` fields or `MAX_RECORD_NESTING` levels.
    """
    if depth > MAX_RECORD_NESTING:
        raise InvalidInput(f"fields nest deeper than {MAX_RECORD_NESTING} levels")

    fields: dict[str, Value] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            fields |= _flatten(value, f"{prefix}{name}.", depth + 1)
        elif isinstance(value, list):
            fields[prefix + name] = tuple(_item(item) for item in value if item is not None)
        elif value is not None:
            fields[prefix + name] = _scalar(value)

    if len(fields) > MAX_RECORD_FIELDS:
        raise InvalidInput(f"more than {MAX_RECORD_FIELDS} fields")

    return fields


def _scalar(value: str | int | float | bool) -> str | int | float | bool:
    """The value, or its text if it is a number that a filter or JSON cannot hold."""
    is_storable = True
    if isinstance(value, int):
        is_storable = -(2**63) <= value < 2**63
    elif isinstance(value, float):
        is_storable = math.isfinite(value)

    return value if is_storable else str(value)


def _item(item: Any) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
