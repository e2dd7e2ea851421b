"""A real server in its own process, on a free loopback port."""

from __future__ import annotations

import json
import signal
import socket
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, Popen

import httpx
import pytest

from purlin.app.main import serve
from purlin.app.settings import Settings
from purlin.app.workers import supervise
from purlin.index.errors import Damaged, NotFound
from tests.support.hash_encoder import HashEncoder
from tests.support.listening import listening
from tests.support.paths import ROOT
from tests.support.privileges import unprivileged
from tests.support.serving import PATIENTLY, problem, until
from tests.support.traffic import HOST, purlin, running

# What `purlin serve` does, with an encoder that waits for a file.
_SCRIPT = """
import os, sys, time
import purlin.app.main as main
from purlin.cli.commands import app
from tests.support.hash_encoder import HashEncoder

class SlowEncoder(HashEncoder):
    def encode(self, texts, **rest):
        if "slow" in texts:
            print("encoding", flush=True)
            while not os.path.exists(os.environ["GATE"]):
                time.sleep(0.01)
        return super().encode(texts, **rest)

main.load_tuned = lambda directory: SlowEncoder()
app(sys.argv[1:])
"""


def test_running_requests_finish_before_the_server_stops(home: Path, tmp_path: Path) -> None:
    body = {"query": "slow", "corpus": "code"}
    gate = tmp_path / "gate"
    options = {"script": _SCRIPT, "env": {"GATE": str(gate)}, "shutdown_timeout_s": 60}
    with running(home, **options) as server, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(server.client.post, "/search", json=body)
        until(lambda: "encoding" in server.log())
        server.process.terminate()
        until(lambda: "Waiting for connections to close" in server.log())
        gate.touch()
        assert server.process.wait(60) in (0, -signal.SIGTERM)

        reply = asking.result()
        assert reply.status_code == 200
        assert len(reply.json()["hits"]) == 3
        assert "Traceback" not in server.log()


# What `purlin` does, with an encoder that takes minutes to load, at first in a method that cannot raise.
_SLOW_START = """
import time
import purlin.app.main as main
from purlin.cli import main as run

class Lost:
    def __del__(self):
        print("loading", flush=True)
        time.sleep(90)

def load(directory):
    Lost()
    time.sleep(90)

main.load_tuned = load
run()
"""


def test_a_server_that_is_stopped_while_it_starts_ends_well(tmp_path: Path) -> None:
    command = purlin("serve", "--home", tmp_path, "--port", "0", script=_SLOW_START)
    with Popen(command, cwd=ROOT, stdout=PIPE, stderr=PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "loading\n"
        server.terminate()
        _, errors = server.communicate(timeout=60)

    assert (server.returncode, errors) == (0, "")


# What `purlin` does, with an encoder that takes minutes to measure.
_SLOW_MEASURE = """
import purlin.app.workers as workers
from purlin.cli import main as run

workers._MEASURE = "import time; print('measuring', flush=True); time.sleep(90)"
workers.is_static = lambda directory: False
run()
"""


def test_workers_that_are_stopped_before_they_start_leave_no_process(tmp_path: Path) -> None:
    options = ["--home", tmp_path, "--port", "0", "--workers", "2"]
    command = purlin("serve", *options, script=_SLOW_MEASURE)
    with Popen(command, cwd=ROOT, stdout=PIPE, stderr=PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "measuring\n"
        server.terminate()
        # It ends when no process has its output any more.
        server.communicate(timeout=60)

    assert server.returncode == 0


def test_oversized_bodies_are_refused(home: Path) -> None:
    with listening(home, HashEncoder(), max_body_bytes=2**20) as url:
        pieces = (b"x" * 65536 for _ in range(64))
        headers = {"content-type": "application/json"}
        too_long = httpx.post(f"{url}/search", content=pieces, headers=headers, **PATIENTLY)
        assert "1,048,576 bytes" in problem(too_long, 413)["detail"]


def test_slow_bodies_are_refused(home: Path) -> None:
    with listening(home, HashEncoder(), body_timeout_s=1) as url:
        with socket.create_connection((HOST, httpx.URL(url).port)) as slow:
            slow.sendall(b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
            slow.sendall(b'Content-Length: 50\r\n\r\n{"query": ')
            slow.settimeout(60)
            answer = b"".join(iter(lambda: slow.recv(65536), b""))
        head, _, content = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(content)["detail"] == "The body took too long to arrive."


def test_server_needs_an_encoder(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="encoder"):
        serve(Settings(home=tmp_path, encoder=tmp_path / "none"))


@pytest.mark.parametrize("folder", ["corpora", "classifiers"])
@pytest.mark.parametrize("start", [serve, supervise])
def test_server_needs_to_list_what_it_serves(
    start: Callable[[Settings], None], folder: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        (home / folder).mkdir(mode=0)
        with (
            unprivileged(),
            pytest.raises(Damaged, match="read permission, also for the directories above"),
        ):
            start(Settings(home=home, port=0))
