"""Hits that have one value of a field together as one hit: a product with its variants.

A ranking is read from its top, so the first hit of each group is its best, and pages of groups fit
together as pages of hits do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from purlin.index.errors import InvalidInput
from purlin.index.records import Hit, Value, Variant
from purlin.index.search.corpus import MAX_K, MAX_RANK, Corpus, SearchResult, check_page
from purlin.index.search.filters import unknown_field
from purlin.index.search.several import SeveralResult

# Hits that are read at least, whatever the page: variants are among these.
READ_FIRST = 200
MAX_VARIANTS = 100

Result = TypeVar("Result", SearchResult, SeveralResult)
Result_co = TypeVar("Result_co", SearchResult, SeveralResult, covariant=True)


class Search(Protocol[Result_co]):
    """A search whose query and filter are chosen already."""

    def __call__(self, *, k: int, offset: int) -> Result_co:
        """Return hits offset + 1 to offset + k."""
        ...


def check_group_by(name: str, corpora: Sequence[Corpus]) -> None:
    """Raise InvalidInput for a field that none of the corpora has."""
    names = sorted({field for corpus in corpora for field in corpus.field_names})
    if name not in names:
        raise InvalidInput(unknown_field(name, names), field="group_by")


def search_grouped(search: Search[Result], group_by: str, *, k: int, offset: int) -> Result:
    """Return groups offset + 1 to offset + k, each as its best hit, whose variants are the others.

    Hits without the field are grouped by their own id, so that a product is among those that name
    it as their parent. `total` counts documents, not groups.
    """
    check_page(k, offset)
    groups: dict[tuple[str | None, str], list[Hit]] = {}
    rank = 0
    while True:
        wanted = min(MAX_K if rank else READ_FIRST, MAX_RANK - rank)
        page = search(k=wanted, offset=rank)
        for hit in page.hits:
            value = hit.fields.get(group_by, hit.document_id)
            groups.setdefault((hit.corpus, str(value)), []).append(hit)

        rank += wanted
        if len(groups) >= offset + k or len(page.hits) < wanted or rank >= MAX_RANK:
            break

    shown = list(groups.values())[offset : offset + k]
    hits = (_as_hit(group, rank) for rank, group in enumerate(shown, offset + 1))
    return replace(page, hits=tuple(hits))


def _as_hit(group: Sequence[Hit], rank: int) -> Hit:
    best, *others = group
    return replace(best, rank=rank, variants=tuple(_variants(best, others[:MAX_VARIANTS])))


def _variants(best: Hit, others: Iterable[Hit]) -> Iterable[Variant]:
    """The other hits of a group, each with what tells it from the best one."""
    for hit in others:
        fields: dict[str, Value] = {
            name: value for name, value in hit.fields.items() if best.fields.get(name) != value
        }
        yield Variant(hit.document_id, hit.score, hit.title, fields, hit.location.url)
