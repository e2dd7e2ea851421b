from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from purlin.app import slots
from purlin.app.overload import RequestQueue, client_gone
from tests.support.blocking import BackgroundCall, BlockingEncoder
from tests.support.serving import FUNCTIONS, make, problem, ready, until

SCOPE = {"type": "http", "method": "POST", "path": "/search", "headers": []}


class Client:
    """One request to an ASGI app: `send` sends (a part of) its body, `leave` disconnects."""

    def __init__(self, app: Any, path: str = "/search") -> None:
        self.replies: list[Message] = []
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.request = asyncio.create_task(
            app(SCOPE | {"path": path}, self._incoming.get, self._receive)
        )

    def send(self, body: bytes = b"{}", more: bool = False) -> None:
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def _receive(self, message: Message) -> None:
        self.replies.append(message)

    async def status(self) -> int | None:
        """The status of the reply, None without one."""
        await asyncio.wait_for(self.request, 20)
        return self.replies[0]["status"] if self.replies else None


class Work:
    """An app that answers when `finish` is set, and records the requests that it began."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.finish = asyncio.Event()
        self.gone: list[threading.Event | None] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message["body"]
            more = message.get("more_body", False)

        self.bodies.append(body)
        self.gone.append(client_gone.get())
        await self.finish.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def numbered_clients(queue: RequestQueue, count: int) -> list[Client]:
    """Clients that have sent their numbers, one after another."""
    clients = [Client(queue) for _ in range(count)]
    for number, client in enumerate(clients):
        client.send(b"%d" % number)
        await settle()
    return clients


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


def test_requests_beyond_the_queue_are_refused_at_once() -> None:
    async def scenario() -> None:
        work = Work()
        queue = RequestQueue(work, running=2, waiting=1, deadline_s=60)
        clients = await numbered_clients(queue, 5)
        assert [await client.status() for client in clients[3:]] == [503, 503]
        assert (b"retry-after", b"1") in clients[3].replies[0]["headers"]
        assert b"urn:purlin:problem:overloaded" in clients[3].replies[1]["body"]
        assert work.bodies == [b"0", b"1"]

        work.finish.set()
        assert [await client.status() for client in clients[:3]] == [200] * 3
        assert work.bodies == [b"0", b"1", b"2"]
        again = Client(queue)
        again.send()
        assert await again.status() == 200

    run(scenario)


def test_in_a_rush_half_run_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(slots, "time", SimpleNamespace(monotonic=lambda: now))

    async def scenario() -> None:
        nonlocal now
        first, second = Work(), Work()
        works = iter([first] * 4 + [second] * 9)
        queue = RequestQueue(
            lambda *arguments: next(works)(*arguments), running=4, waiting=3, deadline_s=60
        )

        # The last two are refused, which begins the rush.
        clients = await numbered_clients(queue, 8)
        now += 2 * slots.RUSH_S
        clients += await numbered_clients(queue, 1)
        assert [await client.status() for client in clients[7:]] == [503, 503]
        first.finish.set()
        assert [await client.status() for client in clients[:4]] == [200] * 4
        await settle()

        # b"6" still waits, though four could run outside of a rush.
        assert second.bodies == [b"4", b"5"]
        (refused,) = await numbered_clients(queue, 1)
        assert await refused.status() == 503

        now += 2 * slots.CALM_S
        calm = await numbered_clients(queue, 2)
        assert second.bodies == [b"4", b"5", b"0", b"1"]
        second.finish.set()
        assert [await client.status() for client in [*clients[4:7], *calm]] == [200] * 5

    run(scenario)


def test_requests_wait_until_their_deadline() -> None:
    async def scenario() -> None:
        work = Work()
        queue = RequestQueue(work, running=1, waiting=5, deadline_s=0.01)
        first, second = Client(queue), Client(queue)
        first.send()
        await settle()
        second.send()
        assert await second.status() == 503

        work.finish.set()
        assert await first.status() == 200
        assert len(work.bodies) == 1

    run(scenario)


def test_requests_of_gone_clients_are_dropped() -> None:
    async def scenario() -> None:
        work = Work()
        queue = RequestQueue(work, running=1, waiting=5, deadline_s=60)
        clients = await numbered_clients(queue, 3)
        clients[1].leave()
        assert await clients[1].status() is None

        gone = work.gone[0]
        assert gone is not None
        assert not gone.is_set()
        clients[0].leave()
        await settle()
        assert gone.is_set()

        work.finish.set()
        assert await clients[2].status() == 200
        assert work.bodies == [b"0", b"2"]

    run(scenario)


def test_slow_bodies_hold_no_slot() -> None:
    async def scenario() -> None:
        work = Work()
        work.finish.set()
        queue = RequestQueue(work, running=1, waiting=0, deadline_s=60)
        slow, quick, leaving = Client(queue), Client(queue), Client(queue)
        slow.send(b"a", more=True)
        leaving.send(b"x", more=True)
        leaving.leave()
        await settle()

        quick.send(b"q")
        assert await quick.status() == 200
        slow.send(b"b")
        assert await slow.status() == 200
        assert await leaving.status() is None
        assert work.bodies == [b"q", b"ab"]

    run(scenario)


def test_probes_pass_a_full_queue() -> None:
    async def scenario() -> None:
        work = Work()
        queue = RequestQueue(work, running=1, waiting=0, deadline_s=60)
        busy, probe = Client(queue), Client(queue, "/livez")
        busy.send()
        probe.send()
        await settle()
        assert len(work.bodies) == 2

        work.finish.set()
        assert [await busy.status(), await probe.status()] == [200, 200]

    run(scenario)


def test_slots_come_back_when_the_app_fails() -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        queue = RequestQueue(failing, running=1, waiting=2, deadline_s=60)
        clients = [Client(queue) for _ in range(3)]
        for client in clients:
            client.send()
        for client in clients:
            with pytest.raises(ZeroDivisionError):
                await client.status()

    run(scenario)


def test_a_thread_notices_that_its_request_is_cancelled() -> None:
    async def scenario() -> None:
        work = Work()
        queue = RequestQueue(work, running=1, waiting=1, deadline_s=60)
        clients = await numbered_clients(queue, 2)
        for client in clients:
            client.request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await client.status()

        assert work.gone[0] is not None
        assert work.gone[0].is_set()
        work.finish.set()
        (later,) = await numbered_clients(queue, 1)
        assert await later.status() == 200

    run(scenario)


def test_a_busy_server_refuses_requests(tmp_path: Path) -> None:
    make(tmp_path, "code", FUNCTIONS)
    encoder = BlockingEncoder()
    with ready(tmp_path, encoder, threads=1, queue=1) as client:
        # The corpus is open: the encoder's first call is that of a search.
        body = {"query": "sort", "corpus": "code"}
        first = BackgroundCall(lambda: client.post("/search", json=body))
        until(lambda: len(encoder.calls) == 1)

        later = [BackgroundCall(lambda: client.post("/search", json=body)) for _ in range(3)]
        until(lambda: sum(call.result is not None for call in later) == 2)
        assert client.get("/livez").status_code == 200

        encoder.permits.release(10)
        statuses = sorted(call.outcome().status_code for call in (first, *later))
        assert statuses == [200, 200, 503, 503]
        refused = next(call.result for call in later if call.result.status_code == 503)
        assert problem(refused, 503)["type"] == "urn:purlin:problem:overloaded"
        assert refused.headers["retry-after"] == "1"
