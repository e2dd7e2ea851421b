"""BM25 over a tokenizer for identifiers and model numbers; scores are shares of the maximum.

The maximum is the most that the query could get. A segment stores term frequencies, and scores are
computed when a query asks: so those of several segments, without rows that were removed since, are
those of one index over the same texts. The files of a segment with `rows` texts:

    rows.npy      int32 (entries,): the row of each term frequency, token by token
    counts.npy    uint16 (entries,): how often the token occurs in that row
    bounds.npy    int64 (tokens + 1,): where the entries of each token begin
    lengths.npy   int32 (rows,): the number of tokens of each row
    tokens.txt    the tokens in UTF-8, in the order of their bytes, without separators
    ends.npy      int64 (tokens,): where each token ends
"""

from __future__ import annotations

import re
import threading
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import Stemmer
from numpy.typing import NDArray

from purlin.index.blocks import UNCHECKED, Reader
from purlin.index.storage import read_array

Rows = NDArray[np.int64]
LexicalScores = NDArray[np.float32]
K1, B = 1.2, 0.75
ROWS_FILE, COUNTS_FILE, BOUNDS_FILE = "rows.npy", "counts.npy", "bounds.npy"
LENGTHS_FILE, TOKENS_FILE, ENDS_FILE = "lengths.npy", "tokens.txt", "ends.npy"
_MAX_TOKEN_CHARS = 64
# Any text can be tokenized, even one with lone surrogates.
_CODEC = ("utf-8", "surrogatepass")
_MAX_COUNT = np.iinfo(np.uint16).max
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
    lower = word.lower()
    if word.isalnum():
        # A word in lower case is its own only part.
        names = (
            [lower]
            if word == lower and word.isascii() and word.isalpha()
            else [lower, *map(str.lower, _PART.findall(word))]
        )
    else:
        # No part reaches over a separator.
        parts = [*_PIECE.findall(word), *_PART.findall(word)]
        names = [_joined(word), *map(str.lower, parts)]

    kept = (name for name in names if name not in _STOP and len(name) <= _MAX_TOKEN_CHARS)
    return tuple(dict.fromkeys(map(_stem, kept)))


# A stemmer must not be shared between threads.
_local = threading.local()


@lru_cache(maxsize=262_144)
def _stem(token: str) -> str:
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        # Its own cache is small and slow to drop words; `_stem` has a larger one.
        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)
    return str(stemmer.stemWord(token))


