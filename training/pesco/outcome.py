"""The result of a self-training run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from purlin.index.classify.scores import ClassScores
from purlin.index.encoder import Vectors
from purlin.training.pesco.check import TrainingCheck
from purlin.training.pesco.teacher import PseudoLabels
from purlin.training.pesco.texts import TextPool


@dataclass(frozen=True, slots=True)
class CalibratedClassifier:
    """A model with label `vectors` (L, D), `offsets` (L,) and a `temperature`.

    `pseudo_labels` are those it gives the pool, `dev_accuracy` is None without dev rows.
    """

    vectors: Vectors
    offsets: ClassScores
    temperature: float
    pseudo_labels: PseudoLabels
    dev_accuracy: float | None


@dataclass(frozen=True, slots=True)
class Round:
    """What a round began with.

    `texts` are trained on, none in the last round; `agreement` is the share of pseudo-labels that
    the round before gave too (1 in the first). `dev_accuracy` is that of the prompts, None without
    dev rows.
    """

    texts: int
    agreement: float
    dev_accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The classifier without training and with it, and which of them is published.

    `check` compares the two, None if nothing was trained. `rejection` says why the untrained one is
    published, empty if the trained one is. `typical_words` has a list for each label.
    """

    name: str
    labels: tuple[str, ...]
    pool: TextPool
    rounds: tuple[Round, ...]
    untrained: CalibratedClassifier
    trained: CalibratedClassifier
    check: TrainingCheck | None
    rejection: str
    typical_words: list[list[str]]

    @property
    def published(self) -> CalibratedClassifier:
        """The classifier that is published."""
        return self.untrained if self.rejection else self.trained


def label_shares(pseudo_labels: PseudoLabels, count: int) -> tuple[float, ...]:
    """Each label's share of the texts, to 4 decimals."""
    shares = np.bincount(pseudo_labels.labels, minlength=count) / len(pseudo_labels.labels)
    return tuple(round(share, 4) for share in shares.tolist())
