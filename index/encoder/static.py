"""Texts -> unit vectors by a table of word vectors: the encoder that needs nothing but numpy.

A text's vector is the weighted sum of the vectors of its words, scaled to length 1. Words are
compared in lower case and without accents. An identifier is one word if the vocabulary has it as
such (`filename`, `JavaScript`); otherwise it is cut where its case or its digits change
(`getHTTPResponse` -> get, http, response), and a part that is still unknown falls into the longest
pieces that the vocabulary has, as in WordPiece.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
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
from purlin.index.records import Architecture, Role
from purlin.index.storage import read_exact

VECTORS, WEIGHTS, VOCABULARY = "vectors.npy", "weights.npy", "vocabulary.txt"
ROLES: tuple[Role, ...] = ("query", "passage")
# Marks a piece that continues a word.
CONTINUATION = "##"
# Version of the rules by which texts fall into words: part of every fingerprint.
RULES = 1

# Before it is cut into words, a text is cut to this many characters per word of the limit.
_CHARS_PER_WORD = 64
# Longer runs of letters are data rather than words, and have no pieces.
_MAX_WORD_CHARS = 64
# Identifiers whose ids are remembered; bounds memory.
_MAX_REMEMBERED = 200_000
# Texts between two calls of `progress`.
_PROGRESS_STEP = 256

_IDENTIFIER = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class Vocabulary:
    """The words that have a vector. Safe to share between threads."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._row_of = {word: row for row, word in enumerate(self.words)}
        self._rows_by_identifier = _Remembered(self._identifier_rows)

    def __len__(self) -> int:
        return len(self.words)

    def rows(self, text: str) -> Iterable[int]:
        """Return the row of each known word or piece of the text, in their order."""
        return chain.from_iterable(map(self._rows_by_identifier.__getitem__, identifiers(text)))

    def _identifier_rows(self, identifier: str) -> tuple[int, ...]:
        whole = self._row_of.get(identifier.lower())
        if whole is not None:
            return (whole,)
        return tuple(row for part in parts(identifier) for row in self._part_rows(part))

    def _part_rows(self, part: str) -> list[int]:
        """Return the rows of the longest known pieces, from the left; unknown letters have none."""
        rows: list[int] = []
        start = 0

        while start < len(part) <= _MAX_WORD_CHARS:
            prefix = CONTINUATION if start else ""
            pieces = ((end, prefix + part[start:end]) for end in range(len(part), start, -1))
            end, row = next(
                ((end, self._row_of[piece]) for end, piece in pieces if piece in self._row_of),
                (start + 1, None),
            )

            if row is not None:
                rows.append(row)
            start = end

        return rows


def identifiers(text: str) -> list[str]:
    """Return the runs of letters and digits in a text, without accents and in their own case."""
    if not text.isascii():
        text = "".join(filter(_is_no_accent, unicodedata.normalize("NFKD", text)))
    return _IDENTIFIER.findall(text)


def parts(identifier: str) -> list[str]:
    """Cut a run of letters and digits where its case or kind changes; parts are in lower case.

    Runs with letters beyond ASCII are left whole.
    """
    if not identifier.isascii():
        return [identifier.lower()]
    return [part.lower() for part in _PART.findall(identifier)]


class _Remembered(dict[str, tuple[int, ...]]):
    """Calls a function for missing keys and remembers its results, up to `_MAX_REMEMBERED`."""

    def __init__(self, compute: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: str) -> tuple[int, ...]:
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
        value = self[key] = self._compute(key)
        return value


def _is_no_accent(character: str) -> bool:
    return not unicodedata.combining(character)


@dataclass(frozen=True, slots=True)
class StaticSettings:
    """The part of a static encoder's `encoder.json` that determines the vectors.

    `max_tokens` counts words and pieces. `files` has the SHA-256 (hex) of the vectors, their
    weights and the vocabulary.
    """

    type: Literal["static"]
    name: str
    dim: int
    max_tokens: int
    files: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over everything that changes a vector."""
        digests = [self.files[name] for name in (VECTORS, WEIGHTS, VOCABULARY)]
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
        vocabulary: Vocabulary,
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
        return cls(settings, vocabulary, vectors, weights)

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

    def _rows(self, text: str) -> Iterable[int]:
        return self.vocabulary.rows(text[: self.max_tokens * _CHARS_PER_WORD])

    def _sum(self, text: str, role: Role) -> NDArray[np.float32]:
        """Return the weighted sum (dim,) of the vectors of the text's words."""
        counts = Counter(islice(self._rows(text), self.max_tokens))
        rows = np.fromiter(counts, dtype=np.int64, count=len(counts))
        repeats = np.fromiter(counts.values(), dtype=np.float32, count=len(counts))
        weights = self._weights[role][rows] * np.sqrt(repeats)
        return weights @ self._vectors[rows].astype(np.float32)


def _settings(values: Any) -> StaticSettings:
    settings = settings_of(StaticSettings, values)
    files = (VECTORS, WEIGHTS, VOCABULARY)
    check_settings(settings, kind="static", numbers=("dim", "max_tokens"), files=files)
    return settings
