"""A static encoder directory with vectors of the test's choice."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index.encoder import SETTINGS
from purlin.index.encoder.static import (
    ENGLISH_FILES,
    LANGUAGE_FILES,
    LANGUAGE_TRANSLATIONS,
    LANGUAGE_VOCABULARY,
    LANGUAGE_WEIGHTS,
    TRANSLATIONS,
    VECTORS,
    VOCABULARY,
    WEIGHTS,
    StaticSettings,
)

WORDS = [
    "get",
    "http",
    "response",
    "javascript",
    "file",
    "filename",
    "name",
    "##name",
    "pre",
    "##fix",
    "2",
    "cafe",
    "the",
]

# One of each text of the self-check of a build.
SELF_CHECK_WORDS = ["open", "lamp", "directory", "width", "default", "retry", "http", "order"]


def write_static(
    directory: Path, words: list[str] = WORDS, *, dim: int = 8, max_tokens: int = 100
) -> Path:
    """Write an encoder with random vectors and weights, the same in every call."""
    rng = np.random.default_rng(7)
    directory.mkdir()
    np.save(directory / VECTORS, rng.integers(-127, 128, (len(words), dim)).astype(np.int8))
    np.save(directory / WEIGHTS, rng.random((len(words), 2), np.float32))
    (directory / VOCABULARY).write_text("\n".join(words))

    digests = digests_of(directory, VECTORS, WEIGHTS, VOCABULARY)
    write_settings(directory, StaticSettings("static", "tiny-static", dim, max_tokens, digests))
    return directory


# Of words of other languages, what translates them in `write_multilingual`.
TRANSLATIONS_OF = {"datei": {"file": 0.75, "filename": 0.25}, "文件": {"file": 1.0}}


def write_multilingual(directory: Path, evidence: dict[str, float], *, dim: int = 8) -> Path:
    """Write the encoder of `write_static` with words of other languages.

    `evidence` maps each of their words and pieces to how much it speaks against English.
    """
    write_static(directory, dim=dim)
    evidence = dict(sorted(evidence.items()))
    translations = np.zeros((len(evidence), TRANSLATIONS), np.uint16)
    columns = np.zeros((len(evidence), 1 + TRANSLATIONS), np.float16)
    columns[:, 0] = list(evidence.values())
    for row, word in enumerate(evidence):
        for column, (english, share) in enumerate(TRANSLATIONS_OF.get(word, {}).items()):
            translations[row, column] = WORDS.index(english)
            columns[row, 1 + column] = share

    np.save(directory / LANGUAGE_TRANSLATIONS, translations)
    np.save(directory / LANGUAGE_WEIGHTS, columns)
    (directory / LANGUAGE_VOCABULARY).write_text("\n".join(evidence), encoding="utf-8")
    digests = digests_of(directory, *ENGLISH_FILES, *LANGUAGE_FILES)
    write_settings(directory, StaticSettings("static", "tiny-static", dim, 100, digests))
    return directory


def digests_of(directory: Path, *names: str) -> dict[str, str]:
    """The SHA-256 of files of an encoder, as its settings have them."""
    return {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in names}


def write_settings(directory: Path, settings: Any) -> None:
    """Write the settings of an encoder, with their fingerprint."""
    content = asdict(settings) | {"fingerprint": settings.fingerprint}
    (directory / SETTINGS).write_text(json.dumps(content))
