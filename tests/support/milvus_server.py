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
START_S = 300.0


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
        deadline = time.monotonic() + START_S
        # It takes another port while the connections that a kill left behind keep this one.
        while not self._is_free():
            assert time.monotonic() < deadline
            time.sleep(1.0)
        milvus = Milvus(Connection(self.address))
        while True:
            if self._process is None or self._process.poll() is not None:
                self._process = self._spawned()
            try:
                milvus.call("list_collections")
                break
            except EngineFailed:
                assert time.monotonic() < deadline
                time.sleep(1.1)
        milvus.close()

    def _is_free(self) -> bool:
        with socket.socket() as listening:
            try:
                listening.bind(("127.0.0.1", self._port))
            except OSError:
                return False
        return True

    def _spawned(self) -> subprocess.Popen[bytes]:
        command = [str(self._command), "--data", str(self._directory / "data")]
        with (self._directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--proxy-port", str(self._port)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the server and everything that it started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
