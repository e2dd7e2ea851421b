"""One set of metrics for a server of several processes.

When a worker is asked for metrics, all workers write theirs to their pages, and it adds them up. A
worker continues the counters that its predecessor has last written, so that none ever falls.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from purlin.app.shared import Shared

WAIT_S = 1.0  # for workers to write their pages; a slower one counts with its last page
_POLL_S = 0.002

_COUNTED = frozenset(["counter", "histogram"])
# Gauges of a process, which add up. All others are about the server: the greatest value counts.
_SUMMED = frozenset(
    [
        "purlin_running",
        "purlin_waiting",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
    ]
)

# Name and labels of a sample.
_Sample = tuple[str, tuple[tuple[str, str], ...]]


class MergedMetrics:
    """A collector of the metrics of all workers; those of this one are in `registry`."""

    def __init__(self, registry: CollectorRegistry, shared: Shared) -> None:
        self._registry = registry
        self._shared = shared
        self._earlier = _counters(_read(shared.read_page(shared.number)))
        self._writing = threading.Lock()
        shared.listeners.append(self._write_if_requested)

    def collect(self) -> Iterable[Metric]:
        """Have all workers write their pages, and merge them."""
        shared = self._shared
        requested_at = time.monotonic()
        shared.requested[0] = requested_at
        shared.ring_others()
        self._write()

        deadline = requested_at + WAIT_S
        while time.monotonic() < deadline and not self._all_written(requested_at):
            time.sleep(_POLL_S)
        return [*_merge(self._pages()), *self._of_workers()]

    def _all_written(self, since: float) -> bool:
        shared = self._shared
        return all(
            shared.written[worker] >= since or not shared.started[worker]
            for worker in range(shared.workers)
        )

    def _write_if_requested(self) -> None:
        if self._shared.written[self._shared.number] < self._shared.requested[0]:
            # Apart from the event loop: collecting reads the disk.
            threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        """Write this worker's metrics, its counters with those of its predecessors."""
        with self._writing:
            started = time.monotonic()
            families = _merge([*self._registry.collect(), *self._earlier])
            self._shared.write_page(self._shared.number, _page(families))
            self._shared.written[self._shared.number] = started

    def _pages(self) -> Iterator[Metric]:
        for worker in range(self._shared.workers):
            families = _read(self._shared.read_page(worker))
            # Only the counters of a worker that has died still say something.
            yield from families if self._shared.started[worker] else _counters(families)

    def _of_workers(self) -> Iterable[Metric]:
        alive = GaugeMetricFamily("purlin_workers", "Workers that take connections.")
        alive.add_metric([], self._shared.alive)
        restarts = CounterMetricFamily(
            "purlin_worker_restarts", "Workers that ended and were started again."
        )
        restarts.add_metric([], self._shared.restarts[0])
        return [alive, restarts]


def _merge(families: Iterable[Metric]) -> list[Metric]:
    """Merge families of the same name, and their samples with the same labels."""
    merged: dict[str, Metric] = {}
    values: dict[str, dict[_Sample, float]] = {}
    for family in families:
        merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        samples = values.setdefault(family.name, {})
        for sample in family.samples:
            key = sample.name, tuple(sample.labels.items())
            value = sample.value
            if key in samples:
                value = _combined(family.type, sample.name, samples[key], value)
            samples[key] = value

    for name, family in merged.items():
        for (sample_name, labels), value in values[name].items():
            family.add_sample(sample_name, dict(labels), value)
    return list(merged.values())


def _combined(kind: str, name: str, first: float, second: float) -> float:
    """Combine the values that two processes have for the same sample."""
    if name.endswith("_created") or name == "process_start_time_seconds":
        return min(first, second)
    if kind in _COUNTED or name in _SUMMED:
        return first + second
    return max(first, second)


def _counters(families: Iterable[Metric]) -> list[Metric]:
    return [family for family in families if family.type in _COUNTED]


def _page(families: Iterable[Metric]) -> bytes:
    """Write families as JSON; `_read` reads them."""
    return json.dumps(
        [
            (
                family.name,
                family.documentation,
                family.type,
                [(sample.name, sample.labels, sample.value) for sample in family.samples],
            )
            for family in families
        ]
    ).encode()


def _read(page: bytes) -> list[Metric]:
    families = []
    for name, documentation, kind, samples in json.loads(page or b"[]"):
        family = Metric(name, documentation, kind)
        for sample in samples:
            family.add_sample(*sample)
        families.append(family)
    return families
