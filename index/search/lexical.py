"""BM25 over a tokenizer for identifiers and model numbers; scores are shares of the maximum.

The maximum is the most that the query could get. bm25s computes the scores of an index; this module
writes and reads its files itself:

    data.csc.index.npy      float32 (entries,): BM25 scores, column by column
    indices.csc.index.npy   int32 (entries,): the row of each score
    indptr.csc.index.npy    int (columns + 1,): where the scores of each column begin
    vocab.index.json        token -> column
    params.index.json       {"num_docs": number of rows}

Names and arrays are those of bm25s 0.2 and 0.3, whose own files are read in the same way.
"""

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

from purlin.index.storage import read_array

LexicalScores = NDArray[np.float32]
K1, B = 1.2, 0.75
SCORES_FILE = "data.csc.index.npy"
ROWS_FILE = "indices.csc.index.npy"
BOUNDS_FILE = "indptr.csc.index.npy"
VOCABULARY_FILE = "vocab.index.json"
PARAMETERS_FILE = "params.index.json"
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
    """Every word of `text` as its whole and its parts, in order, lower case and stemmed.

    Common English words are left out.

    `getHTTPResponses` -> gethttprespons, get, http, respons
    `DDR4-3200` -> ddr43200, ddr4, 3200, ddr, 4
    """
    return [token for match in _WORD.finditer(_fold(text)) for token in _split(match.group())]


