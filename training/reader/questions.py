"""The questions of a recipe with their passages: right ones, and wrong ones that look right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import Vectors, load_encoder
from purlin.index.errors import InvalidInput
from purlin.training.data.questions.reader_questions import (
    PassagePool,
    Pools,
    TrainingQuestion,
    load_questions,
)
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.data.questions.wrong_passages import Miner
from purlin.training.encoded import encode_once
from purlin.training.loop.recorded_recipe import digest
from purlin.training.loop.run import StepProgress
from purlin.training.reader.recipe import ReaderRecipe, ReadingSettings


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one source, with their passages; a teacher reads them if they are `distilled`.

    `wrong` (n, depth) has the rows of passages that do not answer each question.
    """

    pool: PassagePool
    items: Sequence[TrainingQuestion]
    wrong: NDArray[np.int32]
    distilled: bool = True

    def candidates(self, number: int, count: int) -> list[int]:
        """Return the rows of a question's own passage, if it is labelled, and of the best wrong ones."""
        item = self.items[number]
        own = [item.passage] if item.labelled else []
        return [*own, *self.wrong[number][: count - len(own)].tolist()]

    def digest(self) -> str:
        """Return the digest of all that training uses."""
        passages = ((passage.text, passage.context) for passage in self.pool.passages)
        return digest([*self.items, *passages, self.wrong.tolist()])


def read_source_questions(
    recipe: ReaderRecipe, directory: Path, progress: StepProgress
) -> tuple[list[Questions], list[Questions]]:
    """Return the questions of each training source and of each dev source.

    The vectors of the passages are kept in `directory`, so that a resumed run need not encode them again.
    """
    open_miner = _miner_opener(recipe.reading, directory, progress)
    pools: Pools = {}
    miners: dict[PassagePool, Miner] = {}

    def with_passages(source: QuestionSource) -> Questions:
        pool, items = _usable_questions(source, pools, recipe.reading)
        # Sources over the same reference share a pool, and so its index of passages.
        if pool not in miners:
            miners[pool] = open_miner(pool)
        wrong = miners[pool].wrong(items, recipe.reading.depth)
        return Questions(pool, items, wrong, source.distilled)

    training = [with_passages(source) for source in recipe.questions]
    return training, [with_passages(source) for source in recipe.dev]


def _miner_opener(
    reading: ReadingSettings, directory: Path, progress: StepProgress
) -> Callable[[PassagePool], Miner]:
    """Return a function that makes the miner of a pool of passages."""
    if not reading.encoder:
        return Miner
    source = Path(reading.encoder)
    encoder = load_encoder(source)

    def passage_vectors(texts: Sequence[str]) -> Vectors:
        return encode_once(
            lambda: partial(encoder.encode, role="passage"),
            source,
            texts,
            directory / digest(texts)[:16],
            progress=lambda encoded_count, total: progress(encoded_count, total, {}),
        )

    return lambda pool: Miner(pool, encoder, passage_vectors)


def _usable_questions(
    source: QuestionSource, pools: Pools, reading: ReadingSettings
) -> tuple[PassagePool, list[TrainingQuestion]]:
    """Return the pool and the questions of a source that can be trained on.

    With the paper's equations, these are the ones with an answer; raises InvalidInput if there are none.
    """
    pool, items = load_questions(source, pools)
    if not reading.equations:
        return pool, items

    items = [item for item in items if item.answered or not item.labelled]
    if not items:
        raise InvalidInput(
            f'{source.path} has no question with an answer, as equations = "paper" needs.',
            field="questions",
        )
    return pool, items
