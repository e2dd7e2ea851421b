"""Which word translates which, learnt from translated texts: IBM model 1 (Brown et al., 1993).

Each word of a text is taken to come from one word of its translation, or from none; expectation
maximization finds how probable each word is as the translation of each other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Words = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs of words that occur together: arrays (pairs,), sorted by `source`.

    `probability` is that of the target word as the translation of the source word, `inverse` the
    share of the target word's occurrences that come from the source word.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    probability: NDArray[np.float32]
    inverse: NDArray[np.float32]


def align(sources: Words, targets: Words, *, rounds: int = 6) -> Alignment:
    """Align the words, from 0, of texts with those of their translations, in `rounds` of maximization.

    Needs about 40 bytes for each pair of words in a text and its translation.
    """
    count = 1 + max(chain.from_iterable(targets), default=0)
    # A target word that no word of the source explains comes from this one.
    nothing = 1 + max(chain.from_iterable(sources), default=0)
    keys, starts = _pairs_of_words(sources, targets, nothing, count)
    pairs, pair_of = _distinct(keys)
    del keys
    source, target = pairs // count, pairs % count

    probability = np.ones(len(pairs), np.float32)
    for _ in range(rounds):
        shares = probability[pair_of]
        totals = np.add.reduceat(shares, starts)
        shares /= np.repeat(totals, np.diff(starts, append=len(shares)))
        counts = np.bincount(pair_of, weights=shares, minlength=len(pairs))
        probability = (counts / np.bincount(source, weights=counts)[source]).astype(np.float32)

    inverse = (counts / np.bincount(target, weights=counts)[target]).astype(np.float32)
    is_word = source != nothing
    return Alignment(source[is_word], target[is_word], probability[is_word], inverse[is_word])


def _pairs_of_words(
    sources: Words, targets: Words, nothing: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a key for each target word with each word of its source, and where each target's begin."""
    with_nothing = np.fromiter(
        chain.from_iterable((*words, nothing) for words in sources), np.int64
    )
    source_sizes = np.fromiter(map(len, sources), np.int64) + 1
    source_starts = np.cumsum(source_sizes) - source_sizes

    target_words = np.fromiter(chain.from_iterable(targets), np.int64)
    text_of = np.repeat(np.arange(len(targets)), np.fromiter(map(len, targets), np.int64))
    sizes = source_sizes[text_of]
    starts = np.cumsum(sizes) - sizes

    keys = np.arange(sizes.sum())
    keys += np.repeat(source_starts[text_of] - starts, sizes)
    keys = with_nothing[keys] * count
    keys += np.repeat(target_words, sizes)
    return keys, starts


def _distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the distinct keys in order, and the number of each key among them, in half the memory of `np.unique`."""
    order = np.argsort(keys)
    ordered = keys[order]
    is_first = np.diff(ordered, prepend=-1) > 0
    numbers = np.empty(len(keys), np.int32)
    numbers[order] = np.cumsum(is_first) - 1
    return ordered[is_first], numbers


def best_translations(
    alignment: Alignment, words: int, usable: NDArray[np.bool_], *, count: int, least: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the best target words (words, count) of each source word, and the shares of these.

    Of target words those that are `usable` (targets,) count. The best have the highest product of
    `probability`, which is at least `least`, and the root of `inverse`: alone, the first would choose
    words that are frequent in any text. Shares are probabilities, scaled to a sum of 1; a target word
    that is missing is 0, with a share of 0.
    """
    likely = (alignment.probability >= least) & usable[alignment.target]
    source, target = alignment.source[likely], alignment.target[likely]
    probability = alignment.probability[likely]
    scores = probability * np.sqrt(alignment.inverse[likely])

    order = np.lexsort((-scores, source))
    source, target, probability = source[order], target[order], probability[order]
    ranks = np.arange(len(source)) - np.searchsorted(source, source)
    best = ranks < count

    translations = np.zeros((words, count), np.int64)
    shares = np.zeros((words, count), np.float32)
    translations[source[best], ranks[best]] = target[best]
    shares[source[best], ranks[best]] = probability[best]
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
    return translations, shares
