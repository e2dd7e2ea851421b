"""Texts and label names -> scores, by matching each text with prompts made of the labels (PESCO, section 3).

A label is put into each template, text and prompts are encoded by the same encoder, and a label's score is the mean
cosine over the templates (eq. 2). As vectors have unit length, that is one product with the mean prompt vector.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.encoder import TextEncoder, Vectors
from index.errors import InvalidInput

# Chosen on the dev sets of AG News, DBpedia, Amazon polarity and Yahoo Answers with all-MiniLM-L6-v2: the templates by
# mean accuracy, the rest by mean log loss (for single labels right and wrong ones weigh the same).
DEFAULT_TEMPLATES = ("This is about {label}.", "A {label} text.", "This is a {label}.")
SHARED_TEMPERATURE = 0.04
INDEPENDENT_TEMPERATURE = 0.06
INDEPENDENT_MIDPOINT = 0.09  # the cosine that scores 0.5

RANKED = 100
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class LabelScore:
    """One label and how well it fits, 0-1."""

    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Classification:
    """What was found for one text.

    `label` is the best label, or None where its `score` is below the `min_score` asked for. `margin` is how far the
    best score lies above the second. `ranking` has all labels, best first, or the best 100 of more.
    """

    label: str | None
    score: float
    margin: float
    ranking: tuple[LabelScore, ...]


class Classifier:
    """Scores texts against any labels; the vectors of up to `capacity` labels are kept, the least recently used go."""

    def __init__(self, encoder: TextEncoder, *, capacity: int = 20_000) -> None:
        self.encoder = encoder
        self._labels = _LabelVectors(encoder, capacity)

    def classify(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        templates: Sequence[str] = DEFAULT_TEMPLATES,
        multi_label: bool = False,
        min_score: float = 0.0,
    ) -> list[Classification]:
        """One result per text, in the order given; equal scores keep the order of `labels`.

        The scores of one text sum to 1; with `multi_label` each stands alone, and above 0.5 the label more likely fits
        than not. They are rounded to 6 decimals. Raises InvalidInput.
        """
        check_texts(texts)
        check_labels(labels)
        check_templates(templates)
        prompts = self._labels.vectors(labels, templates)
        to_scores = independent_scores if multi_label else shared_scores
        results: list[Classification] = []
        for start in range(0, len(texts), _BLOCK):
            block = self.encoder.encode(texts[start : start + _BLOCK], role="query")
            scores = to_scores(block @ prompts.T)
            results.extend(_classification(row, labels, min_score) for row in scores)
        return results


def shared_scores(cosines: Vectors) -> NDArray[np.float64]:
    """Softmax of (n, labels) cosines / SHARED_TEMPERATURE: each row sums to 1."""
    logits = cosines.astype(np.float64) / SHARED_TEMPERATURE
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    shared: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return shared


def independent_scores(cosines: Vectors) -> NDArray[np.float64]:
    """Logistic function of how far (n, labels) cosines lie above INDEPENDENT_MIDPOINT: no score depends on others."""
    logits = (cosines.astype(np.float64) - INDEPENDENT_MIDPOINT) / INDEPENDENT_TEMPERATURE
    independent: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-logits))
    return independent


def check_texts(texts: Sequence[str]) -> None:
    """Refuse an empty list and blank texts."""
    if not texts:
        raise InvalidInput("There are no texts: give at least one.", field="texts")
    for number, text in enumerate(texts):
        if not text.strip():
            raise InvalidInput("The text is empty: leave it out or fill it.", field=f"texts[{number}]")


def check_labels(labels: Sequence[str]) -> None:
    """Refuse fewer than two labels, blank ones, and the same one twice."""
    if len(labels) < 2:
        given = "no labels" if not labels else "one label"
        raise InvalidInput(f"Choosing takes at least 2 labels, and there is {given}.", field="labels")
    seen: dict[str, int] = {}
    for number, label in enumerate(labels):
        name = label.strip()
        if not name:
            raise InvalidInput("The label is empty: leave it out or fill it.", field=f"labels[{number}]")
        first = seen.setdefault(name, number)
        if first != number:
            raise InvalidInput(f"The label is the same as labels[{first}]: give each once.", field=f"labels[{number}]")


def check_templates(templates: Sequence[str]) -> None:
    """Refuse an empty list, templates without `{label}`, and any other brace."""
    if not templates:
        raise InvalidInput("There are no templates: give at least one, or leave the key out.", field="templates")
    for number, template in enumerate(templates):
        rest = template.replace("{label}", "")
        if rest == template:
            raise InvalidInput("The template has no place for the label: write {label}.", field=f"templates[{number}]")
        if "{" in rest or "}" in rest:
            raise InvalidInput("The template has other braces than {label}.", field=f"templates[{number}]")


def _classification(scores: NDArray[np.float64], labels: Sequence[str], min_score: float) -> Classification:
    order = np.argsort(-scores, kind="stable")[:RANKED].tolist()
    ranking = tuple(LabelScore(labels[column], round(float(scores[column]), 6)) for column in order)
    first, second = ranking[0], ranking[1]
    label = first.label if first.score >= min_score else None
    return Classification(label, first.score, round(first.score - second.score, 6), ranking)


class _LabelVectors:
    """Mean prompt vectors by templates and label, the least recently used forgotten first; safe between threads."""

    def __init__(self, encoder: TextEncoder, capacity: int) -> None:
        self._encoder = encoder
        self._capacity = capacity
        self._known: OrderedDict[tuple[str, str], Vectors] = OrderedDict()
        self._lock = threading.Lock()
        # Most callers ask for the same labels again and again: the last answer as a whole.
        self._last: tuple[tuple[tuple[str, ...], ...], Vectors] = ((), np.empty((0, encoder.dim), np.float32))

    def vectors(self, labels: Sequence[str], templates: Sequence[str]) -> Vectors:
        """(len(labels), dim); the labels not known yet are encoded in one call."""
        asked = (tuple(templates), tuple(labels))
        last, vectors = self._last
        if last != asked:
            vectors = self._gather(labels, templates)
            self._last = asked, vectors
        return vectors

    def _gather(self, labels: Sequence[str], templates: Sequence[str]) -> Vectors:
        group = repr(tuple(templates))
        found = self._recall(group, labels)
        missing = [label for label in labels if label not in found]
        if missing:
            new = self._encode(missing, templates)
            found |= new
            self._remember(group, new)
        return np.concatenate([found[label] for label in labels]).reshape(len(labels), -1)

    def _recall(self, group: str, labels: Sequence[str]) -> dict[str, Vectors]:
        found = {}
        with self._lock:
            for label in labels:
                if (vector := self._known.get((group, label))) is not None:
                    self._known.move_to_end((group, label))
                    found[label] = vector
        return found

    def _encode(self, labels: list[str], templates: Sequence[str]) -> dict[str, Vectors]:
        prompts = [template.replace("{label}", label) for label in labels for template in templates]
        vectors = self._encoder.encode(prompts, role="query")
        means = vectors.reshape(len(labels), len(templates), -1).mean(axis=1)
        return {label: mean.copy() for label, mean in zip(labels, means, strict=True)}  # a view would keep all of them

    def _remember(self, group: str, vectors: dict[str, Vectors]) -> None:
        with self._lock:
            self._known.update({(group, label): vector for label, vector in vectors.items()})
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)
