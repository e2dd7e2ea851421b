"""What a self-training run came to."""

from __future__ import annotations

from dataclasses import dataclass

from index.classify.zero_shot import Scores
from index.encoder import Vectors
from training.pesco.teacher import Check, Labelling
from training.pesco.texts import Pool


@dataclass(frozen=True, slots=True)
class Served:
    """A model's classifier: label `vectors` (L, D), `offsets` (L,) and `temperature`; what it `found` in the pool, and
    its accuracy on the dev rows, if there are any."""

    vectors: Vectors
    offsets: Scores
    temperature: float
    found: Labelling
    dev: float | None


@dataclass(frozen=True, slots=True)
class Round:
    """What a round began with: `texts` trained on (0 in the last), the labels' `shares` of the pool, the share of
    pseudo-labels that are as in the round before (1 in the first), and the accuracy on dev rows if there are any."""

    texts: int
    shares: tuple[float, ...]
    agreement: float
    dev: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: the classifier `before` training and `after` it, the `check` of both where there was
    training, and in `kept` why the untrained one is published, empty where the trained one is; each label's `typical`
    words."""

    name: str
    labels: tuple[str, ...]
    pool: Pool
    rounds: tuple[Round, ...]
    before: Served
    after: Served
    check: Check | None
    kept: str
    typical: list[list[str]]

    @property
    def served(self) -> Served:
        """The classifier that is published."""
        return self.before if self.kept else self.after
