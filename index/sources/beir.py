"""Read a BEIR corpus as documents of any kind.

BEIR's corpora are JSON Lines, maybe gzipped, whose records have `_id`, `title` and `text`.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from purlin.index.errors import InvalidInput
from purlin.index.records import Document, Kind, Location, Skipped, SourceFile, Value
from purlin.index.sources.files import file_stamp, is_transient, unchanged
from purlin.index.sources.parts import Part, broken, cut, part_files
from purlin.index.storage.digests import DigestMap, digest

VERSION = 2
CORPUS_SUFFIXES = (".jsonl", ".jsonl.gz")
MAX_LINE_BYTES = 1024 * 1024
MAX_ID_CHARS = 2000
MAX_RECORD_FIELDS = 500
MAX_RECORD_NESTING = 8
PEEK_LINES = 20

# The other keys of a record become fields.
_TEXT_KEYS = frozenset({"_id", "title", "text"})
_READ_ERRORS = (OSError, EOFError, zlib.error)

# The number of a line, and the line; None for one that is too long.
_Line = tuple[int, bytes | None]


def is_corpus(path: Path) -> bool:
    """Whether a file is a BEIR corpus: JSON Lines whose first record has an `_id`."""
    if not path.name.lower().endswith(CORPUS_SUFFIXES) or not path.is_file():
        return False

    try:
        for number, line in _lines(path):
            record = _json_or_none(line) if line else None
            if isinstance(record, dict):
                return "_id" in record
            if number >= PEEK_LINES:
                break
    except _READ_ERRORS:
        # `files` reports what is wrong with a file that cannot be read.
        pass

    return False


def files(path: Path, kind: Kind) -> Iterator[SourceFile | Skipped]:
    """Yield the corpus as one file whose documents are of `kind`, or a `Skipped` if unreadable.

    A long one comes in parts, see `purlin.index.sources.parts`.
    """
    # Not at the top, since it takes longer than listing a directory, which asks `is_corpus`. Nor in
    # the generator, which runs while a build is under way: lxml loses a Ctrl-C that comes while it
    # is being imported.
    from purlin.index.sources.products import catalogue

    return _files(path, kind, catalogue.VERSION)


def _files(path: Path, kind: Kind, product_version: int) -> Iterator[SourceFile | Skipped]:
    before = file_stamp(path)
    try:
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        yield Skipped(path.name, f"cannot be read: {error.strerror}")
        return

    def digest_of(content: str) -> str:
        # The product reader's version is part of it, since `_product_document` goes through that.
        facts = f"beir {VERSION} {product_version} {kind} {path.name} {content}"
        return hashlib.sha256(facts.encode()).hexdigest()

    def read(lines: Callable[[], Iterator[_Line]]) -> Iterator[Document | Skipped]:
        return unchanged(_read(lines(), path.name, kind), path, path.name, before)

    parts = _parts(path)
    if not parts:
        yield SourceFile(path.name, digest_of(content), partial(read, partial(_lines, path)))
        return
    yield from part_files(path.name, parts, partial(_lines, path), read, digest_of)


def _parts(path: Path) -> list[Part]:
    try:
        return cut(map(_identified, _lines(path)))
    except _READ_ERRORS:
        # Read as a whole: what is wrong is reported where it is met.
        return []


def _identified(numbered: _Line) -> tuple[str | None, bytes]:
    """The id of a line's record, and the line; a broken one is known by its number."""
    number, line = numbered
    try:
        if line is not None:
            return _id(_record(line)), line
    except ValueError:
        pass
    return broken(number, line or b"")


def _read(lines: Iterator[_Line], name: str, kind: Kind) -> Iterator[Document | Skipped]:
    """Documents of a file's rows; a broken row is a `Skipped` with its line number."""
    ids = DigestMap()
    number = 0

    try:
        for number, line in lines:
            if line is None:
                yield Skipped(name, f"the line is longer than {MAX_LINE_BYTES} bytes", number)
                continue

            try:
                document = _document(_record(line), kind)
                key = digest(document.id)
                if ids.get(key) is not None:
                    raise ValueError(f"the _id {document.id!r} was used before")
            except ValueError as error:
                yield Skipped(name, str(error), number)
            else:
                ids.add(key, number)
                yield document

    except _READ_ERRORS as error:
        reason = f"cannot be read any further: {error}; what came before is kept"
        yield Skipped(name, reason, number + 1, passing=is_transient(error))


