"""Dense and lexical scores to one score in 0-1 that can be compared between queries.

Both legs are absolute: the cosine, and BM25 as a share of the most the query could get. Their weighted mean needs no
statistics of the other hits, unlike ranks or min-max, so that 0.8 means the same in every query and on every page. The
share is squared: a hit with every word of the query, such as a function's exact name, gains much, one with a third of
the words next to nothing.
"""

from __future__ import annotations

import numpy as np

from index.encoder import Vectors
from index.lexical import Scores
from index.records import Kind

# Weight of the dense leg, tuned per kind on the dev sets: benchmarks/fusion.py, docs/results.md.
DENSE_WEIGHT: dict[Kind, float] = {"code": 0.8, "product": 0.65, "reference": 0.5}


def fuse(cosines: Vectors, lexical: Scores, dense_weight: float) -> Vectors:
    """(n,) weighted means; a negative cosine counts as 0."""
    fused = dense_weight * np.maximum(cosines, 0.0) + (1.0 - dense_weight) * np.square(lexical)
    return np.asarray(np.clip(fused, 0.0, 1.0), dtype=np.float32)
