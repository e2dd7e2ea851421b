"""The source files of a build: which segment has each, and how to tell that it has not changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from purlin.index.records import PART, Skipped, Stamp
from purlin.index.search.store.document_records import storable

LISTING_FILE = "files.json"
_MAX_SHOWN = 200  # characters of a path or a reason


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A source file as `SourceFile` describes it, and its number in one of the build's segments.

    An empty digest means that the file has to be read again, even if it has not changed.
    """

    path: str
    digest: str
    stamp: Stamp | None
    segment: int
    number: int

    @property
    def name(self) -> str:
        """Path of the file that this is, or is a part of."""
        return self.path.partition(PART)[0]


@dataclass(frozen=True, slots=True)
class Listing:
    """The files that were read, in the order of the sources, and what was left out unread."""

    files: Sequence[IndexedFile] = ()
    skipped: Sequence[Skipped] = ()

    @classmethod
    def parse(cls, content: bytes) -> Listing:
        """Parse the content of a file that `save` wrote."""
        values = json.loads(content)
        files = [
            IndexedFile(path, digest, (stamp[0], stamp[1]) if stamp else None, segment, number)
            for path, digest, stamp, segment, number in values["files"]
        ]
        return cls(files, [Skipped(*columns) for columns in values["skipped"]])

    def save(self, directory: Path) -> None:
        """Write the listing into a build."""
        values = {
            "files": [
                (file.path, file.digest, file.stamp, file.segment, file.number)
                for file in self.files
            ],
            "skipped": [storable(item) for item in self.skipped],
        }

        content = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        (directory / LISTING_FILE).write_text(content, encoding="utf-8")

    def digests(self) -> Mapping[str, tuple[Stamp, str]]:
        """Return stamp and digest of each file that need not be opened while it has this stamp."""
        return {
            file.path: (file.stamp, file.digest)
            for file in self.files
            if file.digest and file.stamp is not None
        }

    def names(self, most: int) -> tuple[list[str], list[str]]:
        """Return the names of the files that were read, and of the skipped ones; `most` of each at most."""
        read = dict.fromkeys(file.name for file in self.files)
        skipped = dict.fromkeys(item.path for item in self.skipped)
        return list(islice(read, most)), list(islice(skipped, most))

    def unread(self, beginning: str) -> str | None:
        """Say which files, whose paths have this beginning, were left out, and why the first one was.

        None if none was left out.
        """
        read = {file.name for file in self.files}
        left_out = {
            item.path: item.reason
            for item in self.skipped
            if item.path.startswith(beginning) and item.path not in read
        }
        if not left_out:
            return None

        path, reason = next(iter(left_out.items()))
        others = f", and {len(left_out) - 1:,} more" if len(left_out) > 1 else ""
        return f"{path[:_MAX_SHOWN]} is not indexed ({reason[:_MAX_SHOWN]}){others}"

    def ending_in(self, path: str, most: int) -> list[str]:
        """Return files and folders, at most `most`, whose paths have all parts of `path` at their end.

        There are none if a file is at or below `path` itself. Those nearest to the root come first.
        """
        parts = f"/{path.strip('/')}/"
        paths: set[str] = set()

        for file in self.files:
            start = f"/{file.name}/".find(parts)
            if start == 0:
                return []
            if start > 0:
                paths.add(file.name[: start + len(parts) - 2])

        return sorted(paths, key=lambda path: (path.count("/"), path))[:most]

    def of_segment(self, segment: int) -> Iterator[IndexedFile]:
        """Yield the files that one segment has."""
        return (file for file in self.files if file.segment == segment)


def read_listing(directory: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> Listing:
    """Read the listing of a build; `read` returns the content of a file."""
    return Listing.parse(read(directory / LISTING_FILE))
