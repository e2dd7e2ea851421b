"""Which pairs make up which batch."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor

from purlin.index.errors import InvalidInput
from purlin.training.data.pairs.pair import Pair, text_digest

RowNumbers = NDArray[np.int64]


class Schedule:
    """Decides which pairs make up which batch, from the seed and the batch's number alone.

    `sizes` and `weights` are those of the sources. In every epoch the pairs of each source come
    once, or as often as its weight says, in a new order; a last batch that would not be full is
    left out. A batch is drawn from all sources if they are `mixed`, else from one. It has pairs of
    one package together, in groups of at most `group`; `packages` numbers, for each source, the
    package of every pair.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float],
        batch_size: int,
        seed: int,
        *,
        mixed: bool = True,
        group: int = 1,
        packages: Sequence[RowNumbers] = (),
    ) -> None:
        self.sizes = sizes
        self.weights = weights
        self.batch_size = batch_size
        self.seed = seed
        self.mixed = mixed
        self.group = group
        self.packages = packages
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.epoch: tuple[int, RowNumbers] = (-1, np.empty((0, 0), np.int64))

        counts = [round(size * weight) for size, weight in zip(sizes, weights, strict=True)]
        # Mixed batches are drawn from all sources together, others from each alone.
        pools = [sum(counts)] if self.mixed else counts
        self.batches_per_epoch = sum(count // self.batch_size for count in pools)

        smallest = min(pools)
        if smallest < self.batch_size:
            # A batch of one pair has no negatives; recipes refuse it.
            smaller = f"set `batch_size` in the recipe's `loop` to {smallest:,} or less, or "
            raise InvalidInput(
                f"A batch of {self.batch_size} exceeds the {smallest:,} pairs there are"
                f"{'' if self.mixed else ' of one source'}: "
                f"{smaller if smallest > 1 else ''}give more pairs.",
                field="batch_size",
            )

    def rows(self, number: int) -> RowNumbers:
        """Return row numbers (batch_size,) into the pairs of all sources, one after another."""
        epoch, number_in_epoch = divmod(number, self.batches_per_epoch)
        if self.epoch[0] != epoch:
            self.epoch = epoch, self._shuffled(epoch)

        rows: RowNumbers = self.epoch[1][number_in_epoch]
        return rows

    def locate(self, row: int) -> tuple[int, int]:
        """Return the source of a row, and its number in that source."""
        source = int(np.searchsorted(self.starts, row, side="right")) - 1
        return source, row - int(self.starts[source])

    def part(self, number: int, accelerator: Accelerator) -> tuple[RowNumbers, list[random.Random]]:
        """Return the rows of this process's part of a batch, each with its random numbers.

        Processes take turns, so that each gets the same number of rows. Random numbers belong to
        slots of the whole batch, which so does not depend on the number of processes.
        """
        mine = slice(accelerator.process_index, None, accelerator.num_processes)
        slots = range(self.batch_size)[mine]
        rngs = [random.Random(f"{self.seed} {number} {slot}") for slot in slots]
        return self.rows(number)[mine], rngs

    def _shuffled(self, epoch: int) -> RowNumbers:
        """Return the rows (batches, batch_size) of one epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        drawn = [self._drawn(source, rng) for source in range(len(self.sizes))]
        pools = [rng.permutation(np.concatenate(drawn))] if self.mixed else drawn
        batches = [pool[: len(pool) // self.batch_size * self.batch_size] for pool in pools]
        shuffled: RowNumbers = rng.permutation(np.concatenate(batches).reshape(-1, self.batch_size))
        return shuffled

    def _drawn(self, source: int, rng: np.random.Generator) -> RowNumbers:
        """Draw a source's rows for one epoch: each once before any comes again."""
        size = self.sizes[source]
        count = round(size * self.weights[source])
        rounds = (
            [self._ordered(source, rng) for _ in range(math.ceil(count / size))] if size else []
        )

        # The empty array keeps the type where a source has no pairs.
        drawn = np.concatenate([np.empty(0, np.int64), *rounds])[:count]
        rows: RowNumbers = drawn + self.starts[source]
        return rows

    def _ordered(self, source: int, rng: np.random.Generator) -> RowNumbers:
        """Return all rows of a source, counted from 0, in the order in which batches take them.

        Groups of one package come in a random order, and are random themselves.
        """
        shuffled: RowNumbers = rng.permutation(self.sizes[source])
        if self.group == 1:
            return shuffled

        packages = self.packages[source][shuffled]
        by_package = np.argsort(packages, kind="stable")
        sorted_packages = packages[by_package]

        # Position of each row within its package, and the group that it falls into.
        first = np.searchsorted(sorted_packages, sorted_packages)
        within = (np.arange(len(shuffled)) - first) // self.group
        starts_group = np.diff(sorted_packages, prepend=-1) | np.diff(within, prepend=-1)
        groups = np.cumsum(starts_group != 0) - 1

        rank = rng.permutation(groups[-1] + 1)
        rows: RowNumbers = shuffled[by_package][np.argsort(rank[groups], kind="stable")]
        return rows


def digests(texts: Iterable[str]) -> Tensor:
    """Return (n,) non-negative int64, equal for equal texts."""
    return torch.tensor([int.from_bytes(text_digest(text), "big") >> 1 for text in texts])


def describe_rows(rows: RowNumbers, pairs: Sequence[Pair]) -> str:
    """Return the numbers of a batch's first pairs, and the first query, for an error message."""
    first = pairs[rows[0]]
    return f"pairs {', '.join(map(str, rows[:8]))} …, the first {first.queries[0][:80]!r}"


def package_numbers(sources: Sequence[Sequence[Pair]]) -> list[RowNumbers]:
    """Number the packages that the pairs of each source come from; no name is one of them."""
    return [
        np.unique([pair.group for pair in source], return_inverse=True)[1] for source in sources
    ]
