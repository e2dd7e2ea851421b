"""Replies of the HTTP API: the server sends them, the Python client returns them.

This module stays light: the client imports it, so it imports neither the web framework nor the
search engine. Fields that are None are left out of the JSON, except the `label` of a text that no
label fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from purlin.index.records import (
    Answer,
    Classification,
    Document,
    Hit,
    Kind,
    Location,
    SearchedCorpus,
    Value,
)

ServingState = Literal["serving", "opening", "refused"]
CorpusState = Literal["serving", "opening", "building", "refused"]


# ---- search, questions, classification


@dataclass(frozen=True, slots=True)
class SearchReply:
    """Hits, best first. `total` counts all documents that paging can reach, also where hits are grouped.

    Of one corpus, given by its name, the reply has `corpus`, `build` and `encoder`. Of several, it
    has `corpora`, and each hit has its `corpus`; `warning` says where scores of different encoders
    are compared, where only one of two retrievers answered, where a reranker was too slow, and, for
    one corpus, which condition of a filter no document fulfils, with values that are like it.
    `reranker` is the model that scored the first hits of one corpus again, if one did, and
    `corrected` the query as it was searched, if some of its words are spelled otherwise in the
    corpus; of several corpora, each has its own. `related` counts the documents that use a symbol,
    test it or inherit from it, if the query asks for these: those among each corpus's 200 nearest.
    """

    hits: tuple[Hit, ...]
    total: int
    took_ms: float
    corpus: str | None = None
    build: str | None = None
    encoder: str | None = None
    reranker: str | None = None
    corpora: tuple[SearchedCorpus, ...] | None = None
    warning: str | None = None
    timings_ms: Mapping[str, float] | None = None
    corrected: str | None = None
    related: int | None = None


@dataclass(frozen=True, slots=True)
class QaReply:
    """Answers, best first: exact words of the corpus, so that `passage[start:end] == text`.

    `answer_type` is what the question's wording asks for: a `sentence`, or a kind of value such as
    `exception`, `parameter`, `module`, `version` or `name`.
    `hits` are the passages that were read, ranked by the reader. `answerable` is the probability
    (0-1) that the corpus answers the question at all. `read_as` is present if the question is in
    another language than English: it is how the question was read, with what it asks for in English,
    and its other words translated one by one, or as they are written where the reference is not in
    English. `warning` is present if only one of two retrievers answered, for an engine failed in the
    other.
    """

    answers: tuple[Answer, ...]
    answerable: float
    answer_type: str
    hits: tuple[Hit, ...]
    took_ms: float
    corpus: str
    build: str
    encoder: str
    reader: str
    read_as: str | None = None
    warning: str | None = None
    read: int | None = None
    timings_ms: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class ClassifyReply:
    """One result per text, in the order of `texts`.

    A ranking has all labels, or the best 100 if there are more; it is shorter where the reply would
    grow too large. `classifier` and `build` are present if a trained classifier was used,
    `warnings` if there are any.
    """

    results: tuple[Classification, ...]
    took_ms: float
    encoder: str
    classifier: str | None = None
    build: str | None = None
    warnings: tuple[str, ...] = ()


# ---- classifiers


@dataclass(frozen=True, slots=True)
class ClassifierStatus:
    """A trained classifier and its state. States mean the same as for corpora."""

    name: str
    state: ServingState
    problem: str | None = None
    build: str | None = None
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClassifierReply(ClassifierStatus):
    """A trained classifier with its encoder, creation time, size in bytes and quality."""

    created_at: str | None = None
    encoder: Mapping[str, Any] | None = None
    bytes: int | None = None
    measures: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ClassifiersReply:
    """All trained classifiers, sorted by name."""

    classifiers: tuple[ClassifierStatus, ...]


# ---- corpora


@dataclass(frozen=True, slots=True)
class Building:
    """A build that this server makes.

    `stage` is `waiting` for other builds, `start`, `read`, `encode` or `index`; `done` and `total`
    count its units (documents, passages), and `remaining_s` is an estimate for this stage and those
    after it. `encoder` is
    absent if the build keeps that of the build before.
    """

    stage: str
    done: int = 0
    total: int | None = None
    remaining_s: float | None = None
    encoder: str | None = None

    def __str__(self) -> str:
        """Stage and counts, such as "encode 300 of 2,000"."""
        counts = f"{self.done:,}" if self.total is None else f"{self.done:,} of {self.total:,}"
        return f"{self.stage} {counts}" if self.done else self.stage


@dataclass(frozen=True, slots=True)
class CorpusStatus:
    """A corpus and its state.

    `serving`: searches are answered from `build`. `opening`: not ready yet. `building`: this server
    makes its first build. `refused`: its files are damaged, it was built with an encoder that the
    server does not have, or it could not be built. `problem` says what is wrong; if the state is
    `serving`, it is about a newer build that cannot be used or made. `building` is present while
    this server makes a build: of sources that changed, or with a better encoder.
    """

    name: str
    state: CorpusState
    problem: str | None = None
    kind: Kind | None = None
    build: str | None = None
    documents: int | None = None
    passages: int | None = None
    building: Building | None = None


@dataclass(frozen=True, slots=True)
class Against:
    """Comparison with the previously active build on the same queries.

    `difference` is new minus previous, `low` and `high` bound its confidence interval. `missing`
    counts relevant documents that the previous build lacks. `problem` says why the builds could not
    be compared.
    """

    build: str
    mean: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    missing: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityCheck:
    """The judged queries and the measure that decided whether to activate a new build.

    `relevant` counts the documents that should be retrieved, `missing` those of them that the build
    lacks.
    """

    measure: str
    queries: int
    relevant: int
    missing: int
    against: Against | None = None
    refused: bool


@dataclass(frozen=True, slots=True)
class Stale:
    """Source files changed, added and removed since the build, by name and time; at most 30 s old.

    `reachable` is false if the server cannot see the sources, `complete` is false if there were too
    many to check.
    """

    reachable: bool
    complete: bool
    changed: int
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Parts of the sources that were left out for one reason, with the first places (`feed.csv:12`).

    The reason is that of the first one: numbers and quoted texts in it may differ in the others.
    """

    reason: str
    count: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CorpusReply(CorpusStatus):
    """A corpus with what the manifest of its build says.

    `bytes` is the size on disk, `took_s` the build time, `reused` the number of passages that were
    not encoded again, `logged` the number of logged queries that lead to its documents. `measures`
    are numbers, or {mean, low, high, queries} with the bounds of a 95 % interval. `dense` is the
    index of the vectors: its kind and settings, `recall@10` and `recall@100` among the true nearest,
    memory in `bytes_per_passage` unless an engine holds them, and `ms_per_query` when it was built.
    `stale` is present if the build records its sources. `drift` is the largest 1 - cosine between the vectors
    of a few texts on this machine and on the one that made the build; `warning` is present if it is
    too large for vectors to be comparable, or if the rules of another version made the build, with the
    command that makes it anew. `interim` is true for a build that serves while the vectors of another
    encoder are made. `columns` maps standard columns of products, and `codes`, to those of the tables
    that serve as them. `left_out` counts by reason what could not be read, `warnings` are about the
    sources: columns that changed, or products that are gone.
    """

    created_at: str | None = None
    encoder: Mapping[str, Any] | None = None
    skipped: int | None = None
    splitter: str | None = None
    dense_weight: float | None = None
    lexical_power: float | None = None
    logged: int | None = None
    sources: tuple[str, ...] | None = None
    reused: int | None = None
    took_s: float | None = None
    bytes: int | None = None
    measures: Mapping[str, Any] | None = None
    dense: Mapping[str, Any] | None = None
    judged: QualityCheck | None = None
    stale: Stale | None = None
    drift: float | None = None
    warning: str | None = None
    interim: bool | None = None
    columns: Mapping[str, tuple[str, ...]] | None = None
    left_out: tuple[LeftOut, ...] | None = None
    warnings: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CorporaReply:
    """All corpora, sorted by name."""

    corpora: tuple[CorpusStatus, ...]


