"""Search of a corpus: the dense and lexical retrievers of one build, and hits from its documents."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from purlin.index.builds import build_files
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.builds.remarks import read_remarks
from purlin.index.encoder import TextEncoder, Vectors, in_english, self_check
from purlin.index.errors import EncoderMismatch, NotFound, no_document
from purlin.index.lookups import Lookups, RecentlyUsed
from purlin.index.records import Document, Hit, Mode, SearchedCorpus
from purlin.index.search import segments
from purlin.index.search.arrays import NO_ROWS, Rows
from purlin.index.search.contracts import (
    Allowed,
    DenseRetriever,
    DocumentStore,
    LexicalRetriever,
    PassageReranker,
)
from purlin.index.search.dense import Dense
from purlin.index.search.documents import Documents
from purlin.index.search.hits import Hits, Retrieved, matched
from purlin.index.search.lexical.bm25 import Lexical
from purlin.index.search.lexical.languages import ENGLISH
from purlin.index.search.lexical.spelling import as_written
from purlin.index.search.limits import check_k, check_search
from purlin.index.search.ranking import feedback, query_log
from purlin.index.search.ranking.fusion import Fusion
from purlin.index.search.ranking.lengths import SHORT
from purlin.index.search.ranking.named_rows import NamedRows
from purlin.index.search.ranking.places import distance, innermost, without_frames
from purlin.index.search.ranking.query_log import QueryLog
from purlin.index.search.ranking.ranked import Clock, Query, Ranked
from purlin.index.search.ranking.retrievers import Retrievers
from purlin.index.search.segments import Segment
from purlin.index.search.store.filters import (
    ANY_CASE,
    Filter,
    check_types,
    folded,
    no_document_passes,
    on_fields,
    pattern_in,
)
from purlin.index.search.store.listing import LISTING_FILE, Listing
from purlin.index.texts.passages import lexical_query, render

# Hits that a reranker scores again, and the time it has; hits not read by then keep their order.
RERANK_DEPTH = 20
RERANK_SECONDS = 1.0
_NEAREST_SHOWN = 3  # documents that an error about a line of a file names
_CACHED_FILTERS = 64
# Passages that tell whether a catalogue is in English.
_SAMPLED_PASSAGES = 16
# So many values of a field are compared with one that no document has.
_COMPARED_TEXTS = 2000


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One page of hits. `total` counts the documents on all pages.

    `timings_ms` maps a step (encode, dense, lexical, fuse, fetch, read) to its milliseconds.
    `warning` is present if only one of two retrievers answered, if the reranker was too slow, or if
    scores of different encoders were compared, `corrected` if the query was searched in another
    spelling. Of a query for what uses a symbol, tests it or inherits from it, `related` counts the
    documents that do, among the 200 nearest ones. If several corpora were searched, each hit names
    its own, and `corpora` has them in the order of the search.
    """

    hits: tuple[Hit, ...]
    total: int
    timings_ms: Mapping[str, float]
    warning: str | None = None
    corrected: str | None = None
    corpora: tuple[SearchedCorpus, ...] = ()
    related: int | None = None


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
        directory: Path,
        manifest: Manifest,
        encoder: TextEncoder,
        files: build_files.Files,
        dense: DenseRetriever,
        lexical: LexicalRetriever,
        documents: DocumentStore,
        segments: Sequence[Segment] = (),
    ) -> None:
        """Take what is open of a build, read the rest of its `files`, and verify what nobody has read."""
        self._log = None
        if query_log.VECTORS_FILE in manifest.files:
            self._log = QueryLog.load(directory, files.read)
        # Largest 1 - cosine of the self-check's vectors between the build's machine and this one.
        self.drift = None
        if self_check.SELF_CHECK_FILE in manifest.files:
            self.drift = self_check.drift(directory, encoder, files.read)
        self._listing = files.read(directory / LISTING_FILE)
        self.remarks = read_remarks(directory, manifest.files, files.read)
        files.check_others()

        self.name = manifest.name
        self.build = directory.name
        self.manifest = manifest
        self.segments = segments
        self.encoder = encoder
        self._dense = dense
        self._lexical = lexical
        self._documents = documents
        # Paths tell more about code than its text does, so a model also ranks by them.
        self._has_model = manifest.kind == "code" and documents.has_files
        self._names = NamedRows(manifest.kind, documents, lexical, self.weights)
        self.retrievers = Retrievers(
            dense,
            lexical,
            documents,
            hybrid=Fusion(manifest.dense_weight, manifest.lexical_power),
            demote=manifest.demote,
            short=None if self._has_model else SHORT.get(manifest.kind),
        )

        self._hits = Hits(manifest.kind, documents, lexical, self.retrievers, self._log)

        # By filter: what it allows, and how many documents.
        self._filters: RecentlyUsed[str, tuple[Allowed, int]] = RecentlyUsed(_CACHED_FILTERS)
        # Replaceable, so that successive builds of a corpus can share one counter.
        self.filter_lookups = Lookups()

    @classmethod
    def load(cls, directory: Path, encoder: TextEncoder, opened: Corpus | None = None) -> Corpus:
        """Open a build.

        What the open build `opened` already has in memory is shared with it. Raises Damaged, which names
        the file, and EncoderMismatch. Later, methods raise Altered if a file that stays on disk was
        changed.
        """
        manifest = read_manifest(directory)
        check_encoder(manifest, encoder)
        return cls.open(directory, manifest, encoder, opened)

    @classmethod
    def open(
        cls,
        directory: Path,
        manifest: Manifest,
        encoder: TextEncoder,
        opened: Corpus | None = None,
    ) -> Corpus:
        """Open the files of a manifest, which may be of an unfinished build. Raises Damaged."""
        files = build_files.Files(directory, manifest.files)
        shared = {} if opened is None else {part.name: part for part in opened.segments}
        parts = [
            Segment.load(directory / name, manifest, files, shared.get(name))
            for name in manifest.segments
        ]

        order = segments.read_order(directory, manifest, files)
        stores = [part.store for part in parts]
        documents = Documents(stores, segments.read_fields(directory, files), order)

        return cls(
            directory,
            manifest,
            encoder,
            files,
            Dense([part.vectors for part in parts]),
            Lexical([part.postings for part in parts], documents.everything),
            documents,
            parts,
        )

    def close(self) -> None:
        """Release the files; later searches fail."""
        self._documents.close()

    @property
    def warning(self) -> str | None:
        """Reason why results may be worse than they could be, such as another machine's vectors, or None."""
        drift = None if self.drift is None else self_check.drift_warning(self.name, self.drift)
        return " ".join(filter(None, [drift, self.manifest.rules_warning])) or None

    def document(self, document_id: str) -> Document:
        """Return the document with this id. Raises NotFound."""
        return self._documents.document(document_id)

    def count(self, document_ids: Iterable[str]) -> int:
        """Count those of the ids that exist in this corpus."""
        return len(self._documents.rows_of(document_ids))

    @property
    def listing(self) -> Listing:
        """The source files of the build, with their digests; parsed anew at each call."""
        return Listing.parse(self._listing)

    @property
    def field_names(self) -> list[str]:
        """Sorted names that a filter may use."""
        return sorted(self._documents.field_types)

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

        Each document has at most one hit. Pages fit together: fused scores are exact, as if every
        passage were scored, and the model for repositories and the `reranker` rank the same documents
        for every page. If the filter has a regular expression, an empty `query` ranks the documents
        with a matching line in the order of the sources, tests and the like last.
        """
        check_search(query, k, offset, mode, filter)
        depth = offset + k if reranker is None else max(offset + k, RERANK_DEPTH)

        ranked = self.rank(query, depth, mode=mode, filter=filter)
        if reranker is not None:
            ranked = self.reranked(ranked, RERANK_DEPTH, reranker)

        clock = Clock(ranked.timings_ms)
        hits = self.hits(ranked, offset, offset + k, explain=explain)
        clock.lap("fetch")
        warning = ranked.warning or self.filter_warning(ranked, filter)
        return SearchResult(
            hits,
            ranked.total,
            clock.laps,
            warning,
            ranked.corrected,
            related=ranked.related,
        )

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

        `vector` is that of `query` by this corpus's encoder; without it, the query is encoded.
        """
        check_search(query, 1, depth - 1, mode, filter)
        clock = Clock()
        if not query.strip():
            return self._listed(filter, clock)

        prepared = self._prepare(query, mode, filter, clock, vector)
        ranking = self.retrievers.rank(prepared, depth, clock)
        total = self.retrievers.total(prepared)
        clock.lap("fetch")
        return Ranked(total, clock.laps, prepared, ranking)

    def _listed(self, filter: Filter | None, clock: Clock) -> Ranked:
        """Return all documents that pass a filter, for a search without a query."""
        allowed, documents = self._allowed(filter)
        query = Query("", "", "lexical", allowed, documents, pattern_in(filter))
        ranking = self.retrievers.listed(query)
        clock.lap("filter")
        return Ranked(documents, clock.laps, query, ranking)

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
        `deadline`, a time of `time.monotonic()`, stays in its order, and so does what was listed
        without a query.
        """
        if not ranked.query.text:
            return ranked

        clock = Clock(ranked.timings_ms)
        depth = min(depth, len(ranked.ranking.rows))
        stored = self._documents.fetch(ranked.ranking.rows[:depth].tolist())
        relevance = reranker.relevance(
            ranked.query.text,
            [(each.document, each.passage) for each in stored],
            deadline=deadline or time.monotonic() + RERANK_SECONDS,
        )
        ranking = ranked.reranked(relevance, reranker.name, reranker.weights[self.manifest.kind])
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
        """Return hits start + 1 to stop of a ranking, or fewer if it ends before."""
        query, ranking = ranked.query, ranked.ranking
        retrieved = self._hits.retrieved(query, ranking, start, stop)
        if query.pattern is None:
            hits = self._hits.highlighted(query.text, [each.hit for each in retrieved])
        else:
            hits = matched(retrieved, query.pattern)
        return self._hits.explained(query, ranking, hits) if explain else hits

    def passages(
        self,
        query: str,
        k: int,
        *,
        mode: Mode = "hybrid",
        filter: Filter | None = None,
        in_english: str = "",
    ) -> PassageResult:
        """Return the best `k` passages that pass the filter, possibly several of a document.

        `in_english` is the query in English words, if it is in another language: passages are found by
        its meaning, and by its words or those of the query. Hits have no highlights; `highlighted` adds
        them.
        """
        check_search(query, k, 0, mode)
        clock = Clock()
        prepared = self._prepare(in_english or query, mode, filter, clock, with_evidence=False)
        if in_english and mode != "dense":
            prepared.weights = self.weights(query, in_english)
        ranking = self.retrievers.rank(prepared, k, clock, distinct=False)
        retrieved = self._hits.retrieved(prepared, ranking, 0, k)
        clock.lap("fetch")
        return PassageResult(retrieved, clock.laps)

    def related(self, document_id: str, k: int = 10) -> SearchResult:
        """Return the `k` documents nearest in meaning to a document, without itself. Raises NotFound.

        A document is as near as its nearest passage is to the mean of the given document's passages;
        tests and the like count less, as in a search. In a corpus with code, documentation and
        configuration, only documents of the same content are returned. Hits have no highlights.
        """
        check_k(k)
        clock = Clock()
        row = self._documents.rows_of([document_id]).get(document_id)
        if row is None:
            raise no_document(document_id)

        own = self._documents.passages_of(np.array([row]))
        [stored] = self._documents.fetch(own[:1].tolist())
        content = stored.document.fields.get("content")
        same_content: Filter | None = (
            {"content": str(content)} if content and "content" in self.field_names else None
        )

        allowed, documents = self._allowed(same_content)
        query = Query("", "", "dense", allowed, documents)
        query.vector = self._dense.mean(own)
        query.excluded = own

        ranking = self.retrievers.rank(query, k, clock)
        retrieved = self._hits.retrieved(query, ranking, 0, k)
        clock.lap("fetch")
        hits = tuple(each.hit for each in retrieved)
        return SearchResult(hits, documents - 1, clock.laps)

    def document_at(self, path: str, line: int) -> Document:
        """Return the innermost document at a line of a file, counted from 1.

        A line that no document has, such as one of a comment, is of the document that it stands around.
        Raises NotFound, which lists the file's nearest documents.
        """
        documents = self._documents_of(path)
        document = innermost(documents, line)
        document = document or next((each for each in documents if _is_around(each, line)), None)
        if document is not None:
            return document

        nearest = sorted(documents, key=lambda document: distance(document, line))[:_NEAREST_SHOWN]
        listed = ", ".join(
            # Sections of a notebook have no lines.
            f"{document.title[:80]} ({document.location.start_line or f'id {document.id[:200]}'})"
            for document in nearest
        )
        unread = None if documents else self.listing.unread(path)
        detail = unread or (f"nearest are {listed}" if listed else "that file has none")
        raise NotFound(
            f"There is no document at line {line} of {path[:200]!r}; {detail}.", field="id"
        )

    def _documents_of(self, path: str) -> list[Document]:
        """Return the documents of a file, in the order of their rows."""
        if "path" not in self.field_names:
            return []
        stored = self._documents.fetch(self._documents.rows_where({"path": path}).tolist())
        return list({passage.document.id: passage.document for passage in stored}.values())

    def weights(self, query: str, in_english: str = "") -> Mapping[str, float]:
        """Map each distinct token of the query to its idf.

        With `in_english`, these are the tokens of the query in English words, and those of the query as
        it is written that passages have: a score is a share of what all can add.
        """
        written = lexical_query(query, self.manifest.kind)
        if not in_english:
            return self._lexical.weights(written)
        english = lexical_query(in_english, self.manifest.kind)
        return {
            **self._lexical.weights(written, with_absent=False),
            **self._lexical.weights(english),
        }

    def highlighted(self, query: str, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Return the hits with highlights where their texts match the query's words."""
        return self._hits.highlighted(query, hits)

    # ---- retrieval

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

        named = self._names.named(query.strip()) if mode != "dense" else NO_ROWS
        written = without_frames(query) if len(named) and self._has_model else query
        text = written if len(named) else self._corrected(query)
        prepared = Query(text, written, mode, allowed, documents, pattern_in(filter))
        prepared.named = self._passing(named, allowed)
        prepared.has_evidence = with_evidence and self._has_model and mode != "dense"
        clock.lap("lexical")

        english = self._in_english(text)
        if mode != "lexical":
            self._add_vector(prepared, english, vector if written == query else None)
        clock.lap("encode")
        if prepared.vector is not None and self._log is not None:
            prepared.nearness = self._log.nearness(prepared.vector)
            clock.lap("dense")
        if mode != "dense":
            self._add_words(prepared, english)
        clock.lap("lexical")
        return prepared

    def _add_vector(self, query: Query, english: str, vector: Vectors | None) -> None:
        """Add what the dense retriever searches for; `vector` may be that of the query as written.

        `english` is the query in English words, if it is in another language.
        """
        # An encoder of several languages reads the text as it is.
        reads_english = self.encoder.architecture == "transformer"
        query.read = (english if reads_english else "") or query.text
        if vector is None or query.read != query.written:
            vector = self.encoder.encode([query.read], role="query")[0]
        query.vector = vector
        may_have_feedback = query.mode == "hybrid" and self.manifest.kind in feedback.KINDS
        query.has_feedback = may_have_feedback and bool(vector.any())

    def _add_words(self, query: Query, english: str) -> None:
        """Add what the lexical retriever searches for, and what the words of the query mean."""
        query.weights = self.weights(query.text, english)
        query.has_code = self.manifest.kind == "product" and self._names.has_code(query.text)
        if query.has_evidence:
            query.defining = self._passing(self._names.defining(query.written), query.allowed)
            query.relation = self._names.relation(query.written)
        if query.relation is not None:
            query.weights = self.weights(query.relation.symbol)

    def _in_english(self, query: str) -> str:
        """Return a query to English passages in English; nothing if it is, or if the catalogue has its words."""
        english = in_english(self.encoder, query) if self._lexical.language is ENGLISH else ""
        if not english or self.manifest.kind == "code":
            return english

        # Names of brands and kinds of goods may be words of another language.
        if self.manifest.kind == "product":
            words = self._lexical.weights(lexical_query(query, "product"), with_absent=False)
            if words.keys() == self.weights(query).keys():
                return ""
        return english if self._are_english else ""

    @cached_property
    def _are_english(self) -> bool:
        """Whether most passages are in English, by a sample of them."""
        rows = range(0, self.manifest.passages, -(-self.manifest.passages // _SAMPLED_PASSAGES))
        texts = [render(each.document, each.passage) for each in self._documents.fetch(list(rows))]
        others = [text for text in texts if in_english(self.encoder, text)]
        return 2 * len(others) <= len(texts)

    def _passing(self, rows: Rows, allowed: Allowed | None) -> Rows:
        """Return those of the rows that a filter allows."""
        return rows[self._documents.is_allowed(rows, allowed)]

    def _corrected(self, query: str) -> str:
        """Return the query to search for: corrected if for products; elsewhere, unknown words may be names."""
        if self.manifest.kind != "product":
            return query
        text = self._lexical.corrected(query)
        if text == query:
            return query
        return as_written(text, query, self._passage_with, self._lexical.language)

    def _passage_with(self, token: str) -> str:
        """Return the passage that has a token and is ranked first for it, or an empty text."""
        rows, _ = self._lexical.search({token: 1.0}, 1)
        stored = self._documents.fetch(rows.tolist())
        return "".join(f"{each.document.title}\n{each.document.body}" for each in stored)

    def _allowed(self, filter: Filter | None) -> tuple[Allowed | None, int]:
        """Return what a filter allows, and how many documents that is."""
        if not filter:
            return self._documents.everything, self.manifest.documents
        key = repr(sorted(filter.items(), key=lambda item: item[0]))
        cached = self._filters.get(key)
        self.filter_lookups.count(hits=cached is not None, misses=cached is None)
        if cached is not None:
            return cached

        check_types(on_fields(filter), self._documents.field_types)
        any_case = self.manifest.kind in ANY_CASE
        allowed = self._documents.allowed(folded(filter) if any_case else filter)
        counted = allowed, self._documents.count(allowed)
        self._filters.put(key, counted)
        return counted

    def has(self, filter: Filter) -> bool:
        """Return whether any document passes a filter."""
        return self._allowed(filter)[1] > 0

    def filter_warning(self, ranked: Ranked, filter: Filter | None) -> str | None:
        """Return a warning if no document passes the filter: the first condition that none fulfils."""
        if not filter or ranked.query.document_count:
            return None

        for name, condition in on_fields(filter).items():
            if not self._allowed({name: condition})[1]:
                texts = self._documents.texts(name, _COMPARED_TEXTS)
                return no_document_passes(name, condition, texts)
        if pattern_in(filter) is not None:
            return "No line of what passes the rest of the filter matches the regular expression."
        return "No document fulfils all conditions of the filter, though some fulfil each of them."


def _is_around(document: Document, line: int) -> bool:
    return any(0 <= line - first <= lines.count("\n") for first, lines in document.around)


def check_encoder(manifest: Manifest, encoder: TextEncoder) -> None:
    """Raise EncoderMismatch if a build was made with another encoder."""
    if manifest.encoder["fingerprint"] != encoder.fingerprint:
        raise EncoderMismatch(
            f"Corpus {manifest.name!r} was built with encoder {manifest.encoder['name']!r} "
            f"({manifest.encoder['fingerprint'][:12]}), but {encoder.name!r} "
            f"({encoder.fingerprint[:12]}) is loaded; set PURLIN_ENCODER to that one, or build the corpus again."
        )
