"""Tests of `purlin.index.distinct`."""

import numpy as np
import pytest

from purlin.index.distinct import sorted_distinct


@pytest.mark.parametrize("count", [0, 1, 2, 7, 500])
def test_distinct_numbers_are_those_of_numpy(count: int) -> None:
    numbers = np.random.default_rng(count).integers(-40, 40, count)
    result = sorted_distinct(numbers)
    np.testing.assert_array_equal(result, np.unique(numbers))
    assert result.dtype == numbers.dtype
