"""BM25 over a tokenizer that knows identifiers and model numbers; scores are shares of the most a query can get."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import bm25s
import numpy as np
import Stemmer
from numpy.typing import NDArray

from index import storage

LexicalScores = NDArray[np.float32]
K1, B = 1.2, 0.75
_MAX_TOKEN_CHARS = 64
_MAX_CACHED_WORDS = 1_000_000

# A word is what a person would call one name: DDR4-3200, os.path.join, read_csv, Foo::bar, C++.
_WORD = re.compile(r"[A-Za-z](?:\+\+|\#)(?!\w)|[^\W_]+(?:(?:::|->|[-_.'’])[^\W_]+)*")
_PIECE = re.compile(r"[^\W_]+")
# Inside a piece: an acronym, a capitalised or lower-case run, a number; other scripts stay whole.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_STOP = frozenset(
    "a an and are as at be by can do does for from how i if in into is it its of on or so that the their then there "
    "these this to was what when where which with you your".split()
)


def tokens(text: str) -> list[str]:
    """Every word of `text` as its whole and its parts, lower case and stemmed, in order, without common English words.

    `getHTTPResponses` -> gethttprespons, get, http, respons; `DDR4-3200` -> ddr43200, ddr4, 3200, ddr, 4.
    """
    return [token for match in _WORD.finditer(_fold(text)) for token in _split(match.group())]


def matches(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """(start, end) character offsets in `text` of the words, or parts of words, that are among `wanted` tokens."""
    if text.isascii():
        yield from _matches(text, wanted)
        return
    pieces = list(map(_fold_character, text))
    ends = list(accumulate(map(len, pieces)))
    last = 0
    for first, stop in _matches("".join(pieces), wanted):
        start = bisect_right(ends, first)
        end = bisect_right(ends, ends[bisect_left(ends, stop)])  # with the accents that follow
        if start >= last:  # one character, such as ½, can hold two words
            yield start, end
            last = end


def _matches(folded: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    for word in _WORD.finditer(folded):
        if wanted.isdisjoint(_split(word.group())):
            continue
        if _stem(_joined(word.group())) in wanted:
            yield word.span()
            continue
        for part in _PART.finditer(word.group()):
            if _stem(part.group().lower()) in wanted:
                yield word.start() + part.start(), word.start() + part.end()


def _fold(text: str) -> str:
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c)).replace("ß", "ss")


_fold_character = lru_cache(maxsize=65_536)(_fold)


def _joined(word: str) -> str:
    return word.lower() if word[-1] in "+#" else "".join(_PIECE.findall(word)).lower()


@lru_cache(maxsize=65_536)
def _split(word: str) -> tuple[str, ...]:
    """The distinct tokens of one word: joined whole, pieces between separators, parts of the pieces."""
    pieces = _PIECE.findall(word)
    names = [
        _joined(word),
        *(p.lower() for p in pieces),
        *(p.lower() for piece in pieces for p in _PART.findall(piece)),
    ]
    return tuple(
        dict.fromkeys(_stem(n) for n in names if n not in _STOP and len(n) <= _MAX_TOKEN_CHARS)
    )


_local = threading.local()  # a stemmer belongs to one thread


@lru_cache(maxsize=262_144)
def _stem(token: str) -> str:
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    return str(stemmer.stemWord(token))


class LexicalBuilder:
    """Collects texts row by row, then writes the index."""

    def __init__(self) -> None:
        self._vocabulary: dict[str, int] = {
            "": 0
        }  # stands for a text without words: BM25 divides by the mean length
        self._words: dict[str, tuple[int, ...]] = {}
        self._rows: list[array[int]] = []

    def add(self, text: str) -> None:
        """Append one row."""
        row, known = array("i"), self._words
        for word in _WORD.findall(_fold(text)):
            row.extend(known[word] if word in known else self._ids(word))
        self._rows.append(row or array("i", [0]))

    def _ids(self, word: str) -> tuple[int, ...]:
        ids = tuple(self._vocabulary.setdefault(t, len(self._vocabulary)) for t in _split(word))
        if len(self._words) < _MAX_CACHED_WORDS:
            self._words[word] = ids
        return ids

    def save(self, directory: Path) -> None:
        """Write the index of all rows into `directory`, which is created."""
        bm25 = bm25s.BM25(method="lucene", k1=K1, b=B)
        bm25.index((self._rows, self._vocabulary), create_empty_token=False, show_progress=False)
        bm25.save(directory, show_progress=False)


class Lexical:
    """A loaded index of `rows` texts: a sparse matrix with a column for each token of the vocabulary.

    Column t has `scores[bounds[t]:bounds[t + 1]]` in the rows `at[bounds[t]:bounds[t + 1]]`, and zeros elsewhere.
    """

    def __init__(
        self,
        rows: int,
        vocabulary: Mapping[str, int],
        scores: LexicalScores,
        at: NDArray[np.int32],
        bounds: NDArray[np.int64],
    ) -> None:
        self.rows = rows
        self._vocabulary = vocabulary
        self._scores, self._at, self._bounds = scores, at, bounds

    @classmethod
    def load(cls, directory: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> Lexical:
        """Read an index written by `LexicalBuilder.save` into memory; `read` gives the content of a file."""
        rows = json.loads(read(directory / "params.index.json"))["num_docs"]
        vocabulary = json.loads(read(directory / "vocab.index.json"))
        parts = (
            storage.read_array(read(directory / f"{part}.csc.index.npy"))
            for part in ("data", "indices", "indptr")
        )
        return cls(rows, vocabulary, *parts)

    def weights(self, query: str) -> dict[str, float]:
        """Each distinct token of the query -> its idf: the most it can add to a BM25 score (Lucene's variant)."""
        return {token: self._idf(token) for token in dict.fromkeys(tokens(query))}

    def _idf(self, token: str) -> float:
        column = self._column(token)
        df = column.stop - column.start
        return float(np.log1p((self.rows - df + 0.5) / (df + 0.5)))

    def scores(self, weights: Mapping[str, float]) -> LexicalScores:
        """(rows,) BM25 of every row as a share of the sum of `weights`: 0 without a match, below 1 always."""
        scores = np.zeros(self.rows, dtype=np.float32)
        for token in weights:
            column = self._column(token)
            scores[self._at[column]] += self._scores[column]
        return scores / np.float32(sum(weights.values()) or 1.0)

    def _column(self, token: str) -> slice:
        """Where the matrix has the token's scores; nowhere if no text has it."""
        known = self._vocabulary.get(token)
        return (
            slice(int(self._bounds[known]), int(self._bounds[known + 1]))
            if known is not None
            else slice(0, 0)
        )

    def explain(self, weights: Mapping[str, float], row: int) -> dict[str, float]:
        """What each token of the query adds to the score of `row`; tokens that add nothing are left out."""
        total, parts = sum(weights.values()), {}
        for token in weights:
            column = self._column(token)
            here = self._scores[column][self._at[column] == row]
            if here.size:
                parts[token] = float(here[0]) / total
        return parts


def top(scores: LexicalScores, depth: int) -> NDArray[np.int64]:
    """Rows of the `depth` best scores above 0, best first; ties in row order."""
    candidates = np.flatnonzero(scores > 0)
    if candidates.size > depth:
        worst = np.partition(scores[candidates], candidates.size - depth)[candidates.size - depth]
        candidates = candidates[scores[candidates] >= worst]
    order = np.lexsort((candidates, -scores[candidates]))
    return candidates[order][:depth]