@dataclass(frozen=True, slots=True)
class Postings:
    """Term frequencies of one segment; see the files above.

    Token t has `counts[bounds[t]:bounds[t + 1]]` in the rows `rows[bounds[t]:bounds[t + 1]]`, and
    ends at `ends[t]` of the `text` of all tokens.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.uint16]
    bounds: NDArray[np.int64]
    lengths: NDArray[np.int32]
    text: bytes
    ends: NDArray[np.int64]

    @classmethod
    def load(cls, directory: Path, files: Reader = UNCHECKED) -> Postings:
        """Read the files of `save`; `read` returns the content of a file."""
        rows, counts, bounds, lengths, ends = (
            read_array(files.read(directory / name))
            for name in (ROWS_FILE, COUNTS_FILE, BOUNDS_FILE, LENGTHS_FILE, ENDS_FILE)
        )
        return cls(rows, counts, bounds, lengths, files.read(directory / TOKENS_FILE), ends)

    def save(self, directory: Path) -> None:
        """Write the files into `directory`, which is created."""
        directory.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, NDArray[Any]] = {
            ROWS_FILE: self.rows,
            COUNTS_FILE: self.counts,
            BOUNDS_FILE: self.bounds,
            LENGTHS_FILE: self.lengths,
            ENDS_FILE: self.ends,
        }
        for name, values in arrays.items():
            np.save(directory / name, values)
        (directory / TOKENS_FILE).write_bytes(self.text)

    def entries(self, token: str) -> slice:
        """Return the token's part of `rows` and `counts`; empty if no text has it."""
        content = token.encode(*_CODEC)
        number = bisect_left(range(len(self.ends)), content, key=self._token)
        if number == len(self.ends) or self._token(number) != content:
            return slice(0, 0)
        return slice(int(self.bounds[number]), int(self.bounds[number + 1]))

    def tokens(self) -> list[bytes]:
        """Return all tokens in their order."""
        ends = self.ends.tolist()
        return [self.text[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _token(self, number: int) -> bytes:
        return self.text[self.ends[number - 1] if number else 0 : self.ends[number]]


class _Numbers(dict[str, tuple[int, ...]]):
    """Word -> numbers of its tokens; a word is split when it is asked for the first time."""

    def __init__(self, number: Callable[[bytes], int]) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, word: str) -> tuple[int, ...]:
        numbers = tuple(self._number(token.encode(*_CODEC)) for token in _split(word))
        if len(self) < _MAX_CACHED_WORDS:
            self[word] = numbers
        return numbers


class LexicalBuilder:
    """Collects texts row by row, and rows of other segments, into the postings of one."""

    def __init__(self) -> None:
        self._vocabulary: dict[bytes, int] = {}
        self._numbers_of_word = _Numbers(self._number)
        self._lengths = array("i")
        # Token numbers of the texts, and the row and length of each text.
        self._tokens = array("i")
        self._text_rows = array("i")
        # Rows of other segments: the postings, their first and last + 1, and the first row here.
        self._copied: list[tuple[Postings, int, int, int]] = []

    def add(self, text: str) -> None:
        """Append one row."""
        before = len(self._tokens)
        numbers = map(self._numbers_of_word.__getitem__, _WORD.findall(_fold(text)))
        self._tokens.extend(chain.from_iterable(numbers))
        self._text_rows.append(len(self._lengths))
        self._lengths.append(len(self._tokens) - before)

    def copy(self, postings: Postings, start: int, end: int) -> None:
        """Append the rows `start` to `end` - 1 of another segment."""
        self._copied.append((postings, start, end, len(self._lengths)))
        self._lengths.extend(postings.lengths[start:end].tolist())

    def _number(self, token: bytes) -> int:
        return self._vocabulary.setdefault(token, len(self._vocabulary))

    def postings(self) -> Postings:
        """Return the postings of all rows."""
        parts = [self._of_texts(), *self._of_copies()]
        tokens, rows, counts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))

        # Tokens in the order of their bytes, so that a query finds them by bisection.
        ordered = sorted(self._vocabulary)
        rank = np.empty(len(ordered), np.int64)
        rank[[self._vocabulary[token] for token in ordered]] = np.arange(len(ordered))
        order = np.argsort(rank[tokens] * len(self._lengths) + rows, kind="stable")

        sizes = np.bincount(rank[tokens], minlength=len(ordered))
        return Postings(
            rows=rows[order].astype(np.int32),
            counts=np.minimum(counts[order], _MAX_COUNT).astype(np.uint16),
            bounds=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            lengths=np.array(self._lengths, np.int32),
            text=b"".join(ordered),
            ends=np.cumsum([len(token) for token in ordered]).astype(np.int64),
        )

    def _of_texts(self) -> _Entries:
        """Entries of the rows that were added as texts."""
        text_rows = np.array(self._text_rows, np.int64)
        lengths = np.array(self._lengths, np.int64)[text_rows]
        keys = np.array(self._tokens, np.int64) * max(len(self._lengths), 1)
        keys += np.repeat(text_rows, lengths)

        unique, counts = np.unique(keys, return_counts=True)
        tokens, rows = np.divmod(unique, max(len(self._lengths), 1))
        return tokens, rows, counts

    def _of_copies(self) -> Iterator[_Entries]:
        """Yield the entries of the rows of each other segment."""
        segments = {id(postings): postings for postings, *_ in self._copied}
        for postings in segments.values():
            new_rows = np.full(len(postings.lengths), -1, np.int64)
            for of, start, end, first in self._copied:
                if of is postings:
                    new_rows[start:end] = np.arange(first, first + end - start)

            entries = np.flatnonzero(new_rows[postings.rows] >= 0)
            tokens = np.searchsorted(postings.bounds, entries, "right") - 1
            used, positions = np.unique(tokens, return_inverse=True)
            names = postings.tokens()
            numbers = np.array([self._number(names[token]) for token in used.tolist()], np.int64)
            rows = new_rows[postings.rows[entries]]
            yield numbers[positions], rows, postings.counts[entries].astype(np.int64)


