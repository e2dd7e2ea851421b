"""Compare systems on the same questions as the paper on reference QA does (section 4.3).

A two-way analysis of variance without replication, whose factors are systems and questions, tells
whether the systems differ at all; Tukey's HSD then tells which of them do. Both are textbook
methods (Montgomery, Design and Analysis of Experiments, randomized complete block design).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from purlin.index.errors import InvalidInput
from purlin.index.evaluation.ranking import Values

CONFIDENCE = 0.95  # of the intervals of all differences together


@dataclass(frozen=True, slots=True)
class Anova:
    """F of the systems, its degrees of freedom and p; `error` is the mean square of the residuals.

    F and p are NaN if the residuals are all zero.
    """

    f: float
    p: float
    systems_freedom: int
    error_freedom: int
    error: float


@dataclass(frozen=True, slots=True)
class PairDifference:
    """Mean of system `b` less that of `a`, with an interval and p adjusted for all pairs."""

    a: int
    b: int
    mean: float
    low: float
    high: float
    p: float


def two_way_anova(values: Values) -> Anova:
    """Return the analysis of `values` (questions, systems), one for each combination.

    Raises InvalidInput with fewer than two questions or systems, or a value that is not finite.
    """
    if values.ndim != 2 or min(values.shape) < 2 or not np.isfinite(values).all():
        raise InvalidInput(
            f"An analysis of variance needs finite values of two systems and two questions at least, "
            f"not the shape {values.shape}.",
            field="values",
        )

    questions, systems = values.shape
    by_question = values.mean(axis=1, keepdims=True)
    by_system = values.mean(axis=0, keepdims=True)
    residuals = values - by_question - by_system + values.mean()

    systems_freedom = systems - 1
    error_freedom = systems_freedom * (questions - 1)
    between = questions * float(((by_system - values.mean()) ** 2).sum()) / systems_freedom
    error = float((residuals**2).sum()) / error_freedom

    # Without any residual the ratio is rounding error over rounding error.
    if error < np.finfo(np.float64).eps * max(1.0, float((values**2).mean())):
        return Anova(math.nan, math.nan, systems_freedom, error_freedom, 0.0)
    f = between / error
    p = float(stats.f.sf(f, systems_freedom, error_freedom))
    return Anova(f, p, systems_freedom, error_freedom, error)


def tukey_hsd(values: Values) -> Iterator[PairDifference]:
    """Yield the difference of each pair of systems by Tukey's honestly significant difference.

    `values` (questions, systems) are as for `two_way_anova`, whose error and degrees of freedom
    the studentized range has. Yields nothing if the residuals are all zero.
    """
    anova = two_way_anova(values)
    if anova.error == 0.0:
        return

    questions, systems = values.shape
    means = values.mean(axis=0)
    standard_error = math.sqrt(anova.error / questions)
    studentized = stats.studentized_range(systems, anova.error_freedom)
    margin = float(studentized.ppf(CONFIDENCE)) * standard_error

    for a, b in combinations(range(systems), 2):
        mean = float(means[b] - means[a])
        p = float(studentized.sf(abs(mean) / standard_error))
        yield PairDifference(a, b, mean, mean - margin, mean + margin, p)
