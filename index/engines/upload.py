"""Writes the documents of a build into Milvus: batch by batch, with retries.

Term weights are those of our BM25: a passage stores how far each of its tokens saturates, and a
query brings the idf, so that their inner product is the score.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.engines import fields, layout
from purlin.index.engines.milvus import Milvus
from purlin.index.errors import EngineFailed, InvalidInput
from purlin.index.records import Document, Passage
from purlin.index.search.arrays import Rows
from purlin.index.search.documents import SECONDARY
from purlin.index.search.lexical.bm25 import K1
from purlin.index.search.lexical.languages import Language
from purlin.index.search.lexical.postings import B
from purlin.index.search.lexical.tokens import tokens
from purlin.index.search.store.document_records import folded_title, path_of
from purlin.index.search.store.filters import ANY_CASE
from purlin.index.texts.passages import lexical_text

_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.2
# Rows and bytes that are sent together; servers take 64 MB at once.
_BATCH_ROWS, _BATCH_BYTES = 1000, 4 * 2**20
_MAX_JSON_BYTES = 65_000

# Documents in order, each with its passages and their vectors (passages, dim).
Uploaded = Iterable[tuple[Document, list[Passage], Vectors]]


class TermWeights:
    """The weights of tokens in the passages of a build, and the numbers that tokens get.

    The texts are in `language`, and have `mean_length` tokens in the mean. `frequencies` counts the
    passages that have the token of each number.
    """

    def __init__(self, language: Language, mean_length: float) -> None:
        self._language, self._mean_length = language, mean_length
        self.numbers: dict[str, int] = {}
        self.frequencies: Counter[int] = Counter()

    def of(self, text: str) -> dict[int, float]:
        """Count a passage's text, and return the weight of each of its tokens by number."""
        counted = Counter(tokens(text, self._language))
        norm = K1 * (1.0 - B + B * counted.total() / self._mean_length)
        weights = {
            self.numbers.setdefault(token, len(self.numbers) + 1): count / (count + norm)
            for token, count in counted.items()
        }
        self.frequencies.update(weights.keys())
        # Milvus takes no vector of nothing; no query has the number 0.
        return weights or {0: 1.0}


@dataclass(frozen=True, slots=True)
class Contents:
    """What a collection holds, as its retrievers need to know.

    `lists` maps the fields that are lists to their largest number of values.
    """

    passages: int
    documents: Rows
    buckets: int
    lists: Mapping[str, int]
    has_files: bool


def upload(
    milvus: Milvus,
    collection: str,
    dim: int,
    documents: Uploaded,
    weights: TermWeights,
    progress: Callable[[int], None] = lambda _: None,
) -> Contents:
    """Create the collections of a build and fill them.

    `progress` is called with a number of passages. Raises EngineFailed, and InvalidInput for a
    document that Milvus cannot hold.
    """
    layout.create_passages(milvus, collection, dim)
    layout.create_records(milvus, collection)

    writer = _Writer(milvus, collection, progress)
    writer.write(documents, weights if milvus.has_sparse else None)

    return Contents(
        writer.passages,
        np.array(writer.documents, np.int64),
        writer.write_vocabulary(weights),
        {name: width for name, width in writer.widths.items() if width > 1},
        writer.has_files,
    )


def write_files(milvus: Milvus, collection: str, paths: Iterable[Path]) -> dict[str, list[int]]:
    """Store the content of files; returns the first record and the number of records of each."""
    batch = _Batch(milvus, layout.records_of(collection))
    stored, row = {}, layout.FIRST_FILE

    for path in paths:
        first = row
        # The column takes texts only.
        for chunk in layout.chunks(b64encode(path.read_bytes()).decode()):
            batch.add(layout.record(row, chunk), len(chunk))
            row -= 1

        stored[path.name] = [first, first - row]

    batch.send()
    return stored


class _Batch:
    """Rows that are sent together."""

    def __init__(self, milvus: Milvus, collection: str) -> None:
        self._milvus, self._collection = milvus, collection
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def add(self, row: dict[str, Any], size: int) -> None:
        """Append a row of about `size` bytes."""
        self._rows.append(row)
        self._bytes += size
        if len(self._rows) >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
            self.send()

    def send(self) -> None:
        """Write what was added; raises EngineFailed after several attempts."""
        rows, self._rows, self._bytes = self._rows, [], 0

        for attempt in range(_ATTEMPTS if rows else 0):
            # An attempt that failed may have been written all the same.
            method = "upsert" if attempt else "insert"
            try:
                self._milvus.call(method, self._collection, rows, slow=True)
                return
            except EngineFailed:
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_FIRST_PAUSE_S * 4**attempt)


