"""The recipe of a static encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from purlin.index.encoder import TRANSFORMER_ENCODER
from purlin.training.config import check_ranges, ranged, refuse_reserved
from purlin.training.data.pairs import augment
from purlin.training.data.pairs.pair import PairSource
from purlin.training.dev import DevSet, check_recipe
from purlin.training.loop.settings import LoopSettings

CHECKPOINTS = "checkpoints"  # their directory beside the encoder's


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticExport:
    """How the encoder is exported; `max_tokens` is where it cuts texts."""

    max_tokens: int = ranged(1024, 8, 8192)
    base_model: str = "unknown"
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_ranges(self)


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
    words: int = ranged(40_000, 1, 1 << 20)
    min_pairs: int = ranged(6, 1, 1 << 30)
    dim: int = ranged(256, 1, 4096)
    rarity: float = ranged(1e-3, 1e-9, 1.0)
    group: int = ranged(1, 1, 1 << 20)
    max_tokens: int = ranged(256, 8, 8192)
    shared_dropout: float = ranged(0.0, 0.0, 1.0)
    temperature: float = ranged(0.05, 1e-3, 100.0)
    forms: augment.Forms = field(default_factory=augment.Forms)
    loop: LoopSettings = field(default_factory=LoopSettings)
    export: StaticExport = field(default_factory=StaticExport)
    seed: int = 1

    def __post_init__(self) -> None:
        check_ranges(self)
        check_recipe(self.name, self.seed, self.pairs, self.dev, losses=False)
        refuse_reserved(self.name, [CHECKPOINTS])
