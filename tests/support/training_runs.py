"""Help for tests of training runs: recipes, metrics, a full disk, and processes of their own."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from purlin.index.errors import NotFound
from purlin.training.config import load_recipe
from purlin.training.loop.metrics import METRICS
from tests.support.paths import ROOT
from tests.support.traffic import run

ONE_THREAD = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

TWO_PROCESSES = """
import importlib, os, sys
from pathlib import Path

from tests.support.traffic import free_port

module, name, *arguments = sys.argv[1:]
function = getattr(importlib.import_module(module), name)
# Chosen late: somebody else might take it while modules are imported.
os.environ["MASTER_PORT"] = str(free_port())
second = os.fork()
os.environ["RANK"] = os.environ["LOCAL_RANK"] = "0" if second else "1"
function(*map(Path, arguments))
if not second:
    # An ordinary end would wait for threads of the first process.
    os._exit(0)
_, status = os.waitpid(second, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


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


def run_script(script: str, *arguments: object) -> str:
    """Run Python code in a process of its own, and return what it prints."""
    return _run("-c", script, *arguments)


def run_two_processes(function: Callable[..., object], *arguments: Path) -> None:
    """Call a module's function in two processes of one group, as `torchrun --nproc_per_node 2` does.

    Its module is imported once: the second process is a copy of the first.
    """
    group = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    names = (function.__module__, function.__qualname__)
    _run("-c", TWO_PROCESSES, *names, *arguments, **group)


def _run(*arguments: object, **environment: str) -> str:
    variables = ONE_THREAD | {"PYTHONPATH": str(ROOT)} | environment
    process = run([sys.executable, *arguments], **variables)
    assert process.returncode == 0, process.stderr
    return process.stdout
