"""What the workers of one server share: a table of numbers in memory, and a page of text for each.

The supervisor makes it, and the workers map the same memory. Numbers change under one lock, which
the kernel frees when a worker dies. A server of one process has the same table for itself.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

MAX_WORKERS = 64
MAX_RATES = 1_000  # API keys with a rate

_CELL_BYTES = 8
_HEADER_CELLS = 7
_COLUMNS = 10
_LENGTH_BYTES = 8
# This is address space, not memory: a page takes only as much memory as is written to it.
_PAGE_BYTES = 64 << 20


class Shared:
    """The table and the pages of a server of `workers` processes, as worker `number` sees them.

    Columns have a cell for each worker:

    - `running` and `waiting` count its requests; `oldest` is when the first waiting one began to wait;
      `granted` counts slots that other workers gave it.
    - `sent` and `closed` count its connections; `started` is 1 while it takes any.
    - `body_bytes` is the size of the bodies of its unanswered requests.
    - `written` is when it last wrote its page of metrics.
    - `beats` counts the ticks of its event loop.

    All times are of the monotonic clock, which processes share. `listeners` are called, in the event
    loop, when another worker has rung.
    """

    def __init__(
        self,
        workers: int = 1,
        number: int = 0,
        file: int | None = None,
        bells: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.workers = workers
        self.number = number
        self._file = file
        self._bells = bells
        self._thread_lock = threading.Lock()
        self.listeners: list[Callable[[], None]] = []

        self._table_bytes = _table_bytes(workers)
        memory = mmap.mmap(-1 if file is None else file, self._table_bytes)
        cells = memoryview(memory).cast("d")

        # When the rush began, and the last refusal: see `purlin.app.slots`.
        self.rush = cells[:2]
        # One cell each: when metrics were last requested, how many workers were started again, how often
        # the news about builds has changed, how often there was a new build, and how often new keys.
        self.requested, self.restarts, self.news, self.built, self.keys = (
            cells[n : n + 1] for n in range(2, _HEADER_CELLS)
        )

        start = _HEADER_CELLS
        self._columns = [
            cells[start + n * workers : start + (n + 1) * workers] for n in range(_COLUMNS)
        ]
        self.running, self.waiting, self.oldest, self.granted = self._columns[:4]
        self.sent, self.closed, self.started, self.body_bytes = self._columns[4:8]
        self.written, self.beats = self._columns[8:]

        start += _COLUMNS * workers
        self.rate_uses = cells[start : start + MAX_RATES]
        self.rate_times = cells[start + MAX_RATES : start + 2 * MAX_RATES]
        # Whose uses these are: a part of the key's digest.
        self.rate_keys = cells[start + 2 * MAX_RATES : start + 3 * MAX_RATES]

    @classmethod
    def create(cls, workers: int) -> Shared:
        """Make what `workers` processes share, as their supervisor sees it."""
        file = _anonymous_file()
        os.ftruncate(file, _table_bytes(workers) + (workers + 2) * _PAGE_BYTES)
        bells = [os.pipe() for _ in range(workers)]
        for bell in bells:
            for end in bell:
                os.set_blocking(end, False)
        return cls(workers, -1, file, bells)

    @property
    def files(self) -> list[int]:
        """The descriptors that a worker inherits; `join` takes them in this order."""
        assert self._file is not None
        return [self._file, *(end for bell in self._bells for end in bell)]

    @classmethod
    def join(cls, number: int, files: Sequence[int]) -> Shared:
        """Map, as worker `number`, what the supervisor made."""
        file, *ends = files
        bells = list(zip(ends[::2], ends[1::2], strict=True))
        return cls(len(bells), number, file, bells)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the table."""
        with self._locked_bytes(0, self._table_bytes):
            yield

    @contextmanager
    def _locked_bytes(self, start: int, length: int) -> Iterator[None]:
        # The kernel's lock is between processes only.
        with self._thread_lock:
            if self._file is None:
                yield
                return

            fcntl.lockf(self._file, fcntl.LOCK_EX, length, start)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, length, start)

    def open_connections(self, worker: int) -> int:
        """Count the connections that a worker has, or is being sent."""
        return int(self.sent[worker] - self.closed[worker])

    def is_crowded(self) -> bool:
        """Return whether this worker has more connections than its share, by more than one."""
        connections = sum(map(self.open_connections, range(self.workers)))
        share = connections / self.alive
        return self.open_connections(self.number) > share + 1

    @property
    def alive(self) -> int:
        """The number of workers that take connections; 1 for a server of one process."""
        return max(1, int(sum(self.started)))

    def forget(self, worker: int) -> None:
        """Clear the cells of a worker that has ended. The caller holds the lock."""
        for column in self._columns:
            column[worker] = 0

    # ---- bells

    @property
    def bell(self) -> int:
        """The descriptor that becomes readable when another worker rings for this one."""
        return self._bells[self.number][0]

    def ring(self, worker: int) -> None:
        """Have another worker look at the table."""
        # If the pipe is full, it rings already.
        with suppress(BlockingIOError):
            os.write(self._bells[worker][1], b"!")

    def ring_others(self) -> None:
        """Have all other workers look at the table."""
        for worker in range(self.workers):
            if worker != self.number:
                self.ring(worker)

    def answer_bell(self) -> None:
        """Silence this worker's bell, and call the listeners."""
        with suppress(BlockingIOError):
            os.read(self.bell, 2**16)
        for listener in self.listeners:
            listener()

    def close(self) -> None:
        """Close the descriptors, as the supervisor does at the end."""
        for descriptor in self.files:
            os.close(descriptor)

    # ---- pages

    def write_page(self, page: int, text: bytes) -> None:
        """Replace the text of a page; page `workers` is about what is being built, the next one has keys."""
        assert self._file is not None
        text = text[: _PAGE_BYTES - _LENGTH_BYTES]
        start = self._table_bytes + page * _PAGE_BYTES
        with self._locked_bytes(start, _PAGE_BYTES):
            os.pwrite(self._file, len(text).to_bytes(_LENGTH_BYTES, "little") + text, start)

    def read_page(self, page: int) -> bytes:
        """Return the text of a page, empty if nothing was written to it."""
        assert self._file is not None
        start = self._table_bytes + page * _PAGE_BYTES
        with self._locked_bytes(start, _PAGE_BYTES):
            length = int.from_bytes(os.pread(self._file, _LENGTH_BYTES, start), "little")
            return os.pread(self._file, length, start + _LENGTH_BYTES)


def _table_bytes(workers: int) -> int:
    """Return the size of the table in whole pages of memory."""
    cells = _HEADER_CELLS + _COLUMNS * workers + 3 * MAX_RATES
    return math.ceil(_CELL_BYTES * cells / mmap.PAGESIZE) * mmap.PAGESIZE


def _anonymous_file() -> int:
    """Open a file without a name, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("purlin-workers")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
