"""Search of several corpora at once: their rankings merged by score.

A score is in 0-1 and the same function of cosine and BM25 share in every corpus, so hits of
different corpora can be compared, as far as one encoder made their vectors and their kinds weigh
the two retrievers alike (see docs/limits.md).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import ENSEMBLE_ENCODER, TRANSFORMER_ENCODER, Vectors
from purlin.index.errors import InvalidInput, WrongType
from purlin.index.records import Hit, Mode, SearchedCorpus
from purlin.index.search.arrays import NO_SCORES
from purlin.index.search.contracts import PassageReranker
from purlin.index.search.corpus import RERANK_DEPTH, RERANK_SECONDS, Corpus, SearchResult
from purlin.index.search.limits import check_search
from purlin.index.search.ranking.ranked import Ranked
from purlin.index.search.store.filters import Filter, on_fields, only_excludes

MAX_CORPORA = 16
_LISTED = 30  # field names in an error
_EXPLAINED = 3  # corpora in a warning of what passes no document
# Their cosines are of one scale, see docs/decisions.md.
_ONE_SCALE = {ENSEMBLE_ENCODER.name, TRANSFORMER_ENCODER.name}


def search_corpora(
    corpora: Sequence[Corpus],
    query: str,
    *,
    k: int = 10,
    offset: int = 0,
    mode: Mode = "hybrid",
    filter: Filter | None = None,
    explain: bool = False,
    rerankers: Sequence[PassageReranker | None] = (),
) -> SearchResult:
    """Return hits offset + 1 to offset + k over all corpora, best first.

    Hits of equal score are in the order of `corpora`. Pages are exact: each corpus is ranked as
    deep as the page could reach into it. A corpus without a field of `filter` has no hits, unless
    the condition only excludes. The query is encoded once per encoder. With `rerankers`, one for
    each corpus or None, the first RERANK_DEPTH hits over all corpora are scored again by those of
    their corpora.

    Raises InvalidInput for no corpus or more than MAX_CORPORA, and for a field that no corpus has.
    """
    check_search(query, k, offset, mode, filter)
    _check_corpora(corpora, filter)

    reranks = any(rerankers)
    needed = max(offset + k, RERANK_DEPTH) if reranks else offset + k
    rankings = _rankings(corpora, query, needed, mode, filter)
    if reranks:
        rankings = _reranked(corpora, rankings, rerankers)

    started = time.perf_counter()
    hits = _page(corpora, rankings, offset, k, explain=explain)
    timings = _summed_timings(rankings)
    timings["fetch"] += (time.perf_counter() - started) * 1000
    searched = tuple(map(_searched, corpora, rankings))
    total = sum(each.total for each in searched)
    warnings = [_warning(corpora, mode), *(ranked.warning for ranked in rankings if ranked)]
    warnings.append(_filter_warning(corpora, rankings, filter))
    warning = " ".join(text for text in warnings if text) or None
    related = [ranked.related for ranked in rankings if ranked and ranked.related is not None]
    return SearchResult(
        hits,
        total,
        timings,
        warning,
        corpora=searched,
        related=sum(related) if related else None,
    )


def _check_corpora(corpora: Sequence[Corpus], filter: Filter | None) -> None:
    if not 1 <= len(corpora) <= MAX_CORPORA:
        raise InvalidInput(
            f"One search takes 1 to {MAX_CORPORA} corpora, not {len(corpora)}: name those to search.",
            field="corpus",
        )

    field_names = {name for corpus in corpora for name in corpus.field_names}
    names = on_fields(filter or {})
    if unknown := next((name for name in names if name not in field_names), None):
        listed = ", ".join(sorted(field_names)[:_LISTED]) or "none"
        raise InvalidInput(
            f"None of these corpora has a filterable field {unknown[:80]!r}. They have: {listed}.",
            field=f"filter.{unknown[:80]}",
        )


def _filter_warning(
    corpora: Sequence[Corpus], rankings: Sequence[Ranked | None], filter: Filter | None
) -> str | None:
    """Return a warning if no document of any corpus passes the filter, and what each one lacks."""
    if not filter or any(ranked and ranked.query.document_count for ranked in rankings):
        return None

    lacking = {
        corpus.name: warning
        for corpus, ranked in zip(corpora, rankings, strict=True)
        if ranked
        and (warning := corpus.filter_warning(ranked, _fitting(filter, set(corpus.field_names))))
    }
    if len(corpora) == 1:
        return next(iter(lacking.values()), None)
    details = [f"{name}: {warning}" for name, warning in islice(lacking.items(), _EXPLAINED)]
    return " ".join(["No document of these corpora passes the filter.", *details])


def _fitting(filter: Filter | None, names: Set[str]) -> Filter | None:
    """Return the part of a filter that concerns a corpus with these fields; None if nothing can pass.

    Documents without a field pass a condition that only excludes.
    """
    if filter is None:
        return None
    conditions = on_fields(filter)
    missing = [name for name in conditions if name not in names]
    if not all(only_excludes(conditions[name]) for name in missing):
        return None
    return {name: condition for name, condition in filter.items() if name not in missing}


def _rankings(
    corpora: Sequence[Corpus], query: str, depth: int, mode: Mode, filter: Filter | None
) -> list[Ranked | None]:
    """Rank each corpus, encoding the query once per encoder; None where the filter does not fit.

    Raises WrongType if the filter's values have the wrong types for every corpus.
    """
    refused: WrongType | None = None
    vectors: dict[str, Vectors | None] = {}
    rankings: list[Ranked | None] = []
    for corpus in corpora:
        own_filter = _fitting(filter, set(corpus.field_names))
        if filter and own_filter is None:
            rankings.append(None)
            continue

        encoder = corpus.encoder.fingerprint
        try:
            ranked = corpus.rank(
                query, depth, mode=mode, filter=own_filter, vector=vectors.get(encoder)
            )
        except WrongType as error:
            rankings.append(None)
            refused = refused or error
            continue
        # The vector of a corrected query, of a trace's message or of a translation is not that of the query.
        if ranked.query.read == query:
            vectors[encoder] = ranked.query.vector
        rankings.append(ranked)
    if refused and not any(rankings):
        raise refused
    return rankings


def _summed_timings(rankings: Sequence[Ranked | None]) -> defaultdict[str, float]:
    timings: defaultdict[str, float] = defaultdict(float)
    for ranked in filter(None, rankings):
        for step, took_ms in ranked.timings_ms.items():
            timings[step] += took_ms
    return timings


def _reranked(
    corpora: Sequence[Corpus],
    rankings: Sequence[Ranked | None],
    rerankers: Sequence[PassageReranker | None],
) -> list[Ranked | None]:
    """Score the first RERANK_DEPTH hits over all corpora again, each with its own corpus's reranker."""
    numbers = _merged(rankings, RERANK_DEPTH)
    counts = np.bincount(numbers, minlength=len(corpora)).tolist()
    deadline = time.monotonic() + RERANK_SECONDS

    return [
        corpus.reranked(ranked, count, reranker, deadline=deadline)
        if ranked and reranker and count
        else ranked
        for corpus, ranked, reranker, count in zip(
            corpora, rankings, rerankers, counts, strict=True
        )
    ]


