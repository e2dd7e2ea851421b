"""How far the sources of what is served have moved on; looked at in the background, so that no request waits long."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from app.open_builds import OpenCorpora
from index.errors import PurlinError
from index.indexing import staleness
from index.indexing.staleness import Staleness
from index.search.corpus import Corpus

AGAIN_S = 30.0  # a look is good for so long
WAIT_S = 0.5  # that requests wait for a look


def measured(corpus: Corpus) -> Staleness | None:
    """How far the sources of a corpus have moved on since it was built; None if it does not know them."""
    return staleness.find_staleness(corpus.manifest, *corpus.file_names(staleness.MAX_FILES))


@dataclass(slots=True)
class _Look:
    """A look at the sources of one build, in a thread of its own: a dead network drive may hold it up for ever."""

    build: str
    found: Staleness | None = None
    began: float = field(default_factory=time.monotonic)
    over: threading.Event = field(default_factory=threading.Event)


class Freshness:
    """Of each corpus that is served, one look at a time."""

    def __init__(self, corpora: OpenCorpora) -> None:
        self._corpora = corpora
        self._looks: dict[str, _Look] = {}
        self._lock = threading.Lock()

    def of(self, name: str, build: str) -> Staleness | None:
        """How stale the build is that serves; None where that is not known, or not yet."""
        with self._lock:
            look = self._looks.get(name)
            if look is None or look.build != build or self._is_old(look):
                found = look.found if look is not None and look.build == build else None
                look = self._looks[name] = _Look(build, found)
                threading.Thread(target=self._look, args=(name, look), daemon=True).start()
        look.over.wait(max(0.0, look.began + WAIT_S - time.monotonic()))
        return look.found

    def _is_old(self, look: _Look) -> bool:
        return look.over.is_set() and time.monotonic() - look.began > AGAIN_S

    def _look(self, name: str, look: _Look) -> None:
        try:
            with self._corpora.lease(name) as corpus:
                look.found = measured(corpus) if corpus.build == look.build else None
        except (PurlinError, RuntimeError):
            look.found = None  # it was deleted or replaced in the meantime, or the server is ending
        finally:
            look.over.set()
