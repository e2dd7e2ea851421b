"""Hard negatives: passages that the current model ranks highest, other than the right ones.

Every process encodes its share of the passages, then searches for its share of the queries. The
shares are exchanged as files, on the disk that all processes see. Collective operations have a
time-out, which hours of encoding would exceed; waiting for a file has none.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor

from purlin.index.encoder import Vectors
from purlin.index.search.arrays import Rows
from purlin.index.storage import atomic_write
from purlin.training.data.pairs.pair import Pair
from purlin.training.loop.checkpoints import storing
from purlin.training.models.encoding import encode
from purlin.training.models.text_model import TextModel

# Results beyond the depth, since some of the best are no negatives.
_SPARE_RESULTS = 10

# Queries and passages whose scores are computed at once: 16 million scores, 64 MB.
_QUERIES_AT_ONCE = 1024
_PASSAGES_AT_ONCE = 16_384

_POLL_SECONDS = 0.2


def candidate_passages(pairs: Sequence[Pair]) -> list[str]:
    """Return the texts that rows of mined negatives count: all passages, then other negatives.

    Row i is the passage of pair i. The labelled negatives of all pairs follow, each once, as far as
    they are no pair's passage: what people judged irrelevant to one query can be hard for another.
    """
    passages = [pair.passage for pair in pairs]
    pair_passages = set(passages)
    negatives = dict.fromkeys(text for pair in pairs for text in pair.negatives)
    return [*passages, *(text for text in negatives if text not in pair_passages)]


def mine(
    text_model: TextModel,
    pairs: Sequence[Pair],
    path: Path,
    *,
    depth: int,
    accelerator: Accelerator,
) -> None:
    """Write to `path` the rows (len(pairs), depth), int32, of each pair's hard negatives.

    They are the rows of `candidate_passages` that rank highest for its query by inner product, by
    exhaustive search. Passages of any pair with an equal query are not negatives. If fewer than
    `depth` remain, they are repeated; if none does, the pair stands for itself, which the loss
    leaves out.

    All processes call it at once, and return when the file exists. Raises StorageFailed.
    """
    parts = path.with_name(f".{path.name}.parts")
    if accelerator.is_main_process:
        # What a killed run left would be taken for that of this one.
        shutil.rmtree(parts, ignore_errors=True)
        with storing(path.parent):
            path.unlink(missing_ok=True)
            parts.mkdir(parents=True)
    accelerator.wait_for_everyone()

    candidates = candidate_passages(pairs)
    rows = _distinct(candidates)
    passages = _encoded_together(text_model, [candidates[row] for row in rows], parts, accelerator)
    _save(
        _mined(text_model, pairs, passages, rows, depth, accelerator), parts, "mined", accelerator
    )

    if accelerator.is_main_process:
        whole = _interleaved(_wait_for(parts, "mined", accelerator))
        with storing(path.parent), atomic_write(path) as stream:
            np.save(stream, whole)
        shutil.rmtree(parts, ignore_errors=True)

    while not path.is_file():
        time.sleep(_POLL_SECONDS)
    accelerator.wait_for_everyone()


def _distinct(texts: Sequence[str]) -> Rows:
    """Return the row where each different text comes first: copies are encoded once."""
    first_rows: dict[str, int] = {}
    for row, text in enumerate(texts):
        first_rows.setdefault(text, row)
    return np.array(list(first_rows.values()), dtype=np.int64)


def _encoded_together(
    text_model: TextModel, texts: Sequence[str], parts: Path, accelerator: Accelerator
) -> NDArray[np.float16]:
    """Return the vectors (len(texts), D) of passages, of which each process encodes its share."""
    share = texts[accelerator.process_index :: accelerator.num_processes]
    max_tokens = text_model.settings.max_passage_tokens
    vectors = encode(text_model, share, max_tokens, accelerator)
    _save(vectors.astype(np.float16), parts, "passages", accelerator)
    return _interleaved(_wait_for(parts, "passages", accelerator)).astype(np.float16, copy=False)


def _save(array: NDArray[np.generic], parts: Path, name: str, accelerator: Accelerator) -> None:
    """Write this process's part, under a name that others see when it is complete."""
    path = parts / f"{name}-{accelerator.process_index}.npy"
    with storing(parts.parent), atomic_write(path, durable=False) as stream:
        np.save(stream, array)


