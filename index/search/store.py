"""Documents, passages and filterable fields of a build, in a SQLite file.

The file is written once and only read afterwards.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index import builds
from purlin.index.errors import Altered, InvalidInput, NotFound
from purlin.index.records import (
    MAX_FILTERABLE_CHARS,
    Document,
    Kind,
    Location,
    Passage,
    Skipped,
    Span,
    Value,
    is_text,
)

Scalar = str | int | float | bool
Condition = Scalar | Sequence[Scalar] | Mapping[str, int | float | str]
Filter = Mapping[str, Condition]

MAX_CONDITIONS = 32
MAX_VALUES = 1000
# Passages of documents whose title is the query.
MAX_NAMED = 1000
_OPERATORS = {"gte": ">=", "lte": "<="}

_SCHEMA = """
CREATE TABLE files (number INTEGER PRIMARY KEY, path TEXT NOT NULL, digest TEXT NOT NULL);
CREATE INDEX files_by_path ON files (path);
CREATE TABLE skipped (file INTEGER, path TEXT NOT NULL, reason TEXT NOT NULL, line INTEGER);
CREATE INDEX skipped_by_file ON skipped (file);
CREATE TABLE documents (row INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, file INTEGER,
                        title TEXT NOT NULL COLLATE NOCASE,
                        body TEXT NOT NULL, summary TEXT NOT NULL, record TEXT NOT NULL);
CREATE INDEX documents_by_file ON documents (file);
CREATE INDEX documents_by_title ON documents (title);
CREATE TABLE passages (row INTEGER PRIMARY KEY, document INTEGER NOT NULL, number INTEGER NOT NULL,
                       start INTEGER NOT NULL, "end" INTEGER NOT NULL, context TEXT NOT NULL, digest BLOB NOT NULL);
CREATE INDEX passages_by_document ON passages (document);
CREATE TABLE fields (name TEXT, value, document INTEGER);
"""
# Created last: one sort is faster than a million insertions.
_FIELDS_INDEX = "CREATE INDEX fields_by_value ON fields (name, value, document)"


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage with its document."""

    document: Document
    passage: Passage


class StoreWriter:
    """Writes the file of one build, which readers see only after `close`.

    Rows count from 0 in the order in which they are added.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA page_size = 8192;"
            + _SCHEMA
        )
        self._db.execute("BEGIN")
        self.files = self.documents = self.passages = self.skipped = 0

    def add_file(self, path: str, digest: str) -> int:
        """Record a source file, and return its number for the documents that come from it."""
        self._db.execute("INSERT INTO files VALUES (?, ?, ?)", (self.files, path, digest))
        self.files += 1
        return self.files - 1

    def outdate(self, file: int) -> None:
        """Make the next build read a file again, even if it is unchanged."""
        self._db.execute("UPDATE files SET digest = '' WHERE number = ?", (file,))

    def add_skipped(self, skipped: Skipped, file: int | None) -> None:
        """Record what a reader skipped."""
        # File names that are not UTF-8 hold lone surrogates, which SQLite rejects.
        path = skipped.path.encode(errors="replace").decode()
        reason = skipped.reason.encode(errors="replace").decode()
        row = (file, path, reason, skipped.line)
        self._db.execute("INSERT INTO skipped VALUES (?, ?, ?, ?)", row)
        self.skipped += 1

    def add(self, document: Document, file: int, passages: Iterable[tuple[Passage, bytes]]) -> None:
        """Append a document with its passages and the digests of their rendered texts."""
        row = self.documents
        values = (
            row,
            document.id,
            file,
            document.title,
            document.body,
            document.summary,
            _to_json(document),
        )
        self._db.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", values)

        for passage, digest in passages:
            span = (passage.number, passage.start, passage.end, passage.context)
            self._db.execute(
                "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?)",
                (self.passages, row, *span, digest),
            )
            self.passages += 1

        rows = [(name, value, row) for name, value in _filterable(document.fields)]
        self._db.executemany("INSERT INTO fields VALUES (?, ?, ?)", rows)
        self.documents += 1

    def close(self) -> None:
        """Commit and close; the file is complete only then."""
        self._db.execute(_FIELDS_INDEX)
        self._db.execute("COMMIT")
        self._db.close()

    def abandon(self) -> None:
        """Close without completing the file."""
        self._db.close()


FileState = tuple[int, int, int]


def file_state(path: Path) -> FileState | None:
    """State of a file that differs after any write, cut or replacement; None without a file.

    It includes the time of the inode's last change, which nobody can set back, unlike the time of
    the last write.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - every query calls it
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns


