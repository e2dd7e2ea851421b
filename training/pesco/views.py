"""Views of the texts that a teacher learns from its most confident pseudo-labels. Without torch.

A linear head over the vectors, the labels of the nearest texts, and the words of the texts. Views
err on different texts, so that together they are right more often than each (co-training, Blum and
Mitchell 1998); each weighs as much as the others agree with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax  # type: ignore[import-untyped]

from purlin.index.classify.scores import ClassScores
from purlin.index.encoder import Vectors
from purlin.training.pesco.texts import words_and_pairs

View = Literal["prompts", "head", "neighbours", "words"]
Indices = NDArray[np.int64]

HEAD_STEPS, HEAD_RATE, HEAD_DECAY = 150, 0.3, 1e-4

# Words of a text beyond these characters are ignored.
WORD_CHARS = 4_000
MIN_TEXTS_OF_WORD, MAX_SHARE_OF_WORD = 3, 0.5
MAX_POOL_WORDS = 200_000

# Words times labels.
MAX_RATES = 1 << 25

# The overall rate of a word counts as that of so many texts of every label.
PRIOR_TEXTS = 2.0

# Nearest texts that vote, and the factor of their cosines in the exponent of their weights.
NEIGHBOURS = 20
NEIGHBOUR_SHARPNESS = 10.0

# Views that agree more do not weigh more.
MAX_AGREEMENT = 0.99

# Cosines in memory at once: 64 MiB.
BLOCK_CELLS = 1 << 24

# Scores worked on at once: 8 MiB.
PART_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class WordIndex:
    """Which of the words `names` each of `count` texts has.

    Occurrence i says that text `texts[i]` has word `words[i]`.
    """

    names: list[str]
    texts: Indices
    words: Indices
    count: int

    @classmethod
    def of(cls, texts: Sequence[str], labels: int = 2) -> WordIndex:
        """Index the `common_words` of the texts; fewer of them for very many labels.

        The texts are read twice, so that only the numbers of common words are held in memory.
        """
        # A table of rates has a row for each label.
        names = common_words(texts)[: min(MAX_POOL_WORDS, MAX_RATES // labels)]
        numbers = {word: number for number, word in enumerate(names)}

        word_numbers = [np.empty(0, np.int32)]
        for text in texts:
            own = sorted(word for word in words_and_pairs(text[:WORD_CHARS]) if word in numbers)
            word_numbers.append(np.array([numbers[word] for word in own], np.int32))

        rows = np.repeat(np.arange(len(texts)), [len(own) for own in word_numbers[1:]])
        return cls(names, rows, np.concatenate(word_numbers, dtype=np.int64), len(texts))

    def rates(self, rows: Indices, labels: Indices, count: int) -> ClassScores:
        """(labels, words): log of how often a label's texts have a word, less the labels' mean.

        `rows` are texts and `labels` theirs. A label without a text has the overall rates.
        """
        label_of = np.full(self.count, -1)
        label_of[rows] = labels
        sizes = np.bincount(labels, minlength=count)
        texts_with_word = self._texts_with_word(label_of[self.texts], count)
        overall = texts_with_word.sum(0) / max(1, len(rows)) + 1e-9

        # Additive smoothing towards the overall rate.
        smoothed = texts_with_word + PRIOR_TEXTS * overall
        rates: ClassScores = np.log(smoothed / (sizes[:, None] + PRIOR_TEXTS))
        rates -= rates.mean(0)
        return rates

    def _texts_with_word(self, occurrence_labels: Indices, count: int) -> Indices:
        """(labels, words): how many texts of a label have a word.

        `occurrence_labels` has the label of each occurrence's text, or -1.
        """
        labelled = occurrence_labels >= 0
        words = len(self.names)
        cells = occurrence_labels[labelled] * words + self.words[labelled]
        return np.bincount(cells, minlength=count * words).reshape(count, words)

    def scores(self, rates: ClassScores) -> ClassScores:
        """(texts, labels): the sum of the rates of a text's words, over the root of their number."""
        length = np.sqrt(np.maximum(1, np.bincount(self.texts, minlength=self.count)))
        scores = np.empty((self.count, len(rates)))

        # One label at a time: a weight for every occurrence and label would not fit in memory.
        for label, rate in enumerate(rates):
            scores[:, label] = np.bincount(
                self.texts, weights=rate[self.words], minlength=self.count
            )

        scores /= length[:, None]
        return scores

    def typical(self, labels: Indices, count: int, number: int) -> list[list[str]]:
        """For each label the `number` words that distinguish it best, the best first."""
        rates = self.rates(np.arange(self.count), labels, count)
        weights = self._texts_with_word(labels[self.texts], count) * rates
        best = np.argsort(-weights, axis=1, kind="stable")[:, :number]
        return [
            [self.names[word] for word in best[label] if weights[label, word] > 0]
            for label in range(count)
        ]


