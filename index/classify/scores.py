"""Scores of texts for labels: cosines of their vectors, as probabilities, and the labels chosen by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.classify.labels import LabelSet
from purlin.index.classify.transductive import transductive_vectors
from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.errors import InvalidInput
from purlin.index.highest import highest
from purlin.index.records import Classification, LabelScore

# Chosen on the dev sets of AG News, DBpedia, Amazon polarity and Yahoo Answers, by mean log loss with
# the released encoder for labels (for independent scores, right and wrong labels weigh the same).
SHARED_TEMPERATURE = 0.06
INDEPENDENT_TEMPERATURE = 0.07

# The cosine that scores 0.5.
INDEPENDENT_MIDPOINT = 0.07

# A label fits, with independent scores and no `min_score`, from this score on, and if its odds are
# this part of the best label's: texts that are near to one label are mostly near to all.
FITTING_SCORE = 0.5
FITTING_ODDS = 1 / 3

# Labels in the ranking of one text, at most.
RANKED = 100

_BLOCK = 256

ClassScores = NDArray[np.float64]


def rank(
    encoder: TextEncoder,
    texts: Sequence[str],
    label_set: LabelSet,
    to_scores: Callable[[Vectors], ClassScores],
    *,
    min_score: float = 0.0,
    ranked: int = RANKED,
    several: bool = False,
    transductive: bool = False,
) -> list[Classification]:
    """Classify texts block by block; `to_scores` turns mean cosines (block, labels) into scores.

    With `several`, each result names all labels that fit, see `fitting_score`. With `transductive`
    all texts are encoded before the first is classified.
    """
    starts = range(0, len(texts), _BLOCK)
    blocks = (encoder.encode(texts[start : start + _BLOCK], role="query") for start in starts)
    if transductive:
        smoothed = transductive_vectors(np.concatenate(list(blocks)), label_set.vectors)
        blocks = (smoothed[start : start + _BLOCK] for start in starts)

    return [
        _classification(row, label_set.labels, min_score, ranked, several)
        for vectors in blocks
        for row in to_scores(vectors @ label_set.vectors.T)
    ]


def _classification(
    scores: ClassScores, labels: Sequence[str], min_score: float, ranked: int, several: bool
) -> Classification:
    order = highest(scores, ranked)
    values = scores[order].round(6).tolist()
    ranking = tuple(
        LabelScore(labels[column], value)
        for column, value in zip(order.tolist(), values, strict=True)
    )

    first = values[0]
    second = values[1] if len(values) > 1 else 0.0
    label = ranking[0].label if first >= min_score else None
    fits = None
    if several:
        least = fitting_score(first, min_score)
        fits = tuple(entry.label for entry in ranking if entry.score >= least)
    return Classification(label, first, round(first - second, 6), ranking, fits)


def shared_scores(
    cosines: NDArray[np.floating[Any]], temperature: float = SHARED_TEMPERATURE
) -> ClassScores:
    """Softmax of (n, labels) cosines / temperature: each row sums to 1."""
    logits = cosines.astype(np.float64) / temperature
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores: ClassScores = weights / weights.sum(axis=1, keepdims=True)
    return scores


def independent_scores(cosines: Vectors) -> ClassScores:
    """Logistic function of (n, labels) cosines, 0.5 at INDEPENDENT_MIDPOINT."""
    logits = (cosines.astype(np.float64) - INDEPENDENT_MIDPOINT) / INDEPENDENT_TEMPERATURE
    scores: ClassScores = 1.0 / (1.0 + np.exp(-logits))
    return scores


def fitting_score(best: float, min_score: float = 0.0) -> float:
    """Return the score from which on a label fits a text whose best label scores `best`."""
    if min_score:
        return min_score
    part_of_best = FITTING_ODDS * best
    return max(FITTING_SCORE, part_of_best / (1 - best + part_of_best))


def check_texts(texts: Sequence[str]) -> None:
    """Refuse an empty list and blank texts."""
    if not texts:
        raise InvalidInput("There are no texts: give at least one.", field="texts")

    for number, text in enumerate(texts):
        if not text or text.isspace():
            raise InvalidInput(
                "The text is empty: leave it out or fill it.", field=f"texts[{number}]"
            )
