"""What speaks for a passage, and for words in it, beside what search and reader say: the reference's structure.

Each clue is a number; linear models over them rank passages and spans. Their weights are fitted by
`benchmarks/reader.py`: the softmax over all that compete is the probability of being right (conditional logit,
McFadden 1974).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from index.qa.answer_types import NAME, VALUE, AnswerType, candidates, echoes, expected
from index.qa.signatures import Entry, Place, directive, names_of
from index.records import Document, Hit
from index.search.lexical import tokens

Scores = NDArray[np.float64]

PASSAGE = {
    "dense": 13.16,  # the search's legs
    "lexical": 12.19,
    "kind": 0.68,  # an entry of the kind that is asked for
    "named": 0.71,  # whose name the question has
    "qualified": 1.8,  # with what qualifies it: `str.split`
    "first": 0.47,  # an entry's signature and first sentences
    "has": 1.51,  # something of the expected type
    "module": 3.09,  # what introduces a module, if that is asked for
    "page": 1.62,  # the page's share of all that was found
}
SPAN = {
    "selected": 0.48,  # what the reader says of the passage
    "read": 0.38,  # and of the span
    "typed": 0.48,  # looks like the expected type
    "own": 0.67,  # the entry's own name, if such an entry is asked for
    "echo": -1.45,  # the question names it
    "optional": 0.97,  # parameters that have a default, or stand in brackets
    "switch": 0.39,  # or are on or off
    "module": 1.26,
    "literal": 0.52,  # None, -1, 'w' where a result is asked for
    "words": -2.45,  # logarithm of how many
    "signature": -0.87,  # stands there without being one of the above
    "said": 0.62,  # in a sentence with the words that go with the type
    "default": 1.46,  # that tells a default, if one is asked for
}
MAX_CHARS = 20_000  # of an entry whose words are looked at
UNSURE = 1e-4  # what a reader's estimate is from 0 and 1 at least
SHARPNESS = 20.0  # of a page's share

_WORDS = re.compile(r"-{0,2}[^\W\d]\w*")
_QUALIFIED = re.compile(r"[^\W\d]\w*(?:\.\w+)+")


# -- passages


def passage_scores(question: str, found: Sequence[tuple[Hit, Document]]) -> Scores:
    """(n,) how much speaks for each passage that a search found, in log odds but for a constant."""
    return np.asarray(passage_clues(question, found) @ np.array(list(PASSAGE.values())))


def passage_clues(question: str, found: Sequence[tuple[Hit, Document]]) -> Scores:
    """(n, len(PASSAGE)) clues of passages, in the order of PASSAGE."""
    kind, lower = expected(question), question.lower()
    words, qualified = set(_WORDS.findall(lower)), set(_QUALIFIED.findall(lower))
    pages = _pages(found)
    rows = []
    for hit, document in found:
        names = (
            [name.lower() for name in names_of(document)] if "signature" in document.fields else []
        )
        introduces = _introduces_module(document)
        rows.append(
            (
                hit.scores.get("dense", 0.0),
                hit.scores.get("lexical", 0.0),
                directive(document) in kind.entries or (kind is NAME and introduces),
                any(name.rpartition(".")[2] in words for name in names),
                any(f".{name}".endswith(f".{one}") for one in qualified for name in names),
                bool(names) and hit.id == document.id,
                _has(kind, document, hit.text),
                kind.name == "module" and introduces,
                pages[document.location.path],
            )
        )
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(PASSAGE))


def _pages(found: Sequence[tuple[Hit, Document]]) -> Mapping[str | None, float]:
    """Each page's share of the powers of what was found."""
    best = max((hit.score for hit, _ in found), default=0.0)
    pages: dict[str | None, float] = defaultdict(float)
    for hit, document in found:
        pages[document.location.path] += math.exp(SHARPNESS * (hit.score - best))
    total = sum(pages.values())
    return {page: power / total for page, power in pages.items()}


def _has(kind: AnswerType, document: Document, text: str) -> bool:
    if kind.name == "parameter":
        return "(" in str(document.fields.get("signature", ""))
    return next(candidates(kind, text), None) is not None


