"""The parts of a build: a base of all documents, and a delta of those that changed since.

    base/, delta/    documents, postings and vectors of each segment
    order.npy        int32 (passages of all segments,): the row of each passage in a build that
                     has one segment only, and -1 for one that was removed since; absent if the
                     passages of the base are in order and all there
    fields.json      {field: whether any value is a number; "all" if all are}
    files.json       the source files, see `purlin.index.search.store.listing`

Rows of the delta follow those of the base.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.builds.build_files import Files
from purlin.index.builds.manifests import Manifest
from purlin.index.records import Skipped
from purlin.index.search import dense
from purlin.index.search.arrays import Mask
from purlin.index.search.dense import VectorSegment
from purlin.index.search.documents import Documents
from purlin.index.search.lexical.postings import Postings
from purlin.index.search.store.filters import FieldType
from purlin.index.search.store.listing import Listing
from purlin.index.search.store.segment_store import Store
from purlin.index.storage import read_array

BASE, DELTA = "base", "delta"
ORDER_FILE, FIELDS_FILE, LEXICAL_DIRECTORY = "order.npy", "fields.json", "lexical"
# What `fields.json` says for each type.
_WRITTEN: Mapping[FieldType, bool | str] = {"texts": False, "both": True, "numbers": "all"}
_READ: Mapping[bool | str, FieldType] = {value: type_ for type_, value in _WRITTEN.items()}
# Files that depend on the encoder; all others follow from the documents alone.
VECTOR_FILES = frozenset({dense.VECTORS_FILE, dense.SETTINGS_FILE, dense.INDEX_FILE})


@dataclass(frozen=True, slots=True)
class Segment:
    """One open segment. `entries` maps each of its files to its entry in the manifest."""

    name: str
    store: Store
    postings: Postings
    vectors: VectorSegment
    entries: Mapping[str, Mapping[str, Any]]

    @classmethod
    def load(
        cls, directory: Path, manifest: Manifest, files: Files, opened: Segment | None
    ) -> Segment:
        """Open a segment of a build.

        What the segment `opened` of another build already has in memory, verified, is not read again.
        Raises Damaged.
        """
        prefix = f"{directory.name}/"
        entries = {
            name.removeprefix(prefix): entry
            for name, entry in manifest.files.items()
            if name.startswith(prefix)
        }
        store = Store(directory, manifest.kind, files)

        if opened is not None and opened.entries == entries:
            files.skip(directory)
            return cls(directory.name, store, opened.postings, opened.vectors, entries)
        postings = Postings.load(directory / LEXICAL_DIRECTORY, files)
        vectors = VectorSegment.load(directory, files)
        return cls(directory.name, store, postings, vectors, entries)


def open_documents(directory: Path, manifest: Manifest) -> Documents:
    """Open the documents of a build; what is read is verified."""
    files = Files(directory, manifest.files)
    stores = [Store(directory / name, manifest.kind, files) for name in manifest.segments]
    order = read_order(directory, manifest, files)
    return Documents(stores, read_fields(directory, files), order)


def read_fields(directory: Path, files: Files) -> dict[str, FieldType]:
    """Read the types of a build's fields. Raises Damaged."""
    written = json.loads(files.read(directory / FIELDS_FILE))
    return {name: _READ[value] for name, value in written.items()}


def read_order(directory: Path, manifest: Manifest, files: Files) -> NDArray[np.int32] | None:
    """Read a build's `order.npy`; None if it has none. Raises Damaged."""
    if ORDER_FILE not in manifest.files:
        return None
    return read_array(files.read(directory / ORDER_FILE))


def left_out(listing: Listing, stores: Sequence[Store]) -> list[Skipped]:
    """Return what the readers left out: whole files, then parts of the files that were read."""
    numbers = {(file.segment, file.number) for file in listing.files}
    parts = [
        skipped
        for segment, store in enumerate(stores)
        for number, skipped in store.skipped()
        if (segment, number) in numbers
    ]

    return [*listing.skipped, *parts]


def field_types(stores: Sequence[Store], live: Mask | None) -> dict[str, FieldType]:
    """Map each field of the live passages' documents to its type."""
    types: dict[str, FieldType] = {}
    start = 0

    for store in stores:
        rows = None
        if live is not None:
            rows = np.zeros(len(store), dtype=np.bool_)
            rows[store.document_of[live[start : start + len(store.document_of)]]] = True
            start += len(store.document_of)

        for name, own in store.columns.types(rows).items():
            types[name] = own if types.get(name, own) == own else "both"

    return types


def order_of(files: Sequence[tuple[int, int]], stores: Sequence[Store]) -> NDArray[np.int32] | None:
    """Return the row that each passage would have if the `files`, in this order, were one segment.

    A file is a pair of its segment and its number there; passages of other files get -1. Returns None
    if all passages have these rows already.
    """
    positions_of_segments = []
    numbers = np.array(files, dtype=np.int64).reshape(-1, 2)
    for segment, store in enumerate(stores):
        own = np.flatnonzero(numbers[:, 0] == segment)
        # Number of a file -> its position; numbers without documents do not matter.
        count = max(int(numbers[own, 1].max(initial=-1)), int(store.file_of.max(initial=-1))) + 1
        position_of = np.full(count, -1, dtype=np.int64)
        position_of[numbers[own, 1]] = own
        positions_of_segments.append(position_of[store.file_of[store.document_of]])

    positions = np.concatenate(positions_of_segments)
    order = np.full(len(positions), -1, dtype=np.int32)
    live = np.flatnonzero(positions >= 0)
    # Stable: within a file, the order of the rows.
    order[live[np.argsort(positions[live], kind="stable")]] = np.arange(len(live))
    return None if np.array_equal(order, np.arange(len(order))) else order


def write_fields(directory: Path, field_types: Mapping[str, FieldType]) -> None:
    """Write a build's `fields.json`."""
    written = {name: _WRITTEN[field_types[name]] for name in sorted(field_types)}
    content = json.dumps(written, ensure_ascii=False)
    (directory / FIELDS_FILE).write_text(content, encoding="utf-8")
