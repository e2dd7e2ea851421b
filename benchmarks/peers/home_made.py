"""The service that people write themselves: sentence-transformers, FAISS and FastAPI.

    python home_made.py build TEXTS.jsonl VECTORS.npy OUT
    python home_made.py serve OUT CHECKPOINT PORT

Runs in an environment of its own and imports nothing of Purlin. It is written as well as such a
service can be: queries that wait are encoded as one batch, on one thread that owns the model, and
the index is HNSW above 20,000 texts. `ef` is set so that its recall@10 beside exact search is
reported, not assumed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import faiss
import numpy as np

MAX_BATCH = 32
EXACT_TEXTS = 20_000
HNSW_LINKS, HNSW_BUILD, HNSW_SEARCH = 32, 200, 128


def build(texts: Path, vectors: Path, out: Path) -> None:
    """Write the index and copy the documents."""
    out.mkdir(parents=True, exist_ok=True)
    matrix = np.load(vectors).astype(np.float32)

    if len(matrix) <= EXACT_TEXTS:
        index = faiss.IndexFlatIP(matrix.shape[1])
    else:
        index = faiss.IndexHNSWFlat(matrix.shape[1], HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = HNSW_BUILD
        index.hnsw.efSearch = HNSW_SEARCH

    index.add(matrix)
    faiss.write_index(index, str(out / "index.faiss"))
    (out / "documents.jsonl").write_bytes(texts.read_bytes())


class Searcher:
    """Encodes and searches on one thread; requests that wait meanwhile form the next batch."""

    def __init__(self, directory: Path, checkpoint: Path) -> None:
        from sentence_transformers import SentenceTransformer

        self._model = SentenceTransformer(str(checkpoint), device="cpu")
        self._index = faiss.read_index(str(directory / "index.faiss"))
        with (directory / "documents.jsonl").open(encoding="utf-8") as lines:
            self._documents = [json.loads(line) for line in lines]
        self._queue: asyncio.Queue[tuple[str, int, asyncio.Future[Any]]] = asyncio.Queue()

    async def search(self, query: str, k: int) -> list[dict[str, Any]]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._queue.put((query, k, future))
        return await future

    async def work(self) -> None:
        """Answer batches until cancelled."""
        while True:
            batch = [await self._queue.get()]
            while len(batch) < MAX_BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())

            queries = [query for query, _, _ in batch]
            results = await asyncio.to_thread(self._answer, queries, max(k for _, k, _ in batch))
            for (_, k, future), hits in zip(batch, results, strict=True):
                if not future.cancelled():
                    future.set_result(hits[:k])

    def _answer(self, queries: list[str], k: int) -> list[list[dict[str, Any]]]:
        vectors = self._model.encode(queries, normalize_embeddings=True, show_progress_bar=False)
        scores, rows = self._index.search(vectors, k)
        return [
            [
                self._documents[row] | {"score": float(score)}
                for score, row in zip(*pair, strict=True)
            ]
            for pair in zip(scores, rows, strict=True)
        ]


def serve(directory: Path, checkpoint: Path, port: int) -> None:
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    searcher = Searcher(directory, checkpoint)

    class Query(BaseModel):
        query: str
        k: int = 10

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> Any:
        task = asyncio.create_task(searcher.work())
        yield
        task.cancel()

    app = FastAPI(lifespan=lifespan)

    # Without postponed annotations FastAPI could not see a class of this function.
    async def search(query):  # type: ignore[no-untyped-def]
        return {"hits": await searcher.search(query.query, query.k)}

    search.__annotations__ = {"query": Query}
    app.post("/search")(search)

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "build":
        build(*map(Path, arguments))
    else:
        serve(Path(arguments[0]), Path(arguments[1]), int(arguments[2]))
