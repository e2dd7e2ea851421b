"""The recipe of a static encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from purlin.index.encoder import TRANSFORMER_ENCODER
from purlin.index.errors import InvalidInput
from purlin.training.config import in_range
from purlin.training.data.pairs import augment
from purlin.training.data.pairs.pair import PairSource
from purlin.training.dev import DevSet, check_recipe
from purlin.training.loop.settings import LoopSettings

CHECKPOINTS = "checkpoints"  # their directory beside the encoder's


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticExport:
    """How the encoder is exported; `max_tokens` is where it cuts texts."""

    max_tokens: int = 1024
    base_model: str = "unknown"
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        in_range("max_tokens", self.max_tokens, 8, 8192)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRecipe:
    """All that decides a run.

    `teacher` is the encoder directory whose vectors the words start with, by default the released
    transformer. The vocabulary has those of its tokenizer's words and pieces that are Latin, and
    the most frequent other words that occur in at least `min_pairs` pairs, `words` in all. A word
    starts with the weight `rarity` / (`rarity` + its share of all words).

    A batch is drawn from one source, in groups of `group` pairs whose passages come from the same
    package, where their rows name one: such passages are harder negatives of each other. Texts are
    cut at `max_tokens` words in training. Pairs that resemble a text of `exclude`, which are
    evaluation sets, are left out.

    `shared_dropout` is the share of the words that a passage has in common with its query which are
    left out of the passage in training: what it says in other words has to lead to it then. BM25,
    beside which the encoder is used, finds common words without it.
    """

    name: str
    pairs: tuple[PairSource, ...]
    teacher: Path = TRANSFORMER_ENCODER
    exclude: tuple[Path, ...] = ()
    dev: tuple[DevSet, ...] = ()
    words: int = 40_000
    min_pairs: int = 6
    dim: int = 256
    rarity: float = 1e-3
    group: int = 1
    max_tokens: int = 256
    shared_dropout: float = 0.0
    temperature: float = 0.05
    forms: augment.Forms = field(default_factory=augment.Forms)
    loop: LoopSettings = field(default_factory=LoopSettings)
    export: StaticExport = field(default_factory=StaticExport)
    seed: int = 1

    def __post_init__(self) -> None:
        check_recipe(self.name, self.seed, self.pairs, self.dev, losses=False)
        in_range("words", self.words, 1, 1 << 20)
        in_range("min_pairs", self.min_pairs, 1, 1 << 30)
        in_range("dim", self.dim, 1, 4096)
        in_range("rarity", self.rarity, 1e-9, 1.0)
        in_range("group", self.group, 1, 1 << 20)
        in_range("max_tokens", self.max_tokens, 8, 8192)
        in_range("shared_dropout", self.shared_dropout, 0.0, 1.0)
        in_range("temperature", self.temperature, 1e-3, 100.0)

        if self.name == CHECKPOINTS:
            raise InvalidInput(
                f"The name {CHECKPOINTS!r} is that of the directory of checkpoints; choose another.",
                field="name",
            )
