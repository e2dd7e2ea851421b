"""The losses, beside the paper's equations text by text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from purlin.training.pesco.losses import Loss, matching_loss


def by_hand(
    texts: Tensor,
    keys: Tensor,
    prompts: Tensor,
    labels: list[int],
    has_key: list[bool],
    kind: str,
    gamma: float,
) -> float:
    """The equations, text by text."""
    if kind == "lct+pcl":
        vectors = (texts, keys, prompts, labels, has_key)
        return by_hand(*vectors, "lct", gamma) + by_hand(*vectors, "pcl", gamma)

    key_labels = [label for label, keyed in zip(labels, has_key, strict=True) if keyed]
    losses = []
    for text, label, keyed in zip(texts, labels, has_key, strict=True):
        if kind == "lct" and not keyed:
            continue
        positives, candidates = [prompts[label]], list(prompts)
        if kind != "pcl" and keyed:
            same = [key for key, own in zip(keys, key_labels, strict=True) if own == label]
            with_prompts = kind == "plct"
            positives = [*same, *positives] if with_prompts else same
            candidates = [*keys, *candidates] if with_prompts else list(keys)

        below = sum(np.exp(float(text @ other) / gamma) for other in candidates)
        shares = [np.exp(float(text @ positive) / gamma) / below for positive in positives]
        losses.append(-np.log(shares).mean())

    return float(np.mean(losses)) if losses else 0.0


@given(
    st.sampled_from(["plct", "lct", "pcl", "lct+pcl"]),
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([0.07, 1.0]),
    st.integers(0, 1000),
)
def test_losses_match_the_equations(
    kind: Loss, batch: list[tuple[int, bool]], gamma: float, seed: int
) -> None:
    torch.manual_seed(seed)
    labels, has_key = map(list, zip(*batch, strict=True))
    texts, prompts = (F.normalize(torch.randn(count, 5), dim=1) for count in (len(batch), 3))
    keys = F.normalize(torch.randn(sum(has_key), 5), dim=1).reshape(-1, 5)
    order = torch.tensor([2, 0, 1])
    batch_labels, keyed = torch.tensor(labels), torch.tensor(has_key)
    vectors = (texts, keys, prompts[order])
    loss = matching_loss(*vectors, batch_labels, order, keyed, kind=kind, temperature=gamma)

    assert float(loss) == pytest.approx(
        by_hand(texts, keys, prompts, labels, has_key, kind, gamma), abs=1e-4
    )


@pytest.mark.parametrize("kind", ["plct", "lct", "pcl", "lct+pcl"])
def test_parts_of_a_batch_have_the_loss_of_the_whole(kind: Loss) -> None:
    torch.manual_seed(1)
    texts, prompts = F.normalize(torch.randn(6, 5), dim=1), F.normalize(torch.randn(3, 5), dim=1)
    labels, classes = torch.tensor([0, 1, 0, 2, 1, 0]), torch.arange(3)
    has_key = torch.tensor([True, True, False, True, False, True])
    keys = F.normalize(torch.randn(4, 5), dim=1)
    whole = matching_loss(texts, keys, prompts, labels, classes, has_key, kind=kind)

    options = {"key_labels": labels[has_key], "processes": 2, "kind": kind}
    parts = [
        matching_loss(texts[part], keys, prompts, labels[part], classes, has_key[part], **options)
        for part in (slice(0, None, 2), slice(1, None, 2))
    ]
    assert float(sum(parts)) / 2 == pytest.approx(float(whole), abs=1e-5)
