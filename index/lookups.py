"""Caches: of what was used recently, with hits and misses, and of what is made at its first use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class RecentlyUsed(Generic[_K, _V]):
    """The values that were used last; safe to share between threads.

    All together weigh `capacity` at most. Each weighs what `weight_of` returns, 1 by default.
    """

    def __init__(self, capacity: int, weight_of: Callable[[_V], int] = lambda _: 1) -> None:
        self._capacity, self._weight_of = capacity, weight_of
        self._values: OrderedDict[_K, _V] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: _K) -> _V | None:
        """Return the value of a key, or None."""
        with self._lock:
            if (value := self._values.get(key)) is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: _K, value: _V) -> None:
        """Keep a value, and drop those that were not used for the longest time."""
        with self._lock:
            # Another thread may have made the same one meanwhile.
            if key not in self._values:
                self._weight += self._weight_of(value)
            self._values[key] = value
            while self._weight > self._capacity:
                _, dropped = self._values.popitem(last=False)
                self._weight -= self._weight_of(dropped)


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


class Once(Generic[_V]):
    """A value that is made when it is used first; safe to share between threads.

    `value` is None until then. If making it fails, or makes None, the next use tries again.
    """

    def __init__(self, make: Callable[[], _V]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.value: _V | None = None

    def __call__(self) -> _V:
        """Return the value. Raises what making it raises."""
        with self._lock:
            if self.value is None:
                self.value = self._make()
            return self.value
