"""An encoder that needs no model, at the one real seam."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import Vectors, self_check
from purlin.index.records import Architecture, Role


class HashEncoder:
    """Hashed bag of lower-case words: a function of its input, so that equal texts meet and similar ones come near."""

    name = "hash"
    dim = 64
    fingerprint = "hash-64"
    max_tokens = 100_000
    architecture: Architecture = "transformer"

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        return np.array([len(re.findall(r"[a-z0-9]+", text.lower())) for text in texts], np.int64)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        self.encoded.extend(text for text in texts if text not in self_check.SELF_CHECK_TEXTS)
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"[a-z0-9]+", text.lower()):
                digest = hashlib.blake2b(word.encode(), digest_size=4).digest()
                vectors[row, int.from_bytes(digest, "big") % self.dim] += 1.0
        vectors += 1e-6
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        if progress is not None:
            progress(len(texts))
        return vectors


class FailingEncoder(HashEncoder):
    """Raises an unexpected error for queries; passages are encoded when a corpus is opened."""

    def encode(self, texts: Sequence[str], *, role: Role, **options: Any) -> Vectors:
        if role == "query":
            raise ZeroDivisionError("the secret is 42")
        return super().encode(texts, role=role, **options)
