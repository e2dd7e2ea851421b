"""Files that are written whole or not at all, their state, locks, and errors of a failing disk."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from purlin.index.errors import Busy, PurlinError, StorageFailed

# Prefix of the names of unfinished files and directories.
TEMPORARY = ".making-"


# What numpy writes before the numbers, after eight bytes and the two that hold its length.
_HEADER = re.compile(
    rb"\{'descr': '(?P<dtype>[<>|][biuf]\d{1,2})', 'fortran_order': (?P<order>True|False), "
    rb"'shape': \((?P<shape>(?:\d{1,18},? ?){0,32})\), \} *\n"
)
_MAGIC = b"\x93NUMPY\x01\x00"


class ArrayHeader(NamedTuple):
    """Of an array in an `.npy` file: its shape, dtype, order, and where its numbers begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    start: int


def array_header(content: bytes) -> ArrayHeader:
    """Read the header that an `.npy` file of numbers begins with. Raises ValueError.

    numpy's own reader parses it as Python, in which some versions of CPython fail now and then where
    several threads do so at once (python/cpython#106905).
    """
    start = len(_MAGIC) + 2 + int.from_bytes(content[len(_MAGIC) : len(_MAGIC) + 2], "little")
    header = _HEADER.fullmatch(content, len(_MAGIC) + 2, start)
    if not content.startswith(_MAGIC) or header is None:
        raise ValueError("not an .npy file of version 1.0 with numbers")

    sizes = header["shape"].decode().replace(",", " ").split()
    dtype = np.dtype(header["dtype"].decode())
    return ArrayHeader(tuple(map(int, sizes)), dtype, header["order"] == b"True", start)


def read_array(content: bytes) -> NDArray[Any]:
    """Array of an `.npy` file's content: a read-only view, without a copy. Raises ValueError."""
    header = array_header(content)
    numbers = np.frombuffer(content, header.dtype, math.prod(header.shape), header.start)
    return numbers.reshape(header.shape, order="F" if header.by_columns else "C")


def read_exact(content: bytes, dtype: type[np.number[Any]], shape: tuple[int, ...]) -> NDArray[Any]:
    """Array of an `.npy` file's content, as `read_array`; raises ValueError for another type or shape."""
    array = read_array(content)
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(f"it holds {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
    return array


# Inode, size, and the times of the last write and of the inode's last change, which cannot be set
# back, but moves with links to the file, too.
FileState = tuple[int, int, int, int]


def file_state(path: Path) -> FileState | None:
    """State of a file that differs after any write, cut or replacement; None without a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - it runs for many files
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """Raise StorageFailed for the errors of a full, read-only or failing disk."""
    try:
        yield
    except PurlinError:
        raise
    except (OSError, RuntimeError) as error:
        raise StorageFailed(_storage_message(error)) from error


def _storage_message(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    # FAISS and numpy give no error number. The text beside one is not searched: it names a path.
    text = str(error) if number is None else ""

    full = number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if full or "No space" in text or " requested and " in text:
        return (
            f"The disk is full or a size limit was reached ({error}). "
            "Free some space or set PURLIN_HOME elsewhere."
        )

    read_only = number in (errno.EROFS, errno.EACCES, errno.EPERM)
    if read_only:
        return (
            f"PURLIN_HOME cannot be written to ({error}). "
            "Set PURLIN_HOME to a directory that can be written to."
        )
    return f"Writing failed: {error}"


@contextlib.contextmanager
def exclusive(directory: Path, busy: str, *, create: bool = False) -> Iterator[None]:
    """Lock a directory while the block runs, which may remove it; `create` makes a missing one.

    Raises Busy with the message `busy` if another process holds the lock, and StorageFailed if the
    directory cannot be made or its file system has no locks.
    """
    handle = None
    while handle is None:
        handle = _lock(directory, busy, create=create)
    try:
        yield
    finally:
        os.close(handle)


def _lock(directory: Path, busy: str, *, create: bool) -> int | None:
    """Return the descriptor of a locked directory; None if it was removed or replaced meanwhile."""
    with storage_errors():
        if create:
            directory.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(directory, os.O_RDONLY)
        except FileNotFoundError:
            if not create:
                raise
            return None

    is_kept = False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held the lock may have removed the directory, and another lock a new one.
        is_kept = _is_at(directory, handle)
    except BlockingIOError:
        raise Busy(busy) from None
    except OSError as error:
        # As network drives say that are mounted without locks.
        raise StorageFailed(
            f"{directory} cannot be locked ({error}). Mount its file system with locks, or set "
            "PURLIN_HOME (PURLIN_CACHE for searches of directories) to another one."
        ) from error
    finally:
        if not is_kept:
            os.close(handle)
    return handle if is_kept else None


def _is_at(path: Path, handle: int) -> bool:
    """Whether an open file or directory still has this path."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False


def fsync(path: Path) -> None:
    """Flush a file or directory to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def atomic_write(path: Path, *, durable: bool = True, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` once it is written and flushed to disk. Raises OSError.

    Unless it is `durable`, it is not flushed: it survives the process, not a failing machine.
    `mode` is who may read and write it.
    """
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    temporary = Path(name)

    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        # mkstemp made it readable for this user only.
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
