"""The documents of a build on this machine, whichever segments they are in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from purlin.index.errors import no_document
from purlin.index.records import Document
from purlin.index.search.arrays import Mask, Rows
from purlin.index.search.contracts import Details
from purlin.index.search.store.document_records import Head
from purlin.index.search.store.filters import (
    FieldType,
    Filter,
    clauses,
    on_fields,
    pattern_in,
)
from purlin.index.search.store.regexps import Scan
from purlin.index.search.store.segment_store import Store, StoredPassage

SECONDARY = ("test", "example", "stub", "vendored", "generated", "minified")

_READ_TOGETHER = 1000  # passages

_Record = TypeVar("_Record")


class Documents:
    """The documents of one or more segments: the contract `DocumentStore`, where `Allowed` is a mask.

    The rows of a segment follow those of the one before it. `order` (passages,) breaks ties as a
    build of one segment would, and is -1 for passages that were removed since their segment was
    written. None means that all are in order and none was removed.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        field_types: Mapping[str, FieldType],
        order: NDArray[np.int32] | None = None,
    ) -> None:
        self.field_types = field_types
        self.stores = stores
        self._order = order
        self._starts = [0, *accumulate(map(len, stores))]
        self._passage_starts = [0, *accumulate(len(store.document_of) for store in stores)]

        # Passage row -> document row.
        self._document_of = (
            stores[0].document_of
            if len(stores) == 1
            else np.concatenate(
                [store.document_of + np.int32(start) for store, start in self._parts()]
            )
        )
        self.everything: Mask | None = None if order is None else order >= 0
        self._live = np.ones(self._starts[-1], dtype=np.bool_)
        if self.everything is not None:
            self._live[:] = False
            self._live[self._document_of[self.everything]] = True

    def __len__(self) -> int:
        """Number of documents, without those that were removed."""
        return int(np.count_nonzero(self._live))

    def _parts(self) -> Iterator[tuple[Store, int]]:
        return zip(self.stores, self._starts, strict=False)

    @cached_property
    def has_files(self) -> bool:
        """Whether any document is part of a file, whose path tells what the document is for."""
        return any(
            bool(self._live[store.by_path.entries()[0] + start].any())
            for store, start in self._parts()
        )

    # Masks of documents: every search looks at a few of their rows.

    @cached_property
    def _secondary(self) -> Mask:
        return self._having("role", SECONDARY)

    @cached_property
    def _modules(self) -> Mask:
        return self._having("kind", ("module",))

    def _having(self, field: str, values: Sequence[str]) -> Mask:
        """Mask (documents,) of those with one of the values."""
        if field not in self.field_types:
            return np.zeros(self._starts[-1], dtype=np.bool_)
        return self.matching({field: values})

    def close(self) -> None:
        """Release the files."""
        for store in self.stores:
            store.close()

    # ---- restrictions

    def matching(self, conditions: Filter) -> Mask:
        """Return the mask (documents,) of those for which every condition holds.

        Raises InvalidInput, which names the field.
        """
        checked = clauses(conditions, self.field_types)
        masks = [store.columns.matching(checked, len(store)) for store in self.stores]
        return np.concatenate(masks) & self._live

    def allowed(self, conditions: Filter) -> Mask:
        """Return the mask (passages,) of those that pass the filter.

        Its fields are those of documents; a regular expression is compared with the lines of each passage, and
        those around its document.
        """
        mask: Mask = self.matching(on_fields(conditions))[self._document_of]
        if (pattern := pattern_in(conditions)) is not None:
            rows = np.flatnonzero(mask)
            mask[rows] = list(map(Scan(pattern).has_line, self._texts(rows)))
        return mask

    def _texts(self, rows: Rows) -> Iterator[str]:
        """Yield the lines of these passages; few of them are in memory at a time."""
        for start in range(0, len(rows), _READ_TOGETHER):
            together = rows[start : start + _READ_TOGETHER].tolist()
            yield from self._read(Store.texts, together, self._passage_starts)

    def first_allowed(self, allowed: Mask) -> Rows:
        """Return the first allowed passage of each document that has one, in the order of the sources."""
        rows = np.flatnonzero(allowed)
        rows = rows[np.argsort(self.order(rows), kind="stable")]
        first: Rows = rows[np.diff(self._document_of[rows], prepend=-1) != 0]
        return first

    def count(self, allowed: Mask) -> int:
        """Count the documents that have an allowed passage."""
        # The passages of a document follow each other.
        return int(np.count_nonzero(np.diff(self._document_of[allowed], prepend=-1)))

    def texts(self, field: str, most: int) -> list[str]:
        """Return some texts of a field, at most `most` of each segment."""
        texts = (
            islice(store.columns.texts(field, self._live[start : start + len(store)]), most)
            for store, start in self._parts()
        )
        return list(dict.fromkeys(chain.from_iterable(texts)))

    def is_allowed(self, rows: Rows, allowed: Mask | None) -> Mask:
        """Tell of each passage (n,) whether it is allowed."""
        return np.ones(len(rows), dtype=np.bool_) if allowed is None else allowed[rows]

    # ---- rows

    def document_of(self, rows: Rows) -> Rows:
        """Return the document (n,) of each passage."""
        documents: Rows = self._document_of[rows].astype(np.int64)
        return documents

    def passages_of(self, documents: Rows) -> Rows:
        """Return the rows of all passages of these documents, in ascending order."""
        # Of the same type, or all of `_document_of` would be converted.
        ordered = np.sort(documents).astype(self._document_of.dtype)
        starts, ends = (self._document_of.searchsorted(ordered, side) for side in ("left", "right"))
        counts = ends - starts

        # Each document's first row, and how many rows of it came before.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows: Rows = np.repeat(starts, counts) + within
        return rows

    @cached_property
    def _lengths(self) -> NDArray[np.int32]:
        # Of a single segment, its own array: a copy would take as much memory again.
        lengths = [store.lengths for store in self.stores]
        return lengths[0] if len(lengths) == 1 else np.concatenate(lengths)

    def lengths(self, rows: Rows) -> Rows:
        """Return the length (n,) of each passage in characters."""
        lengths: Rows = self._lengths[rows].astype(np.int64)
        return lengths

    def order(self, rows: Rows) -> Rows:
        """Return numbers (n,) that sort passages of equal score."""
        return rows if self._order is None else self._order[rows].astype(np.int64)

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Map those of the ids that exist to their documents."""
        return self._live_rows(Store.rows_of, ids)

    def _live_rows(
        self, rows_of: Callable[[Store, list[str]], dict[str, int]], names: Iterable[str]
    ) -> dict[str, int]:
        """Map names to documents by what each segment has of them, except removed ones."""
        listed = list(names)
        return {
            name: row + start
            for store, start in self._parts()
            for name, row in rows_of(store, listed).items()
            if self._live[row + start]
        }

    def rows_named(self, name: str) -> Rows:
        """Return passages of the documents whose id or title is `name`; titles in any case."""
        rows = np.array(
            [
                row + start
                for store, start in zip(self.stores, self._passage_starts, strict=False)
                for row in store.rows_named(name)
            ],
            dtype=np.int64,
        )
        return rows[self.is_allowed(rows, self.everything)]

    def rows_where(self, conditions: Filter, limit: int | None = None) -> Rows:
        """Return passages that pass a filter, in ascending order; at most the first `limit`."""
        return self.passages_of(np.flatnonzero(self.matching(conditions))[:limit])[:limit]

    # ---- what documents are

    def secondary(self, documents: Rows) -> Mask:
        """Tell of each document (n,) whether its role counts less, as that of a test does."""
        return self._secondary[documents]

    def details(self, documents: Rows) -> Details:
        """Return what the ranking of a repository needs to know of these documents."""
        heads = self.heads(documents.tolist())
        return Details(
            [head.title for head in heads],
            [head.path for head in heads],
            [head.title_tokens for head in heads],
            [head.path_tokens for head in heads],
            self.secondary(documents),
            self._modules[documents],
        )

    def heads(self, rows: Sequence[int]) -> list[Head]:
        """What names the documents in these rows."""
        return self._read(Store.heads, rows, self._starts)

    def existing_paths(self, paths: Iterable[str]) -> set[str]:
        """Return those of the paths that some document's file has."""
        return set(self._live_rows(Store.rows_in, paths))

    def document(self, document_id: str) -> Document:
        """Return the document with this id, whole. Raises NotFound."""
        rows = list(self.rows_of([document_id]).values())[:1]
        if not rows:
            raise no_document(document_id)
        [document] = self._read(
            lambda store, own: list(map(store.document, own)), rows, self._starts
        )
        return document

    def fetch(self, rows: Sequence[int]) -> list[StoredPassage]:
        """Return passages in the given order; those of one document share its object."""
        return self._read(Store.fetch, rows, self._passage_starts)

    def _read(
        self,
        read: Callable[[Store, Sequence[int]], list[_Record]],
        rows: Sequence[int],
        starts: Sequence[int],
    ) -> list[_Record]:
        """Read rows in the given order; the rows of each segment begin at its start."""
        if len(self.stores) == 1:
            return read(self.stores[0], rows)

        records: dict[int, _Record] = {}
        for store, start, end in zip(self.stores, starts, starts[1:], strict=False):
            if own := [row for row in rows if start <= row < end]:
                records |= zip(own, read(store, [row - start for row in own]), strict=True)
        return [records[row] for row in rows]
