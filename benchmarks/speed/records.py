"""Measurements as JSON Lines in a scratch directory, and what each was made with."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from purlin.index.cpus import available_cpus

Record = dict[str, Any]


class Records:
    """The file `NAME.jsonl` of a scratch directory; each measurement is appended at once."""

    def __init__(self, scratch: Path, name: str) -> None:
        self.path = scratch / "results" / f"{name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, **values: Any) -> Record:
        """Append a measurement with its time, version and the machine's load, and print it."""
        # The load shows whether other work shared the machine.
        record = values | {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "load": round(os.getloadavg()[0], 2),
        }
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record) + "\n")

        print(json.dumps(record), flush=True)
        return record

    def has(self, **values: Any) -> bool:
        """Whether a measurement with these values is there, so that a run can be taken up again."""
        return any(matches(record, values) for record in self)

    def __iter__(self) -> Iterator[Record]:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as lines:
                yield from (json.loads(line) for line in lines)


def matches(record: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return all(record.get(key) == value for key, value in values.items())


def select(records: Iterable[Record], **values: Any) -> list[Record]:
    return [record for record in records if matches(record, values)]


def median_of(records: Sequence[Record], key: str) -> float:
    return statistics.median(record[key] for record in records)


def range_of(records: Sequence[Record], key: str) -> tuple[float, float]:
    """The least and the largest value: the spread that tables show."""
    values = [record[key] for record in records]
    return min(values), max(values)


def machine() -> str:
    """The processor and what this process may use of it, in words."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = names[0] if names else model

    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {available_cpus()} CPUs, {gigabytes:.0f} GiB"
