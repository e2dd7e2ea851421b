"""A real Milvus server of version 2.3.5 for tests, which takes ten seconds to start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from purlin.index.engines.milvus import Connection, Milvus
from purlin.index.errors import EngineFailed

PACKAGE = "milvus==2.3.5"
START_S = 120.0


def installed(directory: Path) -> Path:
    """Return the server's command: MILVUS_SERVER, or that of a new environment in `directory`."""
    if command := os.environ.get("MILVUS_SERVER"):
        return Path(command)
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    pip = [str(directory / "bin" / "pip"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", PACKAGE], check=True, timeout=600)
    return directory / "bin" / "milvus-server"


class Server:
    """A server with its data in `directory`; `kill` ends it as a power cut would."""

    def __init__(self, command: Path, directory: Path) -> None:
        self._command, self._directory = command, directory
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            self._port = listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = (self._directory / "server.log").open("ab")
        self._process = subprocess.Popen(
            [
                str(self._command),
                *("--data", str(self._directory / "data"), "--proxy-port", str(self._port)),
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        deadline = time.monotonic() + START_S
        milvus = Milvus(Connection(self.address))
        while True:
            try:
                milvus.call("list_collections")
                break
            except EngineFailed:
                assert time.monotonic() < deadline
                time.sleep(1.1)
        milvus.close()

    def kill(self) -> None:
        """Kill the server and everything that it started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
