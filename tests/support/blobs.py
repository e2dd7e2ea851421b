"""Vectors of texts whose right labels are known."""

from __future__ import annotations

import numpy as np

from purlin.index.encoder import Vectors
from purlin.training.pesco.views import Indices


def unit(vectors: np.ndarray) -> Vectors:
    """The rows at length 1."""
    rows: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return rows


def blobs(
    sizes: tuple[int, ...] = (60, 60, 60), noise: float = 0.5
) -> tuple[Vectors, Indices, Vectors]:
    """Texts around the directions of their labels, the labels, and prompts nearby."""
    rng = np.random.default_rng(4)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = np.eye(len(sizes), 12)

    texts = centres[labels] + noise * rng.standard_normal((len(labels), 12)) / np.sqrt(12)
    return unit(texts), labels, unit(centres + 0.25 * rng.standard_normal(centres.shape))
