"""Servers of several processes on the loopback, with the released static encoder."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from purlin.app.connections import bind
from purlin.app.keys import new_key
from purlin.app.settings import Settings
from purlin.cli.commands import app
from purlin.index.cpus import available_cpus
from purlin.index.encoder import STATIC_ENCODER, load_encoder
from purlin.index.errors import InvalidInput
from tests.support.serving import FUNCTIONS, PATIENTLY, bearer, make, numbered, until
from tests.support.traffic import Load, Request, Server, purlin, run, running

WORKERS = 2
SEARCH: Request = ("POST", "/search", {"corpus": "code", "query": "sort numbers"})
SETTINGS: dict[str, Any] = {"workers": WORKERS, "encoder": "static", "log": "json"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    make(home, "code", FUNCTIONS, encoder=load_encoder(STATIC_ENCODER))
    return home


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Server]:
    with serving_all(home) as server:
        yield server


@contextmanager
def serving_all(home: Path, **settings: object) -> Iterator[Server]:
    """Yield a server all of whose workers have their corpora open."""
    with running(home, **SETTINGS, **settings) as server:
        until(lambda: len(ready_workers(server)) == WORKERS)
        yield server


def lines(server: Server) -> list[dict[str, Any]]:
    """Return the lines of the log."""
    return [json.loads(line) for line in server.log().splitlines()]


def ready_workers(server: Server) -> list[int]:
    """Return the processes of the workers that are ready, by the log of the supervisor."""
    pids = [int(pid) for pid in re.findall(r"\(process (\d+)\) is ready", server.log())]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def kill(server: Server, worker: int) -> None:
    """Kill a worker, and wait until the supervisor has noticed."""
    os.kill(worker, signal.SIGKILL)
    until(lambda: worker not in ready_workers(server))


def clients(server: Server, stack: ExitStack, count: int = WORKERS) -> list[httpx.Client]:
    """Open one connection after another, which go to the workers in turn."""
    opened = [httpx.Client(base_url=server.url, timeout=60, trust_env=False) for _ in range(count)]
    for client in opened:
        stack.enter_context(client)
        client.get("/livez")
    return opened


def answered_by(server: Server) -> Counter[int]:
    """Count the searches in the log by the process that answered."""
    return Counter(line["process"] for line in lines(server) if line.get("path") == "/search")


def metric(server: Server, name: str) -> float:
    """Return the sum of the samples of a metric."""
    text = httpx.get(f"{server.url}/metrics", **PATIENTLY).text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def test_requests_spread_evenly_and_metrics_are_of_all(server: Server) -> None:
    until(lambda: len(ready_workers(server)) == WORKERS)
    with ExitStack() as stack:
        # The probe's connection is one of the four: which worker has it depends on which began first.
        server.client.get("/livez")
        for client in (server.client, *clients(server, stack, 3)):
            for _ in range(5):
                assert client.request(*SEARCH[:2], json=SEARCH[2]).status_code == 200

    # A request is logged and counted after its reply is sent.
    until(lambda: answered_by(server).total() == 20)
    assert sorted(answered_by(server).values()) == [10, 10]
    until(lambda: metric(server, 'purlin_request_seconds_count{route="/search"') == 20)
    assert metric(server, 'purlin_requests_total{method="POST",route="/search"') == 20
    assert metric(server, 'purlin_corpus_documents{corpus="code"') == len(FUNCTIONS)
    assert metric(server, "purlin_workers") == WORKERS


def test_a_killed_worker_loses_its_own_requests_only(server: Server) -> None:
    killed = ready_workers(server)[0]
    with Load(server.url, lambda _: SEARCH, clients=4) as load:
        load.await_answers(50)
        before = metric(server, 'purlin_requests_total{method="POST",route="/search"')
        kill(server, killed)
        until(lambda: len(ready_workers(server)) == WORKERS)
        load.await_answers(50)

    assert load.statuses.keys() == {200}
    # Each of the connections, half of which were the killed worker's, had one request.
    assert sum(load.lost.values()) <= 4
    assert killed not in ready_workers(server)
    assert metric(server, "purlin_worker_restarts_total") >= 1
    assert metric(server, 'purlin_requests_total{method="POST",route="/search"') >= before


# What `purlin serve` does, with a supervisor that takes four seconds of silence for a hang.
IMPATIENT = """
import sys
from purlin.app import workers
from purlin.cli.commands import app
workers.CHECK_S, workers.MAX_SILENT_CHECKS = 0.2, 20
app(sys.argv[1:])
"""


def test_a_worker_that_hangs_is_replaced_and_one_that_is_paused_with_all_is_not(home: Path) -> None:
    with serving_all(home, script=IMPATIENT) as server:
        paused = ready_workers(server)
        for number, seconds in ((signal.SIGSTOP, 5), (signal.SIGCONT, 1)):
            for pid in (server.pid, *paused):
                os.kill(pid, number)
            time.sleep(seconds)
        assert ready_workers(server) == paused

        os.kill(paused[0], signal.SIGSTOP)
        until(lambda: paused[0] not in ready_workers(server))
        until(lambda: len(ready_workers(server)) == WORKERS)
        assert f"(process {paused[0]}) has not moved for 4 s and is ended" in server.log()
        assert httpx.get(f"{server.url}/readyz", **PATIENTLY).status_code == 200


def test_restarts_leave_no_files_and_no_memory_behind(server: Server) -> None:
    def restart() -> None:
        kill(server, ready_workers(server)[-1])
        until(lambda: len(ready_workers(server)) == WORKERS)

    restart()
    files, memory_mb = server.open_files(), server.memory_mb()
    for _ in range(2):
        restart()

    # Those of the process that was killed are closed a moment after another is ready.
    until(lambda: server.open_files() <= files)
    assert server.memory_mb() < memory_mb + 2


def test_a_worker_that_cannot_be_started_is_tried_again(server: Server) -> None:
    until(lambda: len(ready_workers(server)) == WORKERS)
    killed, other = ready_workers(server)
    # No file more than those that are open, so that there can be no socket to a worker.
    limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        kill(server, killed)
        until(lambda: "cannot be started (" in server.log())
        assert ready_workers(server) == [other]
    finally:
        # Other tests have the same server.
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
    until(lambda: len(ready_workers(server)) == WORKERS)


def test_rates_hold_over_all_workers(home: Path) -> None:
    # Six a minute: one at once.
    secret, line = new_key("test", ["search"], 6)
    with serving_all(home, keys=line) as server, ExitStack() as stack:
        replies = [
            client.request(*SEARCH[:2], json=SEARCH[2], headers=bearer(secret))
            for client in clients(server, stack, 4)
        ]

        until(lambda: len(answered_by(server)) == WORKERS)
        assert [reply.status_code for reply in replies] == [200, 429, 429, 429]


def test_all_workers_read_the_keys_again(home: Path, tmp_path: Path) -> None:
    first, second = (new_key(name, ["search"]) for name in ("first", "second"))
    file = tmp_path / "keys"
    file.write_text(first[1])

    with serving_all(home, keys_file=file) as server, ExitStack() as stack:
        both = clients(server, stack)

        def statuses(secret: str) -> list[int]:
            return [
                client.post("/search", json=SEARCH[2], headers=bearer(secret)).status_code
                for client in both
            ]

        assert statuses(second[0]) == [401, 401]
        file.write_text(f"{first[1]}\n{second[1]}")
        # As `systemctl kill` sends it, to all processes.
        for process in (server.pid, *ready_workers(server)):
            os.kill(process, signal.SIGHUP)
        until(lambda: statuses(second[0]) == [200, 200])
        assert statuses(first[0]) == [200, 200]

        # Also one that is started later.
        before = ready_workers(server)
        kill(server, before[0])
        until(lambda: len(ready_workers(server)) == WORKERS)
        both = clients(server, stack)
        assert statuses(second[0]) == [200, 200]


def test_all_workers_serve_a_new_build(server: Server, home: Path) -> None:
    encoder = load_encoder(STATIC_ENCODER)
    make(home, "growing", numbered(1), encoder=encoder)
    with ExitStack() as stack:
        both = clients(server, stack)

        def found(client: httpx.Client, count: int) -> bool:
            body = {"corpus": "growing", "query": "number", "mode": "lexical"}
            return client.post("/search", json=body).json().get("total") == count

        until(lambda: all(found(client, 1) for client in both))
        make(home, "growing", numbered(5), encoder=encoder)
        until(lambda: all(found(client, 5) for client in both))


def test_admin_actions_take_effect_in_all_workers(tmp_path: Path) -> None:
    for documents in (FUNCTIONS, numbered(5)):
        make(tmp_path, "code", documents, encoder=load_encoder(STATIC_ENCODER))
    secret, line = new_key("test", ["admin", "search"])
    with serving_all(tmp_path, keys=line) as server, ExitStack() as stack:
        both = clients(server, stack)
        for client in both:
            client.headers.update(bearer(secret))

        build = both[0].post("/corpora/code/rollback").json()["build"]
        for client in both:
            until(lambda client=client: client.get("/corpora/code").json()["build"] == build)  # type: ignore[misc]

        assert both[1].delete("/corpora/code").status_code == 200
        assert [client.get("/corpora/code").status_code for client in both] == [404, 404]


def test_one_worker_watches_for_all(home: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.py").write_text("def first():\n    return 1\n")
    runner = CliRunner()
    words = ["index", "build", "code", str(sources), "--name", "own", "--encoder", "static"]
    assert runner.invoke(app, [*words, "--home", str(home)]).exit_code == 0

    with serving_all(home, watch=1) as server, ExitStack() as stack:
        both = clients(server, stack)
        (sources / "b.py").write_text("def zebra():\n    return 2\n")

        def found(client: httpx.Client) -> bool:
            body = {"corpus": "own", "query": "zebra", "mode": "lexical"}
            return client.post("/search", json=body).json().get("total") == 1

        until(lambda: all(map(found, both)))
        builders = {line["process"] for line in lines(server) if "being built" in line["message"]}
        assert len(builders) == 1


def test_a_stop_finishes_running_requests(home: Path) -> None:
    body = {"texts": ["sort a list of numbers " * 200] * 2_000, "labels": ["code", "food"]}
    with serving_all(home) as server:
        with Load(server.url, lambda _: ("POST", "/classify", body), clients=2) as load:
            until(lambda: metric(server, "purlin_running ") == 2)
            assert server.stop() == 0

        assert load.statuses == {200: 2}
        assert "Traceback" not in server.log()


def test_workers_end_with_their_supervisor(home: Path) -> None:
    with serving_all(home) as server:
        workers = ready_workers(server)
        server.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_agents_may_change_the_worker_between_messages(server: Server) -> None:
    messages = [
        {"method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}},
        {"method": "tools/list", "params": {}},
        {"method": "tools/call", "params": {"name": "search_code", "arguments": {"query": "sort"}}},
    ]
    with ExitStack() as stack:
        for number, client in enumerate(clients(server, stack, 6)):
            message = {"jsonrpc": "2.0", "id": number, **messages[number // 2]}
            reply = client.post("/mcp", json=message, headers={"Accept": "application/json"})

            assert "result" in reply.json(), reply.text


# ---- what cannot start


def test_an_address_that_cannot_be_used_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"Port {port} of 127.0.0.1 is in use"):
            bind("127.0.0.1", port)
    with pytest.raises(InvalidInput, match=r"'192\.0\.2\.1' is not an address of this machine"):
        bind("192.0.2.1", 0)


def test_the_number_of_workers_is_checked() -> None:
    assert 1 <= Settings.read({"workers": "auto"}).workers <= available_cpus()
    for workers in ("0", "65", "many"):
        with pytest.raises(InvalidInput, match="PURLIN_WORKERS must be"):
            Settings.read({"workers": workers})


def test_what_stops_a_worker_at_the_start_is_reported(home: Path) -> None:
    words = ["serve", "--home", home, "--port", "0", "--workers", "2", "--encoder", home / "none"]
    ended = run(purlin(*words))

    assert ended.returncode == 1
    assert "error: There is no encoder directory" in ended.stderr
    assert "Traceback" not in ended.stderr
