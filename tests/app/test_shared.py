"""Slots, pages and metrics that several workers share, with all workers in this process."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from purlin.app import merging
from purlin.app.corpora.building import BuildingElsewhere, News, tell_workers
from purlin.app.merging import MergedMetrics
from purlin.app.shared import Shared
from purlin.app.slots import Slots
from purlin.replies import Building

WORKERS, RUNNING, WAITING = 3, 2, 2


@contextmanager
def workers(count: int = WORKERS) -> Iterator[tuple[Shared, list[Shared]]]:
    """Yield what the supervisor has, and what each worker has."""
    supervisor = Shared.create(count)
    try:
        yield supervisor, [Shared.join(number, supervisor.files) for number in range(count)]
    finally:
        supervisor.close()


class Model:
    """A queue of requests over all workers, first come, first served, as `Slots` must behave."""

    def __init__(self) -> None:
        self.running: list[int] = []
        self.queue: list[int] = []

    def enter(self, worker: int) -> str:
        if len(self.running) < RUNNING:
            self.running.append(worker)
            return "run"
        if len(self.queue) < WAITING:
            self.queue.append(worker)
            return "wait"
        return "refuse"

    def grant(self) -> None:
        while self.queue and len(self.running) < RUNNING:
            self.running.append(self.queue.pop(0))


@given(st.lists(st.tuples(st.sampled_from(["enter", "leave", "die"]), st.integers(0, WORKERS - 1))))
def test_slots_hold_over_all_workers(events: list[tuple[str, int]]) -> None:
    with workers() as (supervisor, joined):
        slots = [Slots(shared, running=RUNNING, waiting=WAITING) for shared in joined]
        reclaiming = Slots(supervisor, running=RUNNING, waiting=WAITING)
        queues: list[list[float]] = [[] for _ in joined]
        model = Model()

        def report(worker: int) -> None:
            slots[worker].report_queue(len(queues[worker]), (queues[worker] or [0.0])[0])

        for clock, (event, worker) in enumerate(events, 1):
            if event == "enter":
                entered = slots[worker].enter()
                assert entered == model.enter(worker)
                if entered == "wait":
                    queues[worker].append(clock)
                    report(worker)
            elif event == "leave" and worker in model.running:
                model.running.remove(worker)
                model.grant()
                if slots[worker].release():
                    queues[worker].pop(0)
                    report(worker)
            elif event == "die":
                model.running = [other for other in model.running if other != worker]
                model.queue = [other for other in model.queue if other != worker]
                model.grant()
                reclaiming.reclaim(worker)
                queues[worker].clear()

            for number, shared in enumerate(joined):
                for _ in range(slots[number].collect()):
                    queues[number].pop(0)
                report(number)
                assert shared.running[number] == model.running.count(number)
                assert shared.waiting[number] == model.queue.count(number) == len(queues[number])


def test_a_slot_for_a_request_that_has_left_goes_on() -> None:
    with workers(2) as (_, joined):
        first, second = (Slots(shared, running=1, waiting=2) for shared in joined)
        assert first.enter() == "run"
        assert second.enter() == "wait"
        second.report_queue(1, 1.0)
        assert not first.release()

        # The request leaves before the second worker hears of its slot.
        second.report_queue(0, 0.0)
        assert second.collect() == 1
        assert not second.release()
        assert first.enter() == "run"


def test_pages_are_replaced_whole() -> None:
    with workers(2) as (supervisor, (first, second)):
        assert second.read_page(0) == b""
        first.write_page(0, b"long" * 10_000)
        first.write_page(0, b"short")
        assert second.read_page(0) == supervisor.read_page(0) == b"short"
        assert second.read_page(1) == b""


def test_all_workers_know_what_one_builds() -> None:
    news = News({"code": ("code", Building("read", 3, encoder="static"))}, {"docs": "no sources"})
    with workers(2) as (_, (first, second)):
        elsewhere = BuildingElsewhere(second)
        assert elsewhere.news() == News()

        tell_workers(first, news)
        assert elsewhere.news() == news

        tell_workers(first, News())
        assert elsewhere.news() == News()


# ---- metrics


def registry(requests: int, running: int, seconds: float) -> CollectorRegistry:
    """Return the metrics of one worker."""
    result = CollectorRegistry()
    counter = Counter("requests", "Requests.", ["route"], registry=result)
    counter.labels("/search").inc(requests)
    Gauge("purlin_running", "Running.", registry=result).set(running)
    Gauge("documents", "Documents.", registry=result).set(7)
    histogram = Histogram("took", "Took.", buckets=(1.0, 2.0), registry=result)
    histogram.observe(seconds)
    return result


def values(merged: MergedMetrics) -> dict[str, float]:
    """Return the samples by name, with the bound of a bucket."""
    return {
        sample.name + sample.labels.get("le", ""): sample.value
        for family in merged.collect()
        for sample in family.samples
    }


def answering(shared: Shared) -> None:
    """Answer the bell when it rings, as a worker's event loop does."""
    select.select([shared.bell], [], [], 60.0)
    shared.answer_bell()


def test_metrics_are_sums_and_survive_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "WAIT_S", 60.0)
    with workers(2) as (supervisor, (first, second)):
        first.started[0] = second.started[1] = 1
        merged = MergedMetrics(registry(3, 1, 0.5), first)
        MergedMetrics(registry(4, 2, 1.5), second)
        other = threading.Thread(target=answering, args=(second,))
        other.start()
        together = values(merged)
        other.join()

        assert together["requests_total"] == 7
        assert together["purlin_running"] == 3
        assert together["documents"] == 7
        assert [together[f"took_bucket{bound}"] for bound in ("1.0", "2.0", "+Inf")] == [1, 2, 2]
        assert together["took_sum"] == 2.0
        assert together["purlin_workers"] == 2

        # The second worker dies: what it counted stays, what it was does not.
        Slots(supervisor, running=1, waiting=1).reclaim(1)
        alone = values(merged)
        assert alone["requests_total"] == 7
        assert alone["purlin_running"] == 1
        assert alone["purlin_workers"] == 1

        # Its successor counts on. The first one no longer answers the bell.
        monkeypatch.setattr(merging, "WAIT_S", 0.0)
        replaced = Shared.join(1, supervisor.files)
        replaced.started[1] = 1
        assert values(MergedMetrics(registry(10, 0, 0.5), replaced))["requests_total"] >= 14
