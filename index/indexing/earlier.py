"""What a build takes over from the active one: files of segments, documents, counts and vectors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from purlin.index import builds
from purlin.index.builds import build_files
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.builds.remarks import Remarks, read_remarks
from purlin.index.encoder import TextEncoder, self_check
from purlin.index.errors import PurlinError
from purlin.index.records import Kind
from purlin.index.search.dense import SETTINGS_FILE, StoredVectors, stored_vectors
from purlin.index.search.lexical.postings import Postings
from purlin.index.search.segments import LEXICAL_DIRECTORY
from purlin.index.search.store.listing import IndexedFile, Listing, read_listing
from purlin.index.search.store.segment_store import Store


class EarlierSegment:
    """One segment of the active build; what is not asked for is not read."""

    def __init__(self, directory: Path, store: Store) -> None:
        self.directory = directory
        self.store = store

    @cached_property
    def postings(self) -> Postings:
        """Term frequencies of the passages."""
        return Postings.load(self.directory / LEXICAL_DIRECTORY)

    @cached_property
    def digests(self) -> NDArray[np.uint64]:
        """Digests (passages, 2) of the rendered texts."""
        return self.store.digests()

    def has_texts_of(self, store: Store) -> bool:
        """Whether the passages of another segment have the same texts in the same order."""
        return np.array_equal(self.digests, store.digests())

    @cached_property
    def vectors(self) -> StoredVectors:
        """Vectors of the passages. Those of a large segment stay on disk: a read may raise Altered."""
        settings = json.loads((self.directory / SETTINGS_FILE).read_bytes())
        return stored_vectors(self.directory, settings)


@dataclass(frozen=True)
class Earlier:
    """The active build, or nothing if there is none, or it is damaged or of another kind."""

    directory: Path | None = None
    manifest: Manifest | None = None
    listing: Listing = field(default_factory=Listing)
    remarks: Remarks = field(default_factory=Remarks)
    segments: Sequence[EarlierSegment] = ()
    # Encoder fingerprint -> whether its vectors are those stored here.
    _comparable: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def open(cls, home: Path, name: str, kind: Kind) -> Self:
        """Open the active build of a corpus; all its files are verified."""
        try:
            directory = builds.current(home, name)
            manifest = read_manifest(directory)
            files = build_files.Files(directory, manifest.files)
            listing = read_listing(directory, files.read)
            remarks = read_remarks(directory, manifest.files, files.read)
            files.check_others()
        except PurlinError:
            return cls()
        # What an engine has is not read back.
        if manifest.kind != kind or manifest.engine:
            return cls()

        segments = [
            EarlierSegment(directory / segment, Store(directory / segment, kind))
            for segment in manifest.segments
        ]
        return cls(directory, manifest, listing, remarks, segments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for segment in self.segments:
            segment.store.close()

    @cached_property
    def files(self) -> dict[str, IndexedFile]:
        """Source files by path."""
        return {file.path: file for file in self.listing.files}

    @cached_property
    def starts(self) -> list[int]:
        """First passage row of each segment, and the number of all rows."""
        return [0, *accumulate(len(segment.store.document_of) for segment in self.segments)]

    def existing_ids(self, ids: Iterable[str]) -> set[str]:
        """Return those of the ids that some segment has."""
        listed_ids = list(ids)
        return {id for segment in self.segments for id in segment.store.rows_of(listed_ids)}

    # ---- vectors

    def comparable(self, encoder: TextEncoder) -> bool:
        """Whether the stored vectors are those that `encoder` gives on this machine."""
        # Asked several times; the self-check's texts are encoded once.
        if encoder.fingerprint not in self._comparable:
            self._comparable[encoder.fingerprint] = self._compare(encoder)
        return self._comparable[encoder.fingerprint]

    def _compare(self, encoder: TextEncoder) -> bool:
        if self.directory is None or self.manifest is None:
            return False
        if self.manifest.encoder["fingerprint"] != encoder.fingerprint:
            return False
        return self_check.drift(self.directory, encoder) <= self_check.TOLERANCE

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float16]:
        """Vectors (rows, dim) of these passages, whose rows count on from segment to segment."""
        parts = np.searchsorted(self.starts, rows, "right") - 1
        vectors = np.empty((len(rows), self.segments[0].vectors.dim), dtype=np.float16)
        for number, segment in enumerate(self.segments):
            own = parts == number
            vectors[own] = segment.vectors.take(rows[own] - self.starts[number])
        return vectors

    def rows_of(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """For each digest (n, 2) of a rendered text, the row of a passage that has it, or -1."""
        # Of digests with the same first half, only one is looked at; another is encoded again.
        stored, order = self._sorted_digests
        positions = np.searchsorted(stored[:, 0], digests[:, 0])
        candidates = np.minimum(positions, len(order) - 1)
        equal = (stored[candidates] == digests).all(axis=1)
        return np.where(equal, order[candidates], -1)

    @cached_property
    def _sorted_digests(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """All digests in the order of their first halves, and the row of each."""
        stored = np.concatenate([segment.digests for segment in self.segments])
        order = np.argsort(stored[:, 0], kind="stable")
        return stored[order], order
