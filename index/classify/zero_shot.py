"""Texts and label names -> scores, by matching each text with prompts made of the labels (PESCO, section 3).

A label is put into each template, text and prompts are encoded by the same encoder, and a label's score is the mean
cosine over the templates (eq. 2). As vectors have unit length, that is one product with the mean prompt vector.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.encoder import TextEncoder, Vectors
from index.errors import InvalidInput
from index.lookups import Lookups
from index.records import Classification, LabelScore

# Chosen on the dev sets of AG News, DBpedia, Amazon polarity and Yahoo Answers with all-MiniLM-L6-v2: the templates by
# mean accuracy, the rest by mean log loss (for single labels right and wrong ones weigh the same).
DEFAULT_TEMPLATES = ("This is about {label}.", "A {label} text.", "This is a {label}.")
SHARED_TEMPERATURE = 0.04
INDEPENDENT_TEMPERATURE = 0.06
INDEPENDENT_MIDPOINT = 0.09  # the cosine that scores 0.5
ALIKE = 0.9  # cosine from which the vectors of two labels are nearly the same, measured in docs/classify.md

RANKED = 100
_BLOCK = 256
_PAIRS = 10  # of labels nearly the same that are told of
_LEVEL = re.compile(r"\s+>\s+")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels, their vectors (labels, dim), and pairs of them that no text can tell apart, with their cosine."""

    labels: tuple[str, ...]
    vectors: Vectors
    alike: tuple[tuple[str, str, float], ...]

    @classmethod
    def of(cls, labels: Sequence[str], vectors: Vectors) -> LabelSet:
        """Compares every label with every other, in blocks; the first ten pairs that are alike end it."""
        alike = ((labels[a], labels[b], cosine) for a, b, cosine in _alike(vectors))
        return cls(tuple(labels), vectors, tuple(islice(alike, _PAIRS)))

    def warnings(self) -> list[str]:
        """What whoever gave these labels should know."""
        return [
            f"The labels {_quoted(one)} and {_quoted(other)} are nearly the same to the encoder (cosine {cosine:.2f}): "
            "texts of one will get the other. Keep one of them, or say in their names how they differ."
            for one, other, cosine in self.alike
        ]


class Classifier:
    """Scores texts against any labels; the vectors of up to `capacity` labels are kept, the least recently used go."""

    def __init__(self, encoder: TextEncoder, *, capacity: int = 20_000) -> None:
        self.encoder = encoder
        self._sets = _LabelSets(encoder, capacity)
        self.lookups = {
            "label_sets": self._sets.set_lookups,
            "label_vectors": self._sets.label_lookups,
        }

    def classify(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        templates: Sequence[str] = DEFAULT_TEMPLATES,
        multi_label: bool = False,
        min_score: float = 0.0,
        ranked: int = RANKED,
    ) -> list[Classification]:
        """One result per text, in the order given; equal scores keep the order of `labels`.

        The scores of one text sum to 1; with `multi_label` each stands alone, above 0.5 the label more likely fits
        than not, and one label is enough. They are rounded to 6 decimals; rankings have at most `ranked` labels.
        Raises InvalidInput.
        """
        check_texts(texts)
        if len(labels) == 1 and not multi_label:
            raise InvalidInput(_ONE_LABEL, field="labels")
        chosen = self._sets.get(tuple(labels), tuple(templates))
        to_scores = independent_scores if multi_label else shared_scores
        return rank(self.encoder, texts, chosen, to_scores, min_score=min_score, ranked=ranked)

    def label_set(
        self, labels: Sequence[str], templates: Sequence[str] = DEFAULT_TEMPLATES
    ) -> LabelSet:
        """The labels with their vectors, encoded unless they are known. Raises InvalidInput."""
        return self._sets.get(tuple(labels), tuple(templates), counted=False)


