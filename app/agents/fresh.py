"""The index of a repository as its files are now, for calls that can wait only so long for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path

from purlin.app.agents.backend import Opened
from purlin.index.errors import Busy
from purlin.index.pace import amount
from purlin.index.records import Kind
from purlin.index.search.corpus import Corpus
from purlin.index.workspaces.better_vectors import BestWorkspace, workspace_of
from purlin.index.workspaces.repositories import find_root
from purlin.index.workspaces.workspace import Workspace

# How long a call waits for the index: less than the minute after which many clients give up.
ANSWER_S = 40.0
# The same if the last build can answer.
PATIENCE_S = 10.0

_log = logging.getLogger("purlin.mcp")


class FreshIndex:
    """The index of the code, or of the documentation, of the repository around `path`.

    It is opened at the first call that needs it, and refreshed before each answer. Where that takes
    long, the last build answers, or if there is none, a sentence that says so; the indexing goes on.
    Safe to share between threads, which take turns.
    """

    def __init__(self, path: Path, kind: Kind, encoder: str | None) -> None:
        """`encoder` is a released one's word or a directory; without it, the best vectors are used."""
        self._path = path
        self._kind: Kind = kind
        self._encoder = encoder
        self._workspace: Workspace | BestWorkspace | None = None
        # Held by the call that uses the workspace, or by the indexing that it no longer waits for.
        self._turn = threading.Lock()
        self._indexing: str | None = None
        # Whether no call waits any more for the indexing under way.
        self._is_late = False
        # The threads of the calls that wait for the index.
        self._waiting: set[int] = set()
        # What an indexing raised that no call waited for any more; the next call raises it.
        self._unheard: BaseException | None = None

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """Keep the build of the files as they are now open; others wait until the block ends.

        Where indexing them takes long, it is the last build, with a warning. Raises Busy without one.
        """
        refreshed = self._refreshing()
        if refreshed is None:
            with self._last_build() as corpus:
                yield Opened(corpus, self._old_warning())
            return

        try:
            workspace = refreshed.result()
            yield Opened(workspace.corpus, self._old_warning() if workspace.is_behind else None)
        finally:
            self._turn.release()

    def progress(self, thread: int) -> str | None:
        """How far the indexing is that the call of a thread waits for; None if it waits for none."""
        return self._indexing if thread in self._waiting else None

    # ---- waiting

    def _refreshing(self) -> Future[Workspace | BestWorkspace] | None:
        """The refresh of the workspace when it has ended, in the caller's turn; None if that takes too long."""
        started = time.monotonic()
        if not self._await(lambda seconds: self._turn.acquire(timeout=seconds), started):
            return None

        refreshed: Future[Workspace | BestWorkspace] = Future()
        # A daemon, which a client that ends this process need not wait for.
        thread = threading.Thread(target=self._refresh, args=(refreshed,), daemon=True)
        try:
            self._raise_unheard()
            thread.start()
        except BaseException:
            self._turn.release()
            raise

        if self._await(lambda seconds: bool(wait([refreshed], seconds).done), started):
            return refreshed
        # Before the refresh is cancelled: its thread says when it has ended.
        self._is_late = True
        if refreshed.cancel():
            return None
        self._is_late = False
        return refreshed

    def _await(self, is_ready: Callable[[float], bool], started: float) -> bool:
        """Whether something is ready in time, which is sooner if the last build can answer.

        `is_ready` waits for it at most for a number of seconds; the call has waited since `started`.
        """
        thread = threading.get_ident()
        self._waiting.add(thread)
        try:
            patience_s = 0.0 if self._is_late else min(PATIENCE_S, ANSWER_S)
            if is_ready(_remaining_s(started, patience_s)):
                return True
            if self._workspace is not None and self._workspace.is_open:
                return False
            return is_ready(_remaining_s(started, ANSWER_S))
        finally:
            self._waiting.discard(thread)

    @contextmanager
    def _last_build(self) -> Iterator[Corpus]:
        """The build before the one that is being made. Raises Busy without one."""
        if self._workspace is None:
            raise self._still_indexing()
        with self._workspace.last_build() as corpus:
            if corpus is None:
                raise self._still_indexing()
            yield corpus

    # ---- refreshing

    def _refresh(self, refreshed: Future[Workspace | BestWorkspace]) -> None:
        """Open or refresh the workspace; ends the turn of a call that no longer waits for it."""
        try:
            workspace, error = self._refreshed(), None
        except BaseException as raised:  # noqa: BLE001 - the call raises it
            workspace, error = None, raised
        self._indexing = None

        if not refreshed.set_running_or_notify_cancel():
            self._unheard = error
            self._is_late = False
            self._turn.release()
        elif workspace is not None:
            refreshed.set_result(workspace)
        else:
            refreshed.set_exception(error)

    def _raise_unheard(self) -> None:
        error, self._unheard = self._unheard, None
        if error is not None:
            raise error

    def _refreshed(self) -> Workspace | BestWorkspace:
        self._indexing = "listing the files"
        if self._workspace is None:
            self._workspace = workspace_of(find_root(self._path), self._kind, self._encoder)

        self._workspace.refresh(self._note_progress)
        for note in self._workspace.notes:
            _log.info("%s", note)
        return self._workspace

    def _note_progress(self, stage: str, finished_count: int, total: int | None) -> None:
        self._indexing = amount(stage, finished_count, total)

    # ---- saying so

    def _still_indexing(self) -> Busy:
        return Busy(
            f"{find_root(self._path)} is still being indexed{self._so_far()}. "
            "Call again in a minute; until then, use grep."
        )

    def _old_warning(self) -> str:
        return (
            f"The index is being brought up to date{self._so_far()}; until then the last one "
            "answers, which may lack the newest changes."
        )

    def _so_far(self) -> str:
        return f" ({self._indexing})" if self._indexing else ""


def _remaining_s(started: float, limit_s: float) -> float:
    """Seconds until a time limit is over that began at `started`."""
    return max(started + limit_s - time.monotonic(), 0.0)
