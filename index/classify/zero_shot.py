"""Zero-shot classification: score texts against label names by matching prompts (PESCO, section 3).

Each template is filled with a label, texts and prompts are encoded by the same encoder, and the
score of a label is the mean cosine over the templates (eq. 2). As vectors have unit length, that is
one product with the mean prompt vector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress, islice
from operator import not_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.classify.text_warnings import label_warnings
from purlin.index.classify.transductive import transductive_vectors
from purlin.index.encoder import TextEncoder, Vectors, in_english, translating, word_by_word
from purlin.index.errors import InvalidInput
from purlin.index.highest import highest
from purlin.index.lookups import Lookups, RecentlyUsed
from purlin.index.records import Classification, LabelScore
from purlin.index.texts.fertility import CountTokens

# Chosen on the dev sets of AG News, DBpedia, Amazon polarity and Yahoo Answers: the templates by
# mean accuracy with all-MiniLM-L6-v2, the rest by mean log loss with the released encoder for labels
# (for independent scores, right and wrong labels weigh the same).
DEFAULT_TEMPLATES = ("This is about {label}.", "A {label} text.", "This is a {label}.")
SHARED_TEMPERATURE = 0.06
INDEPENDENT_TEMPERATURE = 0.07

# The cosine that scores 0.5.
INDEPENDENT_MIDPOINT = 0.07

# A label fits, with independent scores and no `min_score`, from this score on, and if its odds are
# this part of the best label's: texts that are near to one label are mostly near to all.
FITTING_SCORE = 0.5
FITTING_ODDS = 1 / 3

# From this cosine on the encoder hardly tells two labels apart; measured in docs/classify.md.
SIMILAR_LABELS_COSINE = 0.9

# Labels in the ranking of one text, at most.
RANKED = 100

# Wordings of one label, and of all labels together.
MAX_WORDINGS = 16
MAX_ALL_WORDINGS = 10_000

_BLOCK = 256
_MAX_SIMILAR_PAIRS = 10
_MAX_SHOWN_CHARS = 60
# One character each, so that a long run of spaces is read once.
_PATH_SEPARATOR = re.compile(r"(?<=\s)>(?=\s)")
_NAME_SEPARATOR = re.compile(r"(?<=\s)=(?=\s)")
_WORDINGS_SEPARATOR = re.compile(r"(?<=\s)\|(?=\s)")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
# In a name, what was meant to separate it from wordings.
_SEPARATOR_IN_NAME = re.compile(r"[=|\t]")

ClassScores = NDArray[np.float64]
TemplatesAndLabel = tuple[tuple[str, ...], str]
TemplatesAndLabels = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels and their vectors (labels, dim).

    `similar` has the first pairs of labels that the encoder hardly tells apart, with their cosine;
    `unknown_words` warns of labels that it hardly knows.
    """

    labels: tuple[str, ...]
    vectors: Vectors
    similar: tuple[tuple[str, str, float], ...]
    unknown_words: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, labels: Sequence[str], vectors: Vectors, unknown_words: Sequence[str] = ()
    ) -> LabelSet:
        """Compare all pairs of labels, until ten similar ones were seen."""
        similar = (
            (labels[row], labels[column], cosine) for row, column, cosine in _similar_rows(vectors)
        )
        pairs = tuple(islice(similar, _MAX_SIMILAR_PAIRS))
        return cls(tuple(labels), vectors, pairs, tuple(unknown_words))

    @classmethod
    def with_wordings(
        cls, labels: Sequence[str], vectors: Vectors, count_tokens: CountTokens
    ) -> LabelSet:
        """Return the set of labels that may have wordings, such as `fault = broken product`."""
        wordings = list(chain.from_iterable(map(label_wordings, labels)))
        names = tuple(map(label_name, labels))
        return cls.of(names, vectors, label_warnings(count_tokens, wordings))

    def warnings(self) -> list[str]:
        """Warn of unknown words, of each pair of similar labels, and of a name with wordings."""
        warnings = list(self.unknown_words)
        warnings += [
            f"The labels {_shortened(first)} and {_shortened(second)} are nearly the same to the "
            f"encoder (cosine {cosine:.2f}): texts of one may get the other. Keep one of them, "
            "or say in their names, or in wordings, how they differ."
            for first, second, cosine in self.similar
        ]

        joined = [label for label in self.labels if _SEPARATOR_IN_NAME.search(label)]
        if joined:
            warnings.append(
                f"The label {_shortened(joined[0])} is compared as it stands: what describes a label is "
                "separated from its name as in `name = one wording | another`, with spaces around = and |."
            )
        return warnings


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
                f"Choosing takes at least 2 labels, and there is one label, {_shortened(labels[0])}: "
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


