"""BM25 over a tokenizer for identifiers and model numbers; scores are shares of the maximum.

The maximum is the most that the query could get. Segments store term frequencies, and scores are
computed at query time. So several segments, some of whose rows were removed, give the same scores as
one index over the remaining texts.

A search finds the same first rows as if all were scored, but reads little of a large corpus
(MaxScore, by tiers). First it reads the postings of rare tokens and the first tiers of frequent ones,
until no row that it has not met can be among the first: the least burden of a tier bounds what it
can add to a score. Then it looks up in the unread tiers only the rows that can still be among them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from purlin.index.highest import highest
from purlin.index.search.arrays import LexicalScores, Mask, Rows
from purlin.index.search.lexical.postings import B, Postings, Tier, common_rows, mean_length
from purlin.index.search.lexical.spelling import corrected
from purlin.index.search.lexical.tokens import tokens
from purlin.index.search.lexical.vocabulary import Vocabulary

K1 = 1.2
# If a filter leaves no more rows than this, all of them are scored.
_FEW = 4096
# Bounds have this margin per token, because the sum of floats depends on their order.
_ROUNDING = 1e-6
# A compound that ends with a word counts this share of what the word does.
_COMPOUND_SHARE = 0.5
# Only the first tokens of a query are searched in compounds: each lookup reads the whole vocabulary.
_MOST_IN_COMPOUNDS = 32


class _Term(NamedTuple):
    """What is looked up for a token of a query: the token, or a compound that ends with it."""

    token: str
    term: str
    weight: float


class _Unread(NamedTuple):
    """A tier that a search has not read, and the most that it can add to the score of a row."""

    most: float
    segment: int
    tier: Tier


@dataclass(slots=True)
class _Token:
    """A term of a query: its idf, and its unread tiers, those first that can add most."""

    idf: float
    unread: list[_Unread]

    @property
    def most(self) -> float:
        """The most that the unread tiers can add to the score of a row."""
        return self.unread[0].most if self.unread else 0.0

    def value(self) -> float:
        """How much the next tier lowers `most`, for each row that is read."""
        following = self.unread[1].most if len(self.unread) > 1 else 0.0
        return (self.most - following) / self.unread[0].tier.count


def _next_tiers(query: Sequence[_Token], lowest: float) -> list[tuple[_Token, _Unread]]:
    """Choose tiers to read next, such that rows in unread tiers alone stay below the score `lowest`.

    While `lowest` is 0, that is one more tier of each token.
    """
    if not lowest:
        return [(token, token.unread.pop(0)) for token in query if token.unread]

    chosen = []
    while (unfinished := [token for token in query if token.unread]) and (
        sum(token.most for token in unfinished) >= lowest
    ):
        token = max(unfinished, key=_Token.value)
        chosen.append((token, token.unread.pop(0)))

    return chosen


def _lowest(sums: LexicalScores, depth: int, before: float = 0.0) -> float:
    """Return the score in position `depth`, which is at least `before`; 0 if there are fewer scores."""
    # Few of many scores reach the earlier bound, which makes the partition faster.
    if before:
        sums = sums[sums >= before]
    return float(np.partition(sums, -depth)[-depth]) if len(sums) >= depth else 0.0


class Lexical:
    """The lexical retriever: BM25 (Lucene's variant) over the postings of one or more segments.

    The rows of a segment follow those of the one before it. `live` (rows,) is false for rows that were
    removed; None means that none was. `rows` is the number of all rows.
    """

    def __init__(self, segments: Sequence[Postings], live: Mask | None = None) -> None:
        lengths = np.concatenate([segment.lengths for segment in segments])
        self.rows = len(lengths)
        self.vocabulary = Vocabulary(segments, live)
        self.language = self.vocabulary.language
        self._segments = segments
        self._starts = [0, *accumulate(map(len, segments))]

        self._live = live
        self._mean = mean_length(lengths if live is None else lengths[live])
        # The part of the denominator that does not depend on the token.
        self._norms = (K1 * (1.0 - B + B * lengths / self._mean)).astype(np.float32)
        self._local = threading.local()

    def corrected(self, query: str) -> str:
        """Return the query as it should be searched, see `purlin.index.search.lexical.spelling`."""
        return corrected(query, self.vocabulary)

    def weights(self, query: str, *, with_absent: bool = True) -> dict[str, float]:
        """Map each distinct token of the query to its idf (Lucene's variant), absent ones if `with_absent`.

        The idf is the most that the token can add to a BM25 score. A token that passages have only in
        compounds is as frequent as these.
        """
        weights, vocabulary = {}, self.vocabulary
        for position, token in enumerate(dict.fromkeys(tokens(query, self.language))):
            df = vocabulary.df(token)
            if not df and position < _MOST_IN_COMPOUNDS:
                df = min(sum(map(vocabulary.df, vocabulary.compounds(token))), vocabulary.count)
            if df or with_absent:
                weights[token] = float(np.log1p((vocabulary.count - df + 0.5) / (df + 0.5)))
        return weights

    def _terms(self, weights: Mapping[str, float]) -> list[_Term]:
        """Return the tokens of a query and the compounds that end with them, each with its weight."""
        terms = [_Term(token, token, weight) for token, weight in weights.items()]
        for token, weight in islice(weights.items(), _MOST_IN_COMPOUNDS):
            share = _COMPOUND_SHARE if self.vocabulary.df(token) else 1.0
            terms += [
                _Term(token, compound, weight * share)
                for compound in self.vocabulary.compounds(token)
                if compound not in weights
            ]
        return terms

    # ---- search

    def search(
        self,
        weights: Mapping[str, float],
        depth: int,
        allowed: Mask | None = None,
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

    def _candidates(self, weights: Mapping[str, float], depth: int, allowed: Mask | None) -> Rows:
        """Return rows, in ascending order, that include the best `depth`."""
        query = [
            _Token(weight, self._tiers(term, weight)) for _, term, weight in self._terms(weights)
        ]
        slack = 1.0 - _ROUNDING * (len(query) + 10)
        # Records without tiers come first. As long as these give too few rows, one more tier of each token.
        chosen = [
            (token, token.unread.pop(0))
            for token in query
            for unread in token.unread[:]
            if unread.tier.least_burden == 0
        ]
        met = [np.zeros(0, np.int64)]
        lowest, sums = 0.0, self._sums()

        try:
            while True:
                for token, unread in chosen:
                    rows, gains = self._entries(token, unread, allowed)
                    before = sums.take(rows)
                    sums[rows] = before + gains
                    met.append(rows[before == 0])
                rows = np.concatenate(met)
                scores = sums.take(rows)
                lowest = _lowest(scores, depth, lowest) * slack
                if not (chosen := _next_tiers(query, lowest)):
                    break

            most = sum(token.most for token in query)
            # The parts are ascending, so a stable sort merges them.
            rows = np.sort(rows[scores >= lowest - most], kind="stable")
            return self._refined(query, rows, sums.take(rows), depth, lowest, slack)
        finally:
            for rows in met:
                sums[rows] = 0.0

    def _sums(self) -> LexicalScores:
        """Return this thread's array of zeros (rows,); a search resets what it changes."""
        sums: LexicalScores | None = getattr(self._local, "sums", None)
        if sums is None:
            sums = self._local.sums = np.zeros(self.rows, dtype=np.float32)
        return sums

    def _refined(
        self,
        query: Sequence[_Token],
        rows: Rows,
        sums: LexicalScores,
        depth: int,
        lowest: float,
        slack: float,
    ) -> Rows:
        """Return those of the rows (n,) that can be among the best `depth`, given the unread tiers.

        `sums` (n,) are the rows' scores by the tiers read so far; the best `depth` have at least the
        score `lowest`.
        """
        while unfinished := [token for token in query if token.unread]:
            lowest = _lowest(sums, depth, lowest) * slack
            kept = sums >= lowest - sum(token.most for token in unfinished)
            rows, sums = rows[kept], sums[kept]
            if len(rows) <= depth:
                break

            # Small tiers with a large effect first: they leave fewer rows to look up in the large ones.
            token = max(unfinished, key=_Token.value)
            unread = token.unread.pop(0)
            tier_rows, counts = self._read(unread.segment, unread.tier)

            # The shorter list is looked up in the longer one; both ascend.
            if len(rows) <= len(tier_rows):
                positions, entries = common_rows(rows, tier_rows)
            else:
                entries, positions = common_rows(tier_rows, rows.astype(np.int32))
            sums[positions] += self._gains(token.idf, rows[positions], counts[entries])

        # The sums are complete but for their rounding, unless all rows are needed anyway.
        return rows[sums >= _lowest(sums, depth, lowest) * slack]

    def _tiers(self, token: str, idf: float) -> list[_Unread]:
        tiers = [
            _Unread(self._most(idf, segment, tier), number, tier)
            for number, segment in enumerate(self._segments)
            for tier in segment.tiers(token)
        ]
        return sorted(tiers, key=lambda unread: -unread.most)

    def _most(self, idf: float, segment: Postings, tier: Tier) -> float:
        """Return the most that a tier can add to a score, whatever the mean length has become since."""
        burden = tier.least_burden * min(1.0, segment.mean / self._mean)
        return idf / (1.0 + K1 * burden) * (1.0 + _ROUNDING)

    def _entries(
        self, token: _Token, unread: _Unread, allowed: Mask | None
    ) -> tuple[Rows, LexicalScores]:
        """Return the allowed rows of a tier, ascending, and what the token adds to their scores."""
        tier_rows, counts = self._read(unread.segment, unread.tier)
        # Converted once, not at each look-up.
        rows = tier_rows.astype(np.int64)
        if allowed is not None:
            kept = allowed.take(rows)
            rows, counts = rows[kept], counts[kept]
        return rows, self._gains(token.idf, rows, counts)

    def _read(self, segment: int, tier: Tier) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """Return the rows of a tier, counted over all segments, and how often each has the token."""
        rows, counts = self._segments[segment].read(tier)
        start = self._starts[segment]
        return (rows + np.int32(start) if start else rows), counts

    def _gains(
        self, idf: float, rows: NDArray[np.integer], counts: NDArray[np.uint16]
    ) -> LexicalScores:
        """Return the BM25 (n,) that a token adds to these rows."""
        frequencies = counts.astype(np.float32)
        gains: LexicalScores = frequencies / (frequencies + self._norms.take(rows))
        gains *= np.float32(idf)
        return gains

    # ---- given rows

    def scores(self, weights: Mapping[str, float], rows: Rows) -> LexicalScores:
        """Return BM25 (len(rows),) of these rows as a share of the sum of `weights`.

        It is 0 without a match, and 1 only for rows with several compounds of a word.
        """
        scores = np.zeros(len(rows), dtype=np.float32)
        for _, term, weight in self._terms(weights):
            for positions, counts in self._counts(term, rows):
                scores[positions] += self._gains(weight, rows[positions], counts)
        shares: LexicalScores = scores / np.float32(sum(weights.values()) or 1.0)
        return shares.clip(max=1.0)

    def _counts(
        self, token: str, rows: Rows
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint16]]]:
        """Yield positions of those of the rows that have the token, and how often each has it."""
        for segment, start in zip(self._segments, self._starts, strict=False):
            own = np.flatnonzero((rows >= start) & (rows < start + len(segment)))
            local = rows[own] - start
            for tier in segment.tiers(token):
                tier_rows, counts = segment.read(tier)
                positions, entries = common_rows(local, tier_rows)
                yield own[positions], counts[entries]

    def matching(self, weights: Mapping[str, float], allowed: Mask | None = None) -> Rows:
        """Return all rows with any of the tokens, in ascending order."""
        terms = [each.term for each in self._terms(weights)]
        return np.flatnonzero(self.vocabulary.having(terms, allowed))

    def explain(self, weights: Mapping[str, float], rows: Rows) -> list[dict[str, float]]:
        """Map, for each of the rows, each token that adds to its score to what it adds.

        What a compound adds counts for the token that it ends with.
        """
        total = sum(weights.values())
        parts: list[dict[str, float]] = [{} for _ in rows]

        for token, term, weight in self._terms(weights):
            for positions, counts in self._counts(term, rows):
                norms = self._norms[rows[positions]].astype(np.float64)
                added = weight * counts / (counts + norms) / total
                for position, part in zip(positions.tolist(), added.tolist(), strict=True):
                    parts[position][token] = parts[position].get(token, 0.0) + part

        return parts


def top(scores: LexicalScores, depth: int) -> Rows:
    """Return the rows of the `depth` best scores above 0, best first; ties in row order."""
    candidates = np.flatnonzero(scores > 0)
    return candidates[highest(scores[candidates], depth)]
