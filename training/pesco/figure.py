"""The paper's figure of training: accuracy on the dev rows over the iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from purlin.index.storage import atomic_write

ACCURACY = "accuracy.png"


def draw_accuracy(curves: Mapping[str, Sequence[Sequence[float]]], path: Path) -> None:
    """Draw one line for each name as a PNG: the mean over its runs, and their range.

    A run has the accuracy before each of its rounds, and after the last one. Runs may differ in
    length, as each ends when its labels stay: a run that has ended counts with its last value.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, runs in curves.items():
        values = _aligned(runs)
        rounds = np.arange(values.shape[1])
        (line,) = axes.plot(rounds, values.mean(0), marker="o", label=name)
        axes.fill_between(rounds, values.min(0), values.max(0), color=line.get_color(), alpha=0.15)

    axes.set(xlabel="rounds of self-training", ylabel="accuracy on the dev rows")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    with atomic_write(path) as stream:
        figure.savefig(stream, format="png", dpi=120)


def _aligned(runs: Sequence[Sequence[float]]) -> np.ndarray:
    """The runs (runs, longest), each continued with its last value."""
    longest = max(map(len, runs))
    return np.array([[*run, *[run[-1]] * (longest - len(run))] for run in runs])
