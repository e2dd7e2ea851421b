"""One stage of SANTA on its pairs: its batches, its losses and its dev measures."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from torch import Tensor
from torch.nn import functional as F

from purlin.index.errors import InvalidInput
from purlin.index.records import Role
from purlin.training.data.pairs import augment
from purlin.training.data.pairs.pair import Pair
from purlin.training.dev import DevEvaluator
from purlin.training.encoded import RoleEncoder, role_encoder
from purlin.training.loop.devices import add_gradients, gathered
from purlin.training.loop.task import Task
from purlin.training.losses import (
    IGNORED,
    cached_backward,
    contrastive,
    list_divergence,
    reconstruction,
)
from purlin.training.models.padding import tokenized
from purlin.training.models.text_model import TextModel
from purlin.training.santa.hard_negatives import HardNegatives
from purlin.training.santa.masked_passages import PassageMasker
from purlin.training.santa.recipe import Stage
from purlin.training.schedule import RowNumbers, Schedule, describe_rows, digests, package_numbers

ROLES: tuple[Role, Role] = ("query", "passage")
TEXTS_PER_GROUP = 32  # smaller groups have less padding, but more overhead


class PairBatch(NamedTuple):
    """The part of a batch that one process computes, on its device; ids and masks are (n, T).

    `passages` (n * (1 + hard negatives), T) holds the positives first. `masked` are ids, mask (n,
    T) and targets (n, K). `query_texts` (n,) and `passage_texts` are 63-bit digests of the pairs'
    first queries and passages, from which equal texts are recognized in whatever form they were
    drawn. `texts` are the queries and passages themselves, for a teacher.
    """

    rows: RowNumbers
    queries: tuple[Tensor, Tensor]
    passages: tuple[Tensor, Tensor]
    masked: tuple[Tensor, Tensor, Tensor] | None
    query_texts: Tensor
    passage_texts: Tensor
    texts: tuple[list[str], list[str]] | None = None


class SantaTask(Task[PairBatch]):
    """One stage on its pairs."""

    model: TextModel

    def __init__(
        self,
        text_model: TextModel,
        sources: Sequence[Sequence[Pair]],
        stage: Stage,
        accelerator: Accelerator,
        *,
        seed: int,
        directory: Path,
        dev: DevEvaluator | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.model = text_model
        self.stage = stage
        self.accelerator = accelerator
        self.dev = dev

        self.pairs = [pair for source in sources for pair in source]
        sizes = [len(source) for source in sources]
        packages = package_numbers(sources) if stage.group > 1 else ()
        self.schedule = Schedule(
            sizes,
            weights or [1.0] * len(sources),
            stage.loop.batch_size,
            seed,
            mixed=stage.batches == "mixed",
            group=stage.group,
            packages=packages,
        )
        self.batches_per_epoch = self.schedule.batches_per_epoch

        # A copy: a tokenizer's limit is state, and batches are drawn in a thread.
        self.tokenizer: Any = copy.deepcopy(text_model.tokenizer)
        self.masker: PassageMasker | None = None
        if stage.mep:
            self.masker = PassageMasker(stage, self.tokenizer, text_model.settings)

        self.negatives = HardNegatives(
            stage,
            self.pairs,
            text_model,
            accelerator,
            batches_per_epoch=self.batches_per_epoch,
            directory=directory,
        )

        self.teacher: RoleEncoder | None = None
        if stage.teacher:
            settings = text_model.settings
            max_tokens = max(settings.max_query_tokens, settings.max_passage_tokens)
            self.teacher = role_encoder(stage.teacher.base, accelerator, max_tokens=max_tokens)
        if stage.trains == "decoder":
            self._freeze_encoder()

    def _freeze_encoder(self) -> None:
        """Leave only the light decoder to be trained. Raises InvalidInput for a model without."""
        fresh = set(self.model.fresh())
        if not fresh:
            raise InvalidInput(
                "This model has no decoder of its own that starts at random: a T5 predicts with its "
                f"pretrained one. Leave the stage {self.stage.name} out.",
                field="trains",
            )

        for weight in self.model.parameters():
            weight.requires_grad_(weight in fresh)

    def batch(self, number: int) -> PairBatch:
        """Return this process's part of a batch, which depends on seed and number only."""
        rows, rngs = self.schedule.part(number, self.accelerator)
        pairs = [self.pairs[row] for row in rows]

        drawn = [
            augment.draw(pair, self.stage.forms, rng) for pair, rng in zip(pairs, rngs, strict=True)
        ]
        queries, positives = zip(*drawn, strict=True)
        negatives = [
            text
            for row, rng in zip(rows, rngs, strict=True)
            for text in self.negatives.draw(int(row), rng)
        ]
        passages = [*positives, *negatives]
        masked = self.masker.mask(pairs, rngs) if self.masker else None

        settings = self.model.settings
        return PairBatch(
            rows,
            tokenized(self.tokenizer, queries, settings.max_query_tokens),
            tokenized(self.tokenizer, passages, settings.max_passage_tokens),
            masked,
            digests([pair.queries[0] for pair in pairs]),
            digests([*(pair.passage for pair in pairs), *negatives]),
            (list(queries), passages) if self.stage.teacher else None,
        )

    def ready(self, number: int) -> bool:
        """Tell whether the batch can be drawn before the steps that precede it are computed."""
        return self.negatives.ready(number)

    def prepare(self, number: int) -> None:
        """Mine hard negatives with the current weights when a round of batches begins."""
        self.negatives.prepare(number)

    # -- forward and backward --------------------------------------------------------------------

    def backward(self, batch: PairBatch) -> dict[str, float]:
        """Add the gradients of the stage's losses for this process's part.

        They are stage.sda * eq. 5, stage.mep * eq. 7, and the divergence from the teacher's ranking.
        """
        batch = send_to_device(batch, self.accelerator.device)
        stage = self.stage
        teacher_scores = self._teacher_scores(batch)

        losses: dict[str, Tensor] = {}
        if stage.part and stage.compares:

            def ranking_loss(vectors: Tensor) -> Tensor:
                losses.update(self._ranking_losses(vectors, batch, teacher_scores))
                return torch.stack(list(losses.values())).sum()

            # cached_backward adds the gradients itself, part by part.
            parts = [*self._parts(batch.queries, "query"), *self._parts(batch.passages, "passage")]
            cached_backward(parts, ranking_loss, lambda loss: add_gradients(loss, self.accelerator))
            if stage.mep:
                losses["mep"] = self._predict_in_parts(batch)
        else:
            losses = self._losses(batch, teacher_scores)
            add_gradients(torch.stack(list(losses.values())).sum(), self.accelerator)

        values = {name: float(loss.detach()) for name, loss in losses.items()}
        return {"loss": sum(values.values()), **values}

    def _losses(self, batch: PairBatch, teacher_scores: Tensor | None) -> dict[str, Tensor]:
        """Return the stage's losses on the whole batch."""
        losses: dict[str, Tensor] = {}
        passages = None
        if self.stage.compares:
            queries = self._vectors(*batch.queries, "query")
            passages = self._vectors(*batch.passages, "passage")
            losses = self._ranking_losses(torch.cat([queries, passages]), batch, teacher_scores)

        if batch.masked:
            tokens = self._mean_target_tokens(batch)
            losses["mep"] = self._prediction(batch, slice(None), tokens, passages)
        return losses

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        """Encode texts as (n, D)."""
        with self.accelerator.autocast():
            return self.model.grouped_vectors(ids, mask, TEXTS_PER_GROUP, role)

    def _ranking_losses(
        self, vectors: Tensor, batch: PairBatch, teacher_scores: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the losses of this process's queries and the passages (P, D) of all processes.

        `vectors` are those of this process's queries, then of its passages.
        """
        n = len(batch.rows)
        queries, passages = vectors[:n], gathered(vectors[n:], self.accelerator)

        losses: dict[str, Tensor] = {}
        if self.stage.sda:
            losses["sda"] = self.stage.sda * self._alignment(queries, passages, batch)
        if self.stage.teacher and teacher_scores is not None:
            scores = queries @ passages.T / self.stage.temperature
            divergence = list_divergence(scores, teacher_scores)
            losses["teacher"] = self.stage.teacher.weight * divergence
        return losses

    def _teacher_scores(self, batch: PairBatch) -> Tensor | None:
        """Return the teacher's cosines (n, P), divided by its temperature; None without one.

        They are those of this process's queries with the passages of all processes.
        """
        if not (self.stage.teacher and self.teacher and batch.texts):
            return None

        queries, passages = (
            torch.from_numpy(self.teacher(texts, role)).to(self.accelerator.device)
            for texts, role in zip(batch.texts, ROLES, strict=True)
        )
        cosines = queries @ gathered(passages, self.accelerator).T
        return cosines / self.stage.teacher.temperature

    def _alignment(self, queries: Tensor, passages: Tensor, batch: PairBatch) -> Tensor:
        """Return eq. 5 for this process's queries (n, D) and the passages (P, D) of all."""
        n, passage_count = len(queries), len(batch.passage_texts)
        first_passage = self.accelerator.process_index * passage_count
        own = torch.arange(n, device=queries.device) + first_passage

        # Copies of the positive, and positives of an equal query, are no negatives.
        passage_texts = gathered(batch.passage_texts, self.accelerator)
        padded_queries = F.pad(batch.query_texts, (0, passage_count - n), value=-1)
        query_texts = gathered(padded_queries, self.accelerator)
        same_passage = passage_texts == passage_texts[own][:, None]
        same_query = query_texts == batch.query_texts[:, None]

        return contrastive(
            queries,
            passages,
            own,
            temperature=self.stage.temperature,
            excluded=same_passage | same_query,
        )

    def _mean_target_tokens(self, batch: PairBatch) -> Tensor:
        """Return the mean count of target tokens per process, so that all tokens weigh alike."""
        assert batch.masked
        count = (batch.masked[2] != IGNORED).sum().float()
        mean: Tensor = self.accelerator.reduce(count, "mean")
        return mean.clamp(min=1)

    def _prediction(
        self, batch: PairBatch, part: slice, tokens: Tensor, passages: Tensor | None = None
    ) -> Tensor:
        """Return stage.mep * eq. 7 for a part of the pairs, as its share of the mean over `tokens`.

        `passages` are vectors of the part's pairs, positives first, if they were computed already.
        """
        assert batch.masked
        ids, mask, targets = (tensor[part] for tensor in batch.masked)

        if passages is None and self.model.reads_vectors:
            own_ids, own_mask = (tensor[: len(batch.rows)][part] for tensor in batch.passages)
            passages = self._vectors(own_ids, own_mask, "passage")

        with self.accelerator.autocast():
            vectors = None if passages is None else passages[: len(ids)]
            loss = reconstruction(*self.model.predict(vectors, ids, mask, targets), targets)
        return self.stage.mep * loss * (targets != IGNORED).sum() / tokens

    def _parts(self, texts: tuple[Tensor, Tensor], role: Role) -> list[Callable[[], Tensor]]:
        """Return functions that encode `stage.part` texts each."""
        ids, mask = (torch.split(tensor, self.stage.part or len(tensor)) for tensor in texts)
        return [partial(self._vectors, *part, role) for part in zip(ids, mask, strict=True)]

    def _predict_in_parts(self, batch: PairBatch) -> Tensor:
        assert self.stage.part
        tokens = self._mean_target_tokens(batch)
        total = torch.zeros_like(tokens)

        for start in range(0, len(batch.rows), self.stage.part):
            loss = self._prediction(batch, slice(start, start + self.stage.part), tokens)
            add_gradients(loss, self.accelerator)
            total += loss.detach()
        return total

    def describe(self, batch: PairBatch) -> str:
        """Return the numbers of the first pairs, and the first query."""
        return describe_rows(batch.rows, self.pairs)

    def measure(self) -> dict[str, float]:
        """Return the measures on the dev sets."""
        return self.dev.measure() if self.dev else {}
