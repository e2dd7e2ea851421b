"""Pseudo-labels on vectors whose right labels are known."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from purlin.index.classify.transductive import effective_labels
from purlin.index.errors import InvalidInput
from purlin.training.pesco import views
from purlin.training.pesco.check import (
    CheckLimits,
    TrainingCheck,
    check_training,
    cohens_kappa,
)
from purlin.training.pesco.teacher import (
    ModelVectors,
    PseudoLabels,
    Teacher,
    check_pool_size,
    class_offsets,
    most_confident,
    pseudo_label,
    sample_balanced,
)
from purlin.training.pesco.views import (
    Neighbours,
    View,
    WordIndex,
    class_prior,
    combine_views,
    linear_head,
    standardized,
    view_weights,
)
from tests.support.blobs import blobs, unit

PAPERS_TEACHER = Teacher(calibrate=False, views=("prompts",), confidence="score")


def test_papers_teacher_chooses_nearest_prompt() -> None:
    texts, _, prompts = blobs()
    pseudo_labels = pseudo_label([ModelVectors(texts, prompts)], None, PAPERS_TEACHER)

    for row, vector in enumerate(texts):
        cosines = [float(vector @ prompt) for prompt in prompts]
        assert pseudo_labels.labels[row] == int(np.argmax(cosines))
        shares = np.exp(np.array(cosines) / 0.07)
        assert pseudo_labels.confidence[row] == pytest.approx(shares.max() / shares.sum(), rel=1e-4)


def test_calibration_corrects_a_biased_prompt() -> None:
    texts, labels, prompts = blobs()
    biased = prompts + np.array([[0.0], [0.0], [1.0]], np.float32) * texts.mean(0) * 3
    plain = pseudo_label([ModelVectors(texts, biased)], None, PAPERS_TEACHER)
    calibrated = pseudo_label([ModelVectors(texts, biased)], None, Teacher(views=("prompts",)))
    assert (plain.labels == labels).mean() < 0.7 < 0.85 < (calibrated.labels == labels).mean()


@pytest.mark.parametrize("views", [("prompts", "head"), ("head",), ("prompts", "neighbours")])
def test_learnt_views_beat_prompts(views: tuple[View, ...]) -> None:
    texts, labels, prompts = blobs((200, 200, 200), noise=0.9)
    plain, learnt = (
        pseudo_label([ModelVectors(texts, prompts)], None, Teacher(views=each)).labels
        for each in (("prompts",), views)
    )
    assert (learnt == labels).mean() > (plain == labels).mean()


@pytest.mark.parametrize("view", ["prompts", "head"])
def test_models_correct_each_other(view: View) -> None:
    """Each model sees one half of what tells four labels apart, and so is right about two pairs."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(4), 50)
    halves = np.stack([labels // 2, labels % 2])
    own = [
        unit(np.eye(2, 8)[half] + 0.5 * rng.standard_normal((200, 8)) / np.sqrt(8))
        for half in halves
    ]
    prompts = [
        np.eye(2, 8, dtype=np.float32)[[0, 0, 1, 1]],
        np.eye(2, 8, dtype=np.float32)[[0, 1] * 2],
    ]
    first, second = (
        ModelVectors(texts, directions) for texts, directions in zip(own, prompts, strict=True)
    )
    teacher = Teacher(views=("prompts",) if view == "prompts" else ("prompts", view))

    right = [
        float((pseudo_label(models, None, teacher).labels == labels).mean())
        for models in ([first], [second], [first, second])
    ]
    assert max(right[:2]) < 0.6
    assert right[2] > 0.95


def test_words_help_where_vectors_are_ambiguous() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=400)
    texts = [" ".join(rng.choice([f"{'ab'[label]}{n}" for n in range(6)], 4)) for label in labels]
    vectors = unit(np.eye(2, 8)[labels] * 0.5 + rng.standard_normal((400, 8)) / 2)
    prompts = unit(np.eye(2, 8))
    index = WordIndex.of(texts)

    def accuracy(words: WordIndex | None, fading: float) -> float:
        teacher = Teacher(views=("prompts", "words"), fading=fading)
        pseudo_labels = pseudo_label([ModelVectors(vectors, prompts)], words, teacher)
        return float((pseudo_labels.labels == labels).mean())

    plain, steady, fading = accuracy(None, 0.5), accuracy(index, 1.0), accuracy(index, 0.5)
    assert plain < 0.9 < 0.95 < steady < fading


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


def test_texts_without_common_words() -> None:
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


def test_calibration_keeps_frequent_labels() -> None:
    texts, labels, prompts = blobs((300, 30, 30))
    cosines = (texts @ prompts.T).astype(np.float64)
    right = [
        float(((cosines - offsets).argmax(1) == labels).mean())
        for offsets in (class_offsets(cosines, calibrate=True), cosines.mean(0))
    ]

    assert right[0] > 0.85 > 0.7 > right[1]
    assert class_prior(cosines, labels) == pytest.approx(
        np.mean([cosines[labels == k].mean(0) for k in range(3)], axis=0)
    )


@pytest.mark.parametrize("confidence", ["margin", "score"])
def test_confidence_grows_with_the_margin(confidence: str) -> None:
    pseudo_labels = PseudoLabels.of(
        np.array([[0.1, 0.3, 0.2], [0.5, 0.1, 0.1], [0.2, 0.2, 0.1]]), confidence
    )

    assert pseudo_labels.labels.tolist() == [1, 0, 0]
    assert (
        pseudo_labels.confidence[1] > pseudo_labels.confidence[0] > pseudo_labels.confidence[2] >= 0
    )


def test_pseudo_labels_stay_within_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "BLOCK_CELLS", 1 << 14)
    monkeypatch.setattr(views, "PART_CELLS", 1 << 12)
    rng = np.random.default_rng(5)
    texts, prompts = unit(rng.standard_normal((1000, 8))), unit(rng.standard_normal((300, 8)))
    index = WordIndex(["a", "b"], np.repeat(np.arange(1000), 2), np.tile([0, 1], 1000), 1000)
    tracemalloc.start()
    pseudo_label([ModelVectors(texts, prompts)], index, Teacher(shares=(0.8, 0.8)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 70 * len(texts) * len(prompts)


@pytest.mark.parametrize("confidence", ["margin", "score"])
def test_row_blocks_do_not_change_scores(confidence: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, _, prompts = blobs((40, 40, 40), noise=0.9)
    whole = pseudo_label([ModelVectors(texts, prompts)], None, Teacher(confidence=confidence))
    monkeypatch.setattr(views, "PART_CELLS", 20)  # six texts at a time
    parts = pseudo_label([ModelVectors(texts, prompts)], None, Teacher(confidence=confidence))
    np.testing.assert_array_equal(parts.scores, whole.scores)
    np.testing.assert_array_equal(parts.confidence, whole.confidence)


# -- sampling --------------------------------------------------------------------------------------------------------


def one_hot_labels(labels: list[int], confidence: list[float]) -> PseudoLabels:
    return PseudoLabels(np.eye(max(labels) + 1)[labels], np.array(labels), np.array(confidence))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1, max_size=40),
    st.integers(1, 100),
    st.integers(0, 5),
)
def test_samples_are_balanced(texts: list[tuple[int, float]], total: int, seed: int) -> None:
    pseudo_labels = one_hot_labels(
        [label for label, _ in texts], [confidence for _, confidence in texts]
    )
    rows = sample_balanced(pseudo_labels, total, 4, np.random.default_rng(seed))
    present = sorted(set(pseudo_labels.labels.tolist()))
    each = max(1, total // len(present))

    assert np.bincount(pseudo_labels.labels[rows], minlength=4)[present].tolist() == [each] * len(
        present
    )
    for label in present:
        own, drawn = (
            np.flatnonzero(pseudo_labels.labels == label),
            rows[pseudo_labels.labels[rows] == label],
        )
        if each >= len(own):
            assert set(own) <= set(drawn)  # sampled up: each comes, some again
        else:
            assert len(set(drawn)) == each


def test_confident_texts_are_sampled_more_often() -> None:
    pseudo_labels = one_hot_labels([0] * 20 + [1] * 20, [0.9] * 10 + [0.1] * 10 + [0.5] * 20)
    drawn = np.concatenate(
        [sample_balanced(pseudo_labels, 10, 2, np.random.default_rng(seed)) for seed in range(400)]
    )
    confident, uncertain = (drawn < 10).sum(), ((drawn >= 10) & (drawn < 20)).sum()

    assert confident + uncertain == 2000
    assert 4 < confident / uncertain < 9  # without replacement, so somewhat offsets than 9


def test_most_confident_of_each_label() -> None:
    pseudo_labels = one_hot_labels([0, 0, 0, 0, 1, 1, 1, 1], [1, 4, 3, 2, 5, 8, 7, 6])
    rows, labels = most_confident(pseudo_labels, 0.5, 2)
    assert rows.tolist() == [1, 2, 5, 6]
    assert labels.tolist() == [0, 0, 1, 1]


# -- checks ----------------------------------------------------------------------------------------------------------


def test_kappa_and_effective_labels() -> None:
    first, second = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 0])
    assert cohens_kappa(first, first, 2) == 1.0
    assert cohens_kappa(first, second, 2) == pytest.approx(
        (0.6 - (0.4 * 0.4 + 0.6 * 0.6)) / (1 - (0.4 * 0.4 + 0.6 * 0.6))
    )

    assert cohens_kappa(np.zeros(5, np.int64), np.zeros(5, np.int64), 2) == 0.0
    assert effective_labels(np.array([0, 1, 2, 3]), 5) == pytest.approx(4)
    assert effective_labels(np.array([2, 2]), 5) == pytest.approx(1)


