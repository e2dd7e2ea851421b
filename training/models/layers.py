"""Layers of a BERT that are left out, or kept from being trained."""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from purlin.index.errors import InvalidInput
from purlin.training.config import in_range


def freeze_layers(transformer: nn.Module, count: int) -> None:
    """Keep the embeddings and the lowest `count` layers of a BERT from being trained.

    Raises InvalidInput if it has fewer layers, or no list of them.
    """
    layers = _bert_layers(transformer, "frozen_layers")
    in_range("frozen_layers", count, 1, len(layers))
    for module in (transformer.embeddings, *layers[:count]):
        cast(nn.Module, module).requires_grad_(False)


def _bert_layers(transformer: nn.Module, field: str) -> nn.ModuleList:
    """Return the list of a BERT's layers; raise InvalidInput, naming `field`, for other models."""
    layers = getattr(getattr(transformer, "encoder", None), "layer", None)
    if not isinstance(layers, nn.ModuleList):
        raise InvalidInput(
            f"The base model has no list of layers to choose from: set {field} to 0.", field=field
        )
    return layers


def keep_layers(transformer: nn.Module, count: int) -> None:
    """Keep `count` layers of a BERT, evenly spaced, the last one among them."""
    layers = _bert_layers(transformer, "layers")
    if count > len(layers):
        raise InvalidInput(
            f"layers is {count}, but the base model has {len(layers)}.", field="layers"
        )

    numbers = [round(len(layers) * rank / count) - 1 for rank in range(1, count + 1)]
    bert = cast(Any, transformer)
    bert.encoder.layer = nn.ModuleList(layers[number] for number in numbers)
    bert.config.num_hidden_layers = count
