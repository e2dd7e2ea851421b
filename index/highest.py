"""The highest of many scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def highest(scores: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
    """Return the positions of the `count` highest scores (n,), best first; equal ones in their order.

    Only what can be among them is sorted, which is quicker where they are few of thousands.
    """
    candidates = np.arange(len(scores))
    if len(scores) > count:
        least = np.partition(scores, -count)[-count]
        candidates = np.flatnonzero(scores >= least)

    order = np.argsort(-scores[candidates], kind="stable")
    return candidates[order][:count]
