"""The builds that serve requests.

Each request uses the build that is active at that time; activating another never interrupts a
running request.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from purlin.app.errors import Opening
from purlin.index import builds
from purlin.index.builds import build_files
from purlin.index.builds.catalogs import Catalog
from purlin.index.errors import Altered, Damaged, EngineFailed, NotFound, PurlinError
from purlin.replies import ServingState

RETRY_S = 60.0  # after which a refused build is tried again
ENGINE_RETRY_S = 5.0  # the same if an engine could not be reached


class Build(Protocol):
    """An open build of any kind, by the name `build`."""

    build: str

    def close(self) -> None:
        """Release all resources; called when nobody uses the build any more."""


_B = TypeVar("_B", bound=Build)


@dataclass(slots=True)
class _Open(Generic[_B]):
    """An open build and the number of requests that use it.

    It is closed when it is retired and the last of these requests ends.
    """

    build: _B
    users: int = 0
    retired: bool = False


@dataclass(slots=True)
class _Slot(Generic[_B]):
    """The state of one name. `requested` is the content of CURRENT that was last acted upon.

    `altered` are the builds whose files changed in use: they are verified whole before they are
    opened again.
    """

    name: str
    requested: str = ""
    tried_at: float = 0.0
    loading: Future[None] | None = None
    problem: PurlinError | None = None
    open: _Open[_B] | None = None
    switches: int = 0
    refusals: int = 0
    altered: set[str] = field(default_factory=set)

    def due(self, requested: str) -> bool:
        """Return whether the requested build is to be opened now."""
        if self.loading is not None and not self.loading.done():
            return False
        pause_s = ENGINE_RETRY_S if isinstance(self.problem, EngineFailed) else RETRY_S
        retry = self.problem is not None and time.monotonic() - self.tried_at > pause_s
        return requested != self.requested or retry


@dataclass(frozen=True, slots=True)
class Status(Generic[_B]):
    """The state of one name: the build that serves, and the problem with the newest one.

    Since the server started, `switches` counts the builds that replaced another one, and `refusals`
    those that could not be opened.
    """

    name: str
    state: ServingState
    problem: str | None
    opened: _B | None
    switches: int = 0
    refusals: int = 0

    @property
    def build(self) -> str | None:
        """Name of the build that serves."""
        return self.opened.build if self.opened is not None else None


class OpenBuilds(Generic[_B]):
    """The active builds of one catalog below `home`; one background thread opens them with `load`.

    `load` takes the directory of a build, and the open build that serves until then, if there is one.
    When CURRENT names a new build, the previous one serves until the new one is open. If `load` refuses
    a build, the refusal is logged once and shown in the status, and the build is tried again after a
    while. Meanwhile the previous build serves, even after a restart. The same applies to a build whose
    files change while it serves.
    """

    def __init__(
        self,
        home: Path,
        catalog: Catalog,
        load: Callable[[Path, _B | None], _B],
        *,
        timeout_s: float,
    ) -> None:
        self._home = home
        self._catalog = catalog
        self._load_build = load
        self._timeout_s = timeout_s

        self._lock = threading.Lock()
        self._slots: dict[str, _Slot[_B]] = {}
        self._initial: list[Future[None]] = []
        self._closing = False
        self._loader = ThreadPoolExecutor(1, thread_name_prefix=f"{catalog.item}-loader")
        self._log = logging.getLogger(f"purlin.{catalog.folder}")

    def open_all(self) -> None:
        """Start to open all builds; returns at once."""
        self.statuses()
        with self._lock:
            futures = [slot.loading for slot in self._slots.values()]
            self._initial = [future for future in futures if future is not None]

    def ready(self) -> bool:
        """Return whether every build that existed when `open_all` was called is open or refused."""
        return all(loading.done() for loading in self._initial)

    @contextmanager
    def lease(self, name: str) -> Iterator[_B]:
        """Yield the build that serves, and keep it open until the block ends.

        Waits if it is being opened for the first time. Raises NotFound, Opening, or the error that
        it was refused with.
        """
        slot = self._update(name)
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

    def statuses(self) -> list[Status[_B]]:
        """Return all statuses, sorted by name, and close what was deleted."""
        names = builds.names(self._home, self._catalog)
        with self._lock:
            deleted = self._slots.keys() - set(names)
        for name in deleted:
            self._forget(name)

        statuses = []
        for name in names:
            # A name may be deleted while the others are looked up.
            with suppress(NotFound):
                statuses.append(self.status(name))
        return statuses

    def status(self, name: str) -> Status[_B]:
        """Return the status of one name. Raises NotFound."""
        slot = self._update(name)
        with self._lock:
            opened, problem = slot.open, slot.problem
            counts = slot.switches, slot.refusals

        message = problem.message if problem else None
        if opened is None:
            return Status(name, "refused" if problem else "opening", message, None, *counts)
        return Status(name, "serving", message, opened.build, *counts)

    def close(self) -> None:
        """Stop opening and close all builds; those in use close with their last request."""
        with self._lock:
            self._closing = True
        self._loader.shutdown(cancel_futures=True)
        for name in list(self._slots):
            self._forget(name)

    # ---- following CURRENT

    def _update(self, name: str) -> _Slot[_B]:
        """Read CURRENT, and start to open the build that it names if that is new."""
        requested = self._requested(name)
        with self._lock:
            slot = self._slots.setdefault(name, _Slot(name))
            # A thread may outlive the server's last request, and still ask for a build.
            if not self._closing and slot.due(str(requested)):
                slot.requested, slot.tried_at = str(requested), time.monotonic()
                slot.loading = self._loader.submit(self._serve, slot, requested)
        return slot

    def _requested(self, name: str) -> Path | Damaged:
        """Return the directory that CURRENT names, or what is wrong with CURRENT."""
        try:
            return builds.current(self._home, name, self._catalog)
        except NotFound:
            self._forget(name)
            raise
        except Damaged as problem:
            return problem

    def _withdraw(self, name: str, opened: _Open[_B], problem: Altered) -> None:
        """Take a build whose files have changed out of service.

        The next request has it verified again.
        """
        with self._lock:
            slot = self._slots.get(name)
            if slot is None or slot.open is not opened:
                return

            self._replace(slot, None)
            slot.problem, slot.requested = problem, ""
            slot.altered.add(opened.build.build)

        self._log.error("%s", problem.message)

    def _forget(self, name: str) -> None:
        with self._lock:
            slot = self._slots.pop(name, None)
            if slot is not None:
                self._replace(slot, None)

    # ---- opening, in the loader's thread

    def _serve(self, slot: _Slot[_B], requested: Path | Damaged) -> None:
        """Serve the requested build; if it is refused and nothing serves, the best older one."""
        problem = self._open(slot, requested) if isinstance(requested, Path) else requested
        # The same problem again, after a retry, is neither counted nor logged.
        if problem is not None and str(problem) != str(slot.problem):
            slot.refusals += 1
            self._log.error("%s", problem.message)

        if problem is not None and slot.open is None:
            self._fall_back(slot, requested)
        slot.problem = problem

    def _open(self, slot: _Slot[_B], directory: Path) -> PurlinError | None:
        """Open a build and put it in service, or return the error that it is refused with."""
        try:
            if directory.name in slot.altered:
                build_files.verify(directory)
                slot.altered.remove(directory.name)
            with self._lock:
                serving = slot.open.build if slot.open is not None else None
            opened = self._load_build(directory, serving)
        except PurlinError as error:
            return error
        except Exception as error:  # noqa: BLE001 - one broken build must not stop the others
            self._log.exception("%s/%s cannot be opened", slot.name, directory.name)
            kind = type(error).__name__
            return Damaged(f"{slot.name}/{directory.name} cannot be opened ({kind}); see the log.")

        with self._lock:
            if self._slots.get(slot.name) is slot:
                slot.switches += slot.open is not None
                self._replace(slot, _Open(opened))
                self._log.info("%s is served from %s", slot.name, self._described(opened))
            else:
                # The name was deleted while its build was being opened.
                opened.close()
        return None

    def _described(self, opened: _B) -> str:
        """Name a build in a log line."""
        return f"build {opened.build}"

    def _fall_back(self, slot: _Slot[_B], requested: Path | Damaged) -> None:
        """Put the newest sound build that is older than the refused one in service."""
        directory = builds.builds_directory(self._home, slot.name, self._catalog)
        try:
            older = builds.builds(self._home, slot.name, self._catalog)
        except Damaged:
            # Of a directory that cannot be read, CURRENT cannot be either, and has been refused.
            return
        if isinstance(requested, Path):
            older = [build for build in older if build < requested.name]

        for build in reversed(older):
            if builds.refused(directory / build):
                continue
            if self._open(slot, directory / build) is None:
                return

    # ---- counting users

    def _acquire(self, slot: _Slot[_B]) -> _Open[_B]:
        with self._lock:
            if slot.open is not None:
                slot.open.users += 1
                return slot.open
            problem = slot.problem

        item = self._catalog.item
        if problem is None:
            raise Opening(
                f"{item.capitalize()} {slot.name!r} is still being opened: try again in a moment.",
                field=item,
            )
        # A new exception each time, because raising one again adds to its traceback.
        raise type(problem)(problem.message, field=item)

    def _release(self, opened: _Open[_B]) -> None:
        with self._lock:
            opened.users -= 1
            if opened.retired and opened.users == 0:
                opened.build.close()

    def _replace(self, slot: _Slot[_B], opened: _Open[_B] | None) -> None:
        """Put `opened` in service and retire the previous build. The caller holds the lock."""
        previous, slot.open = slot.open, opened
        if previous is not None:
            previous.retired = True
            if previous.users == 0:
                previous.build.close()
