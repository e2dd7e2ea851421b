"""Classify texts together: each one's neighbours among the others, and the labels' priors, count.

Averaging a text with its neighbours takes away what only this text says; subtracting a part of the
class prior takes away how near a label is to any text. Both were chosen on the odd dev rows of AG
News, DBpedia, Amazon polarity and Yahoo Answers, and on parts of these with very unequal labels;
docs/classify.md has what they are worth on the even rows. Few texts have fewer neighbours, or most
of these would be of other labels: this was chosen on draws of 20 to 400 even rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import Vectors

Indices = NDArray[np.intp]

NEIGHBOURS = 20
# Neighbours are at most so large a part of the texts that a label has, in the mean over the effective
# number of labels.
NEIGHBOUR_SHARE = 2 / 3
# The part of the class prior that is subtracted from the scores of very many texts, and the number
# of texts at which half of it is.
PRIOR_SHARE = 0.35
PRIOR_TEXTS = 20

# Labels and class priors depend on each other, and are computed in turn so many times.
_PRIOR_ITERATIONS = 3
_BLOCK = 256


def transductive_vectors(texts: Vectors, labels: Vectors) -> Vectors:
    """Vectors (n, dim) whose cosines with `labels` (L, dim) are those of `texts` seen together."""
    averaged = average_neighbours(texts, _neighbour_count(texts, labels))
    share = PRIOR_SHARE * len(texts) / (len(texts) + PRIOR_TEXTS)
    vectors: Vectors = averaged - np.float32(share) * _balanced_mean(averaged, labels)
    return vectors


def _neighbour_count(texts: Vectors, labels: Vectors) -> int:
    """How many neighbours count: most of them shall have the label of their text."""
    count = effective_labels(_nearest(texts, labels), len(labels))
    return min(NEIGHBOURS, int(NEIGHBOUR_SHARE * len(texts) / count))


def effective_labels(numbers: Indices, count: int) -> float:
    """exp of the entropy of the labels' shares: `count` if all are equal, 1 if one has all."""
    shares = np.bincount(numbers, minlength=count) / len(numbers)
    used = shares[shares > 0]
    return float(np.exp(-(used * np.log(used)).sum()))


def average_neighbours(texts: Vectors, neighbours: int = NEIGHBOURS) -> Vectors:
    """Mean of each unit vector (n, dim) and its nearest others, which weigh their squared cosine.

    The text itself weighs 1, so that distant texts hardly count.
    """
    count = min(neighbours, len(texts) - 1)
    means = np.empty_like(texts)
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        cosines = np.maximum(block @ texts.T, 0)
        rows = np.arange(len(block))
        cosines[rows, start + rows] = 0

        if count:
            least = np.partition(cosines, -count, axis=1)[:, -count, None]
            cosines[cosines < least] = 0
        weights = np.square(cosines)
        weights[rows, start + rows] = 1
        means[start : start + _BLOCK] = (weights @ texts) / weights.sum(axis=1, keepdims=True)

    return means


def _balanced_mean(texts: Vectors, labels: Vectors) -> Vectors:
    """The mean vector (dim,) of texts, in which each label that gets any weighs the same.

    Its cosines with the labels are the class priors.
    """
    mean: Vectors = texts.mean(axis=0)
    for _ in range(_PRIOR_ITERATIONS):
        best = _nearest(texts - mean, labels)
        counts = np.bincount(best, minlength=len(labels))
        weights = (1 / counts[best] / np.count_nonzero(counts)).astype(np.float32)
        mean = weights @ texts

    return mean


def _nearest(texts: Vectors, labels: Vectors) -> Indices:
    """The label (n,) nearest to each text."""
    return np.concatenate(
        [
            (texts[start : start + _BLOCK] @ labels.T).argmax(axis=1)
            for start in range(0, len(texts), _BLOCK)
        ]
    )
