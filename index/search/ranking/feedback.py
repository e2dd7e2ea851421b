"""Pseudo-relevance feedback: what is like the first hits of a search rises.

A query for products has two or three words. Most of its first hits are of the kind that it asks for,
and the vector between them tells more of it. Each of the first hits gets a mean of its cosine with
the query and with that vector, in place of the former. Words count as before, so a hit that has all
of them stays where it is.

Products only: a query for code looks for one function, and loses by it (docs/lab-notebook.md).
"""

from __future__ import annotations

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.records import Kind

KINDS: frozenset[Kind] = frozenset({"product"})
# Documents that are ranked again, whatever page is asked for. If there are fewer, none are: their first
# ones are not the best of many, and tell nothing.
DEPTH = 100
# The first hits, whose mean vector tells what the query is for.
FIRST = 8
WEIGHT = 0.25


def mean_cosines(cosines: Vectors, similarities: Vectors) -> Vectors:
    """Return the means (n,) of cosines with the query and similarities to the first hits."""
    means = (1.0 - WEIGHT) * cosines + WEIGHT * similarities
    return np.asarray(means, dtype=np.float32)
