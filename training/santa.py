"""SANTA: from a recipe to an exported encoder, by aligning pairs, predicting masked entities, and fine-tuning."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed.nn
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from index.encoder import Role
from index.errors import InvalidInput
from training import export, mining, model
from training.config import MAX_SEED, in_range
from training.data import augment, masking
from training.data.pair_loading import Report, load_pairs
from training.data.pairs import Pair, PairSource
from training.dev import DevEvaluator, DevSet
from training.loop import (
    LoopSettings,
    Progress,
    best_measures,
    digest,
    make_accelerator,
    storing,
    train,
)
from training.losses import IGNORED, cached_backward, contrastive, reconstruction
from training.model import ModelSettings, TextModel, pad_targets, pad_texts

Mask = Literal["entity", "span"]
Rows = NDArray[np.int64]
GROUP = 32  # texts; smaller groups have less padding, but more overhead
SPAN_SHARE = 0.15  # of the words, as T5 was pretrained
AVERAGED = "averaged"  # the checkpoint with its share of the base, beside the stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stretch of training, which starts from the best checkpoint of the one before.

    `pairs` names the sources it takes, by default all; they are drawn in `forms`, and as often as `weights` says, one
    for each of `pairs`, by default the sources' own. The loss is `sda` times the
    contrastive loss of eq. 5 (of eq. 3 in fine-tuning, which is the same) and `mep` times that of masked entity
    prediction, eq. 7. `mask_share` is the share of different entities that is masked, by default all, or of words under
    the "span" mask, by default T5's 0.15. `hard_negatives` are drawn for each pair from the `depth` best passages of
    the model at hand, which are looked up again every `refresh` epochs. `part` computes the contrastive loss in parts
    of so many pairs, in the memory of one. `batches` "one-source" draws each batch from one source, whose passages are
    the harder negatives of each other.
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

    def __post_init__(self) -> None:
        if not self.name.replace("-", "").isalnum():
            raise InvalidInput(
                f"A stage's name is letters, digits and dashes, not {self.name!r}.", field="name"
            )
        for name in ("sda", "mep"):
            in_range(name, getattr(self, name), 0.0, 1000.0)
        if not self.sda + self.mep:
            raise InvalidInput(
                f"Stage {self.name} trains nothing: sda and mep are both 0.", field="sda"
            )
        if self.weights and len(self.weights) != len(self.pairs):
            raise InvalidInput(
                f"Stage {self.name} has {len(self.pairs)} pairs and {len(self.weights)} weights; give one for each.",
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
        if self.part is not None:
            in_range("part", self.part, 1, 1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The encoder directory. `base_share` of the base model's weights is mixed into the trained ones."""

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
class Recipe:
    """All that a run is made from. What resembles a text of `exclude`, which are evaluation sets, is not trained on."""

    name: str
    pairs: tuple[PairSource, ...]
    stage: tuple[Stage, ...]
    model: ModelSettings = field(default_factory=ModelSettings)
    exclude: tuple[Path, ...] = ()
    dev: tuple[DevSet, ...] = ()
    export: Export = field(default_factory=Export)
    seed: int = 1

    def __post_init__(self) -> None:
        export.Card(self.name)  # a name that cannot be exported fails now
        if not self.pairs or not self.stage:
            raise InvalidInput(
                "A recipe needs at least one [[pairs]] and one [[stage]].", field="pairs"
            )
        names = [stage.name for stage in self.stage]
        if len(set(names)) < len(names):
            raise InvalidInput(
                f"Stages need names of their own; given are {', '.join(names)}.", field="stage"
            )
        self._refuse_mixed_up(names)
        known = {source.name for source in self.pairs if source.name}
        if unknown := [name for stage in self.stage for name in stage.pairs if name not in known]:
            raise InvalidInput(
                f"No [[pairs]] is named {unknown[0]!r}; known are {', '.join(sorted(known))}.",
                field="stage",
            )
        if len({stage.loop.precision for stage in self.stage}) > 1:
            raise InvalidInput("All stages need the same precision.", field="stage")
        in_range("seed", self.seed, 0, MAX_SEED)

    def _refuse_mixed_up(self, names: Sequence[str]) -> None:
        """Directories that would be one, and a base that is not there."""
        if self.name in names:
            raise InvalidInput(
                f"The stage {self.name!r} has the recipe's name, so that the encoder would take the place of its "
                "checkpoints. Name it otherwise.",
                field="stage",
            )
        if self.export.base_share and AVERAGED in (self.name, *names):
            raise InvalidInput(
                f"With base_share the name {AVERAGED!r} is that of the averaged checkpoint's directory. Name the "
                f"{'recipe' if self.name == AVERAGED else 'stage'} otherwise.",
                field="name" if self.name == AVERAGED else "stage",
            )
        if self.export.base_share and self.model.scratch:
            raise InvalidInput(
                "A model from scratch has no base whose weights can be mixed in: leave base_share out.",
                field="export.base_share",
            )

    def sources_of(self, stage: Stage) -> dict[int, float]:
        """Which of `pairs` a stage takes, and their weights in it."""
        own = dict(zip(stage.pairs, stage.weights, strict=False))
        return {
            number: own.get(source.name, source.weight)
            for number, source in enumerate(self.pairs)
            if not stage.pairs or source.name in stage.pairs
        }


