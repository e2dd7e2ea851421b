"""Gradients of fused attention under autocast, which are computed in float32."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from purlin.training.loop.attention import float32_gradients

SEEN = torch.tensor([[True] * 5 + [False] * 4, [True] * 9])[:, None, None, :]
BIAS = torch.randn(1, 3, 9, 9, generator=torch.Generator().manual_seed(1))


def inputs() -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, 9, 8, generator=random).bfloat16().requires_grad_() for _ in range(3)]


def errors(tensors: list[Tensor], mask: Tensor | None) -> list[float]:
    """Return the relative error of each gradient of a sum of squares, against float32."""
    exact = [each.detach().float().requires_grad_() for each in tensors]
    F.scaled_dot_product_attention(*exact, attn_mask=mask).square().sum().backward()
    F.scaled_dot_product_attention(*tensors, attn_mask=mask).float().square().sum().backward()
    pairs = [(fused.grad, reference.grad) for fused, reference in zip(tensors, exact, strict=True)]
    return [
        float((fused.float() - reference).norm() / reference.norm()) for fused, reference in pairs
    ]  # type: ignore[union-attr]


@pytest.mark.parametrize("mask", [None, SEEN, BIAS], ids=["none", "padding", "bias"])
def test_gradients_are_nearer_to_float32(mask: Tensor | None) -> None:
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
    plain_inputs, patched_inputs = (
        [each.detach().float().requires_grad_() for each in inputs()] for _ in range(2)
    )
    F.scaled_dot_product_attention(*plain_inputs).square().sum().backward()
    with float32_gradients():
        F.scaled_dot_product_attention(*patched_inputs).square().sum().backward()

    for plain, patched in zip(plain_inputs, patched_inputs, strict=True):
        assert plain.grad is not None
        assert patched.grad is not None
        assert torch.equal(plain.grad, patched.grad)
