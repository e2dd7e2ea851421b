"""Hit and miss counts of caches."""

from __future__ import annotations

import threading


class Lookups:
    """Hits and misses of one cache, or of several of a kind together; safe to share by threads."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()

    def count(self, *, hits: int = 0, misses: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            self.hits += hits
            self.misses += misses