def _merged(rankings: Sequence[Ranked | None], depth: int) -> NDArray[np.int64]:
    """Return for each of the first `depth` hits, best first, the number of its corpus."""
    scores = [ranked.scores[:depth] if ranked else NO_SCORES for ranked in rankings]
    numbers = np.repeat(np.arange(len(rankings)), [len(each) for each in scores])
    # Stable, so that ties stay in the order of the corpora, and each ranking in its own order.
    return numbers[np.argsort(-np.concatenate(scores), kind="stable")][:depth]


def _page(
    corpora: Sequence[Corpus],
    rankings: Sequence[Ranked | None],
    offset: int,
    k: int,
    *,
    explain: bool,
) -> tuple[Hit, ...]:
    """Merge the rankings, and read the hits of the page alone."""
    numbers = _merged(rankings, offset + k)
    before = np.bincount(numbers[:offset], minlength=len(corpora))
    page = numbers[offset:]
    counts = np.bincount(page, minlength=len(corpora))

    hits_of = [
        iter(corpus.hits(ranked, start, start + count, explain=explain) if ranked else ())
        for corpus, ranked, start, count in zip(
            corpora, rankings, before.tolist(), counts.tolist(), strict=True
        )
    ]
    return tuple(
        replace(next(hits_of[number]), rank=rank, corpus=corpora[number].name)
        for rank, number in enumerate(page.tolist(), offset + 1)
    )


def _searched(corpus: Corpus, ranked: Ranked | None) -> SearchedCorpus:
    total = ranked.total if ranked else 0
    reranker = ranked.reranker if ranked else None
    corrected = ranked.corrected if ranked else None
    return SearchedCorpus(
        corpus.name, corpus.build, corpus.encoder.name, total, reranker, corrected
    )


def _warning(corpora: Sequence[Corpus], mode: Mode) -> str | None:
    encoders = dict.fromkeys(corpus.encoder.name for corpus in corpora)
    if len(encoders) == 1 or mode == "lexical" or encoders.keys() <= _ONE_SCALE:
        return None
    return (
        f"The corpora have vectors of different encoders ({', '.join(encoders)}), whose cosines "
        "differ in scale: hits of one corpus are ranked as usual, those of different ones only roughly."
    )
