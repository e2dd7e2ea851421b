"""The check of a training that has no labels."""

from __future__ import annotations

import numpy as np
import pytest

from purlin.index.classify.transductive import effective_labels
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
    pseudo_label,
)
from tests.support.blobs import blobs


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
