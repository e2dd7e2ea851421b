"""Train a reader by a recipe, and export it: reference QA, eq. 1-3.

A cross-encoder of question and passage selects the passage, and the first and last token of the
answer.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from purlin.index.encoder import Vectors, load_encoder, open_session
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.qa import reader as serving
from purlin.index.qa.spans import best_spans
from purlin.training import distillation, export, model
from purlin.training.checkpoints import best_measures, storing
from purlin.training.config import MAX_SEED, in_range
from purlin.training.cross_encoder import PAIRS_PER_GROUP, CrossEncoder, CrossEncoderTask
from purlin.training.data import questions
from purlin.training.data.questions import Miner, PassagePool, QuestionSource, TrainingQuestion
from purlin.training.devices import add_gradients, make_accelerator
from purlin.training.distillation import ScoredQuestion, ScoreFiles, SoftTargets, TeacherSettings
from purlin.training.encoded import encode_once
from purlin.training.loop import StepProgress, train
from purlin.training.loop_settings import LoopSettings
from purlin.training.model import ModelSettings, in_groups, pad_texts
from purlin.training.quantize import FloatArray, TokenIds
from purlin.training.recorded_recipe import digest
from purlin.training.restore import HEAD
from purlin.training.santa import AVERAGED, Schedule, Stage, averaged

STAGE = "reader"  # the directory of the checkpoints
TEACHER = "teacher"  # the directory of a teacher's scores
PASSAGES = "passages"  # the directory of the passages' vectors, by which wrong ones are found
MAX_WEIGHT = 1e6
NONE_SCORE = 0.0  # of the choice that no passage answers
UNKNOWN = -100  # the passage with the answer to a question without labels
HIDDEN = -1e9  # the logit of a token that cannot be part of an answer
MAX_LOGIT_DIFFERENCE = 1e-3  # fp32 graph against torch: of any logit
# int8 graph against torch: the mean overlap of their distributions over tokens.
MIN_OVERLAP = 0.95
SAMPLE_BATCHES = 4  # batches whose sequences calibrate and check the exported graph


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSettings:
    """Which passages the reader is trained on, and how long sequences are.

    A question comes with `passages` passages: the one with the answer, and others drawn from the
    `depth` best by BM25 and, with an `encoder` directory, as many again that are nearest by its
    vectors. For a share `missing` of the questions the passage with the answer is left out, so that
    no passage answers.

    `equations` "paper" is equations 1 to 3 as published: the softmax over passages has no choice of
    none of them, that over tokens is over a whole sequence, and questions without an answer are not
    used. By default there is such a choice, and answers are in passages.
    """

    passages: int = 4
    depth: int = 20
    missing: float = 0.15
    max_tokens: int = 256
    encoder: str = ""
    equations: Literal["paper"] | None = None

    def __post_init__(self) -> None:
        in_range("passages", self.passages, 2, 64)
        in_range("depth", self.depth, self.passages, 1000)
        in_range("missing", self.missing, 0.0, 0.9)
        in_range("max_tokens", self.max_tokens, 32, 8192)
        if self.equations and self.missing:
            raise InvalidInput(
                'With equations = "paper" some passage has to answer: set missing = 0.',
                field="missing",
            )

    @property
    def none_score(self) -> float | None:
        """The score of the choice that no passage answers; None if there is no such choice."""
        return None if self.equations else NONE_SCORE


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderExport:
    """How the reader is exported; `prior_weight` and `calibration` as in
    `purlin.index.qa.reader.ReaderSettings`.

    Their defaults are those of the released reader; `benchmarks/reader.py --write` tunes them on
    dev questions. `base_share` is the share of the base's weights that is mixed into the trained
    ones: the base has to be a reader, which then forgets less. `base_model` is named in the model
    card, if the recipe's base is a checkpoint of one's own.
    """

    quantization: export.Quantization = "int8"
    base_share: float = 0.0
    prior_weight: float = 0.55
    calibration: tuple[float, ...] = (1.1663, 4.5191, -5.0551, -0.3409, 0.6905)
    base_model: str = ""
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.calibration) != 5:
            raise InvalidInput(
                "calibration has five numbers: a constant and four weights.", field="calibration"
            )
        in_range("base_share", self.base_share, 0.0, 0.99)
        in_range("prior_weight", self.prior_weight, -MAX_WEIGHT, MAX_WEIGHT)
        for weight in self.calibration:
            in_range("calibration", weight, -MAX_WEIGHT, MAX_WEIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRecipe:
    """All that decides a run."""

    name: str
    questions: tuple[QuestionSource, ...]
    dev: tuple[QuestionSource, ...] = ()
    model: ModelSettings = field(default_factory=ModelSettings)
    reading: ReadingSettings = field(default_factory=ReadingSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    export: ReaderExport = field(default_factory=ReaderExport)
    teacher: TeacherSettings | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        export.Card(self.name)  # refuses a name that cannot be exported
        in_range("seed", self.seed, 0, MAX_SEED)
        if not self.questions:
            raise InvalidInput("A recipe needs at least one [[questions]].", field="questions")
        if self.name in (STAGE, TEACHER, PASSAGES, AVERAGED):
            raise InvalidInput(
                f"The name {self.name!r} is that of a directory beside the checkpoints. Rename the "
                "recipe.",
                field="name",
            )
        if self.teacher is None:
            self._refuse_unlabelled(self.questions, "questions", "the recipe has no [teacher]")
        else:
            low, high = self.reading.passages, self.reading.depth
            in_range("teacher.passages", self.teacher.passages, low, high)
            if not any(source.distilled for source in self.questions):
                raise InvalidInput(
                    "The recipe has a [teacher], but no [[questions]] is distilled. Remove [teacher], or "
                    "distilled = false.",
                    field="teacher",
                )
        self._refuse_unlabelled(self.dev, "dev", "nothing can be measured on them")

    def _refuse_unlabelled(self, sources: Sequence[QuestionSource], name: str, reason: str) -> None:
        for source in sources:
            if source.format == "unlabelled":
                raise InvalidInput(
                    f"{source.path} has questions without labels, but {reason}.", field=name
                )


class ReaderModel(CrossEncoder):
    """A cross-encoder with start, end and selection logits on every token."""

    def __init__(self, text_model: model.BertLike) -> None:
        super().__init__(text_model, 3)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return start logits (n, t), end logits (n, t) and selection logits (n,).

        `ids` and `mask` are (n, t). A passage is selected by its sequence's first token.
        """
        logits = self.head(self.states(ids, mask)).float()
        return logits[..., 0], logits[..., 1], logits[:, 0, 2]

    def grouped(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return `forward`'s logits, computed in groups of similar length, which saves padding."""

        def read_group(group_ids: Tensor, group_mask: Tensor) -> tuple[Tensor, ...]:
            starts, ends, selected = self(group_ids, group_mask)
            # Groups are cut to their longest text: their logits are filled up again.
            missing = (0, ids.shape[1] - group_ids.shape[1])
            padded_starts = F.pad(starts, missing, value=HIDDEN)
            return padded_starts, F.pad(ends, missing, value=HIDDEN), selected

        starts, ends, selected = in_groups(read_group, ids, mask, PAIRS_PER_GROUP)
        return starts, ends, selected

    def digest(self) -> str:
        """Return the SHA-256 (hex) of weights and tokenizer."""
        sha256 = hashlib.sha256(self.tokenizer.backend_tokenizer.to_str().encode())
        for name, weight in self.state_dict().items():
            sha256.update(name.encode())
            sha256.update(weight.cpu().contiguous().numpy().tobytes())
        return sha256.hexdigest()


def load_reader_model(
    settings: ModelSettings, directory: Path | None = None, *, new_head: bool = True
) -> ReaderModel:
    """Load the base model, or what `save` wrote to `directory`.

    The head is a new one unless the base is a reader, also one of DPR's; without `new_head`, a base
    that is none is refused with InvalidInput. Raises what `purlin.training.model.load_text_model`
    does, and Damaged for a head that cannot be read.
    """
    text_model = model.load_text_model(settings, directory, decoder=False)
    if not isinstance(text_model, model.BertLike):
        raise InvalidInput("A reader needs a BERT-like base model.", field="base")

    reader = ReaderModel(text_model)
    source = directory or Path(model.base_path(settings.base))
    if directory is not None or (source / HEAD).is_file():
        reader.load_head(source)
    elif text_model.answer_head is not None:
        reader.head.load_state_dict(text_model.answer_head)
    elif not new_head:
        raise InvalidInput(
            f"{settings.base} is not a reader: it has no {HEAD}. Give the checkpoint of a reader, an "
            "exported one, or one of DPR's.",
            field="base",
        )
    return reader


def train_reader(
    recipe: ReaderRecipe,
    out: Path,
    *,
    progress: Callable[[str], StepProgress],
    say: Callable[[str], None],
    cpu: bool = False,
) -> Path:
    """Train and export; return the reader directory `out`/NAME. A run that was killed is resumed.

    `progress` returns the function that is called after each step; `say` is called with a line of
    text now and then.
    """
    accelerator = make_accelerator(recipe.loop, cpu=cpu, out=out, say=say)
    # The new head starts with the same weights in every process.
    torch.manual_seed(recipe.seed)
    new_head = not recipe.export.base_share
    reader = load_reader_model(recipe.model, new_head=new_head).to(accelerator.device)
    export.refuse_longer("reading.max_tokens", recipe.reading.max_tokens, reader)

    # The others read the vectors that the main process has written.
    with accelerator.main_process_first():
        training, dev = _read_questions(recipe, out / PASSAGES, progress(PASSAGES))
    if accelerator.is_main_process:
        _say_counts(recipe, training, dev, say)

    scores = _teacher_scores(recipe, training, out / TEACHER, accelerator, progress(TEACHER))
    task = ReaderTask(reader, training, recipe, accelerator, dev=dev, scores=scores)

    # The export does not change the curve.
    texts = [source.digest() for source in (*training, *dev)]
    texts += [scores.digest] if scores else []
    checkpoint = train(
        task,
        recipe.loop,
        out / STAGE,
        accelerator,
        seed=recipe.seed,
        recipe=asdict(recipe) | {"export": None, "texts": texts},
        progress=progress(STAGE) if accelerator.is_main_process else None,
        say=say,
    )

    if accelerator.is_main_process:
        samples = [
            sequence.ids
            for number in range(SAMPLE_BATCHES)
            for drawn in task.drawn(number)[0]
            for sequence in drawn.packed
        ]
        measures = best_measures(checkpoint)
        if recipe.export.base_share:
            checkpoint, measures = _average_with_base(task, checkpoint, out)
        export_reader(recipe, checkpoint, out / recipe.name, samples, measures)
    accelerator.wait_for_everyone()
    return out / recipe.name


def _say_counts(
    recipe: ReaderRecipe,
    training: Sequence[Questions],
    dev: Sequence[Questions],
    say: Callable[[str], None],
) -> None:
    sources = zip((*recipe.questions, *recipe.dev), (*training, *dev), strict=True)
    for source, mined in sources:
        count = f"{len(mined.items):,} questions"
        say(f"{source.path.name} ({source.format}, {source.split}): {count}")


def _average_with_base(task: ReaderTask, trained: Path, out: Path) -> tuple[Path, dict[str, float]]:
    """Write the trained reader mixed with its base; return the checkpoint and its dev measures."""
    recipe, checkpoint = task.recipe, out / AVERAGED
    with storing(checkpoint):
        mixed = averaged(
            load_reader_model(recipe.model),
            load_reader_model(recipe.model, trained),
            recipe.export.base_share,
        )
        mixed.save(checkpoint)

    task.restore(checkpoint)
    task.model.eval()
    with torch.no_grad():
        return checkpoint, task.measure()


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions of one source, with their passages; a teacher reads them if they are `distilled`.

    `wrong` (n, depth) are rows of passages that do not answer the question.
    """

    pool: PassagePool
    items: Sequence[TrainingQuestion]
    wrong: NDArray[np.int32]
    distilled: bool = True

    def candidates(self, number: int, count: int) -> list[int]:
        """Return the rows of a question's own passage, if that is known, and of the best others."""
        item = self.items[number]
        own = [item.passage] if item.labelled else []
        return [*own, *self.wrong[number][: count - len(own)].tolist()]

    def digest(self) -> str:
        """Return the digest of all that training uses."""
        passages = ((passage.text, passage.context) for passage in self.pool.passages)
        return digest([*self.items, *passages, self.wrong.tolist()])


def _read_questions(
    recipe: ReaderRecipe, directory: Path, progress: StepProgress
) -> tuple[list[Questions], list[Questions]]:
    """Return the questions of each training source and of each dev source.

    Vectors of the references' passages are kept in `directory`, for a run that is resumed.
    """
    pools: questions.Pools = {}
    mine = _miner(recipe.reading, directory, progress)

    training = [_mined(source, pools, recipe.reading, mine) for source in recipe.questions]
    dev = [_mined(source, pools, recipe.reading, mine) for source in recipe.dev]
    return training, dev


def _miner(
    reading: ReadingSettings, directory: Path, progress: StepProgress
) -> Callable[[PassagePool], Miner]:
    """Return what opens the miner of a reference's passages."""
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
            progress=lambda done, total: progress(done, total, {}),
        )

    return lambda pool: Miner(pool, encoder, passage_vectors)


