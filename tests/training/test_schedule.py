"""Which pairs make up which batch."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
from purlin.training.data.pairs.pair import Pair
from purlin.training.schedule import Schedule, package_numbers


@given(
    sizes=st.lists(st.integers(6, 30), min_size=1, max_size=3),
    size=st.integers(2, 6),
    batches=st.sampled_from(["mixed", "one-source"]),
    seed=st.integers(0, 99),
)
def test_every_pair_comes_once_in_an_epoch(
    sizes: list[int], size: int, batches: str, seed: int
) -> None:
    schedule = Schedule(sizes, [1.0] * len(sizes), size, seed, mixed=batches == "mixed")
    count = schedule.batches_per_epoch
    epochs = [
        [schedule.rows(epoch * count + number) for number in range(count)] for epoch in range(2)
    ]

    for epoch in epochs:
        drawn = np.concatenate(epoch)
        assert len(set(drawn.tolist())) == len(drawn) == size * count
        assert set(drawn.tolist()) <= set(range(sum(sizes)))
    left_over = sum(sizes) - size * count
    assert (
        left_over < size
        if batches == "mixed"
        else left_over == sum(source_size % size for source_size in sizes)
    )

    if batches == "one-source":
        owners = np.repeat(range(len(sizes)), sizes)
        assert all(len(set(owners[batch])) == 1 for epoch in epochs for batch in epoch)
    again = Schedule(sizes, [1.0] * len(sizes), size, seed, mixed=batches == "mixed")
    for number in random.Random(seed).sample(range(2 * count), 2 * count):
        assert again.rows(number).tolist() == epochs[number // count][number % count].tolist()


def test_epochs_and_seeds_differ() -> None:
    first, second = (Schedule([40], [1.0], 8, seed) for seed in (1, 2))
    assert (
        len({str(schedule.rows(number)) for schedule in (first, second) for number in (0, 5, 10)})
        == 6
    )


@pytest.mark.parametrize("batches", ["mixed", "one-source"])
def test_sources_come_by_their_weight(batches: str) -> None:
    schedule = Schedule([10, 20, 8], [2.0, 0.5, 1.5], 2, 1, mixed=batches == "mixed")
    drawn = np.concatenate([schedule.rows(number) for number in range(schedule.batches_per_epoch)])
    counts = np.bincount(drawn, minlength=38)
    assert counts[:10].tolist() == [2] * 10
    assert sorted(counts[10:30]) == [0] * 10 + [1] * 10
    assert sorted(counts[30:]) == [1] * 4 + [2] * 4


def test_a_batch_has_groups_of_one_package() -> None:
    sources = [
        [Pair((f"{source} {number}",), "", group=f"p{number % 2}") for number in range(16)]
        for source in range(2)
    ]
    packages = package_numbers(sources)
    schedule = Schedule([16, 16], [1.0, 1.0], 8, 1, mixed=False, group=4, packages=packages)
    pairs = [pair for source in sources for pair in source]
    drawn = [[pairs[row] for row in schedule.rows(number)] for number in range(4)]
    assert len({pair.queries for batch in drawn for pair in batch}) == 32
    assert all(
        len({pair.group for pair in part}) == 1
        for batch in drawn
        for part in (batch[:4], batch[4:])
    )


@pytest.mark.parametrize(
    ("sizes", "batches", "words"),
    [
        (
            [5, 6],
            "mixed",
            "A batch of 12 exceeds the 11 pairs there are: set `batch_size` .* to 11 or less",
        ),
        ([40, 8], "one-source", "8 pairs .* of one"),
        ([40, 1], "one-source", "1 pairs there are of one source: give more pairs"),
    ],
)
def test_a_batch_larger_than_its_sources_is_refused(
    sizes: list[int], batches: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        Schedule(sizes, [1.0] * len(sizes), 12, 1, mixed=batches == "mixed")
