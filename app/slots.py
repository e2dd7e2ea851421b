"""Slots for requests, counted over all workers of a server: how many run, and how many wait."""

from __future__ import annotations

import time
from typing import Literal

from purlin.app.shared import Shared

RUSH_S = 0.1  # a rush begins when requests have been refused for this long
CALM_S = 0.5  # and ends when none has been refused for this long


class Slots:
    """At most `running` requests of the whole server run while at most `waiting` more wait.

    During a rush, when refusals go on, half as many run, rounded up, and none waits.
    """

    def __init__(self, shared: Shared, *, running: int, waiting: int) -> None:
        self._shared = shared
        self._max_running = running
        self._max_waiting = waiting

    def is_full(self) -> bool:
        """Return whether a request would be refused now."""
        max_running, max_waiting = self._limits()
        shared = self._shared
        return sum(shared.running) >= max_running and sum(shared.waiting) >= max_waiting

    def enter(self) -> Literal["run", "wait", "refuse"]:
        """Take a slot if there is one, else a place in the queue, else nothing."""
        shared, own = self._shared, self._shared.number
        with shared.locked():
            max_running, max_waiting = self._limits()
            if sum(shared.running) < max_running:
                shared.running[own] += 1
                return "run"

            if sum(shared.waiting) >= max_waiting:
                return "refuse"

            shared.waiting[own] += 1
            return "wait"

    def report_queue(self, waiting: int, oldest: float) -> None:
        """Record how many requests of this worker wait, and since when the first of them does."""
        shared, own = self._shared, self._shared.number
        with shared.locked():
            shared.waiting[own] = max(0, waiting - shared.granted[own])
            shared.oldest[own] = oldest

    def release(self) -> bool:
        """Free a slot, and grant one to the request that has waited longest.

        Returns whether that request is this worker's; if not, its worker is rung.
        """
        shared, own = self._shared, self._shared.number
        with shared.locked():
            shared.running[own] -= 1
            worker = self._grant()
            if worker is None or worker == own:
                return worker == own
            shared.granted[worker] += 1

        shared.ring(worker)
        return False

    def collect(self) -> int:
        """Return how many slots other workers have granted to this one since the last call."""
        shared, own = self._shared, self._shared.number
        with shared.locked():
            granted = int(shared.granted[own])
            shared.granted[own] = 0
            return granted

    def reclaim(self, ended: int) -> None:
        """Grant the slots of a worker that has ended to requests that wait elsewhere."""
        shared = self._shared
        workers = set()

        with shared.locked():
            shared.forget(ended)
            while (worker := self._grant()) is not None:
                shared.granted[worker] += 1
                workers.add(worker)

        for worker in workers:
            shared.ring(worker)

    def note_refusal(self) -> None:
        """Note a refusal, which may begin a rush or keep it going."""
        now = time.monotonic()
        with self._shared.locked():
            if now - self._shared.rush[1] > CALM_S:
                self._shared.rush[0] = now
            self._shared.rush[1] = now

    def _limits(self) -> tuple[int, int]:
        """Return how many requests may run now, and how many may wait."""
        rush_started, last_refusal = self._shared.rush
        refusing_s = last_refusal - rush_started
        calm_s = time.monotonic() - last_refusal

        if refusing_s > RUSH_S and calm_s < CALM_S:
            return (self._max_running + 1) // 2, 0
        return self._max_running, self._max_waiting

    def _grant(self) -> int | None:
        """Move the request that has waited longest to a slot, and return its worker.

        None if no slot is free or none waits. The caller holds the lock.
        """
        shared = self._shared
        waiting = [worker for worker in range(shared.workers) if shared.waiting[worker] > 0]
        if not waiting or sum(shared.running) >= self._limits()[0]:
            return None

        worker = min(waiting, key=lambda worker: shared.oldest[worker])
        shared.running[worker] += 1
        shared.waiting[worker] -= 1
        return worker
