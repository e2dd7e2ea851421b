"""PESCO's losses over a batch: matching texts with key sentences and label prompts (eq. 4-6)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Loss = Literal["plct", "lct", "pcl", "lct+pcl"]


def matching(
    texts: Tensor,
    keys: Tensor,
    prompts: Tensor,
    labels: Tensor,
    classes: Tensor,
    has_key: Tensor,
    *,
    kind: Loss = "plct",
    temperature: float = 0.07,
) -> Tensor:
    """The mean over the batch of the loss that the paper writes as a sum; 0 where no text has a part in it.

    `texts` (B, D), texts without their key sentences; `keys` (K, D), K <= B: the key sentences of those texts where
    `has_key` (B,) is true, in order; `labels` (B,) pseudo-labels; `prompts` (C, D) those of the labels `classes` (C,),
    all labels in `labels` among them. Similarity is the dot product: give vectors of length 1.

    "lct" is eq. 4, "pcl" eq. 5, "plct" eq. 6 with positives and candidates of both in one softmax, "lct+pcl" the sum of
    eq. 4 and 5. A text without a key sentence, as it has no second sentence, takes part with eq. 5 alone.
    """
    to_prompts = texts @ prompts.T / temperature  # (B, C)
    own_prompt = labels[:, None] == classes
    if kind == "pcl":
        return several(to_prompts, own_prompt).mean()
    keyed = texts[has_key]
    to_keys = keyed @ keys.T / temperature  # (K, K)
    own_keys = labels[has_key][:, None] == labels[has_key]
    if kind == "lct":
        return several(to_keys, own_keys).sum() / max(1, len(keyed))
    if kind == "lct+pcl":
        known = several(to_keys, own_keys).sum() / max(1, len(keyed))
        return known + several(to_prompts, own_prompt).mean()
    together = torch.cat([to_keys, to_prompts[has_key]], dim=1)
    with_keys = several(together, torch.cat([own_keys, own_prompt[has_key]], dim=1))
    alone = several(to_prompts[~has_key], own_prompt[~has_key])
    return torch.cat([with_keys, alone]).mean()


def several(scores: Tensor, positives: Tensor) -> Tensor:
    """(B,): -log softmax of `scores` (B, M), averaged over each row's `positives` (B, M), of which there are some."""
    logs = F.log_softmax(scores.float(), dim=1).masked_fill(~positives, 0.0)
    return -logs.sum(1) / positives.sum(1).clamp(min=1)
