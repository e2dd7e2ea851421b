"""The losses of a reader: reference QA, eq. 1-3."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from purlin.training.reader.recipe import NONE_SCORE

UNKNOWN = -100  # the passage with the answer to a question without labels


def reading_loss(
    starts: Tensor,
    ends: Tensor,
    selected: Tensor,
    right: Tensor,
    spans: Tensor,
    none_score: float | None = NONE_SCORE,
) -> dict[str, Tensor]:
    """Return the losses "select" (eq. 3), "start" and "end" (eq. 1 and 2), each a mean over
    questions.

    `starts`, `ends` (B * P, t); `selected` (B * P,); `right` (B,) the passage with the answer,
    counted from 1; 0 is "none of them", whose score is `none_score`. Without one (None), as in the
    paper, `right` is never 0. A question whose `right` is UNKNOWN adds nothing. `spans` (B, 2) are
    the answer's ends in the right passage, or -1 if unknown: such questions add nothing to eq. 1
    and 2.
    """
    b = len(right)
    choices = selected.reshape(b, -1)
    answers = torch.where(right == UNKNOWN, right, right - 1)
    if none_score is not None:
        choices, answers = F.pad(choices, (1, 0), value=none_score), right  # (B, 1 + P)
    selection = F.cross_entropy(choices, answers, ignore_index=UNKNOWN, reduction="sum")
    losses = {"select": selection / b}

    has_span = spans[:, 0] >= 0
    first_rows = torch.arange(b, device=right.device) * (selected.numel() // b)
    rows = first_rows + (right - 1).clamp(min=0)
    for name, logits, tokens in (("start", starts, spans[:, 0]), ("end", ends, spans[:, 1])):
        per_question = F.cross_entropy(logits[rows], tokens.clamp(min=0), reduction="none")
        losses[name] = (per_question * has_span).sum() / b
    return losses
