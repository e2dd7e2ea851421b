"""The static encoder that is trained: word vectors and weights, and the bags of words that it reads."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from purlin.index.encoder import Vectors
from purlin.index.encoder.static import ROLES
from purlin.index.encoder.vocabulary import MultilingualVocabulary, Vocabulary
from purlin.index.records import Role
from purlin.training.models.saved_model import SavedModel

MODEL = "model.safetensors"
FEWEST_WORDS = 5  # of a passage from which words that its query has are left out


class Bags(NamedTuple):
    """Texts as bags of words: `rows` of the vocabulary (k,), each once per text, with its `repeats`.

    Text i has rows[starts[i] : starts[i + 1]].
    """

    rows: Tensor
    starts: Tensor
    repeats: Tensor


def count_words(
    vocabulary: Vocabulary | MultilingualVocabulary, texts: Iterable[str], max_tokens: int
) -> list[Counter[int]]:
    """Count, by their rows, the first `max_tokens` words of each text."""
    return [Counter(islice(vocabulary.rows(text), max_tokens)) for text in texts]


def drop_shared(
    query: Counter[int], passage: Counter[int], share: float, rng: random.Random
) -> None:
    """Leave each word of the query out of the passage with the probability `share`.

    A passage that would have fewer than `FEWEST_WORDS` different words left stays whole.
    """
    dropped = [row for row in query if row in passage and rng.random() < share]
    if len(passage) - len(dropped) >= FEWEST_WORDS:
        for row in dropped:
            del passage[row]


def make_bags(counts: Sequence[Counter[int]]) -> Bags:
    """Put the words of each text (n,), counted by their rows, in a row."""
    sizes = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.fromiter(chain.from_iterable(counts), dtype=np.int64, count=starts[-1])
    repeats = (count for counter in counts for count in counter.values())

    return Bags(
        torch.from_numpy(rows),
        torch.from_numpy(starts[:-1]),
        torch.from_numpy(np.fromiter(repeats, dtype=np.float32, count=starts[-1])),
    )


class WordVectors(SavedModel):
    """Trainable vectors of words, and the logarithms of their weights in queries and passages."""

    def __init__(self, vectors: Vectors, log_weights: NDArray[Any]) -> None:
        """Start with vectors (words, dim), and log weights (words,) that are the same in both."""
        super().__init__()
        start = torch.from_numpy(np.asarray(log_weights, dtype=np.float32))
        self.vectors = nn.Parameter(torch.from_numpy(vectors.copy()))
        self.log_weights = nn.ParameterDict({role: nn.Parameter(start.clone()) for role in ROLES})

    def fresh(self) -> list[nn.Parameter]:
        """Return the logarithms of the weights, whose rate is `fresh_rate` times that of vectors."""
        return list(self.log_weights.values())

    def save(self, directory: Path) -> None:
        """Write vectors and weights."""
        save_file(self.state_dict(), directory / MODEL)

    def load(self, directory: Path) -> None:
        """Load what `save` wrote."""
        self.load_state_dict(load_file(directory / MODEL))

    def forward(self, bags: Bags, role: Role) -> Tensor:
        """Return unit vectors (texts, dim)."""
        weights = self.log_weights[role][bags.rows].exp() * bags.repeats.sqrt()
        sums = F.embedding_bag(
            bags.rows, self.vectors, bags.starts, mode="sum", per_sample_weights=weights
        )
        return F.normalize(sums, dim=1)

    def quantized(self) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Return 8-bit vectors (words, dim), and weights (words, 2) that include their scales."""
        vectors = self.vectors.detach().cpu().numpy()
        scales = np.maximum(np.abs(vectors).max(axis=1), 1e-12) / 127
        logs = np.stack([self.log_weights[role].detach().cpu().numpy() for role in ROLES], axis=1)
        rounded = np.rint(vectors / scales[:, None]).astype(np.int8)
        return rounded, (np.exp(logs) * scales[:, None]).astype(np.float32)