def common_words(texts: Sequence[str]) -> list[str]:
    """Words and pairs of words in at least 3 texts and at most half of them, frequent ones first."""
    counts = Counter(word for text in texts for word in words_and_pairs(text[:WORD_CHARS]))
    most = max(MIN_TEXTS_OF_WORD, MAX_SHARE_OF_WORD * len(texts))
    common = [word for word, count in counts.items() if MIN_TEXTS_OF_WORD <= count <= most]
    return sorted(common, key=lambda word: (-counts[word], word))


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The rows (N, K) of each text's nearest others and their weights (N, K), which sum to 1."""

    rows: Indices
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, vectors: Vectors) -> Neighbours:
        """Search unit vectors (N, D) exhaustively, N at least 2; K is NEIGHBOURS or N - 1."""
        most = min(NEIGHBOURS, len(vectors) - 1)
        rows = np.empty((len(vectors), most), np.int64)
        weights = np.empty((len(vectors), most), np.float32)

        size = max(1, BLOCK_CELLS // len(vectors))
        for start in range(0, len(vectors), size):
            cosines = vectors[start : start + size] @ vectors.T
            block_rows = np.arange(len(cosines))
            # A text is not its own neighbour.
            cosines[block_rows, start + block_rows] = -np.inf

            nearest = np.argpartition(-cosines, most - 1, axis=1)[:, :most]
            logits = NEIGHBOUR_SHARPNESS * np.take_along_axis(cosines, nearest, axis=1)
            rows[start : start + size] = nearest
            weights[start : start + size] = softmax(logits, axis=1)

        return cls(rows, weights)

    def scores(self, rows: Indices, labels: Indices, count: int) -> ClassScores:
        """(N, count): the weight of the neighbours among `rows` that have each of their `labels`."""
        scores = np.empty((len(self.rows), count))
        for label in range(count):
            has_label = np.zeros(len(self.rows))
            has_label[rows[labels == label]] = 1
            scores[:, label] = (self.weights * has_label[self.rows]).sum(1)

        return scores


def linear_head(vectors: Vectors, labels: Indices, count: int) -> tuple[Vectors, Vectors]:
    """Softmax regression: weights (L, D) and biases (L,), every label that occurs weighing alike.

    Adam from zero over a fixed number of steps; a label without texts ends below all others.
    """
    rows = np.arange(len(labels))
    text_weights = (1 / np.bincount(labels, minlength=count)[labels]).astype(np.float32)
    text_weights /= text_weights.sum()
    # The bias is the weight of a constant input.
    inputs = np.concatenate([vectors, np.ones((len(vectors), 1), np.float32)], axis=1)
    weights = np.zeros((count, inputs.shape[1]), np.float32)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)

    for step in range(1, HEAD_STEPS + 1):
        errors = softmax(inputs @ weights.T, axis=1)
        errors[rows, labels] -= 1
        errors *= text_weights[:, None]
        gradient = errors.T @ inputs
        gradient[:, :-1] += HEAD_DECAY * weights[:, :-1]

        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        unbiased_mean = mean / (1 - 0.9**step)
        unbiased_square = square / (1 - 0.99**step)
        weights -= HEAD_RATE * unbiased_mean / (np.sqrt(unbiased_square) + 1e-8)

    return weights[:, :-1].copy(), weights[:, -1].copy()


def standardized(scores: ClassScores, labels: Indices) -> ClassScores:
    """Scores (N, L) of mean 0 by row and class prior 0 by column, over their standard deviation.

    Views of any scale can then be added up.
    """
    result: ClassScores = scores - scores.mean(1, keepdims=True)
    result -= class_prior(result, labels)
    result /= max(float(result.std()), 1e-12)
    return result


def class_prior(scores: ClassScores, labels: Indices) -> NDArray[np.float64]:
    """The mean score of each label (L,), where the texts of every label that occurs weigh alike.

    The plain mean would be higher for a label with many texts, and count against it.
    """
    means = np.stack([scores[labels == label].mean(0) for label in np.unique(labels)])
    prior: NDArray[np.float64] = means.mean(0)
    return prior


def combine_views(views: Sequence[ClassScores], factors: Sequence[float]) -> ClassScores:
    """The sum of standardized views (N, L), each times its factor and its `view_weights`."""
    total = np.zeros_like(views[0])
    for view, factor, weight in zip(views, factors, view_weights(views), strict=True):
        for part in row_blocks(view):
            total[part] += factor * weight * view[part]

    return total


def view_weights(views: Sequence[ClassScores]) -> list[float]:
    """How far each view (N, L) can be trusted; the most trusted one weighs 1.

    The square of the logarithm of how much likelier than by chance it chooses the label that the
    sum of the others does. Two views agree with each other alike, and weigh the same.
    """
    texts, labels = views[0].shape
    agreeing = np.zeros(len(views), np.int64)
    for part in row_blocks(views[0]):
        total = sum((view[part] for view in views[1:]), views[0][part])
        agreeing += [
            (view[part].argmax(1) == (total - view[part]).argmax(1)).sum() for view in views
        ]

    squares = []
    for count in agreeing.tolist():
        share = min(MAX_AGREEMENT, count / texts)
        odds = max(1e-9, share * (labels - 1) / (1 - share))
        squares.append(max(0.0, np.log(odds)) ** 2)

    most = max(squares)
    return [square / most if most else 1.0 for square in squares]


def row_blocks(scores: ClassScores) -> Iterator[slice]:
    """Slices of rows, so small that temporary arrays take little beside the whole."""
    size = max(1, PART_CELLS // scores.shape[1])
    return (slice(start, start + size) for start in range(0, len(scores), size))
