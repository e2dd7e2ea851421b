"""The files that git tracks, as its index lists them: they are read although a .gitignore names them."""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

# The index of Linux, with 90,000 files, has 9 MiB.
MAX_INDEX_BYTES = 128 * 1024 * 1024
_MAX_POINTER_BYTES = 4096

_HEADER = struct.Struct(">4sLL")
# Times, mode, owner and size of an entry, before its hash; after it, two bytes of flags.
_STATUS_BYTES, _FLAGS_BYTES = 40, 2
_SHA1_BYTES, _SHA256_BYTES = 20, 32
_EXTENDED = 0x4000
_POINTER = re.compile(r"gitdir: ([^\r\n]+)")


class Tracked:
    """The files below a directory that a repository tracks; its index is read when it is first asked.

    None are known without an index, or with one that cannot be read.
    """

    def __init__(self, repository: Path | None, below: str) -> None:
        """`below` is the directory in the repository, which is None if there is none; empty or ends in a slash."""
        self._repository = repository
        self._below = below

    def has(self, path: str) -> bool:
        """Return whether a file, or a file below a directory, whose path ends in a slash, is tracked."""
        name = os.fsencode(self._below + path)
        position = bisect_left(self._names, name)
        if position == len(self._names):
            return False
        following = self._names[position]
        return following.startswith(name) if path.endswith("/") else following == name

    @cached_property
    def _names(self) -> Sequence[bytes]:
        if self._repository is None:
            return ()
        try:
            content = _index_of(self._repository).read_bytes()
            return sorted(names_in(content))
        except (OSError, ValueError):
            return ()


def _index_of(repository: Path) -> Path:
    """Return where the index of a repository or of a linked worktree is. Raises OSError and ValueError."""
    directory = repository / ".git"
    if directory.is_file():
        with directory.open(encoding="utf-8") as file:
            pointer = _POINTER.match(file.read(_MAX_POINTER_BYTES))
        if pointer is None:
            raise ValueError("no pointer to a repository")
        directory = repository / pointer[1]

    index = directory / "index"
    if index.stat().st_size > MAX_INDEX_BYTES:
        raise ValueError("larger than any index")
    return index


def names_in(content: bytes) -> list[bytes]:
    """Return the names that an index of git lists, of version 2 to 4. Raises ValueError for another file."""
    if len(content) < _HEADER.size:
        raise ValueError("too short for an index")
    magic, version, count = _HEADER.unpack_from(content)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index of git")

    for hash_bytes in (_SHA1_BYTES, _SHA256_BYTES):
        try:
            return list(_names(content, version, count, hash_bytes))
        except (IndexError, ValueError):
            continue
    raise ValueError("an index that ends too early")


def _names(content: bytes, version: int, count: int, hash_bytes: int) -> Iterator[bytes]:
    """Yield the names of `count` entries. Raises IndexError or ValueError if that is not what is there."""
    position, name = _HEADER.size, b""
    for _ in range(count):
        flags_at = position + _STATUS_BYTES + hash_bytes
        flags = content[flags_at] << 8 | content[flags_at + 1]
        start = flags_at + _FLAGS_BYTES * (2 if flags & _EXTENDED else 1)
        shared = 0
        if version == 4:
            dropped, start = _number(content, start)
            if dropped > len(name):
                raise ValueError("a name that goes on from a longer one than there is")
            shared = len(name) - dropped

        end = content.index(b"\0", start)
        name = name[:shared] + content[start:end]
        # The length that the flags have tells hashes of other sizes apart.
        if len(name) < 0xFFF and len(name) != flags & 0xFFF:
            raise ValueError("a name of another length")
        yield name
        position = end + 1 if version == 4 else position + (end - position + 8) // 8 * 8


def _number(content: bytes, position: int) -> tuple[int, int]:
    """Return a number of variable length, as packs have it, and where it ends."""
    byte = content[position]
    number = byte & 127
    while byte & 128:
        position += 1
        byte = content[position]
        number = (number + 1) << 7 | byte & 127
    return number, position + 1
