"""Texts -> unit vectors by a table of word vectors: the encoder that needs nothing but numpy.

A text's vector is the weighted sum of the vectors of its words, scaled to length 1. Words of other
languages than English have the vectors of their translations, so that a text in one of them is found
by a text in another.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder.exported import (
    check_directory,
    check_settings,
    read_exported,
    refusing,
    settings_of,
)
from purlin.index.encoder.vocabulary import MultilingualVocabulary, SortedWords, Vocabulary
from purlin.index.records import Architecture, Role
from purlin.index.storage import read_exact

VECTORS, WEIGHTS, VOCABULARY = "vectors.npy", "weights.npy", "vocabulary.txt"
# Words of other languages, which an encoder may lack: the rows of the English words that translate
# each (words, TRANSLATIONS), and (words, 1 + TRANSLATIONS) by how much it speaks against English and
# the share of each translation.
LANGUAGE_VOCABULARY = "languages-vocabulary.txt"
LANGUAGE_TRANSLATIONS = "languages-translations.npy"
LANGUAGE_WEIGHTS = "languages-weights.npy"
TRANSLATIONS = 3
ENGLISH_FILES = (VECTORS, WEIGHTS, VOCABULARY)
LANGUAGE_FILES = (LANGUAGE_VOCABULARY, LANGUAGE_TRANSLATIONS, LANGUAGE_WEIGHTS)
ROLES: tuple[Role, ...] = ("query", "passage")
# Version of the rules by which texts fall into words: part of every fingerprint.
RULES = 1

# Before it is cut into words, a text is cut to this many characters per word of the limit.
_CHARS_PER_WORD = 64
# Texts between two calls of `progress`.
_PROGRESS_STEP = 256


@dataclass(frozen=True, slots=True)
class StaticSettings:
    """The part of a static encoder's `encoder.json` that determines the vectors.

    `max_tokens` counts words and pieces. `files` has the SHA-256 (hex) of the vectors, their
    weights and the vocabulary, and of the three files of other languages if there are any.
    """

    type: Literal["static"]
    name: str
    dim: int
    max_tokens: int
    files: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over everything that changes a vector."""
        names = (*ENGLISH_FILES, *LANGUAGE_FILES)
        digests = [self.files[name] for name in names if name in self.files]
        content = json.dumps([self.type, RULES, self.dim, self.max_tokens, *digests])
        return hashlib.sha256(content.encode()).hexdigest()


