"""Labels as users write them, their prompts, and their vectors.

A label is a name, such as `refund`, or a name with wordings that are compared instead of it, such as
`fault = broken product | it does not work`. A name or a wording may be a path: `Sports > Football`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from purlin.index.classify.text_warnings import label_warnings
from purlin.index.encoder import TextEncoder, Vectors, in_english, word_by_word
from purlin.index.errors import InvalidInput
from purlin.index.texts.fertility import CountTokens

# Chosen on the dev sets of AG News, DBpedia, Amazon polarity and Yahoo Answers, by mean accuracy with
# all-MiniLM-L6-v2.
DEFAULT_TEMPLATES = ("This is about {label}.", "A {label} text.", "This is a {label}.")

# From this cosine on the encoder hardly tells two labels apart; measured in docs/classify.md.
SIMILAR_LABELS_COSINE = 0.9

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
            f"The labels {shortened(first)} and {shortened(second)} are nearly the same to the "
            f"encoder (cosine {cosine:.2f}): texts of one may get the other. Keep one of them, "
            "or say in their names, or in wordings, how they differ."
            for first, second, cosine in self.similar
        ]

        joined = [label for label in self.labels if _SEPARATOR_IN_NAME.search(label)]
        if joined:
            warnings.append(
                f"The label {shortened(joined[0])} is compared as it stands: what describes a label is "
                "separated from its name as in `name = one wording | another`, with spaces around = and |."
            )
        return warnings


def _similar_rows(vectors: Vectors) -> Iterator[tuple[int, int, float]]:
    """Pairs of rows of (labels, dim) with a cosine of SIMILAR_LABELS_COSINE or more, in order."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    for start in range(0, len(unit), _BLOCK):
        # The upper triangle has each pair once, and no label with itself.
        cosines = np.triu(unit[start : start + _BLOCK] @ unit[start:].T, 1)
        for row, column in np.argwhere(cosines >= SIMILAR_LABELS_COSINE).tolist():
            yield start + row, start + column, float(cosines[row, column])


def mean_vectors(prompts: Sequence[Sequence[str]], encoder: TextEncoder) -> Vectors:
    """(labels, dim): the mean of each label's prompts, all encoded in one call."""
    vectors = encoder.encode([prompt for of_label in prompts for prompt in of_label], role="query")
    return mean_of_each(vectors, [len(of_label) for of_label in prompts])


def mean_of_each(vectors: Vectors, counts: Sequence[int]) -> Vectors:
    """(len(counts), dim): the means of so many rows each, one after the other."""
    sums = np.add.reduceat(vectors, np.cumsum([0, *counts[:-1]]), axis=0)
    means: Vectors = (sums / np.array(counts)[:, None]).astype(np.float32)
    return means


# ---- as they are written


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


# ---- checks


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


def shortened(label: str) -> str:
    """The label in quotes, cut to what a message can show."""
    shown = label if len(label) <= _MAX_SHOWN_CHARS else f"{label[:_MAX_SHOWN_CHARS]}…"
    return repr(shown)