class _Writer:
    """Writes documents and vocabulary; remembers what the retrievers need to know."""

    def __init__(self, milvus: Milvus, collection: str, progress: Callable[[int], None]) -> None:
        self._passages = _Batch(milvus, collection)
        self._records = _Batch(milvus, layout.records_of(collection))
        self._progress = progress
        self.passages = 0
        self.documents: list[int] = []
        self.widths: dict[str, int] = defaultdict(int)
        self.has_files = False

    def write(self, documents: Uploaded, weights: TermWeights | None) -> None:
        """Write documents with their passages, and the `weights` of their tokens."""
        for document, passages, vectors in documents:
            values, ranges, widths = fields.stored(
                document.fields, any_case=document.kind in ANY_CASE
            )
            _check(document, passages, values, ranges)
            for name, width in widths.items():
                self.widths[name] = max(self.widths[name], width)

            row = len(self.documents) * layout.FLAGS + _flags(document)
            self.documents.append(row)
            filters = {fields.VALUES: values, fields.RANGES: ranges}
            self._write_record(document, passages, row, filters)
            for passage, vector in zip(passages, vectors, strict=True):
                columns: dict[str, Any] = {layout.DENSE: vector.astype(np.float32)}
                if weights is not None:
                    columns[layout.SPARSE] = weights.of(lexical_text(document, passage))
                columns[layout.ROW] = row * layout.MAX_PASSAGES + passage.number
                length = passage.end - passage.start
                columns[fields.RANGES] = ranges | {layout.LENGTH: length}
                self._passages.add({**filters, **columns}, 4 * len(vector) + 4096)
            self.passages += len(passages)
            self._progress(len(passages))
        self._passages.send()
        self._records.send()

    def _write_record(
        self, document: Document, passages: list[Passage], row: int, filters: Mapping[str, Any]
    ) -> None:
        path = path_of(document)
        self.has_files = self.has_files or bool(path)

        columns = {
            **filters,
            layout.PASSAGES: len(passages),
            layout.ID: document.id,
            layout.TITLE: document.title,
            layout.PATH: path,
            layout.ID_HASH: fields.hashed(document.id),
            layout.TITLE_HASH: fields.hashed(folded_title(document.title)),
            layout.PATH_HASH: fields.hashed(path) if path else 0,
        }

        parts = list(layout.chunks(layout.pack(document, passages)))
        if len(parts) > layout.MAX_CHUNKS:
            raise InvalidInput(
                f"Document {document.id[:200]!r} has over {len(parts) * layout.CHUNK_BYTES:,} "
                "bytes, more than a record in Milvus takes; leave it out."
            )

        for number, part in enumerate(parts):
            # Only the first one is found by a filter, and counted.
            first = {layout.CHUNKS: len(parts), **columns} if number == 0 else {}
            key = row * layout.MAX_CHUNKS + number
            self._records.add(layout.record(key, part, **first), len(part) + 4096)

    def write_vocabulary(self, weights: TermWeights) -> int:
        """Write the number and document frequency of each token; returns how many buckets."""
        buckets = -(-len(weights.numbers) // layout.TOKENS_PER_BUCKET) or 1
        entries_of: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
        for token, number in weights.numbers.items():
            entries = entries_of[layout.bucket_of(token, buckets)]
            entries[token] = number, weights.frequencies[number]

        for row, entries in entries_of.items():
            text = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
            self._records.add(layout.record(row, text), len(text) + 512)
        self._records.send()
        return buckets


def _flags(document: Document) -> int:
    flags = layout.SECONDARY if document.fields.get("role") in SECONDARY else 0
    return flags | (layout.MODULE if document.fields.get("kind") == "module" else 0)


def _check(
    document: Document, passages: list[Passage], values: list[int], ranges: Mapping[str, str]
) -> None:
    """Refuse a document that Milvus cannot hold."""
    texts = (document.id, document.title, document.location.path or "")
    size = sum(len(name) + len(key) + 6 for name, key in ranges.items())
    limits = (
        ("passages", len(passages), layout.MAX_PASSAGES),
        ("values of fields", len(values), fields.MAX_VALUES),
        ("bytes of fields", size, _MAX_JSON_BYTES),
        ("bytes of id, title or path", max(len(text.encode()) for text in texts), 65_535),
    )

    for name, number, limit in limits:
        if number > limit:
            raise InvalidInput(
                f"Document {document.id[:200]!r} has {number:,} {name}; a corpus in Milvus takes "
                f"{limit:,}. Shorten it, or build without Milvus."
            )
