"""The gradients of fused attention under autocast: as exact as float32's, of whatever calls it, and computed there."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.attention import float32_gradients

SEEN = torch.tensor([[True] * 5 + [False] * 4, [True] * 9])[:, None, None, :]
BIAS = torch.randn(1, 3, 9, 9, generator=torch.Generator().manual_seed(1))


def inputs() -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, 9, 8, generator=random).bfloat16().requires_grad_() for _ in range(3)]


def errors(given: list[Tensor], mask: Tensor | None) -> list[float]:
    """Of each gradient of a sum of squares, how far it is off that of float32, relative to that one's length."""
    exact = [each.detach().float().requires_grad_() for each in given]
    F.scaled_dot_product_attention(*exact, attn_mask=mask).square().sum().backward()
    F.scaled_dot_product_attention(*given, attn_mask=mask).float().square().sum().backward()
    pairs = [(one.grad, other.grad) for one, other in zip(given, exact, strict=True)]
    return [float((one.float() - other).norm() / other.norm()) for one, other in pairs]  # type: ignore[union-attr]


@pytest.mark.parametrize("mask", [None, SEEN, BIAS], ids=["none", "padding", "bias"])
def test_gradients_are_nearer_to_float32_than_those_of_bfloat16(mask: Tensor | None) -> None:
    before = errors(inputs(), mask)
    with float32_gradients():
        after = errors(inputs(), mask)
    assert max(after) < 0.02
    assert sum(after) <= sum(before) * 1.05


def test_torchs_own_pass_is_put_back() -> None:
    own = errors(inputs(), SEEN)
    with suppress(KeyError), float32_gradients():
        assert errors(inputs(), SEEN) != own
        raise KeyError
    assert errors(inputs(), SEEN) == own


def test_a_decoder_of_torch_learns_as_in_float32() -> None:
    torch.manual_seed(1)
    layer = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    states = torch.randn(2, 7, 16, requires_grad=True)
    layer(states, states).square().sum().backward()
    exact, states.grad = states.grad, None
    with torch.autocast("cpu", torch.bfloat16), float32_gradients():
        layer(states, states).square().sum().backward()
    torch.testing.assert_close(states.grad, exact, rtol=0.1, atol=0.1)


def test_float32_is_left_alone() -> None:
    given, same = ([each.detach().float().requires_grad_() for each in inputs()] for _ in range(2))
    F.scaled_dot_product_attention(*given).square().sum().backward()
    with float32_gradients():
        F.scaled_dot_product_attention(*same).square().sum().backward()
    for one, other in zip(given, same, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)
