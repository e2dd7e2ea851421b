"""How a build lies in Milvus: two collections, and rows that are found by arithmetic.

    purlin_NAME_STAMP           a passage per row: vector, term weights, `values` and `ranges`
    purlin_NAME_STAMP_records   documents in chunks of text, the vocabulary, and the build's files
    purlin_NAME                 alias of the active build's passages

The primary key of a passage is its document times 2**20 plus its number, and that of a document's
chunk its document times 2**12 plus the chunk. A document is its ordinal times four, plus one if its
role counts less, plus two if it is the code outside of a file's definitions. Negative keys hold the
vocabulary, in buckets by the hash of a token, and files. Milvus 2.3 wants a vector in every
collection: that of a record is a constant.

The records below `DESCRIPTION` are written last and describe the build: collections without them
are unfinished. (Server 2.3 forgets the properties of collections, and its list of aliases, when it
is restarted.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from purlin.index.engines.fields import MAX_VALUES, RANGES, VALUES, hashed
from purlin.index.engines.milvus import Milvus
from purlin.index.records import Document, Kind, Location, Passage, Span
from purlin.index.search.arrays import Rows

ROW, DENSE, SPARSE = "row", "dense", "sparse"
TEXT, CHUNKS, PASSAGES = "text", "chunks", "passages"
ID_HASH, TITLE_HASH, PATH_HASH = "id_hash", "title_hash", "path_hash"
TITLE, PATH, ID = "title", "path", "document_id"
# Among the ranges of a passage; those of fields have longer names.
LENGTH = "length"
HASHES = (ID_HASH, TITLE_HASH, PATH_HASH)
# Milvus returns no more rows of one search or query.
MAX_REPLY_ROWS = 16_384
MAX_PASSAGES, MAX_CHUNKS = 2**20, 2**12
SECONDARY, MODULE, FLAGS = 1, 2, 4
# Bytes of UTF-8; Milvus takes 65,535 in one text.
CHUNK_BYTES = 60_000
TOKENS_PER_BUCKET = 128
FIRST_FILE, DESCRIPTION = -(2**40), -(2**41)
_CONSTANT = [1.0, 0.0]
# Up to so many passages, all vectors are compared.
EXACT_PASSAGES = 30_000
_STAMP = r"\d{8}t\d{12}_[0-9a-f]{6}"


# ---- names


def alias(name: str) -> str:
    """Alias of a corpus's active build."""
    # Milvus does not allow hyphens, and no corpus's name has capitals.
    return f"purlin_{name.replace('-', 'H')}"


def corpus_of(collection: str) -> str | None:
    """Corpus that a collection of passages is of; None for any other collection."""
    match = re.fullmatch(rf"purlin_(.+)_{_STAMP}", collection)
    return match[1].replace("H", "-") if match else None


def new_collection(name: str) -> str:
    """Name for a build's passages; those of a corpus sort by the time of the build."""
    return f"{alias(name)}_{datetime.now(UTC):%Y%m%dt%H%M%S%f}_{token_hex(3)}"


def records_of(collection: str) -> str:
    """Name of the records that belong to a collection of passages."""
    return f"{collection}_records"


# ---- rows


def documents_of(rows: Rows) -> Rows:
    """Document of each passage."""
    return rows // MAX_PASSAGES


def bucket_of(token: str, buckets: int) -> int:
    """Key of the record with a token's number and document frequency."""
    return -1 - hashed(token) % buckets


def one_of(name: str, numbers: Sequence[int] | Rows) -> str:
    """Expression: the column has one of these numbers."""
    return f"{name} in [{', '.join(map(str, map(int, numbers)))}]"


# ---- collections


def create_passages(milvus: Milvus, collection: str, dim: int) -> None:
    """Create the collection of passages."""
    from pymilvus import DataType

    schema = _schema()
    schema.add_field(DENSE, DataType.FLOAT_VECTOR, dim=dim)
    if milvus.has_sparse:
        schema.add_field(SPARSE, DataType.SPARSE_FLOAT_VECTOR)
    milvus.call("create_collection", collection, schema=schema)


