"""A shelf of parcels, for the code reader's tests."""

import heapq
from collections.abc import Iterator
from functools import cached_property

LIMIT = 3


def widest(
    parcels: list[int],
    *,
    least: int = 0,
) -> int:  # centimetres
    """Width of the widest parcel.

    Parcels under `least` do not count.
    """
    return max((width for width in parcels if width >= least), default=0)


# not a docstring
async def deliver(parcel: int) -> str:
    grüße = "Grüße aus Köln"

    def inner() -> str:
        return grüße

    return inner() + str(parcel)


class Shelf:
    """Keeps parcels in order of width."""

    rows: int = 4
    naïveté = "ünïcödé"

    def __init__(self, parcels: list[int]) -> None:
        self.parcels = parcels
        heapq.heapify(self.parcels)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.parcels)

    @size.setter
    def size(self, value: int) -> None:
        del self.parcels[value:]

    @cached_property
    def total(self) -> int:
        return sum(self.parcels)

    class Slot:
        """One place."""

        def free(self) -> bool:
            return True

    if LIMIT > 2:

        def pop(self) -> Iterator[int]:
            yield heapq.heappop(self.parcels)