def run(
    recipe: Recipe,
    out: Path,
    *,
    progress: Callable[[str], Progress],
    say: Callable[[str], None],
    cpu: bool = False,
) -> Path:
    """Train all stages and export; returns the encoder directory `out`/NAME.

    What was done before is kept: a run that was killed goes on. `progress` gives, for a stage's name, what to tell its
    steps to; `say` is told a line now and then.
    """
    accelerator = make_accelerator(recipe.stage[0].loop, cpu=cpu, out=out, say=say)
    sources, report = load_pairs(recipe.pairs, recipe.exclude)
    digests = [digest(source) for source in sources]
    if accelerator.is_main_process:
        say(str(report))
    place: Path | None = None
    for number, stage in enumerate(recipe.stage):
        torch.manual_seed(recipe.seed)  # what the base model lacks starts alike in every process
        text_model = model.load(recipe.model, place).to(accelerator.device)
        export.refuse_longer("export.max_tokens", recipe.export.max_tokens, text_model)
        taken = recipe.sources_of(stage)
        task = SantaTask(
            text_model,
            [sources[known] for known in taken],
            stage,
            accelerator,
            seed=recipe.seed,
            directory=out / stage.name,
            weights=list(taken.values()),
            dev=DevEvaluator(recipe.dev, text_model, accelerator, temperature=stage.temperature),
        )
        so_far = asdict(replace(recipe, stage=recipe.stage[: number + 1], export=Export())) | {
            "texts": [
                digests[known]
                for earlier in recipe.stage[: number + 1]
                for known in recipe.sources_of(earlier)
            ]
        }
        tell = progress(stage.name) if accelerator.is_main_process else None
        place = train(
            task,
            stage.loop,
            out / stage.name,
            accelerator,
            seed=recipe.seed,
            recipe=so_far,
            progress=tell,
            say=say,
        )
    assert place is not None
    if accelerator.is_main_process:
        _export(recipe, place, out, report, accelerator)
    accelerator.wait_for_everyone()
    return out / recipe.name


def _export(
    recipe: Recipe, place: Path, out: Path, report: Report, accelerator: Accelerator
) -> None:
    checkpoint, measures = place, best_measures(place)
    if recipe.export.base_share:
        checkpoint = out / AVERAGED
        with storing(checkpoint):
            mixed = averaged(
                model.load(recipe.model), model.load(recipe.model, place), recipe.export.base_share
            )
            mixed.save(checkpoint)
        dev = DevEvaluator(
            recipe.dev,
            mixed.to(accelerator.device),
            accelerator,
            temperature=recipe.stage[-1].temperature,
        )
        measures = dev.measure()
    card = export.Card(
        recipe.name,
        base_model=recipe.model.base
        if recipe.model.scratch is None
        else "none: trained from scratch",
        base_licence=recipe.export.base_licence,
        trained_on=recipe.export.trained_on
        or tuple(f"{source.name}: {source.kept:,} pairs" for source in report.sources),
        measures=measures,
        limits=recipe.export.limits,
    )
    export.export(
        checkpoint,
        out / recipe.name,
        card,
        quantization=recipe.export.quantization,
        max_tokens=recipe.export.max_tokens,
    )


def averaged(base: TextModel, trained: TextModel, base_share: float) -> TextModel:
    """`trained` with that share of `base` in every weight (Wortsman et al. 2022, WiSE-FT)."""
    old = base.state_dict()
    mixed = {
        name: weight.lerp(old[name], base_share) for name, weight in trained.state_dict().items()
    }
    trained.load_state_dict(mixed)
    return trained


