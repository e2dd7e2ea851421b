import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.fusion import DENSE_WEIGHT, fuse


def test_the_weighted_mean_by_hand() -> None:
    fused = fuse(np.array([0.5, -0.2, 1.0], np.float32), np.array([0.1, 0.4, 1.0], np.float32), 0.75)
    np.testing.assert_allclose(fused, [0.3775, 0.04, 1.0], rtol=1e-6)


@given(st.floats(-1, 1, width=32), st.floats(0, 1, width=32), st.floats(0, 1))
def test_always_within_0_and_1(cosine: float, share: float, weight: float) -> None:
    assert 0 <= fuse(np.array([cosine], np.float32), np.array([share], np.float32), weight)[0] <= 1


@pytest.mark.parametrize("kind", DENSE_WEIGHT)
def test_both_legs_count_for_every_kind(kind: str) -> None:
    assert 0 < DENSE_WEIGHT[kind] < 1  # type: ignore[index]
