"""Words that have a vector, and how texts fall into them: the vocabularies of static encoders.

Words are compared in lower case and without accents. An identifier is one word if the vocabulary has
it as such (`filename`, `JavaScript`); otherwise it is cut where its case or its digits change
(`getHTTPResponse` -> get, http, response), and a part that is still unknown falls into the longest
pieces that the vocabulary has, as in WordPiece.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T")

# Marks a piece that continues a word.
CONTINUATION = "##"

# Longer runs of letters are data rather than words, and have no pieces.
_MAX_WORD_CHARS = 64
# Identifiers whose ids are remembered; bounds memory.
_MAX_REMEMBERED = 200_000
# How much a word that is known of English alone speaks for another language.
_ENGLISH = -1.0
# How much letters beyond ASCII, accents apart, speak for one.
_OTHER_LETTERS = 3.0

_IDENTIFIER = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class Vocabulary:
    """The words that have a vector. Safe to share between threads."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._rows_by_identifier = _Remembered(self._identifier_rows)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        # Most searches need no word of other languages, whose rows take a tenth of a search to list.
        return {word: row for row, word in enumerate(self.words)}

    def rows(self, text: str) -> Iterable[int]:
        """Return the row of each known word or piece of the text, in their order."""
        return self.rows_of(identifiers(text))

    def rows_of(self, words: Iterable[str]) -> Iterable[int]:
        """Return the rows of runs of letters and digits, as `identifiers` finds them."""
        return chain.from_iterable(map(self._rows_by_identifier.__getitem__, words))

    def row(self, word: str) -> int | None:
        """Return the row of a whole word in lower case; None if it has none."""
        return self._row_of.get(word)

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


class MultilingualVocabulary:
    """The words of English, and after their rows words and pieces of other languages.

    A text is read as English if English has all its words, or unless they speak against it:
    `evidence` (words,) says for each whole word of the other languages by how much it does, less
    than 0 if it rather is English.
    `nearest` (words,) has the row of the English word that is nearest to each, or -1. Safe to share
    between threads.
    """

    def __init__(
        self,
        english: Vocabulary,
        languages: Vocabulary,
        evidence: Sequence[float] | NDArray[np.float32],
        nearest: Sequence[int] | NDArray[np.int64],
    ) -> None:
        self.english = english
        self.languages = languages
        self._nearest = nearest
        self._evidence = evidence
        self._rows_by_identifier = _Remembered(self._identifier_rows)
        self._english_has = _Remembered(self._is_in_english)
        self._evidence_by_identifier = _Remembered(self._evidence_of)

    def __len__(self) -> int:
        return len(self.english) + len(self.languages)

    def is_english(self, text: str) -> bool:
        """Tell whether a text is read as English."""
        return self._are_english(identifiers(text))

    def in_english(self, text: str) -> str:
        """Return the English words that are nearest to those of a text; none if it is English."""
        return "" if self.is_english(text) else self.word_by_word(text)

    def word_by_word(self, text: str) -> str:
        """Return the English words that are nearest to those of a part of a text that is not English."""
        first = len(self.english)
        rows = [
            row if row < first else int(self._nearest[row - first])
            for row in self.rows_of(identifiers(text))
        ]
        return " ".join(self.english.words[row] for row in rows if row >= 0)

    def rows(self, text: str) -> Iterable[int]:
        """Return the row of each known word or piece of the text, in their order."""
        words = identifiers(text)
        if self._are_english(words):
            return self.english.rows_of(words)
        return self.rows_of(words)

    def _are_english(self, identifiers: Sequence[str]) -> bool:
        if all(map(self._english_has.__getitem__, identifiers)):
            return True
        total = sum(map(self._evidence_by_identifier.__getitem__, identifiers))
        if total:
            return total < 0

        # Where no word tells, it is the language that cuts them into fewer pieces.
        pieces = sum(1 for _ in self.english.rows_of(identifiers))
        their_pieces = sum(1 for _ in self.rows_of(identifiers))
        return their_pieces == 0 or 0 < pieces <= their_pieces

    def _is_in_english(self, identifier: str) -> bool:
        return self.english.row(identifier.lower()) is not None

    def _evidence_of(self, identifier: str) -> float:
        """By how much a word speaks against English."""
        word = identifier.lower()
        if (row := self.languages.row(word)) is not None:
            return float(self._evidence[row])
        if self.english.row(word) is not None:
            return _ENGLISH
        return 0.0 if word.isascii() else _OTHER_LETTERS

    def rows_of(self, words: Iterable[str]) -> Iterable[int]:
        """Return the rows of runs of letters and digits that are not English."""
        return chain.from_iterable(map(self._rows_by_identifier.__getitem__, words))

    def _identifier_rows(self, identifier: str) -> tuple[int, ...]:
        """Return the rows of a run of letters in a text that is not English, but may have its words."""
        word, first = identifier.lower(), len(self.english)
        if (row := self.languages.row(word)) is not None:
            return (first + row,)
        if (row := self.english.row(word)) is not None:
            return (row,)
        return tuple(first + row for row in self.languages.rows_of([identifier]))


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


class _Remembered(dict[str, _T]):
    """Calls a function for missing keys and remembers its results, up to `_MAX_REMEMBERED`."""

    def __init__(self, compute: Callable[[str], _T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: str) -> _T:
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
        value = self[key] = self._compute(key)
        return value


def _is_no_accent(character: str) -> bool:
    return not unicodedata.combining(character)
