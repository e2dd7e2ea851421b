"""Search of a corpus: the dense and lexical retrievers of one build, and hits from its documents."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index import builds, self_check
from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.errors import EncoderMismatch, InvalidInput, NotFound
from purlin.index.lookups import Lookups
from purlin.index.passages import ONE_SPELLING_SINCE, lexical_query
from purlin.index.product_fields import codes_of, is_code, letters_and_digits, spellings
from purlin.index.quantities import quantities
from purlin.index.records import Document, Hit, Mode, Passage, is_text
from purlin.index.search import feedback, query_log, repository, segments
from purlin.index.search.contracts import (
    Allowed,
    DenseRetriever,
    LexicalRetriever,
    PassageReranker,
    PassageStore,
    Rows,
)
from purlin.index.search.dense import Dense
from purlin.index.search.filters import ANY_CASE, Filter, check_types, folded
from purlin.index.search.fusion import DENSE, LEXICAL, Fusion
from purlin.index.search.languages import ENGLISH
from purlin.index.search.lexical import Lexical, LexicalScores
from purlin.index.search.listing import LISTING_FILE, Listing
from purlin.index.search.local import LocalPassages
from purlin.index.search.query_log import QueryLog, blend
from purlin.index.search.ranked import Candidates, Clock, Query, Ranked, Ranking, Shown, aligned
from purlin.index.search.segments import Segment
from purlin.index.search.store import StoredPassage
from purlin.index.search.tokens import matches, tokens
from purlin.index.search.uses import used_name, users

MAX_QUERY_CHARS = 4096
MAX_K = 1000
# Largest offset + k.
MAX_RANK = 10_000
MAX_HIGHLIGHTS = 100
# Hits that a reranker scores again, and the time it may take: those not read by then keep their order.
RERANK_DEPTH = 20
RERANK_SECONDS = 1.0
_NEAREST_SHOWN = 3  # documents that an error about a line of a file names
_FIRST_DEPTH = 200
_CACHED_FILTERS = 64
# Factor on the score of test, vendored, generated and minified code.
_SECONDARY_PRIOR = 0.9
# A code as a number, which has no leading zeros and fits in 64 bits.
_NUMBER = re.compile(r"[1-9][0-9]{3,17}")
# A code, such as a barcode or a model number, has a digit or a mark. One of fewer than four characters is
# more often a size or a number of something.
_CODE = re.compile(r"(?=[^-_./0-9]{,63}[-_./0-9])\S{4,64}")
# Few words with a digit, which may be a code in another spelling, and how many passages are compared.
_SPLIT_CODE = re.compile(r"(?=.{5,40}$)(?=\D*\d)[A-Za-z0-9]+(?:[-_./ ]{1,3}[A-Za-z0-9]+){0,5}")
_CODES_COMPARED = 20
_NO_ROWS: Rows = np.zeros(0, dtype=np.int64)
_NO_SCORES: Vectors = np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One page of hits. `total` counts the documents on all pages.

    `timings_ms` maps a step (encode, dense, lexical, fuse, fetch, read) to its milliseconds.
    `warning` is present if only one of two retrievers answered, or if the reranker was too slow,
    `corrected` if the query was searched in another spelling.
    """

    hits: tuple[Hit, ...]
    total: int
    timings_ms: Mapping[str, float]
    warning: str | None = None
    corrected: str | None = None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A hit with its document and passage."""

    hit: Hit
    document: Document
    passage: Passage


@dataclass(frozen=True, slots=True)
class PassageResult:
    """Passages, best first; `timings_ms` and `warning` as in a `SearchResult`."""

    passages: list[Retrieved]
    timings_ms: Mapping[str, float]
    warning: str | None = None


class Corpus:
    """An open build of a corpus; safe to share between threads."""

    def __init__(
        self,
        build: str,
        manifest: builds.Manifest,
        encoder: TextEncoder,
        dense: DenseRetriever,
        lexical: LexicalRetriever,
        passages: PassageStore,
        listing: bytes,
        *,
        log: QueryLog | None = None,
        drift: float | None = None,
        segments: Sequence[Segment] = (),
    ) -> None:
        self.name = manifest.name
        # Largest 1 - cosine of the self-check's vectors between the build's machine and this one.
        self.drift = drift
        self.build = build
        self.manifest = manifest
        self.segments = segments
        self._encoder = encoder
        self._dense = dense
        self._lexical = lexical
        self._passages = passages
        self._listing = listing
        self._log = log
        self._has_roles = manifest.demote and "role" in passages.field_names
        # Files tell more of code than its text: a model ranks by them, too.
        self._has_model = manifest.kind == "code" and passages.has_files

        # What a filter allows, and how many documents, by filter; least recently used first.
        self._filters: OrderedDict[str, tuple[Allowed, int]] = OrderedDict()
        self._filters_lock = threading.Lock()
        # Replaceable, so that successive builds of a corpus can share one counter.
        self.filter_lookups = Lookups()

    @classmethod
    def load(cls, directory: Path, encoder: TextEncoder, opened: Corpus | None = None) -> Corpus:
        """Open a build.

        Everything but the documents is read into memory and not read from disk again; segments that
        the open build `opened` has in memory are shared with it. Raises
        Damaged, which names the file, and EncoderMismatch. Later, methods raise Altered if the
        documents' file was changed.
        """
        manifest = builds.read_manifest(directory)
        check_encoder(manifest, encoder)
        return cls.open(directory, manifest, encoder, opened)

    @classmethod
    def open(
        cls,
        directory: Path,
        manifest: builds.Manifest,
        encoder: TextEncoder,
        opened: Corpus | None = None,
    ) -> Corpus:
        """Open the files of a manifest, which may be of an unfinished build. Raises Damaged."""
        files = builds.Files(directory, manifest)
        shared = {} if opened is None else {part.name: part for part in opened.segments}
        parts = [
            Segment.load(directory / name, manifest, files, shared.get(name))
            for name in manifest.segments
        ]

        order = segments.read_order(directory, manifest, files)
        stores = [part.store for part in parts]
        documents = segments.read_documents(directory, files, stores, order)

        log = None
        if query_log.VECTORS_FILE in manifest.files:
            log = QueryLog.load(directory, files.read)
        drift = None
        if self_check.SELF_CHECK_FILE in manifest.files:
            drift = self_check.drift(directory, encoder, files.read)
        listing = files.read(directory / LISTING_FILE)

        files.check_others()
        return cls(
            directory.name,
            manifest,
            encoder,
            Dense([part.vectors for part in parts]),
            Lexical([part.postings for part in parts], segments.live_rows(order)),
            LocalPassages(documents, order),
            listing,
            log=log,
            drift=drift,
            segments=parts,
        )

    def close(self) -> None:
        """Release the files; later searches fail."""
        self._passages.close()

    @property
    def encoder(self) -> TextEncoder:
        """The encoder of the build's vectors."""
        return self._encoder

    @property
    def warning(self) -> str | None:
        """Warning if this machine's vectors differ too much from the build's, or None."""
        return None if self.drift is None else self_check.drift_warning(self.name, self.drift)

    def document(self, document_id: str) -> Document:
        """Return the document with this id. Raises NotFound."""
        return self._passages.document(document_id)

    def count(self, document_ids: Iterable[str]) -> int:
        """How many of the given ids exist in this corpus."""
        return len(self._passages.rows_of(document_ids))

    def file_names(self, limit: int) -> tuple[list[str], list[str]]:
        """Names of the source files that were read, and of the skipped ones; `limit` of each."""
        return self.listing.names(limit)

    @property
    def listing(self) -> Listing:
        """The source files of the build, with their digests; parsed anew at each call."""
        return Listing.parse(self._listing)

    @property
    def field_names(self) -> list[str]:
        """Sorted names that a filter may use."""
        return self._passages.field_names

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        offset: int = 0,
        mode: Mode = "hybrid",
        filter: Filter | None = None,
        explain: bool = False,
        reranker: PassageReranker | None = None,
    ) -> SearchResult:
        """Return hits offset + 1 to offset + k of the documents that pass `filter`, best first.

        Each document has at most one hit. Fused scores are exact, as if every passage were scored,
        and the model for repositories ranks the same documents for every page, as the `reranker`
        does: pages fit together.
        """
        check_search(query, k, offset, mode)
        clock = Clock()
        needed = max(offset + k, RERANK_DEPTH) if reranker else offset + k
        ranked = self._ranked(self._prepare(query, mode, filter, clock), needed, clock)
        if reranker is not None:
            ranked = self.reranked(ranked, RERANK_DEPTH, reranker)
        clock = Clock(ranked.timings_ms)
        hits = self.hits(ranked, offset, offset + k, explain=explain)
        clock.lap("fetch")
        return SearchResult(hits, ranked.total, clock.laps, ranked.warning, ranked.corrected)

    def rank(
        self,
        query: str,
        depth: int,
        *,
        mode: Mode = "hybrid",
        filter: Filter | None = None,
        vector: Vectors | None = None,
    ) -> Ranked:
        """Rank at least the best `depth` documents, as `search` does; `hits` reads them.

        `vector` is the query's by this corpus's encoder, as it is written, if the caller has it.
        """
        check_search(query, 1, depth - 1, mode)
        clock = Clock()
        return self._ranked(self._prepare(query, mode, filter, clock, vector), depth, clock)

    def reranked(
        self,
        ranked: Ranked,
        depth: int,
        reranker: PassageReranker,
        *,
        deadline: float | None = None,
    ) -> Ranked:
        """Score the first `depth` hits of a ranking again, and rank the others below them.

        The score is the mean of the search's and of the reranker's relevance, by its weight for
        this kind; hits that the query names exactly keep theirs. What is not read before the
        `deadline`, a time of `time.monotonic()`, stays in its order.
        """
        clock = Clock(ranked.timings_ms)
        depth = min(depth, len(ranked.ranking.rows))
        stored = self._passages.fetch(ranked.ranking.rows[:depth].tolist())
        relevance = reranker.relevance(
            ranked.query.text,
            [(each.document, each.passage) for each in stored],
            deadline=deadline or time.monotonic() + RERANK_SECONDS,
        )
        ranking = ranked.reread(relevance, reranker.name, reranker.weights[self.manifest.kind])
        clock.lap("read")

        warning = None
        if len(relevance) < depth:
            warning = f"The reranker read only {len(relevance)} of {depth} hits in time."
        return replace(
            ranked,
            ranking=ranking,
            timings_ms=clock.laps,
            warning=" ".join(filter(None, [ranked.warning, warning])) or None,
        )

    def hits(
        self, ranked: Ranked, start: int, stop: int, *, explain: bool = False
    ) -> tuple[Hit, ...]:
        """Return the hits start + 1 to stop of a ranking, as far as there are so many."""
        rows = ranked.ranking.rows[start:stop]
        return tuple(
            self._hit(ranked.query, ranked.ranking, position, stored, explain=explain)
            for position, stored in enumerate(self._passages.fetch(rows.tolist()), start)
        )

    def passages(
        self, query: str, k: int, *, mode: Mode = "hybrid", filter: Filter | None = None
    ) -> PassageResult:
        """Return the best `k` passages that pass the filter, possibly several of a document.

        Their hits have no highlights; `highlighted` adds them.
        """
        check_search(query, k, 0, mode)
        clock = Clock()
        prepared = self._prepare(query, mode, filter, clock, with_evidence=False)
        ranking = self._rank(prepared, k, clock, distinct=False)

        retrieved = []
        for position, stored in enumerate(self._passages.fetch(ranking.rows[:k].tolist())):
            hit = self._hit(prepared, ranking, position, stored, highlight=False)
            retrieved.append(Retrieved(hit, stored.document, stored.passage))
        clock.lap("fetch")
        return PassageResult(retrieved, clock.laps)

    def related(self, document_id: str, k: int = 10) -> SearchResult:
        """Return the `k` documents nearest in meaning to one, without itself. Raises NotFound.

        Nearness is that of any of their passages to the mean of its passages; tests and the like
        count less, as in a search. What is near code is code, where a corpus has documentation or
        configuration, too. No hit has highlights.
        """
        _check_k(k)
        clock = Clock()
        row = self._passages.rows_of([document_id]).get(document_id)
        if row is None:
            raise NotFound(
                f"There is no document {document_id[:200]!r} in this corpus: give the document_id of a hit.",
                field="id",
            )
        own = self._passages.passages_of(np.array([row]))
        [stored, *_] = self._passages.fetch(own[:1].tolist())
        content = stored.document.fields.get("content")
        alike: Filter | None = (
            {"content": str(content)} if content and "content" in self.field_names else None
        )
        allowed, documents = self._allowed(alike)
        query = Query("", "", "dense", allowed, documents)
        query.vector = self._dense.mean(own)
        query.excluded = own

        ranking = self._rank(query, k, clock)
        hits = tuple(
            self._hit(query, ranking, position, stored, highlight=False)
            for position, stored in enumerate(self._passages.fetch(ranking.rows[:k].tolist()))
        )
        clock.lap("fetch")
        return SearchResult(hits, documents - 1, clock.laps)

    def document_at(self, path: str, line: int) -> Document:
        """Return the innermost document that has a line of a file, counted from 1.

        Raises NotFound, which lists the documents of the file that are nearest.
        """
        documents = self._documents_of(path)
        here = [document for document in documents if _distance(document, line) == 0]
        if here:
            return min(here, key=lambda document: _lines(document)[1] - _lines(document)[0])

        nearest = sorted(documents, key=lambda document: _distance(document, line))[:_NEAREST_SHOWN]
        listed = ", ".join(
            f"{document.title[:80]} ({document.location.start_line})" for document in nearest
        )
        unread = None if documents else self.listing.unread(path)
        has = unread or (f"nearest are {listed}" if listed else "that file has none")
        raise NotFound(f"There is no document at line {line} of {path[:200]!r}; {has}.", field="id")

    def _documents_of(self, path: str) -> list[Document]:
        """Documents of a file, in the order of their rows."""
        if "path" not in self.field_names:
            return []
        stored = self._passages.fetch(self._passages.rows_where({"path": path}).tolist())
        return list({passage.document.id: passage.document for passage in stored}.values())

    def weights(self, query: str) -> Mapping[str, float]:
        """Map each distinct token of the query to its idf."""
        text = lexical_query(query, self.manifest.kind, self.manifest.texts)
        return self._lexical.weights(text)

    def highlighted(self, query: str, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Return the hits with highlights where their texts match the query's words."""
        shown = self._shown(query)
        return tuple(replace(hit, highlights=_highlights(hit.text, shown)) for hit in hits)

    def _shown(self, query: str) -> Shown:
        language = self._lexical.language
        spellings = quantities(query) if self.manifest.kind == "product" else ()
        return Shown(
            frozenset(tokens(query, language)),
            language,
            frozenset(each.spelling for each in spellings),
        )

    # ---- retrieval

    def _ranked(self, query: Query, depth: int, clock: Clock) -> Ranked:
        ranking = self._rank(query, depth, clock)
        total = self._total(query)
        clock.lap("fetch")
        return Ranked(total, clock.laps, query, ranking)

    def _prepare(
        self,
        query: str,
        mode: Mode,
        filter: Filter | None,
        clock: Clock,
        vector: Vectors | None = None,
        *,
        with_evidence: bool = True,
    ) -> Query:
        allowed, documents = self._allowed(filter)
        clock.lap("filter")

        named = self._named(query.strip()) if mode != "dense" else _NO_ROWS
        text = query if len(named) else self._corrected(query)
        prepared = Query(text, query, mode, allowed, documents, shown=self._shown(text))
        prepared.named = named
        prepared.has_evidence = with_evidence and self._has_model and mode != "dense"
        clock.lap("lexical")

        if mode != "lexical":
            if vector is None or text != query:
                vector = self._encoder.encode([text], role="query")[0]
            prepared.vector = vector
            prepared.has_feedback = (
                mode == "hybrid" and self.manifest.kind in feedback.KINDS and bool(vector.any())
            )
        clock.lap("encode")

        if prepared.vector is not None and self._log is not None:
            prepared.nearness = self._log.nearness(prepared.vector)
            clock.lap("dense")

        if mode != "dense":
            prepared.weights = self.weights(text)
            if prepared.has_evidence:
                prepared.defining = self._defining(query)
                prepared.used_name = self._used_name(query)
            if prepared.used_name is not None:
                prepared.weights = self.weights(prepared.used_name)
        clock.lap("lexical")
        return prepared

    def _corrected(self, query: str) -> str:
        """The query as it is searched: corrected for products, as elsewhere an unknown word may be a name."""
        return self._lexical.corrected(query) if self.manifest.kind == "product" else query

    def _named(self, query: str) -> Rows:
        """Rows whose id, title or code is the query; in titles of code, every separator is a dot."""
        named = self._passages.rows_named(query)
        if self.manifest.kind == "product":
            named = np.union1d(named, self._coded(query))
            return named if len(named) else self._coded_alike(query)
        title = ".".join(repository.names_of(query))
        if self.manifest.kind == "code" and title not in ("", query):
            named = np.union1d(named, self._passages.rows_named(title))
        return named

    def _coded(self, query: str) -> Rows:
        """Rows with a code that is the query, such as a barcode; a word of letters alone is none."""
        if not _CODE.fullmatch(query):
            return _NO_ROWS
        codes = [*spellings(query), query.upper(), query.casefold()]
        numbers = [int(code) for code in codes if _NUMBER.fullmatch(code)]
        rows = [
            self._passages.rows_where({name: [*codes, *numbers]}, _FIRST_DEPTH)
            for name in self.field_names
            if is_code(name)
        ]
        return np.concatenate([_NO_ROWS, *rows])

    def _coded_alike(self, query: str) -> Rows:
        """Rows with a code of the query's letters and digits: AB-12 for "ab 12" and "ab12"."""
        if not _SPLIT_CODE.fullmatch(query):
            return _NO_ROWS

        joined = letters_and_digits(query)
        rows, _ = self._lexical.search(self.weights(f"{query} {joined}"), _CODES_COMPARED)
        stored = self._passages.fetch(rows.tolist())
        is_alike = [joined in map(letters_and_digits, codes_of(each.document)) for each in stored]
        return np.union1d(rows[np.array(is_alike, dtype=np.bool_)], self._coded(joined))

    def _defining(self, query: str) -> Rows:
        """Rows whose last name is the symbol that the query is, at most as many as are ranked."""
        names = repository.names_of(query)
        if not names or "name" not in self.field_names:
            return _NO_ROWS
        return self._passages.rows_where({"name": names[-1]}, repository.DEPTH)

    def _used_name(self, query: str) -> str | None:
        """The name whose uses the query asks for, if it is that of a symbol."""
        name = used_name(query)
        is_symbol = name is not None and (repository.is_telling(name) or len(self._defining(name)))
        return name if is_symbol else None

    def _allowed(self, filter: Filter | None) -> tuple[Allowed | None, int]:
        """Return what a filter allows, and how many documents that is."""
        if not filter:
            return self._passages.everything, self.manifest.documents
        key = repr(sorted(filter.items(), key=lambda item: item[0]))
        with self._filters_lock:
            if (cached := self._filters.get(key)) is not None:
                self._filters.move_to_end(key)
                self.filter_lookups.count(hits=1)
                return cached

        self.filter_lookups.count(misses=1)
        check_types(filter, self._passages.held)
        allowed = self._passages.allowed(folded(filter) if self._folds else filter)
        counted = allowed, self._passages.count(allowed)
        with self._filters_lock:
            self._filters[key] = counted
            while len(self._filters) > _CACHED_FILTERS:
                self._filters.popitem(last=False)
        return counted

    @property
    def _folds(self) -> bool:
        """Whether filters ignore case; older builds have their fields as they are written."""
        return self.manifest.kind in ANY_CASE and self.manifest.texts >= ONE_SPELLING_SINCE

    def _rank(self, query: Query, needed: int, clock: Clock, *, distinct: bool = True) -> Ranking:
        """Rank at least `needed` documents, or passages unless `distinct`, if there are so many."""
        if not (query.has_evidence or query.has_feedback):
            return self._rank_by_text(query, needed, clock, distinct=distinct)

        # The same documents whatever is asked for, so that pages are consistent.
        candidates, bound = self._candidates(query, _FIRST_DEPTH, clock)
        pool = self._score(query, candidates, clock, distinct=True)
        clock.lap("fuse")
        if query.has_evidence:
            first = self._with_evidence(query, pool.take(slice(repository.DEPTH)))
            clock.lap("rerank")
        else:
            first = self._with_feedback(query, pool.take(slice(feedback.DEPTH)))
            clock.lap("dense")
        if len(first.rows) >= needed or (bound is None and len(first.rows) == len(pool.rows)):
            return first

        others = self._rank_by_text(query, needed, clock, distinct=True)
        document_of = self._passages.document_of
        ranked = np.isin(document_of(others.rows), document_of(first.rows))
        return first.then(others.take(~ranked))

    def _rank_by_text(self, query: Query, needed: int, clock: Clock, *, distinct: bool) -> Ranking:
        """Rank by the scores of the retrievers.

        Fetches more candidates until no other row can enter the first `needed`, as in the threshold
        algorithm.
        """
        depth = max(_FIRST_DEPTH, 2 * needed)
        while True:
            candidates, bound = self._candidates(query, depth, clock)
            ranking = self._score(query, candidates, clock, distinct=distinct)
            last = ranking.scores[needed - 1] if len(ranking.rows) >= needed else -1.0
            clock.lap("fuse")
            if bound is None or last > bound:
                return ranking
            depth *= 4

    def _with_evidence(self, query: Query, ranking: Ranking) -> Ranking:
        """Rank these rows by the model of a repository."""
        details = self._passages.details(self._passages.document_of(ranking.rows))
        if not self._has_roles:
            details = replace(details, secondary=np.zeros_like(details.secondary))
        evidence = repository.weigh(
            query.used_name or query.text,
            query.weights,
            details,
            ranking.text_scores,
            np.isin(ranking.rows, query.named),
            self._passages.existing_paths,
            self._using(query, ranking.rows),
        )
        order = evidence.order()
        scores = evidence.scores()[order]
        return replace(ranking.take(order), scores=scores, evidence=evidence.take(order))

    def _using(self, query: Query, rows: Rows) -> NDArray[np.bool_] | None:
        """Which of the rows use the name whose uses are asked for; None if the query asks for none."""
        if query.used_name is None:
            return None
        stored = self._passages.fetch(rows.tolist())
        return users(query.used_name, [passage.document for passage in stored])

    def _with_feedback(self, query: Query, ranking: Ranking) -> Ranking:
        """Rank these rows by how similar they are to the first of them, too."""
        if len(ranking.rows) < feedback.DEPTH:
            return ranking
        center = self._dense.mean(ranking.rows[: feedback.FIRST])
        similarities = self._dense.scores(center, ranking.rows)
        cosines = feedback.mean_cosines(ranking.cosines, similarities)
        texts = self._text_scores(query, ranking.rows, cosines, ranking.lexical)
        scores = np.where(np.isin(ranking.rows, query.named), ranking.scores, texts)

        order = np.argsort(-scores, kind="stable")
        return replace(
            ranking.take(order),
            scores=scores[order],
            text_scores=texts[order],
            similarities=similarities[order],
        )

    def _candidates(
        self, query: Query, depth: int, clock: Clock
    ) -> tuple[Candidates, float | None]:
        """Rows that are named or among the first `depth` of a retriever.

        Also returns the highest score that any other row could get, or None if there is no other.
        """
        named = np.concatenate([query.named, query.defining])
        rows = [named[self._passages.is_allowed(named, query.allowed)]]
        dense_rows = lexical_rows = _NO_ROWS
        cosines = shares = _NO_SCORES
        least_cosine, least_share, more = 0.0, 0.0, False

        if query.vector is not None:
            needed = depth + len(query.excluded)
            dense_rows, cosines = self._dense.search(query.vector, needed, query.allowed)
            if len(dense_rows) == needed:
                least_cosine, more = float(cosines[-1]), True
            kept = ~np.isin(dense_rows, query.excluded)
            dense_rows, cosines = dense_rows[kept], cosines[kept]
            clock.lap("dense")

        if query.mode != "dense":
            lexical_rows, shares = self._lexical_best(query, depth)
            if len(lexical_rows) == depth:
                least_share = float(shares[-1])
                # In hybrid mode, the dense retriever tells whether there are other rows.
                more = more or query.mode == "lexical"
            clock.lap("lexical")

        fusion = self._fusion(query)
        bound = fusion.fuse(
            np.array([least_cosine], np.float32), np.array([least_share], np.float32)
        )
        if query.nearness is not None:
            documents, nearness = query.nearness.nearest(depth)
            near = self._passages.passages_of(documents)
            rows.append(near[self._passages.is_allowed(near, query.allowed)])
            limit = nearness[-1:] if len(nearness) == depth else np.zeros(1, dtype=np.float32)
            bound = blend(bound, limit)

        all_rows = np.unique(np.concatenate([*rows, dense_rows, lexical_rows]))
        candidates = Candidates(
            all_rows,
            aligned(all_rows, dense_rows, cosines),
            aligned(all_rows, lexical_rows, shares),
        )
        return candidates, float(bound[0]) if more else None

    def _lexical_best(self, query: Query, depth: int) -> tuple[Rows, LexicalScores]:
        """The first `depth` allowed rows by words: the named ones, then those of the retriever."""
        named = np.unique(query.named[self._passages.is_allowed(query.named, query.allowed)])
        rows, shares = self._lexical.search(query.weights, depth, query.allowed)
        others = ~np.isin(rows, named)
        ones = np.ones(len(named), dtype=np.float32)
        return (
            np.concatenate([named, rows[others]])[:depth],
            np.concatenate([ones, shares[others]])[:depth],
        )

    def _score(
        self, query: Query, candidates: Candidates, clock: Clock, *, distinct: bool
    ) -> Ranking:
        """Rank these rows; with `distinct`, only the best row of each document is kept."""
        rows = candidates.rows
        documents = self._passages.document_of(rows)
        cosines, shares = candidates.cosines.copy(), candidates.lexical.copy()
        clock.lap("fuse")
        others = np.isnan(cosines)
        cosines[others] = 0.0
        if query.vector is not None:
            cosines[others] = self._dense.scores(query.vector, rows[others])
            clock.lap("dense")
        others = np.isnan(shares)
        shares[others] = 0.0
        if query.mode != "dense":
            shares[others] = self._lexical.scores(query.weights, rows[others])
            shares[np.isin(rows, query.named)] = 1.0
            clock.lap("lexical")

        texts = self._text_scores(query, rows, cosines, shares)
        scores = texts.copy()
        scores[np.isin(rows, query.defining)] = 1.0
        scores[np.isin(rows, query.named)] = 1.0

        # Ties go by cosine, then by the row that the passage has in a build of one segment.
        order = np.lexsort((self._passages.order(rows), -cosines, -scores))
        if distinct:
            _, first = np.unique(documents[order], return_index=True)
            order = order[np.sort(first)]
        similarities = np.full(len(order), np.nan, dtype=np.float32)
        return Ranking(
            rows[order], scores[order], texts[order], cosines[order], shares[order], similarities
        )

    def _text_scores(
        self, query: Query, rows: Rows, cosines: Vectors, shares: LexicalScores
    ) -> Vectors:
        """Scores (n,) of these rows by their texts, and by earlier queries that led to them."""
        documents = self._passages.document_of(rows)
        texts = self._fusion(query).fuse(cosines, shares)
        if not query.has_evidence:
            texts = texts * self._priors(documents)
        if query.nearness is not None:
            texts = blend(texts, query.nearness.of(documents))
        return texts

    def _priors(self, documents: Rows) -> Vectors:
        """Factors (n,) on the scores of passages by the roles of their documents."""
        if not self._has_roles:
            return np.ones(len(documents), dtype=np.float32)
        secondary = self._passages.secondary(documents)
        return np.where(secondary, np.float32(_SECONDARY_PRIOR), np.float32(1.0))

    def _fusion(self, query: Query) -> Fusion:
        if query.mode != "hybrid" or query.vector is None:
            return DENSE if query.mode == "dense" else LEXICAL
        # A static encoder has no vector for a query whose every word is new to it, such as one in Japanese.
        dense_weight = self.manifest.dense_weight if query.vector.any() else 0.0
        return Fusion(dense_weight, self.manifest.lexical_power)

    def _total(self, query: Query) -> int:
        """Count the documents that the query can return."""
        if query.mode != "lexical":
            return query.document_count
        matching = self._lexical.matching(query.weights, query.allowed)
        named = query.named[self._passages.is_allowed(query.named, query.allowed)]
        rows = np.concatenate([matching, named])
        return len(np.unique(self._passages.document_of(rows)))

    # ---- hits

    def _hit(
        self,
        query: Query,
        ranking: Ranking,
        position: int,
        stored: StoredPassage,
        *,
        explain: bool = False,
        highlight: bool = True,
    ) -> Hit:
        document, passage = stored.document, stored.passage
        text = document.body[passage.start : passage.end]

        return Hit(
            id=passage.id,
            document_id=document.id,
            rank=position + 1,
            score=_rounded(ranking.scores[position]),
            scores=self._retriever_scores(query, ranking, position),
            title=document.title,
            text=text,
            highlights=_highlights(text, query.shown) if highlight else (),
            location=document.location,
            fields=document.fields,
            context=document.context,
            explanation=self._explanation(query, ranking, position) if explain else None,
        )

    def _retriever_scores(self, query: Query, ranking: Ranking, position: int) -> dict[str, float]:
        scores = {}
        if query.vector is not None:
            scores["dense"] = _rounded(ranking.cosines[position])
        if query.mode != "dense":
            scores["lexical"] = _rounded(ranking.lexical[position])
        if query.nearness is not None:
            document = self._passages.document_of(ranking.rows[position : position + 1])
            scores["log"] = _rounded(query.nearness.of(document)[0])
        if not np.isnan(similarity := ranking.similarities[position]):
            scores["feedback"] = _rounded(similarity)
        if (reading := ranking.reading) is not None and position < len(reading.relevance):
            scores["rerank"] = _rounded(reading.relevance[position])
        return scores

    def _explanation(self, query: Query, ranking: Ranking, position: int) -> dict[str, Any]:
        row = int(ranking.rows[position])
        document = self._passages.document_of(ranking.rows[position : position + 1])
        fusion = self._fusion(query)
        explanation: dict[str, Any] = {}
        if query.vector is not None and self._log is not None:
            explanation["earlier"] = self._log.nearest(query.vector, int(document[0]))

        prior = float(self._priors(document)[0])
        if (evidence := ranking.evidence) is not None and position < len(evidence.role):
            prior = float(evidence.role[position])
            explanation["parts"] = evidence.parts(position)

        if (reading := ranking.reading) is not None and position < len(reading.relevance):
            explanation["rerank"] = {
                "reranker": reading.name,
                "weight": reading.weight,
                "relevance": _rounded(reading.relevance[position]),
                "searched": _rounded(reading.searched[position]),
            }

        if (language := self._lexical.language) is not ENGLISH:
            explanation["language"] = language.name

        return explanation | {
            "dense_weight": fusion.dense_weight,
            "feedback_weight": 0.0 if np.isnan(ranking.similarities[position]) else feedback.WEIGHT,
            "lexical_power": fusion.lexical_power,
            "terms": self._lexical.explain(query.weights, row),
            "named": row in query.named,
            "prior": prior,
        }


def _highlights(text: str, shown: Shown) -> tuple[tuple[int, int], ...]:
    spans = matches(text, shown.tokens, shown.language)
    if shown.quantities:
        equal = [each for each in quantities(text) if each.spelling in shown.quantities]
        spans = _united([*spans, *((each.start, each.end) for each in equal)])
    return tuple(islice(spans, MAX_HIGHLIGHTS))


def _united(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans in order, those that overlap as one."""
    ordered = sorted(spans)
    start, end = ordered[0] if ordered else (0, 0)
    for next_start, next_end in ordered:
        if next_start >= end and next_start > start:
            yield start, end
            start = next_start
        end = max(end, next_end)
    if ordered:
        yield start, end


def _rounded(score: np.float32) -> float:
    """Round a score to four digits; further digits differ between processors."""
    return round(float(score), 4)


def check_encoder(manifest: builds.Manifest, encoder: TextEncoder) -> None:
    """Raise EncoderMismatch if a build was made with another encoder."""
    if manifest.encoder["fingerprint"] != encoder.fingerprint:
        raise EncoderMismatch(
            f"Corpus {manifest.name!r} was built with encoder {manifest.encoder['name']!r} "
            f"({manifest.encoder['fingerprint'][:12]}), but {encoder.name!r} "
            f"({encoder.fingerprint[:12]}) is loaded; serve with that encoder, or build the corpus again."
        )


def check_query(query: str) -> None:
    """Raise InvalidInput for a query that is empty, too long or not valid Unicode."""
    if not query.strip():
        raise InvalidInput("query is empty; give it at least one word.", field="query")
    if len(query) > MAX_QUERY_CHARS:
        raise InvalidInput(
            f"query has {len(query)} characters; at most {MAX_QUERY_CHARS} are allowed.",
            field="query",
        )
    if not is_text(query):
        raise InvalidInput("query is not valid Unicode; send UTF-8.", field="query")


def _check_k(k: int) -> None:
    if not 1 <= k <= MAX_K:
        raise InvalidInput(f"k is {k}; it must be 1 to {MAX_K}.", field="k")


def _lines(document: Document) -> tuple[int, int]:
    """First and last line of a document in its file; 0 and 0 for one without lines."""
    start, end = document.location.start_line, document.location.end_line
    return (start or 0, end or start or 0)


def _distance(document: Document, line: int) -> int:
    """Lines between a line of its file and a document, 0 inside it."""
    start, end = _lines(document)
    return max(start - line, line - end, 0)


def check_page(k: int, offset: int) -> None:
    """Raise InvalidInput for a page beyond the limits."""
    _check_k(k)
    if not 0 <= offset <= MAX_RANK - k:
        raise InvalidInput(
            f"offset is {offset}; offset + k must be at most {MAX_RANK}.", field="offset"
        )


def check_search(query: str, k: int, offset: int, mode: str) -> None:
    """Raise InvalidInput for the first argument of a search that is out of bounds."""
    check_query(query)
    check_page(k, offset)
    if mode not in ("hybrid", "dense", "lexical"):
        raise InvalidInput(f"mode is {mode[:40]!r}; use hybrid, dense or lexical.", field="mode")
