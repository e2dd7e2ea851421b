"""Documents and passages of a segment, and their names and filterable fields, on disk.

    documents.bin     a record per document: a line with id, title, path and the tokens of these two,
                      which ranking needs, and a line with the rest and the passages, both JSON
    record_ends.npy   int64 (documents,): where each record ends
    file_of.npy       int32 (documents,): the source file of each document, ascending
    document_of.npy   int32 (passages,): the document of each passage, ascending
    digests.bin       uint64 (passages, 2): the digest of each passage's rendered text
    skipped.bin       a JSON line for each thing that the readers skipped
    ids.*, titles.*   rows by id and title, see `purlin.index.search.names`
    paths.*           the first row of each file by path
    columns.*         the fields, see `purlin.index.search.columns`

The files are written once and only read afterwards. Those with the suffix .bin stay on disk; each
read of one is verified and raises Altered if the file was changed.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from purlin.index.blocks import UNCHECKED, BlockWriter, Reader
from purlin.index.errors import Altered, NotFound
from purlin.index.passages import path_text
from purlin.index.records import Document, Kind, Location, Passage, Skipped, Span
from purlin.index.search.columns import Columns, ColumnsWriter
from purlin.index.search.filters import ANY_CASE, Clause, Filter, Held, Scalar, clauses, filterable
from purlin.index.search.names import Names, hash_of, write_names
from purlin.index.search.tokens import distinct_tokens
from purlin.index.storage import read_array

DOCUMENTS_FILE, DIGESTS_FILE, SKIPPED_FILE = "documents.bin", "digests.bin", "skipped.bin"
ENDS_FILE, FILE_OF_FILE, DOCUMENT_OF_FILE = "record_ends.npy", "file_of.npy", "document_of.npy"
_IDS, _TITLES, _PATHS = "ids", "titles", "paths"
# Passages of documents whose title is the query.
MAX_NAMED = 1000
DIGEST_BYTES = 16
# Bytes that nearly every first line of a record fits into.
_HEAD_BYTES = 512
# Heads that stay in memory, some 10 MB: searches of a repository ask for 200, often the same ones.
_RECENT_HEADS = 2**14
# Documents, and bytes, that are read together.
_READ_TOGETHER, _COPIED_TOGETHER = 1000, 2**20


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage with its document."""

    document: Document
    passage: Passage


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

    `digests` are those of its passages' rendered texts.
    """

    record: bytes
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
        hash_of(document.id),
        hash_of(_folded(document.title)),
        _path_of(document),
        list(filterable(document.fields, any_case=any_case)),
        [digest for _, digest in listed],
    )


class StoreWriter:
    """Writes the files of one segment, which readers see only after `close`.

    Rows count from 0 in the order in which they are added. Memory holds some 40 bytes a document,
    whatever is in it. Stores that files are copied from stay open until then.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._records = BlockWriter(directory / DOCUMENTS_FILE)
        self._digests = BlockWriter(directory / DIGESTS_FILE)
        self._skipped = BlockWriter(directory / SKIPPED_FILE)
        self._columns = ColumnsWriter(directory)

        self.files = 0
        self._ends = array("q")
        self._document_of, self._file_of = array("i"), array("i")
        self._ids, self._titles = array("Q"), array("Q")
        # Where a path begins, the hash of it and the row.
        self._paths, self._path_rows = array("Q"), array("q")
        self._last_path = ""
        self._copied: dict[Store, _Copied] = {}

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
        self._skipped.write(_line([file, *storable(skipped)]))

    def add(self, entry: Entry, file: int) -> None:
        """Append a document, which comes from this source file."""
        row = self.documents
        self._records.write(entry.record)
        self._ends.append(self._records.tell())
        self._file_of.append(file)
        self._ids.append(entry.id_hash)
        self._titles.append(entry.title_hash)
        if entry.path and entry.path != self._last_path:
            self._paths.append(hash_of(entry.path))
            self._path_rows.append(row)
        self._last_path = entry.path
        self._document_of.extend([row] * len(entry.digests))
        for digest in entry.digests:
            self._digests.write(digest)
        for name, value in entry.fields:
            self._columns.add(name, value, row)

    def copy(self, store: Store, file: int, number: int) -> None:
        """Append what the store of an earlier segment has of its source file `file`, once each.

        `number` is the file's number here.
        """
        first, last = store.document_rows(file)
        first_passage, last_passage = store.passage_rows(file)
        row, before = self.documents, self._records.tell()

        start, stop = int(store.starts[first]), int(store.starts[last])
        for position in range(start, stop, _COPIED_TOGETHER):
            content = store.records.read(position, min(position + _COPIED_TOGETHER, stop))
            self._records.write(content)
        self._ends.frombytes((store.starts[first + 1 : last + 1] + (before - start)).tobytes())
        self._digests.write(
            store.digest_file.read(first_passage * DIGEST_BYTES, last_passage * DIGEST_BYTES)
        )
        for skipped in store.skipped_in(file):
            self.add_skipped(skipped, number)

        copied = self._copied.setdefault(store, _Copied(store))
        copied.rows[first:last] = np.arange(row, row + last - first)
        self._ids.frombytes(copied.ids[first:last].tobytes())
        self._titles.frombytes(copied.titles[first:last].tobytes())
        paths = slice(*_range_of(copied.path_rows, first, last))
        self._paths.frombytes(copied.paths[paths].tobytes())
        self._path_rows.frombytes((copied.path_rows[paths] + (row - first)).tobytes())
        self._last_path = ""
        self._file_of.extend([number] * (last - first))
        documents = store.document_of[first_passage:last_passage] + np.int32(row - first)
        self._document_of.frombytes(documents.tobytes())

    def close(self) -> None:
        """Complete the files."""
        for store, copied in self._copied.items():
            self._columns.copy(store.columns, copied.rows)
        self._columns.close()
        for file in (self._records, self._digests, self._skipped):
            file.close()

        np.save(self._directory / ENDS_FILE, np.array(self._ends, np.int64))
        np.save(self._directory / FILE_OF_FILE, np.array(self._file_of, np.int32))
        np.save(self._directory / DOCUMENT_OF_FILE, np.array(self._document_of, np.int32))
        write_names(self._directory, _IDS, np.array(self._ids, np.uint64))
        write_names(self._directory, _TITLES, np.array(self._titles, np.uint64))
        path_rows = np.array(self._path_rows, np.int64)
        write_names(self._directory, _PATHS, np.array(self._paths, np.uint64), path_rows)

    def abandon(self) -> None:
        """Release the files without completing them."""
        for file in (self._records, self._digests, self._skipped, self._columns):
            file.abandon()