def rank(
    encoder: TextEncoder,
    texts: Sequence[str],
    chosen: LabelSet,
    to_scores: Callable[[Vectors], Scores],
    *,
    min_score: float = 0.0,
    ranked: int = RANKED,
) -> list[Classification]:
    """One result per text, in blocks: `to_scores` makes scores of mean cosines (block, labels)."""
    results: list[Classification] = []
    for start in range(0, len(texts), _BLOCK):
        block = encoder.encode(texts[start : start + _BLOCK], role="query")
        scores = to_scores(block @ chosen.vectors.T)
        results.extend(_classification(row, chosen.labels, min_score, ranked) for row in scores)
    return results


def shared_scores(
    cosines: NDArray[np.floating[Any]], temperature: float = SHARED_TEMPERATURE
) -> Scores:
    """Softmax of (n, labels) cosines / temperature: each row sums to 1."""
    logits = cosines.astype(np.float64) / temperature
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    shared: Scores = weights / weights.sum(axis=1, keepdims=True)
    return shared


def independent_scores(cosines: Vectors) -> Scores:
    """Logistic function of how far (n, labels) cosines lie above INDEPENDENT_MIDPOINT: no score depends on others."""
    logits = (cosines.astype(np.float64) - INDEPENDENT_MIDPOINT) / INDEPENDENT_TEMPERATURE
    independent: Scores = 1.0 / (1.0 + np.exp(-logits))
    return independent


def prompt(template: str, label: str) -> str:
    """The template with the label in its place; of a path "Sports > Football > World Cup", from the last part up."""
    *parents, last = _LEVEL.split(label.strip())
    return template.replace("{label}", f"{last} ({', '.join(parents)})" if parents else label)


def check_texts(texts: Sequence[str]) -> None:
    """Refuse an empty list and blank texts."""
    if not texts:
        raise InvalidInput("There are no texts: give at least one.", field="texts")
    for number, text in enumerate(texts):
        if not text or text.isspace():
            raise InvalidInput(
                "The text is empty: leave it out or fill it.", field=f"texts[{number}]"
            )


_ONE_LABEL = (
    "Choosing takes at least 2 labels, and there is one label: add another, or set multi_label to true to score how "
    "well this one fits."
)


def check_labels(labels: Sequence[str]) -> None:
    """Refuse an empty list, labels that are blank or have control characters, and the same one twice."""
    if not labels:
        raise InvalidInput(
            "There are no labels: give the names to choose from, at least 2.", field="labels"
        )
    seen: dict[str, int] = {}
    for number, label in enumerate(labels):
        name = label.strip()
        if not name:
            raise InvalidInput(
                "The label is empty: leave it out or fill it.", field=f"labels[{number}]"
            )
        if _CONTROL.search(name):
            raise InvalidInput(
                f"The label {name!r:.80} has a control character: take it out.",
                field=f"labels[{number}]",
            )
        first = seen.setdefault(name, number)
        if first != number:
            raise InvalidInput(
                f"The label {name!r:.80} is the same as labels[{first}]: give each once.",
                field=f"labels[{number}]",
            )


def check_templates(templates: Sequence[str]) -> None:
    """Refuse an empty list, templates without `{label}` or with several, and any other brace."""
    if not templates:
        raise InvalidInput(
            "There are no templates: give at least one, or leave the key out.", field="templates"
        )
    for number, template in enumerate(templates):
        shown, field = f"The template {template!r:.80} has", f"templates[{number}]"
        rest = template.replace("{label}", "")
        if rest == template:
            raise InvalidInput(f"{shown} no place for the label: write {{label}}.", field=field)
        if template.count("{label}") > 1:
            raise InvalidInput(f"{shown} {{label}} more than once: write it once.", field=field)
        if "{" in rest or "}" in rest:
            raise InvalidInput(f"{shown} other braces than {{label}}.", field=field)


def _classification(
    scores: Scores, labels: Sequence[str], min_score: float, ranked: int
) -> Classification:
    order = _best(scores, ranked)
    values = scores[order].round(6).tolist()
    ranking = tuple(
        LabelScore(labels[column], value)
        for column, value in zip(order.tolist(), values, strict=True)
    )
    first = values[0]
    second = values[1] if len(values) > 1 else 0.0
    label = ranking[0].label if first >= min_score else None
    return Classification(label, first, round(first - second, 6), ranking)


