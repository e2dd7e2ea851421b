"""Weights of a trained model, mixed with those of its base."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

AnyModel = TypeVar("AnyModel", bound=nn.Module)
AVERAGED = "averaged"  # directory of the checkpoint with the mixed weights


def averaged(trained: AnyModel, base: nn.Module, share: float) -> AnyModel:
    """Mix the `share` of the base into every weight of `trained`: WiSE-FT (Wortsman et al. 2022)."""
    weights = base.state_dict()
    # In place: `trained` is not used on its own afterwards.
    trained.load_state_dict(
        {
            name: weight * (1.0 - share) + share * weights[name]
            for name, weight in trained.state_dict().items()
        }
    )
    return trained
