"""Candidate lists: for each query its own passage and those that an encoder ranks nearest.

What is expensive, the vectors and a teacher's scores, is computed once, in pieces: a run that was
killed continues with the piece that it was computing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.records import Role
from purlin.training.data.pairs.pair import Pair
from purlin.training.encoded import FrozenEncoder, encode_once
from purlin.training.loop.recorded_recipe import digest

BLOCK = 512  # queries compared with all passages at a time
Rows = NDArray[np.int32]
Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]
Score = Callable[[str, Sequence[str]], Floats]
"""Scores (n,) of a query with n texts."""


def encode_pairs(
    pairs: Sequence[Pair],
    encoder: TextEncoder,
    source: Path,
    directory: Path,
    *,
    max_chars: int,
    progress: Progress,
) -> tuple[Vectors, Vectors]:
    """Return the vectors (n, dim) of the pairs' first queries, and of their passages, cut to
    `max_chars`.

    `source` is the encoder's directory, and `directory` keeps the vectors, as in `encode_once`.
    """

    def encoded(role: Role, texts: Sequence[str]) -> Vectors:
        return encode_once(
            lambda: lambda part: encoder.encode(part, role=role),
            source,
            texts,
            directory / role,
            progress=progress,
        )

    queries = encoded("query", [pair.queries[0] for pair in pairs])
    return queries, encoded("passage", [pair.passage[:max_chars] for pair in pairs])


def nearest(pairs: Sequence[Pair], queries: Vectors, passages: Vectors, depth: int) -> Rows:
    """Return the rows (n, depth) of the pairs whose passages are nearest to each query, nearest
    first.

    Pairs with the same passage or a query in common are no candidates of each other; a pair that
    has too few candidates repeats them, and one that has none stands for itself.
    """
    # Some of the nearest are copies, which do not count.
    deep = min(len(pairs), 2 * depth + 1)
    mined = np.empty((len(pairs), depth), dtype=np.int32)

    for start in range(0, len(pairs), BLOCK):
        similarities = queries[start : start + BLOCK] @ passages.T
        best = np.argpartition(-similarities, deep - 1, axis=1)[:, :deep]
        order = np.argsort(-np.take_along_axis(similarities, best, 1), axis=1, kind="stable")
        for own, rows in enumerate(np.take_along_axis(best, order, 1).tolist(), start):
            kept = [row for row in rows if _differs(pairs[own], pairs[row])] or [own]
            mined[own] = np.resize(kept[:depth], depth)
    return mined


def _differs(pair: Pair, candidate: Pair) -> bool:
    return pair.passage != candidate.passage and not {*pair.queries} & {*candidate.queries}


def score_lists(
    pairs: Sequence[Pair],
    mined: Rows,
    open_teacher: Callable[[], Score],
    source: Path,
    directory: Path,
    *,
    progress: Progress,
) -> Floats:
    """Return a teacher's scores (n, 1 + depth) of each pair's first query with its own passage,
    then with those of its `mined` rows (n, depth).

    `source` is the teacher's directory; `open_teacher` opens it, and is called only if scores are
    missing in `directory`, which keeps them.
    """

    def opened() -> FrozenEncoder:
        score = open_teacher()

        def score_list(row: int) -> Floats:
            rows = (row, *mined[row].tolist())
            return score(pairs[row].queries[0], [pairs[each].passage for each in rows])

        return lambda names: np.stack([score_list(int(name.rpartition(" ")[2])) for name in names])

    # A list is named by its row and the digest of everything that can be in it.
    content = digest([*pairs, mined.tolist()])
    names = [f"{content} {row}" for row in range(len(pairs))]
    return encode_once(opened, source, names, directory, progress=progress)
