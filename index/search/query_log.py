"""Earlier queries and the documents they led to: whoever asks much like one of them finds that document, too.

People's words for a thing and the thing's own are often far apart; other people's words for it are near. A document's
nearness is that of the nearest query that led to it, its cosine above `FLOOR` as a share of what is above, and raises
the document's score towards 1, the more the nearer: 1 - (1 - score) * (1 - `BLEND` * nearness), the probability that
one of two independent witnesses is right. Documents that no such query led to keep their scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.encoder import TextEncoder, Vectors
from index.errors import InvalidInput
from index.evaluation.ranking import MAX_LINE, parsed, read_lines
from index.records import is_text
from index.storage import read_array

FLOOR = 0.2  # cosine of queries that have nothing to do with each other
BLEND = 0.4  # what the same query counts; tuned with FLOOR, see docs/results.md
MAX_LOGGED = 100_000
MAX_CHARS = 4096  # of a query; the encoder reads less
SHOWN = 200  # characters of an earlier query in an explanation
VECTORS, DOCUMENTS, TEXTS = "log.npy", "log-documents.npy", "log.json"


@dataclass(frozen=True, slots=True, order=True)
class Logged:
    """A query, and the id of a document that it led to."""

    query: str
    document: str


def read_log(path: Path) -> list[Logged]:
    """From JSON Lines {query, document}, gzipped or not, each pair once; long queries are cut.

    Raises NotFound, and InvalidInput for a line that is wrong, by its number, and where there is none.
    """
    found: dict[Logged, None] = {}
    for number, line in read_lines(path, longest=MAX_LINE, most=MAX_LOGGED):
        match parsed(line):
            case {"query": str(query), "document": str(document)} if (
                query.strip() and document and is_text(query)
            ):
                found[Logged(query.strip()[:MAX_CHARS], document)] = None
            case _:
                raise InvalidInput(
                    f"{path}, line {number} is no JSON object with a query and the id of a document.",
                    field="query_log",
                )
    if not found:
        raise InvalidInput(
            f"{path} is empty: there are no rows of {{query, document}}.", field="query_log"
        )
    return list(found)


def check(log: Sequence[Logged], ids: Collection[str]) -> None:
    """Raise InvalidInput if none of the queries leads to one of these documents."""
    if log and not any(one.document in ids for one in log):
        raise InvalidInput(
            f"None of the {len(log):,} queries leads to a document of this corpus; the first names "
            f"{log[0].document[:200]!r}. Documents are named by their ids, as hits have them (document_id).",
            field="query_log",
        )


def save(
    directory: Path,
    log: Sequence[Logged],
    rows: Mapping[str, int],
    encoder: TextEncoder,
    known: Mapping[str, Vectors],
    progress: Callable[[int, int], None],
) -> int:
    """Write what of the `log` leads to one of the documents, whose `rows` are given by id; returns how much that is.

    `known` has vectors of queries that need not be encoded again; `progress` is told how many are done, of how many.
    """
    kept = sorted((rows[one.document], one.query) for one in log if one.document in rows)
    new = [query for query in dict.fromkeys(query for _, query in kept) if query not in known]
    done = 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        progress(done, len(new))

    vectors = dict(known) | dict(
        zip(new, encoder.encode(new, role="query", progress=advance), strict=True)
    )
    np.save(directory / VECTORS, np.stack([vectors[query] for _, query in kept]).astype(np.float16))
    np.save(directory / DOCUMENTS, np.array([row for row, _ in kept], dtype=np.int64))
    (directory / TEXTS).write_text(json.dumps([query for _, query in kept]), encoding="utf-8")
    return len(kept)


def encoded(directory: Path) -> dict[str, Vectors]:
    """Query -> vector of what `save` wrote there; nothing if it did not."""
    if not (directory / VECTORS).is_file():
        return {}
    texts = json.loads((directory / TEXTS).read_text(encoding="utf-8"))
    return dict(zip(texts, np.load(directory / VECTORS), strict=True))


class QueryLog:
    """Unit vectors of earlier queries (m, dim), the rows (m,) of the documents they led to, ascending, and `texts`."""

    def __init__(
        self, vectors: NDArray[Any], documents: NDArray[np.int64], texts: Sequence[str]
    ) -> None:
        self._vectors = np.asarray(vectors, dtype=np.float32)
        self._starts = np.flatnonzero(np.diff(documents, prepend=-1))
        self._documents = documents[self._starts]
        self._ends = np.append(self._starts[1:], len(documents))
        self._texts = [text[:SHOWN] for text in texts]

    @classmethod
    def load(cls, directory: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> QueryLog:
        """Read what `save` wrote into memory; `read` gives the content of a file."""
        texts = json.loads(read(directory / TEXTS))
        return cls(
            read_array(read(directory / VECTORS)), read_array(read(directory / DOCUMENTS)), texts
        )

    def nearness(self, query: Vectors, count: int) -> Vectors:
        """(count,) nearness in 0-1 of each of `count` documents to `query` (dim,); 0 where no earlier one led to it."""
        found = np.zeros(count, dtype=np.float32)
        cosines = np.maximum.reduceat(self._vectors @ query, self._starts)
        found[self._documents] = np.clip((cosines - FLOOR) / (1.0 - FLOOR), 0.0, 1.0)
        return found

    def nearest(self, query: Vectors, document: int) -> str:
        """The beginning of the earlier query that is nearest of those that led to the document of this row, if any."""
        at = int(np.searchsorted(self._documents, document))
        if at == len(self._documents) or self._documents[at] != document:
            return ""
        span = slice(int(self._starts[at]), int(self._ends[at]))
        return self._texts[span.start + int((self._vectors[span] @ query).argmax())]


def blend(scores: Vectors, nearness: Vectors) -> Vectors:
    """(n,) `scores` raised by the `nearness` (n,) of their documents."""
    return np.asarray(1.0 - (1.0 - scores) * (1.0 - BLEND * nearness), dtype=np.float32)
