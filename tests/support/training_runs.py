"""Help for tests of training runs: recipes, metrics, a full disk, and processes of their own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from purlin.index.errors import NotFound
from purlin.training.config import load_recipe
from purlin.training.loop.metrics import METRICS
from tests.support.paths import ROOT
from tests.support.traffic import free_port

ONE_THREAD = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

TWO_PROCESSES = """
import importlib, os, sys
from pathlib import Path

module, name, *arguments = sys.argv[1:]
function = getattr(importlib.import_module(module), name)
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
    return [
        {
            name: value
            for name, value in json.loads(line).items()
            if name not in ("seconds", "pairs_per_s")
        }
        for line in lines
    ]


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
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    sizes = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    names = (function.__module__, function.__qualname__)
    _run("-c", TWO_PROCESSES, *names, *arguments, environment=group | sizes)


def run_with_torchrun(script: Path, *arguments: object) -> None:
    """Run a Python file in two processes of one group, by torch's own launcher."""
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", 2, "--master_port", free_port()]
    _run(*launcher, script, *arguments)


def _run(*arguments: object, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    process = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout
