"""Hard negatives: the passages that the model at hand takes for the best answers, other than the right one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from accelerate import Accelerator

from index import dense
from training.dev import encode
from training.model import TextModel
from training.pairs import Pair


def mine(text_model: TextModel, pairs: Sequence[Pair], path: Path, *, depth: int, accelerator: Accelerator) -> None:
    """Write to `path` rows (len(pairs), depth) int32: for each pair, others whose passages its query finds best.

    Searched through `index.dense`, as the server does. A pair's own passage, a copy of it, and passages of an equal
    query are no negatives. Where fewer than `depth` remain they are repeated.
    """
    settings = text_model.settings
    first: dict[str, int] = {}
    for row, pair in enumerate(pairs):
        first.setdefault(pair.passage, row)
    rows = np.array(list(first.values()), dtype=np.int32)
    passages = encode(text_model, [pairs[row].passage for row in rows], settings.max_passage_tokens, accelerator)
    queries = encode(text_model, [pair.queries[0] for pair in pairs], settings.max_query_tokens, accelerator)
    with tempfile.TemporaryDirectory() as work:
        np.save(Path(work) / "vectors.npy", passages.astype(np.float16))
        dense.save(Path(work))
        nearest = dense.Dense.load(Path(work))
        found = [rows[nearest.search(query, depth + 10)[0]].tolist() for query in queries]
    mined = [_others(pairs, pair, candidates, depth) for pair, candidates in zip(pairs, found, strict=True)]
    new = path.with_name(f".{path.name}")
    with new.open("wb") as stream:
        np.save(stream, np.array(mined, dtype=np.int32))
    new.rename(path)


def _others(pairs: Sequence[Pair], pair: Pair, candidates: Sequence[int], depth: int) -> list[int]:
    kept = [
        int(row)
        for row in candidates
        if pairs[row].passage != pair.passage and not {*pair.queries} & {*pairs[row].queries}
    ]
    kept = kept or [candidates[-1]]
    return [kept[number % len(kept)] for number in range(depth)]
