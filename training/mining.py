"""Hard negatives: the passages that the model at hand takes for the best answers, other than the right one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from accelerate import Accelerator

from index.search import dense
from training.data.pairs import Pair
from training.dev import encode
from training.loop import storing
from training.model import TextModel


def mine(
    text_model: TextModel,
    pairs: Sequence[Pair],
    path: Path,
    *,
    depth: int,
    accelerator: Accelerator,
) -> None:
    """Write to `path` rows (len(pairs), depth) int32: for each pair, others whose passages its query finds best.

    Searched through `index.search.dense`, as the server does. A pair's own passage, a copy of it,
    and passages of an equal query are no negatives. Where fewer than `depth` remain they are
    repeated; where none does, the pair stands for itself, which the loss leaves out. Raises StorageFailed.
    """
    settings = text_model.settings
    first: dict[str, int] = {}
    for row, pair in enumerate(pairs):
        first.setdefault(pair.passage, row)
    rows = np.array(list(first.values()), dtype=np.int32)
    passages = encode(
        text_model, [pairs[row].passage for row in rows], settings.max_passage_tokens, accelerator
    )
    asked = [pair.queries[0] for pair in pairs]
    queries = encode(text_model, asked, settings.max_query_tokens, accelerator, "query")
    with tempfile.TemporaryDirectory() as work:
        np.save(Path(work) / "vectors.npy", passages.astype(np.float16))
        dense.build_index(Path(work))
        nearest = dense.Dense.load(Path(work))
        found = [rows[nearest.search(query, depth + 10)[0]].tolist() for query in queries]
    mined = [_others(pairs, row, candidates, depth) for row, candidates in enumerate(found)]
    new = path.with_name(f".{path.name}")
    with storing(path.parent):
        np.save(new, np.array(mined, dtype=np.int32))
        new.rename(path)


def _others(pairs: Sequence[Pair], own: int, candidates: Sequence[int], depth: int) -> list[int]:
    passage, queries = pairs[own].passage, {*pairs[own].queries}
    kept = [
        row
        for row in candidates
        if pairs[row].passage != passage and queries.isdisjoint(pairs[row].queries)
    ]
    return list(islice(cycle(kept or [own]), depth))
