"""The teacher: pseudo-labels from vectors of texts and label prompts. Without torch.

The paper's teacher is the cosine alone (eq. 1 and 2). Beyond it, a teacher can subtract each
label's class prior, and add further views that are learnt from its most confident pseudo-labels,
see views.py. The prompts stay one of the views, so that the labels keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax  # type: ignore[import-untyped]

from purlin.index.classify.scores import ClassScores
from purlin.index.classify.transductive import effective_labels
from purlin.index.encoder import Vectors
from purlin.index.errors import InvalidInput
from purlin.training.config import check_ranges, in_range, ranged
from purlin.training.pesco.views import (
    Indices,
    Neighbours,
    View,
    WordIndex,
    class_prior,
    combine_views,
    linear_head,
    row_blocks,
    standardized,
)

# The temperature of the softmax that turns cosines into probabilities.
COSINE_TEMPERATURE = 0.07

# Labels and class priors depend on each other, and are computed in turn so many times.
PRIOR_ITERATIONS = 5

# Scores (N, count) of all texts by a view that is learnt from rows of them, their labels and `count`.
LearntView = Callable[[Indices, Indices, int], ClassScores]

# Labels count as unequal if they are effectively fewer than this share of them; see docs/lab-notebook.md.
UNEQUAL_BELOW = 0.91

# Texts times labels: at the 57 bytes that `pseudo_label` takes for each, 7.7 GB.
MAX_CELLS = 1 << 27


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """How pseudo-labels are made.

    Teacher(calibrate=False, views=("prompts",), confidence="score") is the paper's.

    `base` is the directory of another encoder, exported or a checkpoint, that is not trained: its
    views of the texts join those of the model that is.

    `calibrate` subtracts each label's class prior, its mean cosine over texts of all labels alike.
    `views` are standardized, weighed and added up. All but the prompts are learnt `len(shares)`
    times from the current pseudo-labels, each time from the most confident texts of each label.
    Each time the weight of the prompts falls by the factor `fading`: the first pseudo-labels follow
    the prompts, the last ones mostly the texts.

    With `sizes` "equal", a share is one of an even part of the pool, so that no label crowds out
    others; with "unequal" it is one of the label's own texts, so that a rare one is not learnt from
    texts of others. "auto" takes "unequal" if the labels that this gives are of clearly unequal
    size (`UNEQUAL_BELOW`).
    """

    base: str | None = None
    calibrate: bool = True
    views: tuple[View, ...] = ("prompts", "head", "neighbours", "words")
    shares: tuple[float, ...] = (0.3, 0.5, 0.8, 0.8)
    fading: float = ranged(0.5, 0.0, 1.0)
    sizes: Literal["auto", "equal", "unequal"] = "auto"
    confidence: Literal["margin", "score"] = "margin"

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.views or len(set(self.views)) < len(self.views):
            raise InvalidInput("Give at least one view, and each only once.", field="views")
        if self.views != ("prompts",) and not self.shares:
            raise InvalidInput(
                "Views that are learnt need at least one share: add one, or use the prompts alone.",
                field="shares",
            )

        for share in self.shares:
            in_range("shares", share, 0.001, 1.0)


@dataclass(frozen=True, slots=True)
class ModelVectors:
    """One model's vectors of the `texts` (N, D) and of the `dev` rows, and the mean `prompts` (L, D)."""

    texts: Vectors
    prompts: Vectors
    dev: Vectors | None = None


@dataclass(frozen=True, slots=True)
class PseudoLabels:
    """Scores (N, L) of a teacher, the best label (N,) and a confidence of at least 0 (N,)."""

    scores: ClassScores
    labels: Indices
    confidence: NDArray[np.float64]

    @classmethod
    def of(cls, scores: ClassScores, confidence: str = "margin") -> PseudoLabels:
        """Choose the best score; the confidence is its margin over the second, or its softmax."""
        labels = scores.argmax(1)
        if confidence != "margin":
            return cls(scores, labels, softmax(scores / COSINE_TEMPERATURE, axis=1).max(1))

        best_two = np.concatenate(
            [np.partition(scores[part], -2, axis=1)[:, -2:] for part in row_blocks(scores)]
        )
        return cls(scores, labels, best_two[:, 1] - best_two[:, 0])


def pseudo_label(
    models: Sequence[ModelVectors], index: WordIndex | None, teacher: Teacher
) -> PseudoLabels:
    """Label texts by the prompts, and by the views learnt from these labels, of all `models`.

    The prompts of the first model give the labels that views are first learnt from; with several,
    the sum of all models' prompts does. `index` has the words of the same texts; without it the
    view "words" is left out.
    """
    count = len(models[0].prompts)
    check_pool_size(len(models[0].texts), count)
    by_prompts = [calibrated_scores(model.texts, model.prompts, teacher) for model in models]
    learnt = _learnt_views(models, index, teacher)

    labelled = partial(_labelled_by_views, by_prompts, learnt, teacher)
    if teacher.sizes != "auto" or not learnt:
        return labelled(equal_sizes=teacher.sizes == "equal")

    pseudo_labels = labelled(equal_sizes=False)
    if effective_labels(pseudo_labels.labels, count) < UNEQUAL_BELOW * count:
        return pseudo_labels

    # Its scores take as much memory as a view.
    del pseudo_labels
    return labelled(equal_sizes=True)