def _best(scores: Scores, ranked: int) -> NDArray[np.intp]:
    """Columns of the best scores (labels,), best first; equal ones in their order."""
    if len(scores) <= ranked:
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, len(scores) - ranked)[len(scores) - ranked]
    candidates = np.flatnonzero(scores >= least)
    return candidates[np.argsort(-scores[candidates], kind="stable")][:ranked]


def _quoted(label: str) -> str:
    return repr(label if len(label) <= 60 else f"{label[:60]}…")


def _alike(vectors: Vectors) -> Iterator[tuple[int, int, float]]:
    """Pairs of rows (labels, dim) whose cosine is at least ALIKE, by the first row."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    for start in range(0, len(unit), _BLOCK):
        cosines = np.triu(unit[start : start + _BLOCK] @ unit[start:].T, 1)
        for row, column in np.argwhere(cosines >= ALIKE).tolist():
            yield start + row, start + column, float(cosines[row, column])


class _LabelSets:
    """Label sets that were asked for, and mean prompt vectors by templates and label; safe between threads.

    Most callers ask for the same labels again and again, which finds the whole set; a set that is new takes what is
    known of its labels. Of both, the least recently used go beyond `capacity` labels.
    """

    def __init__(self, encoder: TextEncoder, capacity: int) -> None:
        self._encoder = encoder
        self._capacity = capacity
        self._lock = threading.Lock()
        self._vectors: OrderedDict[tuple[tuple[str, ...], str], Vectors] = OrderedDict()
        self._sets: OrderedDict[tuple[tuple[str, ...], tuple[str, ...]], LabelSet] = OrderedDict()
        self._rows = 0  # of all sets
        self.set_lookups, self.label_lookups = Lookups(), Lookups()

    def get(
        self, labels: tuple[str, ...], templates: tuple[str, ...], *, counted: bool = True
    ) -> LabelSet:
        """The labels with their vectors; those not known yet are encoded. Raises InvalidInput."""
        key = (templates, labels)
        with self._lock:
            found = self._sets.get(key)
            if found is not None:
                self._sets.move_to_end(key)
        if counted:
            self.set_lookups.count(hits=found is not None, misses=found is None)
        return found or self._make(labels, templates, key)

    def _make(
        self,
        labels: tuple[str, ...],
        templates: tuple[str, ...],
        key: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> LabelSet:
        check_labels(labels)
        check_templates(templates)
        made = LabelSet.of(labels, self._gather(labels, templates))
        with self._lock:
            self._rows += len(labels) - (len(labels) if key in self._sets else 0)
            self._sets[key] = made
            while self._rows > self._capacity:
                self._rows -= len(self._sets.popitem(last=False)[1].labels)
        return made

    def _gather(self, labels: Sequence[str], templates: tuple[str, ...]) -> Vectors:
        found = self._recall(labels, templates)
        missing = [label for label in labels if label not in found]
        self.label_lookups.count(hits=len(found), misses=len(missing))
        if missing:
            new = self._encode(missing, templates)
            found |= new
            self._remember(new, templates)
        return np.stack([found[label] for label in labels])

    def _recall(self, labels: Sequence[str], templates: tuple[str, ...]) -> dict[str, Vectors]:
        found = {}
        with self._lock:
            for label in labels:
                if (vector := self._vectors.get((templates, label))) is not None:
                    self._vectors.move_to_end((templates, label))
                    found[label] = vector
        return found

    def _encode(self, labels: list[str], templates: Sequence[str]) -> dict[str, Vectors]:
        found: dict[str, Vectors] = {}
        for start in range(0, len(labels), _BLOCK):
            block = labels[start : start + _BLOCK]
            prompts = [prompt(template, label) for label in block for template in templates]
            means = (
                self._encoder.encode(prompts, role="query")
                .reshape(len(block), len(templates), -1)
                .mean(axis=1)
            )
            found |= {
                label: mean.copy() for label, mean in zip(block, means, strict=True)
            }  # a view would keep all
        return found

    def _remember(self, vectors: dict[str, Vectors], templates: tuple[str, ...]) -> None:
        with self._lock:
            self._vectors.update({(templates, label): vector for label, vector in vectors.items()})
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)
