"""Estimate by the words of a question how likely it expects each type of answer.

Rules over the wording (`purlin.index.qa.answer_types`) are right where they match, but many
questions match none: "closing a stream twice, what blows up" wants an exception. A multinomial
logistic regression over words, groups of words and the rules that match has learnt this from
questions over eleven manuals (`benchmarks/qa/question_types.py`). It uses only words and groups that
occur in questions over three manuals or more, so it goes by wording, not by subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.qa.answer_types import (
    SENTENCE_TYPE,
    TYPES_BY_NAME,
    AnswerType,
    expected_type,
    matching_rules,
)

WEIGHTS = Path(__file__).with_suffix(".npz")
RULES_SHARE = 0.5  # of the probability: goes to the type that the rules choose
MIN_SHARE = 0.05  # types that are less likely are left out
MAX_WORDS = 200  # the rest of a question is not looked at

_PIECE = re.compile(r"[\w.']+\(?|[?,:]")
_CAMEL = re.compile(r"[a-z][A-Z]")


@dataclass(frozen=True, slots=True)
class TypeWeights:
    """A logistic regression: each feature's row in `weights` (f, c), int8, times `scale`.

    `classes` are names of answer types and kinds of statements; `bias` (c,) is float32.
    """

    classes: tuple[str, ...]
    rows: Mapping[str, int]
    weights: NDArray[np.int8]
    scale: float
    bias: NDArray[np.float32]

    def probabilities(self, features: frozenset[str]) -> dict[str, float]:
        """Return the probability of each class; features without a row say nothing."""
        rows = sorted(self.rows[name] for name in features if name in self.rows)
        logits = self.bias + self.scale * self.weights[rows].sum(axis=0, dtype=np.int32)

        powers = np.exp(logits - logits.max())
        return dict(zip(self.classes, (powers / powers.sum()).tolist(), strict=True))


@cache
def released_weights() -> TypeWeights:
    """Read the weights that come with Purlin."""
    with np.load(WEIGHTS, allow_pickle=False) as arrays:
        features = str(arrays["features"]).split("\n")
        return TypeWeights(
            classes=tuple(str(arrays["classes"]).split("\n")),
            rows={name: row for row, name in enumerate(features)},
            weights=arrays["weights"],
            scale=float(arrays["scale"]),
            bias=arrays["bias"],
        )


def class_probabilities(question: str) -> dict[str, float]:
    """Return the probability of each answer type, and each kind of statement, by name."""
    return released_weights().probabilities(question_features(question))


def expected_types(question: str) -> tuple[tuple[AnswerType, float], ...]:
    """Return the types that the answer may have, with their probabilities, likeliest first.

    If the rules see that a statement is wanted, that is SENTENCE_TYPE alone. Otherwise the type that
    the rules choose gets `RULES_SHARE`, and the regression over the words distributes the rest.
    """
    by_rules = expected_type(question)
    if by_rules is SENTENCE_TYPE:
        return ((SENTENCE_TYPE, 1.0),)

    by_words = {
        name: share
        for name, share in class_probabilities(question).items()
        if name in TYPES_BY_NAME
    }
    total = sum(by_words.values())
    shares = {name: (1 - RULES_SHARE) * share / total for name, share in by_words.items()}
    shares[by_rules.name] = shares.get(by_rules.name, 0.0) + RULES_SHARE

    likely = {name: share for name, share in shares.items() if share >= MIN_SHARE}
    total = sum(likely.values())
    names = sorted(likely, key=lambda name: -likely[name])
    return tuple((TYPES_BY_NAME[name], likely[name] / total) for name in names)


def question_features(question: str) -> frozenset[str]:
    """Return the words of a question, its groups of words, and the rules that match it."""
    words = ["^", *_words(question), "$"]

    groups = {f"{first} {second}" for first, second in pairwise(words)}
    opening = {"first: " + " ".join(words[1:end]) for end in (3, 4)}
    ending = {"last: " + " ".join(words[-3:-1])}
    return frozenset({*words, *groups, *opening, *ending, *matching_rules(question)})


def _words(question: str) -> Iterator[str]:
    """Yield words in lower case, and placeholders for names and numbers."""
    for match in islice(_PIECE.finditer(question), MAX_WORDS):
        piece = match[0].strip(".'")
        if piece:
            yield _placeholder(piece) or piece.lower()


def _placeholder(piece: str) -> str:
    """Return what stands for a name or number; "" for a word."""
    if piece.endswith("("):
        return "CALL"
    if piece.replace(".", "").isdecimal():
        return "VERSION" if "." in piece else "NUMBER"
    if "." in piece or "_" in piece or _CAMEL.search(piece):
        return "NAME"
    return ""
