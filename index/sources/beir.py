"""A BEIR corpus (JSON Lines with `_id`, `title`, `text`, maybe gzipped) -> documents of any kind."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from index.errors import InvalidInput
from index.records import Document, Kind, Location, Skipped, SourceFile, Value
from index.sources import product
from index.sources.files import passes

VERSION = 2
SUFFIXES = (".jsonl", ".jsonl.gz")
MAX_LINE = 1024 * 1024  # bytes
MAX_ID = 2000  # characters
MAX_FIELDS = 500
MAX_DEPTH = 8
PEEK_LINES = 20

_OWN = frozenset({"_id", "title", "text"})
_READ_ERRORS = (OSError, EOFError, zlib.error)


def recognises(path: Path) -> bool:
    """Whether a file is a BEIR corpus: its name says JSON Lines, and its first record has an `_id`."""
    if not path.name.lower().endswith(SUFFIXES) or not path.is_file():
        return False
    try:
        for number, line in _lines(path):
            record = _loads(line) if line else None
            if isinstance(record, dict):
                return "_id" in record
            if number >= PEEK_LINES:
                break
    except _READ_ERRORS:
        pass
    return False


def files(path: Path, kind: Kind) -> Iterator[SourceFile | Skipped]:
    """The corpus as one file, whose documents are of `kind`; a `Skipped` if it cannot be read."""
    try:
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        yield Skipped(path.name, f"cannot be read: {error.strerror}")
        return
    digest = hashlib.sha256(
        f"beir {VERSION} {product.VERSION} {kind} {path.name} {content}".encode()
    ).hexdigest()
    yield SourceFile(path.name, digest, lambda: _read(path, kind))


def _read(path: Path, kind: Kind) -> Iterator[Document | Skipped]:
    """The rows of a file; one that is broken is a `Skipped` with its line, and the rest is read."""
    seen: set[str] = set()
    number = 0
    try:
        for number, line in _lines(path):
            if line is None:
                yield Skipped(path.name, f"the line is longer than {MAX_LINE} bytes", number)
                continue
            try:
                document = _document(_record(line), kind)
                if document.id in seen:
                    raise ValueError(f"the _id {document.id!r} was used before")
            except ValueError as error:
                yield Skipped(path.name, str(error), number)
            else:
                seen.add(document.id)
                yield document
    except _READ_ERRORS as error:
        reason = f"cannot be read any further: {error}; what came before is kept"
        yield Skipped(path.name, reason, number + 1, passes(error))


def _lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines that are not blank; None for one over `MAX_LINE`, of which no more is held in memory."""
    with _open(path) as stream:
        number = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            long = len(line) > MAX_LINE
            while long and line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE)
            if long:
                yield number, None
            elif line := (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip():
                yield number, line


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")


def _loads(line: bytes) -> Any:
    """The JSON value, or None if it is not JSON; `NaN` and the like become null."""
    try:
        return json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _record(line: bytes) -> dict[str, Any]:
    """Raises ValueError that says what is wrong with the row."""
    try:
        record = json.loads(line.decode("utf-8-sig"), parse_constant=lambda _: None)
        if b"\\u" in line:
            json.dumps(record, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    except UnicodeEncodeError as error:
        raise ValueError("half a surrogate pair in a string") from error
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
    return _product(record) if kind == "product" else _text_document(record, kind)


def _product(record: dict[str, Any]) -> Document:
    """The same document as from a catalogue, so that brand and attributes count."""
    id_ = _id(record)
    try:
        return replace(product.from_record(record), id=id_)
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _text_document(record: dict[str, Any], kind: Kind) -> Document:
    id_, title, body = _id(record), _text(record, "title"), _text(record, "text")
    if not title and not body:
        raise ValueError("neither a title nor a text")
    fields = _flatten({name: value for name, value in record.items() if name not in _OWN})
    return Document(
        id=id_,
        kind=kind,
        title=title,
        body=body,
        summary=_summary(record, body) if kind == "code" else "",
        context=_terms(record) if kind == "reference" else (),
        location=_location(record, id_),
        fields=fields,
    )


def _id(record: dict[str, Any]) -> str:
    id_ = record.get("_id")
    if isinstance(id_, bool) or not isinstance(id_, str | int) or id_ == "":
        raise ValueError("no _id, or one that is neither text nor a whole number")
    if len(str(id_)) > MAX_ID:
        raise ValueError(f"the _id is longer than {MAX_ID} characters")
    return str(id_)


def _text(record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{name} is not text")
    return str(value)


def _summary(record: dict[str, Any], body: str) -> str:
    """The docstring, unless the code holds it anyway; white space does not count."""
    docstring = record.get("docstring")
    if not isinstance(docstring, str) or " ".join(docstring.split()) in " ".join(body.split()):
        return ""
    return docstring.strip()


def _terms(record: dict[str, Any]) -> tuple[str, ...]:
    terms = record.get("terms")
    return tuple(term for term in terms if isinstance(term, str)) if isinstance(terms, list) else ()


def _location(record: dict[str, Any], id_: str) -> Location:
    path, url = record.get("path"), record.get("url")
    if not isinstance(url, str):
        url = id_ if id_.startswith(("http://", "https://")) else None
    start, end = _line(record, "start"), _line(record, "end")
    return Location(path if isinstance(path, str) else None, start, end, url)


def _line(record: dict[str, Any], edge: str) -> int | None:
    values = (record.get(f"{edge}_line"), record.get(edge))
    return next((value for value in values if type(value) is int and 0 < value < 2**31), None)


def _flatten(record: Mapping[str, Any], prefix: str = "", depth: int = 1) -> dict[str, Value]:
    """Filterable fields of a JSON object: nested names joined with dots, lists as texts, nulls dropped.

    Raises ValueError beyond `MAX_FIELDS` fields or `MAX_DEPTH` levels.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"fields nest deeper than {MAX_DEPTH} levels")
    fields: dict[str, Value] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            fields |= _flatten(value, f"{prefix}{name}.", depth + 1)
        elif isinstance(value, list):
            fields[prefix + name] = tuple(_item(item) for item in value if item is not None)
        elif value is not None:
            fields[prefix + name] = _scalar(value)
    if len(fields) > MAX_FIELDS:
        raise ValueError(f"more than {MAX_FIELDS} fields")
    return fields


def _scalar(value: str | int | float | bool) -> str | int | float | bool:
    """The value itself; as text where it is a number that neither SQLite nor JSON can hold."""
    representable = -(2**63) <= value < 2**63 if isinstance(value, int) else True
    if isinstance(value, float):
        representable = math.isfinite(value)
    return value if representable else str(value)


def _item(item: Any) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
