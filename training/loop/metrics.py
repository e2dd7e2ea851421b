"""The metrics of a run: a line for each step, and their curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from purlin.index.storage import atomic_write

METRICS = "metrics.jsonl"
CURVES = "curves.png"


def append_metrics(directory: Path, step: int, values: Mapping[str, float]) -> None:
    """Append a step's values to metrics.jsonl in a run's `directory`."""
    with (directory / METRICS).open("a") as stream:
        stream.write(json.dumps({"step": step, **values}) + "\n")


def cut_metrics(directory: Path, step: int) -> None:
    """Remove what was logged after `step`, the checkpoint from which the run is resumed."""
    path = directory / METRICS
    if not path.is_file():
        return

    # A killed process may have left half a line.
    lines = [line for line in path.read_text().splitlines() if line.endswith("}")]
    kept = [line for line in lines if json.loads(line)["step"] <= step]

    with atomic_write(path, durable=False) as stream:
        stream.write("".join(line + "\n" for line in kept).encode())


def plot(directory: Path) -> None:
    """Draw metrics.jsonl over the steps: losses above, dev measures below."""
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in (directory / METRICS).read_text().splitlines()]
    not_losses = ("step", "learning_rate", "seconds", "pairs_per_s", "gradient_norm")
    losses = [name for name in rows[0] if name not in not_losses and not name.startswith("dev ")]
    names = dict.fromkeys(name for row in rows for name in row)
    measures = [name for name in names if name.startswith("dev ")]

    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    _draw(above, rows, losses, marker="")
    _draw(below, rows, measures, marker=".")
    above.set_ylabel("loss")
    below.set(xlabel="step", ylabel="dev measure")

    # A viewer never sees half a picture.
    with atomic_write(directory / CURVES, durable=False) as stream:
        figure.savefig(stream, format="png", dpi=120)


def _draw(
    axes: Any, rows: Sequence[Mapping[str, float]], names: Sequence[str], *, marker: str
) -> None:
    for name in names:
        points = [(row["step"], row[name]) for row in rows if name in row]
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, marker=marker, label=name, linewidth=1)

    axes.grid(alpha=0.3)
    if names:
        axes.legend(fontsize="small")
