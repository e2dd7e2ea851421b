"""Help for tests of training runs: metrics, a full disk, and processes of their own."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from purlin.training.loop import METRICS

ROOT = Path(__file__).parent.parent
ONE_THREAD = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


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


def run_two_processes(script: Path, *arguments: object) -> None:
    """Run a Python file in two processes of one group, as `torchrun --nproc_per_node 2` does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", 2, "--master_port", port]
    _run(*launcher, script, *arguments)


def _run(*arguments: object) -> str:
    process = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout
