"""Groups of hits with the same value of a field, each shown as one hit: a product with its variants.

A ranking is read from its top, so the first hit of each group is its best, and pages of groups fit
together like pages of hits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from purlin.index.errors import InvalidInput
from purlin.index.records import Hit, Variant
from purlin.index.search.corpus import Corpus, SearchResult
from purlin.index.search.limits import MAX_K, MAX_RANK, check_page
from purlin.index.search.store.filters import unknown_field

# At least so many hits are read, whatever the page, to find variants among them.
READ_FIRST = 200
MAX_VARIANTS = 100

# The field with the product that a record is a variant of. Catalogues without variants lack it.
PARENT = "parent"


class Search(Protocol):
    """A search for which only the page is left to choose."""

    def __call__(self, *, k: int, offset: int) -> SearchResult:
        """Return hits offset + 1 to offset + k."""


def can_group(name: str, corpora: Sequence[Corpus]) -> bool:
    """Return whether any of the corpora has the field.

    If none has, raises InvalidInput, unless the field is PARENT and one of the corpora is a catalogue.
    """
    names = sorted(set().union(*(corpus.field_names for corpus in corpora)))
    if name in names:
        return True
    if name == PARENT and any(corpus.manifest.kind == "product" for corpus in corpora):
        return False
    raise InvalidInput(unknown_field(name, names), field="group_by")


def without_variants(page: SearchResult) -> SearchResult:
    """Return the page with each hit as a group of its own."""
    return replace(page, hits=tuple(replace(hit, variants=()) for hit in page.hits))


def search_grouped(search: Search, group_by: str, *, k: int, offset: int) -> SearchResult:
    """Return groups offset + 1 to offset + k: the best hit of each, with the others as its variants.

    A hit without the field is grouped by its own id: a product joins the hits that name it as their
    parent. `total` counts documents, not groups. Raises InvalidInput for a page beyond the limits.
    """
    check_page(k, offset)
    groups: dict[tuple[str | None, str], _Group] = {}
    read = 0
    while True:
        count = min(MAX_K if read else READ_FIRST, MAX_RANK - read)
        page = search(k=count, offset=read)
        for hit in page.hits:
            key = hit.corpus, str(hit.fields.get(group_by, hit.document_id))
            if (group := groups.get(key)) is not None:
                group.add(hit)
            else:
                groups[key] = _Group(hit if offset <= len(groups) < offset + k else None)

        read += count
        if len(groups) >= offset + k or len(page.hits) < count or read >= MAX_RANK:
            break

    shown = list(groups.values())[offset : offset + k]
    hits = [
        replace(group.best, rank=rank, variants=tuple(group.variants))
        for rank, group in enumerate(shown, offset + 1)
        if group.best is not None
    ]
    return replace(page, hits=tuple(hits))


@dataclass(slots=True)
class _Group:
    """The best hit of a group and the others; nothing is kept of groups on other pages."""

    best: Hit | None
    variants: list[Variant] = field(default_factory=list)

    def add(self, hit: Hit) -> None:
        """Add a hit as a variant, with the fields that tell it from the best one."""
        if self.best is None or len(self.variants) == MAX_VARIANTS:
            return

        fields = {
            name: value for name, value in hit.fields.items() if self.best.fields.get(name) != value
        }

        self.variants.append(
            Variant(hit.document_id, hit.score, hit.title, fields, hit.location.url)
        )
