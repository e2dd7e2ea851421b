"""Tell who searched the code of a directory that its configuration answers better."""

from __future__ import annotations

from collections.abc import Sequence

from purlin.index.file_filters import content_filter, with_language_names
from purlin.index.records import Hit, Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.store.filters import Filter


def better_configuration(
    corpus: Corpus,
    query: str,
    code_hits: Sequence[Hit],
    filter: Filter | None = None,
    mode: Mode = "hybrid",
) -> Hit | None:
    """Return the best hit in configuration, if it scores more than all hits in code.

    There is none where a reranker has scored these, as its scores cannot be compared with others.
    """
    if any("rerank" in hit.scores for hit in code_hits):
        return None
    conditions = content_filter(corpus.field_names, "config", with_language_names(filter))
    hits = corpus.search(query, k=1, mode=mode, filter=conditions).hits
    best = max((hit.score for hit in code_hits), default=0.0)
    return hits[0] if hits and hits[0].score > best else None
