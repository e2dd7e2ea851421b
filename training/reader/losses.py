"""The losses of a reader: reference QA, eq. 1-3."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from purlin.training.reader.model import HIDDEN
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
    """Return the losses "select" (eq. 3) and "span" (eq. 1 and 2), each a mean over questions.

    `starts`, `ends` (B * P, t); `selected` (B * P,); `right` (B,) the passage with the answer,
    counted from 1; 0 is "none of them", whose score is `none_score`. Without one (None), as in the
    paper, `right` is never 0. A question whose `right` is UNKNOWN adds nothing. `spans` (B, S, 2)
    are the ends of the S answers in the right passage, or -1 where there are fewer: questions
    without any add nothing to "span". Of several answers, any will do: what counts is the sum of
    their probabilities (Clark and Gardner 2018, https://aclanthology.org/P18-1078, eq. 2).
    """
    b = len(right)
    choices = selected.reshape(b, -1)
    answers = torch.where(right == UNKNOWN, right, right - 1)
    if none_score is not None:
        choices, answers = F.pad(choices, (1, 0), value=none_score), right  # (B, 1 + P)
    selection = F.cross_entropy(choices, answers, ignore_index=UNKNOWN, reduction="sum")
    losses = {"select": selection / b}

    rows = torch.arange(b, device=right.device) * (selected.numel() // b)
    rows += (right - 1).clamp(min=0)
    is_span = spans[..., 0] >= 0  # (B, S)
    log_starts, log_ends = (F.log_softmax(logits[rows], dim=-1) for logits in (starts, ends))
    first, last = spans.clamp(min=0).unbind(dim=-1)
    log_spans = log_starts.gather(1, first) + log_ends.gather(1, last)
    per_question = -log_spans.masked_fill(~is_span, HIDDEN).logsumexp(dim=-1)
    losses["span"] = (per_question * is_span.any(dim=-1)).sum() / b
    return losses
