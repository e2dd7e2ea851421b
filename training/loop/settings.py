"""How long, how fast and how often a model is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from purlin.training.config import check_ranges, ranged


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How long, how fast and how often.

    `batch_size` counts pairs over all processes. After each `every` steps (0: after each epoch) and
    at the end, the model is measured on the dev sets and a checkpoint is written; after `patience`
    measurements without a better one training stops (0: never). `result` is the checkpoint that the
    run results in: the best one by the first measure, or the last, where the dev sets are too small
    to choose by. `warmup` is a share of all steps; after it the learning rate falls linearly to 0.
    `fresh_rate` multiplies the rate of parameters that the base model lacks and that start at
    random. `epsilon` is Adam's. `precision` "auto" is bf16 if that is clearly faster, else fp32.
    """

    batch_size: int = ranged(128, 2, 1 << 20)
    epochs: float = ranged(1.0, 1e-6, 100_000)
    steps: int | None = ranged(None, 1, 1 << 30)
    learning_rate: float = ranged(2e-5, 0.0, 1.0)
    fresh_rate: float = ranged(1.0, 0.0, 1e6)
    warmup: float = ranged(0.1, 0.0, 1.0)
    weight_decay: float = ranged(0.01, 0.0, 1.0)
    epsilon: float = ranged(1e-8, 1e-16, 1.0)
    max_norm: float = ranged(1.0, 1e-9, 1e9)
    every: int = ranged(200, 0, 1 << 30)
    patience: int = ranged(0, 0, 1 << 30)
    result: Literal["best", "last"] = "best"
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    workers: int | None = ranged(None, 0, 64)
    timeout_minutes: int = ranged(120, 1, 10_000)

    def __post_init__(self) -> None:
        check_ranges(self)

    def total_steps(self, batches_per_epoch: int) -> int:
        """Return the number of steps of the whole run."""
        if self.steps:
            return self.steps
        return max(1, math.ceil(self.epochs * batches_per_epoch))

    def rate(self, step: int, total: int) -> float:
        """Return the learning rate of a step from 1 to `total`."""
        warmup_steps = max(1, round(self.warmup * total))
        if step <= warmup_steps:
            return self.learning_rate * max(step / warmup_steps, 0.0)

        share = (total - step) / max(1, total - warmup_steps)
        return self.learning_rate * max(share, 0.0)
