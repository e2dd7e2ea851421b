"""Which model is trained, and how texts are prepared for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from purlin.index.errors import InvalidInput
from purlin.training.config import check_ranges, ranged
from purlin.training.models.architectures import Similarity

BASE = "sentence-transformers/all-MiniLM-L6-v2"
MAX_TOKENS = 8192
Pooling = Literal["mean", "first", "pooler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Sizes of a T5 with random weights, which uses only the tokenizer of the base model."""

    dim: int = ranged(256, 8, 8192)
    layers: int = ranged(4, 1, 48)
    heads: int = ranged(4, 1, 64)
    feed_forward: int = ranged(1024, 8, 65_536)

    def __post_init__(self) -> None:
        check_ranges(self)

        if self.dim % self.heads:
            raise InvalidInput(
                f"dim {self.dim} must be a multiple of heads {self.heads}.", field="dim"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Which model is trained, and how texts are prepared for it.

    `base` is the directory of a checkpoint, of an exported encoder or reader, `labels` or
    `transformer` for a released encoder, or a name on the hub.
    `max_*_tokens` include special tokens. `dropout` None keeps the base model's (0 for one from
    scratch); 0 enables fused attention, which is nearly twice as fast on a CPU. `similarity`
    "cosine" scales vectors to length 1, "dot" does not, as in the paper. `pooling` applies to
    BERT-class encoders: "mean" over the tokens, the "first" token's state, or what the base model's
    "pooler", a linear layer and tanh, makes of that state. With `query_base` queries have an
    encoder of their own, and `base` is that of passages. The word embeddings and the lowest
    `frozen_layers` layers of BERT-class encoders keep the base's weights, which saves their share of
    the backward pass; 0 trains all. `layers` keeps that many of the base's layers, evenly spaced and
    the last one among them; 0 keeps all.
    """

    base: str = BASE
    query_base: str | None = None
    pooling: Pooling = "mean"
    scratch: Scratch | None = None
    similarity: Similarity = "cosine"
    max_query_tokens: int = ranged(64, 4, MAX_TOKENS)
    max_passage_tokens: int = ranged(128, 4, MAX_TOKENS)
    max_target_tokens: int = ranged(64, 4, MAX_TOKENS)
    dropout: float | None = ranged(None, 0.0, 0.9)
    gradient_checkpointing: bool = False
    frozen_layers: int = ranged(0, 0, 48)
    layers: int = ranged(0, 0, 48)

    def __post_init__(self) -> None:
        check_ranges(self)
