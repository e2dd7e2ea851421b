"""Heads and temperatures, on vectors whose right labels are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from purlin.index.classify.scores import shared_scores
from purlin.training.pesco import serving
from purlin.training.pesco.round_state import ROUND_STATE, RoundState
from purlin.training.pesco.serving import cross_fitted_scores, distill_head, fit_temperature
from purlin.training.pesco.teacher import class_offsets
from purlin.training.pesco.views import linear_head
from tests.support.blobs import blobs
from tests.training.pesco.topics import quiet, recipe_of, training_of

pytestmark = pytest.mark.usefixtures("one_process", "graphs_once")


def test_temperature_follows_the_first_teacher(base: Path, tmp_path: Path) -> None:
    training = training_of(recipe_of(base, rounds=2), tmp_path)
    trained = training.train(quiet, lambda line: None)
    classifier = serving.calibrated_classifier(training, 2, trained)
    embeddings = training.embeddings(2, trained)

    pool, prompts = embeddings.texts, embeddings.prompts
    offsets = training.prompt_offsets(pool, prompts)
    scores = cross_fitted_scores(pool, training.pseudo_labels(2), prompts, offsets)
    first_labels = np.eye(2)[training.pseudo_labels(0)]
    assert classifier.temperature == fit_temperature(scores, first_labels)

    # A first teacher that agrees less makes scores less confident.
    path = training.round_directory(0) / ROUND_STATE
    state = RoundState.read(path)
    state.scores[::3] *= -1
    state.write(path)
    doubtful = serving.calibrated_classifier(training, 2, trained)
    assert doubtful.temperature > classifier.temperature


def test_without_rounds_expected_shares_are_between_teacher_and_prompts(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = training_of(recipe_of(base, rounds=0), tmp_path)
    text_model = training.train(quiet, lambda line: None)
    embeddings = training.embeddings(0, text_model)
    by_prompts = shared_scores(embeddings.texts @ embeddings.prompts.T)
    labels = training.pseudo_labels(0)

    shares = serving.expected_shares(training, 0, embeddings)
    np.testing.assert_allclose(shares, (by_prompts + np.eye(2)[labels]) / 2)

    # Of many texts a sample counts, in the expected shares and in the scores alike.
    monkeypatch.setattr(serving, "MAX_SCORES_FOR_TEMPERATURE", shares.size // 3)
    np.testing.assert_array_equal(serving.expected_shares(training, 0, embeddings), shares[::3])
    serving.calibrated_classifier(training, 0, text_model)


@pytest.mark.parametrize("accuracy", [0.6, 0.9])
def test_head_is_not_as_sure_as_it_agrees_with_its_teacher(accuracy: float) -> None:
    """Scores of a head on the labels of a teacher that errs at random follow the targets."""
    rng = np.random.default_rng(3)
    texts, right, prompts = blobs((150,) * 4)
    shuffled = rng.permutation(len(texts))
    texts, right = texts[shuffled], right[shuffled]
    scores = cross_fitted_scores(texts, right, prompts, np.zeros(4))

    # What is expected is the label's share, and the rest shared by the others.
    targets = np.full(scores.shape, (1 - accuracy) / 3)
    targets[np.arange(len(right)), right] = accuracy
    best = softmax(scores / fit_temperature(scores, targets), axis=1).max(1)
    certain = softmax(scores / fit_temperature(scores, np.eye(4)[right]), axis=1).max(1)

    assert best.mean() == pytest.approx(accuracy, abs=0.03)
    assert certain.mean() > 0.95


def test_label_without_texts_keeps_its_prompts() -> None:
    every, labels, prompts = blobs((120,) * 4)
    # Every second text is held out.
    texts, labels = every[1::2], labels[::2]
    pool = every[::2][labels < 3]
    offsets = class_offsets((pool @ prompts.T).astype(np.float64), calibrate=True)
    vectors, offset = distill_head(pool, labels[labels < 3], prompts, offsets)
    predicted = (texts @ vectors.T - offset).argmax(1)

    assert (predicted[labels == 3] == 3).mean() > 0.9
    assert (predicted[labels < 3] == labels[labels < 3]).mean() > 0.95
    weights, bias = linear_head(pool, labels[labels < 3], 4)
    # A head alone never predicts the absent label.
    assert ((texts @ weights.T + bias).argmax(1) != 3).all()


def test_prompts_weigh_more_with_fewer_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, labels, prompts = blobs((15,) * 4)
    # The teacher takes texts of label 1 for those of label 2.
    pseudo_labels = np.where(labels == 1, 2, labels)[labels != 2]
    pool, offsets = texts[labels != 2], np.zeros(4)
    label_scores = {}

    for worth in (0, 15, 1_000_000):
        monkeypatch.setattr(serving, "PROMPT_WEIGHT_TEXTS", worth)
        vectors, offset = distill_head(pool, pseudo_labels, prompts, offsets)
        assert vectors.dtype == np.float32
        assert offset.dtype == np.float64
        scores = pool @ vectors.T - offset
        label_scores[worth] = scores[labels[labels != 2] == 1][:, [1, 2]].mean(0)
        weights, bias = linear_head(pool, pseudo_labels, 4)
        present = [0, 2, 3]
        expected = {0: pool @ weights.T + bias, 1_000_000: pool @ prompts.T}.get(worth)
        if expected is not None:
            np.testing.assert_array_equal(
                scores[:, present].argmax(1), expected[:, present].argmax(1)
            )
    assert label_scores[0][1] > label_scores[15][1] > label_scores[1_000_000][1]


def test_cross_fitting_ignores_the_held_out_fold() -> None:
    rng = np.random.default_rng(4)
    texts, _, prompts = blobs((50,) * 4)
    texts, labels, offsets = texts[rng.permutation(200)], rng.integers(4, size=200), np.zeros(4)
    vectors, offset = distill_head(texts, labels, prompts, offsets)
    by_heart = ((texts @ vectors.T - offset).argmax(1) == labels).mean()
    scores = cross_fitted_scores(texts, labels, prompts, offsets)

    assert by_heart > 0.3 > (scores.argmax(1) == labels).mean()
    present = np.arange(200) % 5 != 2
    vectors, offset = distill_head(texts[present], labels[present], prompts, offsets)
    np.testing.assert_allclose(scores[2::5], texts[2::5] @ vectors.T - offset, atol=1e-5)


def test_single_label_trains_no_head() -> None:
    texts, labels, prompts = blobs((20,) * 4)
    offsets = np.zeros(4)
    vectors, offset = distill_head(texts, np.zeros_like(labels), prompts, offsets)
    assert vectors is prompts
    assert offset is offsets


def test_temperature_maximizes_likelihood() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=4000)
    scores = 0.1 * np.eye(3)[labels] + 0.05 * rng.standard_normal((4000, 3))
    temperature = fit_temperature(scores, np.eye(3)[labels])

    # For Gaussians it is the variance over the distance.
    assert temperature == pytest.approx(0.05**2 / 0.1, rel=0.1)
