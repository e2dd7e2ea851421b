"""How much the sources of the served corpora have changed since their builds.

Sources are checked in the background, so that no request waits long for a slow disk.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from purlin.app.open_builds import OpenCorpora
from purlin.index.errors import PurlinError
from purlin.index.indexing import staleness
from purlin.index.indexing.staleness import Staleness
from purlin.index.search.corpus import Corpus

RECHECK_S = 30.0  # age at which a check is repeated
WAIT_S = 0.5  # longest time that a request waits for a check


def corpus_staleness(corpus: Corpus) -> Staleness | None:
    """Compare the sources of a corpus with its build.

    None if the build does not record its sources.
    """
    return staleness.find_staleness(corpus.manifest, *corpus.file_names(staleness.MAX_FILES))


@dataclass(slots=True)
class _Check:
    """A check of the sources of one build, in a thread that a dead network drive may block."""

    build: str
    result: Staleness | None = None
    started: float = field(default_factory=time.monotonic)
    finished: threading.Event = field(default_factory=threading.Event)

    def is_old(self) -> bool:
        return self.finished.is_set() and time.monotonic() - self.started > RECHECK_S


class Freshness:
    """The latest check of each served corpus; at most one check per corpus runs at a time."""

    def __init__(self, corpora: OpenCorpora) -> None:
        self._corpora = corpora
        self._checks: dict[str, _Check] = {}
        self._lock = threading.Lock()

    def of(self, name: str, build: str) -> Staleness | None:
        """Return the staleness of the build that serves.

        None if it is unknown, or not known yet.
        """
        with self._lock:
            check = self._checks.get(name)
            if check is None or check.build != build or check.is_old():
                # The previous result is returned while the new check runs.
                previous = check.result if check is not None and check.build == build else None
                check = self._checks[name] = _Check(build, previous)
                threading.Thread(target=self._run, args=(name, check), daemon=True).start()

        check.finished.wait(max(0.0, check.started + WAIT_S - time.monotonic()))
        return check.result

    def _run(self, name: str, check: _Check) -> None:
        try:
            with self._corpora.lease(name) as corpus:
                check.result = corpus_staleness(corpus) if corpus.build == check.build else None
        except (PurlinError, RuntimeError):
            # The corpus was deleted or replaced in the meantime, or the server is shutting down.
            check.result = None
        finally:
            check.finished.set()