class StaticEncoder:
    """A loaded directory of word vectors, a `TextEncoder`. Safe to share between threads.

    Vectors have unit length, so their inner product is the cosine; a text without a single known
    word has zeros. A vector does not depend on the texts that it is computed with. Texts longer
    than `max_tokens` words and pieces are cut at the end.
    """

    def __init__(
        self,
        settings: StaticSettings,
        vocabulary: Vocabulary | MultilingualVocabulary,
        vectors: NDArray[np.int8],
        weights: NDArray[np.float32],
    ) -> None:
        """Take the vectors (words, dim), and the weights (words, 2) of words in queries and
        passages, which include each row's scale.
        """
        self.name = settings.name
        self.dim = settings.dim
        self.max_tokens = settings.max_tokens
        self.architecture: Architecture = "static"
        self.fingerprint = settings.fingerprint

        self.vocabulary = vocabulary
        self._vectors = vectors
        self._weights = {
            role: np.ascontiguousarray(weights[:, column]) for column, role in enumerate(ROLES)
        }

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read and verify an encoder directory.

        Raises NotFound if there is no such directory, and Damaged, which names the file.
        """
        check_directory(directory, "encoder", "static")
        settings, files = read_exported(directory, "encoder", _settings)
        with refusing("encoder", directory / VOCABULARY):
            vocabulary = Vocabulary(files[VOCABULARY].decode().split("\n"))
        with refusing("encoder", directory / VECTORS):
            vectors = read_exact(files[VECTORS], np.int8, (len(vocabulary), settings.dim))
        with refusing("encoder", directory / WEIGHTS):
            weights = read_exact(files[WEIGHTS], np.float32, (len(vocabulary), len(ROLES)))
        if LANGUAGE_VOCABULARY not in files:
            return cls(settings, vocabulary, vectors, weights)

        with refusing("encoder", directory / LANGUAGE_VOCABULARY):
            languages = Vocabulary(SortedWords(files[LANGUAGE_VOCABULARY]))
        with refusing("encoder", directory / LANGUAGE_TRANSLATIONS):
            shape = (len(languages), TRANSLATIONS)
            translations = read_exact(files[LANGUAGE_TRANSLATIONS], np.uint16, shape)
            if translations.max() >= len(vocabulary):
                raise ValueError("a word is translated by an English one that does not exist")
        with refusing("encoder", directory / LANGUAGE_WEIGHTS):
            shape = (len(languages), 1 + TRANSLATIONS)
            columns = read_exact(files[LANGUAGE_WEIGHTS], np.float16, shape).astype(np.float32)
            if not (np.isfinite(columns).all() and (columns[:, 1:] >= 0).all()):
                raise ValueError("a weight is no number, or below 0")

        evidence, shares = columns[:, 0], columns[:, 1:]
        multilingual = MultilingualVocabulary(vocabulary, languages, evidence, translations, shares)
        return cls(settings, multilingual, vectors, weights)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:
        """Return unit vectors (texts, dim) in the order of the texts.

        `progress` is called with the number of texts finished since the last call.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), _PROGRESS_STEP):
            part = texts[start : start + _PROGRESS_STEP]
            for number, text in enumerate(part, start):
                vectors[number] = self._sum(text, role)
            if progress is not None:
                progress(len(part))

        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Count the known words and pieces (texts,) of each text; `encode` cuts above `max_tokens`.

        Only the first `max_tokens * _CHARS_PER_WORD` characters of a text are counted.
        """
        counts = (sum(1 for _ in self._rows(text)) for text in texts)
        return np.fromiter(counts, dtype=np.int64, count=len(texts))

    def is_english(self, text: str) -> bool:
        """Tell whether a text is read as English, as each is without words of other languages."""
        if isinstance(self.vocabulary, Vocabulary):
            return True
        return self.vocabulary.is_english(text[: self.max_tokens * _CHARS_PER_WORD])

    def in_english(self, text: str) -> str:
        """Translate a text word by word; return nothing if it is English."""
        if isinstance(self.vocabulary, Vocabulary):
            return ""
        return self.vocabulary.in_english(text[: self.max_tokens * _CHARS_PER_WORD])

    def word_by_word(self, text: str) -> str:
        """Translate the words of a part of a text that is not English, one by one."""
        if isinstance(self.vocabulary, Vocabulary):
            return ""
        return self.vocabulary.word_by_word(text[: self.max_tokens * _CHARS_PER_WORD])

    def _rows(self, text: str) -> Iterable[int]:
        return self.vocabulary.rows(text[: self.max_tokens * _CHARS_PER_WORD])

    def _sum(self, text: str, role: Role) -> NDArray[np.float32]:
        """Return the weighted sum (dim,) of the vectors of the text's words."""
        counts = Counter(islice(self._rows(text), self.max_tokens))
        rows = np.fromiter(counts, dtype=np.int64, count=len(counts))
        repeats = np.fromiter(counts.values(), dtype=np.float32, count=len(counts))
        weights = np.sqrt(repeats)
        if isinstance(self.vocabulary, MultilingualVocabulary):
            rows, weights = self.vocabulary.english_rows(rows, weights)
        weights = self._weights[role][rows] * weights
        return weights @ self._vectors[rows].astype(np.float32)


def _settings(values: Any) -> StaticSettings:
    settings = settings_of(StaticSettings, values)
    has_languages = not settings.files.keys().isdisjoint(LANGUAGE_FILES)
    files = [*ENGLISH_FILES, *(LANGUAGE_FILES if has_languages else ())]
    check_settings(settings, kind="static", numbers=("dim", "max_tokens"), files=files)
    return settings
