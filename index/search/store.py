"""Documents, passages and filterable fields of one build, in a SQLite file that is written once, then only read."""

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

from index import builds
from index.errors import Altered, InvalidInput, NotFound
from index.records import (
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
# One sort at the end beats a million insertions.
_LAST = "CREATE INDEX fields_by_value ON fields (name, value, document)"


@dataclass(frozen=True, slots=True)
class Stored:
    """A passage with its document, as a hit needs them."""

    document: Document
    passage: Passage


class StoreWriter:
    """Writes one build's file; nothing is visible to readers until `close`. Rows count from 0 in order of adding."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA page_size = 8192;"
            + _SCHEMA
        )
        self._db.execute("BEGIN")
        self.files = self.documents = self.passages = self.skipped = 0

    def add_file(self, path: str, digest: str) -> int:
        """Note a source file; its number goes with the documents read from it."""
        self._db.execute("INSERT INTO files VALUES (?, ?, ?)", (self.files, path, digest))
        self.files += 1
        return self.files - 1

    def outdate(self, file: int) -> None:
        """Have the next build read a file anew, even if it is unchanged."""
        self._db.execute("UPDATE files SET digest = '' WHERE number = ?", (file,))

    def add_skipped(self, skipped: Skipped, file: int | None) -> None:
        """Note what a reader left out."""
        path, reason = (
            text.encode(errors="replace").decode() for text in (skipped.path, skipped.reason)
        )
        self._db.execute(
            "INSERT INTO skipped VALUES (?, ?, ?, ?)", (file, path, reason, skipped.line)
        )
        self.skipped += 1

    def add(self, document: Document, file: int, passages: Iterable[tuple[Passage, bytes]]) -> None:
        """Append a document with its passages and the digests of what the encoder sees of them."""
        row = self.documents
        self._db.execute(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                row,
                document.id,
                file,
                document.title,
                document.body,
                document.summary,
                _to_json(document),
            ),
        )
        for passage, digest in passages:
            values = (
                self.passages,
                row,
                passage.number,
                passage.start,
                passage.end,
                passage.context,
                digest,
            )
            self._db.execute("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            self.passages += 1
        rows = [(name, value, row) for name, value in _filterable(document.fields)]
        self._db.executemany("INSERT INTO fields VALUES (?, ?, ?)", rows)
        self.documents += 1

    def close(self) -> None:
        """Commit and close; the file is complete only then."""
        self._db.execute(_LAST)
        self._db.execute("COMMIT")
        self._db.close()

    def abandon(self) -> None:
        """Close without completing the file."""
        self._db.close()


State = tuple[int, int, int]


def state(path: Path) -> State | None:
    """What becomes another one whenever the file is written to, cut or replaced; None if it is not there.

    That is when its inode changed: unlike the time of the last writing, nobody can set that back.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - it is asked for by every query
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_ctime_ns


class Store:
    """Reads one build's file; safe to share between threads.

    Rows are read from the file when they are asked for. Every query makes sure that the file is still as it was
    `before`, which is now unless given, and raises Altered if not. One that was removed can be read on.
    """

    def __init__(self, path: Path, kind: Kind, before: State | None = None) -> None:
        self._path = path
        self._before = before or state(path)
        self._db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
        self._lock = threading.Lock()
        self._kind: Kind = kind
        self.documents = int(self._all("SELECT count(*) FROM documents")[0][0])
        self.document_of = np.array(
            [r for (r,) in self._all("SELECT document FROM passages ORDER BY row")], np.int64
        )
        self._numeric = self._field_types()

    def _all(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                rows = self._db.execute(sql, values).fetchall()
            except sqlite3.ProgrammingError:
                raise  # our own, not the file's
            except sqlite3.DatabaseError as error:
                raise self._altered(f"cannot be read any more ({error})") from error
        if state(self._path) not in (self._before, None):
            raise self._altered("was changed while it was in use")
        return rows

    def _altered(self, what: str) -> Altered:
        return Altered(builds.damage_message(self._path.parent, self._path.name, what))

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._db.close()

    # ---- reading back

    def document(self, document_id: str) -> Document:
        """The document with this id, whole."""
        rows = self._all(f"SELECT {_COLUMNS} FROM documents WHERE id = ?", (document_id,))
        if not rows:
            raise NotFound(
                f"There is no document {document_id[:200]!r} in this corpus.", field="id"
            )
        return self._document(rows[0])

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of these ids that are of documents here."""
        sql = "SELECT id FROM documents WHERE id IN (SELECT value FROM json_each(?))"
        return {id_ for (id_,) in self._all(sql, (json.dumps(list(ids)),))}

    def named(self, name: str) -> NDArray[np.int64]:
        """Passage rows of the documents whose id or title is exactly `name`; the case of a title does not matter."""
        sql = """SELECT p.row FROM documents JOIN passages p ON p.document = documents.row
                 WHERE documents.id = ? OR documents.title = ? LIMIT ?"""
        rows = self._all(sql, (name, name, MAX_NAMED))
        return np.array([row for (row,) in rows], dtype=np.int64)

    def stored(self, rows: Sequence[int]) -> list[Stored]:
        """The passages of these rows with their documents, in the order given; those of one document share it."""
        sql = """SELECT row, document, number, start, "end", context FROM passages
                 WHERE row IN (SELECT value FROM json_each(?))"""
        passages = {
            row: (of, place) for row, of, *place in self._all(sql, (json.dumps(list(rows)),))
        }
        if len(passages) != len(set(rows)):
            raise self._altered("lacks rows")
        documents = self._documents({of for of, _ in passages.values()})
        found = {
            row: Stored(documents[of], Passage(documents[of].id, *place))
            for row, (of, place) in passages.items()
        }
        return [found[row] for row in rows]

    def _documents(self, rows: set[int]) -> dict[int, Document]:
        sql = f"SELECT row, {_COLUMNS} FROM documents WHERE row IN (SELECT value FROM json_each(?))"
        found = {
            row: self._document(columns)
            for row, *columns in self._all(sql, (json.dumps(sorted(rows)),))
        }
        if len(found) != len(rows):
            raise self._altered("lacks rows")
        return found

    def file_number(self, path: str, digest: str) -> int | None:
        """The number of the file of that path and digest, if this build has read it."""
        rows = self._all("SELECT number FROM files WHERE path = ? AND digest = ?", (path, digest))
        return int(rows[0][0]) if rows else None

    def read_file(self, number: int) -> Iterator[Document | Skipped]:
        """What reading that file yielded."""
        for row in self._all(
            f"SELECT {_COLUMNS} FROM documents WHERE file = ? ORDER BY row", (number,)
        ):
            yield self._document(row)
        for path, reason, line in self._all(
            "SELECT path, reason, line FROM skipped WHERE file = ?", (number,)
        ):
            yield Skipped(path, reason, line)

    def skipped(self, most: int) -> list[Skipped]:
        """The first `most` things the readers left out."""
        rows = self._all("SELECT path, reason, line FROM skipped LIMIT ?", (most,))
        return [Skipped(*row) for row in rows]

    def file_names(self, most: int) -> tuple[list[str], list[str]]:
        """Names of the files that were read, and of those that were left out; `most` of each."""
        queries = (
            "SELECT path FROM files LIMIT ?",
            "SELECT DISTINCT path FROM skipped WHERE file IS NULL LIMIT ?",
        )
        read, left_out = ([name for (name,) in self._all(sql, (most,))] for sql in queries)
        return read, left_out

    def digests(self) -> dict[bytes, int]:
        """Digest of what the encoder saw -> passage row."""
        return dict(self._all("SELECT digest, row FROM passages"))

    def _document(self, row: Sequence[Any]) -> Document:
        identifier, title, body, summary, record = row
        try:
            return _from_json(identifier, self._kind, title, body, summary, record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._altered("holds what was never written") from error

    # ---- filters

    def _field_types(self) -> dict[str, bool]:
        """Field name -> whether any of its values is a number. A loose scan of the index: one step per name."""
        types: dict[str, bool] = {}
        row = self._all("SELECT min(name) FROM fields")[0]
        while row[0] is not None:
            name = str(row[0])
            sql = "SELECT 1 FROM fields WHERE name = ? AND value < '' LIMIT 1"  # in SQLite numbers sort before texts
            types[name] = bool(self._all(sql, (name,)))
            row = self._all("SELECT min(name) FROM fields WHERE name > ?", (name,))[0]
        return types

    @property
    def field_names(self) -> list[str]:
        """Names that a filter may use, sorted."""
        return list(self._numeric)

    def allowed(self, conditions: Filter) -> NDArray[np.bool_]:
        """(documents,) True where every condition holds. InvalidInput names the field that is wrong."""
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
        near = ", ".join(map(repr, get_close_matches(name[:80], self._numeric, 3)))
        known = f"Did you mean {near}?" if near else f"It has: {self._some_fields()}."
        return (
            f"This corpus has no filterable field {name[:80]!r}. {known} "
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
        mask = np.zeros(self.documents, dtype=np.bool_)
        rows = self._all(sql, (name, *values))
        mask[np.fromiter((row for (row,) in rows), np.int64, len(rows))] = True
        return mask

    def _one_of(self, name: str, condition: Scalar | Sequence[Scalar]) -> tuple[str, list[Scalar]]:
        values = [condition] if isinstance(condition, Scalar) else list(condition)
        field = f"filter.{name}"
        if not values or len(values) > MAX_VALUES:
            raise InvalidInput(
                f"A list of values holds 1 to {MAX_VALUES}; this one holds {len(values)}.",
                field=field,
            )
        if not all(isinstance(value, Scalar) for value in values):
            raise InvalidInput("A value is a text, a number, true or false.", field=field)
        return f"value IN ({','.join('?' * len(values))})", [
            _sql_value(value, field) for value in values
        ]

    def _range(
        self, name: str, bounds: Mapping[str, int | float | str]
    ) -> tuple[str, list[Scalar]]:
        field = f"filter.{name}"
        unknown = [operator for operator in bounds if operator not in _OPERATORS]
        if unknown or not bounds:
            given = repr(unknown[0][:40]) if unknown else "nothing"
            raise InvalidInput(f"A range takes gte and lte; {given} was given.", field=field)
        clauses, values = [], []
        for operator, bound in bounds.items():
            if isinstance(bound, bool) or not isinstance(bound, (int, float, str)):
                raise InvalidInput(
                    f"{operator} takes a number or a text.", field=f"{field}.{operator}"
                )
            if not isinstance(bound, str) and not self._numeric[name]:
                raise InvalidInput(
                    f"{name!r} holds no numbers to compare with.", field=f"{field}.{operator}"
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
            f"{value[:80]!r} is no text: half a surrogate pair is in it; give it in UTF-8.",
            field=field,
        )
    return value


def _filterable(fields: Mapping[str, Value]) -> Iterator[tuple[str, Scalar]]:
    for name, value in fields.items():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, str) and len(one) > MAX_FILTERABLE_CHARS:
                continue
            yield name, str(one).lower() if isinstance(one, bool) else _storable(one)


def _storable(value: Scalar) -> Scalar:
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _to_json(document: Document) -> str:
    location = document.location
    record = {
        "context": document.context,
        "location": [location.path, location.start_line, location.end_line, location.url],
        "fields": dict(document.fields),
        "entities": [(s.start, s.end) for s in document.entities],
        "atoms": [(s.start, s.end) for s in document.atoms],
    }
    return json.dumps(
        {k: v for k, v in record.items() if v}, ensure_ascii=False, separators=(",", ":")
    )


def _from_json(
    identifier: str, kind: Kind, title: str, body: str, summary: str, text: str
) -> Document:
    record = json.loads(text)
    fields = {
        k: tuple(v) if isinstance(v, list) else v for k, v in record.get("fields", {}).items()
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
        entities=tuple(Span(*s) for s in record.get("entities", ())),
        atoms=tuple(Span(*s) for s in record.get("atoms", ())),
    )
