"""An encoder of English that reads texts in other languages translated word by word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder.static import StaticEncoder
from purlin.index.encoder.text_encoder import Plan, TextEncoder, Vectors, plan_of
from purlin.index.records import Architecture, Role


class TranslatingEncoder:
    """A `TextEncoder` around another one, whose vectors English texts have. Safe to share between threads."""

    def __init__(self, encoder: TextEncoder, translator: StaticEncoder) -> None:
        self.name = encoder.name
        self.dim = encoder.dim
        self.max_tokens = encoder.max_tokens
        self.architecture: Architecture = encoder.architecture
        self.fingerprint = encoder.fingerprint

        self._encoder = encoder
        self._translator = translator

    @property
    def plan(self) -> Plan | None:
        """How its transformer uses the machine; None without one."""
        return plan_of(self._encoder)

    def in_english(self, text: str) -> str:
        """Translate a text word by word; return nothing if it is English."""
        return self._translator.in_english(text)

    def word_by_word(self, text: str) -> str:
        """Translate the words of a part of a text that is not English, one by one."""
        return self._translator.word_by_word(text)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Return unit vectors (texts, dim) in the order of the texts.

        `progress` is called with the number of texts finished since the last call.
        """
        return self._encoder.encode(self._read(texts), role=role, progress=progress)

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Count the tokens (texts,) of each text as it is read, before the cut."""
        return self._encoder.count_tokens(self._read(texts), role=role)

    def _read(self, texts: Sequence[str]) -> list[str]:
        return [self.in_english(text) or text for text in texts]
