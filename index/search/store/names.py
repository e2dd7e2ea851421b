"""Rows by name: sorted 64-bit hashes on disk, of which the first of each block is in memory.

    NAME.bin    (entries, 2): uint64 hash and int64 row, by hash and then by row
    NAME.npy    uint64: the first hash of each block

Different names may have one hash, so whoever looks up a name compares it with that of each row.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from purlin.index.distinct import sorted_distinct
from purlin.index.storage import read_array
from purlin.index.storage.blocks import BLOCK, BlockWriter, FileReader

_ENTRY = np.dtype([("hash", "<u8"), ("row", "<i8")])
_ENTRIES_PER_BLOCK = BLOCK // _ENTRY.itemsize


def hash_of(name: str) -> int:
    """Hash of a name; any text has one."""
    return xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"))


def write_names(
    directory: Path, name: str, hashes: NDArray[np.uint64], rows: NDArray[np.int64] | None = None
) -> None:
    """Write the index `name` of ascending rows, by default 0, 1, ..., with these hashes."""
    order = np.argsort(hashes, kind="stable")
    entries = np.empty(len(hashes), _ENTRY)
    entries["hash"], entries["row"] = hashes[order], order if rows is None else rows[order]
    with BlockWriter(directory / f"{name}.bin") as file:
        file.write(entries.tobytes())
    np.save(directory / f"{name}.npy", entries["hash"][::_ENTRIES_PER_BLOCK])


class Names:
    """Reads one index."""

    def __init__(self, directory: Path, name: str, files: FileReader) -> None:
        self._file = files.blocks(directory / f"{name}.bin")
        self._firsts = read_array(files.read(directory / f"{name}.npy"))

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def rows(self, names: Iterable[str]) -> list[list[int]]:
        """For each name, the rows that may have it, ascending."""
        hashes = np.array([hash_of(name) for name in names], dtype=np.uint64)
        if not len(hashes) or not len(self._firsts):
            return [[] for _ in hashes]

        # Rows of one hash may begin in the block before the first one that begins with it.
        firsts = np.maximum(np.searchsorted(self._firsts, hashes, "left") - 1, 0)
        lasts = np.maximum(np.searchsorted(self._firsts, hashes, "right") - 1, 0)
        spans = zip(firsts.tolist(), lasts.tolist(), strict=True)
        blocks = sorted_distinct(
            np.concatenate([np.arange(first, last + 1) for first, last in spans])
        )
        stops = np.minimum((blocks + 1) * BLOCK, self._file.size)
        entries = np.frombuffer(b"".join(self._file.parts(blocks * BLOCK, stops)), _ENTRY)

        starts = np.searchsorted(entries["hash"], hashes, "left").tolist()
        ends = np.searchsorted(entries["hash"], hashes, "right").tolist()
        return [entries["row"][start:end].tolist() for start, end in zip(starts, ends, strict=True)]

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """All rows, ascending, and the hash of each."""
        entries = np.frombuffer(self._file.read(0, self._file.size), _ENTRY)
        entries = entries[np.argsort(entries["row"], kind="stable")]
        return entries["row"], entries["hash"]
