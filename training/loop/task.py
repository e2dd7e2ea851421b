"""What the training loop trains: a model with its data, its loss and its dev measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from torch import nn

B = TypeVar("B")


class Task(Protocol[B]):
    """A model, its data, its loss and its dev measures; `B` is the type of a batch."""

    @property
    def model(self) -> nn.Module:
        """The module whose parameters are trained."""
        ...

    def fresh(self) -> Sequence[nn.Parameter]:
        """Return the parameters that start at random beside pretrained ones."""
        ...

    def batches_per_epoch(self) -> int:
        """Return the number of batches in which every pair comes once."""
        ...

    def batch(self, number: int) -> B:
        """Return this process's part of batch `number`, counted from 0 over all epochs.

        The same number always gives the same batch.
        """
        ...

    def prepare(self, number: int) -> None:
        """Do what needs the current weights before batch `number` is drawn."""
        ...

    def ready(self, number: int) -> bool:
        """Tell whether the batch can be drawn while the steps before it are computed."""
        ...

    def backward(self, batch: B) -> dict[str, float]:
        """Add the batch's gradients; return the losses by name, their sum as "loss"."""
        ...

    def describe(self, batch: B) -> str:
        """Return a few words that identify the batch in an error message."""
        ...

    def measure(self) -> dict[str, float]:
        """Return dev measures, the one to maximize first; empty without dev sets."""
        ...

    def save(self, directory: Path) -> None:
        """Write the model for `restore` and other tools."""
        ...

    def restore(self, directory: Path) -> None:
        """Load the weights that `save` wrote."""
        ...


class FixedBatches:
    """The part of a `Task` whose batches do not depend on the weights."""

    def ready(self, number: int) -> bool:
        """Return True: every batch can be drawn while the steps before it are computed."""
        return True

    def prepare(self, number: int) -> None:
        """Do nothing."""
