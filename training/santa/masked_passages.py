"""Passages whose entities are masked, as token ids with their targets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from purlin.training.data.masking import masks
from purlin.training.data.masking.entities import entities
from purlin.training.data.masking.sentinels import encode_masked, prepare_tokenizer
from purlin.training.data.pairs.pair import Pair
from purlin.training.losses import IGNORED
from purlin.training.models.padding import pad, pad_texts
from purlin.training.models.settings import ModelSettings
from purlin.training.santa.recipe import Stage


class PassageMasker:
    """Masks the passages of pairs as a stage says."""

    def __init__(self, stage: Stage, tokenizer: Any, settings: ModelSettings) -> None:
        self.stage = stage
        self.settings = settings
        self.tokenizer, self.sentinels = prepare_tokenizer(tokenizer)

    def mask(
        self, pairs: Sequence[Pair], rngs: Sequence[random.Random]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids and mask (n, T) of the masked passages, and the targets (n, K)."""
        masked = [self._mask_passage(pair, rng) for pair, rng in zip(pairs, rngs, strict=True)]
        encoded = encode_masked(
            self.tokenizer,
            masked,
            self.sentinels,
            self.settings.max_passage_tokens,
            self.settings.max_target_tokens,
        )

        ids, mask = pad_texts([row for row, _ in encoded], self.tokenizer.pad_token_id)
        return ids, mask, pad([target for _, target in encoded], IGNORED)

    def _mask_passage(self, pair: Pair, rng: random.Random) -> masks.Masked:
        """Mask a pair's entities, or random spans if the stage says so or the pair has none."""
        stage, sentinels = self.stage, self.sentinels
        spans = entities(pair) if stage.mask == "entity" else ()
        if not spans:
            return masks.mask_spans(pair.passage, sentinels, rng)
        return masks.mask_entities(pair.passage, spans, sentinels, kind=pair.kind)
