"""Time only while the machine computes at its usual speed.

A virtual machine whose host is busy computes at half or a third of its speed for minutes at a time.
Services that are measured in turns would then not be measured alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

SLOWER = 1.6  # the machine is disturbed if the loop takes this many times its best time
PATIENCE_S = 180.0
PAUSE_S = 5.0
TRIES = 4
# Speed also doubles for parts of a second, so the loop runs for about one.
_LOOPS, _ADDITIONS = 41, 500_000
_Result = TypeVar("_Result")


class Steady:
    """Compares the machine's speed with the best that it had since this was made."""

    def __init__(self) -> None:
        self._best_s = min(_loop_s() for _ in range(3))

    def measured(self, work: Callable[[], _Result]) -> tuple[_Result, bool]:
        """Do the work when the machine is steady, again if it was disturbed meanwhile.

        Returns the last result, and whether the machine was steady after it: false if it was so
        after none of TRIES. All waiting together takes PATIENCE_S at most.
        """
        deadline = time.monotonic() + PATIENCE_S
        for _ in range(TRIES):
            while not self.is_steady() and time.monotonic() < deadline:
                time.sleep(PAUSE_S)

            result = work()
            if self.is_steady():
                return result, True

        return result, False

    def is_steady(self) -> bool:
        """Whether the loop takes about as long as at its best."""
        seconds = _loop_s()
        self._best_s = min(self._best_s, seconds)
        return seconds < SLOWER * self._best_s


def _loop_s() -> float:
    """Median seconds of a fixed loop."""
    return statistics.median(_additions_s() for _ in range(_LOOPS))


def _additions_s() -> float:
    started = time.perf_counter()
    total = 0
    for number in range(_ADDITIONS):
        total += number
    return time.perf_counter() - started
