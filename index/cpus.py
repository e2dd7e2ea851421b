"""Count the CPUs that a process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path


def available_cpus(root: Path = Path("/")) -> int:
    """Number of CPUs for this process: its affinity, or its cgroup quota rounded up if lower.

    Below `root`, reads `cpu.max` (cgroup v2) or `cpu.cfs_quota_us` (v1) of the process's group and
    its parents.
    """
    affinity = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        affinity = len(os.sched_getaffinity(0))

    quotas = (max(1, math.ceil(quota)) for quota in _quotas(root))
    return min([affinity, *quotas])


def _quotas(root: Path) -> Iterator[float]:
    """Yield the quotas, in CPUs, of this process's cgroups and their parents, if they have one."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue

        mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        parts = [part for part in group.split("/") if part and part != ".."]
        for depth in range(len(parts) + 1):
            yield from _quota(mount.joinpath(*parts[:depth]))


def _quota(group: Path) -> Iterator[float]:
    numbers = " ".join(_lines(group / "cpu.max")).split()
    if not numbers:
        numbers = _lines(group / "cpu.cfs_quota_us") + _lines(group / "cpu.cfs_period_us")

    # "max" and -1 mean that there is no quota.
    if len(numbers) == 2 and numbers[0].isdigit() and numbers[1].isdigit() and int(numbers[1]):
        yield int(numbers[0]) / int(numbers[1])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