def _mined(
    source: QuestionSource,
    pools: questions.Pools,
    reading: ReadingSettings,
    mine: Callable[[PassagePool], Miner],
) -> Questions:
    pool, items = questions.load_questions(source, pools)
    if reading.equations:
        items = [item for item in items if item.answered or not item.labelled]
        if not items:
            raise InvalidInput(
                f'{source.path} has no question with an answer, as equations = "paper" needs.',
                field="questions",
            )

    # Sources of the same reference share a pool, and its index of passages.
    pool.miner = pool.miner or mine(pool)
    wrong = pool.miner.wrong(items, reading.depth)
    return Questions(pool, items, wrong, source.distilled)


@dataclass(frozen=True, slots=True)
class ReadingBatch:
    """B questions with P passages each.

    `ids`, `mask`, `hidden` (B * P, t), `hidden` where no answer can be; `right` (B,) the passage
    with the answer, counted from 1, or 0 for none, or UNKNOWN; `spans` (B, 2) the answer's first
    and last token in it, or -1 if unknown; `soft` a teacher's targets.
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
    """A question of a batch: its packed passages, the one with the answer, and the answer's tokens.

    `right` and `span` as in `ReadingBatch`. `number` counts questions over all sources, and
    `positions` are those of the passages among `Questions.candidates`.
    """

    number: int
    packed: list[serving.PackedPassage]
    positions: list[int]
    right: int
    span: tuple[int, int]


class ReaderTask(CrossEncoderTask):
    """The questions of a recipe, as a `purlin.training.task.Task`."""

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
        stage = Stage(name=STAGE, loop=recipe.loop)
        self.schedule = Schedule(sizes, weights, stage, recipe.seed)
        self.starts = np.cumsum([0, *sizes])
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
        source_number = int(np.searchsorted(self.starts, row, side="right")) - 1
        source = self.sources[source_number]
        number = row - int(self.starts[source_number])
        item = source.items[number]

        missing = rng.random() < self.recipe.reading.missing and item.answered
        positions = self._positions(source, number, rng, with_own=item.labelled and not missing)
        candidates = source.candidates(number, 1 + source.wrong.shape[1])
        passages = [source.pool.passages[candidates[position]] for position in positions]
        packed = self.packer.pack(item.question, passages)

        right, span = 0, (-1, -1)
        if not item.labelled:
            right = UNKNOWN
        elif item.answered and not missing:
            right, span = 1, token_span(packed[0], passages[0], item)
        return DrawnQuestion(row, packed, positions, right, span)

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
        ids, mask = self._padded(packed)

        outside = hidden(packed, ids.shape[1])
        if self.recipe.reading.equations:
            outside = mask == 0
        right = torch.tensor([question.right for question in drawn])
        spans = torch.tensor([question.span for question in drawn])
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
        return distillation.soft_targets(scores, packed, width, self.recipe.teacher.temperature)

    def _scores(self, drawn: DrawnQuestion) -> list[distillation.PassageScores] | None:
        """Return a teacher's scores of a question's passages; None if it has not read them."""
        assert self.scores is not None
        row = int(self.score_rows[drawn.number])
        if row < 0:
            return None
        passages = self.scores.of(row)
        return [passages[position] for position in drawn.positions]

    def _padded(self, packed: Sequence[serving.PackedPassage]) -> tuple[Tensor, Tensor]:
        rows = [sequence.ids.tolist() for sequence in packed]
        return pad_texts(rows, self.model.tokenizer.pad_token_id or 0)

    def backward(self, batch: ReadingBatch) -> dict[str, float]:
        """Add the gradients of the sum of the cross entropies and of a teacher's losses.

        See `reading_loss` and `purlin.training.distillation`.
        """
        device = self.accelerator.device
        starts, ends, selected = self._logits(batch.ids.to(device), batch.mask.to(device))

        no_answer = batch.hidden.to(device)
        starts = starts.masked_fill(no_answer, HIDDEN)
        ends = ends.masked_fill(no_answer, HIDDEN)
        none_score = self.recipe.reading.none_score
        right, spans = batch.right.to(device), batch.spans.to(device)
        losses = reading_loss(starts, ends, selected, right, spans, none_score)

        if batch.soft is not None and (teacher := self.recipe.teacher) is not None:
            soft = distillation.distillation_loss(
                starts, ends, selected, batch.soft.on(device), teacher.temperature, none_score
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

        ids, mask = self._padded(packed)
        device = self.accelerator.device
        logits = self._logits(ids.to(device), mask.to(device))
        starts, ends, selected = (values.cpu().numpy() for values in logits)

        best = int(selected.argmax())
        best_logits = serving.PassageLogits(
            packed[best], starts[best], ends[best], float(selected[best])
        )
        spans = best_spans(passages[best], best_logits)
        answer = passages[best].text[spans[0].start : spans[0].end] if spans else ""
        return answer == item.answer(source.pool) != "", chosen[best] == item.passage

    def restore(self, directory: Path) -> None:
        """Load the weights that `save` wrote."""
        self.model.load_state_dict(load_reader_model(self.recipe.model, directory).state_dict())


def token_span(
    packed: serving.PackedPassage, passage: serving.ReadingPassage, item: TrainingQuestion
) -> tuple[int, int]:
    """Return the answer's first and last token in a sequence, or -1, -1 if unknown or cut off."""
    if item.start is None or item.end is None:
        return -1, -1

    # Offsets count from the start of what is shown: the passage's title comes before its text.
    skip = len(serving.model_text(passage)) - len(passage.text)
    start, end = item.start + skip, item.end + skip
    inside = [
        number
        for number, (first, last) in enumerate(packed.offsets)
        if first < end and last > start
    ]

    if not inside or packed.offsets[inside[-1]][1] < end:
        return -1, -1
    return packed.first + inside[0], packed.first + inside[-1]


