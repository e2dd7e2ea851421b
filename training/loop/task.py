"""What the training loop trains: a model with its data, its loss and its dev measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from purlin.training.models.saved_model import SavedModel

B = TypeVar("B")


class Task(ABC, Generic[B]):
    """A model, its data, its loss and its dev measures; `B` is the type of a batch."""

    model: SavedModel
    """The module whose parameters are trained."""

    batches_per_epoch: int
    """The number of batches in which every pair comes once."""

    @abstractmethod
    def batch(self, number: int) -> B:
        """Return this process's part of batch `number`, counted from 0 over all epochs.

        The same number always gives the same batch.
        """

    def ready(self, number: int) -> bool:
        """Tell whether the batch can be drawn while the steps before it are computed."""
        return True

    def prepare(self, number: int) -> None:
        """Do what needs the current weights before batch `number` is drawn."""

    @abstractmethod
    def backward(self, batch: B) -> dict[str, float]:
        """Add the batch's gradients; return the losses by name, their sum as "loss"."""

    @abstractmethod
    def describe(self, batch: B) -> str:
        """Return a few words that identify the batch in an error message."""

    def measure(self) -> dict[str, float]:
        """Return dev measures, the one to maximize first; empty without dev sets."""
        return {}

    def save(self, directory: Path) -> None:
        """Write the model for `restore` and other tools."""
        self.model.save(directory)

    def restore(self, directory: Path) -> None:
        """Load the weights that `save` wrote."""
        self.model.load(directory)
