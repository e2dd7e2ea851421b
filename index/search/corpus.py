"""A corpus as it is searched: dense, lexical and store of one build, and how their results become hits."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index import builds, self_check
from index.encoder import TextEncoder, Vectors
from index.errors import EncoderMismatch, InvalidInput
from index.lookups import Lookups
from index.records import Document, Hit, Mode, Passage, is_text
from index.search import query_log
from index.search.dense import Dense, Rows
from index.search.fusion import DENSE, LEXICAL, Fusion
from index.search.lexical import Lexical, LexicalScores, matches, top
from index.search.query_log import QueryLog, blend
from index.search.store import Filter, Store, Stored, state

MAX_QUERY_CHARS = 4096
MAX_K = 1000
MAX_DEPTH = 10_000  # offset + k
MAX_HIGHLIGHTS = 100
_FIRST_DEPTH = 200
_CACHED_FILTERS = 64
_SECONDARY_PRIOR = 0.9  # of the score of test, vendored, generated and minified code
_SECONDARY = ("test", "vendored", "generated", "minified")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One page of hits. `total` counts the documents that can be paged through.

    `timings_ms` has encode, dense, lexical, fuse and fetch, in milliseconds.
    """

    hits: tuple[Hit, ...]
    total: int
    timings_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A hit with the document and the passage that it shows."""

    hit: Hit
    document: Document
    passage: Passage


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Passage rows, best first, mostly one per document, with the score, cosine and lexical score of each."""

    rows: Rows
    fused: Vectors
    cosines: Vectors
    lexical: LexicalScores


@dataclass(slots=True)
class _Query:
    """What one search carries from leg to leg."""

    text: str
    mode: Mode
    allowed: NDArray[np.bool_] | None  # passages
    vector: Vectors | None
    near: Vectors | None  # documents, to earlier queries
    weights: Mapping[str, float]
    lexical: LexicalScores | None
    named: Rows  # of what is called exactly as the query, by id or title: scores 1


