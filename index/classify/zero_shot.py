"""Zero-shot classification: score texts against label names by matching prompts (PESCO, section 3).

Each template is filled with a label, texts and prompts are encoded by the same encoder, and the
score of a label is the mean cosine over the templates (eq. 2). As vectors have unit length, that is
one product with the mean prompt vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from operator import not_

import numpy as np

from purlin.index.classify.labels import (
    DEFAULT_TEMPLATES,
    LabelSet,
    check_labels,
    check_templates,
    labels_in_english,
    mean_vectors,
    prompts,
    shortened,
)
from purlin.index.classify.scores import (
    RANKED,
    check_texts,
    independent_scores,
    rank,
    shared_scores,
)
from purlin.index.encoder import TextEncoder, Vectors, in_english, translating
from purlin.index.errors import InvalidInput
from purlin.index.lookups import Lookups, RecentlyUsed
from purlin.index.records import Classification

_BLOCK = 256

TemplatesAndLabel = tuple[tuple[str, ...], str]
TemplatesAndLabels = tuple[tuple[str, ...], tuple[str, ...]]


class LabelLookups:
    """Hits and misses of the cache of labels: of whole sets, and of single labels."""

    def __init__(self) -> None:
        self.sets, self.vectors = Lookups(), Lookups()


class Classifier:
    """Scores texts against any labels; safe to share between threads.

    Most callers repeat the same labels, so recent label sets are cached, and mean prompt vectors by
    templates and label, of which a new set takes those that it needs. Each cache has `capacity` labels
    at most; the least recently used are dropped. `lookups` counts their hits.
    """

    def __init__(
        self, encoder: TextEncoder, *, capacity: int = 20_000, lookups: LabelLookups | None = None
    ) -> None:
        self.encoder = translating(encoder)
        self._vectors: RecentlyUsed[TemplatesAndLabel, Vectors] = RecentlyUsed(capacity)
        self._sets: RecentlyUsed[TemplatesAndLabels, LabelSet] = RecentlyUsed(
            capacity, lambda label_set: len(label_set.labels)
        )
        self._lookups = lookups or LabelLookups()

    def classify(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        *,
        templates: Sequence[str] = DEFAULT_TEMPLATES,
        multi_label: bool = False,
        transductive: bool = False,
        min_score: float = 0.0,
        ranked: int = RANKED,
    ) -> list[Classification]:
        """Classify each text, in the given order; equal scores keep the order of `labels`.

        The scores of one text sum to 1. With `multi_label` they are independent, one label is
        enough, and results have all `labels` that fit. With `transductive` each text's result
        depends on the others, too. Scores are rounded to 6 decimals; rankings have at most `ranked`
        labels. Raises InvalidInput.
        """
        check_texts(texts)
        if len(labels) == 1 and not multi_label:
            raise InvalidInput(
                f"Choosing takes at least 2 labels, and there is one label, {shortened(labels[0])}: "
                "add another, or set multi_label to true to score how well this one fits.",
                field="labels",
            )
        if multi_label and transductive:
            raise InvalidInput(
                "The texts together decide between labels, and multi_label scores each on its own: "
                "omit one of the two.",
                field="transductive",
            )

        cached = self._sets.get((tuple(templates), tuple(labels)))
        self._lookups.sets.count(hits=cached is not None, misses=cached is None)
        label_set = cached or self.label_set(labels, templates)
        rank_texts = partial(
            rank,
            self.encoder,
            to_scores=independent_scores if multi_label else shared_scores,
            min_score=min_score,
            ranked=ranked,
            several=multi_label,
            transductive=transductive,
        )

        is_foreign = [bool(in_english(self.encoder, text)) for text in texts]
        foreign_set = self._translated(labels, templates) if any(is_foreign) else None
        if foreign_set is None:
            return rank_texts(texts, label_set)
        if transductive:
            most_are_foreign = 2 * sum(is_foreign) > len(texts)
            return rank_texts(texts, foreign_set if most_are_foreign else label_set)

        foreign = iter(rank_texts(list(compress(texts, is_foreign)), foreign_set))
        english = iter(rank_texts(list(compress(texts, map(not_, is_foreign))), label_set))
        return [next(foreign if each else english) for each in is_foreign]

    def _translated(self, labels: Sequence[str], templates: Sequence[str]) -> LabelSet | None:
        """Return labels in another language in English words; None if they are English.

        Only texts in another language are compared with them: "pasta" is a word for a folder and a
        label for recipes, so that labels alone do not tell.
        """
        translated = labels_in_english(self.encoder, labels)
        return None if translated is labels else self._label_set(translated, templates)

    def label_set(
        self, labels: Sequence[str], templates: Sequence[str] = DEFAULT_TEMPLATES
    ) -> LabelSet:
        """Return the labels with their vectors, which are encoded unless they are cached.

        Raises InvalidInput.
        """
        check_labels(labels)
        check_templates(templates)
        return self._label_set(labels, templates)

    def _label_set(self, labels: Sequence[str], templates: Sequence[str]) -> LabelSet:
        key = tuple(templates), tuple(labels)
        if (cached := self._sets.get(key)) is not None:
            return cached

        vectors = self._label_vectors(labels, tuple(templates))
        count_tokens = partial(self.encoder.count_tokens, role="query")
        label_set = LabelSet.with_wordings(labels, vectors, count_tokens)
        self._sets.put(key, label_set)
        return label_set

    def _label_vectors(self, labels: Sequence[str], templates: tuple[str, ...]) -> Vectors:
        cached = ((label, self._vectors.get((templates, label))) for label in labels)
        vectors = {label: vector for label, vector in cached if vector is not None}
        missing = [label for label in labels if label not in vectors]
        self._lookups.vectors.count(hits=len(vectors), misses=len(missing))

        for start in range(0, len(missing), _BLOCK):
            block = missing[start : start + _BLOCK]
            means = mean_vectors([prompts(label, templates) for label in block], self.encoder)
            # Copies, as a view would keep the vectors of the whole block in memory.
            vectors |= {label: mean.copy() for label, mean in zip(block, means, strict=True)}
        for label in missing:
            self._vectors.put((templates, label), vectors[label])

        return np.stack([vectors[label] for label in labels])


@dataclass(frozen=True, slots=True)
class NamedLabels:
    """Labels to choose from by their names, with the options of `Classifier.classify`.

    It classifies as a trained classifier does, and both have an `encoder` and a `label_set`.
    """

    classifier: Classifier
    labels: Sequence[str]
    templates: Sequence[str] = DEFAULT_TEMPLATES
    multi_label: bool = False
    transductive: bool = False

    @property
    def encoder(self) -> TextEncoder:
        """The encoder of texts and labels."""
        return self.classifier.encoder

    @property
    def label_set(self) -> LabelSet:
        """The labels with their vectors. Raises InvalidInput."""
        return self.classifier.label_set(self.labels, self.templates)

    def classify(
        self, texts: Sequence[str], *, min_score: float = 0.0, ranked: int = RANKED
    ) -> list[Classification]:
        """Classify each text, in the given order. Raises InvalidInput."""
        return self.classifier.classify(
            texts,
            self.labels,
            templates=self.templates,
            multi_label=self.multi_label,
            transductive=self.transductive,
            min_score=min_score,
            ranked=ranked,
        )
