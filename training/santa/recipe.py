"""The recipe of SANTA: stages, and what they are trained on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from purlin.index.errors import InvalidInput
from purlin.training.config import check_ranges, in_range, ranged, refuse_repeated
from purlin.training.data.pairs import augment
from purlin.training.data.pairs.pair import PairSource
from purlin.training.dev import DevSet, check_recipe
from purlin.training.exporting.checks import Quantization
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.averaging import AVERAGED
from purlin.training.models.settings import ModelSettings

Mask = Literal["entity", "span"]
Trains = Literal["all", "decoder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTeacher:
    """An encoder from whose ranking of a batch's passages a stage learns.

    `base` is the directory of an exported encoder or of a checkpoint. The loss is `weight` times
    the divergence KL(softmax(teacher's cosines / `temperature`) || softmax(similarities / the
    stage's temperature)) over the batch's passages, the mean over its queries.
    """

    base: Path
    weight: float = ranged(1.0, 1e-3, 1000.0)
    temperature: float = ranged(0.05, 1e-3, 100.0)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of training, which starts from the resulting checkpoint of the stage before it.

    `pairs` names the sources, by default all; `weights` gives, for each of `pairs`, how often its
    pairs come in an epoch, by default the sources' own. Pairs are drawn in `forms`. `batches`
    "one-source" draws each batch from one source, whose passages are harder negatives of each
    other. Those of one package are harder still: it has them together in groups of at most `group`
    pairs, where the source names the packages.

    The loss is `sda` times the contrastive loss of eq. 5 (of eq. 3 in fine-tuning, which is the
    same) plus `mep` times that of masked entity prediction, eq. 7. With the "span" mask, random
    words are masked instead of entities: T5's 15 %.

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
    sda: float = ranged(1.0, 0.0, 1000.0)
    mep: float = ranged(0.0, 0.0, 1000.0)
    mask: Mask = "entity"
    temperature: float = ranged(1.0, 1e-3, 100.0)
    hard_negatives: int = ranged(0, 0, 32)
    depth: int = 100
    refresh: int = ranged(1, 1, 1000)
    part: int | None = ranged(None, 1, 1 << 20)
    forms: augment.Forms = field(default_factory=augment.Forms)
    batches: Literal["mixed", "one-source"] = "mixed"
    group: int = ranged(1, 1, 1 << 20)
    labelled_share: float = ranged(1.0, 0.0, 1.0)
    trains: Trains = "all"
    teacher: StageTeacher | None = None

    def __post_init__(self) -> None:
        check_ranges(self)
        self._check_name_and_loss()
        if self.weights and len(self.weights) != len(self.pairs):
            raise InvalidInput(
                f"Stage {self.name} has {len(self.pairs)} pairs and {len(self.weights)} weights; "
                "give one for each.",
                field="weights",
            )
        for weight in self.weights:
            in_range("weights", weight, 1e-6, 100.0)

        in_range("depth", self.depth, max(1, self.hard_negatives), 1000)
        if self.group > 1 and self.batches != "one-source":
            raise InvalidInput(
                f'Stage {self.name} has groups of one package: they need batches = "one-source".',
                field="group",
            )

    @property
    def compares(self) -> bool:
        """Whether a loss of this stage compares queries with passages."""
        return bool(self.sda or self.teacher)

    def _check_name_and_loss(self) -> None:
        if not self.name.replace("-", "").isalnum():
            raise InvalidInput(
                f"A stage's name is letters, digits and dashes, not {self.name!r}.", field="name"
            )

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

    quantization: Quantization = "int8"
    max_tokens: int = ranged(256, 8, 8192)
    base_share: float = ranged(0.0, 0.0, 0.99)
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_ranges(self)


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
        check_recipe(self.name, self.seed, self.pairs, self.dev, losses=True)
        if not self.stage:
            raise InvalidInput("A recipe needs at least one [[stage]].", field="stage")

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
