"""What an encoder is, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from purlin.index.records import Architecture, Role

Vectors = NDArray[np.float32]
# Tokens of a batch where none were measured: its activations stay in a core's cache, see
# docs/encoder.md.
BATCH_TOKENS = 256
# Below it a vector has no direction.
_SHORTEST = 1e-12


class TextEncoder(Protocol):
    """The interface of an encoder.

    `Encoder`, `StaticEncoder` and `EnsembleEncoder` implement it; tests use a hashed bag of words.

    - `name`: for people.
    - `dim`: the length of a vector.
    - `fingerprint`: identifies the vectors; it differs if any text gets another vector.
    - `max_tokens`: the limit of tokens; longer texts are cut at the end.
    - `architecture`: how it makes vectors, on which the best weights of a fusion depend.
    """

    name: str
    dim: int
    fingerprint: str
    max_tokens: int
    architecture: Architecture

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Count the tokens (texts,) of each text with its prefix, before the cut."""

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Return unit vectors (texts, dim) in the order of the texts.

        `progress` is called with the number of texts finished since the last call.
        """


@dataclass(frozen=True, slots=True)
class Plan:
    """How a transformer uses the machine. Vectors do not depend on it beyond the last bits.

    `threads` batches run at a time, each on one thread and with up to `batch_tokens` tokens. A
    single text, such as a query, is computed by `query_threads` threads. `source` says where the
    numbers come from: `purlin.index.encoder.tuning` measures and remembers them.
    """

    threads: int
    batch_tokens: int = BATCH_TOKENS
    query_threads: int = 1
    source: Literal["default", "measured", "remembered", "set"] = "default"


def normalize(vectors: Vectors) -> None:
    """Scale vectors (n, dim) to unit length in place; those that are too short to have a direction stay."""
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=_SHORTEST)


def plan_of(encoder: TextEncoder) -> Plan | None:
    """Return how an encoder's transformer uses the machine; None for one without."""
    plan = getattr(encoder, "plan", None)
    return plan if isinstance(plan, Plan) else None


def word_by_word(encoder: TextEncoder, text: str) -> str:
    """Translate the words of a part of a text that is not English, one by one.

    None are returned if the encoder knows no other language.
    """
    translate = getattr(encoder, "word_by_word", None)
    return translate(text) if translate else ""
