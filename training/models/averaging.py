"""Weights of a trained model, mixed with those of others: its base, or the same model of other runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from torch import nn

AnyModel = TypeVar("AnyModel", bound=nn.Module)
AVERAGED = "averaged"  # directory of the checkpoint with the mixed weights


def averaged(trained: AnyModel, others: Sequence[tuple[nn.Module, float]]) -> AnyModel:
    """Mix a share of each of the `others` into every weight of `trained`.

    With the base model that is WiSE-FT (Wortsman et al. 2022); with equal shares of several runs from
    one base, a uniform model soup (Wortsman et al. 2022).
    """
    own_share = 1.0 - sum(share for _, share in others)
    mixed = {name: weight * own_share for name, weight in trained.state_dict().items()}
    for model, share in others:
        for name, weight in model.state_dict().items():
            mixed[name] = mixed[name] + share * weight

    # In place: `trained` is not used on its own afterwards.
    trained.load_state_dict(mixed)
    return trained
