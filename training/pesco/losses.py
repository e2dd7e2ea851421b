"""PESCO's losses over a batch: matching texts with key sentences and label prompts (eq. 4-6)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Loss = Literal["plct", "lct", "pcl", "lct+pcl"]


def matching_loss(
    texts: Tensor,
    keys: Tensor,
    prompts: Tensor,
    labels: Tensor,
    classes: Tensor,
    has_key: Tensor,
    *,
    key_labels: Tensor | None = None,
    processes: int = 1,
    kind: Loss = "plct",
    temperature: float = 0.07,
) -> Tensor:
    """The mean over the batch of the loss that the paper writes as a sum; 0 if no text counts.

    `texts` (B, D) are texts without their key sentences, `labels` (B,) their pseudo-labels, and
    `has_key` (B,) says which texts have a key sentence: `keys` (K, D) are these, in order. Where
    several `processes` share a batch, `keys` are those of all of them, with `key_labels` (K,), and
    the mean of the processes' losses is the batch's.
    `prompts` (C, D) are those of the labels `classes` (C,), which contain all `labels`. Similarity
    is the dot product: all vectors have length 1.

    "lct" is eq. 4, "pcl" eq. 5, "plct" eq. 6 with the positives and candidates of both in one
    softmax, "lct+pcl" the sum of eq. 4 and 5. A text without a key sentence, as it has only one
    sentence, counts in eq. 5 alone.
    """
    prompt_scores = texts @ prompts.T / temperature  # (B, C)
    is_own_prompt = labels[:, None] == classes
    if kind == "pcl":
        return multi_positive_loss(prompt_scores, is_own_prompt).mean()

    # Every key sentence of the same pseudo-label is a positive, not only the text's own.
    keyed_texts, keyed_labels = texts[has_key], labels[has_key]
    if key_labels is None:
        key_labels = keyed_labels
    key_scores = keyed_texts @ keys.T / temperature  # (texts with a key, K)
    is_own_key = keyed_labels[:, None] == key_labels
    mean_keyed = max(1, len(keys)) / processes
    if kind in ("lct", "lct+pcl"):
        lct = multi_positive_loss(key_scores, is_own_key).sum() / mean_keyed
        if kind == "lct":
            return lct
        return lct + multi_positive_loss(prompt_scores, is_own_prompt).mean()

    scores = torch.cat([key_scores, prompt_scores[has_key]], dim=1)
    positives = torch.cat([is_own_key, is_own_prompt[has_key]], dim=1)
    with_key = multi_positive_loss(scores, positives)
    # Texts without a key sentence have prompts alone as candidates.
    without_key = multi_positive_loss(prompt_scores[~has_key], is_own_prompt[~has_key])
    return torch.cat([with_key, without_key]).mean()


def multi_positive_loss(scores: Tensor, positives: Tensor) -> Tensor:
    """(B,): -log softmax of `scores` (B, M), averaged over each row's `positives` (B, M)."""
    log_shares = F.log_softmax(scores.float(), dim=1).masked_fill(~positives, 0.0)
    return -log_shares.sum(1) / positives.sum(1).clamp(min=1)
