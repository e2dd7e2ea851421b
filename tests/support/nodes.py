"""Two machines for tests: network namespaces of this one, joined by a cable."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.support.paths import ROOT


@dataclass(frozen=True, slots=True)
class Node:
    """A network namespace with an address of its own; everything else is this machine's."""

    name: str
    address: str
    device: str

    def start(
        self, *command: object, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command on this node, as the leader of a process group."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, *map(str, command)],
            cwd=ROOT,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | dict(env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def cut(self) -> None:
        """Take the cable away, so that the other node hears nothing more of this one."""
        _ip("netns", "exec", self.name, "ip", "link", "set", self.device, "down")


@contextmanager
def two_nodes() -> Iterator[tuple[Node, Node]]:
    """Yield two nodes that reach each other and nothing else; skips where that is not permitted."""
    suffix = str(os.getpid())
    first = Node(f"purlin-a-{suffix}", "10.203.17.1", f"pa{suffix}")
    second = Node(f"purlin-b-{suffix}", "10.203.17.2", f"pb{suffix}")
    if shutil.which("ip") is None or not _ip("netns", "add", first.name):
        pytest.skip("takes network namespaces: root, and apt-get install iproute2")

    try:
        _ip("netns", "add", second.name)
        _ip("link", "add", first.device, "type", "veth", "peer", "name", second.device)
        for node in (first, second):
            _ip("link", "set", node.device, "netns", node.name)
            inside = ("-n", node.name)
            _ip(*inside, "addr", "add", f"{node.address}/24", "dev", node.device)
            _ip(*inside, "link", "set", node.device, "up")
            _ip(*inside, "link", "set", "lo", "up")
        yield first, second
    finally:
        for node in (first, second):
            _ip("netns", "del", node.name)


def _ip(*arguments: str) -> bool:
    return subprocess.run(["ip", *arguments], capture_output=True, check=False).returncode == 0
