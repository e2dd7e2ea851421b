"""Rounds of self-training on a tiny random model: resumed, converged, damaged, taught by another model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from purlin.index.errors import Damaged
from purlin.training.pesco import rounds
from purlin.training.pesco.round_state import ROUND_STATE
from purlin.training.pesco.teacher import Teacher
from purlin.training.pesco.texts import Labelled
from tests.training.pesco.topics import (
    LOOP,
    RIGHT,
    TEXT_POOL,
    TEXTS,
    TOPICS,
    Stop,
    quiet,
    recipe_of,
    right_labels,
    stopping,
    training_of,
)

pytestmark = pytest.mark.usefixtures("one_process", "graphs_once")


def test_killed_run_resumes_to_the_same_weights(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base, rounds=3)
    log: list[str] = []
    whole = training_of(recipe, tmp_path / "whole").train(quiet, log.append).state_dict()

    # The last step of the first round, then steps within the second and the third.
    for step in (1, 2, 3, 4):
        with pytest.raises(Stop):
            training_of(recipe, tmp_path / "killed").train(stopping(step), lambda line: None)

    resumed_log: list[str] = []
    resumed = training_of(recipe, tmp_path / "killed").train(quiet, resumed_log.append).state_dict()
    assert resumed_log == [line for line in log if line.startswith("round ")]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)

    # A finished run takes no further step, and the first checkpoints are not needed any more.
    again = training_of(recipe, tmp_path / "killed").train(stopping(1), lambda line: None)
    assert all(torch.equal(whole[name], weight) for name, weight in again.state_dict().items())
    assert not list((tmp_path / "killed").glob("round-00/step-*"))


def test_time_of_rounds_follows_from_that_of_encoding(base: Path, tmp_path: Path) -> None:
    """160 texts in batches cost 800 encoded ones; 60 texts are encoded, and 120 with dev rows."""
    training = training_of(recipe_of(base, rounds=2, loop=replace(LOOP, steps=10)), tmp_path)
    assert len(TEXT_POOL.texts) == 60
    assert training.time_of_rounds(60.0).endswith("(student.rounds = 2): about 15 min")

    dev = Labelled(tuple(TEXTS), tuple(RIGHT))
    assert replace(training, dev=dev).time_of_rounds(60.0).endswith(": about 9 min")


def test_training_stops_when_labels_converge(base: Path, tmp_path: Path) -> None:
    frozen = replace(LOOP, learning_rate=0.0)
    training = training_of(recipe_of(base, rounds=9, loop=frozen), tmp_path)
    training.train(quiet, lambda line: None)
    assert [round_.texts for round_ in training.rounds] == [18, 36, 0]
    assert [round_.agreement for round_ in training.rounds] == [1.0, 1.0, 1.0]


def test_damaged_round_is_named(base: Path, tmp_path: Path) -> None:
    (tmp_path / "round-00").mkdir()
    (tmp_path / "round-00" / ROUND_STATE).write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(Damaged, match="round-00"):
        training_of(recipe_of(base), tmp_path).train(quiet, lambda line: None)


def test_other_encoder_corrects_the_labels(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A teacher whose vectors are the topics is right where the student's random ones are not."""
    opened: list[Path] = []

    def knowing(directory: Path, accelerator: Any) -> Any:
        opened.append(directory)

        def topics(text: str) -> list[bool]:
            return [any(word in text for word in (name, *TOPICS[name])) for name in TOPICS]

        return lambda texts: np.array([topics(text) for text in texts], np.float32)

    monkeypatch.setattr(rounds, "frozen_encoder", knowing)
    (tmp_path / "large").mkdir()
    alone = recipe_of(base, rounds=0)
    alone = replace(alone, teacher=Teacher(views=("prompts",)))
    with_teacher = replace(alone, teacher=replace(alone.teacher, base=str(tmp_path / "large")))

    shares = []
    for name, recipe in (("alone", alone), ("taught", with_teacher), ("taught", with_teacher)):
        training = training_of(recipe, tmp_path / name)
        training.train(quiet, lambda line: None)
        shares.append(float((training.pseudo_labels(0) == right_labels(TEXT_POOL)).mean()))

    assert shares[0] < 0.9
    assert shares[1] == shares[2] == 1.0
    # A run that is resumed reads what it has computed.
    assert opened == [tmp_path / "large"]


def test_dev_accuracy_belongs_to_its_rows(base: Path, tmp_path: Path) -> None:
    recipe, texts = recipe_of(base, rounds=1), tuple(TEXTS)
    right, wrong = (Labelled(texts, tuple(abs(label - flip) for label in RIGHT)) for flip in (0, 1))

    def accuracies(dev: Labelled | None) -> list[float | None]:
        training = replace(training_of(recipe, tmp_path), dev=dev)
        training.train(quiet, lambda line: None)
        return [round_.dev_accuracy for round_ in training.rounds]

    first = accuracies(right)
    assert None not in first
    assert accuracies(right) == first
    # The finished rounds were measured on other rows.
    assert accuracies(wrong) == [None, None]
    assert accuracies(None) == [None, None]
