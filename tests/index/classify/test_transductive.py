"""Texts that are classified together, compared with plain arithmetic over all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from purlin.index.classify.transductive import (
    NEIGHBOURS,
    PRIOR_SHARE,
    PRIOR_TEXTS,
    _neighbour_count,
    average_neighbours,
    transductive_vectors,
)
from purlin.index.encoder import Vectors


def _unit(count: int, dim: int = 16, seed: int = 0) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("count", [1, 2, NEIGHBOURS, 300])
def test_averages_are_those_of_all_pairs(count: int) -> None:
    texts = _unit(count)
    averaged = average_neighbours(texts)

    for row in range(0, count, 7):
        cosines = np.delete(texts @ texts[row], row)
        others = np.delete(texts, row, axis=0)
        nearest = np.argsort(-cosines)[:NEIGHBOURS]
        weights = np.maximum(cosines[nearest], 0) ** 2
        expected = (texts[row] + weights @ others[nearest]) / (1 + weights.sum())
        assert averaged[row] == pytest.approx(expected, abs=1e-5)


def test_few_texts_of_many_labels_have_few_neighbours() -> None:
    # Four texts a label, each beside its label: of 20 neighbours 17 have other labels.
    labels = _unit(10)
    texts = np.repeat(labels, 4, axis=0) + 0.1 * _unit(40, seed=1)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)

    assert _neighbour_count(texts, labels) == 2
    assert _neighbour_count(texts, np.concatenate([labels, -labels])) == 2
    assert _neighbour_count(np.repeat(texts, 40, axis=0), labels) == NEIGHBOURS
    assert _neighbour_count(texts[:1], labels) == 0
    # Where one label has nearly all texts, most neighbours have it, too.
    unequal = np.concatenate([np.repeat(texts[:1], 36, axis=0), texts[4::9]])
    assert len(unequal) == len(texts)
    assert _neighbour_count(unequal, labels) > 12

    together = transductive_vectors(texts, labels)
    assert (together @ labels.T).argmax(axis=1).tolist() == np.repeat(np.arange(10), 4).tolist()
    own = np.take_along_axis(together @ labels.T, np.repeat(np.arange(10), 4)[:, None], 1).mean()
    blurred = average_neighbours(texts, NEIGHBOURS) @ labels.T
    assert own > np.take_along_axis(blurred, np.repeat(np.arange(10), 4)[:, None], 1).mean()


def test_a_label_near_to_all_texts_loses_a_part_of_its_lead() -> None:
    texts, labels = _unit(200), _unit(3, seed=1)
    labels[0] += texts.mean(axis=0) * 20
    lead = (average_neighbours(texts) @ labels.T)[:, 0].mean()
    left = (transductive_vectors(texts, labels) @ labels.T)[:, 0].mean()

    share = PRIOR_SHARE * 200 / (200 + PRIOR_TEXTS)
    assert left == pytest.approx((1 - share) * lead, rel=0.35)
    assert left < lead


def test_results_do_not_depend_on_the_order() -> None:
    texts, labels = _unit(300), _unit(4, seed=1)
    order = np.random.default_rng(2).permutation(300)
    vectors = transductive_vectors(texts, labels)
    assert transductive_vectors(texts[order], labels) == pytest.approx(vectors[order], abs=1e-5)


def test_a_repeated_text_and_opposite_ones_have_finite_vectors() -> None:
    text = _unit(1)
    texts = np.concatenate([text] * 30 + [-text])
    assert np.isfinite(transductive_vectors(texts, _unit(2, seed=1))).all()