class _Copied:
    """What is copied from one store: the new row of each of its documents, or -1."""

    def __init__(self, store: Store) -> None:
        self.rows = np.full(len(store), -1, dtype=np.int32)
        _, self.ids = store.by_id.entries()
        _, self.titles = store.by_title.entries()
        self.path_rows, self.paths = store.by_path.entries()


def storable(skipped: Skipped) -> tuple[str, str, int | None, bool]:
    """Columns of what was skipped, its texts such that they can be stored."""
    # File names that are not UTF-8 hold lone surrogates.
    path = skipped.path.encode(errors="replace").decode()
    reason = skipped.reason.encode(errors="replace").decode()
    return path, reason, skipped.line, skipped.by_choice


class Store:
    """Reads the files of one segment; safe to share between threads.

    Raises Damaged for a file that is not as `files` says, and Altered once one was changed. A file
    that was removed can still be read.
    """

    def __init__(self, directory: Path, kind: Kind, files: Reader = UNCHECKED) -> None:
        self._kind: Kind = kind
        self.records = files.blocks(directory / DOCUMENTS_FILE)
        self.digest_file = files.blocks(directory / DIGESTS_FILE)
        self._skipped_file = files.blocks(directory / SKIPPED_FILE)
        self.columns = Columns(directory, files)
        self.by_id = Names(directory, _IDS, files)
        self.by_title = Names(directory, _TITLES, files)
        self.by_path = Names(directory, _PATHS, files)

        # Passage row -> document row.
        self.document_of = read_array(files.read(directory / DOCUMENT_OF_FILE))
        # Document row -> number of its source file; ascending.
        self.file_of = read_array(files.read(directory / FILE_OF_FILE))
        # Document row -> start of its record; the last is the end of them all.
        ends = read_array(files.read(directory / ENDS_FILE))
        self.starts = np.concatenate([np.zeros(1, np.int64), ends])
        if self.starts[-1] != self.records.size:
            raise self.records.altered("does not fit its segment")
        self._recent_heads: dict[int, Head] = {}

    def __len__(self) -> int:
        return len(self.file_of)

    def close(self) -> None:
        """Release the files."""
        for file in (
            self.records,
            self.digest_file,
            self._skipped_file,
            self.columns,
            self.by_id,
            self.by_title,
            self.by_path,
        ):
            file.close()

    # ---- rows

    def document_rows(self, file: int) -> tuple[int, int]:
        """First document row of a source file, and the first after it."""
        return _range_of(self.file_of, file, file + 1)

    def passage_rows(self, file: int) -> tuple[int, int]:
        """First passage row of a source file, and the first after it."""
        return _range_of(self.document_of, *self.document_rows(file))

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Document rows of those of the given ids that exist in this segment."""
        return self._first_rows(ids, self.by_id, lambda head: head.id)

    def ids(self, file: int) -> list[str]:
        """Ids of the documents of a source file."""
        return [head.id for head in self.heads(range(*self.document_rows(file)))]

    def rows_named(self, name: str) -> list[int]:
        """Passage rows of the documents whose id or title is `name`; titles in any ASCII case."""
        (by_id,) = self.by_id.rows([name])
        (by_title,) = self.by_title.rows([_folded(name)])
        rows = sorted({*by_id, *by_title[:MAX_NAMED]})
        named = [
            row
            for row, head in zip(rows, self.heads(rows), strict=True)
            if head.id == name or _folded(head.title) == _folded(name)
        ]
        passages = [
            row
            for document in named
            for row in range(*_range_of(self.document_of, document, document + 1))
        ]
        return passages[:MAX_NAMED]

    def rows_in(self, paths: Iterable[str]) -> dict[str, int]:
        """For those of the paths that a file has, the first row of its documents."""
        return self._first_rows(paths, self.by_path, lambda head: head.path)

    def _first_rows(
        self, names: Iterable[str], index: Names, name_of: Callable[[Head], str | None]
    ) -> dict[str, int]:
        """For those of the names that documents have, the first row of these."""
        listed = list(names)
        candidates = index.rows(listed)
        rows = [row for own in candidates for row in own]
        heads = dict(zip(rows, self.heads(rows), strict=True))
        return {
            name: row
            for name, own in zip(listed, candidates, strict=True)
            for row in reversed(own)
            if name_of(heads[row]) == name
        }

    def digests(self) -> NDArray[np.uint64]:
        """Digests (passages, 2) of the rendered texts of all passages."""
        content = self.digest_file.read(0, self.digest_file.size)
        return np.frombuffer(content, np.uint64).reshape(-1, 2)

    # ---- reading

    def heads(self, rows: Sequence[int]) -> list[Head]:
        """What names the documents in these rows."""
        heads = {row: head for row in rows if (head := self._recent_heads.get(row)) is not None}
        if missing := [row for row in rows if row not in heads]:
            read = dict(zip(missing, self._read_heads(missing), strict=True))
            heads |= read
            self._recent_heads.update(read)
            if len(self._recent_heads) > _RECENT_HEADS:
                for row in list(self._recent_heads)[: _RECENT_HEADS // 2]:
                    # Another thread may drop the same ones.
                    self._recent_heads.pop(row, None)
        return [heads[row] for row in rows]

    def _read_heads(self, rows: Sequence[int]) -> list[Head]:
        numbers = np.array(rows, dtype=np.int64)
        starts, stops = self.starts[numbers], self.starts[numbers + 1]
        beginnings = self.records.parts(starts, np.minimum(stops, starts + _HEAD_BYTES))
        lines = [beginning.partition(b"\n")[0] for beginning in beginnings]

        if long := [position for position, line in enumerate(lines) if len(line) == _HEAD_BYTES]:
            whole = self.records.parts(starts[long], stops[long])
            for position, record in zip(long, whole, strict=True):
                lines[position] = record.partition(b"\n")[0]

        # Parsed together, which is faster than one by one.
        try:
            heads = json.loads(b"[" + b",".join(lines) + b"]")
            return [
                Head(id, title, id[:length] or None, title_tokens, path_tokens)
                for id, title, length, title_tokens, path_tokens in heads
            ]
        except (ValueError, TypeError) as error:
            raise self._foreign() from error

    def document(self, row: int) -> Document:
        """The document in this row, whole."""
        return self._read([row])[row][0]

    def fetch(self, rows: Sequence[int]) -> list[StoredPassage]:
        """Passages of these rows in the given order; those of one document share its object."""
        numbers = np.array(rows, dtype=np.int64)
        document_rows = self.document_of[numbers]
        documents = self._read(np.unique(document_rows).tolist())
        firsts = np.searchsorted(self.document_of, document_rows)

        fetched = []
        for document_row, number in zip(
            document_rows.tolist(), (numbers - firsts).tolist(), strict=True
        ):
            document, passages = documents[document_row]
            try:
                fetched.append(StoredPassage(document, Passage(document.id, *passages[number])))
            except (IndexError, TypeError) as error:
                raise self._foreign() from error
        return fetched

    def read_file(self, file: int) -> Iterator[Document | Skipped]:
        """Yield what a source file yielded when it was read: documents, then what was skipped."""
        first, last = self.document_rows(file)
        for start in range(first, last, _READ_TOGETHER):
            rows = range(start, min(start + _READ_TOGETHER, last))
            documents = self._read(rows)
            yield from (documents[row][0] for row in rows)
        yield from self.skipped_in(file)

    def _read(self, rows: Sequence[int]) -> dict[int, tuple[Document, Sequence[Any]]]:
        """Documents by row, each with its passages as they are stored."""
        numbers = np.array(rows, dtype=np.int64)
        records = self.records.parts(self.starts[numbers], self.starts[numbers + 1])
        try:
            return {
                row: _parse(record, self._kind) for row, record in zip(rows, records, strict=True)
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._foreign() from error

    def _foreign(self) -> Altered:
        return self.records.altered("has a record that Purlin did not write")

    def skipped(self) -> list[tuple[int, Skipped]]:
        """What the readers skipped: the number of the source file, and what it was."""
        return [(file, item) for file, items in sorted(self._skipped.items()) for item in items]

    def skipped_in(self, file: int) -> list[Skipped]:
        """What the reader of a source file skipped."""
        return self._skipped.get(file, [])

    @cached_property
    def _skipped(self) -> dict[int, list[Skipped]]:
        content = bytes(self._skipped_file.read(0, self._skipped_file.size))
        skipped: dict[int, list[Skipped]] = {}
        for line in content.splitlines():
            file, *columns = json.loads(line)
            skipped.setdefault(file, []).append(Skipped(*columns))
        return skipped

    # ---- filters

    def field_types(self, rows: NDArray[np.bool_] | None = None) -> dict[str, Held]:
        """Map each field name to what its values are, in the given `rows`.

        `rows` is a mask (documents,).
        """
        return self.columns.types(rows)

    def matching(self, checked: Sequence[Clause]) -> NDArray[np.bool_]:
        """Mask (documents,) of the documents that fulfil every clause."""
        return self.columns.matching(checked, len(self))


class Documents:
    """The documents of a build, in one or more segments.

    The rows of a segment follow those of the one before it. `live` (passages,) is false for
    passages that were removed since their segment was written; None means that there are none.
    `held` maps each field to what its values are.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        held: Mapping[str, Held],
        live: NDArray[np.bool_] | None = None,
    ) -> None:
        self.held = held
        self.stores = stores
        self._live = live
        self._starts = [0, *accumulate(map(len, stores))]
        self._passage_starts = [0, *accumulate(len(store.document_of) for store in stores)]

        # Passage row -> document row.
        self.document_of = (
            stores[0].document_of
            if len(stores) == 1
            else np.concatenate(
                [store.document_of + np.int32(start) for store, start in self._parts()]
            )
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
        raise NotFound(
            f"There is no document {document_id[:200]!r} in this corpus: give the document_id of a hit.",
            field="id",
        )

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

    def heads(self, rows: Sequence[int]) -> list[Head]:
        """What names the documents in these rows."""
        if len(self.stores) == 1:
            return self.stores[0].heads(rows)
        heads: dict[int, Head] = {}
        for store, start in self._parts():
            own = [row for row in rows if start <= row < start + len(store)]
            heads |= zip(own, store.heads([row - start for row in own]), strict=True)
        return [heads[row] for row in rows]

    @property
    def has_files(self) -> bool:
        """Whether any document is in a file, rather than a record of a list."""
        return any(
            self._live_documents[store.by_path.entries()[0] + start].any()
            for store, start in self._parts()
        )

    def existing_paths(self, paths: Iterable[str]) -> set[str]:
        """Those of the paths that some document's file has."""
        listed = list(paths)
        return {
            path
            for store, start in self._parts()
            for path, row in store.rows_in(listed).items()
            if self._live_documents[row + start]
        }

    def fetch(self, rows: Sequence[int]) -> list[StoredPassage]:
        """Passages of these rows in the given order; those of one document share its object."""
        if len(self.stores) == 1:
            return self.stores[0].fetch(rows)
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
        return sorted(self.held)

    def allowed(self, conditions: Filter) -> NDArray[np.bool_]:
        """Mask (documents,) of the documents for which every condition holds.

        Raises InvalidInput, which names the field.
        """
        checked = clauses(conditions, self.held)
        masks = [store.matching(checked) for store in self.stores]
        return np.concatenate(masks) & self._live_documents


def _range_of(ascending: NDArray[np.integer], first: int, stop: int) -> tuple[int, int]:
    """First position of a value from `first` on, and of one from `stop` on."""
    # Bounds of another type would be compared with a converted copy of the whole array.
    start, end = np.searchsorted(ascending, np.array([first, stop], ascending.dtype))
    return int(start), int(end)


def _folded(title: str) -> str:
    """The title in lower case, as far as it is ASCII."""
    return title.translate(_LOWER)


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _record(document: Document, passages: Sequence[Passage]) -> bytes:
    location = document.location
    path = _path_of(document)
    names = distinct_tokens(document.title), _path_tokens(path)
    head = [document.id, document.title, len(path), *names]
    values = {
        "body": document.body,
        "summary": document.summary,
        "context": document.context,
        "location": [location.path, location.start_line, location.end_line, location.url],
        "fields": dict(document.fields),
        "entities": [(span.start, span.end) for span in document.entities],
        "atoms": [(span.start, span.end) for span in document.atoms],
        "passages": [
            (passage.number, passage.start, passage.end, passage.context) for passage in passages
        ],
    }
    return _line(head) + _line({key: value for key, value in values.items() if value})


# The documents of a file follow each other.
@lru_cache(maxsize=16)
def _path_tokens(path: str) -> str:
    return distinct_tokens(path_text(path))


def _path_of(document: Document) -> str:
    """Path of the document's file, which its id begins with; empty for a record of a list."""
    path = document.location.path or ""
    return path if document.id.startswith(f"{path}::") else ""


def _parse(content: bytes, kind: Kind) -> tuple[Document, Sequence[Any]]:
    """A document, and the columns of its passages, from its record."""
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
        entities=tuple(Span(*span) for span in record.get("entities", ())),
        atoms=tuple(Span(*span) for span in record.get("atoms", ())),
    )
    return document, record.get("passages", ())
