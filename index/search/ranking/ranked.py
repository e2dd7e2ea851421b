"""What a search works on: the query, its candidates, and their ranking."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.records import Mode
from purlin.index.search.arrays import NO_ROWS, LexicalScores, Mask, Rows
from purlin.index.search.contracts import Allowed
from purlin.index.search.ranking.query_log import Nearness
from purlin.index.search.ranking.repository import Evidence
from purlin.index.search.ranking.uses import Relation


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reranker made of the first n rows of a ranking.

    `relevance` (n,) is its own score, `searched` (n,) the score by the search, and `weight` the share
    of the relevance in their mean.
    """

    name: str
    weight: float
    relevance: Vectors
    searched: Vectors


@dataclass(frozen=True, slots=True)
class Ranking:
    """Passage rows, best first, with the scores of each; mostly one row per document.

    All arrays are (n,). `cosines` and `lexical` are the retrievers' scores, and `text_scores` their
    fusion. `scores` also count names and, for the first rows of a repository's code, the `evidence`
    of its ranking model. `similarities` to the first hits are part of the text scores where there is
    feedback, NaN elsewhere. `accessories` masks products that score less because they only go with what
    the query names. `reading` tells how a reranker scored the first rows again.
    """

    rows: Rows
    scores: Vectors
    text_scores: Vectors
    cosines: Vectors
    lexical: LexicalScores
    similarities: Vectors
    accessories: Mask
    evidence: Evidence | None = None
    reading: Reading | None = None

    def take(self, kept: Rows | Mask | slice) -> Ranking:
        """Return some of the rows, without evidence."""
        return Ranking(**{name: getattr(self, name)[kept] for name in _ARRAYS})

    def by(self, scores: Vectors, **others: Vectors | Mask) -> Ranking:
        """Return the rows by these scores (n,), with the `others` in place of their own arrays."""
        order = np.argsort(-scores, kind="stable")
        arrays: dict[str, Any] = {"scores": scores, **others}
        return replace(self.take(order), **{name: array[order] for name, array in arrays.items()})

    def then(self, others: Ranking) -> Ranking:
        """Append other rows, with their scores scaled down if any is higher than these rows' scores."""
        lowest, highest = self.scores[-1:], others.scores[:1]
        if len(lowest) and len(highest) and highest[0] > 0:
            factor = np.float32(float(lowest[0] / max(highest[0], lowest[0])))
            others = replace(others, scores=others.scores * factor)

        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(others, name)]) for name in _ARRAYS
        }
        return Ranking(**joined, evidence=self.evidence)


_ARRAYS = ("rows", "scores", "text_scores", "cosines", "lexical", "similarities", "accessories")


@dataclass(slots=True)
class Query:
    """A query with everything that is computed once per search.

    - `text`: the query as it is searched; `written`: as the user wrote it, without a stack trace.
    - `read`: the text that the encoder read: `text`, or the same in English.
    - `allowed`: the passages that pass the filter, or None if all do, of `document_count` documents.
    - `pattern`: the regular expression that a line of each hit matches, if the filter has one.
    - `vector`, `weights`: what the dense and the lexical retriever search for, if the mode has them.
    - `nearness`: that of documents to earlier queries.
    - `named`: allowed rows whose id, title or code is exactly the query.
    - `defining`: allowed rows whose last name is the query.
    - `excluded`: rows that cannot be hits.
    - `relation`: the relation to a symbol that the query asks for, such as its uses, if it does.
    - `has_evidence`: whether the model of a repository ranks the first rows again.
    - `has_feedback`: whether the similarity to the first hits does.
    - `has_code`: whether a word of it is a code that few products have.
    """

    text: str
    written: str
    mode: Mode
    allowed: Allowed | None
    document_count: int
    pattern: str | None = None
    read: str = ""
    vector: Vectors | None = None
    nearness: Nearness | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    named: Rows = field(default_factory=NO_ROWS.copy)
    defining: Rows = field(default_factory=NO_ROWS.copy)
    excluded: Rows = field(default_factory=NO_ROWS.copy)
    relation: Relation | None = None
    has_evidence: bool = False
    has_feedback: bool = False
    has_code: bool = False

    @property
    def exact(self) -> Rows:
        """The rows that the query names exactly, all of which score 1."""
        return np.concatenate([self.named, self.defining])


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best documents of a query, before their texts are read from disk.

    `total` counts all documents that the query can return.
    """

    total: int
    timings_ms: Mapping[str, float]
    query: Query
    ranking: Ranking
    warning: str | None = None

    @property
    def scores(self) -> Vectors:
        """The scores (n,) of the documents, which never increase."""
        return self.ranking.scores

    @property
    def corrected(self) -> str | None:
        """The query as it was searched, if that is not how it was written."""
        return None if self.query.text == self.query.written else self.query.text

    @property
    def related(self) -> int | None:
        """How many documents have the relation to a symbol that the query asks for, of those weighed."""
        if self.query.relation is None or self.ranking.evidence is None:
            return None
        return int(np.count_nonzero(self.ranking.evidence.related))

    @property
    def reranker(self) -> str | None:
        """Name of the model that scored the first hits again, if one did."""
        return None if self.ranking.reading is None else self.ranking.reading.name

    def reranked(self, relevance: Vectors, reranker: str, weight: float) -> Ranking:
        """Return the ranking with its first n rows in a new order, by a reranker's `relevance` (n,).

        Rows that the query names exactly keep their scores.
        """
        read, count = len(relevance), len(self.ranking.rows)
        head = self.ranking.take(np.arange(read))
        rest = self.ranking.take(np.arange(read, count))

        means = (1.0 - weight) * head.scores + weight * relevance
        is_exact = np.isin(head.rows, self.query.exact)
        scores = np.where(is_exact, head.scores, means).astype(np.float32)
        order = np.argsort(-scores, kind="stable")

        evidence = self.ranking.evidence
        if evidence is not None:
            evidence = evidence.take(np.concatenate([order, np.arange(read, len(evidence.role))]))
        reading = Reading(reranker, weight, relevance[order], head.scores[order])
        head = replace(head.take(order), scores=scores[order])
        return replace(head.then(rest), evidence=evidence, reading=reading)


class Clock:
    """Milliseconds per step of a search."""

    def __init__(self, laps: Mapping[str, float] = MappingProxyType({})) -> None:
        self.laps = dict(laps)
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Add the time since the last lap to the step `name`."""
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + (now - self._last) * 1000
        self._last = now
