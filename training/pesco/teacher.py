"""Pseudo-labels: vectors of texts and label prompts -> a label and a confidence for each text. Numpy only.

The paper's teacher is the cosine alone (eq. 1 and 2). Beyond it, a teacher can subtract each label's mean, and listen
to further views that are learnt from the labels it is surest of: a linear head and centroids over the vectors, the
labels of the nearest texts, and the words of the texts. Views err on different texts, so that together they are right
more often than each (co-training, Blum and Mitchell 1998); each weighs as much as the others agree with it. The prompts
stay one of them, so that the labels keep their meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from index.encoder import Vectors
from index.errors import InvalidInput
from training.config import in_range
from training.pesco.texts import words

View = Literal["prompts", "centroids", "head", "neighbours", "words"]
Scores = NDArray[np.float64]
Rows = NDArray[np.int64]

SHARPNESS = 0.07  # the temperature under which cosines become probabilities
LEVELLED = 5  # times that labels and their levels are worked out
ALIGNED = 100  # times that offsets are moved towards equal probabilities
SURE = 0.2  # of an even part of the texts, on which a check asks whether labels stayed
HEAD_STEPS, HEAD_RATE, HEAD_DECAY = 150, 0.3, 1e-4
MIN_TEXTS_OF_WORD, MAX_SHARE_OF_WORD = 3, 0.5
WORD_CHARS = 4_000  # of a text, whose words are looked at
MAX_WORDS = 200_000
MAX_RATES = 1 << 25  # words times labels
NEIGHBOURS = 20  # nearest texts that are asked
NEARNESS = 10.0  # the factor of their cosines in their weights' exponent
MAX_AGREEMENT = 0.99  # beyond which views do not weigh more
BLOCK_CELLS = 1 << 24  # cosines held at once: 64 MiB
PART_CELLS = 1 << 20  # scores looked at once: 8 MiB
PRIOR = 2.0  # texts' worth of the overall rate that a word's rate in a label starts with
MAX_CELLS = 1 << 27  # texts times labels: at the 57 bytes that `teach` takes for each, 7.7 GB


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """How pseudo-labels come about; Teacher(calibrate=False, views=("prompts",), confidence="score") is the paper's.

    `calibrate` subtracts each label's level, its mean cosine over texts of all labels alike; `align` goes on until the
    labels' probabilities have equal sums. `views` are added up, scaled and weighed (`scaled`, `weights`); all but the
    prompts are learnt `len(shares)` times from the labels there are, from that share of an even part of the pool for
    each label, the surest first. The prompts' weight beside them falls by the factor `fading` each time: the first
    labels are theirs, the last ones mostly those of the texts. `blend` is the weight of the earlier rounds' scores.
    """

    calibrate: bool = True
    align: bool = False
    views: tuple[View, ...] = ("prompts", "head", "neighbours", "words")
    shares: tuple[float, ...] = (0.3, 0.5, 0.8, 0.8)
    fading: float = 0.5
    confidence: Literal["margin", "score"] = "margin"
    blend: float = 0.0

    def __post_init__(self) -> None:
        if not self.views or len(set(self.views)) < len(self.views):
            raise InvalidInput("A teacher needs at least one view, and each once.", field="views")
        if self.views != ("prompts",) and not self.shares:
            raise InvalidInput("Views that are learnt need at least one share.", field="shares")
        for share in self.shares:
            in_range("shares", share, 0.001, 1.0)
        in_range("fading", self.fading, 0.0, 1.0)
        in_range("blend", self.blend, 0.0, 0.99)


@dataclass(frozen=True, slots=True)
class WordIndex:
    """Which of `names` each text has: entry i says that text `texts[i]` has word `words[i]`; `count` texts."""

    names: list[str]
    texts: Rows
    words: Rows
    count: int

    @classmethod
    def of(cls, texts: Sequence[str], labels: int = 2) -> WordIndex:
        """Words and pairs of words of at least 3 texts and at most half of them; fewer of them for very many labels.

        Texts are gone through twice, so that no more is held of them than the numbers of such words.
        """
        names = usual(texts)[: min(MAX_WORDS, MAX_RATES // labels)]
        numbers = {word: number for number, word in enumerate(names)}
        found = [np.empty(0, np.int32)]
        for text in texts:
            known = sorted(word for word in words(text[:WORD_CHARS]) if word in numbers)
            found.append(np.array([numbers[word] for word in known], np.int32))
        rows = np.repeat(np.arange(len(texts)), [len(known) for known in found[1:]])
        return cls(names, rows, np.concatenate(found, dtype=np.int64), len(texts))

    def rates(self, rows: Rows, labels: Rows, count: int) -> Scores:
        """(labels, words): log of how often a label's texts have a word, less its mean over the labels.

        A label without a text has the overall rates.
        """
        label_of = np.full(self.count, -1)
        label_of[rows] = labels
        of_entry = label_of[self.texts]
        sizes = np.bincount(labels, minlength=count)
        seen = self._seen(of_entry, count)
        overall = seen.sum(0) / max(1, len(rows)) + 1e-9
        rates: Scores = np.log((seen + PRIOR * overall) / (sizes[:, None] + PRIOR))
        rates -= rates.mean(0)
        return rates

    def _seen(self, of_entry: Rows, count: int) -> Rows:
        """How many texts of each label have each word (labels, words), by each entry's label, -1 for none."""
        there = of_entry >= 0
        cells = of_entry[there] * len(self.names) + self.words[there]
        return np.bincount(cells, minlength=count * len(self.names)).reshape(count, len(self.names))

    def scores(self, rates: Scores) -> Scores:
        """(texts, labels): the sum of the rates of a text's words over the square root of their number."""
        length = np.sqrt(np.maximum(1, np.bincount(self.texts, minlength=self.count)))
        found = np.empty((self.count, len(rates)))
        for label, rate in enumerate(rates):
            found[:, label] = np.bincount(
                self.texts, weights=rate[self.words], minlength=self.count
            )
        found /= length[:, None]
        return found

    def typical(self, labels: Rows, count: int, number: int) -> list[list[str]]:
        """For each label the words that tell it best from the others, the best first."""
        rates, seen = (
            self.rates(np.arange(self.count), labels, count),
            self._seen(labels[self.texts], count),
        )
        weights = seen * rates
        best = np.argsort(-weights, axis=1, kind="stable")[:, :number]
        return [
            [self.names[word] for word in best[k] if weights[k, word] > 0] for k in range(count)
        ]


def usual(texts: Sequence[str]) -> list[str]:
    """Words and pairs of words of at least 3 texts and at most half of them, those of most texts first."""
    counts = Counter(word for text in texts for word in words(text[:WORD_CHARS]))
    most = max(MIN_TEXTS_OF_WORD, MAX_SHARE_OF_WORD * len(texts))
    found = [word for word, count in counts.items() if MIN_TEXTS_OF_WORD <= count <= most]
    return sorted(found, key=lambda word: (-counts[word], word))


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Of each text the rows of the nearest others (N, K) and their weights (N, K), which sum up to 1."""

    rows: Rows
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, vectors: Vectors) -> Neighbours:
        """By exhaustive search among unit vectors (N, D), N at least 2; K is NEIGHBOURS, or N - 1 of fewer texts."""
        most = min(NEIGHBOURS, len(vectors) - 1)
        found, weights = (
            np.empty((len(vectors), most), np.int64),
            np.empty((len(vectors), most), np.float32),
        )
        size = max(1, BLOCK_CELLS // len(vectors))
        for start in range(0, len(vectors), size):
            cosines = vectors[start : start + size] @ vectors.T
            places = np.arange(len(cosines))
            cosines[places, start + places] = -np.inf  # itself
            nearest = np.argpartition(-cosines, most - 1, axis=1)[:, :most]
            found[start : start + size] = nearest
            weights[start : start + size] = softmax(
                NEARNESS * np.take_along_axis(cosines, nearest, axis=1)
            )
        return cls(found, weights)

    def scores(self, rows: Rows, labels: Rows, count: int) -> Scores:
        """(N, count): the weight of the neighbours among `rows` that have each of their `labels`."""
        found = np.empty((len(self.rows), count))
        for label in range(count):
            known = np.zeros(len(self.rows))
            known[rows[labels == label]] = 1
            found[:, label] = (self.weights * known[self.rows]).sum(1)
        return found


@dataclass(frozen=True, slots=True)
class Labelling:
    """What a teacher says: `scores` (N, L), the best label (N,) and a confidence of at least 0 (N,)."""

    scores: Scores
    labels: Rows
    confidence: NDArray[np.float64]

    @classmethod
    def of(cls, scores: Scores, confidence: str = "margin") -> Labelling:
        """By the best score; its margin over the second, or its share in a softmax."""
        labels = scores.argmax(1)
        if confidence == "margin":
            best = [np.partition(scores[part], -2, axis=1)[:, -2:] for part in blocks(scores)]
            two = np.concatenate(best)
            return cls(scores, labels, two[:, 1] - two[:, 0])
        return cls(scores, labels, softmax(scores / SHARPNESS).max(1))


def teach(
    vectors: Vectors, prompts: Vectors, index: WordIndex | None, teacher: Teacher
) -> Labelling:
    """Labels of texts (N, D) by mean prompt vectors (L, D) and what can be learnt from them.

    `index` has the words of the same texts; without it that view is left out.
    """
    refuse_too_many(len(vectors), len(prompts))
    first = calibrated(vectors, prompts, teacher)
    learnt = [view for view in teacher.views if view != "prompts" and (index or view != "words")]
    near = Neighbours.of(vectors) if "neighbours" in learnt else None
    found = Labelling.of(first, teacher.confidence)
    for number, share in enumerate(teacher.shares if learnt else ()):
        rows, labels = surest(found, share, len(prompts))
        before, faded = found.labels, [1.0] * len(learnt)
        del found  # whose scores are as large as a view
        views = [
            scaled(_view(view, vectors, index, near, rows, labels, len(prompts)), before)
            for view in learnt
        ]
        if "prompts" in teacher.views:
            views, faded = [*views, scaled(first, before)], [*faded, teacher.fading**number]
        found = Labelling.of(together(views, faded), "margin")
        del views
    if learnt and teacher.confidence == "score":
        found = Labelling.of(found.scores * SHARPNESS, "score")
    return found


def refuse_too_many(texts: int, labels: int) -> None:
    """Raise InvalidInput where scores of all texts for all labels would not fit in memory."""
    if texts * labels > MAX_CELLS:
        raise InvalidInput(
            f"{texts:,} texts times {labels:,} labels are more than {MAX_CELLS:,} scores: set `limit` in the recipe to "
            f"at most {MAX_CELLS // labels:,} texts.",
            field="limit",
        )


def calibrated(vectors: Vectors, prompts: Vectors, teacher: Teacher) -> Scores:
    """Eq. 2 as (N, L), less the offsets that the teacher subtracts."""
    cosines = (vectors @ prompts.T).astype(np.float64)
    cosines -= offsets(cosines, calibrate=teacher.calibrate, align=teacher.align)
    return cosines


def offsets(cosines: Scores, *, calibrate: bool, align: bool = False) -> NDArray[np.float64]:
    """What to subtract from each label's cosine (L,): nothing, its level, or what makes all labels equally probable."""
    found = np.zeros(cosines.shape[1])
    if calibrate:
        found = cosines.mean(0)
        for _ in range(LEVELLED):
            found = level(cosines, (cosines - found).argmax(1))
    for _ in range(ALIGNED if align else 0):
        share = softmax((cosines - found) / SHARPNESS).mean(0)
        found = found + SHARPNESS * 0.5 * np.log(np.maximum(share, 1e-12) * len(share))
    return found


def level(scores: Scores, labels: Rows) -> NDArray[np.float64]:
    """The mean score of each label (L,), texts of every label that occurs weighing the same.

    The plain mean would count it against a label that it has many texts.
    """
    found: NDArray[np.float64] = np.stack(
        [scores[labels == label].mean(0) for label in np.unique(labels)]
    ).mean(0)
    return found


def surest(found: Labelling, share: float, count: int) -> tuple[Rows, Rows]:
    """Rows and their labels: of each label its surest texts, at most `share` of an even part of all."""
    most = max(1, round(share * len(found.labels) / count))
    order = np.argsort(-found.confidence, kind="stable")
    kept = [order[found.labels[order] == label][:most] for label in range(count)]
    rows = np.concatenate(kept)
    return rows, found.labels[rows]


def together(views: Sequence[Scores], factors: Sequence[float]) -> Scores:
    """The sum of scaled views (N, L), each times its factor and its weight."""
    found = np.zeros_like(views[0])
    for view, factor, weight in zip(views, factors, weights(views), strict=True):
        for part in blocks(view):
            found[part] += factor * weight * view[part]
    return found


def weights(views: Sequence[Scores]) -> list[float]:
    """How far each view (N, L) can be trusted, the most trusted one 1.

    The square of the logarithm of how much likelier than by chance it has the label that the others have together. Two
    views agree with each other alike, and weigh the same.
    """
    texts, labels = views[0].shape
    alike = np.zeros(len(views), np.int64)
    for part in blocks(views[0]):
        total = sum((view[part] for view in views[1:]), views[0][part])
        alike += [(view[part].argmax(1) == (total - view[part]).argmax(1)).sum() for view in views]
    agreed = [min(MAX_AGREEMENT, count / texts) for count in alike.tolist()]
    found = [
        max(0.0, np.log(max(1e-9, share * (labels - 1) / (1 - share)))) ** 2 for share in agreed
    ]
    return [value / max(found) if max(found) else 1.0 for value in found]


def blocks(scores: Scores) -> Iterator[slice]:
    """Rows, some at a time, so that what is worked out of them takes little beside the whole."""
    size = max(1, PART_CELLS // scores.shape[1])
    return (slice(start, start + size) for start in range(0, len(scores), size))


def _view(
    view: View,
    vectors: Vectors,
    index: WordIndex | None,
    near: Neighbours | None,
    rows: Rows,
    labels: Rows,
    count: int,
) -> Scores:
    if view == "words":
        assert index is not None
        return index.scores(index.rates(rows, labels, count))
    if view == "neighbours":
        assert near is not None
        return near.scores(rows, labels, count)
    learn = head if view == "head" else centroids
    weights, bias = learn(vectors[rows], labels, count)
    found = vectors @ weights.T
    found += bias
    return found.astype(np.float64)


def centroids(vectors: Vectors, labels: Rows, count: int) -> tuple[Vectors, Vectors]:
    """The labels' mean vectors at length 1 (L, D), and no bias (L,); that of a label without texts is 0."""
    sums = np.zeros((count, vectors.shape[1]), np.float32)
    np.add.at(sums, labels, vectors)
    found: Vectors = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    return found, np.zeros(count, np.float32)


def head(vectors: Vectors, labels: Rows, count: int) -> tuple[Vectors, Vectors]:
    """Softmax regression: weights (L, D) and biases (L,), every label that occurs weighing the same.

    Adam from zero over a fixed number of steps; a label without texts ends below all others.
    """
    places = np.arange(len(labels))
    share = (1 / np.bincount(labels, minlength=count)[labels]).astype(np.float32)
    share /= share.sum()
    inputs = np.concatenate([vectors, np.ones((len(vectors), 1), np.float32)], axis=1)
    weights = np.zeros((count, inputs.shape[1]), np.float32)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, HEAD_STEPS + 1):
        errors = softmax(inputs @ weights.T)
        errors[places, labels] -= 1
        errors *= share[:, None]
        gradient = errors.T @ inputs
        gradient[:, :-1] += HEAD_DECAY * weights[:, :-1]
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        weights -= (
            HEAD_RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
        )
    return weights[:, :-1].copy(), weights[:, -1].copy()


def scaled(scores: Scores, labels: Rows) -> Scores:
    """Less the means of rows and the level of columns, over the standard deviation: views of any scale can be added."""
    found: Scores = scores - scores.mean(1, keepdims=True)
    found -= level(found, labels)
    found /= max(float(found.std()), 1e-12)
    return found


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Of each row (N, L)."""
    found: NDArray[Any] = logits - logits.max(axis=1, keepdims=True)
    np.exp(found, out=found)
    found /= found.sum(axis=1, keepdims=True)
    return found


def sample(found: Labelling, total: int, count: int, rng: np.random.Generator) -> Rows:
    """About `total` rows, as many of each label that occurs (section 4.3), in random order.

    Within a label the chance is proportional to the confidence. A label with too few texts is sampled up: each of them
    comes, the rest again by chance.
    """
    present = [label for label in range(count) if (found.labels == label).any()]
    each = max(1, total // len(present))
    rows = np.concatenate(
        [_of_label(np.flatnonzero(found.labels == label), found, each, rng) for label in present]
    )
    return rng.permutation(rows)


def _of_label(rows: Rows, found: Labelling, each: int, rng: np.random.Generator) -> Rows:
    chance = found.confidence[rows] + 1e-9
    chance = chance / chance.sum()
    if each <= len(rows):
        return rng.choice(rows, each, replace=False, p=chance)
    return np.concatenate([rows, rng.choice(rows, each - len(rows), p=chance)])


# ---- is it better than before? without a label


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What tells, without a label, whether training made things worse.

    `kept` is the share of the texts that the untrained classifier was surest of, whose label is still the same: labels
    that have lost their meaning lose these too. `halves_before` and `halves` are Cohen's kappa between the labels of
    texts' first and second halves: what a text is about shows in both, and a label that swallows the rest brings it
    towards 0. `spread` is the effective number of labels (exp of the entropy of their shares) over that before.
    """

    kept: float
    halves_before: float
    halves: float
    spread: float

    def verdict(self, limits: Limits) -> str:
        """Why the untrained encoder is to be kept; empty where the trained one is."""
        reasons = []
        if self.kept < limits.kept:
            reasons.append(
                f"{self.kept:.0%} of the surest texts kept their label, {limits.kept:.0%} are asked for"
            )
        if self.halves < self.halves_before - limits.halves:
            reasons.append(
                f"halves of texts agree less than before (kappa {self.halves:.2f}, {self.halves_before:.2f})"
            )
        if self.spread < limits.spread:
            reasons.append(
                f"some labels swallow the rest (the effective number of labels fell to {self.spread:.0%})"
            )
        return "; ".join(reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When the untrained encoder is kept, see Check: less `kept` or `spread` than that, or `halves` lower by more."""

    kept: float = 0.8
    halves: float = 0.0
    spread: float = 0.7

    def __post_init__(self) -> None:
        for name in ("kept", "spread"):
            in_range(name, getattr(self, name), 0.0, 1.0)
        in_range("halves", self.halves, 0.0, 2.0)


def check(before: Labelling, after: Labelling, halves: Sequence[Rows]) -> Check:
    """Of the same texts; `halves` are the labels of first and second halves (n,) before, and after."""
    count = before.scores.shape[1]
    sure, labels = surest(before, SURE, count)
    return Check(
        kept=float((after.labels[sure] == labels).mean()),
        halves_before=kappa(halves[0], halves[1], count),
        halves=kappa(halves[2], halves[3], count),
        spread=effective(after.labels, count) / effective(before.labels, count),
    )


def kappa(one: Rows, other: Rows, count: int) -> float:
    """Cohen's kappa of two labellings of the same texts; 0 where both have one and the same label throughout."""
    shares = [np.bincount(labels, minlength=count) / len(labels) for labels in (one, other)]
    chance = float(shares[0] @ shares[1])
    return 0.0 if chance >= 1.0 else (float((one == other).mean()) - chance) / (1.0 - chance)


def effective(labels: Rows, count: int) -> float:
    """exp of the entropy of the labels' shares: `count` where all are equal, 1 where there is one."""
    shares = np.bincount(labels, minlength=count) / len(labels)
    used = shares[shares > 0]
    return float(np.exp(-(used * np.log(used)).sum()))
