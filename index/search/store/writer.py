"""Writes the documents of a segment; `purlin.index.search.store.segment_store` says into which files."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np

from purlin.index.records import Skipped
from purlin.index.search.store.columns import ColumnsWriter
from purlin.index.search.store.document_records import Entry, json_line, storable
from purlin.index.search.store.names import hash_of, write_names
from purlin.index.search.store.segment_store import (
    DIGESTS_FILE,
    DOCUMENT_OF_FILE,
    DOCUMENTS_FILE,
    ENDS_FILE,
    FILE_OF_FILE,
    IDS,
    LENGTHS_FILE,
    PATHS,
    SKIPPED_FILE,
    TITLES,
    Store,
    range_of,
)
from purlin.index.storage.blocks import BlockWriter
from purlin.index.storage.digests import DIGEST_BYTES

_COPIED_TOGETHER = 2**20  # bytes


class StoreWriter:
    """Writes the files of one segment, which readers see only after `close`.

    Rows count from 0 in the order in which they are added. Memory holds some 44 bytes a document,
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
        self._lengths = array("i")
        self._ids, self._titles = array("Q"), array("Q")
        # The hash of each path, and the first row that has it.
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
        self._skipped.write(json_line([file, *storable(skipped)]))

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
        self._lengths.extend(entry.lengths)
        for digest in entry.digests:
            self._digests.write(digest)

        for name, value in entry.fields:
            self._columns.add(name, value, row)

    def copy(self, store: Store, file: int, number: int) -> None:
        """Append all that an earlier segment's store has of its source file `file`; `number` is its number here.

        Each file may be copied once.
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

        if store not in self._copied:
            self._copied[store] = _Copied(store)
        copied = self._copied[store]
        copied.rows[first:last] = np.arange(row, row + last - first)
        self._ids.frombytes(copied.ids[first:last].tobytes())
        self._titles.frombytes(copied.titles[first:last].tobytes())
        paths = slice(*range_of(copied.path_rows, first, last))
        self._paths.frombytes(copied.paths[paths].tobytes())
        self._path_rows.frombytes((copied.path_rows[paths] + (row - first)).tobytes())
        self._last_path = ""
        self._file_of.extend([number] * (last - first))
        documents = store.document_of[first_passage:last_passage] + np.int32(row - first)
        self._document_of.frombytes(documents.tobytes())
        self._lengths.frombytes(store.lengths[first_passage:last_passage].tobytes())

    def close(self) -> None:
        """Complete the files."""
        for store, copied in self._copied.items():
            self._columns.copy(store.columns, copied.rows)
        self._columns.close()
        for file in (self._records, self._digests, self._skipped):
            file.close()

        np.save(self._directory / ENDS_FILE, np.array(self._ends, np.int64))
        np.save(self._directory / FILE_OF_FILE, np.array(self._file_of, np.int32))
        np.save(self._directory / LENGTHS_FILE, np.array(self._lengths, np.int32))
        np.save(self._directory / DOCUMENT_OF_FILE, np.array(self._document_of, np.int32))
        write_names(self._directory, IDS, np.array(self._ids, np.uint64))
        write_names(self._directory, TITLES, np.array(self._titles, np.uint64))
        path_rows = np.array(self._path_rows, np.int64)
        write_names(self._directory, PATHS, np.array(self._paths, np.uint64), path_rows)

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
