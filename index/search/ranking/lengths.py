"""Factors on the scores of code by its length: any of a short text's words makes it near to a query.

A definition of one line mostly passes on to others, which do what is searched for. How long is long was
chosen on searches for functions of repositories, and on the sets of records in docs/results.md.
docs/lab-notebook.md tells what lost.
"""

from __future__ import annotations

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.search.contracts import Rows

# The length in characters from which a document keeps all of its score: one that was read from a file,
# and a record.
LONG_IN_FILES, LONG_RECORD = 1600, 160
# Up to this length, it keeps this share.
_SHORT, _SHORT_SHARE = 32, 0.5


def factors(lengths: Rows, long: int) -> Vectors:
    """Return factors (n,) for documents of these lengths (n,) in characters; 1 for unknown ones, 0."""
    shares = np.log(np.clip(lengths, _SHORT, long) / _SHORT) / np.log(long / _SHORT)
    kept = np.where(lengths > 0, _SHORT_SHARE + (1.0 - _SHORT_SHARE) * shares, 1.0)
    return kept.astype(np.float32)
