"""Earlier queries and the documents they led to: a similar query finds that document, too.

The words that people use often differ from the document's own, but are closer to other people's.
The nearness of a document comes from the nearest query that led to it: it is the part of the cosine
above `FLOOR`, rescaled to 0-1. It raises the document's score to 1 - (1 - score) * (1 - `BLEND` *
nearness), the probability that at least one of two independent witnesses is right. Documents that
no such query led to keep their scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.errors import InvalidInput
from purlin.index.evaluation.ranking import read_records
from purlin.index.pace import StageProgress
from purlin.index.records import is_text
from purlin.index.search.lexical.bm25 import top
from purlin.index.storage import read_array

# Cosine of unrelated queries.
FLOOR = 0.2
# Weight of an identical query; tuned together with FLOOR, see docs/lab-notebook.md.
BLEND = 0.4
MAX_LOGGED = 100_000
# Longer queries are cut; the encoder reads less.
MAX_LOGGED_CHARS = 4096
# Length of the earlier query that an explanation quotes.
EXCERPT_CHARS = 200
VECTORS_FILE, DOCUMENTS_FILE, TEXTS_FILE = "log.npy", "log-documents.npy", "log.json"


@dataclass(frozen=True, slots=True, order=True)
class Logged:
    """A query, and the id of a document that it led to."""

    query: str
    document: str


def read_log(path: Path) -> list[Logged]:
    """Read JSON Lines {query, document}, gzipped or not: each pair once, long queries cut.

    Raises NotFound, and InvalidInput for an invalid line, which it names, or an empty file.
    """
    # A dict, because it keeps the order of the file.
    pairs: dict[Logged, None] = {}
    for number, record in read_records(path, most=MAX_LOGGED):
        match record:
            case {"query": str(query), "document": str(document)} if (
                query.strip() and document and is_text(query)
            ):
                pairs[Logged(query.strip()[:MAX_LOGGED_CHARS], document)] = None
            case _:
                raise InvalidInput(
                    f"{path}, line {number} is not a JSON object with a query and the id of a "
                    "document.",
                    field="query_log",
                )

    if not pairs:
        raise InvalidInput(
            f"{path} is empty: it has no rows of {{query, document}}.", field="query_log"
        )
    return list(pairs)


def check_log(log: Sequence[Logged], ids: Collection[str]) -> None:
    """Raise InvalidInput if no query of the log leads to one of these documents."""
    if log and not any(logged.document in ids for logged in log):
        raise InvalidInput(
            f"None of the {len(log):,} queries leads to a document of this corpus; the first names "
            f"{log[0].document[:200]!r}. Use the ids that search results show as document_id.",
            field="query_log",
        )


def write_log(
    directory: Path,
    log: Sequence[Logged],
    rows: Mapping[str, int],
    encoder: TextEncoder,
    cached: Mapping[str, Vectors],
    progress: StageProgress,
) -> int:
    """Write the part of the log that leads to documents of a build, and return its length.

    `rows` maps the id of a document to its row. `cached` has vectors of queries that need not be
    encoded again.
    """
    kept = sorted(
        (rows[logged.document], logged.query) for logged in log if logged.document in rows
    )
    queries = [query for _, query in kept]
    new = [query for query in dict.fromkeys(queries) if query not in cached]
    encoded_count = 0

    def advance(count: int) -> None:
        nonlocal encoded_count
        encoded_count += count
        progress(encoded_count, len(new))

    encoded = encoder.encode(new, role="query", progress=advance)
    vectors = dict(cached) | dict(zip(new, encoded, strict=True))

    stacked = np.stack([vectors[query] for query in queries])
    np.save(directory / VECTORS_FILE, stacked.astype(np.float16))
    np.save(directory / DOCUMENTS_FILE, np.array([row for row, _ in kept], dtype=np.int64))
    (directory / TEXTS_FILE).write_text(json.dumps(queries), encoding="utf-8")
    return len(kept)


def logged_vectors(directory: Path) -> dict[str, Vectors]:
    """Return the queries of the log in a build's directory with their vectors; empty if it has none."""
    if not (directory / VECTORS_FILE).is_file():
        return {}
    texts = json.loads((directory / TEXTS_FILE).read_text(encoding="utf-8"))
    return dict(zip(texts, np.load(directory / VECTORS_FILE), strict=True))


class Nearness:
    """Nearness in 0-1 of a query to documents: 0 except for those that an earlier query led to.

    `documents` (m,) ascend, and `values` (m,) are their nearness.
    """

    def __init__(self, documents: NDArray[np.int64], values: Vectors) -> None:
        self._documents = documents
        self._values = values

    def of(self, documents: NDArray[np.int64]) -> Vectors:
        """Return the nearness (n,) of these documents."""
        positions = np.searchsorted(self._documents, documents)
        positions = np.minimum(positions, len(self._documents) - 1)
        is_logged = self._documents[positions] == documents
        return np.where(is_logged, self._values[positions], np.float32(0.0))

    def nearest(self, depth: int) -> tuple[NDArray[np.int64], Vectors]:
        """Return the nearest `depth` documents with a nearness above 0, best first."""
        positions = top(self._values, depth)
        return self._documents[positions], self._values[positions]


class QueryLog:
    """Earlier queries: unit vectors (m, dim), `texts`, and the rows (m,) of their documents.

    The rows must be in ascending order.
    """

    def __init__(
        self, vectors: NDArray[Any], documents: NDArray[np.int64], texts: Sequence[str]
    ) -> None:
        self._vectors = np.asarray(vectors, dtype=np.float32)
        # Queries of one document are adjacent: [start, end) of each.
        self._starts = np.flatnonzero(np.diff(documents, prepend=-1))
        self._ends = np.append(self._starts[1:], len(documents))
        self._documents = documents[self._starts]
        self._texts = [text[:EXCERPT_CHARS] for text in texts]

    @classmethod
    def load(cls, directory: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> QueryLog:
        """Read the files of `write_log` into memory; `read` returns the content of a file."""
        texts = json.loads(read(directory / TEXTS_FILE))
        vectors = read_array(read(directory / VECTORS_FILE))
        documents = read_array(read(directory / DOCUMENTS_FILE))
        return cls(vectors, documents, texts)

    def nearness(self, query: Vectors) -> Nearness:
        """Return the nearness of all documents to `query` (dim,)."""
        cosines = np.maximum.reduceat(self._vectors @ query, self._starts)
        near = np.clip((cosines - FLOOR) / (1.0 - FLOOR), 0.0, 1.0).astype(np.float32)
        return Nearness(self._documents, near)

    def nearest(self, query: Vectors, document: int) -> str:
        """Return the start of the nearest earlier query that led to the document in this row, or ""."""
        position = int(np.searchsorted(self._documents, document))
        if position == len(self._documents) or self._documents[position] != document:
            return ""

        start, end = int(self._starts[position]), int(self._ends[position])
        cosines = self._vectors[start:end] @ query
        return self._texts[start + int(cosines.argmax())]


def blend(scores: Vectors, nearness: Vectors) -> Vectors:
    """Return the scores (n,), raised by the nearness (n,) of their documents."""
    return np.asarray(1.0 - (1.0 - scores) * (1.0 - BLEND * nearness), dtype=np.float32)
