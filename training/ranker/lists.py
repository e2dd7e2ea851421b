"""The lists of a recipe: pairs with their candidates, and a teacher's scores of these.

What is expensive, the vectors and a teacher's scores, is computed once, in pieces: a run that was
killed continues with the piece that it was computing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index import reranker as serving
from purlin.index.encoder import TextEncoder, Vectors, load_encoder
from purlin.index.qa.reader import Reader, ReadingPassage
from purlin.index.qa.reader_settings import READER_SETTINGS
from purlin.index.records import Role
from purlin.training.data.pairs.pair import Pair
from purlin.training.encoded import FrozenEncoder, encode_once
from purlin.training.loop.recorded_recipe import digest
from purlin.training.ranker.recipe import RankerRecipe

MINED_CHARS = 5  # of a passage for each token that the ranker reads: the rest is not encoded
BLOCK = 512  # queries compared with all passages at a time
Rows = NDArray[np.int32]
Floats = NDArray[np.float32]
Score = Callable[[str, Sequence[str]], Floats]
"""Scores (n,) of a query with n texts."""


@dataclass(frozen=True, slots=True)
class Lists:
    """The pairs of one source with their candidates.

    `nearest` (n, depth) are rows of other pairs, nearest first. `teacher` (n, 1 + depth), if there
    is one, has its scores of the pair's own passage, then of those rows. The first `held_out` pairs
    are measured, the others are trained on.
    """

    pairs: Sequence[Pair]
    nearest: Rows
    teacher: Floats | None
    held_out: int

    def digest(self) -> str:
        """Return the digest of all that training uses."""
        teacher = None if self.teacher is None else self.teacher.tolist()
        return digest([*self.pairs, self.nearest.tolist(), teacher])


def make_lists(
    pairs: Sequence[Pair],
    recipe: RankerRecipe,
    encoder: TextEncoder,
    out: Path,
    say: Callable[[str], None],
) -> Lists:
    """Return a source's lists, as far as possible from what `out` keeps of an earlier call."""
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
    held_out = min(ranking.held_out, len(shuffled) // 2)
    if (teacher := recipe.teacher) is None:
        return Lists(shuffled, mined, None, held_out)

    scores = score_lists(
        shuffled,
        mined,
        lambda: open_teacher(teacher.model),
        teacher.model,
        out / "teacher",
        progress=lambda scored_count, total: say(
            f"the teacher scored {scored_count:,} of {total:,} lists"
        ),
    )
    return Lists(shuffled, mined, teacher.scale * scores, held_out)


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
    progress: Callable[[int, int], None],
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


def open_teacher(directory: Path) -> Score:
    """Open an exported encoder, reranker or reader for its scores. Raises NotFound or Damaged."""
    if (directory / serving.RERANKER_SETTINGS).is_file():
        return serving.Reranker.load(directory).logits
    if (directory / READER_SETTINGS).is_file():
        return partial(_reader_logits, Reader.load(directory))
    return partial(_cosines, load_encoder(directory))


def _reader_logits(reader: Reader, query: str, texts: Sequence[str]) -> Floats:
    read = reader.read(query, [ReadingPassage(text) for text in texts])
    return np.array([each.selected for each in read], dtype=np.float32)


def _cosines(encoder: TextEncoder, query: str, texts: Sequence[str]) -> Floats:
    cosines: Floats = (
        encoder.encode(texts, role="passage") @ encoder.encode([query], role="query")[0]
    )
    return cosines