def test_check_rejects_swallowing_labels() -> None:
    texts, labels, prompts = blobs((200, 200, 200), noise=0.9)
    before = pseudo_label([ModelVectors(texts, prompts)], None, Teacher(views=("prompts",)))
    better = PseudoLabels.of(np.eye(3)[labels])
    swallowed = PseudoLabels.of(np.eye(3)[np.where(labels < 2, 0, 2)])
    rng = np.random.default_rng(1)
    noisy = [np.where(rng.random(600) < 0.4, rng.integers(3, size=600), labels) for _ in range(2)]

    assert check_training(before, better, [*noisy, labels, labels]).verdict(CheckLimits()) == ""
    for after in (
        swallowed,
        PseudoLabels.of(np.eye(3)[(labels + 1) % 3]),
        PseudoLabels.of(np.eye(3)[labels * 0]),
    ):
        check = check_training(before, after, [*noisy, after.labels, after.labels])
        assert check.verdict(CheckLimits()) != ""
    check = check_training(before, better, [labels, labels, *noisy])
    assert "halves" in check.verdict(CheckLimits())


def test_verdict_names_each_reason() -> None:
    verdict = TrainingCheck(kept=0.5, halves_before=0.6, halves=0.2, spread=0.3).verdict(
        CheckLimits()
    )

    assert "50% of the most confident texts" in verdict
    assert "kappa 0.20, 0.60" in verdict
    assert "30%" in verdict
    passed = TrainingCheck(kept=0.9, halves_before=0.6, halves=0.6, spread=0.9)
    assert passed.verdict(CheckLimits()) == ""


def test_invalid_settings_are_refused() -> None:
    for wrong in (
        {"views": ()},
        {"views": ("head", "head")},
        {"shares": ()},
        {"shares": (0.0,)},
        {"fading": 1.1},
    ):
        with pytest.raises(InvalidInput):
            Teacher(**wrong)  # type: ignore[arg-type]

    with pytest.raises(InvalidInput, match="at most 134,217 texts"):
        check_pool_size(10_000_000, 1000)
