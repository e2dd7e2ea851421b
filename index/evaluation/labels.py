"""Measures of the labels that texts get, one or several each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

import numpy as np

from purlin.index.evaluation.ranking import Measure, measure
from purlin.index.records import Classification

# Labels of which each is measured.
MAX_MEASURED_LABELS = 100


def evaluate_labels(
    results: Sequence[Classification], truth: Sequence[str | None]
) -> list[Measure]:
    """Accuracy, the mean score of the best label, and recall and precision of the first 100 labels.

    A null label is right where the true one is null, too. If no label is null and the scores are
    calibrated, their mean is the accuracy. A true label that no text got has no precision.
    """
    correct = [result.label == label for result, label in zip(results, truth, strict=True)]
    right = np.array(correct, np.float64)
    measures = [measure("accuracy", right, len(right))]

    answered = np.array([result.label is not None for result in results])
    if not answered.all():
        measures.append(measure("answered", answered.astype(np.float64), len(answered)))

    scores = np.array([result.score for result in results])
    measures.append(measure("score", scores, len(scores)))

    for label in islice(dict.fromkeys(truth), MAX_MEASURED_LABELS):
        name = "null" if label is None else label
        having = right[[true_label == label for true_label in truth]]
        measures.append(measure(f"recall of {name}", having, len(having)))
        getting = right[[result.label == label for result in results]]
        if len(getting):
            measures.append(measure(f"precision of {name}", getting, len(getting)))
    return measures


def confusions(
    results: Sequence[Classification], truth: Sequence[str | None]
) -> list[tuple[str | None, str | None, list[int]]]:
    """Return (true label, label, positions of its texts) of what got a wrong label, the most texts first."""
    positions: dict[tuple[str | None, str | None], list[int]] = {}
    for position, (result, true_label) in enumerate(zip(results, truth, strict=True)):
        if result.label != true_label:
            positions.setdefault((true_label, result.label), []).append(position)
    ranked = sorted(positions.items(), key=lambda item: -len(item[1]))
    return [(true_label, label, at) for (true_label, label), at in ranked]


def evaluate_several(
    results: Sequence[Collection[str]], truth: Sequence[Collection[str]]
) -> list[Measure]:
    """Measures of several labels a text: means over texts, and over those of each label.

    `F1` compares the labels of a text with the true ones, and is 1 if there are none of either;
    `all right` tells that they are the same. `precision` is over the texts that got a label,
    `recall` over those that have one. Each of the first 100 true labels has its recall and, if a
    text got it, its precision.
    """
    pairs = [(set(labels), set(true)) for labels, true in zip(results, truth, strict=True)]

    def mean(name: str, values: Sequence[float]) -> list[Measure]:
        return [measure(name, np.array(values, np.float64), len(pairs))] if values else []

    precisions = [len(labels & true) / len(labels) for labels, true in pairs if labels]
    recalls = [len(labels & true) / len(true) for labels, true in pairs if true]
    measures = mean("F1", [_f1(labels, true) for labels, true in pairs])
    measures += mean("precision", precisions)
    measures += mean("recall", recalls)
    measures += mean("all right", [float(labels == true) for labels, true in pairs])

    true_labels = dict.fromkeys(label for true in truth for label in true)
    for label in islice(true_labels, MAX_MEASURED_LABELS):
        recalls = [float(label in labels) for labels, true in pairs if label in true]
        precisions = [float(label in true) for labels, true in pairs if label in labels]
        measures += mean(f"recall of {label}", recalls)
        measures += mean(f"precision of {label}", precisions)
    return measures


def _f1(labels: set[str], true_labels: set[str]) -> float:
    total = len(labels) + len(true_labels)
    return 2 * len(labels & true_labels) / total if total else 1.0
