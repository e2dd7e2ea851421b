"""The recipe of a reranker: its pairs, its candidates and its export."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from purlin.index import reranker as serving
from purlin.training.config import check_ranges, in_range, ranged, refuse_reserved
from purlin.training.data.pairs import augment
from purlin.training.data.pairs.pair import PairSource
from purlin.training.dev import check_recipe
from purlin.training.exporting.checks import Quantization
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.settings import ModelSettings

STAGE = "ranker"  # the directory of the checkpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingSettings:
    """Which candidates the ranker is trained on, and how large it is.

    A query comes with `candidates` passages: its own, and others drawn from the `depth` that the
    exported `encoder` ranks nearest. For a share `missing` of the queries their own is left out,
    so that none is relevant. `max_tokens` counts query, passage and special tokens. The pairs are
    drawn in `forms`, and of each source `held_out` are not trained on, but measured.
    """

    encoder: Path
    candidates: int = ranged(8, 2, 256)
    depth: int = 30
    missing: float = ranged(0.1, 0.0, 0.9)
    max_tokens: int = ranged(128, 16, 8192)
    held_out: int = ranged(50, 0, 100_000)
    forms: augment.Forms = field(default_factory=augment.Forms)

    def __post_init__(self) -> None:
        check_ranges(self)
        in_range("depth", self.depth, self.candidates, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWeights:
    """The share of the relevance in the score, by kind; 0 leaves the kind to the search alone."""

    code: float = ranged(0.0, 0.0, 1.0)
    product: float = ranged(0.0, 0.0, 1.0)
    reference: float = ranged(0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerExport:
    """How the reranker is exported; `weights` and `default` as in
    `purlin.index.reranker.RerankerSettings`.

    `benchmarks/search/rerank.py` prints what each weight gives on dev queries. `base_model` is named in the
    model card, if the recipe's base is a checkpoint of one's own.
    """

    quantization: Quantization = "int8"
    weights: KindWeights = field(default_factory=lambda: KindWeights(code=0.3, product=0.3))
    default: tuple[str, ...] = ()
    base_model: str = ""
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        serving.check_weights(self.shares(), self.default)

    def shares(self) -> dict[str, float]:
        """Return the weights of the kinds that the reranker reranks."""
        return {kind: share for kind, share in asdict(self.weights).items() if share}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerRecipe:
    """All that decides a run."""

    name: str
    pairs: tuple[PairSource, ...]
    ranking: RankingSettings
    exclude: tuple[Path, ...] = ()
    model: ModelSettings = field(default_factory=ModelSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    export: RankerExport = field(default_factory=RankerExport)
    seed: int = 1

    def __post_init__(self) -> None:
        check_recipe(self.name, self.seed, self.pairs, (), losses=False)
        refuse_reserved(self.name, [STAGE])
