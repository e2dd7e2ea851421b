"""Fusion of dense and lexical scores into one score in 0-1 that is comparable between queries.

Both retrievers give absolute scores: the cosine, and BM25 as a share of the most that the query
could get. Unlike ranks or min-max, their weighted mean needs no statistics of the other hits, so
0.8 means the same in every query and on every page. The share is raised to a power: a hit with
every word of the query, such as a function's exact name, gains much, and one with a third of the
words almost nothing. The higher the power, the more of the query must match.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.records import Architecture, Kind
from purlin.index.search.arrays import LexicalScores


@dataclass(frozen=True, slots=True)
class Fusion:
    """score = dense_weight * max(0, cosine) + (1 - dense_weight) * share ** lexical_power."""

    dense_weight: float
    lexical_power: float

    def fuse(self, cosines: Vectors, shares: LexicalScores) -> Vectors:
        """Return the scores (n,) in 0-1 of n rows."""
        lexical = np.power(shares, np.float32(self.lexical_power))
        fused = self.dense_weight * np.maximum(cosines, 0.0) + (1.0 - self.dense_weight) * lexical
        return np.asarray(np.clip(fused, 0.0, 1.0), dtype=np.float32)


# The dense weight where an encoder tells little, and words lead as with a static one: for a product query
# with a code, as encoders hardly tell codes apart, and for a catalogue in a language that one hardly knows.
WORDS_LEAD = 0.2
DENSE = Fusion(1.0, 1.0)
LEXICAL = Fusion(0.0, 1.0)
# Tuned on the dev sets, see docs/lab-notebook.md: a static encoder tells less than a transformer.
HYBRID: dict[tuple[Architecture, Kind], Fusion] = {
    ("ensemble", "code"): Fusion(0.65, 2.0),
    ("ensemble", "product"): Fusion(0.6, 1.0),
    ("ensemble", "reference"): Fusion(0.5, 1.0),  # not tuned: the transformer's
    ("transformer", "code"): Fusion(0.6, 2.0),
    ("transformer", "product"): Fusion(0.65, 1.0),
    ("transformer", "reference"): Fusion(0.5, 1.0),
    ("static", "code"): Fusion(0.5, 1.5),
    ("static", "product"): Fusion(0.2, 1.0),
    ("static", "reference"): Fusion(0.4, 1.0),
}
