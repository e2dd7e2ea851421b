"""Texts -> unit vectors by several encoders together: what one of them misses, another sees.

The parts' vectors are put in a row and multiplied by a matrix, which holds how much each part counts
and leaves as many dimensions as an index should have. `purlin train ensemble` makes the matrix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder.exported import (
    check_directory,
    check_parts,
    check_settings,
    read_exported,
    refusing,
    settings_of,
)
from purlin.index.encoder.static import StaticEncoder
from purlin.index.encoder.text_encoder import Plan, TextEncoder, Vectors, normalize, plan_of
from purlin.index.records import Architecture, Role
from purlin.index.storage import read_exact

PROJECTION = "projection.npy"
# Version of the rules by which the parts read texts: part of every fingerprint.
RULES = 2


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    """The part of an ensemble's `encoder.json` that determines the vectors.

    `parts` has the name and fingerprint of each encoder, in the order of their vectors; each lies in
    the directory of its name beside the ensemble's. `files` has the SHA-256 (hex) of the projection.
    """

    type: Literal["ensemble"]
    name: str
    dim: int
    parts: dict[str, str]
    files: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over everything that changes a vector."""
        content = [self.type, RULES, self.dim, *self.parts.values(), self.files[PROJECTION]]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class EnsembleEncoder:
    """Several encoders as one, a `TextEncoder`. Safe to share between threads.

    Vectors have unit length. Of texts in other languages, transformers read the English words nearest
    to theirs, if a part has these. The first part's limit and count of tokens are those of the ensemble:
    another part may read further.
    """

    def __init__(
        self,
        settings: EnsembleSettings,
        parts: Sequence[TextEncoder],
        projection: NDArray[np.float32],
    ) -> None:
        """Take open parts, and the matrix (sum of the parts' dim, dim) for their joined vectors."""
        self.name = settings.name
        self.dim = settings.dim
        self.fingerprint = settings.fingerprint
        self.max_tokens = parts[0].max_tokens
        self.architecture: Architecture = "ensemble"
        self.parts = tuple(parts)
        self._multilingual = [part for part in parts if isinstance(part, StaticEncoder)]
        self._projection = projection

    @classmethod
    def load(cls, directory: Path, open_part: Callable[[Path], TextEncoder]) -> Self:
        """Read and verify an ensemble's directory; `open_part` opens the directory of a part.

        Raises NotFound if there is no such directory, whatever `open_part` raises, and Damaged, which
        names the file.
        """
        check_directory(directory, "encoder", "ensemble")
        settings, files = read_exported(directory, "encoder", _settings)
        parts = []
        for name, fingerprint in settings.parts.items():
            part = open_part(directory.absolute().parent / name)
            with refusing("encoder", directory / "encoder.json"):
                if part.fingerprint != fingerprint:
                    raise ValueError(f"its part {name} is another encoder than it was made with")
            parts.append(part)

        with refusing("encoder", directory / PROJECTION):
            shape = (sum(part.dim for part in parts), settings.dim)
            projection = read_exact(files[PROJECTION], np.float32, shape)
        return cls(settings, parts, projection)

    @property
    def plan(self) -> Plan | None:
        """How its transformer uses the machine; None without one."""
        return next(filter(None, map(plan_of, self.parts)), None)

    def in_english(self, text: str) -> str:
        """Return the English words nearest to those of a text, by the part that knows its language."""
        return next(filter(None, (part.in_english(text) for part in self._multilingual)), "")

    def word_by_word(self, text: str) -> str:
        """Translate the words of a part of a text that is not English, one by one."""
        return next(filter(None, (part.word_by_word(text) for part in self._multilingual)), "")

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Return unit vectors (texts, dim) in the order of the texts.

        `progress` is called with the number of texts that the first part has finished since the last
        call.
        """
        first, *others = self.parts
        vectors = [self._part_vectors(first, texts, role, progress)]
        vectors += [self._part_vectors(part, texts, role) for part in others]

        projected: Vectors = np.hstack(vectors) @ self._projection
        normalize(projected)
        return projected

    def _part_vectors(
        self,
        part: TextEncoder,
        texts: Sequence[str],
        role: Role,
        progress: Callable[[int], None] | None = None,
    ) -> Vectors:
        # Transformers know English alone.
        if not isinstance(part, StaticEncoder):
            texts = [self.in_english(text) or text for text in texts]
        return part.encode(texts, role=role, progress=progress)

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Count the tokens (texts,) of each text as the first part does."""
        return self.parts[0].count_tokens(texts, role=role)


def _settings(values: Any) -> EnsembleSettings:
    settings = settings_of(EnsembleSettings, values)
    check_settings(settings, kind="ensemble", numbers=("dim",), files=(PROJECTION,))
    check_parts(settings.name, settings.parts)
    return settings