class _Clock:
    """Milliseconds since the last lap, by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + (now - self._last) * 1000
        self._last = now


class Corpus:
    """One build, open for searching; safe to share between threads."""

    def __init__(
        self,
        build: str,
        manifest: builds.Manifest,
        encoder: TextEncoder,
        dense: Dense,
        lexical: Lexical,
        store: Store,
        log: QueryLog | None = None,
        drift: float | None = None,
    ) -> None:
        self.name = manifest.name
        self.drift = (
            drift  # largest 1 - cosine of the self-check's vectors, here against when it was built
        )
        self.build = build
        self.manifest = manifest
        self._encoder = encoder
        self._dense = dense
        self._lexical = lexical
        self._store = store
        self._log = log
        self._document_of = self._store.document_of
        self._priors = self._role_priors()
        self._filters: OrderedDict[str, NDArray[np.bool_]] = OrderedDict()
        self._filters_lock = threading.Lock()
        self.filter_lookups = (
            Lookups()
        )  # of row masks; whoever opens build after build may put one for all here

    @classmethod
    def load(cls, directory: Path, encoder: TextEncoder) -> Corpus:
        """Open a build. Damaged names a file that is not as it was written; EncoderMismatch says what to do.

        Everything but the documents is read into memory, and is not touched on disk again. A method that finds the
        documents' file changed since raises Altered.
        """
        manifest = builds.read_manifest(directory)
        if manifest.encoder["fingerprint"] != encoder.fingerprint:
            raise EncoderMismatch(
                f"Corpus {manifest.name!r} was built with encoder {manifest.encoder['name']!r} "
                f"({manifest.encoder['fingerprint'][:12]}), but {encoder.name!r} "
                f"({encoder.fingerprint[:12]}) is loaded; serve with that encoder, or build the corpus again."
            )
        return cls.opened(directory, manifest, encoder)

    @classmethod
    def opened(cls, directory: Path, manifest: builds.Manifest, encoder: TextEncoder) -> Corpus:
        """Open the files of a manifest, which need not be a build yet. Damaged as for `load`."""
        documents = directory / "documents.sqlite"
        before = state(documents)  # it is compared below: whatever is done to it afterwards shows
        files = builds.Files(directory, manifest)
        dense, lexical = (
            Dense.load(directory, files.read),
            Lexical.load(directory / "lexical", files.read),
        )
        log = QueryLog.load(directory, files.read) if query_log.VECTORS in manifest.files else None
        drift = (
            self_check.drift(directory, encoder, files.read)
            if self_check.SELF_CHECK_FILE in manifest.files
            else None
        )
        files.check_others()
        store = Store(documents, manifest.kind, before)
        return cls(directory.name, manifest, encoder, dense, lexical, store, log, drift)

    def close(self) -> None:
        """Release the files; searches after this fail."""
        self._store.close()

    @property
    def warning(self) -> str | None:
        """What is wrong with comparing this machine's vectors with the build's, if anything."""
        return None if self.drift is None else self_check.drift_warning(self.name, self.drift)

    def document(self, document_id: str) -> Document:
        """The document with this id, whole. NotFound if there is none."""
        return self._store.document(document_id)

    def count(self, document_ids: Iterable[str]) -> int:
        """How many of these documents there are."""
        return len(self._store.known(document_ids))

    def file_names(self, limit: int) -> tuple[list[str], list[str]]:
        """Names of the source files that were read, and of those left out; at most `limit` of each."""
        return self._store.file_names(limit)

    @property
    def field_names(self) -> list[str]:
        """Fields that a filter may name."""
        return self._store.field_names

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        offset: int = 0,
        mode: Mode = "hybrid",
        filter: Filter | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """Hits offset+1 .. offset+k of the documents that pass `filter`, best first; each document once.

        The ranking is exact: it is what scoring every passage would give, so pages fit together.
        """
        _check(query, k, offset, mode)
        clock = _Clock()
        asked = self._prepare(query, mode, filter, clock)
        ranking = self._rank(asked, offset + k, clock)
        page = slice(offset, offset + k)
        stored = self._store.stored(ranking.rows[page].tolist())
        hits = tuple(
            self._hit(asked, ranking, at, found, explain=explain)
            for at, found in enumerate(stored, offset)
        )
        total = self._total(asked)
        clock.lap("fetch")
        return SearchResult(hits, total, clock.laps)

    def passages(self, query: str, k: int) -> tuple[list[Retrieved], Mapping[str, float]]:
        """The best `k` passages, several of a document if they are so good, and the milliseconds each leg took.

        Their hits have no highlights: `highlighted` adds those, where they are shown.
        """
        _check(query, k, 0, "hybrid")
        clock = _Clock()
        asked = self._prepare(query, "hybrid", None, clock)
        ranking = self._rank(asked, k, clock, distinct=False)
        stored = self._store.stored(ranking.rows[:k].tolist())
        found = [
            Retrieved(self._hit(asked, ranking, at, one, marked=False), one.document, one.passage)
            for at, one in enumerate(stored)
        ]
        clock.lap("fetch")
        return found, clock.laps

    def weights(self, query: str) -> Mapping[str, float]:
        """Each distinct token of the query -> its idf."""
        return self._lexical.weights(query)

    def highlighted(self, query: str, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """The hits, with what of their texts the query's words match."""
        wanted = frozenset(self.weights(query))
        return tuple(replace(hit, highlights=_highlights(hit.text, wanted)) for hit in hits)

    # ---- legs

    def _prepare(self, query: str, mode: Mode, filter: Filter | None, clock: _Clock) -> _Query:
        allowed = self._allowed(filter) if filter else None
        clock.lap("filter")
        vector = self._encoder.encode([query], role="query")[0] if mode != "lexical" else None
        clock.lap("encode")
        near = None
        if vector is not None and self._log is not None:
            near = self._log.nearness(vector, self._store.documents)
            clock.lap("dense")
        weights = self._lexical.weights(query) if mode != "dense" else {}
        scores = self._lexical.scores(weights) if mode != "dense" else None
        named = self._store.named(query.strip()) if mode != "dense" else np.zeros(0, dtype=np.int64)
        if scores is not None:
            scores[named] = 1.0
        if scores is not None and allowed is not None:
            scores = np.where(allowed, scores, np.float32(0.0))
        clock.lap("lexical")
        return _Query(query, mode, allowed, vector, near, weights, scores, named)

    def _allowed(self, filter: Filter) -> NDArray[np.bool_]:
        key = repr(sorted(filter.items(), key=lambda item: item[0]))
        with self._filters_lock:
            if (known := self._filters.get(key)) is not None:
                self._filters.move_to_end(key)
                self.filter_lookups.count(hits=1)
                return known
        self.filter_lookups.count(misses=1)
        mask = self._store.allowed(filter)[self._document_of]
        with self._filters_lock:
            self._filters[key] = mask
            while len(self._filters) > _CACHED_FILTERS:
                self._filters.popitem(last=False)
        return mask

    def _rank(
        self, asked: _Query, needed: int, clock: _Clock, *, distinct: bool = True
    ) -> _Ranking:
        """The best `needed` documents, or passages.

        Looks deeper until nothing outside could still enter (threshold algorithm).
        """
        depth = max(_FIRST_DEPTH, 2 * needed)
        while True:
            rows, bound = self._candidates(asked, depth, clock)
            ranking = self._score(asked, rows, distinct=distinct)
            last = ranking.fused[needed - 1] if len(ranking.rows) >= needed else -1.0
            clock.lap("fuse")
            if bound is None or last > bound:
                return ranking
            depth *= 4

    def _candidates(self, asked: _Query, depth: int, clock: _Clock) -> tuple[Rows, float | None]:
        """Rows that are named or that a leg puts in its first `depth`, and the most that any other could score (None:
        there is no other).
        """
        rows = [asked.named if asked.allowed is None else asked.named[asked.allowed[asked.named]]]
        cosine, share, more = 0.0, 0.0, False
        if asked.vector is not None:
            found, cosines = self._dense.search(asked.vector, depth, asked.allowed)
            rows.append(found)
            cosine, more = (float(cosines[-1]), True) if len(found) == depth else (0.0, False)
            clock.lap("dense")
        if asked.lexical is not None:
            found = top(asked.lexical, depth)
            rows.append(found)
            share = float(asked.lexical[found[-1]]) if len(found) == depth else 0.0
            more = more or (asked.mode == "lexical" and len(found) == depth)
            clock.lap("lexical")
        bound = self._fusion(asked.mode).fuse(
            np.array([cosine], np.float32), np.array([share], np.float32)
        )
        if asked.near is not None:
            best = top(asked.near, depth)
            rows.append(self._rows_of(best, asked.allowed))
            bound = blend(
                bound,
                asked.near[best[-1:]] if len(best) == depth else np.zeros(1, dtype=np.float32),
            )
        return np.unique(np.concatenate(rows)), float(bound[0]) if more else None

    def _rows_of(self, documents: Rows, allowed: NDArray[np.bool_] | None) -> Rows:
        wanted = np.zeros(self._store.documents, dtype=np.bool_)
        wanted[documents] = True
        of_them = wanted[self._document_of]
        return np.flatnonzero(of_them if allowed is None else of_them & allowed)

    def _score(self, asked: _Query, rows: Rows, *, distinct: bool) -> _Ranking:
        zeros = np.zeros(len(rows), dtype=np.float32)
        cosines = self._dense.scores(asked.vector, rows) if asked.vector is not None else zeros
        shares = asked.lexical[rows] if asked.lexical is not None else zeros
        fused = self._fusion(asked.mode).fuse(cosines, shares)
        if self._priors is not None:
            fused = fused * self._priors[rows]
        if asked.near is not None:
            fused = blend(fused, asked.near[self._document_of[rows]])
        fused[np.isin(rows, asked.named)] = 1.0
        order = np.lexsort((rows, -cosines, -fused))
        if not distinct:
            return _Ranking(rows[order], fused[order], cosines[order], shares[order])
        _, first = np.unique(self._document_of[rows[order]], return_index=True)
        best = order[np.sort(first)]
        return _Ranking(rows[best], fused[best], cosines[best], shares[best])

    def _fusion(self, mode: Mode) -> Fusion:
        hybrid = Fusion(self.manifest.dense_weight, self.manifest.lexical_power)
        return {"dense": DENSE, "lexical": LEXICAL, "hybrid": hybrid}[mode]

    def _role_priors(self) -> Vectors | None:
        if not self.manifest.demote or "role" not in self._store.field_names:
            return None
        secondary = self._store.allowed({"role": _SECONDARY})[self._document_of]
        return (
            np.where(secondary, np.float32(_SECONDARY_PRIOR), np.float32(1.0))
            if secondary.any()
            else None
        )

    def _total(self, asked: _Query) -> int:
        if asked.mode == "lexical" and asked.lexical is not None:
            return len(np.unique(self._document_of[asked.lexical > 0]))
        if asked.allowed is None:
            return self._store.documents
        return len(np.unique(self._document_of[asked.allowed]))

    # ---- hits

    def _hit(
        self,
        asked: _Query,
        ranking: _Ranking,
        at: int,
        stored: Stored,
        *,
        explain: bool = False,
        marked: bool = True,
    ) -> Hit:
        document, passage = stored.document, stored.passage
        text = document.body[passage.start : passage.end]
        weights = asked.weights or self._lexical.weights(asked.text)
        return Hit(
            id=passage.id,
            document_id=document.id,
            rank=at + 1,
            score=_rounded(ranking.fused[at]),
            scores=self._leg_scores(asked, ranking, at),
            title=document.title,
            text=text,
            highlights=_highlights(text, frozenset(weights)) if marked else (),
            location=document.location,
            fields=document.fields,
            context=document.context,
            explanation=self._explanation(asked, ranking, at) if explain else None,
        )

    def _leg_scores(self, asked: _Query, ranking: _Ranking, at: int) -> dict[str, float]:
        scores = {}
        if asked.vector is not None:
            scores["dense"] = _rounded(ranking.cosines[at])
        if asked.lexical is not None:
            scores["lexical"] = _rounded(ranking.lexical[at])
        if asked.near is not None:
            scores["log"] = _rounded(asked.near[self._document_of[ranking.rows[at]]])
        return scores

    def _explanation(self, asked: _Query, ranking: _Ranking, at: int) -> dict[str, Any]:
        row = int(ranking.rows[at])
        fusion = self._fusion(asked.mode)
        earlier = {}
        if asked.vector is not None and self._log is not None:
            earlier["earlier"] = self._log.nearest(asked.vector, int(self._document_of[row]))
        return earlier | {
            "dense_weight": fusion.dense_weight,
            "lexical_power": fusion.lexical_power,
            "terms": self._lexical.explain(asked.weights, row) if asked.lexical is not None else {},
            "named": row in asked.named,
            "prior": float(self._priors[row]) if self._priors is not None else 1.0,
        }


