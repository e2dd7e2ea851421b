"""How long, how fast and how often a model is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from purlin.training.config import in_range


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How long, how fast and how often.

    `batch_size` counts pairs over all processes; a step uses `accumulation` batches. After each
    `every` steps (0: after each epoch) and at the end, the model is measured on the dev sets and a
    checkpoint is written; after `patience` measurements without a better one training stops (0:
    never). `result` is the checkpoint that the run results in: the best one by the first measure,
    or the last, where the dev sets are too small to choose by. `warmup` is a share of all steps;
    after it the learning rate falls linearly to 0. `fresh_rate` multiplies the rate of parameters
    that the base model lacks and that start at random. `epsilon` is Adam's. `precision` "auto" is
    bf16 if that is clearly faster, else fp32.
    """

    batch_size: int = 128
    accumulation: int = 1
    epochs: float = 1.0
    steps: int | None = None
    learning_rate: float = 2e-5
    fresh_rate: float = 1.0
    warmup: float = 0.1
    weight_decay: float = 0.01
    epsilon: float = 1e-8
    max_norm: float = 1.0
    every: int = 200
    patience: int = 0
    result: Literal["best", "last"] = "best"
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    workers: int | None = None
    timeout_minutes: int = 120

    def __post_init__(self) -> None:
        in_range("batch_size", self.batch_size, 2, 1 << 20)
        in_range("accumulation", self.accumulation, 1, 10_000)
        in_range("epochs", self.epochs, 1e-6, 100_000)
        if self.steps is not None:
            in_range("steps", self.steps, 1, 1 << 30)
        in_range("learning_rate", self.learning_rate, 0.0, 1.0)
        in_range("fresh_rate", self.fresh_rate, 0.0, 1e6)
        in_range("warmup", self.warmup, 0.0, 1.0)
        in_range("weight_decay", self.weight_decay, 0.0, 1.0)
        in_range("epsilon", self.epsilon, 1e-16, 1.0)
        in_range("max_norm", self.max_norm, 1e-9, 1e9)
        in_range("every", self.every, 0, 1 << 30)
        in_range("patience", self.patience, 0, 1 << 30)
        in_range("workers", self.workers or 0, 0, 64)
        in_range("timeout_minutes", self.timeout_minutes, 1, 10_000)

    def total_steps(self, batches_per_epoch: int) -> int:
        """Return the number of steps of the whole run."""
        if self.steps:
            return self.steps
        return max(1, math.ceil(self.epochs * batches_per_epoch / self.accumulation))

    def rate(self, step: int, total: int) -> float:
        """Return the learning rate of a step from 1 to `total`."""
        warmup_steps = max(1, round(self.warmup * total))
        if step <= warmup_steps:
            return self.learning_rate * max(step / warmup_steps, 0.0)

        share = (total - step) / max(1, total - warmup_steps)
        return self.learning_rate * max(share, 0.0)
