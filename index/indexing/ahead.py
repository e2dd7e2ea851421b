"""Reads the files of large sources in other processes, ahead of the one that writes the build.

Parsing holds the interpreter's lock, so that threads would gain nothing. A process reads a batch of
files at a time, and sends what a segment stores of their documents. It answers nothing for a batch
that it could not read: whoever reads that batch again meets the error where it belongs.

Both ends run this module, and exchange pickled objects through pipes that nobody else has.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import BinaryIO, TypeVar

from purlin.index.indexing.segment import Prepared, prepare
from purlin.index.records import Document, Skipped, SourceFile, Splitter
from purlin.index.search.lexical.builder import Tokenizer
from purlin.index.search.lexical.languages import ENGLISH

# What is read of a file: documents as they are, or as a segment stores them, and what is left out.
Item = Document | Prepared | Skipped

# The process that writes can hardly follow more.
MOST_PROCESSES = 4
_FILES_TOGETHER = 8
# Batches of each process that are read or wait to be written.
_BATCHES_AHEAD = 4

_T = TypeVar("_T")
_Read = Callable[[], Iterator[Document | Skipped]]


def read_ahead(
    entries: Iterable[_T], splitter: Splitter, processes: int
) -> Generator[tuple[_T, list[Item] | None]]:
    """Yield each entry in its order, with what is in it if it is a source file that could be read.

    Texts are cut into tokens as English ones are. Close the generator to end the processes.
    """
    remaining = iter(entries)
    with _Pool(splitter, processes) as pool:
        batches: deque[tuple[list[_T], Future[list[list[Item]] | None]]] = deque()
        while True:
            while len(batches) < _BATCHES_AHEAD * processes:
                batch = list(islice(remaining, _FILES_TOGETHER))
                if not batch:
                    break
                batches.append((batch, pool.read(batch)))
            if not batches:
                return

            batch, future = batches.popleft()
            contents = iter(future.result() or ())
            for entry in batch:
                yield entry, next(contents, None) if isinstance(entry, SourceFile) else None


class _Pool:
    """Processes that read, each by a thread that waits for it."""

    def __init__(self, splitter: Splitter, processes: int) -> None:
        self._splitter: Splitter = splitter
        self._processes = [process for _ in range(processes) if (process := _start()) is not None]
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        # At least one, which tells that nobody reads.
        self._threads = ThreadPoolExecutor(max(len(self._processes), 1), "reading")

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        # A process in the middle of a batch would first finish it.
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.communicate()

    def read(self, entries: Iterable[object]) -> Future[list[list[Item]] | None]:
        """Begin to read the source files among the entries; the result is None if that fails."""
        reads = [entry.read for entry in entries if isinstance(entry, SourceFile)]
        return self._threads.submit(self._read, reads)

    def _read(self, reads: list[_Read]) -> list[list[Item]] | None:
        if not reads or not self._processes:
            return None
        try:
            request = pickle.dumps((self._splitter, reads), pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError, ValueError):
            # What reads them belongs to this process.
            return None

        process = self._idle.get()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
            contents: list[list[Item]] | None = pickle.load(process.stdout)  # noqa: S301
        except (OSError, EOFError, pickle.UnpicklingError):
            # It was killed.
            return None
        finally:
            self._idle.put(process)
        return contents


def _start() -> subprocess.Popen[bytes] | None:
    """Start a process that reads; None if that cannot be done."""
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            # In the same directory, as paths may be relative; -P imports no module from there.
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    return None


# ---- the other process


def answer(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer each batch that is requested, until the requests end."""
    tokenizer = Tokenizer(ENGLISH)
    while True:
        try:
            splitter, reads = pickle.load(requests)  # noqa: S301
        except EOFError:
            return

        contents: list[list[Item]] | None = None
        with contextlib.suppress(Exception):
            contents = [[_prepared(item, splitter, tokenizer) for item in read()] for read in reads]
        pickle.dump(contents, replies, pickle.HIGHEST_PROTOCOL)
        replies.flush()


def _prepared(item: Document | Skipped, splitter: Splitter, tokenizer: Tokenizer) -> Item:
    """The item as a segment stores it; a text that is not valid Unicode is left to the writer."""
    if isinstance(item, Document):
        with contextlib.suppress(UnicodeEncodeError):
            return prepare(item, splitter, tokenizer)
    return item


def main() -> None:
    """Answer what is requested on the standard input."""
    # Ctrl-C reaches all processes of a terminal; this one ends with its requests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What modules print, where docstrings are read, is no reply.
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)
        answer(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
