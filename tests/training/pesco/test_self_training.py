"""Whole runs on a tiny random model: what is refused, what is published, and the command."""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from purlin import cli
from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import TrainedClassifier
from purlin.index.errors import Busy, InvalidInput, NotFound, PurlinError, StorageFailed
from purlin.training.pesco import publishing, rounds, self_training, serving
from purlin.training.pesco.check import CheckLimits, TrainingCheck
from purlin.training.pesco.figure import ACCURACY
from purlin.training.pesco.outcome import CalibratedClassifier
from purlin.training.pesco.report import render_report
from purlin.training.pesco.round_state import ROUND_STATE, RoundState
from purlin.training.pesco.rounds import SelfTraining
from purlin.training.pesco.self_training import RUN
from purlin.training.pesco.teacher import Teacher
from purlin.training.pesco.texts import Labelled
from tests.support.files import write_jsonl
from tests.support.traced import TracedOnce, exports_traced_by
from tests.support.training_runs import largest_file, metrics_rows, run_two_processes
from tests.training.pesco.topics import (
    LOOP,
    TEXT_POOL,
    TEXTS,
    TOPIC_NAMES,
    Stop,
    outcome_of,
    publish_topics,
    published_classifier,
    recipe_of,
    stopping,
    topic_texts,
    training_of,
)

pytestmark = pytest.mark.usefixtures("one_process", "graphs_once")


MANY_TEMPLATES = {"templates": tuple(f"{number} {{label}}" for number in range(101))}
LONG_TEMPLATE = {"templates": ("x " * 2_000 + "{label}",)}


@pytest.mark.parametrize(
    ("changes", "name", "home", "error", "message"),
    [
        ({}, "My Tickets", "home", InvalidInput, "is not a valid classifier name"),
        ({}, "../x", "home", InvalidInput, "is not a valid classifier name"),
        ({}, "Großes", "home", InvalidInput, "is not a valid classifier name"),
        ({}, "", "home", InvalidInput, "is not a valid classifier name"),
        ({}, "topics", "file", StorageFailed, "file"),
        ({"teacher": Teacher(base="/none")}, "topics", "home", NotFound, "no encoder in /none"),
        (MANY_TEMPLATES, "topics", "home", InvalidInput, "has 101 prompts, not 1 to 100: give"),
        (LONG_TEMPLATE, "topics", "home", InvalidInput, "not a text of 1 to 4,000 characters: g"),
    ],
)
def test_what_cannot_be_published_is_refused_early(
    base: Path,
    tmp_path: Path,
    changes: dict[str, Any],
    name: str,
    home: str,
    error: type[PurlinError],
    message: str,
) -> None:
    (tmp_path / "file").write_text("a file")
    log: list[str] = []
    recipe = replace(recipe_of(base), **changes)
    with pytest.raises(error, match=message) as caught:
        publish_topics(recipe, tmp_path / "out", tmp_path / home, name=name, say=log.append)
    assert not (tmp_path / "out").exists()
    assert not log or error is StorageFailed
    if "templates" in changes:
        assert caught.value.field == "templates"


def test_encoding_of_many_texts_is_shown(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, int, int]] = []

    def progress(stage: str) -> Any:
        return lambda done, total, values: shown.append((stage, done, total))

    monkeypatch.setattr(rounds, "SHOWN_TEXTS", len(TEXT_POOL.texts) - 1)
    publish_topics(recipe_of(base, rounds=0), tmp_path / "out", tmp_path, progress=progress)
    count = len(TEXT_POOL.texts)
    assert shown[-1] == ("encode texts", count, count)

    shown.clear()
    monkeypatch.setattr(rounds, "SHOWN_TEXTS", count)
    publish_topics(recipe_of(base, rounds=0), tmp_path / "few", tmp_path, progress=progress)
    assert not shown


def test_resuming_refuses_another_recipe(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base)
    with pytest.raises(Stop):
        publish_topics(recipe, tmp_path / "out", tmp_path, progress=stopping(1))
    for changed, labels in ((replace(recipe, seed=2), TOPIC_NAMES), (recipe, TOPIC_NAMES[::-1])):
        with pytest.raises(InvalidInput, match="another recipe"):
            publish_topics(changed, tmp_path / "out", tmp_path, labels=labels)

    (tmp_path / "out" / RUN).write_text("{")
    with pytest.raises(InvalidInput, match="another recipe"):
        publish_topics(recipe, tmp_path / "out", tmp_path)


def test_run_without_rounds_can_be_replaced(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base, rounds=0)
    wrong = replace(recipe, model=replace(recipe.model, base=str(tmp_path / "none")))
    with pytest.raises(PurlinError, match="none"):
        publish_topics(wrong, tmp_path / "out", tmp_path / "home")
    assert publish_topics(recipe, tmp_path / "out", tmp_path / "home").is_dir()


