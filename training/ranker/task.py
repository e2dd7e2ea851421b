"""A reranker and its lists: batches, losses and dev measures."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor

from purlin.index.qa.reader import ReadingPassage
from purlin.training.cross_encoder import PAIRS_PER_GROUP
from purlin.training.data.pairs import augment
from purlin.training.exporting.layer_inputs import TokenIds
from purlin.training.loop.devices import add_gradients
from purlin.training.loop.task import Task
from purlin.training.losses import listwise
from purlin.training.models.padding import in_groups
from purlin.training.ranker.lists import Lists
from purlin.training.ranker.model import RankerModel
from purlin.training.ranker.recipe import RankerRecipe
from purlin.training.schedule import Schedule

DEV_DEPTH = 20  # candidates of a held-out query, as many as a search reranks


@dataclass(frozen=True, slots=True)
class RankingBatch:
    """B queries with P candidates each.

    `sequences` (B * P) are their ids, `relevant` (B,) the relevant candidate, counted from 1, or 0
    for none. `rows` are the numbers of the queries.
    """

    rows: NDArray[np.int64]
    sequences: list[TokenIds]
    relevant: list[int]


class RankerTask(Task[RankingBatch]):
    """The lists of a recipe."""

    model: RankerModel

    def __init__(
        self,
        ranker: RankerModel,
        sources: Sequence[Lists],
        recipe: RankerRecipe,
        accelerator: Accelerator,
    ) -> None:
        self.model = ranker
        self.sources = sources
        self.recipe = recipe
        self.accelerator = accelerator

        sizes = [len(source.pairs) - source.held_out for source in sources]
        weights = [source.weight for source in recipe.pairs]
        self.schedule = Schedule(sizes, weights, recipe.loop.batch_size, recipe.seed)
        self.batches_per_epoch = self.schedule.batches_per_epoch

        self.packer = ranker.packer(recipe.ranking.max_tokens)

    def batch(self, number: int) -> RankingBatch:
        """Return this process's part of batch `number`."""
        rows, rngs = self.schedule.part(number, self.accelerator)

        sequences: list[TokenIds] = []
        relevant: list[int] = []
        for row, rng in zip(rows, rngs, strict=True):
            source_number, number_in_source = self.schedule.locate(int(row))
            source = self.sources[source_number]
            own = source.held_out + number_in_source

            missing = rng.random() < self.recipe.ranking.missing
            sequences += self._packed(source, own, self._columns(missing, rng), rng)
            relevant.append(0 if missing else 1)
        return RankingBatch(rows, sequences, relevant)

    def _columns(self, missing: bool, rng: random.Random) -> list[int]:
        """Draw the candidates of a list: 0 is the query's own passage, the others are mined."""
        ranking = self.recipe.ranking
        # All lists have the same length, whether or not the relevant passage is in them.
        count = ranking.candidates if missing else ranking.candidates - 1
        mined = sorted(rng.sample(range(1, 1 + ranking.depth), count))
        return mined if missing else [0, *mined]

    def _packed(
        self, source: Lists, own: int, columns: Sequence[int], rng: random.Random
    ) -> list[TokenIds]:
        """Pack a query with the candidates of `columns`, all of them in forms drawn alike."""
        forms = self.recipe.ranking.forms
        rows = [own, *source.nearest[own].tolist()]
        query, passage = augment.draw(source.pairs[own], forms, rng)
        drawn = [
            passage if column == 0 else augment.draw(source.pairs[rows[column]], forms, rng)[1]
            for column in columns
        ]

        packed = self.packer.pack(query, [ReadingPassage(text) for text in drawn])
        return [each.ids for each in packed]

    def backward(self, batch: RankingBatch) -> dict[str, float]:
        """Add the gradients of the loss, and return it."""
        scores = self._logits(batch.sequences).reshape(len(batch.relevant), -1)
        loss = listwise(scores, torch.tensor(batch.relevant, device=self.accelerator.device))
        add_gradients(loss, self.accelerator)
        return {"loss": float(loss.detach())}

    def _logits(self, sequences: Sequence[TokenIds]) -> Tensor:
        """Return the model's logits, computed in groups of similar length, which saves padding."""
        ids, mask = self.model.padded(sequences)
        device = self.accelerator.device

        def read_group(group_ids: Tensor, group_mask: Tensor) -> tuple[Tensor]:
            return (self.model(group_ids, group_mask),)

        with self.accelerator.autocast():
            (logits,) = in_groups(read_group, ids.to(device), mask.to(device), PAIRS_PER_GROUP)
        return logits

    def describe(self, batch: RankingBatch) -> str:
        """Return the numbers of the first queries."""
        return f"queries {', '.join(map(str, batch.rows[:8]))}"

    def measure(self) -> dict[str, float]:
        """Return `dev mrr` over the held-out queries; each comes with its own passage among the
        nearest others.
        """
        ranks = [
            self._rank(source, own) for source in self.sources for own in range(source.held_out)
        ]
        return {"dev mrr": float(np.mean([1 / rank for rank in ranks]))} if ranks else {}

    def _rank(self, source: Lists, own: int) -> int:
        """Return the rank of a held-out query's own passage, the last one of those it ties with."""
        columns = range(min(DEV_DEPTH, 1 + self.recipe.ranking.depth))
        # The same forms at every measurement.
        packed = self._packed(source, own, columns, random.Random(f"{self.recipe.seed} {own}"))
        with torch.no_grad():
            logits = self._logits(packed)
        return int((logits >= logits[0]).sum())
