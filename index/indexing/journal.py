"""Finished vectors on disk, by the digests of their texts: a killed build leaves them to the next.

The file has blocks, one after the other, each written once:

    24 bytes     number of vectors, their length, checksum of the content below (XXH3-64), and
                 checksum of these three
    16 bytes     digest of each text
    float16      the vectors (vectors, length)

A block whose content differs from its checksum is left out, and so is everything from a broken
header on: a torn block at the end is what a kill, a full disk or a power failure leaves.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import IO, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from purlin.index.storage.digests import DIGEST_BYTES, DigestMap

_FACTS, _CHECKSUM = Struct("<IIQ"), Struct("<Q")
_HEADER_BYTES = _FACTS.size + _CHECKSUM.size


class Journal:
    """Vectors of one encoder, numbered in the order in which they were finished.

    Blocks of fewer than `smallest` vectors stay in memory: a small build writes no journal.
    `prepare` is called before the file is created.
    """

    def __init__(
        self, path: Path, dim: int, smallest: int, prepare: Callable[[], None] = lambda: None
    ) -> None:
        self._path, self._dim, self._smallest = path, dim, smallest
        self._prepare = prepare
        self._positions = DigestMap()

        # Of each block, its first vector, and where its vectors begin in the file.
        self._starts, self._offsets = [0], list[int]()
        # Block -> vectors of those that are not in the file.
        self._held: dict[int, NDArray[np.float16]] = {}
        self._file: IO[bytes] | None = None

        if path.exists():
            self._open()

    def __len__(self) -> int:
        return self._starts[-1]

    def __contains__(self, key: bytes) -> bool:
        return self._positions.get(key) is not None

    def append(self, digests: bytes, vectors: NDArray[np.float16]) -> None:
        """Add a block of vectors (n, dim) with their digests, joined. Raises OSError, which leaves what came before."""
        offset = -1
        if len(vectors) < self._smallest:
            self._held[len(self._offsets)] = vectors
        else:
            offset = self._write(digests + vectors.astype("<f2").tobytes(), len(vectors))
        self._register(digests, offset)

    def positions(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the position of the vector of each digest (n, 2), or -1."""
        return self._positions.numbers(digests)

    def vectors(self, positions: NDArray[np.int64]) -> NDArray[np.float16]:
        """Return the vectors (n, dim) at these positions."""
        vectors = np.empty((len(positions), self._dim), np.float16)

        # Runs of vectors that follow each other in one block are read at once.
        blocks = np.searchsorted(self._starts, positions, "right") - 1
        breaks = np.flatnonzero((np.diff(positions) != 1) | (np.diff(blocks) != 0)) + 1

        for start, end in pairwise([0, *breaks.tolist(), len(positions)]):
            if start < end:
                vectors[start:end] = self._run(int(positions[start]), end - start)

        return vectors

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _run(self, first: int, count: int) -> NDArray[np.float16]:
        block = bisect_right(self._starts, first) - 1
        start = first - self._starts[block]
        if block in self._held:
            return self._held[block][start : start + count]

        assert self._file is not None
        row_bytes = 2 * self._dim
        offset = self._offsets[block] + start * row_bytes
        content = os.pread(self._file.fileno(), count * row_bytes, offset)
        if len(content) < count * row_bytes:
            raise OSError(f"{self._path} was cut while it was in use")
        return np.frombuffer(content, "<f2").reshape(count, self._dim)

    def _register(self, digests: bytes, offset: int) -> None:
        keys = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
        for position, key in enumerate(keys, len(self)):
            if key not in self:
                self._positions.add(key, position)
        self._offsets.append(offset)
        self._starts.append(len(self) + len(keys))

    def _write(self, content: bytes, count: int) -> int:
        """Write a block, and return where its vectors begin."""
        if self._file is None:
            self._prepare()
            self._file = self._path.open("w+b", buffering=0)

        facts = _FACTS.pack(count, self._dim, xxhash.xxh3_64_intdigest(content))
        block = facts + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(facts)) + content
        begin = self._file.seek(0, os.SEEK_END)
        written = 0
        # A disk that is almost full takes a part, and refuses the rest.
        while written < len(block):
            written += self._file.write(memoryview(block)[written:])
        return begin + _HEADER_BYTES + count * DIGEST_BYTES

    def _open(self) -> None:
        """Take over the whole blocks of an earlier build, and cut off what is torn."""
        self._file = self._path.open("r+b", buffering=0)
        end = 0
        while (header := _read_header(self._file, end)) is not None:
            begin, size = end + _HEADER_BYTES, header.content_bytes
            content = os.pread(self._file.fileno(), size, begin)
            if len(content) < size or header.dim != self._dim:
                break

            end = begin + size
            if xxhash.xxh3_64_intdigest(content) == header.checksum:
                digests = content[: header.vectors * DIGEST_BYTES]
                self._register(digests, begin + len(digests))
        self._file.truncate(end)


class _Header(NamedTuple):
    """Number of vectors of a block, their length, and the checksum of its content."""

    vectors: int
    dim: int
    checksum: int

    @property
    def content_bytes(self) -> int:
        return self.vectors * (DIGEST_BYTES + 2 * self.dim)


def _read_header(file: IO[bytes], offset: int) -> _Header | None:
    """Header of the block that begins here; None if it is torn."""
    header = os.pread(file.fileno(), _HEADER_BYTES, offset)
    if len(header) < _HEADER_BYTES:
        return None
    facts = header[: _FACTS.size]
    if _CHECKSUM.unpack(header[_FACTS.size :]) != (xxhash.xxh3_64_intdigest(facts),):
        return None
    return _Header(*_FACTS.unpack(facts))


def count_vectors(path: Path) -> int:
    """Count the vectors of a journal by its headers; the content is not verified."""
    count = end = 0
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while (header := _read_header(file, end)) is not None:
            end += _HEADER_BYTES + header.content_bytes
            count += header.vectors if end <= size else 0
    return count