@dataclass(frozen=True, slots=True)
class Batch:
    """What one process computes of a batch: ids and masks (n, T), on its device.

    `passages` (n * (1 + hard negatives), T) holds the positives first. `masked` are ids, mask (n, T) and targets
    (n, K). `query_texts` (n,) and `passage_texts` are 63-bit digests of the pairs' first queries and passages, whatever
    their drawn forms are, by which equal texts are known.
    """

    rows: Rows
    queries: tuple[Tensor, Tensor]
    passages: tuple[Tensor, Tensor]
    masked: tuple[Tensor, Tensor, Tensor] | None
    query_texts: Tensor
    passage_texts: Tensor

    def on(self, device: torch.device) -> Batch:
        """The same on another device."""

        def moved(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(moved, value))
            return value.to(device) if isinstance(value, Tensor) else value

        return Batch(**{field.name: moved(getattr(self, field.name)) for field in fields(self)})


class SantaTask:
    """Pairs and a stage as the loop takes them."""

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
        self.model, self.stage, self.accelerator, self.dev = text_model, stage, accelerator, dev
        self.seed, self.directory = seed, directory
        self.pairs = [pair for source in sources for pair in source]
        self.schedule = Schedule(
            [len(source) for source in sources], weights or [1.0] * len(sources), stage, seed
        )
        self.tokenizer: Any = copy.deepcopy(
            text_model.tokenizer
        )  # its limit is state, and batches have a thread
        self.masking: tuple[Any, Sequence[str]] = (
            masking.prepare(self.tokenizer) if stage.mep else (None, ())
        )
        self.mined: tuple[int, Rows] = (-1, np.empty((0, 0), np.int64))

    def fresh(self) -> Sequence[torch.nn.Parameter]:
        """The light decoder's parameters."""
        return self.model.fresh()

    def batches_per_epoch(self) -> int:
        """Batches until every pair came once."""
        return self.schedule.batches_per_epoch()

    def batch(self, number: int) -> Batch:
        """This process's part of a batch; which it is follows from seed and number."""
        mine = slice(self.accelerator.process_index, None, self.accelerator.num_processes)
        rows = self.schedule.rows(number)[mine]
        places = range(self.schedule.batch_size)[mine]
        rngs = [random.Random(f"{self.seed} {number} {place}") for place in places]
        pairs, settings = [self.pairs[row] for row in rows], self.model.settings
        drawn = [
            augment.draw(pair, self.stage.forms, rng) for pair, rng in zip(pairs, rngs, strict=True)
        ]
        queries, positives = zip(*drawn, strict=True)
        negatives = [
            text
            for row, rng in zip(rows, rngs, strict=True)
            for text in self._negatives(int(row), rng)
        ]
        masked = self._masked(pairs, rngs) if self.stage.mep else None
        return Batch(
            rows,
            self._encoded(queries, settings.max_query_tokens),
            self._encoded([*positives, *negatives], settings.max_passage_tokens),
            masked,
            _digests([pair.queries[0] for pair in pairs]),
            _digests([*(pair.passage for pair in pairs), *negatives]),
        )

    def _encoded(self, texts: Sequence[str], max_tokens: int) -> tuple[Tensor, Tensor]:
        rows = self.tokenizer(list(texts), truncation=True, max_length=max_tokens)["input_ids"]
        return pad_texts(rows, self.tokenizer.pad_token_id)

    def _masked(
        self, pairs: Sequence[Pair], rngs: Sequence[random.Random]
    ) -> tuple[Tensor, Tensor, Tensor]:
        tokenizer, sentinels = self.masking
        hidden = [self._mask(pair, rng) for pair, rng in zip(pairs, rngs, strict=True)]
        settings = self.model.settings
        encoded = masking.encode_pairs(
            tokenizer, hidden, sentinels, settings.max_passage_tokens, settings.max_target_tokens
        )
        ids, mask = pad_texts([row for row, _ in encoded], tokenizer.pad_token_id)
        return ids, mask, pad_targets([target for _, target in encoded])

    def _mask(self, pair: Pair, rng: random.Random) -> masking.Masked:
        """By its entities, or by random spans where that is the stage's way or the pair has none."""
        stage, sentinels = self.stage, self.masking[1]
        spans = masking.entities(pair) if stage.mask == "entity" else ()
        if not spans:
            share = stage.mask_share if stage.mask == "span" and stage.mask_share else SPAN_SHARE
            return masking.mask_spans(pair.passage, sentinels, rng, share)
        return masking.mask_entities(
            pair.passage, spans, sentinels, rng, stage.mask_share or 1.0, kind=pair.kind
        )

    # -- hard negatives ----------------------------------------------------------------------------------------------

    def _negatives(self, row: int, rng: random.Random) -> list[str]:
        """`hard_negatives` passages for a pair: labelled ones first, then drawn from those mined for its query."""
        count, pair = self.stage.hard_negatives, self.pairs[row]
        labelled = rng.sample(pair.negatives, min(count, len(pair.negatives)))
        missing = count - len(labelled)
        mined = rng.sample(self.mined[1][row].tolist(), missing) if missing else []
        return labelled + [self.pairs[other].passage for other in mined]

    def _turn(self, number: int) -> tuple[int, int]:
        """Which looking up of hard negatives a batch belongs to, and which of its batches it is."""
        return divmod(number, self.schedule.batches_per_epoch() * self.stage.refresh)

    def ready(self, number: int) -> bool:
        """Whether the batch can be made before the steps that precede it are done."""
        return not self.stage.hard_negatives or self._turn(number)[0] == self.mined[0]

    def prepare(self, number: int) -> None:
        """Look up hard negatives where a new turn begins; a run that goes on within a turn finds those looked up."""
        if self.ready(number):
            return
        turn, place = self._turn(number)
        path = self.directory / f"mined-{turn}.npy"
        if self.accelerator.is_main_process and not (place and path.is_file()):
            mining.mine(
                self.model, self.pairs, path, depth=self.stage.depth, accelerator=self.accelerator
            )
        self.accelerator.wait_for_everyone()
        self.mined = turn, np.load(path)

    # -- forward and backward ----------------------------------------------------------------------------------------

    def backward(self, batch: Batch) -> dict[str, float]:
        """Gradients of stage.sda * eq. 5 + stage.mep * eq. 7 for this process's part; see `loop.Task`."""
        batch = batch.on(self.accelerator.device)
        stage, values = self.stage, dict[str, Tensor]()
        if stage.part and stage.sda:
            parts = [*self._parts(batch.queries, "query"), *self._parts(batch.passages, "passage")]
            values["sda"] = cached_backward(
                parts, lambda vectors: stage.sda * self._alignment(vectors, batch)
            )
            if stage.mep:
                values["mep"] = self._predict_in_parts(batch)
        else:
            values = self._losses(batch)
            torch.stack(list(values.values())).sum().backward()  # type: ignore[no-untyped-call]
        found = {name: float(value.detach()) for name, value in values.items()}
        return {"loss": sum(found.values()), **found}

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        stage, values, passages = self.stage, dict[str, Tensor](), None
        if stage.sda:
            queries, passages = (
                self._vectors(*batch.queries, "query"),
                self._vectors(*batch.passages, "passage"),
            )
            values["sda"] = stage.sda * self._alignment(torch.cat([queries, passages]), batch)
        if batch.masked:
            values["mep"] = self._prediction(batch, slice(None), self._tokens(batch), passages)
        return values

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        """(n, D)."""
        with self.accelerator.autocast():
            return self.model.grouped_vectors(ids, mask, GROUP, role)

    def _alignment(self, vectors: Tensor, batch: Batch) -> Tensor:
        """Eq. 5 for this process's queries and all processes' passages; `vectors` are the queries', then passages'."""
        n = len(batch.rows)
        passages = _gathered(vectors[n:], self.accelerator)  # (P, D)
        texts = _gathered(batch.passage_texts, self.accelerator)
        owners = _gathered(
            F.pad(batch.query_texts, (0, len(batch.passage_texts) - n), value=-1), self.accelerator
        )
        own = torch.arange(n, device=vectors.device) + self.accelerator.process_index * (
            len(vectors) - n
        )
        excluded = (texts == texts[own][:, None]) | (owners == batch.query_texts[:, None])
        return contrastive(
            vectors[:n], passages, own, temperature=self.stage.temperature, excluded=excluded
        )

    def _tokens(self, batch: Batch) -> Tensor:
        """How many a process has to predict, on average over the processes: every token counts the same."""
        assert batch.masked
        count = (batch.masked[2] != IGNORED).sum().float()
        mean: Tensor = self.accelerator.reduce(count, "mean")
        return mean.clamp(min=1)

    def _prediction(
        self, batch: Batch, part: slice, tokens: Tensor, passages: Tensor | None = None
    ) -> Tensor:
        """stage.mep * eq. 7 for some of the pairs, as their share of the mean over `tokens`.

        `passages` are the pairs' vectors, positives first, where they are known.
        """
        assert batch.masked
        ids, mask, targets = (tensor[part] for tensor in batch.masked)
        if passages is None and self.model.reads_vectors:
            own, seen = (tensor[: len(batch.rows)][part] for tensor in batch.passages)
            passages = self._vectors(own, seen, "passage")
        with self.accelerator.autocast():
            vectors = None if passages is None else passages[: len(ids)]
            loss = reconstruction(*self.model.predict(vectors, ids, mask, targets), targets)
        return self.stage.mep * loss * (targets != IGNORED).sum() / tokens

    def _parts(self, texts: tuple[Tensor, Tensor], role: Role) -> list[Callable[[], Tensor]]:
        ids, mask = (torch.split(tensor, self.stage.part or len(tensor)) for tensor in texts)
        return [partial(self._vectors, *part, role) for part in zip(ids, mask, strict=True)]

    def _predict_in_parts(self, batch: Batch) -> Tensor:
        assert self.stage.part
        tokens = self._tokens(batch)
        total = torch.zeros_like(tokens)
        for start in range(0, len(batch.rows), self.stage.part):
            loss = self._prediction(batch, slice(start, start + self.stage.part), tokens)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    # -- what the loop asks besides ----------------------------------------------------------------------------------

    def describe(self, batch: Batch) -> str:
        """The first pairs' numbers and words."""
        first = self.pairs[batch.rows[0]]
        return f"pairs {', '.join(map(str, batch.rows[:8]))} …, the first {first.queries[0][:80]!r}"

    def measure(self) -> dict[str, float]:
        """The dev sets' measures."""
        return self.dev.measure() if self.dev else {}

    def save(self, directory: Path) -> None:
        """Write the model."""
        self.model.save(directory)

    def restore(self, directory: Path) -> None:
        """Take the weights of what `save` wrote."""
        saved = model.load(self.model.settings, directory)
        self.model.load_state_dict(saved.state_dict())


