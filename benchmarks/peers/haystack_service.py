"""Haystack's hybrid pipeline behind FastAPI: in-memory store, embedding and BM25 retrievers.

    python haystack_service.py TEXTS.jsonl VECTORS.npy CHECKPOINT PORT

Runs in an environment of its own and imports nothing of Purlin. Both retrievers' lists are joined
by reciprocal rank, as in Haystack's tutorial of hybrid retrieval.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import (
    InMemoryBM25Retriever,
    InMemoryEmbeddingRetriever,
)
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.embedders.sentence_transformers import (
    SentenceTransformersTextEmbedder,
)
from pydantic import BaseModel


class Query(BaseModel):
    query: str
    k: int = 10


def pipeline(texts: Path, vectors: Path, checkpoint: Path) -> Pipeline:
    """Documents with the vectors that all contestants share; queries are encoded by Haystack."""
    store = InMemoryDocumentStore(embedding_similarity_function="dot_product")
    with texts.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    embeddings = np.load(vectors).astype(np.float32).tolist()
    store.write_documents(
        [
            Document(id=record["id"], content=record["text"], embedding=embedding)
            for record, embedding in zip(records, embeddings, strict=True)
        ]
    )

    hybrid = Pipeline()
    embedder = SentenceTransformersTextEmbedder(
        model=str(checkpoint), progress_bar=False, normalize_embeddings=True
    )
    hybrid.add_component("embedder", embedder)
    hybrid.add_component("dense", InMemoryEmbeddingRetriever(store, top_k=50))
    hybrid.add_component("bm25", InMemoryBM25Retriever(store, top_k=50))
    hybrid.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion"))
    hybrid.connect("embedder.embedding", "dense.query_embedding")
    hybrid.connect("dense", "joiner")
    hybrid.connect("bm25", "joiner")
    return hybrid


def main() -> None:
    texts, vectors, checkpoint, port = sys.argv[1:]
    hybrid = pipeline(Path(texts), Path(vectors), Path(checkpoint))
    app = FastAPI()

    @app.post("/search")
    def search(query: Query) -> dict[str, Any]:
        inputs = {"embedder": {"text": query.query}, "bm25": {"query": query.query}}
        documents = hybrid.run(inputs)["joiner"]["documents"][: query.k]
        return {
            "hits": [
                {"id": document.id, "text": document.content, "score": document.score}
                for document in documents
            ]
        }

    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
