"""Configuration of a directory that answers a search of its code better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from purlin.index.file_filters import content_filter, with_language_names
from purlin.index.records import Content, Hit, Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.store.filters import Filter


def with_better_configuration(
    corpus: Corpus,
    query: str,
    code_hits: Sequence[Hit],
    k: int,
    filter: Filter | None = None,
    mode: Mode = "hybrid",
) -> tuple[Hit, ...]:
    """Return the first `k` hits in code, after the best in configuration if that scores more than all."""
    better = _better_configuration(corpus, query, code_hits, filter, mode)
    hits = code_hits if better is None else [better, *code_hits]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits[:k], 1))


def is_configuration(hit: Hit) -> bool:
    """Whether a hit is in configuration."""
    return hit.fields.get("content") == "config"


def _better_configuration(
    corpus: Corpus, query: str, code_hits: Sequence[Hit], filter: Filter | None, mode: Mode
) -> Hit | None:
    """The best hit in configuration, if it scores more than all hits in code.

    Scores by a reranker cannot be compared with it; then code is searched again without one.
    """
    conditions = with_language_names(filter)

    def search(content: Content) -> Sequence[Hit]:
        searched = content_filter(corpus.field_names, content, conditions)
        return corpus.search(query, k=1, mode=mode, filter=searched, explain=True).hits

    if any("rerank" in hit.scores for hit in code_hits):
        code_hits = search("code")
    best = max((hit.score for hit in code_hits), default=0.0)
    hits = search("config")
    return hits[0] if hits and hits[0].score > best else None
