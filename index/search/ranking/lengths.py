"""Factors on the scores of short passages, since any word of a short text makes it near to a query.

A definition of one line mostly passes on to others, which do what is searched for, and an entry of one
line tells little. What is short was chosen on searches for functions of repositories, on the sets of
records in docs/results.md, and on tuning questions over references. docs/lab-notebook.md tells what lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.search.arrays import Rows

_SHORTEST = 32  # characters; passages have mostly more


@dataclass(frozen=True, slots=True)
class Short:
    """Up to 32 characters a passage keeps `share` of its score, from `long` characters all of it."""

    long: int
    share: float

    def factors(self, lengths: Rows) -> Vectors:
        """Return factors (n,) for passages of these lengths (n,) in characters."""
        part = np.log(np.clip(lengths, _SHORTEST, self.long) / _SHORTEST)
        kept = self.share + (1.0 - self.share) * part / np.log(self.long / _SHORTEST)
        return np.asarray(kept, dtype=np.float32)


# Of code that was read from files.
IN_FILES = Short(1600, 0.5)
# Of records of code, and of references; a product is what it is in a few words, too.
SHORT = {"code": Short(160, 0.8), "reference": Short(160, 0.8)}
