"""Hard negatives: passages that the current model ranks highest, other than the right one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from accelerate import Accelerator

from purlin.index.search import dense
from purlin.training.data.pairs import Pair
from purlin.training.dev import encode
from purlin.training.loop import storing
from purlin.training.model import TextModel

# Results beyond the depth, since some of the best are no negatives.
_SPARE_RESULTS = 10


def mine(
    text_model: TextModel,
    pairs: Sequence[Pair],
    path: Path,
    *,
    depth: int,
    accelerator: Accelerator,
) -> None:
    """Write to `path` the rows (len(pairs), depth), int32, of each pair's hard negatives.

    They are the pairs whose passages rank highest for its query in `purlin.index.search.dense`, the
    search of the server. The pair's own passage, copies of it and passages of an equal query are
    not negatives. If fewer than `depth` remain, they are repeated; if none does, the pair stands
    for itself, which the loss leaves out. Raises StorageFailed.
    """
    # Copies of a passage are encoded once, as the row where it comes first.
    first_rows: dict[str, int] = {}
    for row, pair in enumerate(pairs):
        first_rows.setdefault(pair.passage, row)
    rows = np.array(list(first_rows.values()), dtype=np.int32)

    settings = text_model.settings
    passages = encode(
        text_model, [pairs[row].passage for row in rows], settings.max_passage_tokens, accelerator
    )
    query_texts = [pair.queries[0] for pair in pairs]
    queries = encode(text_model, query_texts, settings.max_query_tokens, accelerator, "query")

    with tempfile.TemporaryDirectory() as directory:
        np.save(Path(directory) / "vectors.npy", passages.astype(np.float16))
        dense.build_index(Path(directory))
        index = dense.VectorSegment.load(Path(directory))
        hits = [index.search(query, depth + _SPARE_RESULTS)[0] for query in queries]

    mined = [
        _negatives(pairs, own, rows[passage_hits].tolist(), depth)
        for own, passage_hits in enumerate(hits)
    ]

    # Renamed at the end, so that a run that was killed leaves no partial file.
    new = path.with_name(f".{path.name}")
    with storing(path.parent):
        np.save(new, np.array(mined, dtype=np.int32))
        new.rename(path)


def _negatives(pairs: Sequence[Pair], own: int, candidates: Sequence[int], depth: int) -> list[int]:
    passage, queries = pairs[own].passage, {*pairs[own].queries}
    kept = [
        row
        for row in candidates
        if pairs[row].passage != passage and queries.isdisjoint(pairs[row].queries)
    ]
    return list(islice(cycle(kept or [own]), depth))
