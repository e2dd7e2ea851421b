"""What benchmarks that train keep, and what they say beside the table on the standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from purlin.index.storage import atomic_write
from purlin.training.loop.run import StepProgress


def log_progress(stage: str) -> StepProgress:
    """Return the function that logs every tenth step of a stage, and its last one."""

    def step(number: int, total: int, values: Mapping[str, float]) -> None:
        if number % 10 == 0 or number == total:
            loss = f" loss {values['loss']:.4f}" if "loss" in values else ""
            log_line(f"{stage} {number}/{total}{loss}")

    return step


def log_line(message: str) -> None:
    print(f"  {message}", file=sys.stderr, flush=True)


def kept(path: Path, measure: Callable[[], Any]) -> Any:
    """Return what an earlier call measured and wrote to `path` as JSON, or measure it now."""
    if not path.is_file():
        write_whole(path, json.dumps(measure()))
    return json.loads(path.read_text())


def write_whole(path: Path, text: str) -> None:
    """Write a file that a later call takes for finished, so that a killed one leaves none."""
    with atomic_write(path) as stream:
        stream.write(text.encode())
