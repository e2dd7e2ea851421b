"""SANTA: train an encoder by a recipe, and export it.

Stages align pairs of texts and structured data, predict masked entities, and fine-tune on queries.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
import torch.distributed.nn
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from purlin.index.encoder import Role
from purlin.index.errors import InvalidInput
from purlin.training import export, mining, model
from purlin.training.checkpoints import best_measures, storing
from purlin.training.config import MAX_SEED, in_range, refuse_repeated
from purlin.training.data import augment, masking
from purlin.training.data.pair_loading import Report, load_pairs
from purlin.training.data.pairs import Pair, PairSource
from purlin.training.dev import DevEvaluator, DevSet
from purlin.training.devices import add_gradients, make_accelerator
from purlin.training.encoded import RoleEncoder, identity_of, require_encoder, role_encoder
from purlin.training.loop import StepProgress, train
from purlin.training.loop_settings import LoopSettings
from purlin.training.losses import (
    IGNORED,
    cached_backward,
    contrastive,
    list_divergence,
    reconstruction,
)
from purlin.training.model import ModelSettings, TextModel, base_name, pad_targets, pad_texts
from purlin.training.recorded_recipe import digest

Mask = Literal["entity", "span"]
Trains = Literal["all", "decoder"]
RowNumbers = NDArray[np.int64]
ROLES: tuple[Role, Role] = ("query", "passage")
AnyModel = TypeVar("AnyModel", bound=nn.Module)
TEXTS_PER_GROUP = 32  # smaller groups have less padding, but more overhead
SPAN_SHARE = 0.15  # share of words that is masked, as in the pretraining of T5
REPORT = "report.txt"  # what was trained on, and what was masked in it
AVERAGED = "averaged"  # directory of the checkpoint into which the base model was mixed


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTeacher:
    """An encoder from whose ranking of a batch's passages a stage learns.

    `base` is the directory of an exported encoder or of a checkpoint. The loss is `weight` times
    the divergence KL(softmax(teacher's cosines / `temperature`) || softmax(similarities / the
    stage's temperature)) over the batch's passages, the mean over its queries.
    """

    base: Path
    weight: float = 1.0
    temperature: float = 0.05

    def __post_init__(self) -> None:
        in_range("weight", self.weight, 1e-3, 1000.0)
        in_range("temperature", self.temperature, 1e-3, 100.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of training, which starts from the best checkpoint of the stage before it.

    `pairs` names the sources, by default all; `weights` gives, for each of `pairs`, how often its
    pairs come in an epoch, by default the sources' own. Pairs are drawn in `forms`. `batches`
    "one-source" draws each batch from one source, whose passages are harder negatives of each
    other. Those of one package are harder still: it has them together in groups of at most `group`
    pairs, where the source names the packages.

    The loss is `sda` times the contrastive loss of eq. 5 (of eq. 3 in fine-tuning, which is the
    same) plus `mep` times that of masked entity prediction, eq. 7. `mask_share` is the share of
    different entities that is masked, by default all, or of words with the "span" mask, by default
    T5's 0.15.

    `hard_negatives` are drawn for each pair: `labelled_share` of them from its labelled negatives,
    if it has any, the others from the `depth` best passages of the current model, which are mined
    again every `refresh` epochs. `part` computes the contrastive loss in parts of that many pairs,
    in the memory of one part.

    With a `teacher`, the loss of its ranking is added; with sda = 0 a stage learns from it without
    labels.

    A stage that `trains` the "decoder" alone keeps the encoder as it is: the light decoder of a
    BERT-like model, which starts at random, learns to predict before its errors reach the encoder.
    """

    name: str
    pairs: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    loop: LoopSettings = field(default_factory=LoopSettings)
    sda: float = 1.0
    mep: float = 0.0
    mask: Mask = "entity"
    mask_share: float | None = None
    temperature: float = 1.0
    hard_negatives: int = 0
    depth: int = 100
    refresh: int = 1
    part: int | None = None
    forms: augment.Forms = field(default_factory=augment.Forms)
    batches: Literal["mixed", "one-source"] = "mixed"
    group: int = 1
    labelled_share: float = 1.0
    trains: Trains = "all"
    teacher: StageTeacher | None = None

    def __post_init__(self) -> None:
        self._check_name_and_loss()
        if self.weights and len(self.weights) != len(self.pairs):
            raise InvalidInput(
                f"Stage {self.name} has {len(self.pairs)} pairs and {len(self.weights)} weights; "
                "give one for each.",
                field="weights",
            )
        for weight in self.weights:
            in_range("weights", weight, 1e-6, 100.0)

        if self.mask_share is not None:
            in_range("mask_share", self.mask_share, 0.01, 1.0)
        in_range("temperature", self.temperature, 1e-3, 100.0)
        in_range("hard_negatives", self.hard_negatives, 0, 32)
        in_range("depth", self.depth, max(1, self.hard_negatives), 1000)
        in_range("refresh", self.refresh, 1, 1000)
        in_range("labelled_share", self.labelled_share, 0.0, 1.0)
        in_range("group", self.group, 1, 1 << 20)
        if self.group > 1 and self.batches != "one-source":
            raise InvalidInput(
                f'Stage {self.name} has groups of one package: they need batches = "one-source".',
                field="group",
            )
        if self.part is not None:
            in_range("part", self.part, 1, 1 << 20)

    @property
    def compares(self) -> bool:
        """Whether a loss of this stage compares queries with passages."""
        return bool(self.sda or self.teacher)

    def _check_name_and_loss(self) -> None:
        if not self.name.replace("-", "").isalnum():
            raise InvalidInput(
                f"A stage's name is letters, digits and dashes, not {self.name!r}.", field="name"
            )

        for name in ("sda", "mep"):
            in_range(name, getattr(self, name), 0.0, 1000.0)
        if not (self.sda + self.mep or self.teacher):
            raise InvalidInput(
                f"Stage {self.name} trains nothing: sda and mep are both 0, and it has no teacher.",
                field="sda",
            )
        if self.trains == "decoder" and (self.compares or not self.mep):
            raise InvalidInput(
                f"Stage {self.name} trains the decoder alone, which only masked entity prediction "
                "does: set sda = 0 and mep above 0, and leave the teacher out.",
                field="trains",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SantaExport:
    """How the encoder is exported.

    `base_share` is the share of the base model's weights that is mixed into the trained ones.
    """

    quantization: export.Quantization = "int8"
    max_tokens: int = 256
    base_share: float = 0.0
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        in_range("base_share", self.base_share, 0.0, 0.99)
        in_range("max_tokens", self.max_tokens, 8, 8192)


@dataclass(frozen=True, slots=True, kw_only=True)
class SantaRecipe:
    """All that decides a run.

    Pairs that resemble a text of `exclude`, which are evaluation sets, are left out of training.
    """

    name: str
    pairs: tuple[PairSource, ...]
    stage: tuple[Stage, ...]
    model: ModelSettings = field(default_factory=ModelSettings)
    exclude: tuple[Path, ...] = ()
    dev: tuple[DevSet, ...] = ()
    export: SantaExport = field(default_factory=SantaExport)
    seed: int = 1

    def __post_init__(self) -> None:
        export.Card(self.name)  # refuses a name that cannot be exported
        in_range("seed", self.seed, 0, MAX_SEED)
        if not self.pairs or not self.stage:
            raise InvalidInput(
                "A recipe needs at least one [[pairs]] and one [[stage]].", field="pairs"
            )

        refuse_repeated([dev_set.name for dev_set in self.dev], "Dev sets", "dev")
        self._check_directories()
        self._check_stages()

    def _check_directories(self) -> None:
        """Raise InvalidInput if two checkpoints or the encoder would share a directory."""
        names = [stage.name for stage in self.stage]
        refuse_repeated(names, "Stages", "stage")
        if self.name in names:
            raise InvalidInput(
                f"The stage {self.name!r} has the recipe's name, so the encoder would replace its "
                "checkpoints. Rename one of them.",
                field="stage",
            )
        if self.export.base_share and AVERAGED in (self.name, *names):
            owner, field_name = ("recipe", "name") if self.name == AVERAGED else ("stage", "stage")
            raise InvalidInput(
                f"With base_share the directory {AVERAGED!r} holds the averaged checkpoint. Rename the "
                f"{owner}.",
                field=field_name,
            )

    def _check_stages(self) -> None:
        """Raise InvalidInput if stages contradict the sources, each other or the model."""
        source_names = {source.name for source in self.pairs if source.name}
        unknown = [name for stage in self.stage for name in stage.pairs if name not in source_names]
        if unknown:
            names = ", ".join(sorted(source_names))
            hint = f"there are {names}." if names else "give each a name."
            raise InvalidInput(f"No [[pairs]] is named {unknown[0]!r}; {hint}", field="stage")
        if len({stage.loop.precision for stage in self.stage}) > 1:
            raise InvalidInput("All stages need the same precision.", field="stage")
        if self.export.base_share and self.model.scratch:
            raise InvalidInput(
                "A model from scratch has no base whose weights could be mixed in: leave base_share "
                "out.",
                field="export.base_share",
            )

    def sources_of(self, stage: Stage) -> dict[int, float]:
        """Return the numbers of the sources that a stage uses, with their weights in it."""
        own = dict(zip(stage.pairs, stage.weights, strict=False))
        return {
            number: own.get(source.name, source.weight)
            for number, source in enumerate(self.pairs)
            if not stage.pairs or source.name in stage.pairs
        }


def train_santa(
    recipe: SantaRecipe,
    out: Path,
    *,
    progress: Callable[[str], StepProgress],
    say: Callable[[str], None],
    cpu: bool = False,
) -> Path:
    """Train all stages and export; return the encoder directory `out`/NAME.

    A run that was killed is resumed. `progress` returns, for a stage's name, the function that is
    called after each of its steps; `say` is called with a line of text now and then.
    """
    _require_teachers(recipe.stage)
    accelerator = make_accelerator(recipe.stage[0].loop, cpu=cpu, out=out, say=say)
    sources, report = load_pairs(recipe.pairs, recipe.exclude)
    digests = [digest(source) for source in sources]
    if accelerator.is_main_process:
        _describe_masks(recipe, sources, report)
        say(str(report))

    checkpoint: Path | None = None
    for number, stage in enumerate(recipe.stage):
        # What the base model lacks starts with the same weights in every process.
        torch.manual_seed(recipe.seed)
        text_model = model.load_text_model(recipe.model, checkpoint).to(accelerator.device)
        export.refuse_longer("export.max_tokens", recipe.export.max_tokens, text_model)

        weights = recipe.sources_of(stage)
        task = SantaTask(
            text_model,
            [sources[source] for source in weights],
            stage,
            accelerator,
            seed=recipe.seed,
            directory=out / stage.name,
            weights=list(weights.values()),
            dev=DevEvaluator(recipe.dev, text_model, accelerator, temperature=stage.temperature),
        )
        if accelerator.is_main_process:
            # Not before a recipe is known to run.
            _write_report(out, report)
        checkpoint = train(
            task,
            stage.loop,
            out / stage.name,
            accelerator,
            seed=recipe.seed,
            recipe=_recipe_until(recipe, number, digests),
            progress=progress(stage.name) if accelerator.is_main_process else None,
            say=say,
        )

    assert checkpoint is not None
    if accelerator.is_main_process:
        _export(recipe, checkpoint, out, report, accelerator)
    accelerator.wait_for_everyone()
    return out / recipe.name


def _describe_masks(recipe: SantaRecipe, sources: Sequence[Sequence[Pair]], report: Report) -> None:
    """Add to the report what is masked in the sources of stages that predict entities."""
    masked = {
        number
        for stage in recipe.stage
        if stage.mep and stage.mask == "entity"
        for number in recipe.sources_of(stage)
    }
    for number in masked:
        report.sources[number].masks = masking.describe_entities(sources[number])


def _write_report(out: Path, report: Report) -> None:
    with storing(out):
        out.mkdir(parents=True, exist_ok=True)
        (out / REPORT).write_text(f"{report}\n")


def _recipe_until(recipe: SantaRecipe, number: int, digests: Sequence[str]) -> dict[str, Any]:
    """Return what decides the curve of stage `number`: later stages and the export do not."""
    stages = recipe.stage[: number + 1]
    content = asdict(replace(recipe, stage=stages, export=SantaExport()))
    content["texts"] = [digests[source] for stage in stages for source in recipe.sources_of(stage)]

    if teachers := _teachers(stages):
        content["teachers"] = [identity_of(base) for base in teachers]
    return content


def _require_teachers(stages: Sequence[Stage]) -> None:
    """Raise NotFound for a teacher that is missing, before hours of the stages before its own."""
    for base in _teachers(stages):
        require_encoder(base)


def _teachers(stages: Sequence[Stage]) -> list[Path]:
    return [stage.teacher.base for stage in stages if stage.teacher]


def _export(
    recipe: SantaRecipe, trained: Path, out: Path, report: Report, accelerator: Accelerator
) -> None:
    checkpoint, measures = trained, best_measures(trained)
    if recipe.export.base_share:
        checkpoint, measures = _average_with_base(recipe, trained, out, accelerator)

    from_scratch = recipe.model.scratch is not None
    counts = tuple(f"{source.name}: {source.kept:,} pairs" for source in report.sources)
    card = export.Card(
        recipe.name,
        base_model="none: trained from scratch" if from_scratch else base_name(recipe.model.base),
        base_licence=recipe.export.base_licence,
        trained_on=recipe.export.trained_on or counts,
        measures=measures,
        limits=recipe.export.limits,
    )
    export.export(
        checkpoint,
        out / recipe.name,
        card,
        quantization=recipe.export.quantization,
        max_tokens=recipe.export.max_tokens,
        similarity=recipe.model.similarity,
    )


def _average_with_base(
    recipe: SantaRecipe, trained: Path, out: Path, accelerator: Accelerator
) -> tuple[Path, dict[str, float]]:
    """Write the trained model mixed with the base model; return its checkpoint and dev measures."""
    checkpoint = out / AVERAGED
    with storing(checkpoint):
        base = model.load_text_model(recipe.model)
        mixed = averaged(
            base, model.load_text_model(recipe.model, trained), recipe.export.base_share
        )
        mixed.save(checkpoint)

    temperature = recipe.stage[-1].temperature
    dev = DevEvaluator(
        recipe.dev, mixed.to(accelerator.device), accelerator, temperature=temperature
    )
    return checkpoint, dev.measure()


def averaged(base: nn.Module, trained: AnyModel, base_share: float) -> AnyModel:
    """Mix a share of `base` into every weight of `trained` (WiSE-FT, Wortsman et al. 2022)."""
    base_weights = base.state_dict()
    mixed = {
        name: weight.lerp(base_weights[name], base_share)
        for name, weight in trained.state_dict().items()
    }
    # In place: `trained` is not used on its own afterwards.
    trained.load_state_dict(mixed)
    return trained


@dataclass(frozen=True, slots=True)
class PairBatch:
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

    def on(self, device: torch.device) -> PairBatch:
        """Return the same batch on another device."""

        def moved(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(moved, value))
            return value.to(device) if isinstance(value, Tensor) else value

        values = {field.name: moved(getattr(self, field.name)) for field in fields(self)}
        return PairBatch(**values)


class SantaTask:
    """One stage on its pairs, as a `purlin.training.task.Task`."""

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
        self.seed = seed
        self.directory = directory

        self.pairs = [pair for source in sources for pair in source]
        sizes = [len(source) for source in sources]
        packages = package_numbers(sources) if stage.group > 1 else ()
        self.schedule = Schedule(sizes, weights or [1.0] * len(sources), stage, seed, packages)

        # A copy: a tokenizer's limit is state, and batches are drawn in a thread.
        self.tokenizer: Any = copy.deepcopy(text_model.tokenizer)
        self.masking: tuple[Any, Sequence[str]] = (None, ())
        if stage.mep:
            self.masking = masking.prepare(self.tokenizer)
        self.mined: tuple[int, RowNumbers] = (-1, np.empty((0, 0), np.int64))
        self.candidates: Sequence[str] = ()
        if stage.trains == "decoder":
            self._freeze_encoder()

        self.teacher: RoleEncoder | None = None
        if stage.teacher:
            settings = text_model.settings
            read = max(settings.max_query_tokens, settings.max_passage_tokens)
            self.teacher = role_encoder(stage.teacher.base, accelerator, max_tokens=read)

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

    def fresh(self) -> Sequence[torch.nn.Parameter]:
        """Return the parameters of the light decoder."""
        return self.model.fresh()

    def batches_per_epoch(self) -> int:
        """Return the number of batches in which every pair comes once."""
        return self.schedule.batches_per_epoch()

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
            for text in self._negatives(int(row), rng)
        ]
        passages = [*positives, *negatives]
        masked = self._masked(pairs, rngs) if self.stage.mep else None

        settings = self.model.settings
        return PairBatch(
            rows,
            self._encoded(queries, settings.max_query_tokens),
            self._encoded(passages, settings.max_passage_tokens),
            masked,
            _digests([pair.queries[0] for pair in pairs]),
            _digests([*(pair.passage for pair in pairs), *negatives]),
            (list(queries), passages) if self.stage.teacher else None,
        )

    def _encoded(self, texts: Sequence[str], max_tokens: int) -> tuple[Tensor, Tensor]:
        rows = self.tokenizer(list(texts), truncation=True, max_length=max_tokens)["input_ids"]
        return pad_texts(rows, self.tokenizer.pad_token_id)

    def _masked(
        self, pairs: Sequence[Pair], rngs: Sequence[random.Random]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids and mask of the masked passages, and the targets."""
        tokenizer, sentinels = self.masking
        settings = self.model.settings
        hidden = [self._mask(pair, rng) for pair, rng in zip(pairs, rngs, strict=True)]
        encoded = masking.encode_pairs(
            tokenizer, hidden, sentinels, settings.max_passage_tokens, settings.max_target_tokens
        )

        ids, mask = pad_texts([row for row, _ in encoded], tokenizer.pad_token_id)
        return ids, mask, pad_targets([target for _, target in encoded])

    def _mask(self, pair: Pair, rng: random.Random) -> masking.Masked:
        """Mask a pair's entities, or random spans if the stage says so or the pair has none."""
        stage, sentinels = self.stage, self.masking[1]
        spans = masking.entities(pair) if stage.mask == "entity" else ()
        if not spans:
            share = stage.mask_share if stage.mask == "span" and stage.mask_share else SPAN_SHARE
            return masking.mask_spans(pair.passage, sentinels, rng, share)

        return masking.mask_entities(
            pair.passage, spans, sentinels, rng, stage.mask_share or 1.0, kind=pair.kind
        )

    # -- hard negatives --------------------------------------------------------------------------

    def _negatives(self, row: int, rng: random.Random) -> list[str]:
        """Draw `hard_negatives` passages for a pair: labelled ones first, then mined ones."""
        count, pair = self.stage.hard_negatives, self.pairs[row]
        if self.stage.labelled_share < 1:
            labelled_count = sum(rng.random() < self.stage.labelled_share for _ in range(count))
        else:
            labelled_count = count

        labelled = rng.sample(pair.negatives, min(labelled_count, len(pair.negatives)))
        missing = count - len(labelled)
        mined = rng.sample(self.mined[1][row].tolist(), missing) if missing else []
        return labelled + [self.candidates[candidate] for candidate in mined]

    def _mining_round(self, number: int) -> tuple[int, int]:
        """Return which round of mining a batch belongs to, and its number within the round."""
        return divmod(number, self.schedule.batches_per_epoch() * self.stage.refresh)

    def ready(self, number: int) -> bool:
        """Tell whether the batch can be drawn before the steps that precede it are computed."""
        return not self.stage.hard_negatives or self._mining_round(number)[0] == self.mined[0]

    def prepare(self, number: int) -> None:
        """Mine hard negatives when a round begins; a run resumed within a round reads the file."""
        if self.ready(number):
            return

        mining_round, number_in_round = self._mining_round(number)
        path = self.directory / f"mined-{mining_round}.npy"
        if not (number_in_round and path.is_file()):
            mining.mine(
                self.model, self.pairs, path, depth=self.stage.depth, accelerator=self.accelerator
            )

        self.candidates = mining.candidate_passages(self.pairs)
        self.mined = mining_round, np.load(path, mmap_mode="r")

    # -- forward and backward --------------------------------------------------------------------

    def backward(self, batch: PairBatch) -> dict[str, float]:
        """Add the gradients of the stage's losses for this process's part: stage.sda * eq. 5,
        stage.mep * eq. 7, and the divergence from the teacher's ranking.
        """
        batch = batch.on(self.accelerator.device)
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

    # -- the rest of `purlin.training.task.Task` -----------------------------------------------------------------

    def describe(self, batch: PairBatch) -> str:
        """Return the numbers of the first pairs, and the first query."""
        first = self.pairs[batch.rows[0]]
        return f"pairs {', '.join(map(str, batch.rows[:8]))} …, the first {first.queries[0][:80]!r}"

    def measure(self) -> dict[str, float]:
        """Return the measures on the dev sets."""
        return self.dev.measure() if self.dev else {}

    def save(self, directory: Path) -> None:
        """Write the model."""
        self.model.save(directory)

    def restore(self, directory: Path) -> None:
        """Load the weights that `save` wrote."""
        saved = model.load_text_model(self.model.settings, directory)
        self.model.load_state_dict(saved.state_dict())


class Schedule:
    """Decides which pairs make up which batch, from the seed and the batch's number alone.

    In every epoch the pairs of each source come once, or as often as its weight says, in a new
    order; a last batch that would not be full is left out. `packages` numbers the package of every
    pair of a source, for a stage whose batches have groups of one package.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float],
        stage: Stage,
        seed: int,
        packages: Sequence[RowNumbers] = (),
    ) -> None:
        self.sizes = sizes
        self.packages = packages
        self.group = stage.group
        self.weights = weights
        self.seed = seed
        self.batch_size = stage.loop.batch_size
        self.mixed = stage.batches == "mixed"
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.epoch: tuple[int, RowNumbers] = (-1, np.empty((0, 0), np.int64))

        counts = [round(size * weight) for size, weight in zip(sizes, weights, strict=True)]
        # Mixed batches are drawn from all sources together, others from each alone.
        pools = [sum(counts)] if self.mixed else counts
        self.batches = sum(count // self.batch_size for count in pools)

        if min(pools) < self.batch_size:
            raise InvalidInput(
                f"A batch of {self.batch_size} exceeds the {min(pools):,} pairs there are"
                f"{'' if self.mixed else ' of one source'}; take smaller batches or more pairs.",
                field="batch_size",
            )

    def batches_per_epoch(self) -> int:
        """Return the number of full batches in an epoch."""
        return self.batches

    def rows(self, number: int) -> RowNumbers:
        """Return row numbers (batch_size,) into the pairs of all sources, one after another."""
        epoch, number_in_epoch = divmod(number, self.batches)
        if self.epoch[0] != epoch:
            self.epoch = epoch, self._shuffled(epoch)

        rows: RowNumbers = self.epoch[1][number_in_epoch]
        return rows

    def part(self, number: int, accelerator: Accelerator) -> tuple[RowNumbers, list[random.Random]]:
        """Return the rows of this process's part of a batch, each with its random numbers.

        Processes take turns, so that each gets the same number of rows. Random numbers belong to
        slots of the whole batch, which so does not depend on the number of processes.
        """
        mine = slice(accelerator.process_index, None, accelerator.num_processes)
        slots = range(self.batch_size)[mine]
        rngs = [random.Random(f"{self.seed} {number} {slot}") for slot in slots]
        return self.rows(number)[mine], rngs

    def _shuffled(self, epoch: int) -> RowNumbers:
        """Return the rows (batches, batch_size) of one epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        drawn = [self._drawn(source, rng) for source in range(len(self.sizes))]
        pools = [rng.permutation(np.concatenate(drawn))] if self.mixed else drawn
        batches = [pool[: len(pool) // self.batch_size * self.batch_size] for pool in pools]
        shuffled: RowNumbers = rng.permutation(np.concatenate(batches).reshape(-1, self.batch_size))
        return shuffled

    def _drawn(self, source: int, rng: np.random.Generator) -> RowNumbers:
        """Draw a source's rows for one epoch: each once before any comes again."""
        size = self.sizes[source]
        count = round(size * self.weights[source])
        rounds = (
            [self._ordered(source, rng) for _ in range(math.ceil(count / size))] if size else []
        )

        # The empty array keeps the type where a source has no pairs.
        drawn = np.concatenate([np.empty(0, np.int64), *rounds])[:count]
        rows: RowNumbers = drawn + self.starts[source]
        return rows

    def _ordered(self, source: int, rng: np.random.Generator) -> RowNumbers:
        """Return all rows of a source, counted from 0, in the order in which batches take them.

        Groups of one package come in a random order, and are random themselves.
        """
        shuffled: RowNumbers = rng.permutation(self.sizes[source])
        if self.group == 1:
            return shuffled

        packages = self.packages[source][shuffled]
        by_package = np.argsort(packages, kind="stable")
        sorted_packages = packages[by_package]

        # Position of each row within its package, and the group that it falls into.
        first = np.searchsorted(sorted_packages, sorted_packages)
        within = (np.arange(len(shuffled)) - first) // self.group
        starts_group = np.diff(sorted_packages, prepend=-1) | np.diff(within, prepend=-1)
        groups = np.cumsum(starts_group != 0) - 1

        rank = rng.permutation(groups[-1] + 1)
        rows: RowNumbers = shuffled[by_package][np.argsort(rank[groups], kind="stable")]
        return rows


def package_numbers(sources: Sequence[Sequence[Pair]]) -> list[RowNumbers]:
    """Number the packages that the pairs of each source come from; no name is one of them."""
    return [
        np.unique([pair.group for pair in source], return_inverse=True)[1] for source in sources
    ]


def _digests(texts: Sequence[str]) -> Tensor:
    """Return (n,) non-negative int64, equal for equal texts."""
    digests = [
        int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1 for text in texts
    ]
    return torch.tensor(digests, dtype=torch.int64)


def gathered(tensor: Tensor, accelerator: Accelerator) -> Tensor:
    """Concatenate the tensors of all processes; gradients flow back to each of them."""
    if accelerator.num_processes == 1:
        return tensor

    # The differentiable gather supports floats only.
    if not tensor.is_floating_point():
        tensors: Tensor = accelerator.gather(tensor)
        return tensors
    return torch.cat(torch.distributed.nn.all_gather(tensor))  # type: ignore[no-untyped-call]
