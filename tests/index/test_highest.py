"""Tests of `purlin.index.highest`."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.highest import highest


@given(
    scores=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.4]), max_size=30),
    count=st.integers(1, 40),
)
def test_highest_are_the_first_of_a_stable_sort(scores: list[float], count: int) -> None:
    expected = np.argsort(-np.array(scores), kind="stable")[:count]
    assert highest(np.array(scores), count).tolist() == expected.tolist()
