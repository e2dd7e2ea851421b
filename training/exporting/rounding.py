"""Round a layer's weights to 8 bits so that errors of one row make up for those of the rows before.

Rounding each weight to its nearest step makes the least error in the weights, but not in what the
layer computes: inputs are correlated, so that an error of one weight can be compensated by others.
GPTQ (Frantar et al. 2023, arXiv:2210.17323) rounds the rows of a layer one by one and moves the
error of each, weighed by how the inputs go together, to those that are not rounded yet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular  # type: ignore[import-untyped]

BLOCK = 64  # rows whose errors are moved to all later rows together; even, so that pairs stay whole
DAMPING = 0.01  # of the mean square of an input, added to all: rare inputs are trusted less


def compensated(
    weight: NDArray[np.float32],
    scales: NDArray[np.float32],
    products: NDArray[np.float64],
    limit: int,
    pair_limit: int,
) -> NDArray[np.int8]:
    """Return `weight` (in, out) in steps of `scales` (out,), as integers from -limit to limit.

    `products` (in, in) are the sums of products of the layer's inputs, X^T X, over sample texts. No
    two weights of one sign in rows 2i and 2i + 1 add up to more than `pair_limit`.
    """
    remaining = (weight / scales).astype(np.float64)
    factors = _error_factors(products)
    rounded = np.zeros(weight.shape, np.int8)

    for start in range(0, len(weight), BLOCK):
        end = min(start + BLOCK, len(weight))
        errors = np.zeros((end - start, weight.shape[1]))
        for row in range(start, end):
            low, high = _room(rounded[row - 1] if row % 2 else None, limit, pair_limit)
            rounded[row] = np.clip(np.rint(remaining[row]), low, high)

            error = (remaining[row] - rounded[row]) / factors[row, row]
            remaining[row + 1 : end] -= np.outer(factors[row, row + 1 : end], error)
            errors[row - start] = error
        remaining[end:] -= factors[start:end, end:].T @ errors

    return rounded


def _error_factors(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper triangle U of (X^T X + damping)^-1 = U^T U: how a row's error is shared."""
    damped = products + np.eye(len(products)) * (DAMPING * np.mean(np.diag(products)) + 1e-12)
    # With rows and columns reversed, the lower triangle of the matrix gives that of its inverse.
    reversed_lower = cholesky(damped[::-1, ::-1], lower=True)
    upper = reversed_lower[::-1, ::-1]
    factors: NDArray[np.float64] = solve_triangular(upper, np.eye(len(upper)), lower=False)
    return factors


def _room(
    before: NDArray[np.int8] | None, limit: int, pair_limit: int
) -> tuple[NDArray[np.int64] | int, NDArray[np.int64] | int]:
    """Return the least and greatest integers that a row may have, `before` being its pair's first."""
    if before is None:
        return -limit, limit

    first = before.astype(np.int64)
    return (
        np.maximum(-limit, -(pair_limit + np.minimum(first, 0))),
        np.minimum(limit, pair_limit - np.maximum(first, 0)),
    )
