"""Documents, passages and filterable fields of a segment, in a SQLite file.

The file is written once and only read afterwards. Three arrays beside it tell which rows belong
together:

    document_of.npy   int32 (passages,): the document of each passage
    documents.npy     int32 (documents, 2): the source file of each document, and how many rows the
                      fields of all documents up to this one have
    digests.npy       uint64 (passages, 2): the digest of each passage's rendered text
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from purlin.index import builds
from purlin.index.errors import Altered, NotFound
from purlin.index.records import Document, Kind, Location, Passage, Skipped, Span
from purlin.index.search.filters import Clause, Filter, clauses, filterable
from purlin.index.storage import read_array

DOCUMENTS_FILE = "documents.sqlite"
ROWS_FILE, DIGESTS_FILE = "documents.npy", "digests.npy"
DOCUMENT_OF_FILE = "document_of.npy"
# Passages of documents whose title is the query.
MAX_NAMED = 1000
DIGEST_BYTES = 16

_SCHEMA = """
CREATE TABLE skipped (file INTEGER NOT NULL, path TEXT NOT NULL, reason TEXT NOT NULL, line INTEGER);
CREATE INDEX skipped_by_file ON skipped (file);
CREATE TABLE documents (row INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, file INTEGER NOT NULL,
                        title TEXT NOT NULL COLLATE NOCASE,
                        body TEXT NOT NULL, summary TEXT NOT NULL, record TEXT NOT NULL);
CREATE INDEX documents_by_title ON documents (title);
CREATE TABLE passages (row INTEGER PRIMARY KEY, document INTEGER NOT NULL, number INTEGER NOT NULL,
                       start INTEGER NOT NULL, "end" INTEGER NOT NULL, context TEXT NOT NULL);
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
    """Writes the files of one segment, which readers see only after `close`.

    Rows count from 0 in the order in which they are added. `earlier` are the stores of segments
    from which files may be copied.
    """

    def __init__(self, directory: Path, earlier: Sequence[Store] = ()) -> None:
        self._directory = directory
        self._db = sqlite3.connect(
            f"{(directory / DOCUMENTS_FILE).absolute().as_uri()}", uri=True, isolation_level=None
        )
        self._db.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA page_size = 8192;"
            + _SCHEMA
        )
        self._schemas: dict[int, str] = {}
        for number, store in enumerate(earlier):
            self._db.execute(f"ATTACH ? AS earlier{number}", (store.uri,))
            self._schemas[id(store)] = f"earlier{number}"

        self._db.execute("BEGIN")
        self.files = 0
        self._document_of, self._file_of, self._field_ends = array("i"), array("i"), array("i")
        self._fields = 0
        self._digests = bytearray()

    @property
    def documents(self) -> int:
        """Number of documents so far."""
        return len(self._file_of)

    @property
    def passages(self) -> int:
        """Number of passages so far."""
        return len(self._document_of)

    def add_file(self) -> int:
        """Return the number of the next source file, for the documents that come from it."""
        self.files += 1
        return self.files - 1

    def add_skipped(self, skipped: Skipped, file: int) -> None:
        """Record what the reader of a file skipped."""
        row = (file, *printable(skipped))
        self._db.execute("INSERT INTO skipped VALUES (?, ?, ?, ?)", row)

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
        self._file_of.append(file)

        for passage, digest in passages:
            span = (passage.number, passage.start, passage.end, passage.context)
            self._db.execute(
                "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?)", (self.passages, row, *span)
            )
            self._document_of.append(row)
            self._digests += digest

        rows = [(name, value, row) for name, value in filterable(document.fields)]
        self._db.executemany("INSERT INTO fields VALUES (?, ?, ?)", rows)
        self._fields += len(rows)
        self._field_ends.append(self._fields)

    def copy(self, store: Store, file: int, number: int) -> None:
        """Append what `store`, one of the earlier ones, has of its source file `file`.

        `number` is the file's number here.
        """
        first, last = store.document_rows(file)
        first_passage, last_passage = store.passage_rows(file)
        documents = self.documents - first
        passages = self.passages - first_passage

        self._copy(
            "documents",
            store,
            f"row + {documents}, id, {number}, title, body, summary, record",
            "row >= ? AND row < ?",
            (first, last),
        )
        self._copy(
            "passages",
            store,
            f'row + {passages}, document + {documents}, number, start, "end", context',
            "row >= ? AND row < ?",
            (first_passage, last_passage),
        )
        ends = store.field_ends(first, last)
        self._copy(
            "fields",
            store,
            f"name, value, document + {documents}",
            "rowid > ? AND rowid <= ?",
            (int(ends[0]), int(ends[-1])),
        )
        self._copy("skipped", store, f"{number}, path, reason, line", "file = ?", (file,))

        self._file_of.extend([number] * (last - first))
        self._field_ends.extend((ends[1:] + (self._fields - ends[0])).tolist())
        self._fields += int(ends[-1] - ends[0])
        copied = store.document_of[first_passage:last_passage] + documents
        self._document_of.extend(copied.tolist())
        self._digests += store.digests()[first_passage:last_passage].tobytes()

    def _copy(
        self, table: str, store: Store, columns: str, condition: str, values: tuple[int, ...]
    ) -> None:
        sql = f"INSERT INTO {table} SELECT {columns} FROM {self._schemas[id(store)]}.{table} WHERE {condition}"
        self._db.execute(sql, values)

    def close(self) -> None:
        """Commit and close; the files are complete only then."""
        self._db.execute(_FIELDS_INDEX)
        self._db.execute("COMMIT")
        self._db.close()

        np.save(self._directory / DOCUMENT_OF_FILE, np.array(self._document_of, np.int32))
        documents = np.array([self._file_of, self._field_ends], np.int32).T
        np.save(self._directory / ROWS_FILE, np.ascontiguousarray(documents))
        digests = np.frombuffer(bytes(self._digests), np.uint64).reshape(-1, 2)
        np.save(self._directory / DIGESTS_FILE, digests)

    def abandon(self) -> None:
        """Close without completing the files."""
        self._db.close()


