"""A real server in its own process, on a free loopback port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from purlin.app.main import serve
from purlin.app.settings import Settings
from purlin.app.workers import supervise
from purlin.index.errors import Damaged, NotFound
from tests.support.paths import ROOT
from tests.support.privileges import unprivileged
from tests.support.serving import problem

_PROGRAM = """
import sys, time
import uvicorn
from pathlib import Path
import purlin.app.main as main
from purlin.app.settings import Settings
from tests.support.hash_encoder import HashEncoder

class SlowEncoder(HashEncoder):
    def encode(self, texts, **rest):
        if "slow" in texts:
            print("encoding", flush=True)
            time.sleep(1)
        if "fail" in texts:
            raise ZeroDivisionError("unforeseen")
        return super().encode(texts, **rest)

main.load_tuned = lambda directory: SlowEncoder()
main.serve(Settings(home=Path(sys.argv[1]), port=int(sys.argv[2]), max_body_bytes=2**20, body_timeout_s=1))
"""


class Server:
    """A server process, a client of it, and its log."""

    def __init__(self, process: subprocess.Popen[str], client: httpx.Client) -> None:
        self.process = process
        self.client = client
        self.log = ""

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            assert self.process.poll() is None
            try:
                if self.client.get("/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("not ready")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        _, self.log = self.process.communicate(timeout=20)
        return self.process.returncode


@contextmanager
def running(home: Path) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    root = ROOT
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(home), str(port)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
        try:
            server = Server(process, client)
            server.wait_until_ready()
            yield server
        finally:
            process.kill()


def test_running_requests_finish_before_the_server_stops(home: Path) -> None:
    with running(home) as server:
        replies: list[httpx.Response] = []
        body = {"query": "slow", "corpus": "code"}
        asking = threading.Thread(
            target=lambda: replies.append(server.client.post("/search", json=body))
        )
        asking.start()
        assert server.process.stdout is not None
        assert server.process.stdout.readline() == "encoding\n"
        stopping = time.monotonic()
        assert server.stop() in (0, -signal.SIGTERM)
        asking.join()
        assert time.monotonic() - stopping > 0.3
        assert replies[0].status_code == 200
        assert len(replies[0].json()["hits"]) == 3
        assert "Traceback" not in server.log


def test_oversized_slow_or_failing_requests(home: Path) -> None:
    with running(home) as server:
        pieces = (b"x" * 65536 for _ in range(64))
        too_long = server.client.post(
            "/search", content=pieces, headers={"content-type": "application/json"}
        )
        assert "1,048,576 bytes" in problem(too_long, 413)["detail"]

        with socket.create_connection(
            (server.client.base_url.host, server.client.base_url.port or 0)
        ) as slow:
            slow.sendall(b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
            slow.sendall(b'Content-Length: 50\r\n\r\n{"query": ')
            slow.settimeout(10)
            answer = b"".join(iter(lambda: slow.recv(65536), b""))
        head, _, content = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(content)["detail"] == "The body took too long to arrive."

        reply = problem(
            server.client.post("/search", json={"query": "fail", "corpus": "code"}), 500
        )
        assert "unforeseen" not in reply["detail"]
        assert server.client.get("/livez").status_code == 200
        server.stop()
        assert "ZeroDivisionError: unforeseen" in server.log


def test_server_needs_an_encoder(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="encoder"):
        serve(Settings(home=tmp_path, encoder=tmp_path / "none"))


@pytest.mark.parametrize("start", [serve, supervise])
def test_server_needs_to_list_its_corpora(start: Callable[[Settings], None]) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        (home / "corpora").mkdir(mode=0)
        with (
            unprivileged(),
            pytest.raises(Damaged, match="read permission, also for the directories above"),
        ):
            start(Settings(home=home, port=0))