def rank(
    encoder: TextEncoder,
    texts: Sequence[str],
    label_set: LabelSet,
    to_scores: Callable[[Vectors], ClassScores],
    *,
    min_score: float = 0.0,
    ranked: int = RANKED,
    several: bool = False,
    transductive: bool = False,
) -> list[Classification]:
    """Classify texts block by block; `to_scores` turns mean cosines (block, labels) into scores.

    With `several`, each result names all labels that fit, see `fitting_score`. With `transductive`
    all texts are encoded before the first is classified.
    """
    starts = range(0, len(texts), _BLOCK)
    blocks = (encoder.encode(texts[start : start + _BLOCK], role="query") for start in starts)
    if transductive:
        smoothed = transductive_vectors(np.concatenate(list(blocks)), label_set.vectors)
        blocks = (smoothed[start : start + _BLOCK] for start in starts)

    return [
        _classification(row, label_set.labels, min_score, ranked, several)
        for vectors in blocks
        for row in to_scores(vectors @ label_set.vectors.T)
    ]


def shared_scores(
    cosines: NDArray[np.floating[Any]], temperature: float = SHARED_TEMPERATURE
) -> ClassScores:
    """Softmax of (n, labels) cosines / temperature: each row sums to 1."""
    logits = cosines.astype(np.float64) / temperature
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores: ClassScores = weights / weights.sum(axis=1, keepdims=True)
    return scores


def independent_scores(cosines: Vectors) -> ClassScores:
    """Logistic function of (n, labels) cosines, 0.5 at INDEPENDENT_MIDPOINT."""
    logits = (cosines.astype(np.float64) - INDEPENDENT_MIDPOINT) / INDEPENDENT_TEMPERATURE
    scores: ClassScores = 1.0 / (1.0 + np.exp(-logits))
    return scores


def fitting_score(best: float, min_score: float = 0.0) -> float:
    """Return the score from which on a label fits a text whose best label scores `best`."""
    if min_score:
        return min_score
    part_of_best = FITTING_ODDS * best
    return max(FITTING_SCORE, part_of_best / (1 - best + part_of_best))


def labels_in_english(encoder: TextEncoder, labels: Sequence[str]) -> Sequence[str]:
    """Return labels with their wordings translated word by word, unless all together are English."""
    # A single word hardly tells its language.
    if not in_english(encoder, " ".join(chain.from_iterable(map(label_wordings, labels)))):
        return labels

    return [f"{label_name(label)} = {' | '.join(_in_english(encoder, label))}" for label in labels]


def _in_english(encoder: TextEncoder, label: str) -> Iterator[str]:
    """Yield the wordings of a label in English words, also each part of a path."""
    for wording in label_wordings(label):
        parts = _PATH_SEPARATOR.split(wording)
        yield " > ".join(word_by_word(encoder, part) or part for part in parts)


def label_name(label: str) -> str:
    """What a label is called in results: all of it, or what stands before " = "."""
    name, *wordings = _NAME_SEPARATOR.split(label, maxsplit=1)
    return name.strip() if wordings else label


def label_wordings(label: str) -> tuple[str, ...]:
    """What is put into prompts: the label, or what stands after " = ", between " | "."""
    _, *wordings = _NAME_SEPARATOR.split(label, maxsplit=1)
    if not wordings:
        return (label,)
    return tuple(wording.strip() for wording in _WORDINGS_SEPARATOR.split(wordings[0]))


def prompts(label: str, templates: Sequence[str]) -> tuple[str, ...]:
    """Each template filled with each wording of a label."""
    return tuple(
        _prompt(template, wording) for wording in label_wordings(label) for template in templates
    )


def _prompt(template: str, wording: str) -> str:
    """Fill the template.

    A path such as "Sports > Football > World Cup" is written from its last part up: "World Cup
    (Sports, Football)".
    """
    *parents, last = (part.strip() for part in _PATH_SEPARATOR.split(wording.strip()))
    name = f"{last} ({', '.join(parents)})" if parents else wording
    return template.replace("{label}", name)


def mean_vectors(prompts: Sequence[Sequence[str]], encoder: TextEncoder) -> Vectors:
    """(labels, dim): the mean of each label's prompts, all encoded in one call."""
    vectors = encoder.encode([prompt for of_label in prompts for prompt in of_label], role="query")
    return mean_of_each(vectors, [len(of_label) for of_label in prompts])


