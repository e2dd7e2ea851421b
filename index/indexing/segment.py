"""Writes one segment of a build: documents and postings while they are read, then vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.indexing.earlier import Earlier, EarlierSegment
from purlin.index.indexing.encoding import Encoding
from purlin.index.indexing.journal import Journal
from purlin.index.records import Document, Splitter
from purlin.index.search import dense
from purlin.index.search.lexical.builder import LexicalBuilder, Tokenizer
from purlin.index.search.lexical.languages import Language
from purlin.index.search.segments import LEXICAL_DIRECTORY
from purlin.index.search.store.document_records import Entry, entry_of
from purlin.index.search.store.writer import StoreWriter
from purlin.index.storage.digests import digest
from purlin.index.texts.passages import lexical_text, render, split

# Vectors that are gathered and written together.
_WRITTEN_TOGETHER = 8192


@dataclass(frozen=True, slots=True)
class PreparedPassage:
    """A passage's text for the encoder, and that for BM25 or the tokens of it."""

    text: str
    lexical: str | Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a segment writes of a document; made without the segment, so by any process.

    `path` is the file that the document's location names.
    """

    id: str
    path: str | None
    entry: Entry
    passages: Sequence[PreparedPassage]


def prepare(document: Document, splitter: Splitter, tokenizer: Tokenizer | None = None) -> Prepared:
    """Return what a segment writes of a document, with tokens if a `tokenizer` makes them.

    Raises UnicodeEncodeError.
    """
    passages = split(document, splitter)
    texts = [render(document, passage) for passage in passages]
    entry = entry_of(document, zip(passages, map(digest, texts), strict=True))

    lexical_texts = [lexical_text(document, passage) for passage in passages]
    lexical = lexical_texts if tokenizer is None else map(tokenizer.tokens, lexical_texts)
    prepared = list(map(PreparedPassage, texts, lexical))
    return Prepared(document.id, document.location.path, entry, prepared)


class SegmentWriter:
    """Writes the documents of a segment: those that were read, and those of earlier segments.

    The texts of its passages go to `encoding` as well, with their rows in the build: those of this
    segment begin at `first_row`. The texts are in `language`; None means the one that they tell.
    """

    def __init__(
        self, directory: Path, encoding: Encoding, first_row: int, language: Language | None
    ) -> None:
        directory.mkdir()
        self.directory = directory
        self._encoding, self._first_row = encoding, first_row
        self.store = StoreWriter(directory)
        self._lexical = LexicalBuilder(directory / LEXICAL_DIRECTORY, language=language)

    def add(self, prepared: Prepared, file: int) -> None:
        """Append a document that was read."""
        row = self._first_row + self.store.passages
        self.store.add(prepared.entry, file)

        for passage, key in zip(prepared.passages, prepared.entry.digests, strict=True):
            if isinstance(passage.lexical, str):
                self._lexical.add(passage.lexical)
            else:
                self._lexical.add_tokens(passage.lexical)
            self._encoding.add(row, key, passage.text)
            row += 1

    def copy(self, segment: EarlierSegment, file: int, number: int) -> None:
        """Append what an earlier segment has of its source file `file`, as file `number`."""
        first, last = segment.store.passage_rows(file)
        row = self._first_row + self.store.passages
        self.store.copy(segment.store, file, number)
        self._lexical.copy(segment.postings, first, last)
        for position, key in enumerate(segment.digests[first:last], row):
            self._encoding.add(position, key.tobytes(), None)

    def close(self) -> None:
        """Write everything but the vectors."""
        self.store.close()
        self._lexical.close()

    def abandon(self) -> None:
        """Release the files without completing them."""
        self.store.abandon()
        self._lexical.abandon()


def write_vectors(
    directory: Path,
    digests: NDArray[np.uint64],
    dim: int,
    journal: Journal,
    earlier: Earlier | None,
) -> NDArray[np.bool_]:
    """Write the vectors (rows, dim) of a segment, and return which are of the earlier build.

    The text of each row has the digest in `digests` (rows, 2); its vector is that of the earlier
    build, if it has one, or else in the journal.

    The file is not memory-mapped: on a full disk, writing to a mapping kills the process.
    """
    header = {"descr": "<f2", "fortran_order": False, "shape": (len(digests), dim)}
    reused = np.zeros(len(digests), dtype=np.bool_)

    with (directory / dense.VECTORS_FILE).open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(digests), _WRITTEN_TOGETHER):
            block = digests[start : start + _WRITTEN_TOGETHER]
            rows = np.full(len(block), -1) if earlier is None else earlier.rows_of(block)
            is_reused = rows >= 0
            vectors = np.empty((len(block), dim), dtype=np.float16)

            if earlier is not None and is_reused.any():
                vectors[is_reused] = earlier.vectors(rows[is_reused])
            vectors[~is_reused] = journal.vectors(journal.positions(block[~is_reused]))
            file.write(vectors.tobytes())
            reused[start : start + len(block)] = is_reused
    return reused
