"""Help for tests of training runs: recipes, metrics, a full disk, and processes of their own."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from purlin.index.errors import NotFound
from purlin.training.config import load_recipe
from purlin.training.loop.metrics import METRICS
from tests.support.traffic import HOST, free_port

# What a process of its own has loaded when it begins: with torch, that takes seconds.
LOADED = ["purlin.training.pesco.self_training", "purlin.training.santa.run"]
# A process that has not ended after this long hangs; less than the `timeout` of a test.
APART_S = 280

_T = TypeVar("_T")


def load_without_data(recipe: Path, kind: type[_T], data: Path) -> _T:
    """Load a recipe for data outside the repository; an empty directory stands for each path."""
    while True:
        try:
            return load_recipe(recipe, kind, data=data)
        except NotFound as error:
            path = error.message.partition(": ")[2].partition(" does not exist")[0]
            Path(path).mkdir(parents=True)


def metrics_rows(directory: Path) -> list[dict[str, float]]:
    """metrics.jsonl without what a clock says."""
    lines = (directory / METRICS).read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        del row["seconds"], row["pairs_per_s"]
    return rows


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Whatever grows beyond `size` bytes fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def run_apart(function: Callable[..., _T], *arguments: object) -> _T:
    """Call a module's function in a process of its own, forked from one that has imported torch."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    # The end of the block waits for the process, so that an alarm must end one that hangs.
    with ProcessPoolExecutor(1, context, signal.alarm, (APART_S,)) as process:
        return process.submit(function, *arguments).result()


def run_two_processes(function: Callable[..., object], *arguments: Path) -> None:
    """Call a module's function in two processes of one group, as `torchrun --nproc_per_node 2` does."""
    run_apart(_run_both, function, *arguments)


def _run_both(function: Callable[..., object], *arguments: Path) -> None:
    os.environ |= {"MASTER_ADDR": HOST, "MASTER_PORT": str(free_port())}
    os.environ |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    context = multiprocessing.get_context("fork")
    second = context.Process(target=_run_as, args=("1", function, *arguments))
    second.start()
    _run_as("0", function, *arguments)
    second.join()
    assert second.exitcode == 0


def _run_as(rank: str, function: Callable[..., object], *arguments: Path) -> None:
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = rank
    function(*arguments)
