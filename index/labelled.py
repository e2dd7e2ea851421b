"""Texts with their true labels, and how well a classifier does on them."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from index.classifier import Classification
from index.errors import InvalidInput, NotFound
from index.evaluate import MAX_LINE, Measure, measure

MAX_TEXTS = 1_000_000
MAX_LABELS_BYTES = 16 * 2**20


def read_labelled(path: Path) -> tuple[list[str], list[str]]:
    """Texts and their labels from JSON Lines {text, label}, gzipped or not. InvalidInput names a line that is wrong."""
    texts: list[str] = []
    labels: list[str] = []
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            while line := file.readline(MAX_LINE + 1):
                text, label = _row(line, f"{path}, line {len(texts) + 1}")
                texts.append(text)
                labels.append(label)
                if len(texts) > MAX_TEXTS:
                    raise InvalidInput(f"{path} has more than {MAX_TEXTS:,} lines: split it.", field="rows")
    except (OSError, EOFError, zlib.error) as error:
        raise NotFound(f"{path} cannot be read: {error}.", field="rows") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8.", field="rows") from error
    if not texts:
        raise InvalidInput(f"{path} is empty: give JSON Lines of {{text, label}}.", field="rows")
    return texts, labels


def read_labels(path: Path) -> list[str]:
    """Label names, one a line; blank lines do not count."""
    try:
        with path.open(encoding="utf-8") as file:
            content = file.read(MAX_LABELS_BYTES + 1)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.", field="labels") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8.", field="labels") from error
    if len(content) > MAX_LABELS_BYTES:
        raise InvalidInput(f"{path} has more than {MAX_LABELS_BYTES:,} characters: one label a line.", field="labels")
    return [line.strip() for line in content.splitlines() if line.strip()]


def evaluate(found: Sequence[Classification], truth: Sequence[str]) -> list[Measure]:
    """Accuracy, the mean score of the best label, and the recall of each label (of the first 100).

    A null label counts as wrong. Scores that are calibrated have the accuracy as their mean, where nothing is null.
    """
    right = np.array([one.label == label for one, label in zip(found, truth, strict=True)], np.float64)
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
            f"{len(unknown)} labels of the rows are not among those to choose from: {shown}.", field="rows"
        )


def _row(line: str, where: str) -> tuple[str, str]:
    if len(line) > MAX_LINE:
        raise InvalidInput(f"{where} has more than {MAX_LINE:,} characters: shorten it.", field="rows")
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    match row:
        case {"text": str(text), "label": str(label)} if text.strip() and label.strip():
            return text, label
    raise InvalidInput(f"{where} is no JSON object with a text and a label.", field="rows")
