"""The contracts of `purlin.index.search.contracts`, answered by Milvus.

What a search may return is an expression of Milvus. Scores are those of the vectors and term
weights as they were stored, so hits are those of a local build wherever both indexes are exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from purlin.index.distinct import sorted_distinct
from purlin.index.encoder import Vectors
from purlin.index.engines import layout
from purlin.index.engines.fields import RANGES, expression, hashed
from purlin.index.engines.milvus import Milvus
from purlin.index.errors import Damaged, EngineFailed, InvalidInput, no_document
from purlin.index.lookups import RecentlyUsed
from purlin.index.records import Document, Kind, Passage
from purlin.index.search.arrays import NO_ROWS, NO_SCORES, LexicalScores, Mask, Rows
from purlin.index.search.contracts import Details
from purlin.index.search.lexical.languages import Language
from purlin.index.search.lexical.tokens import distinct_tokens, tokens
from purlin.index.search.store.document_records import folded_title
from purlin.index.search.store.filters import FieldType, Filter, pattern_in
from purlin.index.search.store.segment_store import MAX_NAMED, StoredPassage
from purlin.index.texts.passages import path_text

# Keys in one expression.
_KEYS, _TEXTS = 4096, 256
_CACHED_TOKENS = 100_000


class Collection:
    """Searches and reads of the two collections of one build."""

    def __init__(self, milvus: Milvus, name: str) -> None:
        self.milvus = milvus
        self.name = name
        self.records = layout.records_of(name)

    def search(
        self, vector: Any, column: str, depth: int, allowed: str | None, *, slow: bool = False
    ) -> tuple[Rows, Vectors]:
        """Return rows and inner products of the best passages, best first, ties by row.

        A `slow` search has no time limit; see `Milvus.call`.
        """
        limit = min(depth, layout.MAX_REPLY_ROWS)
        # Searches a graph as far as is needed; other indexes ignore it.
        params = {"ef": max(limit, 128)} if column == layout.DENSE else {}

        hits = self.milvus.call(
            "search",
            self.name,
            [vector],
            filter=allowed or "",
            limit=limit,
            anns_field=column,
            search_params={"metric_type": "IP", "params": params},
            consistency_level="Bounded",
            slow=slow,
        )[0]

        rows = np.array([_key(hit) for hit in hits], dtype=np.int64)
        scores = np.array([hit["distance"] for hit in hits], dtype=np.float32)
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order]

    def query(self, collection: str, condition: str, columns: list[str]) -> list[dict[str, Any]]:
        """Return columns of the rows that fulfil a condition, in the order of their keys."""
        rows: list[dict[str, Any]] = self.milvus.call(
            "query",
            collection,
            filter=condition,
            output_fields=[layout.ROW, *columns],
            limit=layout.MAX_REPLY_ROWS,
            consistency_level="Bounded",
        )
        return sorted(rows, key=lambda row: int(row[layout.ROW]))

    def rows(
        self,
        collection: str,
        keys: Iterable[int],
        columns: list[str],
        also: str = "",
        *,
        key: str = layout.ROW,
    ) -> Iterator[dict[str, Any]]:
        """Yield columns of the rows whose `key` is one of `keys`, and that fulfil the condition `also`."""
        distinct = sorted(set(map(int, keys)))
        # A reply has a limit, too, and a text may have 60 kB.
        step = _TEXTS if layout.TEXT in columns else _KEYS
        for start in range(0, len(distinct), step):
            condition = layout.one_of(key, distinct[start : start + step])
            condition = f"{condition} and ({also})" if also else condition
            yield from self.query(collection, condition, columns)

    def of_passages(self, rows: Rows, column: str) -> list[Any]:
        """Return a column of these passages, in their order. Raises Damaged if one is missing."""
        values = {int(row[layout.ROW]): row[column] for row in self.rows(self.name, rows, [column])}
        if len(values) < len(sorted_distinct(rows)):
            raise _incomplete(self)
        return [values[row] for row in rows.tolist()]

    def count(self, condition: str) -> int:
        """Count the records that fulfil a condition."""
        return self._count(self.records, filter=condition, consistency_level="Bounded")

    def count_passages(self) -> int:
        """Count all passages, also those that were written just now."""
        return self._count(self.name, filter="", consistency_level="Strong", slow=True)

    def _count(self, collection: str, **options: Any) -> int:
        counted = self.milvus.call("query", collection, output_fields=["count(*)"], **options)
        return int(counted[0]["count(*)"])


def _key(hit: Mapping[str, Any]) -> int:
    # Milvus Lite names it as the column, a server `id`.
    return int(hit["id"] if "id" in hit else hit[layout.ROW])


class MilvusDense:
    """The contract `DenseRetriever`."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def search(
        self, query: Vectors, depth: int, allowed: str | None = None
    ) -> tuple[Rows, Vectors]:
        """Return rows and cosines of the `depth` allowed passages nearest to `query` (dim,)."""
        return self._collection.search(query.astype(np.float32), layout.DENSE, depth, allowed)

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """Return the cosines (len(rows),) of `query` (dim,) with these passages."""
        if not len(rows):
            return NO_SCORES
        cosines: Vectors = np.vecdot(self._vectors(rows), query)
        return cosines

    def mean(self, rows: Rows) -> Vectors:
        """Return the unit vector (dim,) between the vectors of these passages."""
        total: Vectors = self._vectors(rows).sum(axis=0)
        return total / max(float(np.linalg.norm(total)), 1e-12)

    def _vectors(self, rows: Rows) -> Vectors:
        """Vectors (len(rows), dim) of these passages."""
        return np.array(self._collection.of_passages(rows, layout.DENSE), dtype=np.float32)


