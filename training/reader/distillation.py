"""Distil a reader: the scores of a larger one as soft targets.

Teacher and student may have different tokenizers. So the teacher's probabilities of an answer's first
and last token become probabilities of its first and last character, and these become probabilities
of the student's tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import functional as F

from purlin.index.qa.reader import Floats, PackedPassage
from purlin.training.reader.scores import PassageScores

# At least so much of the teacher's probability must be on text that the student's sequence still has.
MIN_KEPT = 0.5
Offsets = Sequence[tuple[int, int]]


class SoftTargets(NamedTuple):
    """A teacher's logits and distributions for B questions with P passages each.

    `selected` (B, P) are logits; `start` and `end` (B * P, t) distributions over the student's
    tokens at the teacher's temperature; `has_target` (B * P,) tells where there is one, and
    `has_scores` (B,) which questions the teacher has read.
    """

    selected: Tensor
    start: Tensor
    end: Tensor
    has_target: Tensor
    has_scores: Tensor


def soft_targets(
    scores: Sequence[Sequence[PassageScores] | None],
    packed: Sequence[PackedPassage],
    width: int,
    temperature: float,
) -> SoftTargets:
    """Return the targets of a batch.

    `scores` has those of each question's passages, None for a question that the teacher has not read.
    `packed` has the student's sequences of all questions in the same order; in the batch, they are
    padded to `width` tokens.
    """
    start, end = torch.zeros(2, len(packed), width)
    has_target = torch.zeros(len(packed), dtype=torch.bool)
    selected = torch.zeros(len(scores), len(packed) // len(scores))
    has_scores = torch.tensor([passages is not None for passages in scores])

    for question, passages in enumerate(scores):
        if passages is None:
            continue
        selected[question] = torch.tensor([passage.selected for passage in passages])

        for row, passage in enumerate(passages, start=question * len(passages)):
            sequence = packed[row]
            aligned = aligned_distributions(passage, sequence.offsets, temperature)
            if aligned is not None:
                tokens = slice(sequence.first, sequence.first + len(sequence.offsets))
                start[row, tokens], end[row, tokens] = map(torch.from_numpy, aligned)
                has_target[row] = True

    return SoftTargets(selected, start, end, has_target, has_scores)


def aligned_distributions(
    passage: PassageScores, offsets: Offsets, temperature: float
) -> tuple[Floats, Floats] | None:
    """Return a teacher's softened start and end distributions over a student's tokens.

    `offsets` are the characters of the student's tokens in the same text. A first character between
    two tokens counts for the token after it, a last one for the token before it; what lies beyond
    the student's last token, whose sequence may be shorter, is left out. None if less than MIN_KEPT
    of either distribution is left.
    """
    if not len(offsets) or not len(passage.offsets):
        return None

    first, last = np.array(offsets).T
    first_characters, last_characters = passage.offsets[:, 0], passage.offsets[:, 1] - 1
    start_tokens = np.searchsorted(last, first_characters, side="right")
    end_tokens = np.searchsorted(first, last_characters, side="right") - 1

    inside = last_characters < last[-1]
    width = len(offsets)
    start = _gathered(passage.start, start_tokens, inside, width, temperature)
    end = _gathered(passage.end, end_tokens, inside & (end_tokens >= 0), width, temperature)
    return None if start is None or end is None else (start, end)


def _gathered(
    logits: Floats,
    tokens: NDArray[np.intp],
    inside: NDArray[np.bool_],
    width: int,
    temperature: float,
) -> Floats | None:
    """Return the distribution (width,) of a softmax over logits (t,), gathered by `tokens` (t,).

    Only probabilities where `inside` (t,) is true count; None if they sum to less than MIN_KEPT.
    """
    probabilities = softmax(logits.astype(float) / temperature)
    sums = np.bincount(tokens[inside], probabilities[inside], minlength=width)
    if sums.sum() < MIN_KEPT:
        return None
    distribution: Floats = (sums / sums.sum()).astype(np.float32)
    return distribution


def distillation_loss(
    starts: Tensor,
    ends: Tensor,
    selected: Tensor,
    targets: SoftTargets,
    temperature: float,
    none_score: float | None,
) -> dict[str, Tensor]:
    """Return the losses "soft select" and "soft span", each a mean over B questions.

    Questions that the teacher has not read add nothing. The losses are temperature^2 times the
    Kullback-Leibler divergence of teacher and student (Hinton et al. 2015): over passages, and over
    the first and the last token in each passage, weighted by the teacher's probability of that
    passage. By the chain rule their sum is the divergence over (passage, first token) and (passage,
    last token), where the passage counts once.

    `starts`, `ends` (B * P, t) and `selected` (B * P,) are the student's logits. `none_score` is the
    logit of "none of the passages", for teacher and student; None if there is no such choice.
    """
    b, p = targets.selected.shape
    columns = [selected.reshape(b, p), targets.selected.to(selected)]
    if none_score is not None:
        columns = [F.pad(column, (0, 1), value=none_score) for column in columns]
    student, teacher = (torch.log_softmax(column / temperature, dim=1) for column in columns)

    divergences = F.kl_div(student, teacher, reduction="none", log_target=True).sum(1)
    weights = teacher[:, :p].exp().reshape(-1) * targets.has_target
    spans = torch.zeros_like(weights)
    for logits, target in ((starts, targets.start), (ends, targets.end)):
        log_probabilities = torch.log_softmax(logits / temperature, dim=1)
        spans = spans + F.kl_div(log_probabilities, target, reduction="none").sum(1)

    scale = temperature**2 / b
    return {
        "soft select": scale * (divergences * targets.has_scores).sum(),
        "soft span": scale * (weights * spans).sum(),
    }
