"""Encodes texts in blocks while they are read, and keeps each finished block in a journal.

A block has the next `BLOCK` different texts that the earlier build has no vector of, in the order
of their rows: so the blocks of a build that was killed are those of one that was not, and an
encoder whose vectors depend on what is encoded together gives the same ones.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder
from purlin.index.encoder.transformer import CHARS_PER_TOKEN
from purlin.index.indexing.journal import Journal
from purlin.index.pace import StageProgress
from purlin.index.storage.digests import DigestMap

# Texts of a block: what a killed build loses at most, with those that are in flight beside it.
BLOCK = 2048
# Characters of texts that wait in memory while the sources are read; other blocks are rendered
# again from the documents.
WAITING_CHARS = 32 * 2**20
# Longest time between two reports of progress.
_REPORT_S = 0.2

# Row of each digest (n, 2) in the earlier build, or -1.
EarlierRows = Callable[[NDArray[np.uint64]], NDArray[np.int64]]


class _Stopped(Exception):
    """The build was given up."""


@dataclass(slots=True)
class _Block:
    """Texts that are encoded together, by their rows, from which they can be rendered again."""

    rows: array[int]
    digests: bytes
    advanced: int = 0

    def __len__(self) -> int:
        return len(self.rows)


class Encoding:
    """Makes the vectors of all texts that are added to it.

    `encoder.encode` is called with a block of texts, in a thread of its own. An encoder with an
    attribute `blocks_in_flight` gets so many blocks at a time, from as many threads: one whose work
    is done elsewhere. Vectors are written in the order of the blocks.
    """

    def __init__(
        self, encoder: TextEncoder, journal: Journal, earlier_rows: EarlierRows | None = None
    ) -> None:
        self.journal = journal
        self._encoder, self._earlier_rows = encoder, earlier_rows
        # A longer text is cut by the encoder; here, it would only take memory.
        self._longest = encoder.max_tokens * CHARS_PER_TOKEN
        self._row_of = DigestMap()

        # Texts that the earlier build may have.
        self._candidates: list[tuple[int, bytes, str | None]] = []
        self._block: list[tuple[int, bytes, str | None]] = []
        self._waiting: deque[tuple[_Block, list[str]]] = deque()
        self._waiting_chars = 0
        self._deferred: deque[_Block] = deque()

        self._threads: int = getattr(encoder, "blocks_in_flight", 1)
        self._pool = ThreadPoolExecutor(self._threads, "encoding")
        self._in_flight: deque[tuple[_Block, Future[NDArray[np.float16]]]] = deque()
        self._lock = threading.Lock()
        self._stopped = False
        # Texts that need a vector, and those that have one.
        self.total = self.encoded_count = 0

    def add(self, row: int, key: bytes, text: str | None) -> None:
        """Add a passage's text with its digest; None for one to be rendered when it is needed."""
        cut = None if text is None else text[: self._longest]
        self._candidates.append((row, key, cut))
        if len(self._candidates) >= BLOCK:
            self._sift()
        self.advance()

    def advance(self) -> None:
        """Write what is finished, and encode what waits in memory."""
        while self._in_flight and self._in_flight[0][1].done():
            self._collect()
        while self._waiting and len(self._in_flight) <= self._threads:
            block, texts = self._waiting.popleft()
            self._waiting_chars -= sum(map(len, texts))
            self._submit(block, texts)

    def end(self) -> None:
        """Close the last block: all texts were added."""
        self._sift()
        self._close_block()
        self.advance()

    def finish(self, texts_of: Callable[[Sequence[int]], list[str]], report: StageProgress) -> None:
        """Encode the rest; `texts_of` renders the texts of rows. Raises what the encoder raises."""
        reported = -1
        while True:
            self.advance()
            while self._deferred and len(self._in_flight) <= self._threads:
                block = self._deferred.popleft()
                self._submit(block, [text[: self._longest] for text in texts_of(block.rows)])

            if self.encoded_count != reported:
                reported = self.encoded_count
                report(reported, self.total)
            if not self._in_flight:
                return
            wait([self._in_flight[0][1]], _REPORT_S)

    def close(self) -> None:
        """Give up what is not finished, and release the journal."""
        self._stopped = True
        self._pool.shutdown(cancel_futures=True)
        self.journal.close()

    @property
    def takes_long(self) -> bool:
        """Whether more texts than those of a block have no vector yet."""
        return self.total - self.encoded_count > BLOCK

    # ---- blocks

    def _sift(self) -> None:
        """Move the candidates that nobody has a vector of into blocks."""
        candidates, self._candidates = self._candidates, []
        if self._earlier_rows is not None and candidates:
            digests = np.frombuffer(b"".join(key for _, key, _ in candidates), np.uint64)
            rows = self._earlier_rows(digests.reshape(-1, 2)).tolist()
            candidates = [item for item, row in zip(candidates, rows, strict=True) if row < 0]

        for item in candidates:
            if self._row_of.get(item[1]) is None:
                self._row_of.add(item[1], item[0])
                self._block.append(item)
                if len(self._block) >= BLOCK:
                    self._close_block()

    def _close_block(self) -> None:
        items, self._block = self._block, []
        missing = [item for item in items if item[1] not in self.journal]
        self.total += len(items)
        with self._lock:
            self.encoded_count += len(items) - len(missing)
        if not missing:
            return

        texts = [text for _, _, text in missing if text is not None]
        rows = array("q", [row for row, _, _ in missing])
        block = _Block(rows, b"".join(key for _, key, _ in missing))
        chars = sum(map(len, texts))
        if len(texts) == len(missing) and self._waiting_chars + chars <= WAITING_CHARS:
            self._waiting_chars += chars
            self._waiting.append((block, texts))
        else:
            self._deferred.append(block)

    # ---- encoding

    def _submit(self, block: _Block, texts: list[str]) -> None:
        self._in_flight.append((block, self._pool.submit(self._encode, block, texts)))

    def _encode(self, block: _Block, texts: list[str]) -> NDArray[np.float16]:
        def advance(count: int) -> None:
            if self._stopped:
                raise _Stopped
            with self._lock:
                block.advanced += count
                self.encoded_count += count

        vectors = self._encoder.encode(texts, role="passage", progress=advance)
        return vectors.astype(np.float16)

    def _collect(self) -> None:
        """Write the oldest block in flight to the journal."""
        block, future = self._in_flight.popleft()
        vectors = future.result()
        self.journal.append(block.digests, vectors)
        with self._lock:
            self.encoded_count += len(block) - block.advanced
