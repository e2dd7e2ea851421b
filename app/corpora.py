"""The corpora being served. Each request finds a newly activated build, and no search is ever interrupted by one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.problems import Opening
from index import generations
from index.corpus import Corpus
from index.encoder import TextEncoder
from index.errors import Damaged, NotFound, PurlinError

RETRY_S = 60.0  # until a build that was refused is looked at again

_log = logging.getLogger("purlin.corpora")


@dataclass(slots=True)
class _Open:
    """An open build and how many requests are using it; closed when it is retired and the last one is done."""

    corpus: Corpus
    users: int = 0
    retired: bool = False


@dataclass(slots=True)
class _Slot:
    """What is known of one corpus. `wanted` is what CURRENT said when it was last acted on."""

    name: str
    wanted: str = ""
    tried_at: float = 0.0
    loading: Future[None] | None = None
    problem: PurlinError | None = None
    open: _Open | None = None

    def due(self, wanted: str) -> bool:
        if self.loading is not None and not self.loading.done():
            return False
        retry = self.problem is not None and time.monotonic() - self.tried_at > RETRY_S
        return wanted != self.wanted or retry


@dataclass(frozen=True, slots=True)
class Status:
    """Of one corpus: the build that serves, if any, and what is wrong with the newest build, if anything."""

    name: str
    state: Literal["serving", "opening", "refused"]
    problem: str | None
    build: str | None
    manifest: generations.Manifest | None


class OpenCorpora:
    """All corpora below `home`, opened with one encoder by one thread in the background.

    Whatever CURRENT names is opened while the build before it goes on serving, and takes its place when it is open. A
    build that is damaged or made with another encoder is refused: logged once, shown in its status, tried again after
    a while; meanwhile the build before it serves, also after a restart.
    """

    def __init__(self, home: Path, encoder: TextEncoder, *, timeout_s: float) -> None:
        self._home = home
        self._encoder = encoder
        self._timeout_s = timeout_s
        self._slots: dict[str, _Slot] = {}
        self._lock = threading.Lock()
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="corpus-loader")
        self._first: list[Future[None]] = []

    def open_all(self) -> None:
        """Start opening every corpus there is; returns at once."""
        self.statuses()
        with self._lock:
            self._first = [slot.loading for slot in self._slots.values() if slot.loading is not None]

    def ready(self) -> bool:
        """Whether every corpus that `open_all` found is open or refused."""
        return all(loading.done() for loading in self._first)

    @contextmanager
    def lease(self, name: str) -> Iterator[Corpus]:
        """The corpus to search, kept open until the block ends.

        Waits for a corpus that is being opened for the first time. Raises NotFound, Opening, or why it was refused.
        """
        slot = self._notice(name)
        if slot.open is None and slot.loading is not None:
            wait([slot.loading], self._timeout_s)
        opened = self._acquire(slot)
        try:
            yield opened.corpus
        finally:
            self._release(opened)

    def statuses(self) -> list[Status]:
        """All corpora there are, by name; those that are gone are closed."""
        names = generations.corpora(self._home)
        with self._lock:
            gone = self._slots.keys() - set(names)
        for name in gone:
            self._forget(name)
        found = []
        for name in names:
            with suppress(NotFound):
                found.append(self.status(name))
        return found

    def status(self, name: str) -> Status:
        """How a corpus is doing. NotFound if there is none of that name."""
        slot = self._notice(name)
        with self._lock:
            opened, problem = slot.open, slot.problem
        message = problem.message if problem else None
        if opened is None:
            return Status(name, "refused" if problem else "opening", message, None, None)
        return Status(name, "serving", message, opened.corpus.build, opened.corpus.manifest)

    def close(self) -> None:
        """Stop opening and close everything; corpora in use close with their last request."""
        self._loader.shutdown(cancel_futures=True)
        for name in list(self._slots):
            self._forget(name)

    # ---- noticing

    def _notice(self, name: str) -> _Slot:
        """See what CURRENT says now, and start opening it if that is new."""
        wanted = self._wanted(name)
        with self._lock:
            slot = self._slots.setdefault(name, _Slot(name))
            if slot.due(str(wanted)):
                slot.wanted, slot.tried_at = str(wanted), time.monotonic()
                slot.loading = self._loader.submit(self._load, slot, wanted)
        return slot

    def _wanted(self, name: str) -> Path | Damaged:
        try:
            return generations.current(self._home, name)
        except NotFound:
            self._forget(name)
            raise
        except Damaged as problem:
            return problem

    def _forget(self, name: str) -> None:
        with self._lock:
            slot = self._slots.pop(name, None)
            if slot is not None:
                self._replace(slot, None)

    # ---- opening, in the loader's thread

    def _load(self, slot: _Slot, wanted: Path | Damaged) -> None:
        problem = self._open(slot, wanted) if isinstance(wanted, Path) else wanted
        if problem is not None and str(problem) != str(slot.problem):
            _log.error("%s", problem.message)
        if problem is not None and slot.open is None:
            self._fall_back(slot, wanted)
        slot.problem = problem

    def _open(self, slot: _Slot, directory: Path) -> PurlinError | None:
        """Open a build and let it serve, or return why not."""
        try:
            corpus = Corpus.load(directory, self._encoder)
        except PurlinError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one corpus, the others go on
            _log.exception("%s/%s cannot be opened", slot.name, directory.name)
            return Damaged(f"{slot.name}/{directory.name} cannot be opened ({type(error).__name__}); see the log.")
        with self._lock:
            if self._slots.get(slot.name) is slot:
                self._replace(slot, _Open(corpus))
                _log.info("%s is served from build %s", slot.name, directory.name)
            else:
                corpus.close()  # deleted in the meantime
        return None

    def _fall_back(self, slot: _Slot, wanted: Path | Damaged) -> None:
        """Let the newest build that is older than the refused one and sound serve instead."""
        older = generations.builds(self._home, slot.name)
        if isinstance(wanted, Path):
            older = [build for build in older if build < wanted.name]
        for build in reversed(older):
            if self._open(slot, generations.corpus_directory(self._home, slot.name) / build) is None:
                return

    # ---- counting users

    def _acquire(self, slot: _Slot) -> _Open:
        with self._lock:
            if slot.open is not None:
                slot.open.users += 1
                return slot.open
            problem = slot.problem
        if problem is None:
            raise Opening(f"Corpus {slot.name!r} is still being opened: try again in a moment.", field="corpus")
        raise type(problem)(problem.message, field="corpus")  # a fresh one: each raise adds to a traceback

    def _release(self, opened: _Open) -> None:
        with self._lock:
            opened.users -= 1
            if opened.retired and opened.users == 0:
                opened.corpus.close()

    def _replace(self, slot: _Slot, opened: _Open | None) -> None:
        """Put `opened` in service; what it replaces closes when unused. The lock is held."""
        before, slot.open = slot.open, opened
        if before is not None:
            before.retired = True
            if before.users == 0:
                before.corpus.close()
