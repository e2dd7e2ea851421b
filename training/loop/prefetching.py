"""Batches that are prepared while the steps before them are computed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic

import torch
from torch.utils.data import DataLoader, Dataset

from purlin.index.cpus import available_cpus
from purlin.index.errors import InvalidInput, PurlinError
from purlin.training.loop.task import B, Task

MAX_WORKERS = 4  # by default
AHEAD = 2  # batches that a worker prepares before they are needed


def default_workers(device: torch.device, processes: int) -> int:
    """Return how many processes prepare batches for one that trains on `device`."""
    if device.type == "cpu":
        return 0
    return max(0, min(MAX_WORKERS, available_cpus() // processes - 1))


class Prefetcher(Generic[B]):
    """Returns batches `number` to `end` - 1 in order, prepared ahead where the task is ready for it.

    With `workers` they are prepared by as many processes, otherwise by a thread. A worker has the
    task as it was when its process began: after each batch that the task has to be prepared for,
    new ones begin. Order and content are the same in all cases.
    """

    def __init__(self, task: Task[B], number: int, end: int, workers: int = 0) -> None:
        self.task = task
        self.number = number
        self.end = end
        self.workers = workers
        self.batches: Iterator[B | PurlinError] | None = None

        self.thread = ThreadPoolExecutor(1)
        self.coming: Future[B] | None = None
        if workers and "fork" not in multiprocessing.get_all_start_methods():
            raise InvalidInput(
                "workers need a system that can fork processes: set workers = 0.", field="workers"
            )

    def next(self) -> B:
        """Return the next batch. Raises what the task raises when it draws one."""
        # Mining needs the current weights, so it cannot run ahead.
        if not self.task.ready(self.number):
            self.batches = None
        self.task.prepare(self.number)
        return self._from_workers() if self.workers else self._from_thread()

    def _from_workers(self) -> B:
        self.batches = self.batches or iter(self._loader())
        self.number += 1
        prepared = next(self.batches)
        if isinstance(prepared, PurlinError):
            raise prepared
        return prepared

    def _from_thread(self) -> B:
        """Return the batch that the thread has prepared, and have it prepare the next one."""
        batch = self.coming.result() if self.coming else self.task.batch(self.number)
        self.number += 1
        ready = self.task.ready(self.number)
        self.coming = self.thread.submit(self.task.batch, self.number) if ready else None
        return batch

    def _loader(self) -> DataLoader[B | PurlinError]:
        """Return the batches from the current one to the last that the task is ready for."""
        numbers = list(itertools.takewhile(self.task.ready, range(self.number, self.end)))
        return DataLoader(
            _Batches(self.task, numbers),
            batch_size=None,
            collate_fn=_unchanged,
            num_workers=self.workers,
            prefetch_factor=AHEAD,
            # Inherits the task's texts and tokenizers, which would take long to copy.
            multiprocessing_context="fork",
            worker_init_fn=_begin_worker,
            # The seed of the workers must not come from the run's random numbers.
            generator=torch.Generator(),
        )

    def close(self) -> None:
        """End the thread and the workers."""
        # Otherwise workers would wait for a reader of their batches.
        self.batches = None
        self.thread.shutdown(cancel_futures=True)


class _Batches(Dataset[Any]):
    """A task's batches of some numbers, as torch's loader takes them.

    An expected error is returned: one that is raised would reach the run with another message.
    """

    def __init__(self, task: Task[Any], numbers: Sequence[int]) -> None:
        self.task = task
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.task.batch(self.numbers[index])
        except PurlinError as error:
            return error


def _unchanged(batch: Any) -> Any:
    """Keep a batch as the task made it: torch would make tensors of its arrays."""
    return batch


def _begin_worker(worker: int) -> None:
    """Keep a new worker from using the threads that its parent had."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