def mean_of_each(vectors: Vectors, counts: Sequence[int]) -> Vectors:
    """(len(counts), dim): the means of so many rows each, one after the other."""
    sums = np.add.reduceat(vectors, np.cumsum([0, *counts[:-1]]), axis=0)
    means: Vectors = (sums / np.array(counts)[:, None]).astype(np.float32)
    return means


def check_texts(texts: Sequence[str]) -> None:
    """Refuse an empty list and blank texts."""
    if not texts:
        raise InvalidInput("There are no texts: give at least one.", field="texts")

    for number, text in enumerate(texts):
        if not text or text.isspace():
            raise InvalidInput(
                "The text is empty: leave it out or fill it.", field=f"texts[{number}]"
            )


def check_labels(labels: Sequence[str]) -> None:
    """Refuse an empty list, blank or repeated labels, and control characters."""
    if not labels:
        raise InvalidInput(
            "There are no labels: give the names to choose from, at least 2.", field="labels"
        )

    names: set[str] = set()
    for number, label in enumerate(labels):
        name, field = label_name(label).strip(), f"labels[{number}]"
        if not name:
            raise InvalidInput("The label is empty: leave it out or fill it.", field=field)
        if _CONTROL.search(label.strip()):
            raise InvalidInput(
                f"The label {label.strip()!r:.80} has a control character: remove it.", field=field
            )
        if not all(label_wordings(label)):
            raise InvalidInput(
                f"The label {name!r:.80} has an empty wording: write `name = one | another`.",
                field=field,
            )
        if len(label_wordings(label)) > MAX_WORDINGS:
            raise InvalidInput(
                f"The label {name!r:.80} has more than {MAX_WORDINGS} wordings between ' | ': "
                "keep the best of them.",
                field=field,
            )

        if name in names:
            raise InvalidInput(
                f"The label {name!r:.80} is there twice: give each once; further wordings of it "
                "stand behind its name, as in `name = one | another`.",
                field=field,
            )
        names.add(name)

    count = sum(len(label_wordings(label)) for label in labels)
    if count > max(MAX_ALL_WORDINGS, len(labels)):
        raise InvalidInput(
            f"The labels have {count:,} wordings, more than {MAX_ALL_WORDINGS:,}: give fewer.",
            field="labels",
        )


def check_templates(templates: Sequence[str]) -> None:
    """Refuse an empty list, templates without `{label}` or with several, and any other brace."""
    if not templates:
        raise InvalidInput(
            "There are no templates: give at least one, or leave the key out.", field="templates"
        )

    for number, template in enumerate(templates):
        subject, field = f"The template {template!r:.80} has", f"templates[{number}]"
        rest = template.replace("{label}", "")
        if rest == template:
            raise InvalidInput(f"{subject} no place for the label: write {{label}}.", field=field)
        if template.count("{label}") > 1:
            raise InvalidInput(f"{subject} {{label}} more than once: write it once.", field=field)
        if "{" in rest or "}" in rest:
            raise InvalidInput(f"{subject} other braces than {{label}}: remove them.", field=field)


def _classification(
    scores: ClassScores, labels: Sequence[str], min_score: float, ranked: int, several: bool
) -> Classification:
    order = highest(scores, ranked)
    values = scores[order].round(6).tolist()
    ranking = tuple(
        LabelScore(labels[column], value)
        for column, value in zip(order.tolist(), values, strict=True)
    )

    first = values[0]
    second = values[1] if len(values) > 1 else 0.0
    label = ranking[0].label if first >= min_score else None
    fits = None
    if several:
        least = fitting_score(first, min_score)
        fits = tuple(entry.label for entry in ranking if entry.score >= least)
    return Classification(label, first, round(first - second, 6), ranking, fits)


def _shortened(label: str) -> str:
    """The label in quotes, cut to what a message can show."""
    shown = label if len(label) <= _MAX_SHOWN_CHARS else f"{label[:_MAX_SHOWN_CHARS]}…"
    return repr(shown)


def _similar_rows(vectors: Vectors) -> Iterator[tuple[int, int, float]]:
    """Pairs of rows of (labels, dim) with a cosine of SIMILAR_LABELS_COSINE or more, in order."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    for start in range(0, len(unit), _BLOCK):
        # The upper triangle has each pair once, and no label with itself.
        cosines = np.triu(unit[start : start + _BLOCK] @ unit[start:].T, 1)
        for row, column in np.argwhere(cosines >= SIMILAR_LABELS_COSINE).tolist():
            yield start + row, start + column, float(cosines[row, column])
