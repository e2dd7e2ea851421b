"""What all models that are trained have in common."""

from __future__ import annotations

from pathlib import Path

from torch import nn


class SavedModel(nn.Module):
    """A module with a file format of its own."""

    def fresh(self) -> list[nn.Parameter]:
        """Return the parameters that start at random beside pretrained ones."""
        return []

    def save(self, directory: Path) -> None:
        """Write weights and all else that makes the model, never pickled."""
        raise NotImplementedError

    def load(self, directory: Path) -> None:
        """Load the weights that `save` wrote. Raises Damaged if they cannot be read."""
        raise NotImplementedError
