"""What has changed in a directory since it was indexed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from purlin.index.records import Skipped, SourceFile
from purlin.index.search.store.listing import IndexedFile, Listing


@dataclass(frozen=True, slots=True)
class Changes:
    """How the files of a directory differ from those of its index.

    `changed` counts the new and changed ones, `new_bytes` the bytes of the new ones. `has_lost` tells
    whether files are gone, or others than before could not be read.
    """

    changed: int
    new_bytes: int
    has_lost: bool

    @classmethod
    def between(
        cls, root: Path, sources: Sequence[SourceFile | Skipped], indexed: Listing
    ) -> Changes:
        """Compare the files below `root` as they are now with those that are `indexed`."""
        by_path = {file.path: file for file in indexed.files}
        files = [source for source in sources if isinstance(source, SourceFile)]
        new = [file for file in files if file.path not in by_path]
        kept = [(file, by_path[file.path]) for file in files if file.path in by_path]

        changed = len(new) + sum(not _is_same(file, earlier) for file, earlier in kept)
        # Otherwise a file that cannot be read would be noted with each search, or never.
        has_lost = len(kept) < len(by_path) or _unread(sources) != _unread(indexed.skipped)
        return cls(changed, sum(_size(root / file.path) for file in new), has_lost)

    def __bool__(self) -> bool:
        return self.changed > 0 or self.has_lost


def unread_note(sources: Sequence[SourceFile | Skipped]) -> tuple[str, ...]:
    """A note on the files that could not be read, if there are any."""
    unread = _unread(sources)
    if not unread:
        return ()
    path, reason = next(iter(unread.items()))
    if len(unread) == 1:
        return (f"1 file could not be read: {path}: {reason}",)
    return (f"{len(unread):,} files could not be read, the first: {path}: {reason}",)


def _is_same(source: SourceFile, file: IndexedFile) -> bool:
    """Whether a file is as it was when it was indexed.

    One without a digest is read again by the next build, as when a limit of time was reached. It is
    itself a reason for a build only when its stamp changes.
    """
    if not file.digest:
        return source.stamp is not None and source.stamp == file.stamp
    return source.digest == file.digest


def _size(path: Path) -> int:
    """Size of a file in bytes; 0 if it has gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def _unread(sources: Sequence[SourceFile | Skipped]) -> dict[str, str]:
    """Reasons of the files that could not be read, by path."""
    return {
        source.path: source.reason
        for source in sources
        if isinstance(source, Skipped) and not source.by_choice
    }