# Token numbers, rows and counts, all (entries,).
_Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class Lexical:
    """The lexical retriever: BM25 (Lucene's variant) over the postings of one or more segments.

    The rows of a segment follow those of the one before it. `live` (rows,) is false for rows that
    count no more; None means that all do. `rows` is their number in all.
    """

    def __init__(self, segments: Sequence[Postings], live: NDArray[np.bool_] | None = None) -> None:
        lengths = np.concatenate([segment.lengths for segment in segments])
        self.rows = len(lengths)
        starts = [0, *accumulate(len(segment.lengths) for segment in segments)]
        self._segments = list(zip(segments, starts, strict=False))

        self._live = live
        live_lengths = lengths if live is None else lengths[live]
        self._count = len(live_lengths)
        mean = max(int(live_lengths.sum(dtype=np.int64)), 1) / max(self._count, 1)
        # The part of the denominator that does not depend on the token.
        self._norms = (K1 * (1.0 - B + B * lengths / mean)).astype(np.float32)

    def weights(self, query: str) -> dict[str, float]:
        """Map each distinct token of the query to its idf (Lucene's variant).

        The idf is the most that the token can add to a BM25 score.
        """
        return {token: self._idf(token) for token in dict.fromkeys(tokens(query))}

    def _idf(self, token: str) -> float:
        df = sum(len(rows) for rows, _ in self._entries(token))
        return float(np.log1p((self._count - df + 0.5) / (df + 0.5)))

    def search(
        self,
        weights: Mapping[str, float],
        depth: int,
        allowed: NDArray[np.bool_] | None = None,
    ) -> tuple[Rows, LexicalScores]:
        """Return rows and scores of the `depth` best rows with any of the tokens, best first.

        `allowed` (rows,) restricts the rows.
        """
        scores = self._all_scores(weights)
        if allowed is not None:
            scores[~allowed] = 0.0
        rows = top(scores, depth)
        return rows, scores[rows]

    def scores(self, weights: Mapping[str, float], rows: Rows) -> LexicalScores:
        """Return BM25 (len(rows),) of these rows as a share of the sum of `weights`.

        It is 0 without a match, and always below 1.
        """
        scores: LexicalScores = self._all_scores(weights)[rows]
        return scores

    def matching(
        self, weights: Mapping[str, float], allowed: NDArray[np.bool_] | None = None
    ) -> Rows:
        """Return all rows with any of the tokens, in ascending order."""
        scores = self._all_scores(weights)
        return np.flatnonzero(scores > 0 if allowed is None else (scores > 0) & allowed)

    def _all_scores(self, weights: Mapping[str, float]) -> LexicalScores:
        scores = np.zeros(self.rows, dtype=np.float32)
        for token, idf in weights.items():
            for rows, counts in self._entries(token):
                scores[rows] += np.float32(idf) * (counts / (counts + self._norms[rows]))
        return scores / np.float32(sum(weights.values()) or 1.0)

    def _entries(self, token: str) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Yield the live rows that have the token, and how often, segment by segment."""
        for segment, start in self._segments:
            entries = segment.entries(token)
            if entries.start == entries.stop:
                continue

            rows = segment.rows[entries] + np.int64(start)
            counts = segment.counts[entries].astype(np.float32)
            if self._live is not None:
                kept = self._live[rows]
                rows, counts = rows[kept], counts[kept]
            yield rows, counts

    def explain(self, weights: Mapping[str, float], row: int) -> dict[str, float]:
        """Map each token that adds to the score of `row` to what it adds."""
        total = sum(weights.values())
        parts: dict[str, float] = {}
        for token, idf in weights.items():
            for rows, counts in self._entries(token):
                count = counts[rows == row]
                if count.size:
                    share = float(count[0]) / (float(count[0]) + float(self._norms[row]))
                    parts[token] = idf * share / total
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
