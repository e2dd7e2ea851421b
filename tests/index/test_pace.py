"""Estimates of remaining time against clocks that the tests turn."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.pace import Lines, Pace, duration

SECONDS = {"s": 1, "min": 60, "h": 3600}
rates = st.floats(0.01, 10_000)
steps = st.lists(st.integers(1, 50), min_size=2, max_size=60)


class Clock:
    """Shows the time that it was set to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def _paced(counts: list[int], rate: float, total: int, start: float = 0.0) -> Pace:
    """After `counts` more units each, done at `rate` a second."""
    clock = Clock(start)
    pace = Pace(clock)
    done = 0
    pace.update(done, total)
    for count in counts:
        done += count
        clock.now = start + done / rate
        pace.update(done, total)
    return pace


@given(steps, rates, st.integers(0, 10_000), st.floats(0, 1e6))
def test_estimate_at_a_steady_rate_is_exact(
    counts: list[int], rate: float, rest: int, start: float
) -> None:
    done = sum(counts)
    pace = _paced(counts, rate, done + rest, start)
    if done / rate < 0.999:
        assert (pace.rate, pace.remaining_s, str(pace)) == (None, None, "")
    elif done / rate > 1.001:
        assert pace.rate == pytest.approx(rate, rel=1e-3)
        assert pace.remaining_s == pytest.approx(rest / rate, rel=1e-3)


@given(rates, rates)
def test_old_rate_is_forgotten_after_a_minute(before: float, after: float) -> None:
    clock = Clock()
    pace = Pace(clock)
    done = 0.0
    for second in range(200):
        clock.now = float(second)
        pace.update(int(done * 1000), 10**9)
        done += before if second < 100 else after
    assert pace.rate == pytest.approx(after * 1000, rel=0.01, abs=1)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 500)), min_size=1))
def test_estimates_are_never_negative(observations: list[tuple[float, int]]) -> None:
    clock = Clock()
    pace = Pace(clock)
    for seconds, done in observations:
        clock.now += seconds
        pace.update(done, 500)
        assert pace.rate is None or pace.rate > 0
        assert pace.remaining_s is None or pace.remaining_s >= 0
    clock.now += 2
    pace.update(500, 500)
    assert pace.remaining_s in (None, 0)
    assert "left" not in str(pace)


def test_a_second_pass_is_timed_from_its_beginning() -> None:
    clock = Clock()
    pace = Pace(clock)
    for clock.now, done in ((0, 0), (10, 100), (20, 0), (22, 4)):
        pace.update(done, 100)
    assert pace.rate == 2
    assert pace.remaining_s == 48


def test_without_a_total_only_the_rate_is_shown() -> None:
    clock = Clock()
    pace = Pace(clock)
    for clock.now, done in ((0, 0), (2, 3000)):
        pace.update(done, None)
    assert (pace.remaining_s, str(pace)) == (None, "1,500/s")


@pytest.mark.parametrize(
    ("rate", "rest", "words"),
    [
        (95, 18_000, "95/s, about 3 min left"),
        (0.25, 10, "0.25/s, about 40 s left"),
        (9.6, 10, "10/s, less than 10 s left"),
        (2, 100_000, "2/s, about 13.9 h left"),
    ],
)
def test_rate_and_remaining_time_are_told_in_words(rate: float, rest: int, words: str) -> None:
    assert str(_paced([100], rate, 100 + rest)) == words


def test_the_end_of_a_build_includes_the_stages_after_encoding() -> None:
    remaining = []
    for stage in ("", "encode"):
        clock = Clock()
        pace = Pace(clock, stage)
        for clock.now, done in ((0, 0), (10, 500_000)):
            pace.update(done, 1_000_000)
        remaining.append(pace.remaining_s)
    assert remaining == [10, 310]


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_durations_in_words_are_monotonic(first: float, second: float) -> None:
    shorter, longer = sorted([first, second])
    assert _seconds(duration(shorter)) <= _seconds(duration(longer))
    if longer >= 10:
        assert _seconds(duration(longer)) == pytest.approx(longer, rel=0.35)


def _seconds(words: str) -> float:
    number, unit = words.split()[-2:]
    return float(number.replace(",", "")) * SECONDS[unit]


def _lines(stage: str, observations: list[tuple[float, int]], total: int | None) -> list[str]:
    clock = Clock()
    lines_written: list[str] = []
    lines = Lines(lines_written.append, clock)
    for clock.now, done in observations:
        lines(stage, done, total)
    return lines_written


def test_build_shows_an_estimate_early() -> None:
    observations = [(n / 4, n * 24) for n in range(1, 778)]  # 96 passages a second
    lines_written = _lines("encode", observations, 18_648)
    assert lines_written[0] == "encode 504 of 18,648 passages: 96/s, about 3 min left"
    assert lines_written[-1] == "encode 18,648 of 18,648 passages"
    assert len(lines_written) <= 12


def test_short_and_uncounted_stages_have_few_lines() -> None:
    assert _lines("encode", [(0, 2), (1, 3), (4, 5)], 5) == ["encode 5 of 5 passages"]
    assert _lines("read", [(second, second * 10) for second in range(90)], None) == [
        "read 50 documents", "read 350 documents", "read 650 documents",
    ]  # fmt: skip


def test_stages_are_timed_apart() -> None:
    clock = Clock()
    lines_written: list[str] = []
    lines = Lines(lines_written.append, clock)
    for stage, clock.now, done in (("measure", 0, 0), ("measure", 6, 60), ("measure", 8, 100), ("measure", 9, 1),
                                   ("search", 20, 1), ("search", 26, 7)):  # fmt: skip
        lines(stage, done, 100)
    assert lines_written == [
        "measure 60 of 100: 10/s, less than 10 s left", "measure 100 of 100", "search 7 of 100: 1/s, about 90 s left",
    ]  # fmt: skip


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 50)), max_size=100))
def test_lines_are_rare_and_include_the_last(observations: list[tuple[float, int]]) -> None:
    clock = Clock()
    lines_written: list[tuple[float, str]] = []
    lines = Lines(lambda line: lines_written.append((clock.now, line)), clock)
    done, total = 0, sum(count for _, count in observations) + 1
    for seconds, count in observations:
        clock.now, done = clock.now + seconds, done + count
        lines("encode", done, total)
    times = [now for now, _ in lines_written]
    assert all(later - earlier >= 5 for earlier, later in itertools.pairwise(times))
    lines("encode", total, total)
    assert lines_written[-1][1] == f"encode {total:,} of {total:,} passages"
    assert all(
        re.fullmatch(r"encode [\d,]+ of [\d,]+ passages(: \S+/s, .* left)?", line)
        for _, line in lines_written
    )


def test_lines_show_the_callers_estimate() -> None:
    clock, shown = Clock(), []
    lines = Lines(shown.append, clock)
    for now, done, remaining in (
        (0.0, 1, "about 90 s left"),
        (6.0, 3, "about 80 s left"),
        (80.0, 900, ""),
    ):
        clock.now = now
        lines("align", done, 900, remaining)
    assert shown == ["align 3 of 900: about 80 s left", "align 900 of 900"]
