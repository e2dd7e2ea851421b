"""How much the sources of the served corpora have changed since their builds.

Sources are checked in the background, so that no request waits long for a slow disk.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue

from purlin.app.corpora.open_corpora import OpenCorpora
from purlin.index.builds.manifests import Manifest
from purlin.index.errors import PurlinError
from purlin.index.indexing import staleness
from purlin.index.indexing.staleness import Staleness
from purlin.index.records import Hit
from purlin.index.search.corpus import Corpus

RECHECK_S = 30.0  # age at which a check of a whole corpus is repeated
RECHECK_FILE_S = 1.0  # age at which a check of a single file is repeated
MAX_FILES_KEPT = 10_000  # of one corpus
WAIT_S = 0.5  # longest time that a request waits for a check


def corpus_staleness(corpus: Corpus) -> Staleness | None:
    """Compare the sources of a corpus with its build.

    None if the build does not record its sources.
    """
    return staleness.find_staleness(corpus.manifest, *corpus.listing.names(staleness.MAX_FILES))


@dataclass(slots=True, kw_only=True)
class _Look:
    """A look at some files, in a thread that a dead network drive may block."""

    started: float = field(default_factory=time.monotonic)
    finished: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> bool:
        """Wait until the look is WAIT_S old at most; returns whether it is finished."""
        return self.finished.wait(max(0.0, self.started + WAIT_S - time.monotonic()))


@dataclass(slots=True, kw_only=True)
class _Check(_Look):
    """A look at all sources of one build."""

    build: str
    result: Staleness | None = None

    def is_old(self) -> bool:
        return self.finished.is_set() and time.monotonic() - self.started > RECHECK_S


@dataclass(slots=True)
class _Files:
    """The checks of one build's files: when each was last looked at, and whether it had changed.

    If the build was made from one file, `single`, that stands for all names.
    """

    build: str
    results: dict[str, tuple[float, bool]] = field(default_factory=dict)
    single: bool = False
    look: _Look | None = None

    def outdated(self, names: Iterable[str]) -> list[str]:
        oldest = time.monotonic() - RECHECK_FILE_S
        return [name for name in names if self._result(name)[0] < oldest]

    def record(self, names: Iterable[str], changed: set[str]) -> None:
        if len(self.results) > MAX_FILES_KEPT:
            self.results = {}
        now = time.monotonic()
        self.results |= {self._key(name): (now, name in changed) for name in names}

    def changed(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if self._result(name)[1]}

    def _key(self, name: str) -> str:
        return "" if self.single else name

    def _result(self, name: str) -> tuple[float, bool]:
        return self.results.get(self._key(name), (-math.inf, False))


class _Lookers:
    """Threads that look at files, as many as there ever were looks at once.

    They are kept, since starting one takes longer than most looks. A dead network drive may block one,
    but not the end of the process.
    """

    def __init__(self) -> None:
        self._looks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def start(self, look: Callable[[], None]) -> None:
        # The thread first: if none can be started, no look stays behind that nobody counts.
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._run, name="freshness", daemon=True).start()
        self._looks.put(look)

    def _run(self) -> None:
        while True:
            self._looks.get()()
            self._idle.release()


class Freshness:
    """The latest check of each served corpus; at most one check per corpus runs at a time."""

    def __init__(self, corpora: OpenCorpora) -> None:
        self._corpora = corpora
        self._checks: dict[str, _Check] = {}
        self._files: dict[str, _Files] = {}
        self._lock = threading.Lock()
        self._lookers = _Lookers()

    def marked(self, corpus: Corpus, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Mark the hits of this corpus whose file has changed since its build as stale."""
        return staleness.mark_stale(hits, corpus.name, partial(self.changed, corpus))

    def changed(self, corpus: Corpus, names: Iterable[str | None]) -> set[str]:
        """Return those of a corpus's source files that have changed since its build.

        Each file is looked at once a second at most. If that takes long, on a slow disk, the state at the
        last look is returned.
        """
        unique = {name for name in names if name is not None}
        with self._lock:
            files = self._files.get(corpus.name)
            if files is None or files.build != corpus.build:
                files = self._files[corpus.name] = _Files(corpus.build)

        # A second round, if the first one waited for another request's look at other files.
        for _ in range(2):
            with self._lock:
                outdated = files.outdated(unique)
                look = self._start_look(corpus.manifest, files, outdated) if outdated else None
            if look is None or not look.wait():
                break
        with self._lock:
            return files.changed(unique)

    def _start_look(self, manifest: Manifest, files: _Files, names: list[str]) -> _Look:
        """Start to look at files, unless a look is under way. The caller holds the lock."""
        if files.look is None:
            look = _Look()
            self._lookers.start(partial(self._run_look, manifest, files, names, look))
            files.look = look
        return files.look

    def _run_look(self, manifest: Manifest, files: _Files, names: list[str], look: _Look) -> None:
        changed: set[str] = set()
        single = False

        try:
            changed = staleness.changed_since(manifest, names)
            single = staleness.is_single_file(manifest)
        finally:
            with self._lock:
                files.single = single
                files.record(names, changed)
                files.look = None
            look.finished.set()

    def of(self, name: str, build: str) -> Staleness | None:
        """Return the staleness of the build that serves.

        None if it cannot be told, or not yet.
        """
        with self._lock:
            check = self._checks.get(name)
            if check is None or check.build != build or check.is_old():
                # The previous result is returned while the new check runs.
                previous = check.result if check is not None and check.build == build else None
                check = _Check(build=build, result=previous)
                self._lookers.start(partial(self._run_check, name, check))
                self._checks[name] = check

        check.wait()
        return check.result

    def _run_check(self, name: str, check: _Check) -> None:
        try:
            with self._corpora.lease(name) as corpus:
                check.result = corpus_staleness(corpus) if corpus.build == check.build else None
        except PurlinError:
            # The corpus was deleted or replaced in the meantime, or the server is shutting down.
            check.result = None
        finally:
            check.finished.set()
