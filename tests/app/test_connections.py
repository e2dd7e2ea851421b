"""Connections of clients that stall, against a real server on the loopback."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn

from purlin.app import connections
from purlin.app.connections import MAX_HEAD_BYTES, Connection
from purlin.app.limits import MAX_BODIES
from tests.support.blocking import BackgroundCall, BlockingEncoder
from tests.support.hash_encoder import HashEncoder
from tests.support.listening import listening
from tests.support.serving import FUNCTIONS, PATIENTLY, make, problem, until

HEAD = b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
MAX_CONNECTIONS = 12
CHECKS_UNTIL_STALLED = 4
MAX_BODY = 2**20


@pytest.fixture
def url(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(connections, "CHECK_INTERVAL_S", 0.125)
    monkeypatch.setattr(connections, "STALL_TIMEOUT_S", 0.125 * CHECKS_UNTIL_STALLED)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", MAX_CONNECTIONS)
    make(tmp_path, "code", FUNCTIONS)
    with listening(tmp_path, HashEncoder(), max_body_bytes=MAX_BODY) as url:
        yield url


@pytest.fixture
def check(url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have each connection checked so many times; the clock, which a busy machine would change, checks none."""
    scheduled: list[Connection] = []

    async def checked(connection: Connection) -> None:
        # What the client has sent and read arrives first.
        for _ in range(3):
            await asyncio.sleep(0)
        connection._check()

    def check(times: int) -> None:
        for _ in range(times):
            due = [each for each in scheduled if not each.transport.is_closing()]
            scheduled.clear()
            for connection in due:
                asyncio.run_coroutine_threadsafe(checked(connection), connection.loop).result(60)

    monkeypatch.setattr(Connection, "_schedule_check", lambda each: scheduled.append(each))
    return check


def connected(url: str, request: bytes = b"", buffer: int | None = None) -> socket.socket:
    """Open a connection and send a request; `buffer` is the size of its receive buffer in bytes."""
    opened = socket.socket()
    if buffer:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    opened.settimeout(60)
    opened.connect((urlsplit(url).hostname, urlsplit(url).port))
    opened.sendall(request)
    return opened


def ended(opened: socket.socket) -> bool:
    """Return whether the server closes the connection within the socket's timeout."""
    try:
        while opened.recv(2**16):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False

    return True


