"""Candidate lists: for each query its passage and those that an exported encoder ranks nearest.

What is expensive, the mined rows and a teacher's scores, is computed once into files, in parts: a
run that was killed continues with the part that it was computing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder, Vectors
from purlin.training.data.pairs import Pair
from purlin.training.loop import digest, storing

PART = 512  # rows computed between two writes
Rows = NDArray[np.int32]
Floats = NDArray[np.float32]


def encoded(
    pairs: Sequence[Pair],
    encoder: TextEncoder,
    path: Path,
    *,
    max_chars: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Vectors, Vectors]:
    """Return the vectors (n, dim) of the pairs' first queries and of their passages, cut to
    `max_chars`, from the file `path` as far as they are in it.
    """

    def encode(rows: range) -> Floats:
        part = [pairs[row] for row in rows]
        queries = encoder.encode([pair.queries[0] for pair in part], role="query")
        passages = encoder.encode([pair.passage[:max_chars] for pair in part], role="passage")
        return np.concatenate([queries, passages], axis=1)

    vectors = computed_once(
        path,
        (len(pairs), 2 * encoder.dim),
        encode,
        key=(digest(pairs), encoder.fingerprint, max_chars),
        progress=progress,
    )
    return vectors[:, : encoder.dim], vectors[:, encoder.dim :]


def nearest(pairs: Sequence[Pair], queries: Vectors, passages: Vectors, depth: int) -> Rows:
    """Return the rows (n, depth) of the pairs whose passages are nearest to each query, nearest
    first.

    Pairs with the same passage or a query in common are no candidates of each other; a pair that
    has too few candidates repeats them, and one that has none stands for itself.
    """
    # Some of the nearest are copies, which do not count.
    deep = min(len(pairs), 2 * depth + 1)
    mined = np.empty((len(pairs), depth), dtype=np.int32)

    for start in range(0, len(pairs), PART):
        similarities = queries[start : start + PART] @ passages.T
        best = np.argpartition(-similarities, deep - 1, axis=1)[:, :deep]
        order = np.argsort(-np.take_along_axis(similarities, best, 1), axis=1, kind="stable")
        for own, rows in enumerate(np.take_along_axis(best, order, 1).tolist(), start):
            kept = [row for row in rows if _differs(pairs[own], pairs[row])] or [own]
            mined[own] = np.resize(kept[:depth], depth)
    return mined


def _differs(pair: Pair, other: Pair) -> bool:
    return pair.passage != other.passage and not {*pair.queries} & {*other.queries}


def computed_once(
    path: Path,
    shape: tuple[int, int],
    compute: Callable[[range], Floats],
    *,
    key: object,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Floats:
    """Return float32 `shape` from the file `path`, computing what it lacks.

    `compute` returns the rows (len(range), columns) of a range. The file holds the rows computed so
    far, and is named after the digest of `key`, which is all that the rows depend on: with another
    key another file is begun. `progress` is called with the rows done and the rows of all. Raises
    StorageFailed.
    """
    path = path.with_name(f"{path.name}-{digest([key])[:16]}.npy")
    done = np.load(path) if path.is_file() else np.empty((0, shape[1]), dtype=np.float32)

    while len(done) < shape[0]:
        rows = range(len(done), min(shape[0], len(done) + PART))
        done = np.concatenate([done, compute(rows).astype(np.float32)])

        # Renamed at the end, so that a run that was killed leaves no partial file.
        new = path.with_name(f".{path.name}")
        with storing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            with new.open("wb") as file:
                np.save(file, done)
            new.rename(path)
        progress(len(done), shape[0])
    return done
