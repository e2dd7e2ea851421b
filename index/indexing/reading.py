"""Reads sources into a new segment, and tells what the segments of the earlier build keep."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from purlin.index import versions
from purlin.index.builds.manifests import MANIFEST_FORMAT
from purlin.index.errors import InvalidInput
from purlin.index.indexing.ahead import Item, read_ahead
from purlin.index.indexing.earlier import Earlier
from purlin.index.indexing.encoding import Encoding
from purlin.index.indexing.segment import SegmentWriter, prepare
from purlin.index.indexing.unfinished import Unfinished
from purlin.index.pace import Progress
from purlin.index.records import PART, Document, Skipped, SourceFile, Splitter
from purlin.index.search.lexical.languages import ENGLISH, Language
from purlin.index.search.segments import BASE, DELTA
from purlin.index.search.store.listing import IndexedFile, Listing, read_listing
from purlin.index.storage.digests import DigestMap, digest

_T = TypeVar("_T")

# A delta is written if at most this share of the base's files has changed, and merged into a new
# base once it has more than this share of its passages, or so many that to write it again for one
# changed file takes about half a second; see docs/decisions.md.
MOST_CHANGED, LARGEST_DELTA = 0.1, 10_000
# A base of fewer passages is written anew: that takes no longer.
SMALLEST_BASE = 1000
# Documents that are read before other processes, which take a third of a second to start, read the
# rest.
READ_ALONE = 3000


# A source file that has changed or is new, one that the earlier build has, or what is left out.
_Entry = SourceFile | IndexedFile | Skipped


class SourceReader:
    """Reads the files of a build that no kept segment has.

    `kept` is the number of segments that the build takes over from the earlier one; `segment` is
    the name of the new one, which has the documents of all other files, or "" if there are none.
    `language` is that of a build anew, None to tell it by the texts. With more than one of
    `processes`, so many read what is large, unless it has to tell its language.
    """

    def __init__(
        self,
        staging_dir: Path,
        splitter: Splitter,
        earlier: Earlier,
        encoding: Encoding,
        progress: Progress,
        language: Language | None,
        processes: int = 1,
    ) -> None:
        self._language, self._processes = language, processes
        self._staging_dir, self._splitter = staging_dir, splitter
        self._earlier, self._encoding, self._progress = earlier, encoding, progress
        self.kept = 0
        self.segment = ""
        self.first_skipped: Skipped | None = None
        # Where a file ends too early, the first such place.
        self.cut_off: Skipped | None = None
        # Standard column of products -> all columns that serve as it; and the files that have none of
        # them for the title.
        self.columns: dict[str, dict[str, None]] = {}
        self.untitled: dict[str, None] = {}
        # Whether some file failed in a way that may not repeat.
        self.failed = False
        # Documents that no earlier build had.
        self._documents_read = 0

        self._writer: SegmentWriter | None = None
        self._key = hashlib.blake2b(digest_size=16)
        # Digest of each document id -> number of its file in the new segment.
        self._ids = DigestMap()
        # (segment, number) of each file that stays where it is -> its position in the sources.
        self._positions: dict[tuple[int, int], int] = {}

    def read(
        self, sources: Iterable[SourceFile | Skipped], comparable: bool, unfinished: Unfinished
    ) -> Listing:
        """Read what has changed, close the new segment, and return the listing of the build.

        `comparable` tells whether vectors of the earlier build can stay. What an unfinished build
        has read of the same sources is taken over.
        """
        self._begin_key(comparable)
        entries: Iterable[_Entry] = map(self._entry, readable(sources))
        # Otherwise, nothing has to be known of all files before the first one is read.
        if self._copyable or unfinished.has_reading:
            entries = listed = list(entries)
            if (reading := unfinished.reading(self.key)) is not None:
                unfinished.take_over(reading, self._staging_dir)
                self.kept, self.segment = reading.kept, reading.segment
                return read_listing(self._staging_dir)

            self.kept = self._segments_to_keep(listed, comparable)
            # The language that was told stays as long as any file is taken over.
            is_any_kept = any(isinstance(entry, IndexedFile) for entry in listed)
            if self._language is None and self._copyable and is_any_kept:
                self._language = self._earlier.segments[0].postings.language
            for position, entry in enumerate(listed):
                if isinstance(entry, IndexedFile) and entry.segment < self.kept:
                    self._positions[entry.segment, entry.number] = position

        try:
            listing = self._read(entries)
            if self._writer is not None:
                self._writer.close()
        except BaseException:
            if self._writer is not None:
                self._writer.abandon()
            raise
        return listing

    @property
    def key(self) -> str:
        """Digest of all that was read, and of what it depends on."""
        return self._key.hexdigest()

    def _begin_key(self, comparable: bool) -> None:
        directory = self._earlier.directory
        earlier = directory.name if directory is not None else None
        facts = (MANIFEST_FORMAT, versions.TEXTS, self._splitter, earlier, comparable)
        self._key.update(repr(facts).encode())

    def _read(self, entries: Iterable[_Entry]) -> Listing:
        files, skipped = [], []

        with closing(self._with_items(entries)) as contents:
            for position, (entry, items) in enumerate(contents):
                if isinstance(entry, Skipped):
                    self._note(entry)
                    skipped.append(entry)
                # A file whose document gave way to that of an earlier file has no position any more.
                elif (
                    isinstance(entry, IndexedFile)
                    and self._positions.get((entry.segment, entry.number)) == position
                ):
                    files.append(entry)
                else:
                    files.append(self._add_file(entry, items, position))

        return Listing(files, skipped)

    def _with_items(
        self, entries: Iterable[_Entry]
    ) -> Generator[tuple[_Entry, Iterable[Item] | None]]:
        """Yield each entry, with what is in it if another process has read that."""
        remaining = iter(entries)
        for entry in remaining:
            yield entry, None
            is_large = self._documents_read >= READ_ALONE
            if is_large and self._processes > 1 and self._language is ENGLISH:
                yield from read_ahead(remaining, self._splitter, self._processes)

    def _note_columns(self, source: SourceFile) -> None:
        for standard, names in source.columns.items():
            self.columns.setdefault(standard, {}).update(dict.fromkeys(names))
        if source.columns and "title" not in source.columns:
            self.untitled[source.path.partition(PART)[0]] = None

    # ---- what stays

    def _entry(self, source: SourceFile | Skipped) -> _Entry:
        """The source, or the file as the earlier build has it, if it has not changed since."""
        if isinstance(source, Skipped):
            facts = ascii((source.path, source.reason, source.line))
            self._key.update(facts.encode())
            return source

        self._note_columns(source)
        self._key.update(ascii((source.path, source.digest, source.stamp)).encode())
        file = self._earlier.files.get(source.path)
        if file is None or file.digest != source.digest:
            return source
        return file if file.stamp == source.stamp else replace(file, stamp=source.stamp)

    def _segments_to_keep(self, listed: Sequence[_Entry], comparable: bool) -> int:
        """Number of segments of the earlier build that the new one takes over as they are."""
        earlier = self._earlier
        if not self._copyable:
            return 0

        unchanged = [entry for entry in listed if isinstance(entry, IndexedFile)]
        # (of the base, of the delta)
        gone = [len(list(earlier.listing.of_segment(number))) for number in (0, 1)]
        for file in unchanged:
            gone[file.segment] -= 1
        changed = sum(isinstance(entry, SourceFile) for entry in listed)
        if not changed and not any(gone):
            return len(earlier.segments)

        base_files = len(list(earlier.listing.of_segment(0)))
        in_delta = changed + sum(file.segment == 1 for file in unchanged)
        base, *deltas = (len(segment.store.document_of) for segment in earlier.segments)
        if (
            base < SMALLEST_BASE
            or gone[0] + in_delta > MOST_CHANGED * base_files
            or sum(deltas) > min(MOST_CHANGED * base, LARGEST_DELTA)
            or not comparable
        ):
            return 0
        return len(earlier.segments) if not changed and not gone[1] else 1

    @property
    def _copyable(self) -> bool:
        """Whether passages and counts of the earlier build are those that would be made now."""
        manifest = self._earlier.manifest
        return (
            manifest is not None
            and manifest.splitter == self._splitter
            and manifest.texts == versions.TEXTS
        )

    # ---- what is added

    def _add_file(
        self, file: SourceFile | IndexedFile, items: Iterable[Item] | None, position: int
    ) -> IndexedFile:
        """Add a file to the new segment: by its items, or as the earlier build has it if it is there.

        A file of the sources is read here unless its items are there.
        """
        writer = self._writer_of_segment()
        number = writer.store.add_file()

        if isinstance(file, SourceFile):
            items = readable(file.read()) if items is None else items
        elif self._copy(writer, file, number):
            items = ()
        else:
            items = self._earlier.segments[file.segment].store.read_file(file.number)

        before = writer.store.documents
        # Not `any`, which would stop before all items are added.
        outdated = sum(self._add(writer, item, number, position) for item in items) > 0
        if isinstance(file, SourceFile):
            self._documents_read += writer.store.documents - before

        file_digest = "" if outdated else file.digest
        return IndexedFile(file.path, file_digest, file.stamp, self.kept, number)

    def _writer_of_segment(self) -> SegmentWriter:
        if self._writer is None:
            self.segment = DELTA if self.kept else BASE
            first_row = self._earlier.starts[self.kept] if self.kept else 0
            self._writer = SegmentWriter(
                self._staging_dir / self.segment, self._encoding, first_row, self._language
            )

        return self._writer

    def _copy(self, writer: SegmentWriter, earlier: IndexedFile, number: int) -> bool:
        """Copy an unchanged file, unless one of its ids exists already; returns whether it did."""
        if not self._copyable:
            return False
        segment = self._earlier.segments[earlier.segment]
        keys = list(map(digest, segment.store.ids(earlier.number)))
        if any(self._ids.get(key) is not None for key in keys):
            return False

        writer.copy(segment, earlier.number, number)
        for key in keys:
            self._ids.add(key, number)
        return True

    def _add(self, writer: SegmentWriter, item: Item, number: int, position: int) -> bool:
        """Add an item of a file.

        Returns whether the file may yield something else next time though it is unchanged: after a
        failure that is `passing`, or if another file has the same id, which it may lose.
        """
        if isinstance(item, Skipped):
            self._skip(writer, item, number)
            self.failed |= item.passing
            return item.passing

        path = item.location.path if isinstance(item, Document) else item.path
        key = digest(item.id)
        if (owner := self._owner(item.id, key, position)) is not None:
            reason = f"the id {item.id[:200]!r} exists already"
            self._skip(writer, Skipped(path or item.id, reason), number)
            return owner != number

        try:
            prepared = prepare(item, self._splitter) if isinstance(item, Document) else item
            writer.add(prepared, number)
        except UnicodeEncodeError:
            reason = "its text is not valid Unicode"
            self._skip(writer, Skipped(path or ascii(item.id), reason), number)
            return False

        self._ids.add(key, number)
        # The total is unknown while the sources are read.
        if writer.store.documents % 256 == 0:
            self._progress("read", writer.store.documents, None)
        return False

    def _skip(self, writer: SegmentWriter, skipped: Skipped, number: int) -> None:
        self._note(skipped)
        writer.store.add_skipped(skipped, number)

    def _note(self, skipped: Skipped) -> None:
        self.first_skipped = self.first_skipped or skipped
        if skipped.cut_off:
            self.cut_off = self.cut_off or skipped

    def _owner(self, document_id: str, key: bytes, position: int) -> int | None:
        """Number of the file that has this id already, -1 for one of the base, or None."""
        number = self._ids.get(key)
        if number is not None or not self.kept:
            return number

        store = self._earlier.segments[0].store
        row = store.rows_of([document_id]).get(document_id)
        if row is None:
            return None

        file = (0, int(store.file_of[row]))
        owner_position = self._positions.get(file)
        if owner_position is None:
            return None
        if owner_position < position:
            return -1
        # The id belongs to the file that comes first: the other one is added again, without it.
        del self._positions[file]
        return None


def readable(items: Iterable[_T]) -> Iterator[_T]:
    """Yield the items of a source; raises InvalidInput if it cannot be read.

    So such an error is not mistaken for one of PURLIN_HOME's disk.
    """
    try:
        yield from items
    except OSError as error:
        raise InvalidInput(
            f"The sources cannot be read ({error}). Make sure that they exist and are readable.",
            field="path",
        ) from error
