"""Estimate machines, memory, disk and time for corpora of any size from the measured growth curves.

    python -m benchmarks.speed.sizing --scratch DIR

`benchmarks.speed.tables` writes the same table into docs/sizing.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.options import command_parser
from benchmarks.speed.records import Record, Records, median_of, select

SIZES = (1_000_000, 100_000_000, 10_000_000_000)
# A common server. What a machine keeps for itself and for the page cache is not given to indexes.
MACHINE_GIB = 64
USABLE = 0.75


@dataclass(frozen=True, slots=True)
class Line:
    """A cost that grows in a straight line with the number of passages."""

    base: float
    slope: float

    def at(self, passages: float) -> float:
        return self.base + self.slope * passages


@dataclass(frozen=True, slots=True)
class Estimate:
    passages: int
    machines: int
    memory_gb: float
    disk_gb: float
    index_hours: float
    encode_hours: float


def fit(sizes: Sequence[float], values: Sequence[float]) -> Line:
    """Least squares with relative errors, so that small corpora count as much as large ones.

    Neither part is negative: no cost falls with size. Raises ValueError for fewer than two sizes.
    """
    if len(set(sizes)) < 2:
        raise ValueError("a line needs measurements of at least two sizes")

    weights = 1 / np.array(values)
    columns = np.stack([weights, np.array(sizes) * weights], axis=1)
    (base, slope), *_ = np.linalg.lstsq(columns, np.array(values) * weights)
    if base < 0:
        return Line(0.0, float(np.mean(np.array(values) / np.array(sizes))))
    return Line(float(base), max(float(slope), 0.0))


def curves(records: Sequence[Record], encoder: str) -> dict[str, Line]:
    """Lines of build seconds, memory of a server and disk, from the growth curves of functions.

    Memory is without the pages of files, which the kernel keeps as long as it has room.
    """
    functions = select(records, encoder=encoder, windows=False)
    builds = by_size(select(functions, part="build"))
    services = by_size(select(functions, part="serve"))
    memory = {size: [record["searched"] for record in each] for size, each in services.items()}

    return {
        "seconds": fit(list(builds), [median_of(each, "seconds") for each in builds.values()]),
        "disk_mb": fit(list(builds), [median_of(each, "disk_mb") for each in builds.values()]),
        "memory_mb": fit(list(memory), [median_of(each, "own_mb") for each in memory.values()]),
    }


def by_size(records: Sequence[Record]) -> dict[int, list[Record]]:
    sizes = sorted({record["size"] for record in records})
    return {size: select(records, size=size) for size in sizes}


def estimate(lines: dict[str, Line], passages: int, encode_rate: float) -> Estimate:
    """What a corpus costs, extended from the measured sizes.

    Machines hold the whole index in memory; time is that of one machine of the measured kind.
    `encode_rate` is texts per second there.
    """
    memory_gb = lines["memory_mb"].at(passages) / 1024
    return Estimate(
        passages,
        math.ceil(memory_gb / (MACHINE_GIB * USABLE)),
        memory_gb,
        lines["disk_mb"].at(passages) / 1024,
        lines["seconds"].at(passages) / 3600,
        passages / encode_rate / 3600,
    )


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--scratch", type=Path, required=True)
    options = parser.parse_args()

    growth = list(Records(options.scratch, "growth"))
    rates = select(Records(options.scratch, "encode"), part="rate", contestant="purlin")
    lines = curves(growth, "static-code-int8")
    for size in SIZES:
        print(estimate(lines, size, median_of(rates, "rate")))


if __name__ == "__main__":
    main()
