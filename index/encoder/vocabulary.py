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
from itertools import chain

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
        self._row_of = {word: row for row, word in enumerate(self.words)}
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

    A text is read as English unless its words speak against it: `evidence` (words,) says for each
    whole word of the other languages by how much it does, less than 0 if it rather is English. Safe
    to share between threads.
    """

    def __init__(
        self, english: Vocabulary, languages: Vocabulary, evidence: Sequence[float]
    ) -> None:
        self.english = english
        self.languages = languages
        self._evidence = dict.fromkeys(english.words, _ENGLISH)
        self._evidence.update(zip(languages.words, evidence, strict=True))
        self._rows_by_identifier = _Remembered(self._identifier_rows)

    def __len__(self) -> int:
        return len(self.english) + len(self.languages)

    def is_english(self, text: str) -> bool:
        """Tell whether a text is read as English."""
        return self._are_english(identifiers(text))

    def rows(self, text: str) -> Iterable[int]:
        """Return the row of each known word or piece of the text, in their order."""
        words = identifiers(text)
        if self._are_english(words):
            return self.english.rows_of(words)
        return self.rows_of(words)

    def _are_english(self, words: Sequence[str]) -> bool:
        evidence = self._evidence
        total = sum(
            evidence.get(word.lower(), 0.0 if word.isascii() else _OTHER_LETTERS) for word in words
        )
        if total:
            return total < 0

        # Where no word tells, it is the language that cuts them into fewer pieces.
        pieces = sum(1 for _ in self.english.rows_of(words))
        their_pieces = sum(1 for _ in self.rows_of(words))
        return their_pieces == 0 or 0 < pieces <= their_pieces

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
