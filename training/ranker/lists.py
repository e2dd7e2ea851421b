"""The lists of a recipe: pairs with their candidates."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.records import Role
from purlin.training.data.pairs.pair import Pair
from purlin.training.encoded import encode_once
from purlin.training.loop.recorded_recipe import digest
from purlin.training.loop.run import Say
from purlin.training.mining import best_rows
from purlin.training.ranker.recipe import RankerRecipe

MINED_CHARS = 5  # of a passage for each token that the ranker reads: the rest is not encoded
Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Lists:
    """The pairs of one source with their candidates.

    `nearest` (n, depth) are rows of other pairs, nearest first. The first `held_out` pairs are
    measured, the others are trained on.
    """

    pairs: Sequence[Pair]
    nearest: Rows
    held_out: int

    def digest(self) -> str:
        """Return the digest of all that training uses."""
        return digest([*self.pairs, self.nearest.tolist()])


def make_lists(
    pairs: Sequence[Pair],
    recipe: RankerRecipe,
    encoder: TextEncoder,
    out: Path,
    say: Say,
) -> Lists:
    """Return a source's lists, with vectors from what `out` keeps of an earlier call."""
    ranking = recipe.ranking
    shuffled = random.Random(recipe.seed).sample(list(pairs), len(pairs))

    def encoded(role: Role, texts: Sequence[str]) -> Vectors:
        return encode_once(
            lambda: partial(encoder.encode, role=role),
            ranking.encoder,
            texts,
            out / "vectors" / role,
            progress=lambda count, total: say(f"encoded {count:,} of {total:,} texts"),
        )

    max_chars = MINED_CHARS * ranking.max_tokens
    queries = encoded("query", [pair.queries[0] for pair in shuffled])
    passages = encoded("passage", [pair.passage[:max_chars] for pair in shuffled])
    mined = nearest(shuffled, queries, passages, ranking.depth)
    return Lists(shuffled, mined, min(ranking.held_out, len(shuffled) // 2))


def nearest(pairs: Sequence[Pair], queries: Vectors, passages: Vectors, depth: int) -> Rows:
    """Return the rows (n, depth) of the pairs whose passages are nearest to each query, in order.

    Pairs with the same passage or a query in common are no candidates of each other; a pair that
    has too few candidates repeats them, and one that has none stands for itself.
    """
    # Some of the nearest are copies, which do not count.
    ranked = best_rows(queries, passages, 2 * depth + 1, torch.device("cpu")).tolist()

    mined = np.empty((len(pairs), depth), dtype=np.int32)
    for own, rows in enumerate(ranked):
        kept = [row for row in rows if _differs(pairs[own], pairs[row])] or [own]
        mined[own] = np.resize(kept[:depth], depth)
    return mined


def _differs(pair: Pair, candidate: Pair) -> bool:
    return pair.passage != candidate.passage and not {*pair.queries} & {*candidate.queries}