class Schedule:
    """Which pairs make up which batch, as a function of the seed and the batch's number alone.

    Every epoch each source's pairs come once, or as often as its weight says, in another order; a last batch that
    would not be full is left out.
    """

    def __init__(
        self, sizes: Sequence[int], weights: Sequence[float], stage: Stage, seed: int
    ) -> None:
        self.sizes, self.weights, self.seed = sizes, weights, seed
        self.batch_size, self.mixed = stage.loop.batch_size, stage.batches == "mixed"
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.epoch: tuple[int, Rows] = (-1, np.empty((0, 0), np.int64))
        counts = [round(size * weight) for size, weight in zip(sizes, weights, strict=True)]
        whole = [sum(counts)] if self.mixed else counts
        self.batches = sum(count // self.batch_size for count in whole)
        if min(whole) < self.batch_size:
            raise InvalidInput(
                f"A batch of {self.batch_size} exceeds the {min(whole):,} pairs there are"
                f"{'' if self.mixed else ' of one source'}; take smaller batches or more pairs.",
                field="batch_size",
            )

    def batches_per_epoch(self) -> int:
        """Full batches that the pairs make, each pair once or by its source's weight."""
        return self.batches

    def rows(self, number: int) -> Rows:
        """Row numbers (batch_size,) over all sources' pairs, one source after another."""
        epoch, place = divmod(number, self.batches)
        if self.epoch[0] != epoch:
            self.epoch = epoch, self._shuffled(epoch)
        chosen: Rows = self.epoch[1][place]
        return chosen

    def _shuffled(self, epoch: int) -> Rows:
        """Rows (batches, batch_size) of one epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        drawn = [self._drawn(source, rng) for source in range(len(self.sizes))]
        pools = [rng.permutation(np.concatenate(drawn))] if self.mixed else drawn
        batches = [pool[: len(pool) // self.batch_size * self.batch_size] for pool in pools]
        shuffled: Rows = rng.permutation(np.concatenate(batches).reshape(-1, self.batch_size))
        return shuffled

    def _drawn(self, source: int, rng: np.random.Generator) -> Rows:
        count, size = round(self.sizes[source] * self.weights[source]), self.sizes[source]
        rounds = [rng.permutation(size) for _ in range(-(-count // size))] if size else []
        rows: Rows = np.concatenate([np.empty(0, np.int64), *rounds])[:count] + self.starts[source]
        return rows


def _digests(texts: Sequence[str]) -> Tensor:
    """(n,) non-negative int64, equal for equal texts."""
    digests = [
        int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1 for text in texts
    ]
    return torch.tensor(digests, dtype=torch.int64)


def _gathered(tensor: Tensor, accelerator: Accelerator) -> Tensor:
    """All processes' tensors, one after another, through which gradients flow back to where they came from."""
    if accelerator.num_processes == 1:
        return tensor
    if not tensor.is_floating_point():
        gathered: Tensor = accelerator.gather(tensor)
        return gathered
    return torch.cat(torch.distributed.nn.all_gather(tensor))  # type: ignore[no-untyped-call]
