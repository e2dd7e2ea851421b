"""Labelled texts, and measures of a classifier on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from purlin.index.errors import InvalidInput
from purlin.index.evaluation.ranking import MAX_LINE_CHARS, Measure, measure, parsed, read_lines
from purlin.index.records import Classification

MAX_LABELLED_ROWS = 1_000_000
# A line is read up to here, so that the error can name its number.
MAX_READ_CHARS = 16 * MAX_LINE_CHARS
# Labels whose recall is measured.
MAX_RECALLS = 100


def labelled_rows(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Yield line number, text and label from JSON Lines {text, label}, gzipped or not.

    The label of a text to which none of the labels applies is null. Raises NotFound, and
    InvalidInput for an invalid line, which it names, or an empty file.
    """
    number = 0
    for number, line in read_lines(path, longest=MAX_READ_CHARS, most=MAX_LABELLED_ROWS):
        where = f"{path}, line {number}"
        if len(line) > MAX_LINE_CHARS:
            raise InvalidInput(
                f"{where} has more than {MAX_LINE_CHARS:,} characters; shorten it.", field="rows"
            )

        match parsed(line):
            case {"text": str(text), "label": str(label)} if text.strip() and label.strip():
                yield number, text, label
            case {"text": str(text), "label": None} if text.strip():
                yield number, text, None
            case _:
                raise InvalidInput(
                    f"{where} is not a JSON object with a text and a label: write "
                    '{"text": "…", "label": "…"}, and null for no label.',
                    field="rows",
                )

    if not number:
        raise InvalidInput(f"{path} is empty: it has no rows of {{text, label}}.", field="rows")


def read_labelled(path: Path) -> tuple[list[str], list[str | None]]:
    """Texts and their labels. Raises as `labelled_rows` does."""
    rows = list(labelled_rows(path))
    return [text for _, text, _ in rows], [label for _, _, label in rows]


def evaluate_labels(
    results: Sequence[Classification], truth: Sequence[str | None]
) -> list[Measure]:
    """Accuracy, the mean score of the best label, and the recall of each of the first 100 labels.

    A null label is right where the true one is null, too. If no label is null and the scores are
    calibrated, their mean is the accuracy.
    """
    correct = [result.label == label for result, label in zip(results, truth, strict=True)]
    right = np.array(correct, np.float64)
    measures = [measure("accuracy", right, len(right))]

    answered = np.array([result.label is not None for result in results])
    if not answered.all():
        measures.append(measure("answered", answered.astype(np.float64), len(answered)))

    scores = np.array([result.score for result in results])
    measures.append(measure("score", scores, len(scores)))

    for label in list(dict.fromkeys(truth))[:MAX_RECALLS]:
        of_label = right[[true_label == label for true_label in truth]]
        name = "null" if label is None else label
        measures.append(measure(f"recall of {name}", of_label, len(of_label)))
    return measures


def check_truth(truth: Sequence[str | None], labels: Sequence[str]) -> None:
    """Raise InvalidInput if a row has a label that the classifier does not have."""
    available = set(labels)
    unknown = dict.fromkeys(label for label in truth if label and label not in available)
    if unknown:
        shown = ", ".join(repr(label[:60]) for label in list(unknown)[:5])
        raise InvalidInput(
            f"{len(unknown)} labels of the rows are not among those to choose from: {shown}. A row "
            "to which none applies has the label null.",
            field="rows",
        )