def test_second_run_in_a_directory_is_refused(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)

    with pytest.raises(Busy, match="Another process is training in"):
        publish_topics(recipe_of(base, rounds=0), out, tmp_path / "home")
    os.close(handle)
    assert not list(out.iterdir())
    assert publish_topics(recipe_of(base, rounds=0), out, tmp_path / "home").is_dir()


def test_too_many_tokens_are_refused_early(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base)
    longer = replace(recipe, export=replace(recipe.export, max_tokens=65))
    with pytest.raises(InvalidInput, match="max_tokens is 65, but the model has 64 positions"):
        publish_topics(longer, tmp_path / "out", tmp_path / "home")
    assert not list((tmp_path / "out").glob("round-*"))


def test_claiming_resumes_after_full_disk(base: Path, tmp_path: Path) -> None:
    described = self_training.describe_run(recipe_of(base), TEXT_POOL, TOPIC_NAMES)
    with largest_file(10), pytest.raises(StorageFailed):
        self_training.claim_directory(tmp_path, described)

    assert not (tmp_path / RUN).exists()
    self_training.claim_directory(tmp_path, described)
    with largest_file(10):
        self_training.claim_directory(tmp_path, described)
    assert (tmp_path / RUN).read_text() == described


def share(base: Path, directory: Path, graphs: Path) -> Path:
    """Publish a classifier, on any number of processes."""
    recipe = recipe_of(base, rounds=2, loss="lct+pcl")
    recipe = replace(recipe, export=replace(recipe.export, serve="prompts"))
    with exports_traced_by(TracedOnce(graphs)):
        built = publish_topics(recipe, directory / "out", directory / "home")
    assert built.is_dir(), built
    return built


def test_two_processes_train_as_one_does(
    base: Path, tmp_path: Path, traced_once: TracedOnce
) -> None:
    alone = share(base, tmp_path / "one", traced_once.directory)
    run_two_processes(share, base, tmp_path / "two", traced_once.directory)
    together = builds.current(tmp_path / "two/home", "topics", CLASSIFIERS)

    vectors = [
        TrainedClassifier.load(build).encoder.encode(TEXTS, role="query")
        for build in (alone, together)
    ]
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-4)
    for number in (0, 1):
        states = [
            RoundState.read(tmp_path / name / f"out/round-{number:02d}" / ROUND_STATE)
            for name in ("one", "two")
        ]
        np.testing.assert_array_equal(states[1].rows, states[0].rows)
        losses = [
            [row["loss"] for row in metrics_rows(tmp_path / name / f"out/round-{number:02d}")]
            for name in ("one", "two")
        ]
        assert losses[1] == pytest.approx(losses[0], abs=1e-4)


@pytest.mark.parametrize(("serve", "quantization"), [("prompts", "none"), ("head", "int8")])
def test_run_publishes_an_accurate_classifier(
    base: Path, tmp_path: Path, serve: Any, quantization: Any
) -> None:
    texts, right = topic_texts(30, seed=9)
    recipe = recipe_of(base, rounds=2, loop=replace(LOOP, learning_rate=0.02, epochs=3.0))
    recipe = replace(recipe, export=replace(recipe.export, serve=serve, quantization=quantization))
    log: list[str] = []
    built = publish_topics(
        recipe,
        tmp_path / "out",
        tmp_path / "home",
        dev=Labelled(tuple(texts), tuple(right)),
        say=log.append,
    )
    classifier = published_classifier(tmp_path / "home")

    assert any(
        line.startswith("estimated time of all rounds (student.rounds = 2): ") for line in log
    )
    decision = next(line for line in log if line.startswith("the trained encoder is published"))
    assert re.search(r" \(dev accuracy [01]\.\d{4} with training, [01]\.\d{4} without\)$", decision)
    assert (tmp_path / "out" / ACCURACY).read_bytes().startswith(b"\x89PNG")
    assert classifier.build == built.name
    predicted = [result.label for result in classifier.classify(texts)]
    accuracy = np.mean([name == TOPIC_NAMES[k] for name, k in zip(predicted, right, strict=True)])
    assert accuracy > 0.9
    measures = classifier.spec.measures
    assert measures["encoder"] == "trained"
    assert measures["rounds"] == 2
    assert measures["dev accuracy"] == pytest.approx(accuracy, abs=0.1)
    assert len(measures["dev accuracy by prompts"]) == 3
    assert sum(measures["shares"].values()) == pytest.approx(1, abs=0.01)
    assert classifier.spec.prompts[0] == ("about river", "the river")
    assert (classifier.spec.vectors is None) == (serve == "prompts")
    assert (built / publishing.REPORT).read_text() == (
        tmp_path / "out" / publishing.REPORT
    ).read_text()


