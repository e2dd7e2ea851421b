"""How fast long work goes and how long the rest of it takes, by count and clock alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

Clock = Callable[[], float]

_RECENT_S = 60.0  # a rate is that of the last minute: a shared machine is not always as fast
_MARK_S = 0.5  # at most this often a mark is kept
_SURE_S = 1.0  # no rate before: a few batches tell nothing

_UNITS = {"read": " documents", "encode": " passages"}
_FIRST_LINE_S, _LINE_S = 5.0, 30.0
_LINES = 10  # of one stage, at least as far apart as the first is from its beginning


class Pace:
    """Rate and remaining time of work that is counted; the first `update` starts the clock.

    Right as far as each unit takes about as long as the others, in whatever order they come. Work whose count goes
    back, such as a second pass, is timed from there.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()  # (seconds, done), the oldest first
        self._last = (0.0, 0)
        self._total: int | None = None

    def update(self, done: int, total: int | None) -> None:
        """Note that `done` units of `total` are finished now; None where the total is not known."""
        now = self._clock()
        if done < self._last[1]:
            self._marks.clear()
        self._last, self._total = (now, done), total
        if not self._marks or now - self._marks[-1][0] >= _MARK_S:
            self._marks.append(self._last)
        while len(self._marks) > 1 and now - self._marks[1][0] >= _RECENT_S:
            self._marks.popleft()

    @property
    def rate(self) -> float | None:
        """Units per second over the last minute; None within the first second and while nothing moves."""
        if not self._marks:
            return None
        (now, done), (then, done_then) = self._last, self._marks[0]
        return (
            (done - done_then) / (now - then)
            if now - then >= _SURE_S and done > done_then
            else None
        )

    @property
    def remaining_s(self) -> float | None:
        """Seconds that the rest takes at this rate; None without a rate or a total."""
        if self._total is None or self.rate is None:
            return None
        return max(0, self._total - self._last[1]) / self.rate

    def __str__(self) -> str:
        """Rate and remaining time in words, such as "95/s, about 3 min left"; empty where neither is known."""
        if self.rate is None:
            return ""
        rate = f"{self.rate:,.0f}/s" if self.rate >= 9.5 else f"{self.rate:.2g}/s"
        return rate if not self.remaining_s else f"{rate}, {duration(self.remaining_s)} left"


def duration(seconds: float) -> str:
    """About how long `seconds` are, in the unit that people would name."""
    if seconds < 10:
        return "less than 10 s"
    if seconds < 95:
        return f"about {round(seconds, -1):.0f} s"
    if seconds < 95 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:,.1f} h"


class Lines:
    """Progress in plain lines, for output that is no terminal. Call it with (stage, done, total, left).

    A stage of more than 5 s has a first line then, more after each tenth of the work or 30 s, and a last one when it
    is done.
    """

    def __init__(self, say: Callable[[str], object], clock: Clock = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._stage, self._done = "", 0
        self._pace = Pace(clock)
        self._said_at, self._said_done = 0.0, 0
        self._interval_s = _FIRST_LINE_S

    def __call__(self, stage: str, done: int, total: int | None, left: str = "") -> None:
        """Note how far `stage` is, and say so where a line is due.

        `left` is the caller's own estimate of the time left, shown instead of the pace.
        """
        if stage != self._stage or done < self._done:
            self._begin(stage, done)
        self._done = done
        self._pace.update(done, total)
        if done == total or self._due(done, total):
            self._say(self._line(done, total, left))
            self._said_at, self._said_done, self._interval_s = self._clock(), done, _LINE_S

    def _begin(self, stage: str, done: int) -> None:
        self._stage, self._pace = stage, Pace(self._clock)
        self._said_at, self._said_done, self._interval_s = self._clock(), done, _FIRST_LINE_S

    def _due(self, done: int, total: int | None) -> bool:
        waited_s = self._clock() - self._said_at
        further = total is not None and (done - self._said_done) * _LINES >= total
        return waited_s >= self._interval_s or (further and waited_s >= _FIRST_LINE_S)

    def _line(self, done: int, total: int | None, left: str) -> str:
        unit = _UNITS.get(self._stage, "")
        if total is None:
            return f"{self._stage} {done:,}{unit}"
        pace = (left or str(self._pace)) if done < total else ""
        return f"{self._stage} {done:,} of {total:,}{unit}" + (f": {pace}" if pace else "")
