"""Views of texts: words, neighbours, heads, and their weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from purlin.training.pesco import views
from purlin.training.pesco.views import (
    Neighbours,
    WordIndex,
    class_prior,
    combine_views,
    linear_head,
    standardized,
    view_weights,
)
from tests.support.blobs import blobs, unit


def test_word_rates_match_a_count() -> None:
    texts = ["good good one", "good two", "good bad", "bad one", "bad two", "bad"]
    index = WordIndex.of(texts)

    assert index.names == ["good"]  # of at least 3 texts; "bad" is in more than half
    labels = np.array([0, 0, 0, 1, 1, 1])
    rates = index.rates(np.arange(6), labels, 2)
    expected = np.log([(3 + 2 * 3 / 6) / (3 + 2), (0 + 2 * 3 / 6) / (3 + 2)])
    assert rates[:, 0] == pytest.approx(expected - expected.mean(), abs=1e-6)
    assert index.scores(rates)[0] == pytest.approx(rates[:, 0])
    assert index.typical(labels, 2, 5) == [["good"], []]


def test_only_first_characters_are_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "WORD_CHARS", 8)
    texts = ["good one late", "fine two late", "good six late", "good ten late", *"abc"]
    index = WordIndex.of(texts)
    assert index.names == ["good"]
    assert index.texts.tolist() == [0, 2, 3]


def test_texts_without_common_words_score_nothing() -> None:
    index = WordIndex.of(["a", "b", "c"])
    assert index.names == []
    assert (
        index.scores(index.rates(np.arange(3), np.zeros(3, np.int64), 2)).tolist() == [[0, 0]] * 3
    )


def test_neighbours_match_a_loop() -> None:
    rng = np.random.default_rng(6)
    vectors, labels = unit(rng.standard_normal((40, 5))), rng.integers(3, size=40)
    rows = np.flatnonzero(rng.random(40) < 0.7)
    scores = Neighbours.of(vectors).scores(rows, labels[rows], 3)

    for text in range(40):
        others = sorted(
            (candidate for candidate in range(40) if candidate != text),
            key=lambda candidate: -vectors[text] @ vectors[candidate],
        )
        near = others[: views.NEIGHBOURS]
        likeness = np.exp([10 * float(vectors[text] @ vectors[candidate]) for candidate in near])
        expected = [
            sum(
                weight
                for candidate, weight in zip(near, likeness, strict=True)
                if candidate in rows and labels[candidate] == label
            )
            for label in range(3)
        ]
        assert scores[text] == pytest.approx(np.array(expected) / likeness.sum(), abs=1e-5)


def test_few_texts_have_few_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = unit(np.random.default_rng(7).standard_normal((9, 4)))
    whole = Neighbours.of(vectors)

    assert whole.rows.shape == (9, 8)
    assert all(text not in row for text, row in enumerate(whole.rows))
    monkeypatch.setattr(views, "BLOCK_CELLS", 20)  # two rows at a time
    rows = np.arange(9)
    assert Neighbours.of(vectors).scores(rows, rows, 9) == pytest.approx(
        whole.scores(rows, rows, 9)
    )


def test_view_weights_follow_agreement() -> None:
    rng = np.random.default_rng(8)
    labels = rng.integers(4, size=2000)
    right = np.eye(4)[labels]
    *guesses, guessing = (np.eye(4)[rng.integers(4, size=2000)] for _ in range(3))
    noisy = [np.where((rng.random(2000) < 0.8)[:, None], right, guess) for guess in guesses]

    assert view_weights([*noisy, guessing])[2] < 0.1
    assert min(view_weights([*noisy, right])) > 0.5
    assert view_weights(noisy) == [1.0, 1.0]
    assert view_weights([right, 1 - right]) == [1.0, 1.0]
    combined = combine_views([*noisy, guessing], [1.0, 1.0, 1.0]).argmax(1)
    assert (combined == labels).mean() > (sum([*noisy, guessing]).argmax(1) == labels).mean()


def test_absent_labels_are_not_predicted() -> None:
    texts, labels, _ = blobs()
    weights, bias = linear_head(texts[labels < 2], labels[labels < 2], 4)
    predicted = (texts[labels < 2] @ weights.T + bias).argmax(1)
    assert (predicted == labels[labels < 2]).mean() > 0.95
    assert weights.shape == (4, 12)


@given(
    arrays.arrays(np.float64, (7, 3), elements=st.floats(-5, 5)),
    st.lists(st.integers(0, 2), min_size=7, max_size=7),
)
def test_standardized_views_have_no_class_prior(scores: np.ndarray, labels: list[int]) -> None:
    standard = standardized(scores, np.array(labels))
    assert class_prior(standard, np.array(labels)) == pytest.approx(np.zeros(3), abs=1e-6)
    assert np.isfinite(standard).all()
