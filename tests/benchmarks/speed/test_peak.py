"""The benchmark of the encoder against the processor's peak counts its work right."""

from __future__ import annotations

import numpy as np

from benchmarks.speed.peak import work_of
from purlin.index.encoder import TRANSFORMER_ENCODER

LAYERS, WIDTH, INNER = 6, 384, 1536


def test_work_is_that_of_six_layers() -> None:
    """Four square products and the two of the feed-forward layer; attention by lengths."""
    linear, attention = work_of(TRANSFORMER_ENCODER, np.array([10, 3]))

    assert linear == 13 * LAYERS * (4 * WIDTH**2 + 2 * WIDTH * INNER)
    assert attention == LAYERS * 2 * WIDTH * (10**2 + 3**2)
