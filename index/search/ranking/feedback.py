"""Pseudo-relevance feedback: what is like the first hits of a search rises.

A query for products has two or three words. Most of its first hits are of the kind that it asks for,
and the mean of their vectors tells more about that kind. So a hit's cosine with the query is replaced
by a mean of that and its cosine with the first hits' mean vector. Words count as before, so a hit
that has all of them stays where it is.

Products only: a query for code looks for one function, and loses by it (docs/lab-notebook.md).
"""

from __future__ import annotations

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.records import Kind

KINDS: frozenset[Kind] = frozenset({"product"})
# So many documents are ranked again, whatever the page. If there are fewer, none is: the first of few
# are not the best of many, and tell nothing.
DEPTH = 100
# The first hits, whose mean vector tells what the query is for.
FIRST = 8
WEIGHT = 0.25


def mean_cosines(cosines: Vectors, similarities: Vectors) -> Vectors:
    """Return the means (n,) of cosines with the query and similarities to the first hits."""
    means = (1.0 - WEIGHT) * cosines + WEIGHT * similarities
    return np.asarray(means, dtype=np.float32)
