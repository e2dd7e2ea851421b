"""The recipe of a reader: its questions, its passages, its teacher and its export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from purlin.index.errors import InvalidInput
from purlin.index.qa.reader_settings import CALIBRATION_SIZES
from purlin.training.config import MAX_SEED, check_ranges, in_range, ranged, refuse_reserved
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.exporting.checks import Quantization
from purlin.training.exporting.model_card import Card
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.averaging import AVERAGED
from purlin.training.models.settings import ModelSettings

STAGE = "reader"  # the directory of the checkpoints
TEACHER = "teacher"  # the directory of a teacher's scores
PASSAGES = "passages"  # the directory of the passages' vectors, to mine wrong ones with
MAX_WEIGHT = 1e6
NONE_SCORE = 0.0  # the logit of the choice that no passage answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSettings:
    """Which passages the reader is trained on, and how long sequences are.

    A question comes with `passages` passages: the one with the answer, and wrong ones drawn from the
    `depth` best by BM25 and, with an `encoder` directory, from as many that are nearest by its vectors.
    For a share `missing` of the questions, the passage with the answer is left out, so that none
    answers.

    By default, the softmax over passages has one more choice, that none answers, and the softmax over
    tokens is over those of the passage. With `equations` "paper", which is equations 1 to 3 as
    published, there is no such choice, the softmax is over the tokens of the whole sequence, and
    questions without an answer are not used.
    """

    passages: int = ranged(4, 2, 64)
    depth: int = 20
    missing: float = ranged(0.15, 0.0, 0.9)
    max_tokens: int = ranged(256, 32, 8192)
    encoder: str = ""
    equations: Literal["paper"] | None = None

    def __post_init__(self) -> None:
        check_ranges(self)
        in_range("depth", self.depth, self.passages, 1000)

        if self.equations and self.missing:
            raise InvalidInput(
                'With equations = "paper", one of the passages must answer: set missing = 0.',
                field="missing",
            )

    @property
    def none_score(self) -> float | None:
        """The logit of the choice that no passage answers; None if there is no such choice."""
        return None if self.equations else NONE_SCORE


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleExport:
    """How readers are exported as one.

    `prior_weight` and `calibration` are those of `purlin.index.qa.reader_settings.ReaderSettings`;
    `benchmarks/qa/reader.py --write` tunes them on dev questions.
    """

    prior_weight: float = ranged(0.55, -MAX_WEIGHT, MAX_WEIGHT)
    calibration: tuple[float, ...] = (1.1663, 4.5191, -5.0551, -0.3409, 0.6905)
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_ranges(self)
        if len(self.calibration) not in CALIBRATION_SIZES:
            raise InvalidInput(
                "calibration has six numbers, a constant and five weights, or lacks the last one.",
                field="calibration",
            )
        for weight in self.calibration:
            in_range("calibration", weight, -MAX_WEIGHT, MAX_WEIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderExport(EnsembleExport):
    """How the reader is exported.

    `prior_weight` and `calibration` are those of `purlin.index.qa.reader_settings.ReaderSettings`.
    The share `base_share` of the base's weights is mixed into the trained ones, so that the reader
    forgets less; the base must then be a reader, too. `base_model` is the name for the model card, if
    the recipe's base is a checkpoint of one's own.
    """

    quantization: Quantization = "int8"
    base_share: float = ranged(0.0, 0.0, 0.99)
    base_model: str = ""
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherSettings:
    """Which reader teaches, and how much its scores count.

    `base` is the directory of an exported reader. It reads each question with `passages` passages,
    from which training draws. `temperature` divides the logits of teacher and student. `weight` is
    that of the teacher's losses, beside those of the labels.
    """

    base: str
    temperature: float = ranged(2.0, 0.01, 100.0)
    weight: float = ranged(1.0, 1e-6, MAX_WEIGHT)
    passages: int = ranged(8, 2, 1000)

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.base:
            raise InvalidInput("Name the reader that teaches.", field="base")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRecipe:
    """Everything that a training run depends on."""

    name: str
    questions: tuple[QuestionSource, ...]
    dev: tuple[QuestionSource, ...] = ()
    model: ModelSettings = field(default_factory=ModelSettings)
    reading: ReadingSettings = field(default_factory=ReadingSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    export: ReaderExport = field(default_factory=ReaderExport)
    teacher: TeacherSettings | None = None
    seed: int = ranged(1, 0, MAX_SEED)

    def __post_init__(self) -> None:
        check_ranges(self)
        Card(self.name)  # refuses a name that cannot be exported
        refuse_reserved(self.name, [STAGE, TEACHER, PASSAGES, AVERAGED])

        if not self.questions:
            raise InvalidInput("A recipe needs at least one [[questions]].", field="questions")

        if self.teacher is None:
            self._refuse_unlabelled(self.questions, "questions", "the recipe has no [teacher]")
        else:
            self._check_teacher(self.teacher)
        self._refuse_unlabelled(self.dev, "dev", "nothing can be measured on them")

    def _check_teacher(self, teacher: TeacherSettings) -> None:
        in_range("teacher.passages", teacher.passages, self.reading.passages, self.reading.depth)
        if not any(source.distilled for source in self.questions):
            raise InvalidInput(
                "The recipe has a [teacher], but every [[questions]] has distilled = false: remove "
                "that from one, or remove [teacher].",
                field="teacher",
            )

    def _refuse_unlabelled(self, sources: Sequence[QuestionSource], name: str, reason: str) -> None:
        for source in sources:
            if source.format == "unlabelled":
                raise InvalidInput(
                    f"{source.path} has questions without labels, but {reason}.", field=name
                )
