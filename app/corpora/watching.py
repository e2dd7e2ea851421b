"""Notices when the sources of corpora change, and has them indexed again.

The kernel reports changes, and regular checks find those that it does not report: on network drives,
beyond its limit of watched directories, or while the server was down. The builder finds out what has
really changed (see `purlin.app.corpora.indexer`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from purlin.app.corpora.building import Builder, Job
from purlin.index import builds
from purlin.index.errors import PurlinError
from purlin.index.indexing.repeat import why_not_repeatable
from purlin.index.records import Kind
from purlin.index.sources.files import exists
from purlin.index.storage import FileState, file_state

if TYPE_CHECKING:
    from watchfiles import Change

# A burst of changes is over after QUIET_MS without one; it is cut after BURST_MS.
QUIET_MS, BURST_MS = 300, 5_000
RESCAN_S = 2.0  # after which new corpora, and roots that are back, are noticed
FULL_CHECK_S = 60.0  # after which all files are checked, whatever the kernel reports
# Directories that change all the time and that no source reads.
_IGNORED = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules"})

_log = logging.getLogger("purlin.watching")

# Corpus -> its kind, and the directories and files it was made from.
_Watched = Mapping[str, tuple[Kind, tuple[Path, ...]]]
# Root that is a file -> its state.
_FileStates = Mapping[Path, FileState | None]


class Watcher:
    """Watches the sources of all corpora of a home that can be built again from their manifest."""

    def __init__(self, home: Path, builder: Builder, encoders: tuple[Path, ...]) -> None:
        self._home = home
        self._builder = builder
        self._encoders = encoders
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._warned: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Watch in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(RESCAN_S)

    def _run(self) -> None:
        watched: _Watched = {}
        while not self._stopping.is_set():
            try:
                before, watched = watched, self._watched()
                # Those that were deleted: a problem with their sources is none any more.
                self._check(before, before.keys() - watched.keys())
                # Before the check, so that what changes after it differs from them.
                files = _file_states(watched)
                self._check(watched, watched)
                self._follow_or_poll(watched, files)
            except (OSError, PurlinError) as error:
                # A home or a drive may fail for a while.
                self._warn_once("", f"changes are not noticed until this is mended: {error}")
                self._stopping.wait(RESCAN_S)

    def _watched(self) -> _Watched:
        """The corpora to watch, with those of their roots that exist."""
        watched = {}
        for name in builds.corpora(self._home):
            manifest = builds.active_manifest(self._home, name)
            if manifest is None or not manifest.local_roots:
                continue

            if (reason := why_not_repeatable(manifest)) is not None:
                self._warn_once(name, f"{name} is not watched: {reason}")
                continue

            roots = tuple(root for root in manifest.local_roots if exists(root))
            watched[name] = (manifest.kind, roots)

        return watched

    def _follow_or_poll(self, watched: _Watched, files: _FileStates) -> None:
        """Have corpora checked as they change, even where the kernel reports nothing."""
        try:
            self._follow(watched, files)
        except (OSError, RuntimeError) as error:
            # watchfiles raises RuntimeError where the kernel gives no watcher: too many are open.
            self._warn_once("", f"not all changes are noticed at once ({error})")
            self._poll(watched, files)

    def _follow(self, watched: _Watched, files: _FileStates) -> None:
        """Have corpora checked as the kernel reports changes, until what is watched changes."""
        from watchfiles import watch

        directories = {root for _, roots in watched.values() for root in roots if root.is_dir()}
        if not directories:
            self._poll(watched, files)
            return

        checked_at = time.monotonic()
        reports = watch(
            *directories,
            watch_filter=_concerns(directories),
            debounce=BURST_MS,
            step=QUIET_MS,
            rust_timeout=int(RESCAN_S * 1000),
            yield_on_timeout=True,
            stop_event=self._stopping,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        for number, changes in enumerate(reports):
            before, files = files, _file_states(watched)
            changed = {Path(path) for _, path in changes}
            changed |= {path for path, state in files.items() if state != before.get(path)}
            # At first, all: of what changed between their last check and the watch, nothing is reported.
            self._check(watched, _corpora_of(watched, changed) if number else watched)
            due = time.monotonic() - checked_at > FULL_CHECK_S
            if self._stopping.is_set() or due or self._watched() != watched:
                return

    def _poll(self, watched: _Watched, files: _FileStates) -> None:
        """Wait until everything is to be checked again, without the kernel's help."""
        deadline = time.monotonic() + FULL_CHECK_S
        while time.monotonic() < deadline and not self._stopping.wait(RESCAN_S):
            if self._watched() != watched or _file_states(watched) != files:
                return

    def _check(self, watched: _Watched, names: Iterable[str]) -> None:
        self._builder.add(
            *(Job(name, watched[name][0], "repeat", self._encoders) for name in names)
        )

    def _warn_once(self, corpus: str, message: str) -> None:
        """Log a warning once."""
        if (corpus, message) not in self._warned:
            self._warned.add((corpus, message))
            _log.warning("%s", message)


def _concerns(directories: Iterable[Path]) -> Callable[[Change, str], bool]:
    """Return a filter of changes that leaves out those in directories that no source reads."""
    roots = [str(directory) for directory in directories]

    def concerns(change: Change, path: str) -> bool:
        root = max((root for root in roots if path.startswith(root)), key=len, default="")
        return _IGNORED.isdisjoint(Path(path[len(root) :]).parts)

    return concerns


def _corpora_of(watched: _Watched, changed: Iterable[Path]) -> list[str]:
    """Corpora with a root that has one of the changed paths."""
    touched = {ancestor for path in changed for ancestor in (path, *path.parents)}
    return [name for name, (_, roots) in watched.items() if not touched.isdisjoint(roots)]


def _file_states(watched: _Watched) -> _FileStates:
    """States of the roots that are files, which editors replace by others of the same name."""
    files = {root for _, roots in watched.values() for root in roots if root.is_file()}
    return {path: file_state(path) for path in files}
