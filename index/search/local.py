"""The documents of a build on this machine, by the contract that a corpus uses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from purlin.index.search.contracts import Details, Rows
from purlin.index.search.store.documents import Documents
from purlin.index.search.store.filters import Filter

SECONDARY = ("test", "example", "stub", "vendored", "generated", "minified")

Mask = NDArray[np.bool_]


class LocalPassages:
    """The passages of a build's segments: the contract `PassageStore`, where `Allowed` is a mask.

    `order` (passages,) breaks ties as a build of one segment would, and is -1 for rows that were
    removed since their segment was written. None means that all rows are in order and none was removed.
    """

    def __init__(self, documents: Documents, order: NDArray[np.int32] | None) -> None:
        self._documents = documents
        self._order = order
        self.everything = None if order is None else order >= 0

        # What the documents of all segments answer as the contract wants it.
        self.field_names, self.field_types = documents.field_names, documents.field_types
        self.has_files = documents.has_files
        self.rows_of, self.rows_named = documents.rows_of, documents.rows_named
        self.existing_paths = documents.existing_paths
        self.document, self.fetch = documents.document, documents.fetch
        self.close = documents.close

        # Masks of documents: every search looks at a few of their rows.
        self._secondary = self._having("role", SECONDARY)
        self._modules = self._having("kind", ("module",))

    def _having(self, field: str, values: Sequence[str]) -> Mask | None:
        """Mask (documents,) of those with one of the values; None if none has the field."""
        if field not in self.field_names:
            return None
        return self._documents.allowed({field: values})

    # ---- restrictions

    def allowed(self, conditions: Filter) -> Mask:
        """Return the mask (passages,) of those whose documents pass the filter."""
        mask: Mask = self._documents.allowed(conditions)[self._documents.document_of]
        return mask

    def count(self, allowed: Mask) -> int:
        """Count the documents that have an allowed passage."""
        documents = self._documents.document_of[allowed]
        # The passages of a document follow each other.
        return int(np.count_nonzero(np.diff(documents, prepend=-1)))

    def is_allowed(self, rows: Rows, allowed: Mask | None) -> Mask:
        """Tell of each passage (n,) whether it is allowed."""
        return np.ones(len(rows), dtype=np.bool_) if allowed is None else allowed[rows]

    # ---- rows

    def document_of(self, rows: Rows) -> Rows:
        """Return the document (n,) of each passage."""
        documents: Rows = self._documents.document_of[rows].astype(np.int64)
        return documents

    def passages_of(self, documents: Rows) -> Rows:
        """Return the rows of all passages of these documents, in ascending order."""
        document_of = self._documents.document_of
        # Of the same type, or all of `document_of` would be converted.
        ordered = np.sort(documents).astype(document_of.dtype)
        starts, ends = (document_of.searchsorted(ordered, side) for side in ("left", "right"))
        counts = ends - starts

        # Each document's first row, and how many rows of it came before.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows: Rows = np.repeat(starts, counts) + within
        return rows

    def order(self, rows: Rows) -> Rows:
        """Return numbers (n,) that sort passages of equal score."""
        return rows if self._order is None else self._order[rows].astype(np.int64)

    def rows_where(self, conditions: Filter, limit: int | None = None) -> Rows:
        """Return passages that pass a filter, in ascending order; at most the first `limit`."""
        return self.passages_of(np.flatnonzero(self._documents.allowed(conditions))[:limit])[:limit]

    # ---- what documents are

    def secondary(self, documents: Rows) -> Mask:
        """Tell of each document (n,) whether its role counts less, as that of a test does."""
        return _among(self._secondary, documents)

    def details(self, documents: Rows) -> Details:
        """Return what the ranking of a repository needs to know of these documents."""
        heads = self._documents.heads(documents.tolist())
        return Details(
            [head.title for head in heads],
            [head.path for head in heads],
            [head.title_tokens for head in heads],
            [head.path_tokens for head in heads],
            self.secondary(documents),
            _among(self._modules, documents),
        )


def _among(mask: Mask | None, documents: Rows) -> Mask:
    return np.zeros(len(documents), dtype=np.bool_) if mask is None else mask[documents]
