"""The recipe of a self-training run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from purlin.index.classify.labels import DEFAULT_TEMPLATES, check_templates, prompts
from purlin.index.errors import InvalidInput
from purlin.training.config import MAX_SEED, check_ranges, in_range, load_recipe, ranged
from purlin.training.exporting.checks import Quantization
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.settings import ModelSettings
from purlin.training.pesco.check import CheckLimits
from purlin.training.pesco.losses import Loss
from purlin.training.pesco.teacher import Teacher
from purlin.training.pesco.texts import read_templates


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """How a round trains the student.

    The first round samples the share `first` of the texts, each further one `growth` times as many
    (the paper's d), up to `limit` (its T'). Training ends when at most the share `converged` of the
    pseudo-labels changed in a round of `limit` texts, or after `rounds`; 0 rounds train nothing.

    `loss` and `key` are the rows of the paper's table 5: "plct", "lct", "pcl", "lct+pcl"; the key
    sentence nearest to the label's prompt, or a "random" one (-R). `augment` removes the key
    sentence from the text. `candidates` bounds the label prompts in a batch: of more labels, those
    of the batch and random others.
    """

    loss: Loss = "plct"
    key: Literal["salient", "random"] = "salient"
    augment: bool = True
    temperature: float = ranged(0.07, 1e-3, 100.0)
    first: float = ranged(0.05, 1e-6, 1.0)
    growth: float = ranged(2.0, 1.0, 1000.0)
    limit: float = 0.5
    rounds: int = ranged(6, 0, 100)
    converged: float = ranged(0.01, 0.0, 1.0)
    candidates: int = ranged(256, 2, 10_000)
    loop: LoopSettings = field(
        default_factory=lambda: LoopSettings(batch_size=32, learning_rate=2e-5)
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        in_range("limit", self.limit, self.first, 10.0)

    def texts(self, number: int, pool: int) -> int:
        """How many texts of a pool of `pool` round `number`, counted from 0, samples."""
        # The exponent is bounded, as floats overflow.
        share = min(self.limit, self.first * self.growth ** min(number, 200))
        return max(self.loop.batch_size, round(share * pool))

    def trained_texts(self, pool: int) -> int:
        """How many texts all rounds train on, each counted as often as it is in a batch."""
        size = self.loop.batch_size
        batches = [self.texts(number, pool) // size for number in range(self.rounds)]
        return size * sum(map(self.loop.total_steps, batches))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierExport:
    """How the classifier is exported.

    With `serve` "prompts" the labels' vectors are those of their prompts, as in the paper; with
    "head" a linear head trained on the last teacher's pseudo-labels is added to them.
    """

    quantization: Quantization = "int8"
    max_tokens: int = ranged(128, 8, 8192)
    serve: Literal["prompts", "head"] = "head"
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PescoRecipe:
    """All settings of a run but its texts and labels.

    If there are more than `limit` texts, that many are sampled.
    """

    templates: tuple[str, ...] = DEFAULT_TEMPLATES
    limit: int = ranged(100_000, 32, 10_000_000)
    seed: int = ranged(1, 0, MAX_SEED)
    model: ModelSettings = field(
        default_factory=lambda: ModelSettings(base="labels", dropout=0.0, max_passage_tokens=128)
    )
    teacher: Teacher = field(default_factory=Teacher)
    student: Student = field(default_factory=Student)
    check: CheckLimits = field(default_factory=CheckLimits)
    export: ClassifierExport = field(
        default_factory=lambda: ClassifierExport(base_licence="Apache-2.0")
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        check_templates(self.templates)

        if self.model.similarity != "cosine":
            raise InvalidInput(
                "PESCO matches by cosine: leave similarity out.", field="model.similarity"
            )
        if self.model.query_base:
            raise InvalidInput(
                "PESCO has one encoder for texts and labels: leave query_base out.",
                field="model.query_base",
            )

    def prompts(self, labels: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Each label's prompts, by every template and wording (eq. 2)."""
        return tuple(prompts(label, self.templates) for label in labels)

    def training_values(self) -> dict[str, Any]:
        """What decides the rounds, as plain values: all but the check and the export."""
        return {key: value for key, value in asdict(self).items() if key not in ("check", "export")}


def read_recipe(config: Path | None, templates: Path | None = None) -> PescoRecipe:
    """Read the recipe at `config`, or take the default one, with the templates of a file if given.

    Raises NotFound and InvalidInput as `config.load_recipe` and `read_templates` do.
    """
    recipe = load_recipe(config, PescoRecipe) if config else PescoRecipe()
    return replace(recipe, templates=read_templates(templates)) if templates else recipe
