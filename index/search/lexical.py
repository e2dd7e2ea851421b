"""BM25 over a tokenizer for identifiers and model numbers; scores are shares of the maximum.

The maximum is the most that the query could get. Segments store term frequencies, and scores are
computed when a query asks: so those of several segments, without rows that were removed since, are
those of one index over the same texts.

A search finds the same first rows as scoring all of them, and reads little of a large corpus
(MaxScore, by tiers). It reads the postings of rare tokens, and the first tiers of frequent ones,
until no row that has not been met can enter the first ones: what the unread tiers can add at most
is known from their least burdens. Then the unread tiers are read for the rows alone that still can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from purlin.index.search.postings import B, Postings, Tier, mean_length
from purlin.index.search.tokens import tokens

Rows = NDArray[np.int64]
LexicalScores = NDArray[np.float32]
K1 = 1.2
# A filter that leaves so few rows is scored as a whole.
_FEW = 4096
# Bounds are wider by this share per token than exact sums, because the order of a sum matters.
_ROUNDING = 1e-6
_COUNTED_TOKENS = 65_536


@dataclass(slots=True)
class _Token:
    """A token of a query: its idf, and the tiers of its postings.

    Both lists have (most, segment, tier): the most that the tier can add to the score of a row.
    Those that a search has not read are in the order of `most`, highest first.
    """

    idf: float
    unread: list[tuple[float, int, Tier]]
    read: list[tuple[float, int, Tier]]

    @property
    def most(self) -> float:
        """The most that the token can add to the score of a row that was not met with it."""
        return self.unread[0][0] if self.unread else 0.0

    def value(self) -> float:
        """How much the next tier lowers `most`, for each row that is read."""
        following = self.unread[1][0] if len(self.unread) > 1 else 0.0
        return (self.most - following) / self.unread[0][2].count


class Lexical:
    """The lexical retriever: BM25 (Lucene's variant) over the postings of one or more segments.

    The rows of a segment follow those of the one before it. `live` (rows,) is false for rows that
    count no more; None means that all do. `rows` is their number in all.
    """

    def __init__(self, segments: Sequence[Postings], live: NDArray[np.bool_] | None = None) -> None:
        lengths = np.concatenate([segment.lengths for segment in segments])
        self.rows = len(lengths)
        self._segments = segments
        self._starts = [0, *accumulate(map(len, segments))]

        self._live = live
        live_lengths = lengths if live is None else lengths[live]
        self._count = len(live_lengths)
        self._mean = mean_length(live_lengths)
        # The part of the denominator that does not depend on the token.
        self._norms = (K1 * (1.0 - B + B * lengths / self._mean)).astype(np.float32)
        self._removed = [
            np.zeros(0, np.int32)
            if live is None
            else np.flatnonzero(~live[start:end]).astype(np.int32)
            for start, end in zip(self._starts, self._starts[1:], strict=False)
        ]
        # Where rows were removed, a token's postings are read to count those left.
        self._df = lru_cache(_COUNTED_TOKENS)(self._count_live)

    def weights(self, query: str) -> dict[str, float]:
        """Map each distinct token of the query to its idf (Lucene's variant).

        The idf is the most that the token can add to a BM25 score.
        """
        return {token: self._idf(token) for token in dict.fromkeys(tokens(query))}

    def _idf(self, token: str) -> float:
        df = self._df(token)
        return float(np.log1p((self._count - df + 0.5) / (df + 0.5)))

    def _count_live(self, token: str) -> int:
        """Count the live rows that have the token."""
        df = 0
        for segment, removed in zip(self._segments, self._removed, strict=True):
            for tier in segment.tiers(token):
                df += tier.count
                if len(removed):
                    df -= int(np.count_nonzero(_positions(segment.read(tier)[0], removed) >= 0))
        return df

    # ---- search

    def search(
        self,
        weights: Mapping[str, float],
        depth: int,
        allowed: NDArray[np.bool_] | None = None,
    ) -> tuple[Rows, LexicalScores]:
        """Return rows and scores of the `depth` best rows with any of the tokens, best first.

        `allowed` (rows,) restricts the rows. Ties are in the order of rows.
        """
        allowed = self._live if allowed is None else allowed
        if allowed is not None and np.count_nonzero(allowed) <= _FEW:
            rows = np.flatnonzero(allowed)
        else:
            rows = self._candidates(weights, depth, allowed)
        scores = self.scores(weights, rows)
        best = top(scores, depth)
        return rows[best], scores[best]

    def _candidates(
        self, weights: Mapping[str, float], depth: int, allowed: NDArray[np.bool_] | None
    ) -> Rows:
        """Rows, in ascending order, that include the best `depth`."""
        query = [_Token(idf, self._tiers(token, idf), []) for token, idf in weights.items()]
        slack = 1.0 - _ROUNDING * (len(query) + 10)
        # What is short, and the first tiers of the rest.
        for token in query:
            token.read, token.unread = token.unread[:1], token.unread[1:]

        while True:
            rows, sums, rest = self._met(query, allowed)
            lowest = 0.0
            if len(rows) >= depth:
                lowest = float(np.partition(sums, -depth)[-depth]) * slack
            if not self._read_on(query, lowest):
                return rows[sums + rest >= lowest]

    def _tiers(self, token: str, idf: float) -> list[tuple[float, int, Tier]]:
        tiers = [
            (self._most(idf, segment, tier), number, tier)
            for number, segment in enumerate(self._segments)
            for tier in segment.tiers(token)
        ]
        return sorted(tiers, key=lambda tier: -tier[0])

    def _most(self, idf: float, segment: Postings, tier: Tier) -> float:
        """The most that a tier can add to a score, whatever the mean length is by now."""
        burden = tier.least_burden * min(1.0, segment.mean / self._mean)
        return idf / (1.0 + K1 * burden) * (1.0 + _ROUNDING)

    def _met(
        self, query: Sequence[_Token], allowed: NDArray[np.bool_] | None
    ) -> tuple[Rows, LexicalScores, LexicalScores]:
        """Allowed rows of the tiers that were read, in ascending order; what each has got by them,
        and the most that the unread tiers can add.
        """
        all_rows = [np.zeros(0, np.int32)]
        gains, met = [np.zeros(0, np.float32)], [np.zeros(0, np.float32)]
        for token in query:
            for _, segment, tier in token.read:
                rows, counts = self._read(segment, tier)
                if allowed is not None:
                    kept = allowed[rows]
                    rows, counts = rows[kept], counts[kept]
                all_rows.append(rows)
                gains.append(self._gains(token.idf, rows, counts))
                met.append(np.full(len(rows), token.most, np.float32))

        joined = np.concatenate(all_rows)
        order = np.argsort(joined)
        ordered = joined[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        if not len(starts):
            return np.zeros(0, np.int64), gains[0], met[0]
        unread = np.float32(sum(token.most for token in query))
        sums = np.add.reduceat(np.concatenate(gains)[order], starts)
        rest = unread - np.add.reduceat(np.concatenate(met)[order], starts)
        return ordered[starts].astype(np.int64), sums, rest

    def _read_on(self, query: Sequence[_Token], lowest: float) -> bool:
        """Choose tiers to read, so that a row that was not met stays below the score `lowest`.

        Returns whether there are any.
        """
        chosen = False
        while (unread := [token for token in query if token.unread]) and (
            sum(token.most for token in unread) >= lowest
        ):
            token = max(unread, key=_Token.value)
            token.read.append(token.unread.pop(0))
            chosen = True
        return chosen

    def _read(self, segment: int, tier: Tier) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """Rows of a tier among those of all segments, and how often each has the token."""
        rows, counts = self._segments[segment].read(tier)
        start = self._starts[segment]
        return (rows + np.int32(start) if start else rows), counts

    def _gains(
        self, idf: float, rows: NDArray[np.integer], counts: NDArray[np.uint16]
    ) -> LexicalScores:
        """BM25 (n,) that a token adds to these rows."""
        frequencies = counts.astype(np.float32)
        gains: LexicalScores = np.float32(idf) * (frequencies / (frequencies + self._norms[rows]))
        return gains

    # ---- given rows

    def scores(self, weights: Mapping[str, float], rows: Rows) -> LexicalScores:
        """Return BM25 (len(rows),) of these rows as a share of the sum of `weights`.

        It is 0 without a match, and always below 1.
        """
        scores = np.zeros(len(rows), dtype=np.float32)
        for token, idf in weights.items():
            for positions, counts in self._counts(token, rows):
                scores[positions] += self._gains(idf, rows[positions], counts)
        return scores / np.float32(sum(weights.values()) or 1.0)

    def _counts(
        self, token: str, rows: Rows
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint16]]]:
        """Yield positions of those of the rows that have the token, and how often each has it."""
        for segment, start in zip(self._segments, self._starts, strict=False):
            own = np.flatnonzero((rows >= start) & (rows < start + len(segment)))
            local = (rows[own] - start).astype(np.int32)
            for tier in segment.tiers(token):
                tier_rows, counts = segment.read(tier)
                entries = _positions(tier_rows, local)
                found = np.flatnonzero(entries >= 0)
                yield own[found], counts[entries[found]]

    def matching(
        self, weights: Mapping[str, float], allowed: NDArray[np.bool_] | None = None
    ) -> Rows:
        """Return all rows with any of the tokens, in ascending order."""
        allowed = self._live if allowed is None else allowed
        parts = [np.zeros(0, np.int32)]
        for token in weights:
            for number, segment in enumerate(self._segments):
                parts += [self._read(number, tier)[0] for tier in segment.tiers(token)]
        rows = np.unique(np.concatenate(parts)).astype(np.int64)
        return rows if allowed is None else rows[allowed[rows]]

    def explain(self, weights: Mapping[str, float], row: int) -> dict[str, float]:
        """Map each token that adds to the score of `row` to what it adds."""
        total = sum(weights.values())
        parts: dict[str, float] = {}
        for token, idf in weights.items():
            for positions, counts in self._counts(token, np.array([row])):
                if len(positions):
                    share = float(counts[0]) / (float(counts[0]) + float(self._norms[row]))
                    parts[token] = idf * share / total
        return parts


def _positions(rows: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.int64]:
    """Position (n,) of each wanted row among ascending rows, -1 for one that is not there."""
    if not len(rows):
        return np.full(len(wanted), -1)
    positions = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[positions] == wanted, positions, -1)


def top(scores: LexicalScores, depth: int) -> Rows:
    """Rows of the `depth` best scores above 0, best first; ties in row order."""
    candidates = np.flatnonzero(scores > 0)

    # Sort only what reaches the score in position `depth`.
    if candidates.size > depth:
        position = candidates.size - depth
        lowest = np.partition(scores[candidates], position)[position]
        candidates = candidates[scores[candidates] >= lowest]

    order = np.lexsort((candidates, -scores[candidates]))
    return candidates[order][:depth]
