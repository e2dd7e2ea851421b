"""Rounding of weights whose errors make up for each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from purlin.training.exporting.rounding import BLOCK, DAMPING, compensated
from purlin.training.exporting.saturation import MAX_PAIR, pair_sums

Floats = NDArray[np.float64]


def _layer(rows: int, columns: int, seed: int) -> tuple[NDArray[np.float32], Floats]:
    """Weights, and inputs that go together: few causes, much like a transformer's states."""
    random = np.random.default_rng(seed)
    causes = random.normal(size=(500, max(rows // 3, 1)))
    inputs = causes @ random.normal(size=(causes.shape[1], rows))
    inputs += 0.3 * random.normal(size=inputs.shape)
    return random.normal(size=(rows, columns)).astype(np.float32), inputs


def _steps(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    return (np.abs(weight).max(axis=0) / 20).astype(np.float32)


def _by_the_equations(weight: Floats, products: Floats, limit: int) -> NDArray[np.int64]:
    """GPTQ's equations 2 and 3, one row after the other, with the inverse updated each time."""
    remaining = weight.copy()
    damping = DAMPING * np.mean(np.diag(products)) + 1e-12
    inverse = np.linalg.inv(products + damping * np.eye(len(products)))
    rounded = np.zeros(weight.shape, np.int64)

    for row in range(len(weight)):
        rounded[row] = np.clip(np.rint(remaining[row]), -limit, limit)
        error = (remaining[row] - rounded[row]) / inverse[row, row]
        remaining -= np.outer(inverse[:, row], error)
        inverse -= np.outer(inverse[:, row], inverse[row]) / inverse[row, row]
    return rounded


@pytest.mark.parametrize("rows", [1, 2, 7, BLOCK, BLOCK + 1, 2 * BLOCK + 5])
def test_rows_are_rounded_as_the_equations_say(rows: int) -> None:
    weight, inputs = _layer(rows, 5, seed=rows)
    scales, products = _steps(weight), inputs.T @ inputs
    expected = _by_the_equations((weight / scales).astype(np.float64), products, 127)
    assert compensated(weight, scales, products, 127, 254).tolist() == expected.tolist()


def test_weights_of_independent_inputs_are_rounded_to_the_nearest_step() -> None:
    weight, _ = _layer(70, 4, seed=1)
    scales = _steps(weight)
    rounded = compensated(weight, scales, np.eye(70) * 3, 127, 254)
    assert rounded.tolist() == np.rint(weight / scales).tolist()


@pytest.mark.parametrize("pair_limit", [254, 24])
def test_what_the_layer_computes_is_nearer(pair_limit: int) -> None:
    weight, inputs = _layer(200, 40, seed=2)
    scales = np.maximum(_steps(weight), pair_sums(weight) / (pair_limit - 1))
    rounded = compensated(weight, scales, inputs.T @ inputs, 127, pair_limit)

    errors = [
        np.linalg.norm(inputs @ (integers * scales - weight))
        for integers in (rounded, np.rint(weight / scales))
    ]
    assert errors[0] < 0.6 * errors[1]


@settings(max_examples=60)
@given(
    rows=st.integers(1, 2 * BLOCK + 3),
    seed=st.integers(0, 1000),
    used=st.floats(0, 1),
    limit=st.sampled_from([1, 63, 127]),
)
def test_no_pair_exceeds_its_limit(rows: int, seed: int, used: float, limit: int) -> None:
    """Also with inputs that no sample has, and weights far beyond what the steps allow."""
    weight, inputs = _layer(rows, 3, seed)
    inputs[:, np.random.default_rng(seed).random(rows) > used] = 0
    scales = np.full(3, 0.01, np.float32)

    rounded = compensated(weight, scales, inputs.T @ inputs, limit, MAX_PAIR)
    assert np.abs(rounded.astype(int)).max() <= limit
    assert pair_sums(rounded).max() <= MAX_PAIR
