"""The lists of a recipe: pairs with their candidates, and a teacher's scores of these."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from purlin.index import reranker as serving
from purlin.index.encoder import TextEncoder, load_encoder
from purlin.index.qa.reader import Reader, ReadingPassage
from purlin.index.qa.reader_settings import READER_SETTINGS
from purlin.training.data.pairs.pair import Pair
from purlin.training.loop.recorded_recipe import digest
from purlin.training.ranker.candidates import (
    Floats,
    Rows,
    Score,
    encode_pairs,
    nearest,
    score_lists,
)
from purlin.training.ranker.recipe import RankerRecipe

MINED_CHARS = 5  # of a passage for each token that the ranker reads: the rest is not encoded


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
    queries, passages = encode_pairs(
        shuffled,
        encoder,
        ranking.encoder,
        out / "vectors",
        max_chars=MINED_CHARS * ranking.max_tokens,
        progress=lambda encoded_count, total: say(f"encoded {encoded_count:,} of {total:,} texts"),
    )
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
