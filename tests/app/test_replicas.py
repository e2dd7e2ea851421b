"""docker-compose.replicas.yml: its proxy, with its own configuration, before servers on the loopback.

Skipped without HAProxy (`apt-get install haproxy`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from purlin.app.keys import new_key
from purlin.index import builds
from purlin.index.encoder import STATIC_ENCODER, load_encoder
from tests.support.paths import ROOT
from tests.support.serving import FUNCTIONS, PATIENTLY, bearer, make, numbered, until
from tests.support.traffic import HOST, Load, Server, free_port, running

SYSTEM_PATH = f"{os.environ['PATH']}:/usr/sbin"
HAPROXY = shutil.which("haproxy", path=SYSTEM_PATH)
IPTABLES = shutil.which("iptables", path=SYSTEM_PATH)
COMPOSE = yaml.safe_load((ROOT / "docker-compose.replicas.yml").read_text())["services"]
REPLICAS = ("replica-1", "replica-2", "replica-3")

# For longer than a request may wait for a replica that does not answer.
STANDSTILL_S = 30.0

needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="takes HAProxy: apt-get install haproxy")


def test_only_the_builder_writes() -> None:
    for name in REPLICAS:
        assert COMPOSE[name]["volumes"] == ["home:/data:ro"]
        assert "ports" not in COMPOSE[name]
    assert COMPOSE["builder"]["volumes"] == ["home:/data"]
    assert COMPOSE["proxy"]["volumes"][0].startswith("./haproxy.cfg:")


@needs_haproxy
def test_the_proxy_accepts_its_configuration() -> None:
    checked = haproxy("-c", ports=dict.fromkeys(COMPOSE["proxy"]["environment"], 8000))
    _, errors = checked.communicate(timeout=60)
    assert checked.returncode == 0, errors
    assert "warning" not in errors.lower()


def haproxy(*words: str, ports: dict[str, int]) -> subprocess.Popen[str]:
    """Start HAProxy; `ports` are those of the variables that compose sets."""
    assert HAPROXY is not None
    return subprocess.Popen(
        [HAPROXY, *words, "-f", str(ROOT / "haproxy.cfg")],
        env=os.environ | {name: f"{HOST}:{port}" for name, port in ports.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def proxied(replicas: list[Server], builder: Server) -> Iterator[str]:
    """Yield the URL of a proxy before these servers that finds all replicas ready."""
    port = free_port()
    ports = {f"REPLICA_{number}": server.port for number, server in enumerate(replicas, 1)}
    process = haproxy(ports=ports | {"LISTEN": port, "BUILDER": builder.port})
    try:
        url = f"http://{HOST}:{port}"
        until(lambda: all(server.process.poll() is None for server in replicas))
        until(lambda: answers(url))
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@contextmanager
def three_replicas(home: Path) -> Iterator[tuple[list[Server], str]]:
    """Yield servers of one corpus, the second also as the builder, and the URL of a proxy before them."""
    make(home, "code", FUNCTIONS, encoder=load_encoder(STATIC_ENCODER))
    with ExitStack() as stack:
        replicas = [stack.enter_context(running(home, encoder="static")) for _ in range(3)]
        yield replicas, stack.enter_context(proxied(replicas, replicas[1]))


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", **PATIENTLY).status_code == 200
    except httpx.TransportError:
        return False


@needs_haproxy
@pytest.mark.long
def test_replicas_behind_the_proxy_answer_as_one_server(tmp_path: Path) -> None:
    """A killed replica costs no request, and what the builder activates is served by all."""
    encoder = load_encoder(STATIC_ENCODER)
    make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    first = builds.current(tmp_path, "code").name
    make(tmp_path, "code", [*FUNCTIONS, *numbered(5)], encoder=encoder)
    secret, line = new_key("test", ["admin", "search"])
    settings = {"encoder": "static", "keys": line}

    with ExitStack() as stack:
        *replicas, builder = (stack.enter_context(running(tmp_path, **settings)) for _ in range(4))
        url = stack.enter_context(proxied(replicas, builder))
        body = {"corpus": "code", "query": "sort numbers"}
        load = Load(url, lambda _: ("POST", "/search", body), clients=3, headers=bearer(secret))
        with load:
            load.await_answers(100)
            replicas[0].kill()
            load.await_answers(100)
            replicas[0].start()

        load.assert_all_answered()

        rolled_back = httpx.post(
            f"{url}/corpora/code/rollback", headers=bearer(secret), **PATIENTLY
        )
        assert rolled_back.json()["build"] == first
        assert "rollback" not in "".join(server.log() for server in replicas)
        for server in replicas:
            until(lambda server=server: serves(server, secret) == first)  # type: ignore[misc]
        assert httpx.get(f"{url}/metrics", **PATIENTLY).status_code == 404


@needs_haproxy
@pytest.mark.long
@pytest.mark.skipif(IPTABLES is None or os.geteuid() != 0, reason="takes iptables, as root")
def test_requests_at_a_lost_machine_are_answered_by_another(tmp_path: Path) -> None:
    """A machine that is lost closes nothing: its requests would wait for 65 s."""
    with three_replicas(tmp_path) as (replicas, url), ExitStack() as stack:
        body = {"corpus": "code", "query": "sort numbers"}
        load = Load(url, lambda _: ("POST", "/search", body), clients=6)
        with load:
            load.await_answers(100)
            stack.enter_context(unreachable(replicas[0].port))
            load.await_answers(100)
            stopped = time.monotonic()

        assert time.monotonic() - stopped < 30
        load.assert_all_answered()


@needs_haproxy
@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/search", {"corpus": "code", "query": "sort numbers"}),
        ("/classify", {"texts": ["it has not arrived"], "labels": ["delivery", "refund"]}),
    ],
)
def test_requests_at_a_replica_that_stands_still_are_answered_by_another(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    """Its connections stay open: only its probes tell that it answers nothing."""
    with three_replicas(tmp_path) as (replicas, url):
        load = Load(
            url,
            lambda _: ("POST", path, body),
            clients=6,
            note=lambda response: response.elapsed.total_seconds(),
        )
        with load:
            load.await_answers(100)
            replicas[0].process.send_signal(signal.SIGSTOP)
            time.sleep(STANDSTILL_S)
            replicas[0].process.send_signal(signal.SIGCONT)

        # Some waited for it, or the test has shown nothing.
        assert 2 < max(load.replies) < STANDSTILL_S - 10
        load.assert_all_answered()


@needs_haproxy
@pytest.mark.long
def test_a_replica_that_is_stopped_finishes_long_lists(tmp_path: Path) -> None:
    """The proxy keeps no copy of them: it must not take them from a replica that will answer."""
    with three_replicas(tmp_path) as (replicas, url):
        texts = [f"order {number} has not arrived at my address yet" for number in range(2_000)]
        body = {"texts": texts, "labels": ["delivery", "refund", "account"]}
        load = Load(url, lambda _: ("POST", "/classify", body), clients=6)
        with load:
            load.await_answers(10)
            assert replicas[0].stop() == 0
            load.await_answers(10)

        load.assert_all_answered()


@contextmanager
def unreachable(port: int) -> Iterator[None]:
    """Drop all packets to and from a port of the loopback."""
    rules = [
        ["INPUT", "-i", "lo", "-p", "tcp", end, str(port), "-j", "DROP"]
        for end in ("--sport", "--dport")
    ]
    assert IPTABLES is not None
    for rule in rules:
        subprocess.run([IPTABLES, "-A", *rule], check=True)
    try:
        yield
    finally:
        for rule in rules:
            subprocess.run([IPTABLES, "-D", *rule], check=True)


def serves(server: Server, secret: str) -> str | None:
    """Return the build that a server answers from."""
    body = {"corpus": "code", "query": "sort"}
    reply = server.client.post("/search", json=body, headers=bearer(secret))
    build: str | None = reply.json().get("build")
    return build
