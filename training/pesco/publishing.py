"""Export the encoder of a run, and publish it with labels and a report as a classifier."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index.classify.labels import mean_vectors
from purlin.index.classify.scores import ClassScores
from purlin.index.classify.trained import (
    ENCODER,
    ClassifierSpec,
    check_prompts,
    publish_classifier,
    write_classifier,
)
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import InvalidInput
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import recipe_card
from purlin.training.exporting.samples import library_texts
from purlin.training.loop.checkpoints import storing
from purlin.training.models.pretrained import base_name
from purlin.training.models.text_model import TextModel
from purlin.training.pesco.figure import ACCURACY, draw_accuracy
from purlin.training.pesco.outcome import Outcome, label_shares
from purlin.training.pesco.report import render_report
from purlin.training.pesco.rounds import SelfTraining
from purlin.training.pesco.teacher import ModelVectors

# Texts that the exported model is rounded to 8 bits by. With fewer characters in them, its vectors
# of other texts are too far off.
SAMPLE_TEXTS = 300
MIN_SAMPLE_CHARS = 50_000

# Texts on which the exported encoder's scores are compared with the model's.
COMPARED_TEXTS = 2000
REPORT = "report.html"


def check_publishable(prompts: Sequence[Sequence[str]]) -> None:
    """Raise InvalidInput for more or longer prompts than a classifier may have."""
    try:
        check_prompts(prompts, len(prompts))
    except ValueError as error:
        raise InvalidInput(
            f"With these templates {error}: give fewer or shorter ones.", field="templates"
        ) from None


def publish_outcome(
    training: SelfTraining, outcome: Outcome, text_model: TextModel, home: Path
) -> Path:
    """Export `text_model` and publish it as the outcome's classifier; returns the build's path."""
    staged, recipe, name = training.out / "classifier", training.recipe, outcome.name
    # All files in it are published, those of an export that was killed too.
    shutil.rmtree(staged, ignore_errors=True)
    encoder = _export_encoder(training, outcome, text_model, staged)

    # The untrained model is that of round 0.
    number = 0 if outcome.rejection else len(training.rounds) - 1
    embeddings = training.embeddings(number, text_model)
    classifier = outcome.published
    # Quantization moves scores a little, those of each label differently.
    offsets = classifier.offsets + _export_shift(training, outcome, embeddings, encoder)

    spec = ClassifierSpec(
        name=name,
        labels=outcome.labels,
        prompts=recipe.prompts(training.labels),
        offsets=tuple(offsets.tolist()),
        temperature=classifier.temperature,
        measures=summarize(outcome),
        fingerprint=encoder.fingerprint,
        vectors=classifier.vectors if recipe.export.serve == "head" else None,
    )
    write_classifier(staged, spec)

    by_round = dev_accuracies(outcome)
    if by_round:
        draw_accuracy({name: [by_round]}, training.out / ACCURACY)
    for directory in (staged, training.out):
        (directory / REPORT).write_text(render_report(outcome), encoding="utf-8")
    return home / "classifiers" / name / publish_classifier(home, name, staged)


def summarize(outcome: Outcome) -> dict[str, Any]:
    """The `measures` of `classifier.json`: how the classifier was made; plain JSON."""
    untrained, published = outcome.untrained, outcome.published
    shares = label_shares(published.pseudo_labels, len(outcome.labels))
    check = None
    if outcome.check:
        check = {key: round(value, 4) for key, value in asdict(outcome.check).items()}

    summary: dict[str, Any] = {
        "texts": len(outcome.pool.texts),
        "rounds": sum(round_.texts > 0 for round_ in outcome.rounds),
        "encoder": "trained" if outcome.check and not outcome.rejection else "untrained",
        "shares": dict(zip(outcome.labels, shares, strict=True)),
        "check": check,
        "kept": outcome.rejection,
    }
    if untrained.dev_accuracy is not None and published.dev_accuracy is not None:
        summary |= {
            "dev accuracy": round(published.dev_accuracy, 4),
            "dev accuracy untrained": round(untrained.dev_accuracy, 4),
            "dev accuracy by prompts": dev_accuracies(outcome),
        }

    return summary


def dev_accuracies(outcome: Outcome) -> list[float]:
    """The accuracy of the prompts before each round, and after the last; none without dev rows."""
    by_round = [round_.dev_accuracy for round_ in outcome.rounds]
    return [round(accuracy, 4) for accuracy in by_round if accuracy is not None]


def _export_encoder(
    training: SelfTraining, outcome: Outcome, text_model: TextModel, staged: Path
) -> Encoder:
    """Export the model to `staged`, by way of a checkpoint that is removed again."""
    recipe, checkpoint = training.recipe, training.out / "chosen"
    shutil.rmtree(checkpoint, ignore_errors=True)
    with storing(training.out, checkpoint):
        checkpoint.mkdir()
        text_model.save(checkpoint)

    accuracy = outcome.published.dev_accuracy
    pool_size = len(training.pool.texts)
    measures = {} if accuracy is None else {"dev accuracy": accuracy}
    learnt = (_texts_learnt(pool_size, recipe.teacher.base),)
    base_model = base_name(recipe.model.base)
    card = recipe_card(outcome.name, recipe.export, base_model, measures, learnt)
    encoder = export_encoder(
        checkpoint,
        staged / ENCODER,
        card,
        samples=quantization_samples(training.pool.texts),
        quantization=recipe.export.quantization,
        max_tokens=recipe.export.max_tokens,
    )
    shutil.rmtree(checkpoint, ignore_errors=True)
    return encoder


def quantization_samples(texts: Sequence[str]) -> list[str]:
    """Texts to round the weights by: the first of the pool, and others if these are short or few."""
    samples = list(texts[:SAMPLE_TEXTS])
    return samples if sum(map(len, samples)) >= MIN_SAMPLE_CHARS else samples + library_texts()


def _texts_learnt(count: int, teacher: str | None) -> str:
    """What the model card says of the texts, and of the other encoder that labelled them, if any."""
    labelled_by = f", labelled also by {Path(teacher).name}" if teacher else ""
    return f"{count:,} texts without labels{labelled_by}"


def _export_shift(
    training: SelfTraining, outcome: Outcome, embeddings: ModelVectors, encoder: Encoder
) -> ClassScores:
    """By how much the exported encoder's mean score of each label (L,) is above the model's."""
    texts, vectors = training.pool.texts[:COMPARED_TEXTS], outcome.published.vectors
    if training.recipe.export.serve == "prompts":
        # The server encodes the prompts with the exported encoder, too.
        prompts = training.recipe.prompts(training.labels)
        vectors = mean_vectors(prompts, encoder)

    exported = encoder.encode(texts, role="query") @ vectors.T
    expected = embeddings.texts[:COMPARED_TEXTS] @ outcome.published.vectors.T
    shift: ClassScores = (exported - expected).mean(0).astype(np.float64)
    return shift
