"""The documents of a build, whichever segments they are in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from purlin.index.errors import no_document
from purlin.index.records import Document
from purlin.index.search.store.document_records import Head
from purlin.index.search.store.filters import FieldType, Filter, clauses
from purlin.index.search.store.segment_store import Store, StoredPassage


class Documents:
    """The documents of a build, in one or more segments.

    The rows of a segment follow those of the one before it. `live` (passages,) is false for
    passages that were removed since their segment was written; None means that there are none.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        field_types: Mapping[str, FieldType],
        live: NDArray[np.bool_] | None = None,
    ) -> None:
        self.field_types = field_types
        self.stores = stores
        self._live = live
        self._starts = [0, *accumulate(map(len, stores))]
        self._passage_starts = [0, *accumulate(len(store.document_of) for store in stores)]

        # Passage row -> document row.
        self.document_of = (
            stores[0].document_of
            if len(stores) == 1
            else np.concatenate(
                [store.document_of + np.int32(start) for store, start in self._parts()]
            )
        )
        self._live_documents = np.ones(len(self), dtype=np.bool_)
        if live is not None:
            self._live_documents[:] = False
            self._live_documents[self.document_of[live]] = True

    def __len__(self) -> int:
        """Number of document rows, with those that were removed."""
        return self._starts[-1]

    @property
    def count(self) -> int:
        """Number of documents, without those that were removed."""
        return int(np.count_nonzero(self._live_documents))

    def _parts(self) -> Iterator[tuple[Store, int]]:
        return zip(self.stores, self._starts, strict=False)

    def close(self) -> None:
        """Release the files."""
        for store in self.stores:
            store.close()

    def document(self, document_id: str) -> Document:
        """The document with this id, whole. Raises NotFound."""
        for row in self.rows_of([document_id]).values():
            for store, start in self._parts():
                if start <= row < start + len(store):
                    return store.document(row - start)
        raise no_document(document_id)

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Document rows of those of the given ids that exist."""
        listed_ids = list(ids)
        return {
            identifier: row + start
            for store, start in self._parts()
            for identifier, row in store.rows_of(listed_ids).items()
            if self._live_documents[row + start]
        }

    def rows_named(self, name: str) -> NDArray[np.int64]:
        """Passage rows of the documents whose id or title is `name`; titles in any case."""
        rows = np.array(
            [
                row + start
                for store, start in zip(self.stores, self._passage_starts, strict=False)
                for row in store.rows_named(name)
            ],
            dtype=np.int64,
        )
        return rows if self._live is None else rows[self._live[rows]]

    def heads(self, rows: Sequence[int]) -> list[Head]:
        """What names the documents in these rows."""
        if len(self.stores) == 1:
            return self.stores[0].heads(rows)
        heads: dict[int, Head] = {}
        for store, start in self._parts():
            own = [row for row in rows if start <= row < start + len(store)]
            heads |= zip(own, store.heads([row - start for row in own]), strict=True)
        return [heads[row] for row in rows]

    @property
    def has_files(self) -> bool:
        """Whether any document is in a file, rather than a record of a list."""
        return any(
            self._live_documents[store.by_path.entries()[0] + start].any()
            for store, start in self._parts()
        )

    def existing_paths(self, paths: Iterable[str]) -> set[str]:
        """Those of the paths that some document's file has."""
        listed = list(paths)
        return {
            path
            for store, start in self._parts()
            for path, row in store.rows_in(listed).items()
            if self._live_documents[row + start]
        }

    def fetch(self, rows: Sequence[int]) -> list[StoredPassage]:
        """Passages of these rows in the given order; those of one document share its object."""
        if len(self.stores) == 1:
            return self.stores[0].fetch(rows)

        passages: dict[int, StoredPassage] = {}
        for number, store in enumerate(self.stores):
            start, end = self._passage_starts[number : number + 2]
            own = [row for row in rows if start <= row < end]
            if own:
                stored = store.fetch([row - start for row in own])
                passages |= dict(zip(own, stored, strict=True))

        return [passages[row] for row in rows]

    @property
    def field_names(self) -> list[str]:
        """Sorted names that a filter may use."""
        return sorted(self.field_types)

    def allowed(self, conditions: Filter) -> NDArray[np.bool_]:
        """Return the mask (documents,) of those for which every condition holds.

        Raises InvalidInput, which names the field.
        """
        checked = clauses(conditions, self.field_types)
        masks = [store.matching(checked) for store in self.stores]
        return np.concatenate(masks) & self._live_documents
