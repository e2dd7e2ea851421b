"""Services under measurement: start them on a free loopback port, watch their memory, end them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed.load import Client, Request

READY = Request("GET", "/readyz")  # of Purlin's own server
READY_SECONDS = 300
STOP_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Running:
    """A service that answers. `seconds` passed from its start until it did."""

    port: int
    process: subprocess.Popen[bytes]
    seconds: float

    def memory(self) -> dict[str, float]:
        """Resident MB of the process and all below it: `rss_mb`, and `own_mb` without file pages."""
        pids = [self.process.pid, *descendants(self.process.pid)]
        return memory_of(pids)


@contextmanager
def serving(
    command: Sequence[str | Path],
    port: int,
    ready: Request,
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Iterator[Running]:
    """Start a service and wait until `ready` is answered with 200; its output goes to `log`."""
    started = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)

    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | dict(environment or {}),
            cwd=directory,
        )

    try:
        wait_ready(process, port, ready, log)
        yield Running(port, process, time.monotonic() - started)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_ready(process: subprocess.Popen[bytes], port: int, ready: Request, log: Path) -> None:
    """Raises RuntimeError with the end of the log if the service ends or does not answer."""
    client = Client(port)
    deadline = time.monotonic() + READY_SECONDS

    while time.monotonic() < deadline and process.poll() is None:
        if client.send(ready)[0] == 200:
            client.close()
            return
        time.sleep(0.1)

    tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise RuntimeError(f"{process.args} does not answer: {tail}")


def free_port() -> int:
    """A port that the system chooses; it is released for a service to bind."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def descendants(pid: int) -> list[int]:
    """Processes below one, children first."""
    below: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, tasks.read_text().split()):
            below += [child, *descendants(child)]
    return below


def memory_of(pids: Sequence[int]) -> dict[str, float]:
    """`rss_mb` with pages of files, each shared page counted once; `own_mb` without them."""
    totals = {"Pss": 0, "Pss_Anon": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            key, _, value = line.partition(":")
            if key in totals:
                totals[key] += int(value.split()[0])

    return {"rss_mb": totals["Pss"] / 1024, "own_mb": totals["Pss_Anon"] / 1024}


def directory_mb(directory: Path) -> float:
    """Size on disk of all files below a directory; a hard link counts once."""
    sizes = {
        (status.st_dev, status.st_ino): status.st_blocks * 512
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
        for status in [path.stat()]
    }
    return sum(sizes.values()) / 2**20