def create_records(milvus: Milvus, collection: str) -> None:
    """Create the collection of records."""
    from pymilvus import DataType

    schema = _schema()
    schema.add_field(DENSE, DataType.FLOAT_VECTOR, dim=len(_CONSTANT))
    for name in (CHUNKS, PASSAGES, *HASHES):
        schema.add_field(name, DataType.INT64)
    for name in (TEXT, TITLE, PATH, ID):
        schema.add_field(name, DataType.VARCHAR, max_length=65_535)
    milvus.call("create_collection", records_of(collection), schema=schema)


def _schema() -> Any:
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field(ROW, DataType.INT64, is_primary=True)
    schema.add_field(VALUES, DataType.ARRAY, element_type=DataType.INT64, max_capacity=MAX_VALUES)
    schema.add_field(RANGES, DataType.JSON)
    return schema


def index_passages(milvus: Milvus, collection: str, passages: int) -> dict[str, Any]:
    """Index and load the passages; returns the type and the parameters of the dense index."""
    exact = passages <= EXACT_PASSAGES
    kind = "FLAT" if exact else "HNSW"
    params = {} if exact else {"M": 16, "efConstruction": 200}
    indexes: list[dict[str, Any]] = [
        {"field_name": DENSE, "index_type": kind, "metric_type": "IP", "params": params}
    ]

    if milvus.has_sparse:
        sparse = {"field_name": SPARSE, "index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP"}
        indexes.append(sparse)

    _index(milvus, collection, indexes)
    return {"index": kind, **params}


def index_records(milvus: Milvus, collection: str) -> None:
    """Index and load the records."""
    indexes: list[dict[str, Any]] = [
        {"field_name": DENSE, "index_type": "FLAT", "metric_type": "IP"}
    ]
    if not milvus.is_lite:
        kind = "INVERTED" if milvus.has_sparse else "STL_SORT"
        indexes += [{"field_name": name, "index_type": kind} for name in HASHES]
    _index(milvus, records_of(collection), indexes)


def _index(milvus: Milvus, collection: str, indexes: list[dict[str, Any]]) -> None:
    from pymilvus import MilvusClient

    milvus.call("flush", collection, slow=True)
    params = MilvusClient.prepare_index_params()
    for index in indexes:
        params.add_index(**index)
    milvus.call("create_index", collection, params, slow=True)
    milvus.call("load_collection", collection, slow=True)


# ---- records


def record(row: int, text: str, **columns: Any) -> dict[str, Any]:
    """A row of the records' collection."""
    empty = {CHUNKS: 0, PASSAGES: 0, TITLE: "", PATH: "", ID: "", VALUES: [], RANGES: {}}
    hashes = dict.fromkeys(HASHES, 0)
    return {ROW: row, TEXT: text, DENSE: _CONSTANT, **empty, **hashes, **columns}


def chunks(text: str) -> Iterator[str]:
    """Cut a text into parts that Milvus takes; one at least."""
    content = text.encode()
    start = 0

    while True:
        end = start + CHUNK_BYTES
        # Not within a character.
        while end < len(content) and content[end] & 0xC0 == 0x80:
            end -= 1

        yield content[start:end].decode()
        start = end
        if start >= len(content):
            return


def pack(document: Document, passages: Sequence[Passage]) -> str:
    """A document with its passages as JSON."""
    values = asdict(document)
    # Milvus takes no regular expressions, which alone find the lines around.
    del values["kind"], values["around"]
    spans = [(item.number, item.start, item.end, item.context) for item in passages]
    return json.dumps(values | {"passages": spans}, ensure_ascii=False, separators=(",", ":"))


def unpack(text: str, kind: Kind) -> tuple[Document, tuple[Passage, ...]]:
    """Return what `pack` packed."""
    values = json.loads(text)
    spans = values.pop("passages")
    document = Document(
        **values
        | {
            "kind": kind,
            "context": tuple(values["context"]),
            "location": Location(**values["location"]),
            "fields": {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in values["fields"].items()
            },
            "atoms": tuple(Span(**span) for span in values["atoms"]),
        }
    )

    return document, tuple(Passage(document.id, *span) for span in spans)
