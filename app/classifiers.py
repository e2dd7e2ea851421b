"""The trained classifiers being served."""

from __future__ import annotations

from pathlib import Path

from app.builds import OpenBuilds
from index.builds import CLASSIFIERS
from index.classify.trained import TrainedClassifier
from index.encoder import TextEncoder


class OpenClassifiers(OpenBuilds[TrainedClassifier]):
    """All classifiers below `home`, each with its own encoder; `encoder` is used by those that were left untrained."""

    def __init__(self, home: Path, encoder: TextEncoder, *, timeout_s: float) -> None:
        super().__init__(
            home,
            CLASSIFIERS,
            lambda build: TrainedClassifier.load(build, encoder),
            timeout_s=timeout_s,
        )