def _unknown_document(document_id: str) -> NotFound:
    return NotFound(f"There is no document {document_id[:200]!r} in this corpus.", field="id")


class Store:
    """Reads the file of one build; safe to share between threads.

    Each query reads its rows from the file and raises Altered if the file is no longer in the state
    `before` (by default, that of now). A file that was removed can still be read.
    """

    def __init__(self, path: Path, kind: Kind, before: FileState | None = None) -> None:
        self._path = path
        self._before = before or file_state(path)
        self._db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
        self._lock = threading.Lock()
        self._kind: Kind = kind

        self.documents = int(self._all("SELECT count(*) FROM documents")[0][0])
        # Passage row -> document row.
        rows = self._all("SELECT document FROM passages ORDER BY row")
        self.document_of = np.array([row for (row,) in rows], np.int64)
        self._numeric = self._field_types()

    def _all(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                rows = self._db.execute(sql, values).fetchall()
            # A mistake of this code, not of the file.
            except sqlite3.ProgrammingError:
                raise
            except sqlite3.DatabaseError as error:
                raise self._altered(f"cannot be read any more ({error})") from error

        if file_state(self._path) not in (self._before, None):
            raise self._altered("was changed while it was in use")
        return rows

    def _altered(self, problem: str) -> Altered:
        return Altered(builds.damage_message(self._path.parent, self._path.name, problem))

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._db.close()

    # ---- reading

    def document(self, document_id: str) -> Document:
        """The document with this id, whole."""
        rows = self._all(f"SELECT {_COLUMNS} FROM documents WHERE id = ?", (document_id,))
        if not rows:
            raise _unknown_document(document_id)
        return self._document(rows[0])

    def document_row(self, document_id: str) -> int:
        """Row of the document with this id. Raises NotFound."""
        rows = self._all("SELECT row FROM documents WHERE id = ?", (document_id,))
        if not rows:
            raise _unknown_document(document_id)
        return int(rows[0][0])

    def documents_of(self, path: str) -> list[Document]:
        """Documents whose field `path` is this one, in the order of their rows."""
        sql = f"""SELECT {_COLUMNS} FROM documents WHERE row IN
                  (SELECT document FROM fields WHERE name = 'path' AND value = ?) ORDER BY row"""
        return [self._document(row) for row in self._all(sql, (path,))]

    def existing_ids(self, ids: Iterable[str]) -> set[str]:
        """Return the given ids that exist in this build."""
        sql = "SELECT id FROM documents WHERE id IN (SELECT value FROM json_each(?))"
        return {identifier for (identifier,) in self._all(sql, (json.dumps(list(ids)),))}

    def rows_named(self, name: str) -> NDArray[np.int64]:
        """Passage rows of the documents whose id or title is `name`; titles in any case."""
        sql = """SELECT p.row FROM documents JOIN passages p ON p.document = documents.row
                 WHERE documents.id = ? OR documents.title = ? LIMIT ?"""
        rows = self._all(sql, (name, name, MAX_NAMED))
        return np.array([row for (row,) in rows], dtype=np.int64)

    def fetch(self, rows: Sequence[int]) -> list[StoredPassage]:
        """Passages of these rows in the given order; those of one document share its object."""
        sql = """SELECT row, document, number, start, "end", context FROM passages
                 WHERE row IN (SELECT value FROM json_each(?))"""
        selected = self._all(sql, (json.dumps(list(rows)),))
        if len(selected) != len(set(rows)):
            raise self._altered("lacks rows")

        documents = self._documents({document_row for _, document_row, *_ in selected})
        passages = {}
        for row, document_row, *columns in selected:
            document = documents[document_row]
            passages[row] = StoredPassage(document, Passage(document.id, *columns))
        return [passages[row] for row in rows]

    def _documents(self, rows: set[int]) -> dict[int, Document]:
        sql = f"SELECT row, {_COLUMNS} FROM documents WHERE row IN (SELECT value FROM json_each(?))"
        selected = self._all(sql, (json.dumps(sorted(rows)),))
        documents = {row: self._document(columns) for row, *columns in selected}
        if len(documents) != len(rows):
            raise self._altered("lacks rows")
        return documents

    def file_number(self, path: str, digest: str) -> int | None:
        """Number of the source file with this path and digest, or None."""
        rows = self._all("SELECT number FROM files WHERE path = ? AND digest = ?", (path, digest))
        return int(rows[0][0]) if rows else None

    def read_file(self, number: int) -> Iterator[Document | Skipped]:
        """Yield what the source file yielded when it was read: documents, then what was skipped."""
        documents = f"SELECT {_COLUMNS} FROM documents WHERE file = ? ORDER BY row"
        for row in self._all(documents, (number,)):
            yield self._document(row)

        skipped = "SELECT path, reason, line FROM skipped WHERE file = ?"
        for path, reason, line in self._all(skipped, (number,)):
            yield Skipped(path, reason, line)

    def skipped(self, most: int) -> list[Skipped]:
        """The first `most` records of what the readers skipped."""
        rows = self._all("SELECT path, reason, line FROM skipped LIMIT ?", (most,))
        return [Skipped(*row) for row in rows]

    def file_names(self, most: int) -> tuple[list[str], list[str]]:
        """Names of the files that were read, and of the skipped ones; at most `most` of each."""
        queries = (
            "SELECT path FROM files LIMIT ?",
            "SELECT DISTINCT path FROM skipped WHERE file IS NULL LIMIT ?",
        )
        read, skipped = ([name for (name,) in self._all(sql, (most,))] for sql in queries)
        return read, skipped

    def digests(self) -> dict[bytes, int]:
        """Digest of a passage's rendered text -> its row."""
        return dict(self._all("SELECT digest, row FROM passages"))

    def _document(self, row: Sequence[Any]) -> Document:
        identifier, title, body, summary, record = row
        try:
            return _from_json(identifier, self._kind, title, body, summary, record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._altered("has a record that Purlin did not write") from error

    # ---- filters

    def _field_types(self) -> dict[str, bool]:
        """Field name -> whether any of its values is a number.

        A loose scan of the index: one step per name, not per value.
        """
        types: dict[str, bool] = {}
        row = self._all("SELECT min(name) FROM fields")[0]
        while row[0] is not None:
            name = str(row[0])
            # In SQLite, numbers sort before texts.
            sql = "SELECT 1 FROM fields WHERE name = ? AND value < '' LIMIT 1"
            types[name] = bool(self._all(sql, (name,)))
            row = self._all("SELECT min(name) FROM fields WHERE name > ?", (name,))[0]
        return types

    @property
    def field_names(self) -> list[str]:
        """Sorted names that a filter may use."""
        return list(self._numeric)

    def allowed(self, conditions: Filter) -> NDArray[np.bool_]:
        """Mask (documents,) of the documents for which every condition holds.

        Raises InvalidInput, which names the field.
        """
        if len(conditions) > MAX_CONDITIONS:
            raise InvalidInput(
                f"filter has {len(conditions)} fields; at most {MAX_CONDITIONS} are allowed.",
                field="filter",
            )

        mask = np.ones(self.documents, dtype=np.bool_)
        for name, condition in conditions.items():
            if name not in self._numeric:
                raise InvalidInput(self._unknown_field(name), field=f"filter.{name[:80]}")
            mask &= self._holds(name, condition)
        return mask

    def _unknown_field(self, name: str) -> str:
        similar = ", ".join(map(repr, get_close_matches(name[:80], self._numeric, 3)))
        hint = f"Did you mean {similar}?" if similar else f"It has: {self._some_fields()}."
        return (
            f"This corpus has no filterable field {name[:80]!r}. {hint} "
            f"(Texts over {MAX_FILTERABLE_CHARS} characters cannot be filtered on.)"
        )

    def _some_fields(self) -> str:
        names = list(self._numeric)
        more = f" and {len(names) - 30} more" if len(names) > 30 else ""
        return (", ".join(names[:30]) or "none") + more

    def _holds(self, name: str, condition: Condition) -> NDArray[np.bool_]:
        if isinstance(condition, Mapping):
            clause, values = self._range(name, condition)
        else:
            clause, values = self._one_of(name, condition)

        sql = f"SELECT document FROM fields WHERE name = ? AND {clause}"
        rows = self._all(sql, (name, *values))
        mask = np.zeros(self.documents, dtype=np.bool_)
        mask[np.fromiter((row for (row,) in rows), np.int64, len(rows))] = True
        return mask

    def _one_of(self, name: str, condition: Scalar | Sequence[Scalar]) -> tuple[str, list[Scalar]]:
        values = [condition] if isinstance(condition, Scalar) else list(condition)
        field = f"filter.{name}"
        if not values or len(values) > MAX_VALUES:
            raise InvalidInput(
                f"A list must have 1 to {MAX_VALUES} values; this one has {len(values)}.",
                field=field,
            )
        if not all(isinstance(value, Scalar) for value in values):
            raise InvalidInput("A value must be a text, a number, true or false.", field=field)

        placeholders = ",".join("?" * len(values))
        return f"value IN ({placeholders})", [_sql_value(value, field) for value in values]

    def _range(
        self, name: str, bounds: Mapping[str, int | float | str]
    ) -> tuple[str, list[Scalar]]:
        field = f"filter.{name}"
        unknown = [operator for operator in bounds if operator not in _OPERATORS]
        if unknown or not bounds:
            operator = repr(unknown[0][:40]) if unknown else "nothing"
            raise InvalidInput(f"A range takes gte and lte; {operator} was given.", field=field)

        clauses, values = [], []
        for operator, bound in bounds.items():
            if isinstance(bound, bool) or not isinstance(bound, (int, float, str)):
                raise InvalidInput(
                    f"{operator} takes a number or a text.", field=f"{field}.{operator}"
                )
            if not isinstance(bound, str) and not self._numeric[name]:
                raise InvalidInput(
                    f"{name!r} has no numbers to compare with.", field=f"{field}.{operator}"
                )

            types = "'text'" if isinstance(bound, str) else "'integer', 'real'"
            clauses.append(f"value {_OPERATORS[operator]} ? AND typeof(value) IN ({types})")
            values.append(_sql_value(bound, f"{field}.{operator}"))
        return " AND ".join(clauses), values


_COLUMNS = "documents.id, documents.title, documents.body, documents.summary, documents.record"


def _sql_value(value: Scalar, field: str) -> Scalar:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidInput("A whole number must fit in 64 bits.", field=field)
    if isinstance(value, str) and not is_text(value):
        raise InvalidInput(
            f"{value[:80]!r} is not valid Unicode; send UTF-8.",
            field=field,
        )
    return value


def _filterable(fields: Mapping[str, Value]) -> Iterator[tuple[str, Scalar]]:
    """Yield (name, value) of all fields that are short enough; a list yields each of its values."""
    for name, field_value in fields.items():
        values = field_value if isinstance(field_value, tuple) else (field_value,)
        for value in values:
            if isinstance(value, str) and len(value) > MAX_FILTERABLE_CHARS:
                continue
            yield name, str(value).lower() if isinstance(value, bool) else _storable(value)


def _storable(value: Scalar) -> Scalar:
    """The value, as a float if it is an integer beyond SQLite's 64 bits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def _to_json(document: Document) -> str:
    location = document.location
    record = {
        "context": document.context,
        "location": [location.path, location.start_line, location.end_line, location.url],
        "fields": dict(document.fields),
        "entities": [(span.start, span.end) for span in document.entities],
        "atoms": [(span.start, span.end) for span in document.atoms],
    }
    compact = {key: value for key, value in record.items() if value}
    return json.dumps(compact, ensure_ascii=False, separators=(",", ":"))


def _from_json(
    identifier: str, kind: Kind, title: str, body: str, summary: str, text: str
) -> Document:
    record = json.loads(text)
    fields = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record.get("fields", {}).items()
    }

    return Document(
        id=identifier,
        kind=kind,
        title=title,
        body=body,
        summary=summary,
        context=tuple(record.get("context", ())),
        location=Location(*record["location"]),
        fields=fields,
        entities=tuple(Span(*span) for span in record.get("entities", ())),
        atoms=tuple(Span(*span) for span in record.get("atoms", ())),
    )