class MilvusLexical:
    """The contract `LexicalRetriever`: BM25 with the weights that the build stored.

    `passages` counts them, `buckets` those of the vocabulary. `language` is that of the passages.
    """

    def __init__(
        self, collection: Collection, passages: int, buckets: int, language: Language
    ) -> None:
        self.language = language
        self._collection = collection
        self._passages, self._buckets = passages, buckets
        # Token -> its number and document frequency.
        self._tokens: RecentlyUsed[str, tuple[int, int]] = RecentlyUsed(_CACHED_TOKENS)

    def corrected(self, query: str) -> str:
        """Return the query as it is: the vocabulary, in hashed buckets, tells no near words."""
        return query

    def weights(self, query: str, *, with_absent: bool = True) -> dict[str, float]:
        """Map each distinct token of the query to its idf, those that no passage has if `with_absent`."""
        distinct = list(dict.fromkeys(tokens(query, self.language)))
        entries = self._entries(distinct)
        return {
            token: float(np.log1p((self._passages - df + 0.5) / (df + 0.5)))
            for token, (_, df) in zip(distinct, entries, strict=True)
            if df or with_absent
        }

    def search(
        self, weights: Mapping[str, float], depth: int, allowed: str | None = None
    ) -> tuple[Rows, LexicalScores]:
        """Return rows and scores of the `depth` best allowed passages with any of the tokens."""
        vector = self._vector(weights)
        if not vector:
            return NO_ROWS, NO_SCORES
        rows, scores = self._collection.search(vector, layout.SPARSE, depth, allowed)
        return rows[scores > 0], scores[scores > 0]

    def scores(self, weights: Mapping[str, float], rows: Rows) -> LexicalScores:
        """Return the scores (len(rows),) of these passages, 0 for one without any of the tokens."""
        matches: dict[int, float] = {}
        vector = self._vector(weights)
        distinct = sorted_distinct(rows)

        for start in range(0, len(distinct) if vector else 0, _KEYS):
            keys = distinct[start : start + _KEYS]
            condition = layout.one_of(layout.ROW, keys)
            matching = self._collection.search(vector, layout.SPARSE, len(keys), condition)
            matches |= dict(zip(*(values.tolist() for values in matching), strict=True))

        scores = [matches.get(row, 0.0) for row in rows.tolist()]
        return np.array(scores, dtype=np.float32)

    def matching(self, weights: Mapping[str, float], allowed: str | None = None) -> Rows:
        """Return allowed rows with any of the tokens, in ascending order; at most 16,384."""
        rows, _ = self.search(weights, layout.MAX_REPLY_ROWS, allowed)
        return np.sort(rows)

    def explain(self, weights: Mapping[str, float], rows: Rows) -> list[dict[str, float]]:
        """Map, for each of these passages, each token that adds to its score to what it adds."""
        vector = self._vector(weights)
        columns = [layout.ROW, layout.SPARSE]
        stored = self._collection.rows(self._collection.name, rows, columns) if vector else ()
        saturations_of = {int(each[layout.ROW]): each[layout.SPARSE] for each in stored}

        numbers = [number for number, _ in self._entries(list(weights))]
        return [
            {
                token: vector[number] * float(saturations[number])
                for token, number in zip(weights, numbers, strict=True)
                if number in saturations and number in vector
            }
            for saturations in (saturations_of.get(row, {}) for row in rows.tolist())
        ]

    def _vector(self, weights: Mapping[str, float]) -> dict[int, float]:
        """Token number -> share of the query's weight, for tokens that some passage has."""
        if not weights:
            return {}

        if not self._collection.milvus.has_sparse:
            raise EngineFailed(
                f"Milvus {self._collection.milvus.version} has no sparse vectors, which lexical "
                "search needs; use dense search, or a server of version 2.4 or later."
            )

        total = sum(weights.values()) or 1.0
        entries = self._entries(list(weights))
        return {
            number: idf / total
            for (number, _), idf in zip(entries, weights.values(), strict=True)
            if number and idf > 0
        }

    def _entries(self, distinct_tokens: Sequence[str]) -> list[tuple[int, int]]:
        """Number and document frequency of each token, (0, 0) for one that no passage has."""
        cached = {token: self._tokens.get(token) for token in distinct_tokens}
        read = self._read([token for token, entry in cached.items() if entry is None])
        return [cached[token] or read[token] for token in distinct_tokens]

    def _read(self, missing: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Read the entries of tokens from their buckets, and cache them."""
        collection = self._collection
        keys = {layout.bucket_of(token, self._buckets) for token in missing}
        entries: dict[str, list[int]] = {}
        for row in collection.rows(collection.records, keys, [layout.TEXT]):
            entries |= json.loads(row[layout.TEXT])

        read: dict[str, tuple[int, int]] = {}
        for token in missing:
            number, df = entries.get(token, (0, 0))
            read[token] = (number, df)
            self._tokens.put(token, read[token])
        return read


def _no_patterns() -> InvalidInput:
    return InvalidInput(
        "Texts in Milvus cannot be compared with a regular expression; "
        "leave it out, or search a corpus on the server's disk.",
        field="filter.text.matches",
    )


class MilvusDocuments:
    """The contract `DocumentStore`, where `Allowed` is an expression of Milvus."""

    everything = None

    def __init__(
        self,
        collection: Collection,
        kind: Kind,
        field_types: Mapping[str, FieldType],
        lists: Mapping[str, int],
        *,
        has_files: bool,
    ) -> None:
        """`lists` maps the fields that are lists to their largest number of values."""
        self.field_types = field_types
        self.has_files = has_files
        self._collection = collection
        self._kind: Kind = kind
        self._lists = lists

    # ---- restrictions

    def allowed(self, conditions: Filter) -> str:
        """Return a filter as an expression. InvalidInput names a wrong field."""
        if pattern_in(conditions) is not None:
            raise _no_patterns()
        return expression(conditions, self.field_types, self._lists)

    def first_allowed(self, allowed: str) -> Rows:
        """Raise InvalidInput: what is listed without a query must match a regular expression."""
        raise _no_patterns()

    def count(self, allowed: str) -> int:
        """Count the documents that pass a filter."""
        # The further parts of a document, and what else is kept there, have no values to exclude.
        return self._collection.count(f"{layout.ROW} >= 0 and {layout.CHUNKS} > 0 and ({allowed})")

    def texts(self, field: str, most: int) -> Sequence[str]:
        """Milvus lists no values."""
        return ()

    def is_allowed(self, rows: Rows, allowed: str | None) -> Mask:
        """Tell of each passage (n,) whether it is allowed."""
        if allowed is None:
            return np.ones(len(rows), dtype=np.bool_)
        passing = self._collection.rows(self._collection.name, rows, [], allowed)
        return np.isin(rows, [int(row[layout.ROW]) for row in passing])

    # ---- rows

    def document_of(self, rows: Rows) -> Rows:
        """Return the document (n,) of each passage."""
        return layout.documents_of(rows)

    def passages_of(self, documents: Rows) -> Rows:
        """Return the rows of all passages of these documents, in ascending order."""
        return _passages(self._first_records(documents, [layout.PASSAGES]))

    def lengths(self, rows: Rows) -> Rows:
        """Return the length (n,) of each passage in characters."""
        ranges = self._collection.of_passages(rows, RANGES)
        return np.array([each[layout.LENGTH] for each in ranges], dtype=np.int64)

    def order(self, rows: Rows) -> Rows:
        """Return numbers (n,) that sort passages of equal score."""
        return rows

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Map those of the ids that exist to their documents."""
        distinct_ids = set(ids)
        return {
            row[layout.ID]: int(row[layout.ROW]) // layout.MAX_CHUNKS
            for row in self._hashed(layout.ID_HASH, distinct_ids, layout.ID)
            if row[layout.ID] in distinct_ids
        }

    def rows_named(self, name: str) -> Rows:
        """Return passages of the documents whose id or title is `name`; titles in any case."""
        title = folded_title(name)
        condition = f"{layout.ID_HASH} == {hashed(name)} or {layout.TITLE_HASH} == {hashed(title)}"
        columns = [layout.ID, layout.TITLE, layout.PASSAGES]

        records = [
            row
            for row in self._collection.query(self._collection.records, condition, columns)
            if row[layout.ID] == name or folded_title(row[layout.TITLE]) == title
        ]

        return _passages(records)[:MAX_NAMED]

    def rows_where(self, conditions: Filter, limit: int | None = None) -> Rows:
        """Return passages that pass a filter, in ascending order; at most the first `limit`."""
        allowed = self.allowed(conditions)
        records = self._collection.query(self._collection.records, allowed, [layout.PASSAGES])
        return _passages(records)[:limit]

    # ---- what documents are

    def secondary(self, documents: Rows) -> Mask:
        """Tell of each document (n,) whether its role counts less, as that of a test does."""
        return documents & layout.SECONDARY > 0

    def details(self, documents: Rows) -> Details:
        """Return what the ranking of a repository asks of these documents."""
        columns = [layout.TITLE, layout.PATH]
        records = {
            int(row[layout.ROW]) // layout.MAX_CHUNKS: row
            for row in self._first_records(documents, columns)
        }

        rows = [records[document] for document in documents.tolist()]
        titles = [row[layout.TITLE] for row in rows]
        paths = [row[layout.PATH] or None for row in rows]

        return Details(
            titles,
            paths,
            [distinct_tokens(title) for title in titles],
            [distinct_tokens(path_text(path or "")) for path in paths],
            self.secondary(documents),
            documents & layout.MODULE > 0,
        )

    def existing_paths(self, paths: Iterable[str]) -> set[str]:
        """Return those of the paths that some document's file has."""
        distinct_paths = set(paths)
        rows = self._hashed(layout.PATH_HASH, distinct_paths, layout.PATH)
        return {row[layout.PATH] for row in rows} & distinct_paths

    def document(self, document_id: str) -> Document:
        """Return the document with this id, whole. Raises NotFound."""
        row = self.rows_of([document_id]).get(document_id)
        if row is None:
            raise no_document(document_id)
        return self._documents([row])[row][0]

    def fetch(self, rows: Sequence[int]) -> list[StoredPassage]:
        """Return passages in the given order; those of one document share its object."""
        documents = self._documents([row // layout.MAX_PASSAGES for row in rows])
        passages = []
        for row in rows:
            document, spans = documents[row // layout.MAX_PASSAGES]
            number = row % layout.MAX_PASSAGES
            passages.append(StoredPassage(document, spans[number]))
        return passages

    def close(self) -> None:
        """Do nothing: the connection is shared by all corpora of this process."""

    # ---- records

    def _documents(
        self, documents: Sequence[int]
    ) -> dict[int, tuple[Document, Mapping[int, Passage]]]:
        """Documents and their passages by number."""
        columns = [layout.CHUNKS, layout.TEXT]
        texts: dict[int, str] = {}
        others: list[int] = []
        for record in self._first_records(np.array(documents, np.int64), columns):
            key = int(record[layout.ROW])
            texts[key] = record[layout.TEXT]
            others += range(key + 1, key + record[layout.CHUNKS])
        texts |= {
            int(record[layout.ROW]): record[layout.TEXT]
            for record in self._collection.rows(self._collection.records, others, [layout.TEXT])
        }

        parts: dict[int, list[str]] = {}
        for key in sorted(texts):
            parts.setdefault(key // layout.MAX_CHUNKS, []).append(texts[key])
        unpacked: dict[int, tuple[Document, Mapping[int, Passage]]] = {}
        for row, chunks in parts.items():
            document, passages = layout.unpack("".join(chunks), self._kind)
            unpacked[row] = (document, {passage.number: passage for passage in passages})
        return unpacked

    def _first_records(self, documents: Rows, columns: list[str]) -> list[dict[str, Any]]:
        """First record of each document, in the order of their keys."""
        distinct = sorted_distinct(documents)
        keys = (distinct * layout.MAX_CHUNKS).tolist()
        records = list(self._collection.rows(self._collection.records, keys, columns))
        if len(records) < len(distinct):
            raise _incomplete(self._collection)
        return records

    def _hashed(self, column: str, names: Iterable[str], name: str) -> Iterator[dict[str, Any]]:
        """Yield the documents whose hash in `column` is that of one of the names, with their `name`."""
        hashes = map(hashed, names)
        return self._collection.rows(self._collection.records, hashes, [name], key=column)


def _passages(records: Sequence[Mapping[str, Any]]) -> Rows:
    """Rows of all passages of documents, given by their first records, in ascending order."""
    rows = [
        np.arange(record[layout.PASSAGES], dtype=np.int64)
        + int(record[layout.ROW]) // layout.MAX_CHUNKS * layout.MAX_PASSAGES
        for record in records
    ]
    return np.concatenate([NO_ROWS, *rows])


def _incomplete(collection: Collection) -> Damaged:
    return Damaged(
        f"Collection {collection.name} in Milvus lacks rows that its build had; "
        "build the corpus again."
    )
