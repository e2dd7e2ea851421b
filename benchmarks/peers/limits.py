"""Bare FAISS and bm25s on one thread, without a service: what a retriever alone can reach.

Beside them stand the same stages of Purlin's `/search`, as its replies tell them: they include what
a service needs besides scores, such as ids that are stable and verified reads.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import bm25s
import faiss
import numpy as np

from benchmarks.peers.contestants import DEPTH, Purlin
from benchmarks.peers.home_made import HNSW_BUILD, HNSW_LINKS, HNSW_SEARCH
from benchmarks.speed.corpora import Shared, judged_set, load_queries
from benchmarks.speed.load import Client
from benchmarks.speed.records import Records
from purlin.index.encoder import Vectors

QUERIES = 300
WARM_UP = 30

Search = Callable[[int], Sequence[int]]


def compare(scratch: Path, data: Path, corpus: str) -> None:
    """Median latency of each retriever, and recall@10 beside exact search of the same vectors."""
    shared = Shared(scratch, judged_set(corpus, data))
    shared.prepare()
    records = Records(scratch, "limits")
    queries = load_queries(data)[:QUERIES]
    faiss.omp_set_num_threads(1)

    vectors: Vectors = np.load(shared.vectors)
    query_vectors = shared.encoder().encode(queries, role="query")
    exact, flat = flat_search(vectors, query_vectors)
    for name, search in (("faiss-flat", flat), ("faiss-hnsw", hnsw_search(vectors, query_vectors))):
        milliseconds, rows = timed(search)
        recalls = [len(set(a) & set(b)) / DEPTH for a, b in zip(rows, exact, strict=True)]
        record = {"corpus": corpus, "contestant": name, "texts": len(vectors)}
        records.add(**record, p50_ms=milliseconds, recall=statistics.fmean(recalls))

    milliseconds, _ = timed(bm25_search(shared.texts, queries))
    records.add(corpus=corpus, contestant="bm25s", texts=len(vectors), p50_ms=milliseconds)
    for stage, value in purlin_stages(shared, queries).items():
        name = f"purlin-{stage}-stage"
        records.add(corpus=corpus, contestant=name, texts=len(vectors), p50_ms=value)


def timed(search: Search) -> tuple[float, list[Sequence[int]]]:
    """Median milliseconds of a query, and the rows of each."""
    for number in range(WARM_UP):
        search(number)

    milliseconds, rows = [], []
    for number in range(QUERIES):
        started = time.perf_counter()
        rows.append(search(number))
        milliseconds.append((time.perf_counter() - started) * 1000)
    return statistics.median(milliseconds), rows


def flat_search(vectors: Vectors, queries: Vectors) -> tuple[list[list[int]], Search]:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index.search(queries, DEPTH)[1].tolist(), faiss_search(index, queries)


def hnsw_search(vectors: Vectors, queries: Vectors) -> Search:
    index = faiss.IndexHNSWFlat(vectors.shape[1], HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = HNSW_BUILD
    index.hnsw.efSearch = HNSW_SEARCH
    index.add(vectors)
    return faiss_search(index, queries)


def faiss_search(index: faiss.Index, queries: Vectors) -> Search:
    return lambda number: index.search(queries[number : number + 1], DEPTH)[1][0].tolist()


def bm25_search(texts: Path, queries: Sequence[str]) -> Search:
    with texts.open(encoding="utf-8") as lines:
        contents = [json.loads(line)["text"] for line in lines]
    index = bm25s.BM25()
    index.index(bm25s.tokenize(contents, show_progress=False), show_progress=False)

    def search(number: int) -> list[int]:
        tokens = bm25s.tokenize(queries[number], show_progress=False)
        return index.retrieve(tokens, k=DEPTH, show_progress=False)[0][0].tolist()

    return search


def purlin_stages(shared: Shared, queries: Sequence[str]) -> dict[str, float]:
    """Median milliseconds of the stages `dense` and `lexical` of hybrid search."""
    contestant = Purlin(shared)
    timings: list[dict[str, float]] = []
    with contestant.serve() as running:
        client = Client(running.port)
        for query in queries:
            plain = contestant.request(query)
            request = replace(plain, body=dict(plain.body or {}) | {"explain": True})
            timings.append(json.loads(client.send(request)[1])["timings_ms"])
        client.close()

    stages = ("dense", "lexical")
    return {
        stage: statistics.median(timing[stage] for timing in timings[WARM_UP:]) for stage in stages
    }
