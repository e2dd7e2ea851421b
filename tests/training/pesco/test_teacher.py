"""Pseudo-labels on vectors whose right labels are known."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
from purlin.training.pesco import views
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
    View,
    WordIndex,
    class_prior,
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


def test_each_label_teaches_its_most_confident_texts() -> None:
    pseudo_labels = one_hot_labels([0, 0, 0, 0, 1, 1, 1, 1], [1, 4, 3, 2, 5, 8, 7, 6])
    rows, labels = most_confident(pseudo_labels, 0.5, 2, equal_sizes=True)
    assert rows.tolist() == [1, 2, 5, 6]
    assert labels.tolist() == [0, 0, 1, 1]


def test_most_confident_texts_of_a_rare_label_are_a_share_of_its_own() -> None:
    """Of eight texts with one label and two with another, half each, and never none."""
    pseudo_labels = one_hot_labels([0] * 8 + [1, 1], [*range(1, 9), 1, 2])
    rows, labels = most_confident(pseudo_labels, 0.5, 2, equal_sizes=False)
    assert rows.tolist() == [7, 6, 5, 4, 9]
    assert labels.tolist() == [0, 0, 0, 0, 1]

    rows, _ = most_confident(pseudo_labels, 0.1, 3, equal_sizes=False)
    assert rows.tolist() == [7, 9]


@pytest.mark.parametrize(
    ("counts", "sizes"), [((400, 40, 20, 20), "unequal"), ((120, 120, 120, 120), "equal")]
)
def test_what_a_label_teaches_depends_on_the_sizes(
    counts: tuple[int, ...], sizes: Literal["equal", "unequal"]
) -> None:
    """Taught an even part each, rare labels would learn the texts wrongly given to them: 0.65."""
    texts, labels, prompts = blobs(counts, noise=1.2)
    teacher = Teacher(views=("prompts", "head", "neighbours"))
    automatic, explicit = (
        pseudo_label([ModelVectors(texts, prompts)], None, settings)
        for settings in (teacher, replace(teacher, sizes=sizes))
    )
    np.testing.assert_array_equal(automatic.scores, explicit.scores)
    assert (automatic.labels == labels).mean() > 0.85


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