def printable(skipped: Skipped) -> tuple[str, str, int | None]:
    """Path, reason and line of what was skipped, as texts that can be stored."""
    # File names that are not UTF-8 hold lone surrogates.
    path = skipped.path.encode(errors="replace").decode()
    reason = skipped.reason.encode(errors="replace").decode()
    return path, reason, skipped.line


class FileState(NamedTuple):
    """State of a file.

    `changed_ns`, the time of the inode's last change, cannot be set back, unlike the time of the
    last write; but it moves with links to the file, too.
    """

    inode: int
    size: int
    written_ns: int
    changed_ns: int


def file_state(path: Path) -> FileState | None:
    """State of a file that differs after any write, cut or replacement; None without a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - every query calls it
    except FileNotFoundError:
        return None
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Store:
    """Reads the files of one segment; safe to share between threads.

    Each query reads its rows from the file, and raises Altered if the file is no longer in the
    state `before` (by default, that of now). A file that was removed can still be read. With
    `sha256` (hex), a file of which only the status changed, as when a later build links it, is
    compared with that and stays in use.
    """

    def __init__(
        self,
        directory: Path,
        kind: Kind,
        *,
        before: FileState | None = None,
        sha256: str | None = None,
        read: Callable[[Path], bytes] = Path.read_bytes,
    ) -> None:
        self._path = directory / DOCUMENTS_FILE
        self._before = before or file_state(self._path)
        self._sha256 = sha256
        self._db = sqlite3.connect(self.uri, uri=True, check_same_thread=False)
        self._lock = threading.Lock()
        self._kind: Kind = kind

        # Passage row -> document row.
        self.document_of = read_array(read(directory / DOCUMENT_OF_FILE)).astype(np.int64)
        documents = read_array(read(directory / ROWS_FILE))
        # Document row -> number of its source file; ascending.
        self.file_of = documents[:, 0]
        self._field_ends = documents[:, 1]

    @property
    def uri(self) -> str:
        """Address that SQLite opens the file by."""
        return f"{self._path.absolute().as_uri()}?mode=ro&immutable=1"

    def __len__(self) -> int:
        return len(self.file_of)

    def _all(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                rows = self._db.execute(sql, values).fetchall()
            # A mistake of this code, not of the file.
            except sqlite3.ProgrammingError:
                raise
            except sqlite3.DatabaseError as error:
                raise self._altered(f"cannot be read any more ({error})") from error

            state = file_state(self._path)
            if state not in (self._before, None):
                self._check_again(state)
        return rows

    def _check_again(self, state: FileState) -> None:
        """Accept a file of which only the status changed if its content is still the same."""
        written = self._before is None or state[:3] != self._before[:3]
        if written or self._sha256 is None:
            raise self._altered("was changed while it was in use")

        with self._path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != self._sha256 or file_state(self._path) != state:
            raise self._altered("was changed while it was in use")
        self._before = state

    def _altered(self, problem: str) -> Altered:
        segment = self._path.parent
        return Altered(
            builds.damage_message(segment.parent, f"{segment.name}/{self._path.name}", problem)
        )

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._db.close()

    # ---- rows

    def document_rows(self, file: int) -> tuple[int, int]:
        """First document row of a source file, and the first after it."""
        first, last = np.searchsorted(self.file_of, [file, file + 1])
        return int(first), int(last)

    def passage_rows(self, file: int) -> tuple[int, int]:
        """First passage row of a source file, and the first after it."""
        first, last = np.searchsorted(self.document_of, self.document_rows(file))
        return int(first), int(last)

    def field_ends(self, first: int, last: int) -> NDArray[np.int64]:
        """Rows of `fields` before document `first`, and up to each document before `last`."""
        before = self._field_ends[first - 1 : first] if first else np.zeros(1, np.int64)
        return np.concatenate([before, self._field_ends[first:last]]).astype(np.int64)

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Document rows of those of the given ids that exist in this segment."""
        sql = "SELECT id, row FROM documents WHERE id IN (SELECT value FROM json_each(?))"
        return dict(self._all(sql, (json.dumps(list(ids)),)))

    def ids(self, file: int) -> list[str]:
        """Ids of the documents of a source file."""
        sql = "SELECT id FROM documents WHERE row >= ? AND row < ?"
        return [identifier for (identifier,) in self._all(sql, self.document_rows(file))]

    def rows_named(self, name: str) -> list[int]:
        """Passage rows of the documents whose id or title is `name`; titles in any case."""
        sql = """SELECT p.row FROM documents JOIN passages p ON p.document = documents.row
                 WHERE documents.id = ? OR documents.title = ? LIMIT ?"""
        return [row for (row,) in self._all(sql, (name, name, MAX_NAMED))]

    def titles(self, rows: Sequence[int]) -> list[str]:
        """Titles of the documents in these rows."""
        sql = "SELECT row, title FROM documents WHERE row IN (SELECT value FROM json_each(?))"
        titles = dict(self._all(sql, (json.dumps(list(rows)),)))
        return [titles[row] for row in rows]

    def paths(self) -> list[str | None]:
        """Path (documents,) of the file that each document is in; None for records of a list.

        Documents of one source file have one path, which their ids begin with.
        """
        _, first_rows, numbers = np.unique(self.file_of, return_index=True, return_inverse=True)
        sql = """SELECT id, json_extract(record, '$.location[0]') FROM documents
                 WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row"""
        selected = self._all(sql, (json.dumps(first_rows.tolist()),))
        paths = [path if path and id_.startswith(f"{path}::") else None for id_, path in selected]
        return [paths[number] for number in numbers.tolist()]

    def digests(self) -> NDArray[np.uint64]:
        """Digests (passages, 2) of the rendered texts of all passages."""
        digests: NDArray[np.uint64] = np.load(self._path.parent / DIGESTS_FILE)
        return digests

    # ---- reading

    def document(self, row: int) -> Document:
        """The document in this row, whole."""
        return self._documents({row})[row]

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

    def read_file(self, file: int) -> Iterator[Document | Skipped]:
        """Yield what a source file yielded when it was read: documents, then what was skipped."""
        documents = f"SELECT {_COLUMNS} FROM documents WHERE row >= ? AND row < ? ORDER BY row"
        for row in self._all(documents, self.document_rows(file)):
            yield self._document(row)

        skipped = "SELECT path, reason, line FROM skipped WHERE file = ?"
        for path, reason, line in self._all(skipped, (file,)):
            yield Skipped(path, reason, line)

    def skipped(self) -> list[tuple[int, Skipped]]:
        """What the readers skipped: the number of the source file, and what it was."""
        rows = self._all("SELECT file, path, reason, line FROM skipped ORDER BY file, rowid")
        return [(file, Skipped(*columns)) for file, *columns in rows]

    def _document(self, row: Sequence[Any]) -> Document:
        identifier, title, body, summary, record = row
        try:
            return _from_json(identifier, self._kind, title, body, summary, record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._altered("has a record that Purlin did not write") from error

    # ---- filters

    def field_types(self, rows: NDArray[np.bool_] | None = None) -> dict[str, bool]:
        """Map each field name to whether any of its values is a number, in the given `rows`.

        `rows` is a mask (documents,). A loose scan of the index: one step per name, not per value,
        and further ones only over rows that are left out.
        """
        types: dict[str, bool] = {}
        row = self._all("SELECT min(name) FROM fields")[0]
        while row[0] is not None:
            name = str(row[0])
            # In SQLite, numbers sort before texts.
            numeric = self._has_field(name, "value < ''", rows)
            if numeric or self._has_field(name, "value >= ''", rows):
                types[name] = numeric
            row = self._all("SELECT min(name) FROM fields WHERE name > ?", (name,))[0]
        return types

    def _has_field(self, name: str, condition: str, rows: NDArray[np.bool_] | None) -> bool:
        sql = f"SELECT document FROM fields WHERE name = ? AND {condition}"
        if rows is None:
            return bool(self._all(f"{sql} LIMIT 1", (name,)))
        with self._lock:
            return any(rows[row] for (row,) in self._db.execute(sql, (name,)))

    def matching(self, checked: Sequence[Clause]) -> NDArray[np.bool_]:
        """Mask (documents,) of the documents that fulfil every clause."""
        mask = np.ones(len(self), dtype=np.bool_)
        for clause in checked:
            sql = f"SELECT document FROM fields WHERE name = ? AND {clause.sql}"
            rows = self._all(sql, (clause.name, *clause.values))
            fulfilled = np.zeros(len(self), dtype=np.bool_)
            fulfilled[np.fromiter((row for (row,) in rows), np.int64, len(rows))] = True
            mask &= fulfilled
        return mask


class Documents:
    """The documents of a build, in one or more segments.

    The rows of a segment follow those of the one before it. `live` (passages,) is false for
    passages that were removed since their segment was written; None means that there are none.
    `numeric` maps each field to whether any of its values is a number.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        numeric: Mapping[str, bool],
        live: NDArray[np.bool_] | None = None,
    ) -> None:
        self.numeric = numeric
        self.stores = stores
        self._live = live
        self._starts = [0, *accumulate(map(len, stores))]
        self._passage_starts = [0, *accumulate(len(store.document_of) for store in stores)]

        # Passage row -> document row.
        self.document_of = np.concatenate(
            [store.document_of + start for store, start in self._parts()]
        )
        self._live_documents = np.ones(len(self), dtype=np.bool_)
        if live is not None:
            self._live_documents[:] = False
            self._live_documents[self.document_of[live]] = True

    def __len__(self) -> int:
        """Number of document rows, with those that were removed."""
        return self._starts[-1]

    @property
    def count(self) -> int:
        """Number of documents, without those that were removed."""
        return int(np.count_nonzero(self._live_documents))

    def _parts(self) -> Iterator[tuple[Store, int]]:
        return zip(self.stores, self._starts, strict=False)

    def close(self) -> None:
        """Release the files."""
        for store in self.stores:
            store.close()

    def document(self, document_id: str) -> Document:
        """The document with this id, whole."""
        for row in self.rows_of([document_id]).values():
            for store, start in self._parts():
                if start <= row < start + len(store):
                    return store.document(row - start)
        raise NotFound(f"There is no document {document_id[:200]!r} in this corpus.", field="id")

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Document rows of those of the given ids that exist."""
        listed_ids = list(ids)
        return {
            identifier: row + start
            for store, start in self._parts()
            for identifier, row in store.rows_of(listed_ids).items()
            if self._live_documents[row + start]
        }

    def rows_named(self, name: str) -> NDArray[np.int64]:
        """Passage rows of the documents whose id or title is `name`; titles in any case."""
        rows = np.array(
            [
                row + start
                for store, start in zip(self.stores, self._passage_starts, strict=False)
                for row in store.rows_named(name)
            ],
            dtype=np.int64,
        )
        return rows if self._live is None else rows[self._live[rows]]

    def titles(self, rows: Sequence[int]) -> list[str]:
        """Titles of the documents in these rows."""
        titles: dict[int, str] = {}
        for store, start in self._parts():
            own = [row for row in rows if start <= row < start + len(store)]
            titles |= dict(zip(own, store.titles([row - start for row in own]), strict=True))
        return [titles[row] for row in rows]

    def paths(self) -> list[str | None]:
        """Path (documents,) of the file that each document is in.

        It is None for records of a list, and for documents that were removed.
        """
        paths = [path for store in self.stores for path in store.paths()]
        live = self._live_documents.tolist()
        return [path if lives else None for path, lives in zip(paths, live, strict=True)]

    def fetch(self, rows: Sequence[int]) -> list[StoredPassage]:
        """Passages of these rows in the given order; those of one document share its object."""
        passages: dict[int, StoredPassage] = {}
        for number, store in enumerate(self.stores):
            start, end = self._passage_starts[number : number + 2]
            own = [row for row in rows if start <= row < end]
            if own:
                stored = store.fetch([row - start for row in own])
                passages |= dict(zip(own, stored, strict=True))
        return [passages[row] for row in rows]

    @property
    def field_names(self) -> list[str]:
        """Sorted names that a filter may use."""
        return sorted(self.numeric)

    def allowed(self, conditions: Filter) -> NDArray[np.bool_]:
        """Mask (documents,) of the documents for which every condition holds.

        Raises InvalidInput, which names the field.
        """
        checked = clauses(conditions, self.numeric)
        masks = [store.matching(checked) for store in self.stores]
        return np.concatenate(masks) & self._live_documents


_COLUMNS = "documents.id, documents.title, documents.body, documents.summary, documents.record"


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