def _introduces_module(document: Document) -> bool:
    """Whether it is the section that has a module's name in front of its heading."""
    is_section = "signature" not in document.fields
    return is_section and document.title.partition(" ")[0] == document.fields.get("module")


# -- spans


class Sought:
    """A question, where in a passage its answer may stand, and what speaks for it."""

    def __init__(self, question: str) -> None:
        self.question, self.kind = question, expected(question)
        self._default = (
            self.kind.name in ("value", "number") or VALUE.hinted.search(question) is not None
        )

    def places(self, text: str, entry: Entry) -> dict[Place, dict[str, float]]:
        """Stretches that may be the answer, each with the clues that are its alone."""
        found: dict[Place, dict[str, float]] = defaultdict(dict)
        for place in candidates(self.kind, text):
            found[place]["literal" if self.kind.name == "result" else "typed"] = 1.0
        for place in entry.names if entry.directive in self.kind.entries else ():
            found[place]["own"] = 1.0
        if self.kind.name == "module" and entry.module:
            for place in _named(entry.module, text):
                found[place]["module"] = 1.0
        if self.kind is NAME and entry.directive == "section" and entry.module:
            for place in _named(entry.module, text)[:1]:
                found[place]["own"] = 1.0
        for one in entry.parameters:
            if self._default and one.default is not None and one.default[1] <= len(text):
                found[one.default] |= {}
            for place in (
                _named(one.name, text) if self.kind.name in ("parameter", "option") else ()
            ):
                found[place] |= {
                    "typed": 1.0,
                    "optional": float(one.optional),
                    "switch": float(one.switch),
                }
        return found

    def clues(
        self, text: str, entry: Entry, place: Place, special: Mapping[str, float] | None
    ) -> dict[str, float]:
        """The clues of a span, but for the reader's; `special` are those of `places`, None where it is not there."""
        answer = text[slice(*place)]
        return {
            **(special or {}),
            "echo": float(echoes(self.question, answer)),
            "words": math.log1p(len(answer.split())),
            "signature": float(special is None and place[0] < entry.signature),
            "said": float(_said(self.kind, text, place)),
            "default": float(self._default and _said(VALUE, text, place)),
        }


def weighed(clues: Mapping[str, float]) -> float:
    """How much speaks for a span, in log odds but for a constant."""
    return sum(SPAN[name] * value for name, value in clues.items())


def _named(name: str, text: str) -> list[Place]:
    return [match.span() for match in re.finditer(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)]


def _said(kind: AnswerType, text: str, place: Place) -> bool:
    """Whether the sentence of a place has the words that go with its type."""
    start = max(text.rfind(". ", 0, place[0]), text.rfind("\n", 0, place[0])) + 1
    ends = (at for at in (text.find(". ", place[1]), text.find("\n", place[1])) if at >= 0)
    return kind.said.search(text, start, min(ends, default=len(text))) is not None


# -- whether there is an answer


def evidence(
    found: Sequence[Hit], best: Document | None, weights: Mapping[str, float], read: float
) -> tuple[float, float, float, float]:
    """What `answerable` is calibrated on: the best dense and lexical scores, the idf (`weights`) of the rarest word of
    the question that the entry of the best answer lacks, and the log odds of `read`, the reader's own estimate.
    """
    dense, lexical = (
        max((hit.scores.get(leg, 0.0) for hit in found), default=0.0)
        for leg in ("dense", "lexical")
    )
    known = _words_of(best) if best is not None else frozenset()
    lacking = max((weight for word, weight in weights.items() if word not in known), default=0.0)
    sure = min(max(read, UNSURE), 1.0 - UNSURE)
    return dense, lexical, lacking, math.log(sure / (1.0 - sure))


def _words_of(document: Document) -> frozenset[str]:
    headings = document.fields.get("headings", ())
    parts = (
        document.title,
        str(document.fields.get("page_title", "")),
        *document.context,
        *(headings if isinstance(headings, tuple) else ()),
        document.body[:MAX_CHARS],
    )
    return frozenset(tokens("\n".join(parts)))
