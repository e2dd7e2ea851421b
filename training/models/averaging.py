"""Weights of a trained model, mixed with those that it started from."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

AnyModel = TypeVar("AnyModel", bound=nn.Module)
AVERAGED = "averaged"  # directory of the checkpoint into which the base model was mixed


def averaged(base: nn.Module, trained: AnyModel, base_share: float) -> AnyModel:
    """Mix a share of `base` into every weight of `trained` (WiSE-FT, Wortsman et al. 2022)."""
    base_weights = base.state_dict()
    mixed = {
        name: weight.lerp(base_weights[name], base_share)
        for name, weight in trained.state_dict().items()
    }
    # In place: `trained` is not used on its own afterwards.
    trained.load_state_dict(mixed)
    return trained