def _labelled_by_views(
    by_prompts: Sequence[ClassScores],
    learnt: Sequence[LearntView],
    teacher: Teacher,
    *,
    equal_sizes: bool,
) -> PseudoLabels:
    """Label texts by the prompts' scores, and by the views that are learnt from these labels in turn."""
    count = by_prompts[0].shape[1]
    pseudo_labels = PseudoLabels.of(_first_scores(by_prompts), teacher.confidence)
    for iteration, share in enumerate(teacher.shares if learnt else ()):
        rows, labels = most_confident(pseudo_labels, share, count, equal_sizes=equal_sizes)
        all_labels = pseudo_labels.labels
        # Its scores take as much memory as a view.
        del pseudo_labels

        views = [standardized(score(rows, labels, count), all_labels) for score in learnt]
        factors = [1.0] * len(views)
        if "prompts" in teacher.views:
            views += [standardized(scores, all_labels) for scores in by_prompts]
            factors += [teacher.fading**iteration] * len(by_prompts)

        pseudo_labels = PseudoLabels.of(combine_views(views, factors), "margin")
        del views

    if learnt and teacher.confidence == "score":
        # Standardized scores are logits already: `of` divides by the temperature of cosines.
        pseudo_labels = PseudoLabels.of(pseudo_labels.scores * COSINE_TEMPERATURE, "score")
    return pseudo_labels


def _first_scores(by_prompts: Sequence[ClassScores]) -> ClassScores:
    """The scores by the prompts (N, L): one model's as they are, of several the sum."""
    if len(by_prompts) == 1:
        return by_prompts[0]

    # Cosines of models differ in their scale; the one of the first is kept.
    deviations = [max(float(scores.std()), 1e-12) for scores in by_prompts]
    total = sum(
        scores * (deviations[0] / deviation)
        for scores, deviation in zip(by_prompts, deviations, strict=True)
    )
    return np.asarray(total / len(by_prompts))


def check_pool_size(texts: int, labels: int) -> None:
    """Raise InvalidInput if scores of all texts for all labels do not fit in memory."""
    if texts * labels > MAX_CELLS:
        raise InvalidInput(
            f"{texts:,} texts times {labels:,} labels are more than {MAX_CELLS:,} scores: "
            f"set `limit` in the recipe to at most {MAX_CELLS // labels:,} texts.",
            field="limit",
        )


def calibrated_scores(vectors: Vectors, prompts: Vectors, teacher: Teacher) -> ClassScores:
    """Cosines (N, L) of eq. 2, less the teacher's offsets."""
    cosines = (vectors @ prompts.T).astype(np.float64)
    cosines -= class_offsets(cosines, calibrate=teacher.calibrate)
    return cosines


def class_offsets(cosines: ClassScores, *, calibrate: bool) -> NDArray[np.float64]:
    """What to subtract from each label's cosine (L,): 0, with `calibrate` the class prior."""
    if not calibrate:
        return np.zeros(cosines.shape[1])

    offsets: NDArray[np.float64] = cosines.mean(0)
    for _ in range(PRIOR_ITERATIONS):
        offsets = class_prior(cosines, (cosines - offsets).argmax(1))
    return offsets


def most_confident(
    pseudo_labels: PseudoLabels, share: float, count: int, *, equal_sizes: bool
) -> tuple[Indices, Indices]:
    """Rows of each label's most confident texts, at least one of each that occurs, and their labels.

    With `equal_sizes`, a label has at most `share` of an even part of all texts, so that frequent
    ones do not crowd out others. Without, it has that share of its own: rare labels are not learnt
    from the texts that they were least surely given.
    """
    even_part = len(pseudo_labels.labels) / count
    order = np.argsort(-pseudo_labels.confidence, kind="stable")
    ordered_labels = pseudo_labels.labels[order]

    chosen = []
    for label in range(count):
        own = order[ordered_labels == label]
        part = even_part if equal_sizes else len(own)
        chosen.append(own[: max(1, round(share * part))])

    rows = np.concatenate(chosen)
    return rows, pseudo_labels.labels[rows]


def _learnt_views(
    models: Sequence[ModelVectors], index: WordIndex | None, teacher: Teacher
) -> list[LearntView]:
    """The views that are learnt: each of the teacher's once for each model, the words once."""
    learnt: list[LearntView] = []
    for view in teacher.views:
        if view == "words" and index is not None:
            learnt.append(partial(_word_scores, index))
        elif view == "neighbours":
            learnt += [Neighbours.of(model.texts).scores for model in models]
        elif view == "head":
            learnt += [partial(_head_scores, model.texts) for model in models]

    return learnt


def _word_scores(index: WordIndex, rows: Indices, labels: Indices, count: int) -> ClassScores:
    return index.scores(index.rates(rows, labels, count))


def _head_scores(vectors: Vectors, rows: Indices, labels: Indices, count: int) -> ClassScores:
    weights, bias = linear_head(vectors[rows], labels, count)
    scores = vectors @ weights.T
    scores += bias
    return scores.astype(np.float64)


def sample_balanced(
    pseudo_labels: PseudoLabels, total: int, count: int, rng: np.random.Generator
) -> Indices:
    """About `total` rows, as many of each label that occurs (section 4.3), in random order.

    Within a label the chance is proportional to the confidence. Of a label with too few texts each
    is in the sample, and some again by chance.
    """
    labels = pseudo_labels.labels
    present = [label for label in range(count) if (labels == label).any()]
    each = max(1, total // len(present))

    rows = [
        _sample_label(np.flatnonzero(labels == label), pseudo_labels, each, rng)
        for label in present
    ]
    return rng.permutation(np.concatenate(rows))


def _sample_label(
    rows: Indices, pseudo_labels: PseudoLabels, each: int, rng: np.random.Generator
) -> Indices:
    chance = pseudo_labels.confidence[rows] + 1e-9
    chance = chance / chance.sum()
    if each <= len(rows):
        return rng.choice(rows, each, replace=False, p=chance)

    repeated = rng.choice(rows, each - len(rows), p=chance)
    return np.concatenate([rows, repeated])