def matches(text: str, query_tokens: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) character offsets of words, or parts of words, that match the query."""
    if text.isascii():
        yield from _matches(text, query_tokens)
        return

    # Folding changes lengths: `ends` maps offsets in the folded text back to characters.
    folded = list(map(_fold_character, text))
    ends = list(accumulate(map(len, folded)))
    previous_end = 0
    for folded_start, folded_end in _matches("".join(folded), query_tokens):
        start = bisect_right(ends, folded_start)
        # Combining accents that follow belong to the match.
        end = bisect_right(ends, ends[bisect_left(ends, folded_end)])
        # One character, such as ½, can hold two words.
        if start >= previous_end:
            yield start, end
            previous_end = end


def _matches(folded: str, query_tokens: frozenset[str]) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(folded):
        word = match.group()
        if query_tokens.isdisjoint(_split(word)):
            continue
        if _stem(_joined(word)) in query_tokens:
            yield match.span()
            continue

        for part in _PART.finditer(word):
            if _stem(part.group().lower()) in query_tokens:
                yield match.start() + part.start(), match.start() + part.end()


def _fold(text: str) -> str:
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    # NFKD leaves ß as it is.
    return "".join(c for c in decomposed if not unicodedata.combining(c)).replace("ß", "ss")


_fold_character = lru_cache(maxsize=65_536)(_fold)


def _joined(word: str) -> str:
    return word.lower() if word[-1] in "+#" else "".join(_PIECE.findall(word)).lower()


@lru_cache(maxsize=65_536)
def _split(word: str) -> tuple[str, ...]:
    """Distinct tokens of a word: the joined whole, pieces between separators, parts of pieces."""
    pieces = _PIECE.findall(word)
    parts = (part for piece in pieces for part in _PART.findall(piece))
    names = [_joined(word), *map(str.lower, pieces), *map(str.lower, parts)]

    kept = (name for name in names if name not in _STOP and len(name) <= _MAX_TOKEN_CHARS)
    return tuple(dict.fromkeys(map(_stem, kept)))


# A stemmer must not be shared between threads.
_local = threading.local()


@lru_cache(maxsize=262_144)
def _stem(token: str) -> str:
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    return str(stemmer.stemWord(token))


class LexicalBuilder:
    """Collects texts row by row, then writes the index."""

    def __init__(self) -> None:
        # "" stands for a text without words: BM25 divides by the mean length.
        self._vocabulary: dict[str, int] = {"": 0}
        self._columns_of_word: dict[str, tuple[int, ...]] = {}
        self._rows: list[array[int]] = []

    def add(self, text: str) -> None:
        """Append one row."""
        row, cache = array("i"), self._columns_of_word
        for word in _WORD.findall(_fold(text)):
            row.extend(cache[word] if word in cache else self._columns(word))
        self._rows.append(row or array("i", [0]))

    def _columns(self, word: str) -> tuple[int, ...]:
        vocabulary = self._vocabulary
        columns = tuple(vocabulary.setdefault(token, len(vocabulary)) for token in _split(word))
        if len(self._columns_of_word) < _MAX_CACHED_WORDS:
            self._columns_of_word[word] = columns
        return columns

    def save(self, directory: Path) -> None:
        """Write the index of all rows into `directory`, which is created."""
        bm25 = bm25s.BM25(method="lucene", k1=K1, b=B)
        bm25.index((self._rows, self._vocabulary), create_empty_token=False, show_progress=False)

        directory.mkdir(parents=True, exist_ok=True)
        np.save(directory / SCORES_FILE, np.asarray(bm25.scores["data"], np.float32))
        np.save(directory / ROWS_FILE, np.asarray(bm25.scores["indices"], np.int32))
        np.save(directory / BOUNDS_FILE, bm25.scores["indptr"])
        vocabulary = json.dumps(self._vocabulary, ensure_ascii=False)
        (directory / VOCABULARY_FILE).write_text(vocabulary, encoding="utf-8")
        (directory / PARAMETERS_FILE).write_text(json.dumps({"num_docs": len(self._rows)}))


class Lexical:
    """The lexical retriever: a sparse matrix of `rows` texts with a column for each token.

    Column c has `scores[bounds[c]:bounds[c + 1]]` in the rows `at[bounds[c]:bounds[c + 1]]`, and
    zeros elsewhere.
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
        """Read an index of `LexicalBuilder.save` into memory; `read` returns a file's content."""
        rows = json.loads(read(directory / PARAMETERS_FILE))["num_docs"]
        vocabulary = json.loads(read(directory / VOCABULARY_FILE))
        arrays = (
            read_array(read(directory / name)) for name in (SCORES_FILE, ROWS_FILE, BOUNDS_FILE)
        )
        return cls(rows, vocabulary, *arrays)

    def weights(self, query: str) -> dict[str, float]:
        """Map each distinct token of the query to its idf (Lucene's variant).

        The idf is the most that the token can add to a BM25 score.
        """
        return {token: self._idf(token) for token in dict.fromkeys(tokens(query))}

    def _idf(self, token: str) -> float:
        entries = self._entries(token)
        df = entries.stop - entries.start
        return float(np.log1p((self.rows - df + 0.5) / (df + 0.5)))

    def scores(self, weights: Mapping[str, float]) -> LexicalScores:
        """Return BM25 (rows,) of every row as a share of the sum of `weights`.

        It is 0 without a match and always below 1.
        """
        scores = np.zeros(self.rows, dtype=np.float32)
        for token in weights:
            entries = self._entries(token)
            scores[self._at[entries]] += self._scores[entries]
        return scores / np.float32(sum(weights.values()) or 1.0)

    def _entries(self, token: str) -> slice:
        """Return the token's part of the matrix's entries; empty if no text has it."""
        column = self._vocabulary.get(token)
        if column is None:
            return slice(0, 0)
        return slice(int(self._bounds[column]), int(self._bounds[column + 1]))

    def explain(self, weights: Mapping[str, float], row: int) -> dict[str, float]:
        """Map each token that adds to the score of `row` to what it adds."""
        total = sum(weights.values())
        parts: dict[str, float] = {}
        for token in weights:
            entries = self._entries(token)
            score = self._scores[entries][self._at[entries] == row]
            if score.size:
                parts[token] = float(score[0]) / total
        return parts


def top(scores: LexicalScores, depth: int) -> NDArray[np.int64]:
    """Rows of the `depth` best scores above 0, best first; ties in row order."""
    candidates = np.flatnonzero(scores > 0)

    # Sort only what reaches the score in position `depth`.
    if candidates.size > depth:
        position = candidates.size - depth
        lowest = np.partition(scores[candidates], position)[position]
        candidates = candidates[scores[candidates] >= lowest]

    order = np.lexsort((candidates, -scores[candidates]))
    return candidates[order][:depth]