@pytest.mark.parametrize(
    "request_bytes",
    [b"", b"POST /search HTTP/1.1\r\nHost: x\r\n", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET"],
)
def test_an_incomplete_request_is_disconnected(url: str, request_bytes: bytes) -> None:
    with connected(url, request_bytes) as opened:
        assert ended(opened)


def test_a_body_sent_after_the_answer_is_disconnected(
    url: str, check: Callable[[int], None]
) -> None:
    with connected(url, b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n") as opened:
        assert b"200" in opened.recv(2**16)
        check(1)
        opened.sendall(b"x")
        check(CHECKS_UNTIL_STALLED)
        assert ended(opened)


def test_an_active_client_stays_connected(url: str, check: Callable[[int], None]) -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(url) as opened:
        for _ in range(3):
            opened.sendall(request)
            answer = b""
            while b"}" not in answer:
                answer += received(opened)

            assert answer.startswith(b"HTTP/1.1 200")

            # The first one finds a new request.
            check(CHECKS_UNTIL_STALLED)

        check(1)
        assert ended(opened)


def classified(texts: int) -> bytes:
    """Return a request whose reply has 6 kB for each text."""
    labels = ["x" * 990 + str(n) for n in range(6)]
    body = json.dumps({"texts": ["a"] * texts, "labels": labels}).encode()
    return HEAD % len(body) + body


def received(opened: socket.socket, max_bytes: int = 2**16) -> bytes:
    """Return the next bytes; fails if the server has closed the connection."""
    part = opened.recv(max_bytes)
    assert part, "the server has closed the connection"
    return part


def begun(opened: socket.socket) -> int:
    """Read the head of a reply and return how many bytes of its body are still to come."""
    head, _, body = received(opened, 4096).partition(b"\r\n\r\n")
    return int(re.findall(rb"content-length: (\d+)", head)[0]) - len(body)


def test_an_unread_reply_is_disconnected(url: str, check: Callable[[int], None]) -> None:
    with connected(url, classified(10_000), buffer=4096) as opened:
        promised = begun(opened)
        check(CHECKS_UNTIL_STALLED + 1)
        assert promised > 50_000_000
        assert sum(map(len, iter(lambda: opened.recv(2**16), b""))) < promised / 2


def test_a_slowly_read_reply_is_complete(
    url: str, check: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STALL_TIMEOUT_S", 2)
    with connected(url, classified(1_000), buffer=2**16) as opened:
        remaining = begun(opened)
        while remaining:
            remaining -= len(received(opened, min(remaining, 2**15)))
            check(1)


def test_the_longest_of_too_many_unread_replies_is_cut(
    url: str, check: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STALL_TIMEOUT_S", 60)
    monkeypatch.setattr(connections, "MAX_UNREAD_BYTES", 8_000_000)
    with (
        connected(url, classified(1_000), buffer=4096) as short,
        connected(url, buffer=4096) as long,
    ):
        short_bytes = begun(short)
        long.sendall(classified(1_200))
        long_bytes = begun(long)

        # Both together are over the limit: the longer one is cut short.
        check(1)

        assert sum(map(len, iter(partial(long.recv, 2**16), b""))) < long_bytes / 2

        while short_bytes:
            short_bytes -= len(received(short, min(short_bytes, 2**16)))


def test_each_reply_has_its_own_stall_timeout(url: str, check: Callable[[int], None]) -> None:
    with connected(url, buffer=2**16) as opened:
        for _ in range(3):
            opened.sendall(classified(250))
            remaining = begun(opened)
            # The first one finds a new request.
            check(CHECKS_UNTIL_STALLED)
            while remaining:
                remaining -= len(received(opened, min(remaining, 2**16)))


def test_connections_over_the_limit_are_closed(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "STALL_TIMEOUT_S", 30)
    connections._warn_of_closing.cache_clear()
    with ExitStack() as stack:
        held = [stack.enter_context(connected(url)) for _ in range(MAX_CONNECTIONS)]
        for _ in range(3):
            assert ended(stack.enter_context(connected(url)))
        warnings = [line for line in caplog.messages if "connections are closed" in line]
        # Two if a minute has just begun.
        assert len(warnings) in (1, 2)
        assert f"as {MAX_CONNECTIONS} are open" in warnings[0]

        held[0].close()
        until(lambda: answers(url))


def answers(url: str) -> bool:
    """Return whether the server accepts a connection and answers."""
    try:
        return httpx.get(f"{url}/livez", **PATIENTLY).status_code == 200
    except httpx.TransportError:
        return False


def test_connections_use_at_most_half_of_the_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (100, 4096))
    assert connections.max_connections() == 50


@pytest.mark.parametrize(
    ("head", "status", "words"),
    [
        (b"nonsense\r\n\r\n", 400, "not a valid HTTP request: illegal request line"),
        (b"GET /liv\x00ez HTTP/1.1\r\nHost: x\r\n\r\n", 400, "request line: 'GET /liv"),
        (b"GET /livez HTTP/1.1\r\n\r\n", 400, "not a valid HTTP request: Missing mandatory Host"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "bad Content-Length"),
        (
            b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * (MAX_HEAD_BYTES + 1),
            431,
            "may have at most 65,536 bytes: shorten them",
        ),
        (
            b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"X: a\r\n" * (MAX_HEAD_BYTES // 6) + b"\r\n",
            431,
            "may have at most 65,536 bytes: shorten them",
        ),
    ],
)
def test_what_is_no_request_is_told_why(url: str, head: bytes, status: int, words: str) -> None:
    with connected(url, head) as opened:
        reply = b"".join(iter(partial(opened.recv, 2**16), b""))
    beginning, body = reply.split(b"\r\n\r\n", 1)
    assert beginning.startswith(b"HTTP/1.1 %d " % status)
    assert b"content-type: application/problem+json" in beginning
    assert json.loads(body)["status"] == status
    assert words in json.loads(body)["detail"]


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_a_request_for_another_protocol_is_answered_without_a_warning(
    url: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": protocol}
    problem(httpx.get(f"{url}/socket", headers=headers, **PATIENTLY), 404)
    assert httpx.get(f"{url}/livez", headers=headers, **PATIENTLY).status_code == 200
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(url: str) -> None:
    """Another server might begin a new request after the other length."""
    head = (
        b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    with connected(url, head) as opened:
        reply = b"".join(iter(partial(opened.recv, 2**16), b""))

    beginning, body = reply.split(b"\r\n\r\n", 1)
    assert beginning.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in beginning.lower()
    assert "Content-Length and Transfer-Encoding: send one" in json.loads(body)["detail"]


def test_long_bodies_are_limited(url: str) -> None:
    part = b'{"texts": ["' + b"x" * (MAX_BODY - 4096)
    short = {"texts": ["one"], "labels": ["one", "two"]}
    long = short | {"texts": ["y" * (MAX_BODY // 2)]}
    send = partial(httpx.post, f"{url}/classify")
    replies: list[httpx.Response] = []

    with ExitStack() as stack:

        def send_endless_body() -> None:
            stack.enter_context(connected(url, HEAD % MAX_BODY + part))

        def is_refused() -> bool:
            replies.append(send(json=long))
            if replies[-1].status_code == 503:
                return True
            # It may have overtaken an endless body, which was refused in its place.
            send_endless_body()
            return False

        # Bodies that never end fill every slot for a long body.
        for _ in range(MAX_BODIES):
            send_endless_body()
        until(is_refused)
        refused = replies[-1]

        assert "as many long request bodies as it can" in problem(refused, 503)["detail"]
        assert refused.headers["retry-after"] == "1"
        assert send(json=short).status_code == 200

    until(lambda: send(json=long).status_code == 200)


# ---- the end of a server


def test_a_connection_accepted_at_the_end_does_not_keep_the_server_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, "code", FUNCTIONS)
    begin_shutdown = uvicorn.Server.shutdown
    client, accepted = socket.socketpair()
    client.settimeout(60)
    accepting: list[asyncio.Task[Any]] = []

    async def shutdown(server: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        """Accept a connection after those that uvicorn closes have been listed."""
        accepted.setblocking(False)
        accepting.append(asyncio.create_task(accept(server)))
        await begin_shutdown(server, sockets)

    async def accept(server: uvicorn.Server) -> None:
        protocol = partial(Connection, server.config, server.server_state, server.lifespan.state)
        await asyncio.get_running_loop().connect_accepted_socket(protocol, accepted)

    monkeypatch.setattr(uvicorn.Server, "shutdown", shutdown)
    with listening(tmp_path, HashEncoder(), shutdown_timeout_s=30):
        pass

    # Uvicorn alone would wait for the client until then.
    assert "shutdown exceeded" not in caplog.text
    with client:
        assert ended(client)


def test_requests_that_take_too_long_at_the_end_are_refused(tmp_path: Path) -> None:
    make(tmp_path, "code", FUNCTIONS)
    encoder = BlockingEncoder()
    post = partial(httpx.post, json={"query": "sort", "corpus": "code"}, **PATIENTLY)
    with listening(tmp_path, encoder, threads=1, queue=1, shutdown_timeout_s=1) as url:
        calls = [BackgroundCall(partial(post, f"{url}/search")) for _ in range(2)]
        until(lambda: len(encoder.calls) == 1)
        until(lambda: "purlin_waiting 1" in httpx.get(f"{url}/metrics", **PATIENTLY).text)

    # The thread of the first one still waits.
    encoder.permits.release()
    for call in calls:
        refused = call.outcome()
        assert problem(refused, 503)["type"] == "urn:purlin:problem:stopping"
        assert int(refused.headers["retry-after"]) > 0
