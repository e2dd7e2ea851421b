"""The distinct numbers of an array."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", bound=np.integer)


def sorted_distinct(numbers: NDArray[_Number]) -> NDArray[_Number]:
    """Return the distinct numbers (n,) in ascending order, as `np.unique` does.

    That takes three times as long for rows of a search, and loads `numpy.ma`, a tenth of numpy.
    """
    ordered = np.sort(numbers)
    is_first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
