"""A reader and its questions: batches, losses and dev measures."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from numpy.typing import NDArray
from torch import Tensor

from purlin.index.qa import reader as serving
from purlin.index.qa.spans import best_spans
from purlin.training.data.questions.reader_questions import TrainingQuestion
from purlin.training.loop.devices import add_gradients
from purlin.training.loop.task import Task
from purlin.training.reader.distillation import SoftTargets, distillation_loss, soft_targets
from purlin.training.reader.losses import UNKNOWN, reading_loss
from purlin.training.reader.model import HIDDEN, ReaderModel
from purlin.training.reader.questions import Questions
from purlin.training.reader.recipe import ReaderRecipe
from purlin.training.reader.scores import PassageScores, ScoreFiles
from purlin.training.schedule import Schedule

_NO_SPAN = (-1, -1)


class ReadingBatch(NamedTuple):
    """B questions with P passages each.

    `ids`, `mask`, `hidden` (B * P, t), `hidden` where no answer can be; `right` (B,) the passage
    with the answer, counted from 1, or 0 for none, or UNKNOWN; `spans` (B, S, 2) the first and last
    tokens of its S answers in it, or -1 if unknown; `soft` a teacher's targets.
    """

    rows: NDArray[np.int64]
    ids: Tensor
    mask: Tensor
    hidden: Tensor
    right: Tensor
    spans: Tensor
    soft: SoftTargets | None = None


@dataclass(frozen=True, slots=True)
class DrawnQuestion:
    """A question of a batch: its packed passages, the one with the answer, and the answers' tokens.

    `right` and `spans` as in `ReadingBatch`. `number` counts questions over all sources, and
    `positions` are those of the passages among `Questions.candidates`.
    """

    number: int
    packed: list[serving.PackedPassage]
    positions: list[int]
    right: int
    spans: list[tuple[int, int]]


class ReaderTask(Task[ReadingBatch]):
    """The questions of a recipe."""

    model: ReaderModel

    def __init__(
        self,
        reader: ReaderModel,
        sources: Sequence[Questions],
        recipe: ReaderRecipe,
        accelerator: Accelerator,
        *,
        dev: Sequence[Questions] = (),
        scores: ScoreFiles | None = None,
    ) -> None:
        self.model = reader
        self.scores = scores
        self.sources = sources
        self.recipe = recipe
        self.accelerator = accelerator
        self.dev = dev

        sizes = [len(source.items) for source in sources]
        weights = [source.weight for source in recipe.questions]
        self.schedule = Schedule(sizes, weights, recipe.loop.batch_size, recipe.seed)
        self.batches_per_epoch = self.schedule.batches_per_epoch
        # The score files have the questions of distilled sources alone, in their order.
        distilled = np.repeat([source.distilled for source in sources], sizes)
        self.score_rows = np.where(distilled, np.cumsum(distilled) - 1, -1)

        self.packer = reader.packer(recipe.reading.max_tokens)

    def drawn(self, number: int) -> tuple[list[DrawnQuestion], NDArray[np.int64]]:
        """Return this process's questions of a batch, and their rows."""
        rows, rngs = self.schedule.part(number, self.accelerator)
        drawn = [self._draw(int(row), rng) for row, rng in zip(rows, rngs, strict=True)]
        return drawn, rows

    def _draw(self, row: int, rng: random.Random) -> DrawnQuestion:
        """Pack a question with its passage, unless that is left out, and with wrong ones."""
        source_number, number = self.schedule.locate(row)
        source = self.sources[source_number]
        item = source.items[number]

        missing = rng.random() < self.recipe.reading.missing and item.answered
        positions = self._positions(source, number, rng, with_own=item.labelled and not missing)
        candidates = source.candidates(number, 1 + source.wrong.shape[1])
        passages = [source.pool.passages[candidates[position]] for position in positions]
        packed = self.packer.pack(item.question, passages)

        right, spans = 0, [_NO_SPAN]
        if not item.labelled:
            right = UNKNOWN
        elif item.answered and not missing:
            right, spans = 1, token_spans(packed[0], passages[0], item)
        return DrawnQuestion(row, packed, positions, right, spans)

    def _positions(
        self, source: Questions, number: int, rng: random.Random, *, with_own: bool
    ) -> list[int]:
        """Draw passages of a question, as positions among its candidates; its own comes first."""
        # Of a question with labels, the first candidate is its own passage.
        first_wrong = int(source.items[number].labelled)
        teacher = self.recipe.teacher if source.distilled else None
        scored = teacher.passages if teacher else first_wrong + source.wrong.shape[1]

        # The same passage may be mined twice: by BM25 and by the encoder, or for want of others.
        rows = source.candidates(number, scored)
        positions = {row: position for position, row in enumerate(rows) if position >= first_wrong}
        wrong = list(positions.values())

        # All questions have the same number of passages, whether or not one of them answers.
        count = self.recipe.reading.passages - with_own
        drawn = rng.sample(wrong, min(count, len(wrong)))
        drawn += rng.choices(wrong, k=count - len(drawn))
        return [0, *drawn] if with_own else drawn

    def batch(self, number: int) -> ReadingBatch:
        """Return this process's part of batch `number`."""
        drawn, rows = self.drawn(number)
        packed = [sequence for question in drawn for sequence in question.packed]
        ids, mask = self.model.padded([sequence.ids for sequence in packed])

        outside = hidden(packed, ids.shape[1])
        if self.recipe.reading.equations:
            outside = mask == 0
        right = torch.tensor([question.right for question in drawn])
        spans = _padded([question.spans for question in drawn])
        soft = self._soft_targets(drawn, packed, ids.shape[1])
        return ReadingBatch(rows, ids, mask, outside, right, spans, soft)

    def _soft_targets(
        self,
        drawn: Sequence[DrawnQuestion],
        packed: Sequence[serving.PackedPassage],
        width: int,
    ) -> SoftTargets | None:
        if self.scores is None or self.recipe.teacher is None:
            return None

        scores = [self._scores(question) for question in drawn]
        return soft_targets(scores, packed, width, self.recipe.teacher.temperature)

    def _scores(self, drawn: DrawnQuestion) -> list[PassageScores] | None:
        """Return a teacher's scores of a question's passages; None if it has not read them."""
        assert self.scores is not None
        row = int(self.score_rows[drawn.number])
        if row < 0:
            return None
        passages = self.scores.of(row)
        return [passages[position] for position in drawn.positions]

    def backward(self, batch: ReadingBatch) -> dict[str, float]:
        """Add the gradients of the sum of the cross entropies and of a teacher's losses.

        See `reading_loss` and `purlin.training.reader.distillation`.
        """
        batch = send_to_device(batch, self.accelerator.device)
        starts, ends, selected = self._logits(batch.ids, batch.mask)
        starts = starts.masked_fill(batch.hidden, HIDDEN)
        ends = ends.masked_fill(batch.hidden, HIDDEN)

        none_score = self.recipe.reading.none_score
        losses = reading_loss(starts, ends, selected, batch.right, batch.spans, none_score)

        if batch.soft is not None and (teacher := self.recipe.teacher) is not None:
            soft = distillation_loss(
                starts, ends, selected, batch.soft, teacher.temperature, none_score
            )
            losses |= {name: teacher.weight * loss for name, loss in soft.items()}

        total = torch.stack(list(losses.values())).sum()
        add_gradients(total, self.accelerator)

        values = {name: float(loss.detach()) for name, loss in losses.items()}
        return {"loss": float(total.detach()), **values}

    def _logits(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with self.accelerator.autocast():
            return self.model.grouped(ids, mask)

    def describe(self, batch: ReadingBatch) -> str:
        """Return the numbers of the first questions."""
        return f"questions {', '.join(map(str, batch.rows[:8]))}"

    def measure(self) -> dict[str, float]:
        """Return `dev exact` and `dev passage`, the shares of right answers and of right passages.

        Each dev question comes with its own passage among others without the answer; only the
        passage ranked first, and the best answer in it, count.
        """
        if not self.dev:
            return {}

        judged = [
            self._judged(source, number)
            for source in self.dev
            for number in range(len(source.items))
        ]
        exact, passage = np.array(judged, dtype=float).mean(axis=0)
        return {"dev exact": float(exact), "dev passage": float(passage)}

    def _judged(self, source: Questions, number: int) -> tuple[bool, bool]:
        """Tell whether the answer, and whether the passage ranked first, are right."""
        item = source.items[number]
        wrong = source.wrong[number][: 2 * self.recipe.reading.passages]
        chosen = [*wrong.tolist(), item.passage]
        passages = [source.pool.passages[passage] for passage in chosen]
        packed = self.packer.pack(item.question, passages)

        ids, mask = self.model.padded([sequence.ids for sequence in packed])
        device = self.accelerator.device
        logits = self._logits(ids.to(device), mask.to(device))
        starts, ends, selected = (values.cpu().numpy() for values in logits)

        best = int(selected.argmax())
        best_logits = serving.PassageLogits(
            packed[best], starts[best], ends[best], float(selected[best])
        )
        spans = best_spans(passages[best], best_logits)
        answer = passages[best].text[spans[0].start : spans[0].end] if spans else ""
        return answer in item.answers(source.pool), chosen[best] == item.passage


def token_spans(
    packed: serving.PackedPassage, passage: serving.ReadingPassage, item: TrainingQuestion
) -> list[tuple[int, int]]:
    """Return the first and last tokens of a question's answers in a sequence.

    Those of the first answer come first, -1 and -1 if it is unknown or cut off. Others that are cut
    off are left out.
    """
    spans = [_token_span(packed, passage, *span) for span in item.spans] or [_NO_SPAN]
    return [spans[0], *dict.fromkeys(span for span in spans if span not in (spans[0], _NO_SPAN))]


def _token_span(
    packed: serving.PackedPassage, passage: serving.ReadingPassage, start: int, end: int
) -> tuple[int, int]:
    """Return the first and last token of characters of a passage, or -1, -1 if it is cut before."""
    # Offsets count from the start of what is shown: the passage's title comes before its text.
    skip = len(serving.model_text(passage)) - len(passage.text)
    start, end = start + skip, end + skip
    inside = [
        number
        for number, (first, last) in enumerate(packed.offsets)
        if first < end and last > start
    ]

    if not inside or packed.offsets[inside[-1]][1] < end:
        return _NO_SPAN
    return packed.first + inside[0], packed.first + inside[-1]


def _padded(spans: Sequence[Sequence[tuple[int, int]]]) -> Tensor:
    """Return (B, S, 2) the spans of B questions, with -1 for those that a question lacks."""
    widest = max(map(len, spans))
    return torch.tensor([[*each, *[_NO_SPAN] * (widest - len(each))] for each in spans])


def hidden(packed: Sequence[serving.PackedPassage], width: int) -> Tensor:
    """Return (n, width), true for tokens that are not part of the passage."""
    positions = torch.arange(width)[None]
    first = torch.tensor([sequence.first for sequence in packed])[:, None]
    last = torch.tensor([sequence.first + len(sequence.offsets) for sequence in packed])[:, None]
    return (positions < first) | (positions >= last)
