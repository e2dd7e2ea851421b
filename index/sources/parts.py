"""Cut a long file of records into parts, so that only the parts with a change are read again.

A part ends after a record whose digest says so: what is added or removed elsewhere in the file
moves neither its ends nor its name. Where a record of a part is left out, its line is that of the
time when the part was last read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Generic, TypeVar

from purlin.index.records import PART, Document, Skipped, SourceFile
from purlin.index.storage.digests import DigestMap, digest

# A base of fewer passages is written anew anyway.
FEWEST_RECORDS = 1000
# One record in so many ends a part, and the longest part has so many.
_MEAN_RECORDS, _MOST_RECORDS = 32, 128

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Part:
    """Records `first` to `stop` of a file, without the last; `name` is a digest of their content."""

    name: str
    first: int
    stop: int


def cut(records: Iterable[tuple[str | None, bytes]]) -> list[Part]:
    """Cut a file whose records are given by their ids and contents.

    Returns no parts for a file that is read as a whole: one of few records, or one that has a
    record without an id, or two with the same, which cannot be told apart in different parts.
    """
    ids = DigestMap()
    parts: list[Part] = []
    first, stop, content = 0, 0, hashlib.blake2b(digest_size=16)
    for id_, record in records:
        if id_ is None or ids.get(key := digest(id_)) is not None:
            return []
        ids.add(key, stop)

        record_digest = hashlib.blake2b(record, digest_size=16).digest()
        content.update(record_digest)
        stop += 1
        if record_digest[0] % _MEAN_RECORDS == 0 or stop - first == _MOST_RECORDS:
            parts.append(Part(content.hexdigest(), first, stop))
            first, content = stop, hashlib.blake2b(digest_size=16)

    if stop > first:
        parts.append(Part(content.hexdigest(), first, stop))
    return parts if stop >= FEWEST_RECORDS else []


def broken(number: int | None, content: bytes) -> tuple[str, bytes]:
    """What `cut` is given for a record whose id cannot be read: it is known by its number."""
    return f"{PART}{number}", f"{number} ".encode() + content


def part_files(
    name: str,
    parts: Iterable[Part],
    open_file: Callable[[], Iterator[_T]],
    read: Callable[[Callable[[], Iterator[_T]]], Iterator[Document | Skipped]],
    digest_of: Callable[[str], str],
    columns: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Iterator[SourceFile]:
    """Yield each part of a file, which has these `columns`, as a file of its own.

    `open_file` yields the records of the whole file, `read` makes documents of those that the
    function given to it yields, and `digest_of` adds the reader's version and options to a name.
    """
    records = Records(open_file)
    for part in parts:
        part_read = partial(read, partial(records.read, part))
        part_name = f"{name}{PART}{part.name}"
        yield SourceFile(part_name, digest_of(part.name), part_read, columns=columns)


class Records(Generic[_T]):
    """The records of a file, of which parts that follow each other are read in one pass."""

    def __init__(self, open_file: Callable[[], Iterator[_T]]) -> None:
        self._open = open_file
        self._records: Iterator[_T] = iter(())
        self._position: int | None = None

    def read(self, part: Part) -> Iterator[_T]:
        """Yield the records of a part."""
        if self._position is None or self._position > part.first:
            self._records, self._position = self._open(), 0

        position, self._position = self._position, None
        for record in islice(self._records, part.stop - position):
            position += 1
            if position > part.first:
                yield record
        # Not set after an error, which the next part meets again.
        self._position = position
