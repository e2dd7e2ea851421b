"""Compare the trained with the untrained classifier, without a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from purlin.index.classify.transductive import effective_labels
from purlin.training.config import check_ranges, ranged
from purlin.training.pesco.teacher import PseudoLabels, most_confident
from purlin.training.pesco.views import Indices

# Share of an even part of the texts that must mostly keep its labels.
CONFIDENT_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCheck:
    """What tells, without a label, whether training made things worse.

    `kept` is the share of the untrained classifier's most confident texts that keep their label:
    labels that lost their meaning lose these too. `halves_before` and `halves` are Cohen's kappa
    between the labels of the first and second halves of texts: both halves are on one subject, and
    a label that swallows the rest brings kappa towards 0. `spread` is the effective number of
    labels (exp of the entropy of their shares), over that before.
    """

    kept: float
    halves_before: float
    halves: float
    spread: float

    def verdict(self, limits: CheckLimits) -> str:
        """Say why the untrained encoder is to be published; empty if the trained one is."""
        reasons = []
        if self.kept < limits.kept:
            reasons.append(
                f"{self.kept:.0%} of the most confident texts kept their label, "
                f"at least {limits.kept:.0%} are required"
            )
        if self.halves < self.halves_before - limits.halves:
            reasons.append(
                f"halves of texts agree less than before "
                f"(kappa {self.halves:.2f}, {self.halves_before:.2f})"
            )
        if self.spread < limits.spread:
            reasons.append(
                "some labels swallow the rest "
                f"(the effective number of labels fell to {self.spread:.0%})"
            )

        return "; ".join(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLimits:
    """When the untrained encoder is published, see TrainingCheck.

    It is if `kept` or `spread` is lower than here, or if `halves` fell by more.
    """

    kept: float = ranged(0.8, 0.0, 1.0)
    halves: float = ranged(0.0, 0.0, 2.0)
    spread: float = ranged(0.7, 0.0, 1.0)

    def __post_init__(self) -> None:
        check_ranges(self)


def check_training(
    before: PseudoLabels, after: PseudoLabels, halves: Sequence[Indices]
) -> TrainingCheck:
    """Compare two classifications of the same texts.

    `halves` has the labels (n,) of the first and of the second halves before training, then both
    after it.
    """
    count = before.scores.shape[1]
    rows, labels = most_confident(before, CONFIDENT_SHARE, count, equal_sizes=True)
    first_before, second_before, first_after, second_after = halves

    labels_before = effective_labels(before.labels, count)
    labels_after = effective_labels(after.labels, count)
    return TrainingCheck(
        kept=float((after.labels[rows] == labels).mean()),
        halves_before=cohens_kappa(first_before, second_before, count),
        halves=cohens_kappa(first_after, second_after, count),
        spread=labels_after / labels_before,
    )


def cohens_kappa(first: Indices, second: Indices, count: int) -> float:
    """Cohen's kappa of two labellings of the same texts; 0 if both are one and the same label."""
    first_shares = np.bincount(first, minlength=count) / len(first)
    second_shares = np.bincount(second, minlength=count) / len(second)
    chance = float(first_shares @ second_shares)
    if chance >= 1.0:
        return 0.0

    return (float((first == second).mean()) - chance) / (1.0 - chance)
