"""An ensemble of two static encoders with vectors of the test's choice."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from purlin.index.encoder import SETTINGS, load_encoder
from purlin.index.ensemble_encoder import PROJECTION, EnsembleSettings
from tests.support.static_files import WORDS, write_static


def write_ensemble(directory: Path, *, dim: int = 6, rows: int = 12) -> Path:
    """Write an ensemble with a random matrix (rows, dim), and its parts `wide` and `narrow`."""
    wide = write_static(directory.parent / "wide", dim=8)
    narrow = write_static(directory.parent / "narrow", WORDS[:-2], dim=4, max_tokens=2)
    directory.mkdir()
    projection = np.random.default_rng(5).standard_normal((rows, dim)).astype(np.float32)
    np.save(directory / PROJECTION, projection)

    digest = hashlib.sha256((directory / PROJECTION).read_bytes()).hexdigest()
    parts = {part.name: load_encoder(part).fingerprint for part in (wide, narrow)}
    settings = EnsembleSettings("ensemble", "tiny-ensemble", dim, parts, {PROJECTION: digest})
    content = asdict(settings) | {"fingerprint": settings.fingerprint}
    (directory / SETTINGS).write_text(json.dumps(content))
    return directory
