"""How many letters words differ by, and what may be the words with a stem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from purlin.index.search.lexical.languages import Language
from purlin.index.search.lexical.tokens import FEWEST_IN_PART, split

# Words of fewer letters have too many others two edits away.
_FEWEST_FOR_TWO_EDITS = 9
# What the English stemmer replaces by i.
_Y_ENDINGS = ("y", "ies", "ied")


def most_edits(word: str) -> int:
    """Return how many edits the nearest token may be away from a word."""
    return 2 if len(word) >= _FEWEST_FOR_TWO_EDITS else 1


def fewest_in_stem(word: str, language: Language) -> int:
    """Return the fewest letters that the stem of a word near this one has."""
    longest_ending = max(map(len, language.endings))
    return max(len(word) - most_edits(word) - longest_ending, FEWEST_IN_PART)


def words_near(
    word: str, stems: Sequence[bytes], language: Language
) -> dict[tuple[bytes, str], int]:
    """Map (stem, word) to the edits between that word and this one, if these are few enough."""
    most = most_edits(word)
    # The last letter of a stem may stand for another: memori for memory.
    _, of_beginnings = _edits(word, [stem.removesuffix(b"i") for stem in stems])
    near = [stems[row] for row in np.flatnonzero(of_beginnings <= most).tolist()]
    forms = [(stem, form) for stem in near for form in _forms(stem.decode(), language)]
    distances = edits(word, [form.encode() for _, form in forms]).tolist()

    return {
        (stem, form): distance
        for (stem, form), distance in zip(forms, distances, strict=True)
        if distance <= most and split(form, language) == (stem.decode(),)
    }


def edits(word: str, tokens: Sequence[bytes]) -> NDArray[np.int8]:
    """Return for each token (n,) how many letters differ: added, left out, replaced or swapped with the next."""
    return _edits(word, tokens)[0]


def _edits(word: str, tokens: Sequence[bytes]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return the edits (n,) of the word, and those of the beginning of the word that has fewest."""
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    width = int(lengths.max(initial=0))
    padded = b"".join(token.ljust(width, b"\0") for token in tokens)
    # (width, n), so that a letter of all tokens is contiguous.
    letters = np.frombuffer(padded, np.uint8).reshape(len(tokens), width).T.copy()

    before = np.zeros((width + 1, len(tokens)), np.int8)
    last = np.repeat(np.arange(width + 1, dtype=np.int8)[:, None], len(tokens), axis=1)
    columns = np.arange(len(tokens))
    of_beginnings = last[lengths, columns]
    codes = word.encode()
    for number, code in enumerate(codes):
        row = np.empty_like(last)
        row[0] = number + 1
        np.minimum(last[:-1] + (letters != code), last[1:] + np.int8(1), out=row[1:])
        if number:
            swapped = (letters[1:] == codes[number - 1]) & (letters[:-1] == code)
            np.minimum(row[2:], before[:-2] + np.int8(1), out=row[2:], where=swapped)
        for column in range(width):
            np.minimum(row[column + 1], row[column] + np.int8(1), out=row[column + 1])
        before, last = last, row
        np.minimum(of_beginnings, last[lengths, columns], out=of_beginnings)

    return last[lengths, columns], of_beginnings


def nearest_form(token: str, word: str, language: Language) -> str:
    """Return the word with this stem that is nearest to `word`, since encoders and people do not read stems."""
    words = [form for form in _forms(token, language) if split(form, language) == (token,)]
    if not words:
        return token
    distances = edits(word, [form.encode() for form in words])
    return words[int(distances.argmin())]


def _forms(stem: str, language: Language) -> Iterator[str]:
    """Yield what may be the words with this stem."""
    for ending in language.endings:
        # No ending begins with the e that its stem ends with, but coffee has one.
        if ending == "e" or not (stem.endswith("e") and ending.startswith("e")):
            yield stem + ending
    for ending in _Y_ENDINGS:
        yield stem[:-1] + ending
