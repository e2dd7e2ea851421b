"""Numbers by 128-bit digests, in 24 bytes an entry: for ids and texts of corpora of any size."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from struct import Struct

import numpy as np
from numpy.typing import NDArray

DIGEST_BYTES = 16
_HALVES = Struct("<QQ")
# Entries in a dict, which are merged into the sorted arrays together.
_RECENT = 2**16


def digest(text: str) -> bytes:
    """Return the digest of a text, which may hold lone surrogates."""
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


class DigestMap:
    """Digest -> number that is not negative.

    128 bits are as good as the text itself: two texts of 10 billion have the same digest with a
    probability of 1e-19.
    """

    def __init__(self) -> None:
        self._recent: dict[bytes, int] = {}
        # The merged entries, ascending by the first half of the digest.
        self._first, self._second, self._numbers = array("Q"), array("Q"), array("q")

    def __len__(self) -> int:
        return len(self._recent) + len(self._first)

    def get(self, key: bytes) -> int | None:
        """Return the number of a digest, or None."""
        if (number := self._recent.get(key)) is not None:
            return number

        first, second = _HALVES.unpack(key)
        position = bisect_left(self._first, first)
        while position < len(self._first) and self._first[position] == first:
            if self._second[position] == second:
                return self._numbers[position]
            position += 1
        return None

    def add(self, key: bytes, number: int) -> None:
        """Add a digest that is new."""
        self._recent[key] = number
        if len(self._recent) >= _RECENT:
            self._merge()

    def numbers(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of each digest (n, 2), -1 for those that are unknown."""
        self._merge()
        stored = np.full(len(digests), -1, np.int64)
        if not self._first:
            return stored

        first, second = np.frombuffer(self._first, "<u8"), np.frombuffer(self._second, "<u8")
        positions = np.minimum(np.searchsorted(first, digests[:, 0]), len(first) - 1)
        same_first = first[positions] == digests[:, 0]
        same = same_first & (second[positions] == digests[:, 1])
        stored[same] = np.frombuffer(self._numbers, "<i8")[positions[same]]

        # Another digest with the same first half: looked up one by one.
        for row in np.flatnonzero(same_first & ~same).tolist():
            number = self.get(digests[row].tobytes())
            stored[row] = -1 if number is None else number
        return stored

    def _merge(self) -> None:
        if not self._recent:
            return
        recent = np.frombuffer(b"".join(self._recent), "<u8").reshape(-1, 2)
        first = np.concatenate([np.frombuffer(self._first, "<u8"), recent[:, 0]])
        second = np.concatenate([np.frombuffer(self._second, "<u8"), recent[:, 1]])
        new = np.fromiter(self._recent.values(), np.int64, len(self._recent))
        numbers = np.concatenate([np.frombuffer(self._numbers, "<i8"), new])

        order = np.argsort(first, kind="stable")
        self._first = array("Q", first[order].tobytes())
        self._second = array("Q", second[order].tobytes())
        self._numbers = array("q", numbers[order].tobytes())
        self._recent = {}
