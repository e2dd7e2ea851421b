"""Configuration and documentation of a directory that answer a search of its code as well."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from purlin.index.file_filters import content_filter, with_language_names
from purlin.index.records import Content, Hit, Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.store.filters import Filter

_ON_DOCUMENTATION = re.compile(
    r"\b(?:is|are|was|be|get|gets) (?:it |this |that |they )?documented\b"
    r"|\b(?:docs?|documentation) (?:of|for|on|about|that|which|page)\b|\bupdate (?:its|the) (?:docs|documentation)\b",
    re.IGNORECASE,
)
# What documents changes rather than what there is.
_CHANGES = re.compile(
    r"(?:^|[/_.-])(?:change(?:s|log)|history|news|release(?:s|[_-]?notes)|whats-?new)(?:[/_.-]|$)",
    re.IGNORECASE,
)
# So many hits in documentation are looked through for one that does not document changes.
_DEPTH = 10


def default_content(corpus: Corpus) -> Content:
    """Return what is searched unless a search says so: code, and everything where there is no code."""
    has_code = "content" not in corpus.field_names or corpus.has({"content": "code"})
    return "code" if has_code else "all"


def with_other_content(
    corpus: Corpus,
    query: str,
    code_hits: Sequence[Hit],
    k: int,
    filter: Filter | None = None,
    mode: Mode = "hybrid",
) -> tuple[Hit, ...]:
    """Return the first `k` hits in code, with one in configuration or documentation that answers, too.

    The best in configuration comes first if it scores more than all in code. Where the query wants to know
    where something is documented, the best in documentation is the second hit, if it is half as good as
    the first one.
    """
    conditions = with_language_names(filter)

    def search(content: Content, k: int = 1) -> Sequence[Hit]:
        searched = content_filter(corpus.field_names, content, conditions)
        return corpus.search(query, k=k, mode=mode, filter=searched, explain=True).hits

    # Scores by a reranker cannot be compared with those of others.
    compared = search("code") if any("rerank" in hit.scores for hit in code_hits) else code_hits
    best = max((hit.score for hit in compared), default=0.0)
    hits = [*(hit for hit in search("config") if hit.score > best), *code_hits]

    if _ON_DOCUMENTATION.search(query):
        documentation = search("docs", _DEPTH)
        lasting = (
            hit
            for hit in documentation
            if hit.score >= best / 2 and not _CHANGES.search(hit.location.path or "")
        )
        hits[1:1] = list(lasting)[:1]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits[:k], 1))


def is_configuration(hit: Hit) -> bool:
    """Whether a hit is in configuration."""
    return hit.fields.get("content") == "config"
