"""Files that are written whole or not at all, locks, and what a failing disk raises."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import math
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from index.errors import Busy, PurlinError, StorageFailed

TEMPORARY = ".making-"  # how names of unfinished files and directories begin


def read_array(content: bytes) -> NDArray[Any]:
    """The array that an `.npy` file holds, on its content: nothing is copied, nothing can be written. ValueError."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("it is no array of version 1.0")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape is {shape}")
    numbers = np.frombuffer(content, dtype, math.prod(shape), file.tell())
    return numbers.reshape(shape, order="F" if by_columns else "C")


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """Turn what a full, read-only or failing disk raises into one sentence."""
    try:
        yield
    except PurlinError:
        raise
    except (OSError, sqlite3.OperationalError, RuntimeError) as error:
        raise StorageFailed(_storage_message(error)) from error


def _storage_message(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    said = (
        str(error) if number is None else ""
    )  # by SQLite and FAISS; an OSError's words have the path among them
    if (
        number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        or "disk is full" in said
        or "No space" in said
    ):
        return f"The disk is full or a size limit was reached ({error}). Free some space or set PURLIN_HOME elsewhere."
    if number in (errno.EROFS, errno.EACCES, errno.EPERM) or "readonly" in said:
        return (
            f"PURLIN_HOME cannot be written to ({error}). Set PURLIN_HOME to a directory that can."
        )
    return f"Writing failed: {error}"


@contextlib.contextmanager
def exclusive(directory: Path, busy: str) -> Iterator[None]:
    """Hold a directory while the block lasts. Raises Busy, which says `busy`, where another process has it."""
    with storage_errors():
        handle = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(busy) from None
        yield
    finally:
        os.close(handle)


def fsync(path: Path) -> None:
    """Flush a file or directory to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` once it is written and flushed to disk; raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
