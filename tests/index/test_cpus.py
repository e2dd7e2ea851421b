"""CPUs that a process may use: by affinity and cgroup."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.cpus import available_cpus


def _cgroup(root: Path, membership: str, files: dict[str, str]) -> Path:
    for name, content in {"proc/self/cgroup": membership, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


ALL = available_cpus(Path("/nonexistent"))


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "max 100000\n"}, ALL),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "900000000 100000\n"}, ALL),
        ("0::/a/b\n", {"sys/fs/cgroup/a/cpu.max": "100000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 1),
        ("0::/a\n", {}, ALL),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "junk\n"}, ALL),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "100000 0\n"}, ALL),
        ("0::/../x\n", {"sys/fs/cgroup/x/cpu.max": "100000 100000\n"}, 1),
        ("4:cpu,cpuacct:/g\n2:memory:/m\n",
         {"sys/fs/cgroup/cpu/g/cpu.cfs_quota_us": "100000\n", "sys/fs/cgroup/cpu/g/cpu.cfs_period_us": "100000\n"},
         1),
        ("4:cpu,cpuacct:/\n",
         {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, ALL),
        ("a line of another kind\n", {"sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1),
    ],
)  # fmt: skip
def test_available_cpus_follow_the_cgroup(
    tmp_path: Path, membership: str, files: dict[str, str], expected: int
) -> None:
    assert available_cpus(_cgroup(tmp_path, membership, files)) == expected


def test_a_quota_is_rounded_up(tmp_path: Path) -> None:
    root = _cgroup(tmp_path, "0::/\n", {"sys/fs/cgroup/cpu.max": "110000 100000\n"})
    assert available_cpus(root) == min(2, ALL)
