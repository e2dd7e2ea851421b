"""The tokens of one or more segments: in how many rows they are, and which are like a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import accumulate, islice
from operator import and_

import numpy as np

from purlin.index.search.arrays import Mask
from purlin.index.search.lexical.edits import fewest_in_stem, most_edits, words_near
from purlin.index.search.lexical.postings import Postings, common_rows
from purlin.index.search.lexical.tokens import FEWEST_IN_PART, ends_compounds

# A longer word is none that people spell.
LONGEST_WORD = 32
# So many codes replace the beginning of one, and so many compounds are searched for their last part.
_MOST_CODES, _MOST_COMPOUNDS = 8, 16
_ROWS_PER_OCCURRENCE = 50_000
_COUNTED_TOKENS = 65_536
_CORRECTED_WORDS = 4096


class Vocabulary:
    """The tokens of segments, whose rows follow each other; safe to share between threads.

    `live` (rows,) is false for rows that were removed; None means that none was. `count` is the
    number of the others.
    """

    def __init__(self, segments: Sequence[Postings], live: Mask | None) -> None:
        # That of all segments.
        self.language = segments[0].language
        self._segments = segments
        self._starts = [0, *accumulate(map(len, segments))]
        self._live = live
        self.count = self._starts[-1] if live is None else int(np.count_nonzero(live))
        self._removed = [
            np.zeros(0, np.int32)
            if live is None
            else np.flatnonzero(~live[start:end]).astype(np.int32)
            for start, end in zip(self._starts, self._starts[1:], strict=False)
        ]

        # Where rows were removed, a token's postings are read to count those left.
        self.df = lru_cache(_COUNTED_TOKENS)(self._df)
        self.nearest = lru_cache(_CORRECTED_WORDS)(self._nearest)
        self.completion = lru_cache(_CORRECTED_WORDS)(self._completion)
        self.codes = lru_cache(_CORRECTED_WORDS)(self._codes)
        self.compounds = lru_cache(_CORRECTED_WORDS)(self._compounds)

    def _df(self, token: str) -> int:
        """Count the live rows that have the token."""
        df = 0
        for segment, removed in zip(self._segments, self._removed, strict=True):
            for tier in segment.tiers(token):
                df += tier.count
                if len(removed):
                    df -= len(common_rows(removed, segment.read(tier)[0])[0])
        return df

    def having(self, tokens: Iterable[str], allowed: Mask | None = None) -> Mask:
        """Return the mask (rows,) of the live rows, or of the allowed ones, with any of the tokens."""
        # `np.unique` of their rows takes a second where frequent words match a million.
        mask = np.zeros(self._starts[-1], dtype=np.bool_)
        for token in tokens:
            for segment, start in zip(self._segments, self._starts, strict=False):
                for tier in segment.tiers(token):
                    mask[start + segment.read(tier)[0]] = True

        allowed = self._live if allowed is None else allowed
        return mask if allowed is None else mask & allowed

    def together(self, *tokens: str) -> int:
        """Count the live rows that have all tokens."""
        masks = (self.having([token]) for token in tokens)
        return int(np.count_nonzero(reduce(and_, masks)))

    def _row_counts(self, words_of: Callable[[Postings], Mapping[bytes, int]]) -> Counter[bytes]:
        """Count the rows, also those removed since, of some words of the segments."""
        row_counts: Counter[bytes] = Counter()
        for segment in self._segments:
            row_counts.update(words_of(segment))
        return row_counts

    def _by_frequency(self, words_of: Callable[[Postings], Mapping[bytes, int]]) -> Iterator[str]:
        """Yield some words of the segments, those of most rows first."""
        row_counts = self._row_counts(words_of)
        ranked = sorted(row_counts, key=lambda token: (-row_counts[token], token))
        return map(bytes.decode, ranked)

    def _nearest(self, word: str) -> str | None:
        """Return the word fewest edits away, whose stem some live row has; of several, that of most rows."""
        most = most_edits(word)
        # Among very many texts, tokens that only few have are mostly misspellings, and they are many.
        fewest_rows = 1 + self.count // _ROWS_PER_OCCURRENCE
        sizes = range(fewest_in_stem(word, self.language), len(word) + most + 1)
        row_counts = self._row_counts(
            lambda segment: segment.words_like(word[0], sizes, fewest_rows)
        )

        distances = words_near(word, list(row_counts), self.language)
        ranked = sorted(
            (distance, -row_counts[token], spelled, token.decode())
            for (token, spelled), distance in distances.items()
        )
        # A token whose rows have all been removed does not count.
        return next((spelled for *_, spelled, token in ranked if self.df(token)), None)

    def _completion(self, word: str) -> str | None:
        """The token that begins with a word; of several the most frequent."""
        sizes = range(len(word), LONGEST_WORD + 1)
        tokens = self._by_frequency(lambda segment: segment.words_like(word, sizes, 1))
        return next(filter(self.df, tokens), None)

    def _codes(self, beginning: str) -> list[str]:
        """Return some codes that begin with these letters and digits, those of most rows first."""
        sizes = range(len(beginning) + 1, LONGEST_WORD + 1)
        codes = self._by_frequency(
            lambda segment: segment.words_like(beginning, sizes, 1, digits=True)
        )
        return list(islice(filter(self.df, codes), _MOST_CODES))

    def _compounds(self, token: str) -> tuple[str, ...]:
        """Return the tokens that end with a token, the most frequent first; in most languages none."""
        if not ends_compounds(token, self.language):
            return ()
        compounds = self._by_frequency(lambda segment: segment.words_ending(token, FEWEST_IN_PART))
        return tuple(islice(filter(self.df, compounds), _MOST_COMPOUNDS))
