"""Limits of a search: the length of the query, the number of hits, and the depth of the page."""

from __future__ import annotations

from purlin.index.errors import InvalidInput
from purlin.index.records import is_text
from purlin.index.search.store.filters import Filter, pattern_in

MAX_QUERY_CHARS = 4096
MAX_K = 1000
# Largest offset + k.
MAX_RANK = 10_000


def check_query(query: str, field: str = "query") -> None:
    """Raise InvalidInput with this `field` for a query that is empty, too long or not valid Unicode."""
    if not query.strip():
        raise InvalidInput(f"{field} is empty; give it at least one word.", field=field)

    if len(query) > MAX_QUERY_CHARS:
        raise InvalidInput(
            f"{field} has {len(query):,} characters; at most {MAX_QUERY_CHARS:,} are allowed: "
            "shorten it.",
            field=field,
        )

    if not is_text(query):
        raise InvalidInput(f"{field} is not valid Unicode; send UTF-8.", field=field)


def check_k(k: int) -> None:
    """Raise InvalidInput for a number of hits beyond the limits."""
    if not 1 <= k <= MAX_K:
        raise InvalidInput(f"k is {k}; it must be 1 to {MAX_K}.", field="k")


def check_page(k: int, offset: int) -> None:
    """Raise InvalidInput for a page beyond the limits."""
    check_k(k)
    if not 0 <= offset <= MAX_RANK - k:
        raise InvalidInput(
            f"offset is {offset}; it must be at least 0, and offset + k at most {MAX_RANK:,}.",
            field="offset",
        )


def check_search(query: str, k: int, offset: int, mode: str, filter: Filter | None = None) -> None:
    """Raise InvalidInput for the first argument of a search that is not valid.

    Where the filter has a regular expression, the query may be empty.
    """
    if query.strip() or pattern_in(filter) is None:
        check_query(query)
    check_page(k, offset)
    if mode not in ("hybrid", "dense", "lexical"):
        raise InvalidInput(f"mode is {mode[:40]!r}; use hybrid, dense or lexical.", field="mode")
