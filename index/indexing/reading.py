"""Reads sources into a new segment, and tells what the segments of the earlier build keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from purlin.index.encoder import TextEncoder
from purlin.index.errors import InvalidInput
from purlin.index.indexing.earlier import Earlier
from purlin.index.indexing.segment import SegmentWriter
from purlin.index.pace import Progress
from purlin.index.passages import TEXTS_VERSION
from purlin.index.records import Document, Skipped, SourceFile, Splitter
from purlin.index.search.listing import IndexedFile, Listing
from purlin.index.search.segments import BASE, DELTA

_T = TypeVar("_T")

# A delta is written if at most this share of the base's files has changed, and merged into a new
# base once it has more than this share of its passages, or so many that to write it again for one
# changed file takes about half a second; see docs/decisions.md.
MOST_CHANGED, LARGEST_DELTA = 0.1, 10_000
# A base of fewer passages is written anew: that takes no longer.
SMALLEST_BASE = 1000


class Reader:
    """Reads the files of a build that no kept segment has.

    `kept` is the number of segments that the build takes over from the earlier one, and `writer`
    has the documents of all other files; it is None if there are none.
    """

    def __init__(
        self, staging_dir: Path, splitter: Splitter, earlier: Earlier, progress: Progress
    ) -> None:
        self._staging_dir, self._splitter = staging_dir, splitter
        self._earlier, self._progress = earlier, progress
        self.kept = 0
        self.writer: SegmentWriter | None = None
        self.first_skipped: Skipped | None = None

        # Document id -> number of its file in the new segment.
        self._ids: dict[str, int] = {}
        # (segment, number) of each file that stays where it is -> its position in the sources.
        self._positions: dict[tuple[int, int], int] = {}

    def read(self, sources: Iterable[SourceFile | Skipped], encoder: TextEncoder) -> Listing:
        """Read what has changed, close the new segment, and return the listing of the build."""
        listed = list(readable(sources))
        self.kept = self._segments_to_keep(listed, encoder)
        for position, source in enumerate(listed):
            file = self._unchanged(source)
            if file is not None and file.segment < self.kept:
                self._positions[file.segment, file.number] = position

        try:
            listing = self._read(listed)
        except BaseException:
            if self.writer is not None:
                self.writer.abandon()
            raise
        if self.writer is not None:
            self.writer.close()
        return listing

    def _read(self, listed: Sequence[SourceFile | Skipped]) -> Listing:
        files, skipped = [], []
        for position, source in enumerate(listed):
            if isinstance(source, Skipped):
                self.first_skipped = self.first_skipped or source
                skipped.append(source)
                continue

            file = self._unchanged(source)
            # A file whose document gave way to that of an earlier file has no position any more.
            if file is None or self._positions.get((file.segment, file.number)) != position:
                files.append(self._add_file(source, file, position))
            else:
                files.append(replace(file, stamp=source.stamp))
        return Listing(files, skipped)

    # ---- what stays

    def _unchanged(self, source: SourceFile | Skipped) -> IndexedFile | None:
        """The file as the earlier build has it, or None if it has changed since."""
        if isinstance(source, Skipped):
            return None
        file = self._earlier.files.get(source.path)
        return file if file is not None and file.digest == source.digest else None

    def _segments_to_keep(
        self, listed: Sequence[SourceFile | Skipped], encoder: TextEncoder
    ) -> int:
        """Number of segments of the earlier build that the new one takes over as they are."""
        earlier = self._earlier
        if not self._copyable:
            return 0

        unchanged = [file for file in map(self._unchanged, listed) if file is not None]
        # (of the base, of the delta)
        gone = [len(list(earlier.listing.of_segment(number))) for number in (0, 1)]
        for file in unchanged:
            gone[file.segment] -= 1
        changed = sum(isinstance(source, SourceFile) for source in listed) - len(unchanged)
        if not changed and not any(gone):
            return len(earlier.segments)

        base_files = len(list(earlier.listing.of_segment(0)))
        in_delta = changed + sum(file.segment == 1 for file in unchanged)
        base, *deltas = (len(segment.store.document_of) for segment in earlier.segments)
        if (
            base < SMALLEST_BASE
            or gone[0] + in_delta > MOST_CHANGED * base_files
            or sum(deltas) > min(MOST_CHANGED * base, LARGEST_DELTA)
            or not earlier.comparable(encoder)
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
            and manifest.texts == TEXTS_VERSION
        )

    # ---- what is added

    def _add_file(
        self, source: SourceFile, earlier: IndexedFile | None, position: int
    ) -> IndexedFile:
        """Add a file to the new segment: copied if it has not changed, and read otherwise."""
        if self.writer is None:
            directory = self._staging_dir / (DELTA if self.kept else BASE)
            self.writer = SegmentWriter(directory, self._splitter, self._earlier)
        number = self.writer.store.add_file()

        outdated = False
        if earlier is None or not self._copy(self.writer, earlier, number):
            items = self._items(source, earlier)
            # Not `any`, which would stop before all items are added.
            outdated = sum(self._add(self.writer, item, number, position) for item in items) > 0
        digest = "" if outdated else source.digest
        return IndexedFile(source.path, digest, source.stamp, self.kept, number)

    def _items(
        self, source: SourceFile, earlier: IndexedFile | None
    ) -> Iterable[Document | Skipped]:
        if earlier is None:
            return readable(source.read())
        return self._earlier.segments[earlier.segment].store.read_file(earlier.number)

    def _copy(self, writer: SegmentWriter, earlier: IndexedFile, number: int) -> bool:
        """Copy an unchanged file, unless one of its ids exists already; returns whether it did."""
        if not self._copyable:
            return False
        segment = self._earlier.segments[earlier.segment]
        ids = segment.store.ids(earlier.number)
        if not self._ids.keys().isdisjoint(ids):
            return False

        writer.copy(segment, earlier.number, number)
        self._ids.update(dict.fromkeys(ids, number))
        return True

    def _add(
        self, writer: SegmentWriter, item: Document | Skipped, number: int, position: int
    ) -> bool:
        """Add an item of a file.

        Returns whether the file may yield something else next time though it is unchanged: after a
        failure that is `passing`, or if another file has the same id, which it may lose.
        """
        if isinstance(item, Skipped):
            self._skip(writer, item, number)
            return item.passing

        path = item.location.path
        if (owner := self._owner(item.id, position)) is not None:
            reason = f"the id {item.id[:200]!r} exists already"
            self._skip(writer, Skipped(path or item.id, reason), number)
            return owner != number

        try:
            writer.add(item, number)
        except UnicodeEncodeError:
            reason = "its text is not valid Unicode"
            self._skip(writer, Skipped(path or ascii(item.id), reason), number)
            return False

        self._ids[item.id] = number
        # The total is unknown while the sources are read.
        if writer.store.documents % 256 == 0:
            self._progress("read", writer.store.documents, None)
        return False

    def _skip(self, writer: SegmentWriter, skipped: Skipped, number: int) -> None:
        self.first_skipped = self.first_skipped or skipped
        writer.store.add_skipped(skipped, number)

    def _owner(self, document_id: str, position: int) -> int | None:
        """Number of the file that has this id already, -1 for one of the base, or None."""
        if document_id in self._ids or not self.kept:
            return self._ids.get(document_id)

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
