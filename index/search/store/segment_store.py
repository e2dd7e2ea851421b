"""Documents and passages of a segment, and their names and filterable fields, on disk.

    documents.bin     a record per document: a line with id, title, path and the tokens of these two,
                      which ranking needs, and a line with the rest and the passages, both JSON
    record_ends.npy   int64 (documents,): where each record ends
    file_of.npy       int32 (documents,): the source file of each document, ascending
    document_of.npy   int32 (passages,): the document of each passage, ascending
    lengths.npy       int32 (passages,): the length of each passage in characters
    digests.bin       uint64 (passages, 2): the digest of each passage's rendered text
    skipped.bin       a JSON line for each thing that the readers skipped
    ids.*, titles.*   rows by id and title, see `purlin.index.search.store.names`
    paths.*           the first row of each file by path
    columns.*         the fields, see `purlin.index.search.store.columns`

The files are written once and only read afterwards. Those with the suffix .bin stay on disk; each
read of one is verified and raises Altered if the file was changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.distinct import sorted_distinct
from purlin.index.errors import Altered
from purlin.index.records import Document, Kind, Passage, Skipped
from purlin.index.search.store.columns import Columns
from purlin.index.search.store.document_records import Head, folded_title, parse_record, parse_texts
from purlin.index.search.store.names import Names
from purlin.index.storage import read_array
from purlin.index.storage.blocks import UNCHECKED, FileReader

DOCUMENTS_FILE, DIGESTS_FILE, SKIPPED_FILE = "documents.bin", "digests.bin", "skipped.bin"
ENDS_FILE, FILE_OF_FILE, DOCUMENT_OF_FILE = "record_ends.npy", "file_of.npy", "document_of.npy"
LENGTHS_FILE = "lengths.npy"
IDS, TITLES, PATHS = "ids", "titles", "paths"
# Passages of documents whose title is the query.
MAX_NAMED = 1000
# Bytes that nearly every first line of a record fits into.
_HEAD_BYTES = 512
# Heads that stay in memory, some 10 MB: searches of a repository ask for 200, often the same ones.
_RECENT_HEADS = 2**14
_READ_TOGETHER = 1000  # documents


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage with its document."""

    document: Document
    passage: Passage


class Store:
    """Reads the files of one segment; safe to share between threads.

    Raises Damaged for a file that is not what `files` expects, and Altered for one that was changed
    later. A file that was removed can still be read.
    """

    def __init__(self, directory: Path, kind: Kind, files: FileReader = UNCHECKED) -> None:
        self._kind: Kind = kind
        self.records = files.blocks(directory / DOCUMENTS_FILE)
        self.digest_file = files.blocks(directory / DIGESTS_FILE)
        self._skipped_file = files.blocks(directory / SKIPPED_FILE)
        self.columns = Columns(directory, files)
        self.by_id = Names(directory, IDS, files)
        self.by_title = Names(directory, TITLES, files)
        self.by_path = Names(directory, PATHS, files)

        # Passage row -> document row.
        self.document_of = read_array(files.read(directory / DOCUMENT_OF_FILE))
        # Document row -> number of its source file; ascending.
        self.file_of = read_array(files.read(directory / FILE_OF_FILE))
        # Passage row -> its length.
        self.lengths = read_array(files.read(directory / LENGTHS_FILE))
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
        return range_of(self.file_of, file, file + 1)

    def passage_rows(self, file: int) -> tuple[int, int]:
        """First passage row of a source file, and the first after it."""
        return range_of(self.document_of, *self.document_rows(file))

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Document rows of those of the given ids that exist in this segment."""
        return self._first_rows(ids, self.by_id, lambda head: head.id)

    def ids(self, file: int) -> list[str]:
        """Ids of the documents of a source file."""
        return [head.id for head in self.heads(range(*self.document_rows(file)))]

    def rows_named(self, name: str) -> list[int]:
        """Passage rows of the documents whose id or title is `name`; titles in any ASCII case."""
        (by_id,) = self.by_id.rows([name])
        (by_title,) = self.by_title.rows([folded_title(name)])
        rows = sorted({*by_id, *by_title[:MAX_NAMED]})

        named = [
            row
            for row, head in zip(rows, self.heads(rows), strict=True)
            if head.id == name or folded_title(head.title) == folded_title(name)
        ]

        passages = [
            row
            for document in named
            for row in range(*range_of(self.document_of, document, document + 1))
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
                Head(id, title, id[:length] or None, *token_lists)
                for id, title, length, *token_lists in heads
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
        documents = self._read(sorted_distinct(document_rows).tolist())
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

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Lines of these passages, those around a document with its first one, in the given order."""
        numbers = np.array(rows, dtype=np.int64)
        document_rows = self.document_of[numbers]
        positions = numbers - np.searchsorted(self.document_of, document_rows)
        documents = sorted_distinct(document_rows)
        records = self.records.parts(self.starts[documents], self.starts[documents + 1])

        try:
            texts = dict(zip(documents.tolist(), map(parse_texts, records), strict=True))
            pairs = zip(document_rows.tolist(), positions.tolist(), strict=True)
            return [texts[row][position] for row, position in pairs]
        except (ValueError, TypeError, AttributeError, IndexError) as error:
            raise self._foreign() from error

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
                row: parse_record(record, self._kind)
                for row, record in zip(rows, records, strict=True)
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


def range_of(ascending: NDArray[np.integer], first: int, stop: int) -> tuple[int, int]:
    """First position of a value from `first` on, and of one from `stop` on."""
    # Bounds of another type would be compared with a converted copy of the whole array.
    start, end = np.searchsorted(ascending, np.array([first, stop], ascending.dtype))
    return int(start), int(end)
