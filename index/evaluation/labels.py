"""Texts with their true labels, and how well a classifier does on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from index.errors import InvalidInput
from index.evaluation.ranking import MAX_LINE_CHARS, Measure, measure, parsed, read_lines
from index.records import Classification

MAX_TEXTS = 1_000_000
LONGEST = 16 * MAX_LINE_CHARS  # characters of a line; of a longer one no more is read


def rows(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, text and label of JSON Lines {text, label}, gzipped or not.

    Raises NotFound, and InvalidInput for a line that is wrong, by its number, and where there is none.
    """
    number = 0
    for number, line in read_lines(path, longest=LONGEST, most=MAX_TEXTS):
        where = f"{path}, line {number}"
        if len(line) > MAX_LINE_CHARS:
            raise InvalidInput(
                f"{where} has more than {MAX_LINE_CHARS:,} characters: shorten it.", field="rows"
            )
        match parsed(line):
            case {"text": str(text), "label": str(label)} if text.strip() and label.strip():
                yield number, text, label
            case _:
                raise InvalidInput(
                    f"{where} is no JSON object with a text and a label.", field="rows"
                )
    if not number:
        raise InvalidInput(f"{path} is empty: there are no rows of {{text, label}}.", field="rows")


def read_labelled(path: Path) -> tuple[list[str], list[str]]:
    """Texts and their labels, as `rows` has them."""
    found = list(rows(path))
    return [text for _, text, _ in found], [label for _, _, label in found]


def evaluate(found: Sequence[Classification], truth: Sequence[str]) -> list[Measure]:
    """Accuracy, the mean score of the best label, and the recall of each label (of the first 100).

    A null label counts as wrong. Scores that are calibrated have the accuracy as their mean, where nothing is null.
    """
    right = np.array(
        [one.label == label for one, label in zip(found, truth, strict=True)], np.float64
    )
    measures = [measure("accuracy", right, len(right))]
    answered = np.array([one.label is not None for one in found])
    if not answered.all():
        measures.append(measure("answered", answered.astype(np.float64), len(answered)))
    measures.append(measure("score", np.array([one.score for one in found]), len(found)))
    for label in list(dict.fromkeys(truth))[:100]:
        of_label = right[[one == label for one in truth]]
        measures.append(measure(f"recall of {label}", of_label, len(of_label)))
    return measures


def check_truth(truth: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse rows whose label is not one to choose from."""
    known = set(labels)
    unknown = dict.fromkeys(label for label in truth if label not in known)
    if unknown:
        shown = ", ".join(repr(label[:60]) for label in list(unknown)[:5])
        raise InvalidInput(
            f"{len(unknown)} labels of the rows are not among those to choose from: {shown}.",
            field="rows",
        )
