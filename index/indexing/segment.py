"""Writes one segment of a build: documents, postings, then vectors."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder
from purlin.index.indexing.earlier import Earlier, EarlierSegment
from purlin.index.passages import lexical_text, render, split
from purlin.index.records import Document, Splitter
from purlin.index.search import dense
from purlin.index.search.lexical_builder import LexicalBuilder
from purlin.index.search.segments import LEXICAL_DIRECTORY
from purlin.index.search.store import DIGEST_BYTES, Store, StoreWriter

# Passages; bounds memory and the work between two calls of progress.
_ENCODED_TOGETHER = 8192
# Characters of rendered texts that are kept until they are encoded; others are rendered again.
_KEPT_CHARS = 64 * 2**20


class SegmentWriter:
    """Collects the documents of a segment, read or copied from the segments of `earlier`."""

    def __init__(self, directory: Path, splitter: Splitter, earlier: Earlier) -> None:
        directory.mkdir()
        self.directory = directory
        self._splitter = splitter
        self._earlier = earlier
        self.store = StoreWriter(directory, [segment.store for segment in earlier.segments])
        self._lexical = LexicalBuilder(directory / LEXICAL_DIRECTORY)
        # For each passage, the row of the earlier build that it was copied from, or -1.
        self._origins = array("q")
        # Passage row -> rendered text, of the first rows that were read.
        self.texts: dict[int, str] = {}
        self._kept_chars = 0

    def add(self, document: Document, file: int) -> None:
        """Append a document that was read. Raises UnicodeEncodeError before anything is added."""
        passages = split(document, self._splitter)
        texts = [render(document, passage) for passage in passages]
        first = self.store.passages
        self.store.add(document, file, zip(passages, map(_digest, texts), strict=True))
        self._origins.extend([-1] * len(passages))

        for row, (passage, text) in enumerate(zip(passages, texts, strict=True), first):
            self._lexical.add(lexical_text(document, passage))
            if self._kept_chars < _KEPT_CHARS:
                self._kept_chars += len(text)
                self.texts[row] = text

    def copy(self, segment: EarlierSegment, file: int, number: int) -> None:
        """Append what an earlier segment has of its source file `file`, as file `number`."""
        first, last = segment.store.passage_rows(file)
        self.store.copy(segment.store, file, number)
        self._lexical.copy(segment.postings, first, last)
        start = self._earlier.starts[list(self._earlier.segments).index(segment)]
        self._origins.extend(range(start + first, start + last))

    def close(self) -> None:
        """Write everything but the vectors."""
        self.store.close()
        self._lexical.close()

    def abandon(self) -> None:
        """Release the files without completing them."""
        self.store.abandon()
        self._lexical.abandon()

    def reusable(self, store: Store, encoder: TextEncoder) -> NDArray[np.int64]:
        """For each passage, the row of the earlier build that has its vector, or -1."""
        origins = np.array(self._origins, dtype=np.int64)
        if not self._earlier.comparable(encoder):
            return np.full(len(origins), -1, dtype=np.int64)

        new = np.flatnonzero(origins < 0)
        if len(new):
            origins[new] = self._earlier.rows_of(store.digests()[new])
        return origins


def write_vectors(
    directory: Path,
    store: Store,
    encoder: TextEncoder,
    earlier: Earlier,
    reusable: NDArray[np.int64],
    texts: Mapping[int, str],
    advance: Callable[[int], None],
) -> float:
    """Write a segment's vectors and their index, a block at a time; returns the index's recall.

    `reusable` (passages,) has the row of the earlier build with each vector, or -1. `texts` has
    rendered texts of some of the others; the rest is rendered again from the `store`.

    The file is not memory-mapped: on a full disk, writing to a mapping kills the process.
    """
    shape = (len(reusable), encoder.dim)
    header = {"descr": "<f2", "fortran_order": False, "shape": shape}

    with (directory / dense.VECTORS_FILE).open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(reusable), _ENCODED_TOGETHER):
            block = reusable[start : start + _ENCODED_TOGETHER]
            vectors = np.empty((len(block), encoder.dim), dtype=np.float16)
            reused, missing = np.flatnonzero(block >= 0), np.flatnonzero(block < 0)

            if len(reused):
                vectors[reused] = earlier.vectors(block[reused])
            if len(missing):
                rows = (start + missing).tolist()
                unkept = [row for row in rows if row not in texts]
                rendered = [render(item.document, item.passage) for item in store.fetch(unkept)]
                others = dict(zip(unkept, rendered, strict=True))
                block_texts = [texts[row] if row in texts else others[row] for row in rows]
                vectors[missing] = encoder.encode(block_texts, role="passage", progress=advance)
            file.write(vectors.tobytes())
    return dense.build_index(directory)


def _digest(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
