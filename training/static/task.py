"""A static encoder and its pairs: batches, losses and dev measures."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from torch import Tensor

from purlin.index.encoder.vocabulary import Vocabulary
from purlin.training.data.pairs import augment
from purlin.training.data.pairs.pair import Pair
from purlin.training.dev import encoder_measures, read_dev_set, with_mean
from purlin.training.loop.task import Task
from purlin.training.losses import contrastive
from purlin.training.schedule import RowNumbers, Schedule, describe_rows, digests, package_numbers
from purlin.training.static.export import in_memory
from purlin.training.static.model import Bags, WordVectors, count_words, drop_shared, make_bags
from purlin.training.static.recipe import StaticRecipe


class StaticBatch(NamedTuple):
    """Queries and passages of the same rows. Texts of equal digest (n,) are not told apart."""

    rows: RowNumbers
    queries: Bags
    passages: Bags
    query_digests: Tensor
    passage_digests: Tensor


class StaticTask(Task[StaticBatch]):
    """Contrastive training of word vectors."""

    model: WordVectors

    def __init__(
        self,
        model: WordVectors,
        vocabulary: Vocabulary,
        sources: Sequence[Sequence[Pair]],
        recipe: StaticRecipe,
        accelerator: Accelerator,
    ) -> None:
        self.model = model.to(accelerator.device)
        self.vocabulary = vocabulary
        self.recipe = recipe
        self.device = accelerator.device
        self.pairs = [_with_first_query(pair) for source in sources for pair in source]
        self.schedule = make_schedule(sources, recipe)
        self.batches_per_epoch = self.schedule.batches_per_epoch
        self.dev = [(dev_set, read_dev_set(dev_set)) for dev_set in recipe.dev]

    def batch(self, number: int) -> StaticBatch:
        """Return a batch, which depends on seed and number only."""
        rows = self.schedule.rows(number)
        rng = random.Random(f"{self.recipe.seed} {number}")
        drawn = [augment.draw(self.pairs[row], self.recipe.forms, rng) for row in rows]
        queries, passages = (
            count_words(self.vocabulary, texts, self.recipe.max_tokens)
            for texts in zip(*drawn, strict=True)
        )
        for query, passage in zip(queries, passages, strict=True):
            drop_shared(query, passage, self.recipe.shared_dropout, rng)

        return StaticBatch(
            rows,
            make_bags(queries),
            make_bags(passages),
            digests(self.pairs[row].queries[0] for row in rows),
            digests(self.pairs[row].passage for row in rows),
        )

    def backward(self, batch: StaticBatch) -> dict[str, float]:
        """Add the gradients of the mean of both directions: passages of queries, and the reverse."""
        batch = send_to_device(batch, self.device)
        queries = self.model(batch.queries, "query")
        passages = self.model(batch.passages, "passage")
        same_query = batch.query_digests == batch.query_digests[:, None]
        same_passage = batch.passage_digests == batch.passage_digests[:, None]
        own = torch.arange(len(batch.rows), device=self.device)

        losses = [
            contrastive(
                anchors,
                targets,
                own,
                temperature=self.recipe.temperature,
                excluded=same_query | same_passage,
            )
            for anchors, targets in ((queries, passages), (passages, queries))
        ]
        loss = torch.stack(losses).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": float(loss.detach())}

    def describe(self, batch: StaticBatch) -> str:
        """Return the numbers of the first pairs, and the first query."""
        return describe_rows(batch.rows, self.pairs)

    def measure(self) -> dict[str, float]:
        """Return the measures of the dev sets, of the encoder as it would be exported."""
        encoder = in_memory(self.model, self.vocabulary, self.recipe.export.max_tokens)
        return with_mean(encoder_measures(self.dev, encoder))


def make_schedule(sources: Sequence[Sequence[Pair]], recipe: StaticRecipe) -> Schedule:
    """Return the batches of a recipe: of one source each, in groups of one package."""
    sizes = [len(source) for source in sources]
    weights = [source.weight for source in recipe.pairs]
    return Schedule(
        sizes,
        weights,
        recipe.loop.batch_size,
        recipe.seed,
        mixed=False,
        group=recipe.group,
        packages=package_numbers(sources),
    )


def _with_first_query(pair: Pair) -> Pair:
    """Leave code the first of the queries from its comment: the whole may stand in its passage."""
    from_comment = pair.kind == "code" and not pair.searches
    return replace(pair, queries=pair.queries[:1]) if from_comment else pair
