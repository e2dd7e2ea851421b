"""Builds being served. Each request finds a newly activated one, and no request is ever interrupted by that."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from app.problems import Opening
from index import builds
from index.builds import CLASSIFIERS, CORPORA, Catalog
from index.classify.trained import TrainedClassifier
from index.encoder import TextEncoder
from index.errors import Altered, Damaged, NotFound, PurlinError
from index.lookups import Lookups
from index.search.corpus import Corpus

RETRY_S = 60.0  # until a build that was refused is looked at again


class Build(Protocol):
    """What an open build has, of whatever kind."""

    @property
    def build(self) -> str:
        """Its name."""
        ...

    def close(self) -> None:
        """Release what it holds; nobody uses it any more."""
        ...


T = TypeVar("T", bound=Build)


@dataclass(slots=True)
class _Open(Generic[T]):
    """An open build and how many requests are using it; closed when it is retired and the last one is done."""

    build: T
    users: int = 0
    retired: bool = False


@dataclass(slots=True)
class _Slot(Generic[T]):
    """What is known of one name. `wanted` is what CURRENT said when it was last acted on."""

    name: str
    wanted: str = ""
    tried_at: float = 0.0
    loading: Future[None] | None = None
    problem: PurlinError | None = None
    open: _Open[T] | None = None
    switches: int = 0
    refusals: int = 0

    def due(self, wanted: str) -> bool:
        if self.loading is not None and not self.loading.done():
            return False
        retry = self.problem is not None and time.monotonic() - self.tried_at > RETRY_S
        return wanted != self.wanted or retry


@dataclass(frozen=True, slots=True)
class Status(Generic[T]):
    """Of one name: the build that serves, if any, and what is wrong with the newest build, if anything.

    `switches` and `refusals` count since the server saw it first: builds that took the place of another, and builds
    that could not be opened.
    """

    name: str
    state: Literal["serving", "opening", "refused"]
    problem: str | None
    opened: T | None
    switches: int = 0
    refusals: int = 0

    @property
    def build(self) -> str | None:
        """Name of the build that serves."""
        return self.opened.build if self.opened is not None else None


class OpenBuilds(Generic[T]):
    """The active builds of one catalog below `home`, opened by `load` in one thread in the background.

    Whatever CURRENT names is opened while the build before it goes on serving, and takes its place when it is open. A
    build that `load` refuses is logged once, shown in its status, tried again after a while; meanwhile the build
    before it serves, also after a restart. So it is with one whose files change while it serves.
    """

    def __init__(
        self, home: Path, catalog: Catalog, load: Callable[[Path], T], *, timeout_s: float
    ) -> None:
        self._home = home
        self._catalog = catalog
        self._build = load
        self._timeout_s = timeout_s
        self._slots: dict[str, _Slot[T]] = {}
        self._lock = threading.Lock()
        self._loader = ThreadPoolExecutor(1, thread_name_prefix=f"{catalog.item}-loader")
        self._first: list[Future[None]] = []
        self._log = logging.getLogger(f"purlin.{catalog.folder}")

    def open_all(self) -> None:
        """Start opening everything there is; returns at once."""
        self.statuses()
        with self._lock:
            self._first = [
                slot.loading for slot in self._slots.values() if slot.loading is not None
            ]

    def ready(self) -> bool:
        """Whether everything that `open_all` found is open or refused."""
        return all(loading.done() for loading in self._first)

    @contextmanager
    def lease(self, name: str) -> Iterator[T]:
        """The build to work with, kept open until the block ends.

        Waits for one that is being opened for the first time. Raises NotFound, Opening, or why it was refused.
        """
        slot = self._notice(name)
        if slot.open is None and slot.loading is not None:
            wait([slot.loading], self._timeout_s)
        opened = self._acquire(slot)
        try:
            yield opened.build
        except Altered as problem:
            self._withdraw(name, opened, problem)
            raise
        finally:
            self._release(opened)

    def statuses(self) -> list[Status[T]]:
        """Everything there is, by name; those that are gone are closed."""
        names = builds.names(self._home, self._catalog)
        with self._lock:
            gone = self._slots.keys() - set(names)
        for name in gone:
            self._forget(name)
        found = []
        for name in names:
            with suppress(NotFound):
                found.append(self.status(name))
        return found

    def status(self, name: str) -> Status[T]:
        """How one name is doing. NotFound if there is none of that name."""
        slot = self._notice(name)
        with self._lock:
            opened, problem, counts = slot.open, slot.problem, (slot.switches, slot.refusals)
        message = problem.message if problem else None
        if opened is None:
            return Status(name, "refused" if problem else "opening", message, None, *counts)
        return Status(name, "serving", message, opened.build, *counts)

    def close(self) -> None:
        """Stop opening and close everything; what is in use closes with their last request."""
        self._loader.shutdown(cancel_futures=True)
        for name in list(self._slots):
            self._forget(name)

    # ---- noticing

    def _notice(self, name: str) -> _Slot[T]:
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
            return builds.current(self._home, name, self._catalog)
        except NotFound:
            self._forget(name)
            raise
        except Damaged as problem:
            return problem

    def _withdraw(self, name: str, opened: _Open[T], problem: Altered) -> None:
        """Let a build that turned out to be changed serve no longer; the next request has it compared again."""
        with self._lock:
            slot = self._slots.get(name)
            if slot is None or slot.open is not opened:
                return
            self._replace(slot, None)
            slot.problem, slot.wanted = problem, ""
        self._log.error("%s", problem.message)

    def _forget(self, name: str) -> None:
        with self._lock:
            slot = self._slots.pop(name, None)
            if slot is not None:
                self._replace(slot, None)

    # ---- opening, in the loader's thread

    def _load(self, slot: _Slot[T], wanted: Path | Damaged) -> None:
        problem = self._open(slot, wanted) if isinstance(wanted, Path) else wanted
        if problem is not None and str(problem) != str(slot.problem):
            slot.refusals += 1
            self._log.error("%s", problem.message)
        if problem is not None and slot.open is None:
            self._fall_back(slot, wanted)
        slot.problem = problem

    def _open(self, slot: _Slot[T], directory: Path) -> PurlinError | None:
        """Open a build and let it serve, or return why not."""
        try:
            opened = self._build(directory)
        except PurlinError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one of them, the others go on
            self._log.exception("%s/%s cannot be opened", slot.name, directory.name)
            return Damaged(
                f"{slot.name}/{directory.name} cannot be opened ({type(error).__name__}); see the log."
            )
        with self._lock:
            if self._slots.get(slot.name) is slot:
                slot.switches += slot.open is not None
                self._replace(slot, _Open(opened))
                self._log.info("%s is served from build %s", slot.name, directory.name)
            else:
                opened.close()  # deleted in the meantime
        return None

    def _fall_back(self, slot: _Slot[T], wanted: Path | Damaged) -> None:
        """Let the newest build that is older than the refused one and sound serve instead."""
        directory = builds.builds_directory(self._home, slot.name, self._catalog)
        older = builds.builds(self._home, slot.name, self._catalog)
        if isinstance(wanted, Path):
            older = [build for build in older if build < wanted.name]
        for build in reversed(older):
            if (
                not builds.refused(directory / build)
                and self._open(slot, directory / build) is None
            ):
                return

    # ---- counting users

    def _acquire(self, slot: _Slot[T]) -> _Open[T]:
        with self._lock:
            if slot.open is not None:
                slot.open.users += 1
                return slot.open
            problem = slot.problem
        if problem is None:
            thing = self._catalog.item.capitalize()
            raise Opening(
                f"{thing} {slot.name!r} is still being opened: try again in a moment.",
                field=self._catalog.item,
            )
        raise type(problem)(
            problem.message, field=self._catalog.item
        )  # a fresh one: each raise adds to a traceback

    def _release(self, opened: _Open[T]) -> None:
        with self._lock:
            opened.users -= 1
            if opened.retired and opened.users == 0:
                opened.build.close()

    def _replace(self, slot: _Slot[T], opened: _Open[T] | None) -> None:
        """Put `opened` in service; what it replaces closes when unused. The lock is held."""
        before, slot.open = slot.open, opened
        if before is not None:
            before.retired = True
            if before.users == 0:
                before.build.close()


class OpenCorpora(OpenBuilds[Corpus]):
    """All corpora below `home`, opened with one encoder; those made with another are refused.

    `filters` counts how often the row mask of a filter was there, over all of them.
    """

    def __init__(self, home: Path, encoder: TextEncoder, *, timeout_s: float) -> None:
        self.filters = Lookups()
        self._encoder = encoder
        super().__init__(home, CORPORA, self._opened, timeout_s=timeout_s)

    def _opened(self, build: Path) -> Corpus:
        corpus = Corpus.load(build, self._encoder)
        corpus.filter_lookups = self.filters
        if corpus.warning is not None:
            self._log.warning("%s", corpus.warning)
        return corpus


class OpenClassifiers(OpenBuilds[TrainedClassifier]):
    """All classifiers below `home`, each with its own encoder; `encoder` is used by those that were left untrained."""

    def __init__(self, home: Path, encoder: TextEncoder, *, timeout_s: float) -> None:
        super().__init__(
            home,
            CLASSIFIERS,
            lambda build: TrainedClassifier.load(build, encoder),
            timeout_s=timeout_s,
        )
