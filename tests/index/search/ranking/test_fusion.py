import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.search.ranking.fusion import DENSE, HYBRID, LEXICAL, Fusion


def test_weighted_mean_by_hand() -> None:
    cosines, shares = np.array([0.5, -0.2, 1.0], np.float32), np.array([0.1, 0.4, 1.0], np.float32)
    np.testing.assert_allclose(
        Fusion(0.75, 2).fuse(cosines, shares), [0.3775, 0.04, 1.0], rtol=1e-6
    )
    np.testing.assert_allclose(DENSE.fuse(cosines, shares), [0.5, 0.0, 1.0])
    np.testing.assert_allclose(LEXICAL.fuse(cosines, shares), [0.1, 0.4, 1.0])


@given(st.floats(-1, 1, width=32), st.floats(0, 1, width=32), st.floats(0, 1), st.floats(1, 9))
def test_fused_scores_are_within_0_and_1(
    cosine: float, share: float, weight: float, power: float
) -> None:
    fused = Fusion(weight, power).fuse(
        np.array([cosine], np.float32), np.array([share], np.float32)
    )
    assert 0 <= fused[0] <= 1


@pytest.mark.parametrize("fusion", HYBRID.values(), ids=str)
def test_both_retrievers_count_for_every_kind(fusion: Fusion) -> None:
    assert 0 < fusion.dense_weight < 1
    assert fusion.lexical_power >= 1
