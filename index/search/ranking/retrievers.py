"""The dense and the lexical retriever of a build together: candidates of both, ranked by one score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from purlin.index.distinct import sorted_distinct
from purlin.index.encoder import Vectors
from purlin.index.records import Document, Mode
from purlin.index.search.arrays import NO_ROWS, NO_SCORES, LexicalScores, Rows
from purlin.index.search.contracts import DenseRetriever, DocumentStore, LexicalRetriever
from purlin.index.search.ranking import accessories, feedback, quotes, repository
from purlin.index.search.ranking.defaults import SET, sets_default, setting_in
from purlin.index.search.ranking.fusion import DENSE, LEXICAL, WORDS_LEAD, Fusion
from purlin.index.search.ranking.kinds import CommonRows, kind_in
from purlin.index.search.ranking.lengths import IN_FILES, Short
from purlin.index.search.ranking.options import DECLARED, asks_for_options, declares_options
from purlin.index.search.ranking.query_log import blend
from purlin.index.search.ranking.ranked import Clock, Query, Ranking
from purlin.index.search.ranking.roles import is_test
from purlin.index.search.ranking.uses import asks_for_tests

_FIRST_DEPTH = 200
# Factor on the score of test, vendored, generated and minified code.
_SECONDARY_PRIOR = 0.9


class Retrievers:
    """Ranks the passages of a build for a query."""

    def __init__(
        self,
        dense: DenseRetriever,
        lexical: LexicalRetriever,
        documents: DocumentStore,
        *,
        hybrid: Fusion,
        demote: bool,
        short: Short | None,
    ) -> None:
        """`hybrid` fuses the scores in hybrid mode.

        With `demote`, tests and the like score lower; `short` tells what short passages keep of their
        scores, unless these are ranked by the model of a repository.
        """
        self.hybrid = hybrid
        self._dense = dense
        self._lexical = lexical
        self._documents = documents
        self._short = short
        self._common_rows = CommonRows(documents, lexical)
        self._has_roles = demote and "role" in documents.field_types

    def rank(self, query: Query, needed: int, clock: Clock, *, distinct: bool = True) -> Ranking:
        """Rank at least `needed` documents (passages unless `distinct`), if there are so many."""
        if not (query.has_evidence or query.has_feedback):
            return self._rank_by_text(query, needed, clock, distinct=distinct)

        # The same documents for every page, so that pages are consistent.
        pool, bound = self._best(query, _FIRST_DEPTH, clock, distinct=True)
        if query.has_evidence:
            first = pool.take(slice(repository.DEPTH))
            common = self._common(query, first)
            first = self._with_evidence(query, self._with_rows(query, first, common, clock), common)
            clock.lap("rerank")
        else:
            first = self._with_feedback(query, pool.take(slice(feedback.DEPTH)))
            clock.lap("dense")
            first = self._accessories_last(query, first)
            clock.lap("rerank")
        if len(first.rows) >= needed or (bound is None and len(first.rows) == len(pool.rows)):
            return first

        others = self._rank_by_text(query, needed, clock, distinct=True)
        document_of = self._documents.document_of
        ranked = np.isin(document_of(others.rows), document_of(first.rows))
        return first.then(others.take(~ranked))

    def listed(self, query: Query) -> Ranking:
        """Return the documents that a query without words can return, in the order of the sources.

        Those whose role counts less are the last ones.
        """
        rows = self._documents.first_allowed(query.allowed)
        scores = self.priors(rows, query.mode)
        nothing = np.zeros(len(rows), dtype=np.float32)
        unknown = np.full(len(rows), np.nan, dtype=np.float32)
        ranking = Ranking(rows, scores, scores, nothing, nothing, unknown, nothing.astype(np.bool_))
        return ranking.by(scores)

    def _rank_by_text(self, query: Query, needed: int, clock: Clock, *, distinct: bool) -> Ranking:
        """Rank by the scores of the retrievers.

        Fetches more candidates until no other row can enter the first `needed`, as in the threshold
        algorithm.
        """
        depth = max(_FIRST_DEPTH, 2 * needed)

        while True:
            ranking, bound = self._best(query, depth, clock, distinct=distinct)
            last = ranking.scores[needed - 1] if len(ranking.rows) >= needed else -1.0
            if bound is None or last > bound:
                return ranking
            depth *= 4

    def _common(self, query: Query, ranking: Ranking) -> Mapping[int, float]:
        """Map rows to how much they count for what a query wants one more of; empty for another query.

        Options of a command line are declared rather than listed.
        """
        kind = kind_in(query.text)
        if kind is None or query.relation is not None or asks_for_options(query.text):
            return {}
        return self._common_rows.levels(kind, ranking.rows, query.allowed)

    def _with_rows(
        self, query: Query, ranking: Ranking, rows: Iterable[int], clock: Clock
    ) -> Ranking:
        """Add the rows whose documents a ranking lacks, with their own scores."""
        document_of = self._documents.document_of
        others = np.array(sorted(rows), dtype=np.int64)
        others = others[~np.isin(document_of(others), document_of(ranking.rows))]
        if not len(others):
            return ranking

        all_rows = sorted_distinct(np.concatenate([ranking.rows, others]))
        return self._score(
            query,
            all_rows,
            _aligned(all_rows, ranking.rows, ranking.cosines),
            _aligned(all_rows, ranking.rows, ranking.lexical),
            clock,
            distinct=True,
        )

    def _with_evidence(
        self, query: Query, ranking: Ranking, common: Mapping[int, float]
    ) -> Ranking:
        """Rank these rows by the model of a repository.

        `common` has rows of what the query wants one more of, with how much each counts.
        """
        details = self._documents.details(self._documents.document_of(ranking.rows))
        wants_tests = self._has_roles and asks_for_tests(query.text)
        wants_options = query.relation is None and asks_for_options(query.text)
        setting = None if query.relation else setting_in(query.text)
        is_read = wants_tests or wants_options or setting is not None or query.relation is not None
        documents = self._read(ranking.rows) if is_read else []
        if wants_tests:
            is_other = [not is_test(document) for document in documents]
            details = replace(details, secondary=np.array(is_other, dtype=np.bool_))
        elif not self._has_roles:
            details = replace(details, secondary=np.zeros_like(details.secondary))

        if wants_options:
            declaring = [DECLARED * declares_options(document) for document in documents]
            quoted = np.array(declaring, dtype=np.float32)
        else:
            quoted = self._quoting(query, ranking, details.titles)
        if setting is not None:
            defaults = [SET * sets_default(setting, document) for document in documents]
            quoted = np.maximum(quoted, np.array(defaults, dtype=np.float32))
        shared = self._shared(ranking, common)
        # What all tests are made of is wanted as well as what they test.
        details = replace(details, secondary=details.secondary & (shared == 0.0))

        evidence = repository.weigh(
            query.relation.symbol if query.relation else query.text,
            query.weights,
            details,
            ranking.text_scores * IN_FILES.factors(self._documents.lengths(ranking.rows)),
            np.isin(ranking.rows, query.named),
            self._documents.existing_paths,
            query.relation.holds(documents) if query.relation else None,
            np.maximum(quoted, shared),
        )

        order = evidence.order()
        scores = evidence.scores()[order]
        return replace(ranking.take(order), scores=scores, evidence=evidence.take(order))

    def _shared(self, ranking: Ranking, common: Mapping[int, float]) -> Vectors:
        """Return how much the document of each row counts, by the rows that do."""
        document_of = self._documents.document_of
        documents = document_of(np.array(list(common), dtype=np.int64)).tolist()
        levels = dict(zip(documents, common.values(), strict=True))
        shared = [levels.get(document, 0.0) for document in document_of(ranking.rows).tolist()]
        return np.array(shared, dtype=np.float32)

    def _quoting(self, query: Query, ranking: Ranking, titles: Sequence[str]) -> Vectors:
        """Return how much of the query each row has word for word, 0 if the query quotes nothing."""
        quoted = np.zeros(len(ranking.rows), dtype=np.float32)
        if query.relation is not None:
            return quoted
        share = quotes.quotes(query.text, query.weights, titles)
        if share is None:
            return quoted

        first = np.argsort(-ranking.lexical, kind="stable")[: quotes.DEPTH]
        needed = quotes.LEAST_WEIGHT * sum(query.weights.values())
        terms = self._lexical.explain(query.weights, ranking.rows[first])
        weights = [sum(query.weights[token] for token in parts) for parts in terms]
        first = first[np.array(weights, dtype=np.float64) >= needed]
        quoted[first] = [share(document) for document in self._read(ranking.rows[first])]
        return quoted

    def _read(self, rows: Rows) -> list[Document]:
        return [stored.document for stored in self._documents.fetch(rows.tolist())]

    def _with_feedback(self, query: Query, ranking: Ranking) -> Ranking:
        """Rank these rows also by how similar they are to the first of them."""
        if len(ranking.rows) < feedback.DEPTH:
            return ranking
        center = self._dense.mean(ranking.rows[: feedback.FIRST])
        similarities = self._dense.scores(center, ranking.rows)
        cosines = feedback.mean_cosines(ranking.cosines, similarities)
        texts = self._text_scores(query, ranking.rows, cosines, ranking.lexical)
        scores = np.where(np.isin(ranking.rows, query.named), ranking.scores, texts)
        return ranking.by(scores, text_scores=texts, similarities=similarities)

    def _accessories_last(self, query: Query, ranking: Ranking) -> Ranking:
        """Rank accessories after the products that they go with; those that are named stay."""
        is_accessory = np.zeros(len(ranking.rows), dtype=np.bool_)
        others = (ranking.lexical > 0) & ~np.isin(ranking.rows, query.named)
        is_accessory[others] = [
            accessories.is_accessory(query.text, document, self._lexical.language)
            for document in self._read(ranking.rows[others])
        ]

        scores = np.where(
            is_accessory, ranking.scores * np.float32(accessories.FACTOR), ranking.scores
        )
        return ranking.by(scores, accessories=is_accessory)

    def _best(
        self, query: Query, depth: int, clock: Clock, *, distinct: bool
    ) -> tuple[Ranking, float | None]:
        """Rank the rows that are named or among the first `depth` of a retriever.

        Also returns the highest score that any other row could get, or None if there is no other. With
        `distinct`, only the best row of each document is kept.
        """
        rows = [query.exact]
        dense_rows = lexical_rows = NO_ROWS
        cosines = shares = NO_SCORES
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

        fusion = self.fusion(query)
        bound = fusion.fuse(
            np.array([least_cosine], np.float32), np.array([least_share], np.float32)
        )
        if query.nearness is not None:
            documents, nearness = query.nearness.nearest(depth)
            near = self._documents.passages_of(documents)
            rows.append(near[self._documents.is_allowed(near, query.allowed)])
            limit = nearness[-1:] if len(nearness) == depth else np.zeros(1, dtype=np.float32)
            bound = blend(bound, limit)

        all_rows = sorted_distinct(np.concatenate([*rows, dense_rows, lexical_rows]))
        ranking = self._score(
            query,
            all_rows,
            _aligned(all_rows, dense_rows, cosines),
            _aligned(all_rows, lexical_rows, shares),
            clock,
            distinct=distinct,
        )
        clock.lap("fuse")
        return ranking, float(bound[0]) if more else None

    def _lexical_best(self, query: Query, depth: int) -> tuple[Rows, LexicalScores]:
        """Return the first `depth` allowed rows by words: the named ones, then those of the retriever."""
        named = sorted_distinct(query.named)
        rows, shares = self._lexical.search(query.weights, depth, query.allowed)
        others = ~np.isin(rows, named)
        ones = np.ones(len(named), dtype=np.float32)

        return (
            np.concatenate([named, rows[others]])[:depth],
            np.concatenate([ones, shares[others]])[:depth],
        )

    def _score(
        self,
        query: Query,
        rows: Rows,
        cosines: Vectors,
        shares: LexicalScores,
        clock: Clock,
        *,
        distinct: bool,
    ) -> Ranking:
        """Rank ascending rows (n,), whose scores are NaN, and computed here, as far as not known yet."""
        documents = self._documents.document_of(rows)
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
        scores[np.isin(rows, query.exact)] = 1.0

        # Ties go by cosine, then by the row that the passage has in a build of one segment.
        order = np.lexsort((self._documents.order(rows), -cosines, -scores))
        if distinct:
            _, first = np.unique(documents[order], return_index=True)
            order = order[np.sort(first)]
        return Ranking(
            rows[order],
            scores[order],
            texts[order],
            cosines[order],
            shares[order],
            similarities=np.full(len(order), np.nan, dtype=np.float32),
            accessories=np.zeros(len(order), dtype=np.bool_),
        )

    def _text_scores(
        self, query: Query, rows: Rows, cosines: Vectors, shares: LexicalScores
    ) -> Vectors:
        """Return the scores (n,) of these rows by their texts and by earlier queries that led to them."""
        texts = self.fusion(query).fuse(cosines, shares)
        if not query.has_evidence:
            texts = texts * self.priors(rows, query.mode)
        if query.nearness is not None:
            texts = blend(texts, query.nearness.of(self._documents.document_of(rows)))
        return texts

    def priors(self, rows: Rows, mode: Mode) -> Vectors:
        """Return factors (n,) on the scores of these passages by what they are.

        Short ones keep their cosines where these alone count, as of documents like another one.
        """
        priors = np.ones(len(rows), dtype=np.float32)
        if self._has_roles:
            secondary = self._documents.secondary(self._documents.document_of(rows))
            priors[secondary] = _SECONDARY_PRIOR
        if self._short is not None and mode != "dense":
            priors *= self._short.factors(self._documents.lengths(rows))
        return priors

    def fusion(self, query: Query) -> Fusion:
        """Return how the scores of both retrievers become one for this query."""
        if query.mode != "hybrid" or query.vector is None:
            return DENSE if query.mode == "dense" else LEXICAL
        # A static encoder's vector is zero if it knows no word of the query, such as one in Japanese.
        if not query.vector.any():
            return replace(self.hybrid, dense_weight=0.0)
        if query.has_code:
            weight = min(self.hybrid.dense_weight, WORDS_LEAD)
            return replace(self.hybrid, dense_weight=weight)
        return self.hybrid

    def total(self, query: Query) -> int:
        """Count the documents that the query can return."""
        if query.mode != "lexical":
            return query.document_count
        matching = self._lexical.matching(query.weights, query.allowed)
        documents = self._documents.document_of(np.sort(np.concatenate([matching, query.named])))
        # The passages of a document follow each other.
        return int(np.count_nonzero(np.diff(documents, prepend=-1)))


def _aligned(rows: Rows, scored: Rows, scores: Vectors) -> Vectors:
    """Return scores (n,) of ascending `rows`: those of the `scored` among them, NaN for the others."""
    all_scores = np.full(len(rows), np.nan, dtype=np.float32)
    all_scores[np.searchsorted(rows, scored)] = scores
    return all_scores
