"""Speed and remaining time of long work, from counts and a clock alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_Clock = Callable[[], float]

# Called with the stage, the finished units, and the total, which is None while it is unknown.
Progress = Callable[[str, int, int | None], None]
# The same within one stage: the finished units and the total.
StageProgress = Callable[[int, int], None]

# A rate is that of the last minute, because a shared machine is not always equally fast.
_RECENT_S = 60.0
# Shortest time between two marks.
_MARK_S = 0.5
# No rate is given earlier: a few batches say nothing.
_MIN_RATE_S = 1.0

_UNITS = {"read": " documents", "interim": " passages", "encode": " passages", "index": " passages"}
# Seconds for each unit of a stage that the stages after it take, on two cores; see
# docs/performance.md.
_LATER_S = {"encode": 3e-4, "interim": 3e-4}
_FIRST_LINE_S, _LINE_S = 5.0, 30.0
# A line is also due after each tenth of a stage, but not sooner than the first line.
_LINES_PER_STAGE = 10


class Pace:
    """Rate and remaining time of counted work; the first `update` starts the clock.

    With a `stage` of a build, the remaining time includes that of the stages after it. The estimate
    is right as far as units take about equally long, in whatever order they come. If the count goes
    back, as in a second pass, the clock starts again.
    """

    def __init__(self, clock: _Clock = time.monotonic, stage: str = "") -> None:
        self._clock = clock
        self._later_s = _LATER_S.get(stage, 0.0)
        # (seconds, finished units), oldest first.
        self._marks: deque[tuple[float, int]] = deque()
        self._last = (0.0, 0)
        self._total: int | None = None

    def update(self, finished_count: int, total: int | None) -> None:
        """Record how many of `total` units are finished; the total is None if unknown."""
        now = self._clock()
        if finished_count < self._last[1]:
            self._marks.clear()
        self._last, self._total = (now, finished_count), total

        if not self._marks or now - self._marks[-1][0] >= _MARK_S:
            self._marks.append(self._last)
        while len(self._marks) > 1 and now - self._marks[1][0] >= _RECENT_S:
            self._marks.popleft()

    @property
    def rate(self) -> float | None:
        """Units per second over the last minute; None in the first second and without progress."""
        if not self._marks:
            return None

        start_s, start_count = self._marks[0]
        last_s, last_count = self._last
        if last_s - start_s < _MIN_RATE_S or last_count <= start_count:
            return None
        return (last_count - start_count) / (last_s - start_s)

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the end of all stages at the current rate; None without rate or total."""
        if self._total is None or self.rate is None:
            return None
        return max(0, self._total - self._last[1]) / self.rate + self._total * self._later_s

    def __str__(self) -> str:
        """Rate and remaining time, such as "95/s, about 3 min left"; empty without a rate."""
        if self.rate is None:
            return ""
        rate = f"{self.rate:,.0f}/s" if self.rate >= 9.5 else f"{self.rate:.2g}/s"
        return f"{rate}, {duration(self.remaining_s)} left" if self.remaining_s else rate


def duration(seconds: float) -> str:
    """Approximate duration in a convenient unit, such as "about 40 s"."""
    if seconds < 10:
        return "less than 10 s"
    if seconds < 95:
        return f"about {round(seconds, -1):.0f} s"
    if seconds < 95 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:,.1f} h"


def amount(stage: str, finished_count: int, total: int | None) -> str:
    """Return how much of a stage is finished, such as "read 512 of 2,048 documents"."""
    unit = _UNITS.get(stage, "")
    return f"{stage} {finished_count:,}{'' if total is None else f' of {total:,}'}{unit}"


class Lines:
    """Progress as plain lines, for output that is not a terminal.

    A stage of more than 5 s gets its first line then, further ones after each tenth of the work or
    30 s, and a last one at its end.
    """

    def __init__(self, write: Callable[[str], object], clock: _Clock = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._stage, self._finished_count = "", 0
        self._pace = Pace(clock)
        self._line_at, self._line_count = 0.0, 0
        self._interval_s = _FIRST_LINE_S

    def __call__(
        self, stage: str, finished_count: int, total: int | None, remaining: str = ""
    ) -> None:
        """Record the progress of a stage, and write a line if one is due.

        `remaining` is the caller's own estimate of the remaining time. It replaces the pace.
        """
        if stage != self._stage or finished_count < self._finished_count:
            self._start(stage, finished_count)
        self._finished_count = finished_count
        self._pace.update(finished_count, total)

        if finished_count == total or self._due(finished_count, total):
            self._write(self._line(finished_count, total, remaining))
            self._line_at, self._line_count = self._clock(), finished_count
            self._interval_s = _LINE_S

    def _start(self, stage: str, finished_count: int) -> None:
        self._stage, self._pace = stage, Pace(self._clock, stage)
        self._line_at, self._line_count = self._clock(), finished_count
        self._interval_s = _FIRST_LINE_S

    def _due(self, finished_count: int, total: int | None) -> bool:
        waited_s = self._clock() - self._line_at
        if waited_s >= self._interval_s:
            return True
        advanced = (
            total is not None and (finished_count - self._line_count) * _LINES_PER_STAGE >= total
        )
        return advanced and waited_s >= _FIRST_LINE_S

    def _line(self, finished_count: int, total: int | None, remaining: str) -> str:
        line = amount(self._stage, finished_count, total)
        pace = (
            (remaining or str(self._pace)) if total is not None and finished_count < total else ""
        )
        return f"{line}: {pace}" if pace else line