def hidden(packed: Sequence[serving.PackedPassage], width: int) -> Tensor:
    """Return (n, width), true for tokens that are not part of the passage."""
    positions = torch.arange(width)[None]
    first = torch.tensor([sequence.first for sequence in packed])[:, None]
    last = torch.tensor([sequence.first + len(sequence.offsets) for sequence in packed])[:, None]
    return (positions < first) | (positions >= last)


def reading_loss(
    starts: Tensor,
    ends: Tensor,
    selected: Tensor,
    right: Tensor,
    spans: Tensor,
    none_score: float | None = NONE_SCORE,
) -> dict[str, Tensor]:
    """Return the losses "select" (eq. 3), "start" and "end" (eq. 1 and 2), each a mean over
    questions.

    `starts`, `ends` (B * P, t); `selected` (B * P,); `right` (B,) the passage with the answer,
    counted from 1; 0 is "none of them", whose score is `none_score`. Without one (None), as in the
    paper, `right` is never 0. A question whose `right` is UNKNOWN adds nothing. `spans` (B, 2) are
    the answer's ends in the right passage, or -1 if unknown: such questions add nothing to eq. 1
    and 2.
    """
    b = len(right)
    choices = selected.reshape(b, -1)
    answers = torch.where(right == UNKNOWN, right, right - 1)
    if none_score is not None:
        choices, answers = F.pad(choices, (1, 0), value=none_score), right  # (B, 1 + P)
    selection = F.cross_entropy(choices, answers, ignore_index=UNKNOWN, reduction="sum")
    losses = {"select": selection / b}

    has_span = spans[:, 0] >= 0
    first_rows = torch.arange(b, device=right.device) * (selected.numel() // b)
    rows = first_rows + (right - 1).clamp(min=0)
    for name, logits, tokens in (("start", starts, spans[:, 0]), ("end", ends, spans[:, 1])):
        per_question = F.cross_entropy(logits[rows], tokens.clamp(min=0), reduction="none")
        losses[name] = (per_question * has_span).sum() / b
    return losses


# -- a teacher's scores -------------------------------------------------------------------------


def _teacher_scores(
    recipe: ReaderRecipe,
    sources: Sequence[Questions],
    directory: Path,
    accelerator: Accelerator,
    progress: StepProgress,
) -> ScoreFiles | None:
    """Compute the scores of the recipe's teacher that `directory` lacks; None without a teacher."""
    teacher = recipe.teacher
    if teacher is None:
        return None

    read, teacher_digest = _open_teacher(recipe, teacher, accelerator)
    scored: list[ScoredQuestion] = []
    for source in (source for source in sources if source.distilled):
        for number, item in enumerate(source.items):
            rows = source.candidates(number, teacher.passages)
            scored.append((item.question, [source.pool.passages[row] for row in rows]))

    texts = ((text, map(serving.model_text, passages)) for text, passages in scored)
    everything = [teacher_digest, *((text, *passages) for text, passages in texts)]
    files = ScoreFiles(directory, digest(everything), len(scored))
    files.compute(
        scored,
        read,
        process=accelerator.process_index,
        processes=accelerator.num_processes,
        progress=lambda number, total: progress(number, total, {}),
    )
    return files


def _open_teacher(
    recipe: ReaderRecipe, teacher: TeacherSettings, accelerator: Accelerator
) -> tuple[distillation.Read, str]:
    """Return what reads passages as the teacher does, and the digest of the teacher.

    Raises InvalidInput, naming the field, if it is not a reader.
    """
    if (Path(teacher.base) / serving.READER_SETTINGS).is_file():
        exported = serving.Reader.load(Path(teacher.base))
        return lambda questions: _read_exported(exported, questions), exported.fingerprint

    max_tokens = teacher.max_tokens or recipe.reading.max_tokens
    settings = replace(recipe.model, base=teacher.base, dropout=None, layers=0, frozen_layers=0)
    try:
        reader = load_reader_model(settings, new_head=False).eval().to(accelerator.device)
    except (InvalidInput, NotFound) as error:
        raise type(error)(f"[teacher] {error.message}", field="teacher.base") from None
    export.refuse_longer("teacher.max_tokens", max_tokens, reader)

    packer = reader.packer(max_tokens)
    identity = digest([max_tokens, reader.digest()])
    return lambda questions: _read_checkpoint(reader, packer, accelerator, questions), identity


def _read_exported(
    exported: serving.Reader, questions: Sequence[ScoredQuestion]
) -> list[serving.PassageLogits]:
    return [logits for question in questions for logits in exported.read(*question)]


def _read_checkpoint(
    reader: ReaderModel,
    packer: serving.Packer,
    accelerator: Accelerator,
    questions: Sequence[ScoredQuestion],
) -> list[serving.PassageLogits]:
    packed = [sequence for question in questions for sequence in packer.pack(*question)]
    rows = [sequence.ids.tolist() for sequence in packed]
    ids, mask = pad_texts(rows, reader.tokenizer.pad_token_id or 0)

    device = accelerator.device
    with torch.inference_mode(), accelerator.autocast():
        logits = reader.grouped(ids.to(device), mask.to(device))
    starts, ends, selected = (values.float().cpu().numpy() for values in logits)
    return [
        serving.PassageLogits(sequence, starts[row], ends[row], float(selected[row]))
        for row, sequence in enumerate(packed)
    ]


# -- export -------------------------------------------------------------------------------------


def export_reader(
    recipe: ReaderRecipe,
    checkpoint: Path,
    out: Path,
    samples: Sequence[TokenIds],
    measures: Mapping[str, float] = MappingProxyType({}),
) -> serving.Reader:
    """Write the reader directory `out` from a checkpoint, replacing it.

    `samples` are sequences of question and passage. The scales of int8 are measured on them, and
    the graph's logits are compared with the checkpoint's; ExportRefused is raised if they differ,
    and `out` then stays as it was.
    """
    trained = load_reader_model(recipe.model, checkpoint).eval()
    expected = _torch_outputs(trained, samples)

    with export.replacing_directory(out) as new:
        graph_path = new / serving.MODEL
        export.write_tokenizer(trained.tokenizer, new / serving.TOKENIZER)
        export.trace(
            _ReaderGraph(trained), trained.transformer, graph_path, ["start", "end", "selected"]
        )
        _compare(expected, _graph_outputs(graph_path, samples), "none")

        if recipe.export.quantization == "int8":
            export.quantize_graphs(new, samples)
            _compare(expected, _graph_outputs(graph_path, samples), "int8")

        _write_reader_settings(recipe, measures, new)
        (new / export.CARD).write_text(_card_text(recipe, measures))
    return serving.Reader.load(out)


class _ReaderGraph(nn.Module):
    """What the ONNX graph computes: ids without padding -> logits."""

    def __init__(self, trained: ReaderModel) -> None:
        super().__init__()
        self.trained = trained

    def forward(self, input_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits: tuple[Tensor, Tensor, Tensor] = self.trained(input_ids)
        return logits


Outputs = list[tuple[FloatArray, ...]]
"""Start logits, end logits and selection logit of each sample."""


def _torch_outputs(trained: ReaderModel, samples: Sequence[TokenIds]) -> Outputs:
    with torch.no_grad():
        return [
            tuple(logits[0].numpy() for logits in trained(torch.from_numpy(ids)[None]))
            for ids in samples
        ]


def _graph_outputs(path: Path, samples: Sequence[TokenIds]) -> Outputs:
    session = open_session(path.read_bytes())
    return [
        tuple(logits[0] for logits in session.run(None, {"input_ids": ids[None]}))
        for ids in samples
    ]


def _compare(expected: Outputs, computed: Outputs, quantization: export.Quantization) -> None:
    """Raise ExportRefused if the graph's logits are not those of the checkpoint."""
    pairs = [
        pair
        for sample_pair in zip(expected, computed, strict=True)
        for pair in zip(*sample_pair, strict=True)
    ]
    difference = max(float(np.abs(reference - logits).max()) for reference, logits in pairs)
    overlaps = [_overlap(reference, logits) for reference, logits in pairs if reference.ndim]

    export.refuse_difference(
        "logits",
        quantization,
        difference=difference,
        max_difference=MAX_LOGIT_DIFFERENCE,
        similarity=float(np.mean(overlaps)),
        min_similarity=MIN_OVERLAP,
        similarity_name="mean overlap of distributions",
    )


def _overlap(reference: FloatArray, logits: FloatArray) -> float:
    """Return the overlap of two softmax distributions, which is 1 if they are equal."""
    return float(np.minimum(_softmax(reference), _softmax(logits)).sum())


def _softmax(logits: FloatArray) -> FloatArray:
    exponentials = np.exp(logits - logits.max())
    shares: FloatArray = exponentials / exponentials.sum()
    return shares


def _write_reader_settings(
    recipe: ReaderRecipe, measures: Mapping[str, float], directory: Path
) -> None:
    settings = serving.ReaderSettings(
        name=recipe.name,
        max_tokens=recipe.reading.max_tokens,
        prior_weight=recipe.export.prior_weight,
        calibration=recipe.export.calibration,
        files=export.file_digests(directory, (serving.MODEL, serving.TOKENIZER)),
    )
    details = {
        "base_model": _base_model(recipe),
        "trained_on": list(recipe.export.trained_on),
        "measures": dict(measures),
    }
    export.write_settings(directory / serving.READER_SETTINGS, settings, details)


def _base_model(recipe: ReaderRecipe) -> str:
    return recipe.export.base_model or recipe.model.base


def _card_text(recipe: ReaderRecipe, measures: Mapping[str, float]) -> str:
    precisions = {"int8": "8-bit, with 8-bit activations at fixed scales", "none": "32-bit"}

    return f"""# {recipe.name}

A reader for Purlin: `model.onnx` maps ids of `[CLS] question [SEP] passage [SEP]`, int64 (n, t) without \
padding, to
start and end logits (n, t) and a passage's selection logit (n,), where 0 is the logit of "no passage answers".

- **Base model**: {_base_model(recipe)}, licence {recipe.export.base_licence}
- **Longest sequence**: {recipe.reading.max_tokens} tokens, of which the question takes at most a third
- **Weights**: {precisions[recipe.export.quantization]}

## Trained on
{export.markdown_list(recipe.export.trained_on)}

## Measures
{export.markdown_measures(measures, ".4f")}

## Limits
{export.markdown_list(recipe.export.limits)}
"""