@dataclass(frozen=True, slots=True)
class ActiveReply:
    """The build that serves from now on."""

    corpus: str
    build: str


@dataclass(frozen=True, slots=True)
class DeletedReply:
    """The corpus that was deleted, with all its builds."""

    corpus: str


@dataclass(frozen=True, slots=True)
class ActiveClassifierReply:
    """The build of a classifier that serves from now on."""

    classifier: str
    build: str


@dataclass(frozen=True, slots=True)
class DeletedClassifierReply:
    """The classifier that was deleted, with all its builds."""

    classifier: str


@dataclass(frozen=True, slots=True)
class DocumentReply:
    """A whole document. The offsets of hits count in its `body`.

    `stale` is true if its file has changed since the build.
    """

    id: str
    kind: Kind
    title: str
    summary: str
    body: str
    context: tuple[str, ...]
    location: Location
    fields: Mapping[str, Value]
    corpus: str
    build: str
    took_ms: float
    stale: bool | None = None

    @classmethod
    def of(
        cls, document: Document, *, corpus: str, build: str, took_ms: float, stale: bool
    ) -> DocumentReply:
        """Reply with a document of a build; `stale` is left out if it is false."""
        names = ("id", "kind", "title", "summary", "body", "context", "location", "fields")
        values: dict[str, Any] = {name: getattr(document, name) for name in names}
        return cls(**values, corpus=corpus, build=build, took_ms=took_ms, stale=stale or None)


# ---- probes


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """Reply of the liveness probe."""

    status: Literal["ok"] = "ok"


@dataclass(frozen=True, slots=True)
class ReadyReply:
    """Reply of the readiness probe.

    `building` has the corpora that this server is making a build of, by name; it serves meanwhile.
    """

    status: Literal["ok"] = "ok"
    building: Mapping[str, Building] | None = None
