"""The analysis of variance and Tukey's HSD give the figures of textbooks, and of a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.qa.anova import tukey_hsd, two_way_anova
from purlin.index.errors import InvalidInput

# Yield of penicillin by blend (rows) and process (columns): Box, Hunter and Hunter, Statistics for
# Experimenters (1978), table 7.1. Its analysis: treatments 70 with 3 degrees of freedom, residuals
# 226 with 12, F 1.24.
PENICILLIN = np.array(
    [
        [89.0, 88.0, 97.0, 94.0],
        [84.0, 77.0, 92.0, 79.0],
        [81.0, 87.0, 87.0, 85.0],
        [87.0, 92.0, 89.0, 84.0],
        [79.0, 81.0, 80.0, 88.0],
    ]
)


def test_anova_has_the_published_figures() -> None:
    anova = two_way_anova(PENICILLIN)
    assert (anova.systems_freedom, anova.error_freedom) == (3, 12)
    assert anova.error * anova.error_freedom == pytest.approx(226.0)
    assert anova.f == pytest.approx(70 / 3 / (226 / 12)) == pytest.approx(1.24, abs=0.005)
    assert anova.p == pytest.approx(0.3387, abs=5e-5)


def test_degrees_of_freedom_are_those_of_the_paper() -> None:
    """30 variants and 70 questions: F(29, 2001)."""
    anova = two_way_anova(np.random.default_rng(0).random((70, 30)))
    assert (anova.systems_freedom, anova.error_freedom) == (29, 2001)


def test_tukey_has_the_tabled_range() -> None:
    """The studentized range of 4 means and 12 degrees of freedom is 4.20 at 5 % in any table."""
    pairs = list(tukey_hsd(PENICILLIN))
    means = PENICILLIN.mean(axis=0)
    assert [(pair.a, pair.b) for pair in pairs] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    for pair in pairs:
        assert pair.mean == pytest.approx(means[pair.b] - means[pair.a])
        assert (pair.high - pair.low) / 2 == pytest.approx(4.20 * math.sqrt(226 / 12 / 5), abs=0.01)
        assert (pair.p < 0.05) == (pair.low > 0 or pair.high < 0)


def test_two_systems_are_compared_as_by_paired_t_test() -> None:
    values = np.random.default_rng(1).normal(loc=(0.0, 0.5), size=(20, 2))
    paired = stats.ttest_rel(values[:, 1], values[:, 0])
    anova, (pair,) = two_way_anova(values), tukey_hsd(values)
    assert anova.f == pytest.approx(paired.statistic**2)
    assert anova.p == pytest.approx(paired.pvalue)
    assert pair.p == pytest.approx(paired.pvalue, abs=1e-6)


def test_systems_that_never_differ_have_no_pairs() -> None:
    same = np.repeat(np.arange(5.0)[:, None], 3, axis=1)
    assert math.isnan(two_way_anova(same).f)
    assert list(tukey_hsd(same)) == []


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (3,)])
def test_too_few_values_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="two systems and two questions"):
        two_way_anova(np.zeros(shape))
    with pytest.raises(InvalidInput, match="finite"):
        two_way_anova(np.full((3, 3), np.nan))