def _wait_for(parts: Path, name: str, accelerator: Accelerator) -> list[Path]:
    """Return the files of all processes when they exist; a launcher ends us if one of them dies."""
    paths = [parts / f"{name}-{process}.npy" for process in range(accelerator.num_processes)]
    while not all(path.is_file() for path in paths):
        time.sleep(_POLL_SECONDS)
    return paths


def _interleaved(paths: Sequence[Path]) -> NDArray[np.generic]:
    """Join the parts of processes, of which each took every n-th row."""
    arrays = [np.load(path, mmap_mode="r") for path in paths]
    whole = np.empty((sum(map(len, arrays)), *arrays[0].shape[1:]), arrays[0].dtype)
    for process, array in enumerate(arrays):
        whole[process :: len(arrays)] = array
    return whole


def _mined(
    text_model: TextModel,
    pairs: Sequence[Pair],
    passages: NDArray[np.float16],
    rows: Rows,
    depth: int,
    accelerator: Accelerator,
) -> NDArray[np.int32]:
    """Return the mined rows (n, depth) of this process's share of the pairs."""
    own_pairs = range(len(pairs))[accelerator.process_index :: accelerator.num_processes]
    texts = [pairs[row].queries[0] for row in own_pairs]
    max_tokens = text_model.settings.max_query_tokens
    queries = encode(text_model, texts, max_tokens, accelerator, "query")
    hits = best_rows(queries, passages, depth + _SPARE_RESULTS, accelerator.device)

    relevant = _passages_by_query(pairs)
    candidates = candidate_passages(pairs)
    mined = np.empty((len(own_pairs), depth), dtype=np.int32)
    for number, own in enumerate(own_pairs):
        right = {text for query in pairs[own].queries for text in relevant[query]}
        ranked = rows[hits[number]].tolist()
        kept = [row for row in ranked if candidates[row] not in right]
        mined[number] = list(islice(cycle(kept or [own]), depth))
    return mined


def _passages_by_query(pairs: Sequence[Pair]) -> dict[str, set[str]]:
    """Map each query to all the passages that belong to it, in whatever pair they come."""
    passages: defaultdict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        for query in pair.queries:
            passages[query].add(pair.passage)
    return passages


def best_rows(
    queries: Vectors, passages: NDArray[np.floating], depth: int, device: torch.device
) -> Rows:
    """Return the rows (n, depth or fewer) of the passages with the highest inner products.

    `queries` (n, D), `passages` (P, D). Exhaustive; only a block of the scores exists at a time.
    """
    depth = min(depth, len(passages))
    scores = torch.full((len(queries), depth), -torch.inf)
    rows = torch.zeros((len(queries), depth), dtype=torch.int64)

    for first in range(0, len(passages), _PASSAGES_AT_ONCE):
        # Converted once for all queries.
        block = np.asarray(passages[first : first + _PASSAGES_AT_ONCE], dtype=np.float32)
        block_passages = torch.from_numpy(block).to(device).T

        for start in range(0, len(queries), _QUERIES_AT_ONCE):
            part = slice(start, start + _QUERIES_AT_ONCE)
            products = torch.from_numpy(queries[part]).to(device) @ block_passages
            new_scores, new_rows = products.topk(min(depth, products.shape[1]))
            scores[part], rows[part] = _merged(
                torch.cat([scores[part], new_scores.cpu()], dim=1),
                torch.cat([rows[part], new_rows.cpu() + first], dim=1),
                depth,
            )
    return rows.numpy()


def _merged(scores: Tensor, rows: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """Return the best `depth` columns, best first; of equal scores that of the lower row."""
    by_row = rows.argsort(dim=1)
    scores, rows = scores.gather(1, by_row), rows.gather(1, by_row)
    best = scores.argsort(dim=1, descending=True, stable=True)[:, :depth]
    return scores.gather(1, best), rows.gather(1, best)