def _lines(path: Path) -> Iterator[_Line]:
    """Numbered lines that are not blank; None for a line over `MAX_LINE_BYTES`."""
    with _open(path) as stream:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            is_too_long = len(line) > MAX_LINE_BYTES

            # Read on to the line's end, without keeping more than one chunk of it in memory.
            while is_too_long and line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE_BYTES)

            if is_too_long:
                yield number, None
                continue

            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if line := line.strip():
                yield number, line


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")


def _json_or_none(line: bytes) -> Any:
    """Parse a line; None if it is not JSON. `NaN` and infinities become None, too."""
    try:
        return json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _record(line: bytes) -> dict[str, Any]:
    """Parse a row; the message of its ValueError is the reason why the row is skipped."""
    try:
        record = json.loads(line.decode("utf-8-sig"), parse_constant=lambda _: None)

        # Only an escape can bring in a lone surrogate, which could not be stored as UTF-8.
        if b"\\u" in line:
            json.dumps(record, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    except UnicodeEncodeError as error:
        raise ValueError("a lone surrogate in a string: not valid Unicode") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from error
    except ValueError as error:
        raise ValueError("not JSON: a number of too many digits") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error

    if not isinstance(record, dict):
        raise ValueError("not a JSON object")

    return record


def _document(record: dict[str, Any], kind: Kind) -> Document:
    return _product_document(record) if kind == "product" else _text_document(record, kind)


def _product_document(record: dict[str, Any]) -> Document:
    """The document that a catalogue's record gives, with its brand and attributes."""
    from purlin.index.sources.products import records

    id_ = _id(record)
    try:
        return replace(records.from_record(record), id=id_)
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _text_document(record: dict[str, Any], kind: Kind) -> Document:
    id_, title, body = _id(record), _text(record, "title"), _text(record, "text")
    if not title and not body:
        raise ValueError("neither a title nor a text")

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


def _id(record: dict[str, Any]) -> str:
    id_ = record.get("_id")
    if isinstance(id_, bool) or not isinstance(id_, str | int) or id_ == "":
        raise ValueError("no _id, or one that is neither text nor a whole number")
    if len(str(id_)) > MAX_ID_CHARS:
        raise ValueError(f"the _id is longer than {MAX_ID_CHARS} characters")
    return str(id_)


def _text(record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{name} is not text")
    return str(value)


def _summary(record: dict[str, Any], body: str) -> str:
    """The docstring, unless the code contains it (white space aside)."""
    docstring = record.get("docstring")
    if not isinstance(docstring, str) or " ".join(docstring.split()) in " ".join(body.split()):
        return ""
    return docstring.strip()


def _context_terms(record: dict[str, Any]) -> tuple[str, ...]:
    terms = record.get("terms")
    if not isinstance(terms, list):
        return ()
    return tuple(term for term in terms if isinstance(term, str))


def _location(record: dict[str, Any], id_: str) -> Location:
    path, url = record.get("path"), record.get("url")
    if not isinstance(url, str):
        url = id_ if id_.startswith(("http://", "https://")) else None

    start, end = _line_number(record, "start"), _line_number(record, "end")
    return Location(path if isinstance(path, str) else None, start, end, url)


def _line_number(record: dict[str, Any], edge: str) -> int | None:
    values = (record.get(f"{edge}_line"), record.get(edge))
    # type() rather than isinstance(): True is an int, but no line number.
    return next((value for value in values if type(value) is int and 0 < value < 2**31), None)


def _flatten(record: Mapping[str, Any], prefix: str = "", depth: int = 1) -> dict[str, Value]:
    """Turn a JSON object into filterable fields.

    Nested names are joined with dots, items of lists become text, nulls are dropped. Raises
    ValueError beyond `MAX_RECORD_FIELDS` fields or `MAX_RECORD_NESTING` levels.
    """
    if depth > MAX_RECORD_NESTING:
        raise ValueError(f"fields nest deeper than {MAX_RECORD_NESTING} levels")

    fields: dict[str, Value] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            fields |= _flatten(value, f"{prefix}{name}.", depth + 1)
        elif isinstance(value, list):
            fields[prefix + name] = tuple(_item(item) for item in value if item is not None)
        elif value is not None:
            fields[prefix + name] = _scalar(value)

    if len(fields) > MAX_RECORD_FIELDS:
        raise ValueError(f"more than {MAX_RECORD_FIELDS} fields")

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
