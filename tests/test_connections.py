"""Connections of clients that do not get on, against a real server on the loopback."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from urllib.parse import urlsplit

import httpx
import pytest

from app import connections
from app.limits import BODIES
from tests.conftest import HashEncoder
from tests.listening import listening
from tests.serving import FUNCTIONS, make, problem, until

HEAD = b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
MOST = 12
MAX_BODY = 2**20


@pytest.fixture
def url(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(connections, "LOOK_S", 0.1)
    monkeypatch.setattr(connections, "PATIENCE_S", 0.5)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", MOST)
    make(tmp_path, "code", FUNCTIONS, HashEncoder())
    with listening(tmp_path, HashEncoder(), max_body_bytes=MAX_BODY) as url:
        yield url


def connected(url: str, sent: bytes = b"", buffer: int | None = None) -> socket.socket:
    opened = socket.socket()
    if buffer:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    opened.settimeout(10)
    opened.connect((urlsplit(url).hostname, urlsplit(url).port))
    opened.sendall(sent)
    return opened


def ended(opened: socket.socket) -> bool:
    """Whether the server closes it, within the socket's timeout."""
    try:
        while opened.recv(2**16):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /search HTTP/1.1\r\nHost: x\r\n", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET"],
)
def test_a_request_that_does_not_come_ends_its_connection(url: str, sent: bytes) -> None:
    with connected(url, sent) as opened:
        assert ended(opened)


def test_a_body_that_is_still_sent_when_all_is_answered_ends_its_connection(url: str) -> None:
    with connected(url, b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n") as opened:
        assert b"200" in opened.recv(2**16)
        time.sleep(0.1)
        opened.sendall(b"x")
        assert ended(opened)


def test_a_client_that_goes_on_asking_is_kept(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 1)
    asked = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(url) as opened:
        for _ in range(12):
            opened.sendall(asked)
            answer = b""
            while b"}" not in answer:
                answer += received(opened)
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(0.1)


def classified(texts: int) -> bytes:
    """A request whose reply has 6 kB for each text."""
    body = json.dumps(
        {"texts": ["a"] * texts, "labels": ["x" * 990 + str(n) for n in range(6)]}
    ).encode()
    return HEAD % len(body) + body


def received(opened: socket.socket, most: int = 2**16) -> bytes:
    part = opened.recv(most)
    assert part, "the server has closed it"
    return part


def begun(opened: socket.socket) -> int:
    """Read the head of a reply: how many bytes of its body are still to come."""
    head, _, body = received(opened, 4096).partition(b"\r\n\r\n")
    return int(re.findall(rb"content-length: (\d+)", head)[0]) - len(body)


def test_a_reply_that_is_not_read_ends_its_connection(url: str) -> None:
    with connected(url, classified(10_000), buffer=4096) as opened:
        opened.settimeout(60)
        promised = begun(opened)
        time.sleep(2)
        assert promised > 50_000_000
        assert sum(map(len, iter(lambda: opened.recv(2**16), b""))) < promised / 2


def test_a_reply_that_is_read_slowly_arrives_whole(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 2)
    with connected(url, classified(1_000), buffer=2**16) as opened:
        left, slow = begun(opened), time.monotonic() + 4
        while left:
            left -= len(received(opened, min(left, 2**15)))
            time.sleep(0.1 if time.monotonic() < slow else 0)


def test_of_too_many_unread_replies_the_longest_goes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 60)
    monkeypatch.setattr(connections, "MAX_UNREAD", 8_000_000)
    with (
        connected(url, classified(1_000), buffer=4096) as short,
        connected(url, buffer=4096) as long,
    ):
        promised = begun(short)
        long.sendall(classified(1_200))
        expected = begun(long)
        time.sleep(1)
        assert sum(map(len, iter(partial(long.recv, 2**16), b""))) < expected / 2
        while promised:
            promised -= len(received(short, min(promised, 2**16)))


def test_replies_that_come_one_after_the_other_are_no_single_one(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOOK_S", 0.2)
    monkeypatch.setattr(connections, "PATIENCE_S", 1)
    with connected(url, buffer=2**16) as opened:
        for _ in range(12):
            opened.sendall(classified(250))
            left = begun(opened)
            time.sleep(0.3)
            while left:
                left -= len(received(opened, min(left, 2**16)))


def test_connections_beyond_the_limit_are_closed_at_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 30)
    with ExitStack() as stack:
        held = [stack.enter_context(connected(url)) for _ in range(MOST)]
        assert ended(stack.enter_context(connected(url)))
        held[0].close()
        until(lambda: answers(url))


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez").status_code == 200
    except httpx.TransportError:
        return False


def test_at_most_half_of_the_files_are_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (100, 4096))
    assert connections.most() == 50


def test_long_bodies_are_held_up_to_a_bound_and_short_ones_always(url: str) -> None:
    part = b'{"texts": ["' + b"x" * (MAX_BODY - 4096)
    ask = {"texts": ["one"], "labels": ["one", "two"]}
    send = partial(httpx.post, f"{url}/classify")
    long = ask | {"texts": ["y" * (MAX_BODY // 2)]}
    with ExitStack() as stack:
        for _ in range(BODIES):
            stack.enter_context(connected(url, HEAD % MAX_BODY + part))
        until(lambda: send(json=long).status_code == 503)
        refused = send(json=long)
        assert "as many long requests as it can" in problem(refused, 503)["detail"]
        assert refused.headers["retry-after"] == "1"
        assert send(json=ask).status_code == 200
    until(lambda: send(json=long).status_code == 200)