def test_similar_labels_are_logged_once(base: Path, tmp_path: Path) -> None:
    log: list[str] = []
    labels = (TOPIC_NAMES[0], TOPIC_NAMES[0].title(), TOPIC_NAMES[1])
    options = {"say": log.append, "labels": labels}
    publish_topics(recipe_of(base, rounds=1), tmp_path / "out", tmp_path / "home", **options)
    pair = f"The labels {labels[0]!r} and {labels[1]!r} are nearly the same to the encoder (cosine 1.00)"
    assert [line.partition(":")[0] for line in log].count(pair) == 1


def test_failed_check_keeps_untrained_encoder(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = TrainingCheck(kept=0.5, halves_before=0.4, halves=0.1, spread=0.4)
    monkeypatch.setattr(serving, "check_training", lambda *_: failed)
    recipe = replace(recipe_of(base, rounds=2), check=CheckLimits())
    recipe = replace(recipe, export=replace(recipe.export, serve="prompts"))
    log: list[str] = []
    publish_topics(recipe, tmp_path / "out", tmp_path / "home", say=log.append)
    fitting, decision, exporting = log[-3:]
    assert fitting == "fitting the classifier"
    assert decision.startswith("the untrained encoder is kept: ")
    assert exporting == "exporting the encoder"
    classifier = published_classifier(tmp_path / "home")
    spec = classifier.spec
    assert spec.measures["encoder"] == "untrained"
    assert spec.measures["kept"]
    training = training_of(recipe, tmp_path / "none")
    base_model = training.base_model()
    texts = list(TEXT_POOL.texts)
    vectors = classifier.encoder.encode(texts, role="query")
    np.testing.assert_allclose(vectors, training.encode(base_model, texts), atol=1e-4)

    page = (tmp_path / "out" / publishing.REPORT).read_text()
    assert "The untrained encoder is published" in page

    # It has its own calibration.
    for prompts, offset in zip(spec.prompts, spec.offsets, strict=True):
        cosines = vectors @ classifier.encoder.encode(prompts, role="query").mean(0)
        assert cosines.min() < offset < cosines.max()


def test_zero_rounds_publish_untrained_encoder(base: Path, tmp_path: Path) -> None:
    log: list[str] = []
    publish_topics(recipe_of(base, rounds=0), tmp_path / "out", tmp_path / "home", say=log.append)

    assert not (tmp_path / "out" / ACCURACY).exists()
    decision, exporting = log[-2:]
    assert decision == "nothing was trained: the encoder is the one it started from"
    assert exporting == "exporting the encoder"
    outcome = outcome_of(recipe_of(base, rounds=0), tmp_path)
    assert outcome.check is None
    assert outcome.untrained is outcome.trained is outcome.published
    assert publishing.summarize(outcome)["encoder"] == "untrained"
    assert "Nothing was trained" in render_report(outcome)


def test_typical_words_follow_published_labels(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated_classifier = serving.calibrated_classifier

    def swallowing(training: SelfTraining, number: int, *rest: Any) -> CalibratedClassifier:
        classifier = calibrated_classifier(training, number, *rest)
        swallowed = replace(
            classifier.pseudo_labels, labels=np.zeros_like(classifier.pseudo_labels.labels)
        )
        return replace(classifier, pseudo_labels=swallowed) if number else classifier

    monkeypatch.setattr(self_training, "calibrated_classifier", swallowing)
    recipe = recipe_of(base, rounds=1)
    assert outcome_of(recipe, tmp_path).typical_words[1] == []
    monkeypatch.setattr(TrainingCheck, "verdict", lambda *_: "music is gone")
    assert outcome_of(recipe, tmp_path).typical_words[1]


def test_the_command_trains_and_publishes(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "texts.jsonl", ({"text": text} for text in TEXTS))
    (tmp_path / "labels.txt").write_text("\n".join(TOPIC_NAMES))
    write_jsonl(tmp_path / "dev.jsonl", [{"text": "river boat", "label": "river"}])
    (tmp_path / "recipe.toml").write_text(
        f'templates = ["about {{label}}"]\n[model]\nbase = "{base}"\ndropout = 0.0\nmax_passage_tokens = 48\n'
        '[student]\nrounds = 1\nloop = { batch_size = 8, precision = "fp32" }\n[export]\nmax_tokens = 48\n'
    )
    monkeypatch.chdir(tmp_path)
    arguments = "--texts texts.jsonl --labels labels.txt --config recipe.toml --dev dev.jsonl"
    arguments += " --name topics --home home --cpu"
    monkeypatch.setattr("sys.argv", ["purlin", "train", "pesco", *arguments.split()])

    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    output = capsys.readouterr()
    assert "published; POST /classify takes it as classifier 'topics'" in output.out.replace(
        "\n", ""
    )
    assert "round 1: 8 texts to train on" in output.err
    assert published_classifier(tmp_path / "home").classify(["the music"])[0].label in TOPIC_NAMES
    (tmp_path / "labels.txt").write_text("one\n")
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    assert "a classifier has 2 to 10,000" in capsys.readouterr().err.replace("\n", " ")
