"""Words that have a vector, and how texts fall into them: the vocabularies of static encoders.

Words are compared in lower case and without accents. An identifier is one word if the vocabulary has
it as such (`filename`, `JavaScript`); otherwise it is cut where its case or its digits change
(`getHTTPResponse` -> get, http, response), and a part that is still unknown falls into the longest
pieces that the vocabulary has, as in WordPiece.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar, overload

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


class SortedWords(Sequence[str]):
    """Words in the order of their letters, one a line, looked up in their file.

    A list of them would take 0.1 s to make and 50 MB, for words that most texts have none of.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        breaks = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n"))
        self._starts = np.concatenate([[0], breaks + 1])
        self._ends = np.append(breaks, len(content))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[each] for each in range(len(self))[row]]
        return self._word(row).decode()

    def row(self, word: str) -> int | None:
        """Return the row of a word; None if it is none of these."""
        # The order of UTF-8 is that of its characters. Lone surrogates are in no file.
        key = word.encode(errors="surrogatepass")
        row = bisect_left(range(len(self)), key, key=self._word)
        return row if row < len(self) and self._word(row) == key else None

    def _word(self, row: int) -> bytes:
        return self._content[self._starts[row] : self._ends[row]]


class Vocabulary:
    """The words that have a vector. Safe to share between threads."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words if isinstance(words, SortedWords) else tuple(words)
        self._row_of: Callable[[str], int | None]
        if isinstance(words, SortedWords):
            self._row_of = words.row
        else:
            self._row_of = {word: row for row, word in enumerate(words)}.get
        self._rows_by_identifier = _Remembered(self._identifier_rows)

    def __len__(self) -> int:
        return len(self.words)

    def rows(self, text: str) -> Iterable[int]:
        """Return the row of each known word or piece of the text, in their order."""
        return self.rows_of(identifiers(text))

    def rows_of(self, words: Iterable[str]) -> Iterable[int]:
        """Return the rows of runs of letters and digits, as `identifiers` finds them."""
        return chain.from_iterable(map(self._rows_by_identifier.__getitem__, words))

    def row(self, word: str) -> int | None:
        """Return the row of a whole word in lower case; None if it has none."""
        return self._row_of(word)

    def _identifier_rows(self, identifier: str) -> tuple[int, ...]:
        whole = self.row(identifier.lower())
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
            rows_of_pieces = ((end, self.row(piece)) for end, piece in pieces)
            end, row = next(
                ((end, row) for end, row in rows_of_pieces if row is not None), (start + 1, None)
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
    `translations` (words, n) has the rows of the English words that translate each, the best first,
    and `shares` (words, n) how much each of these counts: they add up to 1, or are 0 for a word
    without a translation. Safe to share between threads.
    """

    def __init__(
        self,
        english: Vocabulary,
        languages: Vocabulary,
        evidence: NDArray[np.float32],
        translations: NDArray[np.uint16],
        shares: NDArray[np.float32],
    ) -> None:
        self.english = english
        self.languages = languages
        self._evidence = evidence
        self._translations = translations
        self._shares = shares
        self._rows_by_identifier = _Remembered(self._identifier_rows)
        self._english_has = _Remembered(self._is_in_english)
        self._evidence_by_identifier = _Remembered(self._evidence_of)

    def __len__(self) -> int:
        return len(self.english) + len(self.languages)

    def is_english(self, text: str) -> bool:
        """Tell whether a text is read as English."""
        return self._are_english(identifiers(text))

    def in_english(self, text: str) -> str:
        """Translate a text word by word; return nothing if it is English."""
        return "" if self.is_english(text) else self.word_by_word(text)

    def word_by_word(self, text: str) -> str:
        """Translate the words of a part of a text that is not English, one by one."""
        first = len(self.english)
        rows = []
        for row in self.rows_of(identifiers(text)):
            if row < first:
                rows.append(row)
            elif self._shares[row - first, 0] > 0:
                rows.append(int(self._translations[row - first, 0]))
        return " ".join(self.english.words[row] for row in rows)

    def english_rows(
        self, rows: NDArray[np.int64], weights: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Replace the rows of other languages by those of their translations, which share their weights."""
        first = len(self.english)
        is_english = rows < first
        if is_english.all():
            return rows, weights

        others = rows[~is_english] - first
        shares = self._shares[others] * weights[~is_english, None]
        return (
            np.concatenate([rows[is_english], self._translations[others].ravel()]),
            np.concatenate([weights[is_english], shares.ravel()]),
        )

    def rows(self, text: str) -> Iterable[int]:
        """Return the row of each known word or piece of the text, in their order."""
        words = identifiers(text)
        if self._are_english(words):
            return self.english.rows_of(words)
        return self.rows_of(words)

    def _are_english(self, identifiers: Sequence[str]) -> bool:
        total = sum(map(self._evidence_by_identifier.__getitem__, identifiers))
        if total < 0 or all(map(self._english_has.__getitem__, identifiers)):
            return True
        if total > 0:
            return False

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
