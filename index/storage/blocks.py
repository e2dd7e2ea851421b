"""Files that are read a part at a time, each 4 KiB block checked whenever a read touches it.

    F         any content
    F.sums    uint64, little-endian, per block of F: its XXH3-64

A mapped file that is cut kills the process that reads it, and a file that is read whole costs its
size in memory and time. So large files stay on disk, and the kernel copies what is read. A read
gives the bytes that were written or raises Altered, whatever happened to the file since. The
descriptor stays open: a file that was removed or replaced can be read on.
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from purlin.index.distinct import sorted_distinct
from purlin.index.errors import Altered, Damaged, read_problem

Buffer = bytes | bytearray | memoryview
BLOCK = 4096
SUMS_SUFFIX = ".sums"
# Files up to this size are read into memory when they are opened.
MOST_IN_MEMORY = 4 * 2**20
# Bytes that are read or summed together.
_CHUNK = 256 * BLOCK
# Scattered blocks are read into buffers that are used again: the kernel takes longer to provide
# fresh memory than to copy blocks into it. Larger reads get memory of their own.
_BUFFER_BYTES = 512 * BLOCK


class _Buffer:
    """Memory to read into. Where the system can, it is also a file that the kernel writes to."""

    def __init__(self, size: int, *, as_file: bool = False) -> None:
        self.descriptor = -1
        if as_file and hasattr(os, "memfd_create"):
            self.descriptor = os.memfd_create("purlin-blocks")
            weakref.finalize(self, os.close, self.descriptor)
            os.ftruncate(self.descriptor, size)
        self.content = memoryview(mmap.mmap(self.descriptor, size))


_buffers: deque[_Buffer] = deque(maxlen=4)
# A forked process would write to the same files.
os.register_at_fork(after_in_child=_buffers.clear)


@contextmanager
def _buffer(size: int) -> Iterator[_Buffer]:
    """Lend a buffer of at least `size` bytes, whose content is anything."""
    if size > _BUFFER_BYTES:
        yield _Buffer(size)
        return

    try:
        buffer = _buffers.pop()
    except IndexError:
        buffer = _Buffer(_BUFFER_BYTES, as_file=True)

    try:
        yield buffer
    finally:
        _buffers.append(buffer)


def sums_path(path: Path) -> Path:
    """Path of the file with the sums of `path`."""
    return path.with_name(path.name + SUMS_SUFFIX)


class BlockWriter:
    """Binary file for writing, with the sums of its blocks, which `close` writes beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=0)
        self._sums = array("Q")
        self._pending = bytearray()
        self._written = 0

    def write(self, content: Buffer) -> int:
        """Append bytes; returns how many. Raises OSError."""
        before = self.tell()
        self._pending += content
        length = self.tell() - before
        if len(self._pending) >= _CHUNK:
            self._flush(len(self._pending) // BLOCK * BLOCK)
        return length

    def tell(self) -> int:
        """Bytes so far."""
        return self._written + len(self._pending)

    def _flush(self, stop: int) -> None:
        """Write the first `stop` pending bytes, which end with a block or with the file."""
        with memoryview(self._pending)[:stop] as whole:
            self._sums.extend(_sums(whole))
            position = 0
            while position < stop:
                position += self._file.write(whole[position:])
        self._written += stop
        del self._pending[:stop]

    def close(self) -> None:
        """Write what is pending, and the sums. Raises OSError."""
        if self._file.closed:
            return
        with self._file:
            self._flush(len(self._pending))
        _write_sums(self._path, self._sums)

    def abandon(self) -> None:
        """Close without completing the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()


def seal(path: Path) -> None:
    """Write the sums of a file that exists. Raises OSError."""
    sums = array("Q")
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sums.extend(_sums(memoryview(chunk)))
    _write_sums(path, sums)


def _sums(content: memoryview) -> list[int]:
    """XXH3-64 of each block of `content`, the last of which may be short."""
    return [
        xxh3_64_intdigest(content[start : start + BLOCK]) for start in range(0, len(content), BLOCK)
    ]


def _write_sums(path: Path, sums: array[int]) -> None:
    if sys.byteorder == "big":
        sums.byteswap()
    sums_path(path).write_bytes(sums)


class BlockFile:
    """A file with sums, open for reading; safe to share between threads.

    `sums` is the content of its `.sums`, which the caller has verified. `message` makes the text
    of an error from a problem, such as "was cut". Raises Damaged if the file is missing, not as
    large as its sums say, or altered, as far as it is read now.
    """

    def __init__(
        self, path: Path, size: int, sums: bytes, message: Callable[[str], str] | None = None
    ) -> None:
        self.size = size
        self._sums = np.frombuffer(sums, "<u8")
        self._message = message or (lambda problem: f"{path.name} {problem}.")
        if len(self._sums) != -(-size // BLOCK):
            raise Damaged(self._message("does not fit its sums"))

        self._descriptor = self._open(path)
        # A file is closed once nothing reads it any more: builds share their segments.
        self._closer = weakref.finalize(self, os.close, self._descriptor)
        self._content: bytes | None = None
        self._mapping: memoryview | None = None
        if size <= MOST_IN_MEMORY:
            content = bytes(self.read(0, size))
            self._content = content
            self.close()
        else:
            self._mapping = _mapped(self._descriptor, size)

    def _open(self, path: Path) -> int:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Damaged(self._message("is missing")) from error
        except OSError as error:
            raise Damaged(self._message(read_problem(error))) from error

        if (size := os.fstat(descriptor).st_size) != self.size:
            os.close(descriptor)
            raise Damaged(self._message(f"has {size} bytes, not {self.size}"))
        return descriptor

    def close(self) -> None:
        """Close the file; what is not in memory cannot be read any more."""
        self._descriptor, self._mapping = -1, None
        self._closer()

    def read(self, start: int, stop: int) -> memoryview:
        """Bytes from `start` to `stop`, or the file's end. Raises Altered."""
        stop = min(stop, self.size)
        if start >= stop:
            return memoryview(b"")
        if self._content is not None:
            return memoryview(self._content)[start:stop]

        first, last = start // BLOCK, -(-stop // BLOCK)
        content = memoryview(bytearray(min(last * BLOCK, self.size) - first * BLOCK))
        self._fill(content, first * BLOCK)
        self._verify(content, self._sums[first:last])
        return content[start - first * BLOCK : stop - first * BLOCK].toreadonly()

    def rows(
        self, numbers: NDArray[np.integer], row_bytes: int, offset: int = 0
    ) -> NDArray[np.uint8]:
        """Rows (n, row_bytes) of the file, which all have this length and begin at `offset`.

        Raises Altered, and IndexError for rows beyond the file.
        """
        starts = numbers.astype(np.int64) * row_bytes + offset
        with self._gathered(starts, starts + row_bytes) as (content, positions):
            windows = _windows(np.frombuffer(content, np.uint8), row_bytes)
            rows: NDArray[np.uint8] = windows[positions]
            return rows

    def parts(self, starts: NDArray[np.integer], stops: NDArray[np.integer]) -> list[bytes]:
        """Bytes of each range, none of which is empty.

        Raises Altered, and IndexError for ranges beyond the file.
        """
        with self._gathered(starts.astype(np.int64), stops.astype(np.int64)) as gathered:
            content, positions = gathered
            ends = positions + (stops - starts)
            return [
                bytes(content[start:stop])
                for start, stop in zip(positions.tolist(), ends.tolist(), strict=True)
            ]

    @contextmanager
    def _gathered(
        self, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> Iterator[tuple[memoryview, NDArray[np.int64]]]:
        """Lend the content of all blocks that these ranges touch, and each range's position."""
        self._check_bounds(starts, stops)
        if self._content is not None:
            yield memoryview(self._content), starts
            return

        firsts = starts // BLOCK
        counts = (stops - 1) // BLOCK - firsts + 1
        # 0, 1, ... for the blocks of each range.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = sorted_distinct(np.repeat(firsts, counts) + within)

        # The blocks of a range follow each other in the file, so they do among those read.
        positions = np.searchsorted(numbers, firsts) * BLOCK + starts % BLOCK
        with _buffer(len(numbers) * BLOCK) as buffer:
            yield self._read_blocks(numbers, buffer), positions

    def _check_bounds(self, starts: NDArray[np.integer], stops: NDArray[np.integer]) -> None:
        if len(starts) and (starts.min() < 0 or stops.max() > self.size):
            raise IndexError(f"Rows beyond the {self.size} bytes of the file were asked for.")

    def _read_blocks(self, numbers: NDArray[np.int64], buffer: _Buffer) -> memoryview:
        """Read and verify blocks, whose numbers ascend; the file's last one may be short.

        Returns the part of the buffer that they fill.
        """
        if not len(numbers):
            return buffer.content[:0]
        # Neighbours are read together.
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        firsts = numbers[np.concatenate([[0], breaks])]
        lasts = numbers[np.append(breaks, len(numbers)) - 1]
        starts, stops = firsts * BLOCK, np.minimum((lasts + 1) * BLOCK, self.size)
        ranges = list(zip(starts.tolist(), stops.tolist(), strict=True))

        content = buffer.content[: int((stops - starts).sum())]
        if not self._copied(ranges, buffer, len(content)):
            filled = 0
            for start, stop in ranges:
                self._fill(content[filled : filled + stop - start], start)
                filled += stop - start
        self._verify(content, self._sums[numbers])
        return content

    def _copied(self, ranges: Sequence[tuple[int, int]], buffer: _Buffer, size: int) -> bool:
        """Let the kernel copy mapped ranges of `size` bytes into a buffer; whether it did.

        A search reads hundreds of single blocks. One call for all of them takes half as long, and
        the interpreter's lock is given up once. If the file was cut, this process would be killed
        for touching what is mapped, but the kernel only ends the call.
        """
        mapping = self._mapping
        if mapping is None or buffer.descriptor < 0:
            return False

        try:
            parts = [mapping[start:stop] for start, stop in ranges]
            return os.pwritev(buffer.descriptor, parts, 0) == size
        except OSError:
            return False

    def _fill(self, target: memoryview, position: int) -> None:
        """Read from `position` on, without verifying. Raises Altered if the file was cut."""
        if self._descriptor < 0:
            raise ValueError(self._message("is closed"))

        try:
            count = os.preadv(self._descriptor, (target,), position)
            # One call reads at most 2 GB.
            while count < len(target):
                more = os.preadv(self._descriptor, (target[count:],), position + count)
                if not more:
                    raise self.altered("was cut")
                count += more
        except OSError as error:
            raise self.altered(read_problem(error)) from error

    def _verify(self, content: memoryview, sums: NDArray[np.uint64]) -> None:
        if _sums(content) != sums.tolist():
            raise self.altered("was altered")

    def check(self) -> None:
        """Verify all blocks. Raises Altered."""
        for start in range(0, self.size, _CHUNK):
            self.read(start, start + _CHUNK)

    def altered(self, problem: str) -> Altered:
        """Error that names the file, what is wrong with it, and the remedy."""
        return Altered(self._message(problem))


def _mapped(descriptor: int, size: int) -> memoryview | None:
    """Map a file, for the kernel alone to read; None where that cannot be."""
    try:
        mapping = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
    except (OSError, ValueError):
        return None
    # Without it, blocks around each one would be read from the disk, too.
    mapping.madvise(mmap.MADV_RANDOM)
    return memoryview(mapping)


def _windows(content: NDArray[np.uint8], length: int) -> NDArray[np.uint8]:
    """View (positions, length) of the bytes that begin at each position."""
    shape = (max(len(content) - length + 1, 0), length)
    return np.lib.stride_tricks.as_strided(content, shape, (1, 1), writeable=False)


class FileReader(Protocol):
    """Opens the files of a directory: `purlin.index.builds.build_files.Files`, or Unchecked."""

    def read(self, path: Path) -> bytes:
        """Content of a file that is read whole."""

    def blocks(self, path: Path) -> BlockFile:
        """Open a file that has sums."""


class Unchecked:
    """Opens files that no manifest vouches for (yet): what their sums say is believed."""

    def read(self, path: Path) -> bytes:
        """Content of a file that is read whole. Raises OSError."""
        return path.read_bytes()

    def blocks(self, path: Path) -> BlockFile:
        """Open a file that has sums. Raises OSError and Damaged."""
        return BlockFile(path, path.stat().st_size, sums_path(path).read_bytes())


UNCHECKED = Unchecked()
