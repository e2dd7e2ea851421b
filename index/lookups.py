"""How often caches have what they are asked for."""

from __future__ import annotations

import threading


class Lookups:
    """Counts of one cache, or of several of a kind together; safe to share between threads."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()

    def count(self, *, hits: int = 0, misses: int = 0) -> None:
        """Note what was found and what was not."""
        with self._lock:
            self.hits += hits
            self.misses += misses
