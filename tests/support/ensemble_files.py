"""An ensemble of two static encoders with vectors of the test's choice."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from purlin.index.encoder import load_encoder
from purlin.index.encoder.ensemble import PROJECTION, EnsembleSettings
from tests.support.static_files import WORDS, digests_of, write_settings, write_static


def write_ensemble(directory: Path, *, dim: int = 6, rows: int = 12) -> Path:
    """Write an ensemble with a random matrix (rows, dim), and its parts `wide` and `narrow`."""
    wide = write_static(directory.parent / "wide", dim=8)
    narrow = write_static(directory.parent / "narrow", WORDS[:-2], dim=4, max_tokens=2)
    directory.mkdir()
    projection = np.random.default_rng(5).standard_normal((rows, dim)).astype(np.float32)
    np.save(directory / PROJECTION, projection)

    parts = {part.name: load_encoder(part).fingerprint for part in (wide, narrow)}
    digests = digests_of(directory, PROJECTION)
    write_settings(directory, EnsembleSettings("ensemble", "tiny-ensemble", dim, parts, digests))
    return directory
