"""From a model to a calibrated classifier: a head, offsets and a temperature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax  # type: ignore[import-untyped]

from purlin.index.classify.scores import ClassScores, shared_scores
from purlin.index.encoder import Vectors
from purlin.training.models.text_model import TextModel
from purlin.training.pesco.check import TrainingCheck, check_training
from purlin.training.pesco.outcome import CalibratedClassifier
from purlin.training.pesco.rounds import SelfTraining
from purlin.training.pesco.teacher import ModelVectors, PseudoLabels, class_offsets
from purlin.training.pesco.texts import split_halves
from purlin.training.pesco.views import Indices, linear_head

# Texts on which the trained model is compared with the untrained one.
CHECKED_TEXTS = 2000

# With so many texts a label, prompts and head weigh the same.
PROMPT_WEIGHT_TEXTS = 25

# Each fold of the texts is scored by what the other folds teach.
CROSS_FIT_FOLDS = 5
TEMPERATURES = np.geomspace(0.005, 5.0, 70)
MAX_SCORES_FOR_TEMPERATURE = 2_000_000


def calibrated_classifier(
    training: SelfTraining, number: int, text_model: TextModel
) -> CalibratedClassifier:
    """Make a classifier of the model of round `number`: its prompts, with a head if so set.

    The temperature is fitted to the `expected_shares`.
    """
    embeddings = training.embeddings(number, text_model)
    pool, vectors = embeddings.texts, embeddings.prompts
    offsets = training.prompt_offsets(pool, vectors)

    if training.recipe.export.serve == "head":
        labels = training.pseudo_labels(number)
        held_out = cross_fitted_scores(pool, labels, vectors, offsets)
        vectors, offsets = distill_head(pool, labels, vectors, offsets)
        scores = (pool @ vectors.T).astype(np.float64) - offsets
    else:
        scores = (pool @ vectors.T).astype(np.float64) - offsets
        held_out = scores

    shares = expected_shares(training, number, embeddings)
    temperature = fit_temperature(held_out[:: sample_step(*held_out.shape)], shares)
    accuracy = training.dev_accuracy(embeddings, vectors, offsets)
    return CalibratedClassifier(vectors, offsets, temperature, PseudoLabels.of(scores), accuracy)


def distill_head(
    pool: Vectors, labels: Indices, prompts: Vectors, offsets: ClassScores
) -> tuple[Vectors, ClassScores]:
    """Add a head trained on pseudo-`labels` (N,) of the `pool` (N, D) to the label prompts.

    Takes and returns label vectors (L, D) and offsets (L,). Head and prompts are scaled alike; the
    fewer texts a label has on average, the more the prompts weigh. A label without texts keeps its
    prompts, with an offset so high that it gets no text of the pool.
    """
    present = np.bincount(labels, minlength=len(prompts)) > 0
    if present.sum() < 2:
        return prompts, offsets

    # The offset is the weight of an input that is always -1.
    inputs = np.pad(pool, ((0, 0), (0, 1)), constant_values=-1)
    weights, bias = linear_head(pool, labels, len(prompts))
    head = _unit_scale(np.column_stack((weights, -bias)).astype(np.float32), inputs, present)
    by_prompts = _unit_scale(
        np.column_stack((prompts, offsets)).astype(np.float32), inputs, present
    )

    texts_per_label = len(pool) / int(present.sum())
    head_weight = texts_per_label / (texts_per_label + PROMPT_WEIGHT_TEXTS)
    combined = by_prompts + head_weight * (head - by_prompts)

    if not present.all():
        # No text taught the head where the vectors of these labels should be.
        combined[~present] = by_prompts[~present]
        scores = inputs @ combined.T
        best_present = scores[:, present].max(1, keepdims=True)
        lead = (scores[:, ~present] - best_present).max(0)
        combined[~present, -1] += np.maximum(0.0, lead + 1e-4)

    return combined[:, :-1], combined[:, -1].astype(np.float64)


def _unit_scale(weights: Vectors, inputs: Vectors, present: NDArray[np.bool_]) -> Vectors:
    """Center label weights (L, D + 1), and scale scores of `inputs` (N, D + 1) to deviation 1.

    Only the labels that are `present` count.
    """
    weights = weights - weights[present].mean(0)
    scaled: Vectors = weights / max(float((inputs @ weights[present].T).std()), 1e-9)
    return scaled


def cross_fitted_scores(
    pool: Vectors, labels: Indices, prompts: Vectors, offsets: ClassScores
) -> ClassScores:
    """(N, L): the scores of each text by a `distill_head` that was trained without it."""
    scores = np.empty((len(pool), len(prompts)))
    folds = np.arange(len(pool)) % CROSS_FIT_FOLDS
    for fold in range(CROSS_FIT_FOLDS):
        train = folds != fold
        vectors, fold_offsets = distill_head(pool[train], labels[train], prompts, offsets)
        scores[~train] = pool[~train] @ vectors.T - fold_offsets

    return scores


def expected_shares(training: SelfTraining, number: int, embeddings: ModelVectors) -> ClassScores:
    """How likely each label is for every `sample_step`-th text (n, L), as far as is known without labels.

    After a round, these are the labels of the first teacher: the encoder has memorised those of later
    ones with their errors. Before, a head repeats the first teacher's errors, too. So the labels, by
    which it is right more often than it is, are averaged with the prompts' scores, by which it is right
    less often, as they do not know the teacher's other views.
    """
    step = sample_step(len(embeddings.texts), len(embeddings.prompts))
    labels = training.pseudo_labels(0)[::step]
    shares = np.eye(len(embeddings.prompts))[labels]
    if number > 0:
        return shares

    prompt_shares = shared_scores(embeddings.texts[::step] @ embeddings.prompts.T)
    return (shares + prompt_shares) / 2


def sample_step(texts: int, labels: int) -> int:
    """The step from text to text at which the sample takes far less memory and time than all."""
    return max(1, texts * labels // MAX_SCORES_FOR_TEMPERATURE)


def fit_temperature(scores: ClassScores, targets: ClassScores) -> float:
    """The temperature at which the softmax of `scores` (n, L) is nearest to the shares `targets`."""
    likelihoods = []
    for temperature in TEMPERATURES:
        shares = softmax(scores / temperature, axis=1)
        likelihoods.append((targets * np.log(shares + 1e-12)).sum(1).mean())

    return float(TEMPERATURES[int(np.argmax(likelihoods))])


def compare_classifiers(
    training: SelfTraining,
    models: Sequence[TextModel],
    classifiers: Sequence[CalibratedClassifier],
) -> TrainingCheck:
    """Compare the untrained with the trained model, in this order, on texts of the pool."""
    rng = np.random.default_rng([training.recipe.seed, 2])
    rows = rng.permutation(len(training.pool.texts))[:CHECKED_TEXTS]
    pairs = [split_halves(training.pool.texts[row]) for row in rows]

    half_labels = []
    for text_model, classifier in zip(models, classifiers, strict=True):
        for half in (0, 1):
            vectors = training.encode(text_model, [pair[half] for pair in pairs])
            cosines = (vectors @ classifier.vectors.T).astype(np.float64)
            offsets = classifier.offsets
            if training.recipe.teacher.calibrate:
                # Halves are shorter than texts, and have class priors of their own.
                offsets = class_offsets(cosines, calibrate=True)
            half_labels.append((cosines - offsets).argmax(1))

    before, after = (
        PseudoLabels.of(classifier.pseudo_labels.scores[rows]) for classifier in classifiers
    )
    return check_training(before, after, half_labels)