def _highlights(text: str, wanted: frozenset[str]) -> tuple[tuple[int, int], ...]:
    return tuple(
        span for span, _ in zip(matches(text, wanted), range(MAX_HIGHLIGHTS), strict=False)
    )


def _rounded(score: np.float32) -> float:
    """What can be told apart: more digits differ between processors."""
    return round(float(score), 4)


def check_query(query: str) -> None:
    """Refuse a query without a word, one that is too long, and one that is no text."""
    if not query.strip():
        raise InvalidInput("query is empty; give it at least one word.", field="query")
    if len(query) > MAX_QUERY_CHARS:
        raise InvalidInput(
            f"query has {len(query)} characters; at most {MAX_QUERY_CHARS} are allowed.",
            field="query",
        )
    if not is_text(query):
        raise InvalidInput(
            "query is no text: half a surrogate pair is in it; give it in UTF-8.", field="query"
        )


def _check(query: str, k: int, offset: int, mode: str) -> None:
    check_query(query)
    if not 1 <= k <= MAX_K:
        raise InvalidInput(f"k is {k}; it must be 1 to {MAX_K}.", field="k")
    if not 0 <= offset <= MAX_DEPTH - k:
        raise InvalidInput(
            f"offset is {offset}; offset + k must be at most {MAX_DEPTH}.", field="offset"
        )
    if mode not in ("hybrid", "dense", "lexical"):
        raise InvalidInput(f"mode is {mode[:40]!r}; it is hybrid, dense or lexical.", field="mode")
