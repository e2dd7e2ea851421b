"""Pseudo-labels on vectors whose right labels are known."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from index.encoder import Vectors
from index.errors import InvalidInput
from training.pesco import teacher
from training.pesco.teacher import (
    Check,
    Labelling,
    Limits,
    Neighbours,
    Rows,
    Teacher,
    WordIndex,
    centroids,
    check,
    effective,
    head,
    kappa,
    level,
    offsets,
    refuse_too_many,
    sample,
    scaled,
    softmax,
    surest,
    teach,
    together,
    weights,
)

PAPER = Teacher(calibrate=False, views=("prompts",), confidence="score")


def unit(vectors: np.ndarray) -> Vectors:
    found: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return found


def blobs(
    sizes: tuple[int, ...] = (60, 60, 60), noise: float = 0.5
) -> tuple[Vectors, Rows, Vectors]:
    """Texts around directions of their labels, the labels, and prompts that point there only roughly."""
    rng = np.random.default_rng(4)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = np.eye(len(sizes), 12)
    texts = centres[labels] + noise * rng.standard_normal((len(labels), 12)) / np.sqrt(12)
    return unit(texts), labels, unit(centres + 0.25 * rng.standard_normal(centres.shape))


def test_the_papers_teacher_takes_the_nearest_prompt() -> None:
    texts, _, prompts = blobs()
    found = teach(texts, prompts, None, PAPER)
    for row, vector in enumerate(texts):
        cosines = [float(vector @ prompt) for prompt in prompts]
        assert found.labels[row] == int(np.argmax(cosines))
        shares = np.exp(np.array(cosines) / 0.07)
        assert found.confidence[row] == pytest.approx(shares.max() / shares.sum(), rel=1e-4)


def test_calibration_undoes_a_prompt_that_is_near_everything() -> None:
    texts, labels, prompts = blobs()
    biased = prompts + np.array([[0.0], [0.0], [1.0]], np.float32) * texts.mean(0) * 3
    plain = teach(texts, biased, None, PAPER)
    calibrated = teach(texts, biased, None, Teacher(views=("prompts",)))
    assert (plain.labels == labels).mean() < 0.7 < 0.85 < (calibrated.labels == labels).mean()


def test_alignment_makes_labels_equally_probable() -> None:
    texts, _, prompts = blobs((100, 40, 20))
    cosines = (texts @ prompts.T).astype(np.float64)
    for calibrate in (False, True):
        less = offsets(cosines, calibrate=calibrate, align=True)
        assert softmax((cosines - less) / 0.07).mean(0) == pytest.approx([1 / 3] * 3, abs=0.01)
    assert offsets(cosines, calibrate=False) == pytest.approx([0, 0, 0])


@pytest.mark.parametrize(
    "views", [("prompts", "head"), ("prompts", "centroids"), ("head",), ("prompts", "neighbours")]
)
def test_views_learnt_from_the_surest_do_better_than_prompts(
    views: tuple[teacher.View, ...],
) -> None:
    texts, labels, prompts = blobs((200, 200, 200), noise=0.9)
    plain = (teach(texts, prompts, None, Teacher(views=("prompts",))).labels == labels).mean()
    learnt = (teach(texts, prompts, None, Teacher(views=views)).labels == labels).mean()
    assert learnt > plain


def test_words_help_where_vectors_cannot_tell() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=400)
    texts = [" ".join(rng.choice([f"{'ab'[label]}{n}" for n in range(6)], 4)) for label in labels]
    vectors = unit(np.eye(2, 8)[labels] * 0.5 + rng.standard_normal((400, 8)) / 2)
    prompts = unit(np.eye(2, 8))
    index = WordIndex.of(texts)
    plain, steady, fading = (
        (
            teach(
                vectors, prompts, known, Teacher(views=("prompts", "words"), fading=factor)
            ).labels
            == labels
        ).mean()
        for known, factor in ((None, 0.5), (index, 1.0), (index, 0.5))
    )
    assert plain < 0.9 < 0.95 < steady < fading


def test_words_rates_against_a_count() -> None:
    texts = ["good good one", "good two", "good bad", "bad one", "bad two", "bad"]
    index = WordIndex.of(texts)
    assert index.names == ["good"]  # of at least 3 texts; "bad" is in more than half
    labels = np.array([0, 0, 0, 1, 1, 1])
    rates = index.rates(np.arange(6), labels, 2)
    expected = np.log([(3 + 2 * 3 / 6) / (3 + 2), (0 + 2 * 3 / 6) / (3 + 2)])
    assert rates[:, 0] == pytest.approx(expected - expected.mean(), abs=1e-6)
    assert index.scores(rates)[0] == pytest.approx(rates[:, 0])
    assert index.typical(labels, 2, 5) == [["good"], []]


def test_words_are_looked_for_at_the_beginning_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teacher, "WORD_CHARS", 8)
    texts = ["good one late", "fine two late", "good six late", "good ten late", *"abc"]
    index = WordIndex.of(texts)
    assert index.names == ["good"]
    assert index.texts.tolist() == [0, 2, 3]


def test_no_usual_words_are_no_words() -> None:
    index = WordIndex.of(["a", "b", "c"])
    assert index.names == []
    assert (
        index.scores(index.rates(np.arange(3), np.zeros(3, np.int64), 2)).tolist() == [[0, 0]] * 3
    )


def test_neighbours_against_a_loop() -> None:
    rng = np.random.default_rng(6)
    vectors, labels = unit(rng.standard_normal((40, 5))), rng.integers(3, size=40)
    rows = np.flatnonzero(rng.random(40) < 0.7)
    found = Neighbours.of(vectors).scores(rows, labels[rows], 3)
    for text in range(40):
        others = sorted(
            (other for other in range(40) if other != text),
            key=lambda other: -vectors[text] @ vectors[other],
        )
        near = others[: teacher.NEIGHBOURS]
        likeness = np.exp([10 * float(vectors[text] @ vectors[other]) for other in near])
        expected = [
            sum(
                weight
                for other, weight in zip(near, likeness, strict=True)
                if other in rows and labels[other] == label
            )
            for label in range(3)
        ]
        assert found[text] == pytest.approx(np.array(expected) / likeness.sum(), abs=1e-5)


def test_few_texts_have_few_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = unit(np.random.default_rng(7).standard_normal((9, 4)))
    whole = Neighbours.of(vectors)
    assert whole.rows.shape == (9, 8)
    assert all(text not in row for text, row in enumerate(whole.rows))
    monkeypatch.setattr(teacher, "BLOCK_CELLS", 20)  # two rows at a time
    rows = np.arange(9)
    assert Neighbours.of(vectors).scores(rows, rows, 9) == pytest.approx(
        whole.scores(rows, rows, 9)
    )


def test_a_view_weighs_as_much_as_the_others_agree_with_it() -> None:
    rng = np.random.default_rng(8)
    labels = rng.integers(4, size=2000)
    right = np.eye(4)[labels]
    *others, guessing = (np.eye(4)[rng.integers(4, size=2000)] for _ in range(3))
    noisy = [np.where((rng.random(2000) < 0.8)[:, None], right, other) for other in others]
    assert weights([*noisy, guessing])[2] < 0.1
    assert min(weights([*noisy, right])) > 0.5
    assert weights(noisy) == [1.0, 1.0]
    assert weights([right, 1 - right]) == [1.0, 1.0]  # who always contradict each other
    combined = together([*noisy, guessing], [1.0, 1.0, 1.0]).argmax(1)
    assert (combined == labels).mean() > (sum([*noisy, guessing]).argmax(1) == labels).mean()


def test_heads_and_centroids_know_no_label_that_never_occurs() -> None:
    texts, labels, _ = blobs()
    for learn in (head, centroids):
        weights, bias = learn(texts[labels < 2], labels[labels < 2], 4)
        found = (texts[labels < 2] @ weights.T + bias).argmax(1)
        assert (found == labels[labels < 2]).mean() > 0.95
        assert weights.shape == (4, 12)


@settings(deadline=None)
@given(
    arrays.arrays(np.float64, (7, 3), elements=st.floats(-5, 5)),
    st.lists(st.integers(0, 2), min_size=7, max_size=7),
)
def test_scaled_views_have_no_bias(scores: np.ndarray, labels: list[int]) -> None:
    found = scaled(scores, np.array(labels))
    assert level(found, np.array(labels)) == pytest.approx(np.zeros(3), abs=1e-6)
    assert np.isfinite(found).all()


def test_a_frequent_label_does_not_lose_texts_to_calibration() -> None:
    texts, labels, prompts = blobs((300, 30, 30))
    cosines = (texts @ prompts.T).astype(np.float64)
    right = [
        float(((cosines - less).argmax(1) == labels).mean())
        for less in (offsets(cosines, calibrate=True), cosines.mean(0))
    ]
    assert right[0] > 0.85 > 0.7 > right[1]
    assert level(cosines, labels) == pytest.approx(
        np.mean([cosines[labels == k].mean(0) for k in range(3)], axis=0)
    )


@pytest.mark.parametrize("confidence", ["margin", "score"])
def test_confidence_grows_with_the_lead(confidence: str) -> None:
    found = Labelling.of(np.array([[0.1, 0.3, 0.2], [0.5, 0.1, 0.1], [0.2, 0.2, 0.1]]), confidence)
    assert found.labels.tolist() == [1, 0, 0]
    assert found.confidence[1] > found.confidence[0] > found.confidence[2] >= 0


def test_teaching_takes_no_more_memory_than_the_limit_is_reckoned_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(teacher, "BLOCK_CELLS", 1 << 14)
    monkeypatch.setattr(teacher, "PART_CELLS", 1 << 12)
    rng = np.random.default_rng(5)
    texts, prompts = unit(rng.standard_normal((1000, 8))), unit(rng.standard_normal((300, 8)))
    index = WordIndex(["a", "b"], np.repeat(np.arange(1000), 2), np.tile([0, 1], 1000), 1000)
    tracemalloc.start()
    teach(texts, prompts, index, Teacher(shares=(0.8, 0.8)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 70 * len(texts) * len(prompts)


@pytest.mark.parametrize("confidence", ["margin", "score"])
def test_parts_change_nothing(confidence: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, _, prompts = blobs((40, 40, 40), noise=0.9)
    whole = teach(texts, prompts, None, Teacher(confidence=confidence))
    monkeypatch.setattr(teacher, "PART_CELLS", 20)  # six texts at a time
    parts = teach(texts, prompts, None, Teacher(confidence=confidence))
    np.testing.assert_array_equal(parts.scores, whole.scores)
    np.testing.assert_array_equal(parts.confidence, whole.confidence)


# -- sampling --------------------------------------------------------------------------------------------------------


def labelling(labels: list[int], confidence: list[float]) -> Labelling:
    return Labelling(np.eye(max(labels) + 1)[labels], np.array(labels), np.array(confidence))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1, max_size=40),
    st.integers(1, 100),
    st.integers(0, 5),
)
def test_samples_are_balanced(texts: list[tuple[int, float]], total: int, seed: int) -> None:
    found = labelling([label for label, _ in texts], [sure for _, sure in texts])
    rows = sample(found, total, 4, np.random.default_rng(seed))
    present = sorted(set(found.labels.tolist()))
    each = max(1, total // len(present))
    assert np.bincount(found.labels[rows], minlength=4)[present].tolist() == [each] * len(present)
    for label in present:
        own, drawn = np.flatnonzero(found.labels == label), rows[found.labels[rows] == label]
        if each >= len(own):
            assert set(own) <= set(drawn)  # sampled up: each comes, some again
        else:
            assert len(set(drawn)) == each


def test_the_sure_are_drawn_more_often() -> None:
    found = labelling([0] * 20 + [1] * 20, [0.9] * 10 + [0.1] * 10 + [0.5] * 20)
    drawn = np.concatenate(
        [sample(found, 10, 2, np.random.default_rng(seed)) for seed in range(400)]
    )
    sure, unsure = np.isin(drawn, np.arange(10)).sum(), np.isin(drawn, np.arange(10, 20)).sum()
    assert sure + unsure == 2000
    assert 4 < sure / unsure < 9  # without replacement, so somewhat less than 9


def test_the_surest_of_each_label() -> None:
    found = labelling([0, 0, 0, 0, 1, 1, 1, 1], [1, 4, 3, 2, 5, 8, 7, 6])
    rows, labels = surest(found, 0.5, 2)
    assert rows.tolist() == [1, 2, 5, 6]
    assert labels.tolist() == [0, 0, 1, 1]


# -- checks ----------------------------------------------------------------------------------------------------------


def test_kappa() -> None:
    one, other = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 0])
    assert kappa(one, one, 2) == 1.0
    assert kappa(one, other, 2) == pytest.approx(
        (0.6 - (0.4 * 0.4 + 0.6 * 0.6)) / (1 - (0.4 * 0.4 + 0.6 * 0.6))
    )
    assert kappa(np.zeros(5, np.int64), np.zeros(5, np.int64), 2) == 0.0
    assert effective(np.array([0, 1, 2, 3]), 5) == pytest.approx(4)
    assert effective(np.array([2, 2]), 5) == pytest.approx(1)


def test_the_check_refuses_a_label_that_swallows_the_rest_and_takes_what_is_better() -> None:
    texts, labels, prompts = blobs((200, 200, 200), noise=0.9)
    before = teach(texts, prompts, None, Teacher(views=("prompts",)))
    better = Labelling.of(np.eye(3)[labels])
    swallowed = Labelling.of(np.eye(3)[np.where(labels < 2, 0, 2)])
    rng = np.random.default_rng(1)
    noisy = [np.where(rng.random(600) < 0.4, rng.integers(3, size=600), labels) for _ in range(2)]
    assert check(before, better, [*noisy, labels, labels]).verdict(Limits()) == ""
    for after in (
        swallowed,
        Labelling.of(np.eye(3)[(labels + 1) % 3]),
        Labelling.of(np.eye(3)[labels * 0]),
    ):
        assert check(before, after, [*noisy, after.labels, after.labels]).verdict(Limits()) != ""
    assert "halves" in check(before, better, [labels, labels, *noisy]).verdict(Limits())


def test_each_reason_is_said() -> None:
    bad = Check(kept=0.5, halves_before=0.6, halves=0.2, spread=0.3).verdict(Limits())
    assert "50% of the surest texts" in bad
    assert "kappa 0.20, 0.60" in bad
    assert "30%" in bad
    assert Check(kept=0.9, halves_before=0.6, halves=0.6, spread=0.9).verdict(Limits()) == ""


def test_settings_that_are_refused() -> None:
    for wrong in (
        {"views": ()},
        {"views": ("head", "head")},
        {"shares": ()},
        {"shares": (0.0,)},
        {"blend": 1.0},
        {"fading": 1.1},
    ):
        with pytest.raises(InvalidInput):
            Teacher(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="at most 134,217 texts"):
        refuse_too_many(10_000_000, 1000)
