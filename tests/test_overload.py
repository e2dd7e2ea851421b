from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.types import Message, Receive, Scope, Send

from app import overload
from app.overload import BLOCK, TOGETHER, Queue, SharedEncoder, _left
from app.problems import Left
from index.encoder import Role, Vectors
from tests.conftest import HashEncoder
from tests.serving import FUNCTIONS, make, problem, serving

SCOPE = {"type": "http", "method": "POST", "path": "/search", "headers": []}


class Client:
    """One request to an ASGI app: its body arrives when `send` is called, and it leaves when `leave` is."""

    def __init__(self, app: Any, path: str = "/search") -> None:
        self.sent: list[Message] = []
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.answered = asyncio.create_task(
            app(SCOPE | {"path": path}, self._incoming.get, self._take)
        )

    def send(self, body: bytes = b"{}", more: bool = False) -> None:
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def _take(self, message: Message) -> None:
        self.sent.append(message)

    async def status(self) -> int | None:
        await asyncio.wait_for(self.answered, 20)
        return self.sent[0]["status"] if self.sent else None


class Work:
    """An app that answers when it is told to, and remembers what it worked on."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.finish = asyncio.Event()
        self.left: list[threading.Event | None] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message["body"]
            more = message.get("more_body", False)
        self.bodies.append(body)
        self.left.append(_left.get())
        await self.finish.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def asking(queue: Queue, count: int) -> list[Client]:
    """Clients that have sent their numbers, one after another."""
    clients = [Client(queue) for _ in range(count)]
    for number, client in enumerate(clients):
        client.send(b"%d" % number)
        await settle()
    return clients


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


def test_what_is_beyond_the_queue_is_refused_at_once() -> None:
    async def scenario() -> None:
        work = Work()
        queue = Queue(work, running=2, waiting=1, deadline_s=60)
        clients = await asking(queue, 5)
        assert [await client.status() for client in clients[3:]] == [503, 503]
        assert (b"retry-after", b"1") in clients[3].sent[0]["headers"]
        assert b"urn:purlin:problem:overloaded" in clients[3].sent[1]["body"]
        assert work.bodies == [b"0", b"1"]
        work.finish.set()
        assert [await client.status() for client in clients[:3]] == [200] * 3
        assert work.bodies == [b"0", b"1", b"2"]
        again = Client(queue)
        again.send()
        assert await again.status() == 200

    run(scenario)


def test_in_a_rush_half_as_many_work_and_none_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overload, "RUSH_S", 0.0)
    monkeypatch.setattr(overload, "CALM_S", 0.3)

    async def scenario() -> None:
        first, second = Work(), Work()
        works = iter([first] * 4 + [second] * 9)
        queue = Queue(lambda *given: next(works)(*given), running=4, waiting=3, deadline_s=60)
        clients = await asking(queue, 9)  # the last two are refused: it is a rush
        assert [await client.status() for client in clients[7:]] == [503, 503]
        first.finish.set()
        assert [await client.status() for client in clients[:4]] == [200] * 4
        await settle()
        assert second.bodies == [b"4", b"5"]  # b"6" waits, though four could be worked on
        (refused,) = await asking(queue, 1)
        assert await refused.status() == 503
        await asyncio.sleep(0.35)
        calm = await asking(queue, 2)
        assert second.bodies == [b"4", b"5", b"0", b"1"]
        second.finish.set()
        assert [await client.status() for client in [*clients[4:7], *calm]] == [200] * 5

    run(scenario)


def test_a_request_waits_no_longer_than_its_deadline() -> None:
    async def scenario() -> None:
        work = Work()
        queue = Queue(work, running=1, waiting=5, deadline_s=0.01)
        first, second = Client(queue), Client(queue)
        first.send()
        await settle()
        second.send()
        assert await second.status() == 503
        work.finish.set()
        assert await first.status() == 200
        assert len(work.bodies) == 1

    run(scenario)


def test_a_client_that_leaves_is_not_worked_for() -> None:
    async def scenario() -> None:
        work = Work()
        queue = Queue(work, running=1, waiting=5, deadline_s=60)
        clients = await asking(queue, 3)
        clients[1].leave()
        assert await clients[1].status() is None
        assert work.left[0] is not None
        assert not work.left[0].is_set()
        clients[0].leave()
        await settle()
        assert work.left[0].is_set()
        work.finish.set()
        assert await clients[2].status() == 200
        assert work.bodies == [b"0", b"2"]

    run(scenario)


def test_a_body_that_takes_its_time_holds_no_place() -> None:
    async def scenario() -> None:
        work = Work()
        work.finish.set()
        queue = Queue(work, running=1, waiting=0, deadline_s=60)
        slow, quick, gone = Client(queue), Client(queue), Client(queue)
        slow.send(b"a", more=True)
        gone.send(b"x", more=True)
        gone.leave()
        await settle()
        quick.send(b"q")
        assert await quick.status() == 200
        slow.send(b"b")
        assert await slow.status() == 200
        assert await gone.status() is None
        assert work.bodies == [b"q", b"ab"]

    run(scenario)


def test_probes_pass_a_full_queue() -> None:
    async def scenario() -> None:
        work = Work()
        queue = Queue(work, running=1, waiting=0, deadline_s=60)
        busy, probe = Client(queue), Client(queue, "/livez")
        busy.send()
        probe.send()
        await settle()
        assert len(work.bodies) == 2
        work.finish.set()
        assert [await busy.status(), await probe.status()] == [200, 200]

    run(scenario)


def test_places_come_back_whatever_the_app_does() -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        queue = Queue(failing, running=1, waiting=2, deadline_s=60)
        clients = [Client(queue) for _ in range(3)]
        for client in clients:
            client.send()
        for client in clients:
            with pytest.raises(ZeroDivisionError):
                await client.status()
        cancelled = Client(Queue(Work(), running=1, waiting=0, deadline_s=60))
        cancelled.answered.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled.status()

    run(scenario)


class SlowEncoder(HashEncoder):
    """Encodes when it is told to, and remembers its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self.go = threading.Semaphore(0)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        self.calls.append(list(texts))
        self.go.acquire()
        if "bad" in texts:
            raise ZeroDivisionError("bad")
        return super().encode(texts, role=role, progress=progress)


class Thread(threading.Thread):
    """A thread that keeps what its call returned or raised."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.result: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:  # noqa: BLE001 - for the test to look at
            self.result = error

    def outcome(self) -> Any:
        self.join(20)
        assert not self.is_alive()
        return self.result


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def calling(shared: SharedEncoder, texts: Sequence[str], waiting: int) -> Thread:
    """A thread that encodes; returns when that many calls wait."""
    thread = Thread(lambda: shared.encode(texts, role="query"))
    until(lambda: len(shared._lanes["query"]._waiting) == waiting)
    return thread


@pytest.fixture
def slow() -> Iterator[SlowEncoder]:
    encoder = SlowEncoder()
    yield encoder
    encoder.go.release(1_000)


def test_calls_that_come_while_others_encode_are_encoded_together(slow: SlowEncoder) -> None:
    shared = SharedEncoder(slow, at_once=1)
    threads = [calling(shared, ["first"], 0)]
    until(lambda: len(slow.calls) == 1)
    threads += [calling(shared, [f"text {n}", f"more {n}"], n) for n in range(1, 4)]
    slow.go.release(2)
    found = [thread.outcome() for thread in threads]
    assert slow.calls == [["first"], ["text 1", "more 1", "text 2", "more 2", "text 3", "more 3"]]
    for vectors, texts in zip(
        found, [["first"], *(slow.calls[1][n : n + 2] for n in (0, 2, 4))], strict=True
    ):
        np.testing.assert_array_equal(vectors, HashEncoder().encode(texts, role="query"))


def test_a_single_client_waits_for_nobody(slow: SlowEncoder) -> None:
    shared = SharedEncoder(slow, at_once=2)
    slow.go.release(3)
    for text in ("a", "b", "c"):
        assert shared.encode([text], role="query").shape == (1, slow.dim)
    assert slow.calls == [["a"], ["b"], ["c"]]


def test_a_batch_has_its_bounds(slow: SlowEncoder) -> None:
    shared = SharedEncoder(slow, at_once=1)
    threads = [calling(shared, ["first"], 0)]
    until(lambda: len(slow.calls) == 1)
    threads += [calling(shared, [f"{n}"], n) for n in range(1, TOGETHER + 4)]
    slow.go.release(3)
    assert all(len(thread.outcome()) == 1 for thread in threads)
    assert [len(call) for call in slow.calls] == [1, TOGETHER, 3]


def test_a_failure_reaches_those_it_concerns_and_the_next_goes_on(slow: SlowEncoder) -> None:
    shared = SharedEncoder(slow, at_once=1)
    threads = [calling(shared, ["first"], 0)]
    until(lambda: len(slow.calls) == 1)
    threads += [calling(shared, ["bad"], 1), calling(shared, ["good"], 2)]
    slow.go.release(3)
    assert [type(thread.outcome()) for thread in threads] == [
        np.ndarray,
        ZeroDivisionError,
        ZeroDivisionError,
    ]
    assert shared.encode(["after"], role="query").shape == (1, slow.dim)


def test_who_left_is_not_encoded_for(slow: SlowEncoder) -> None:
    shared = SharedEncoder(slow, at_once=1)
    left = threading.Event()

    def encode_for_one_who_leaves() -> Vectors:
        _left.set(left)
        return shared.encode(["nobody reads this"], role="query")

    first = calling(shared, ["first"], 0)
    until(lambda: len(slow.calls) == 1)
    gone = Thread(encode_for_one_who_leaves)
    until(lambda: len(shared._lanes["query"]._waiting) == 1)
    left.set()
    slow.go.release(1)
    assert len(first.outcome()) == 1
    assert isinstance(gone.outcome(), Left)
    assert isinstance(Thread(encode_for_one_who_leaves).outcome(), Left)
    assert slow.calls == [["first"]]


def test_a_long_call_is_split_and_ends_with_its_client() -> None:
    left = threading.Event()
    encoder = HashEncoder()
    shared = SharedEncoder(encoder, at_once=1)
    texts = [f"text {n}" for n in range(BLOCK * 2 + 5)]
    done: list[int] = []

    def encode() -> Vectors:
        _left.set(left)
        return shared.encode(texts, role="passage", progress=done.append)

    np.testing.assert_array_equal(
        Thread(encode).outcome(), HashEncoder().encode(texts, role="passage")
    )
    assert done == [BLOCK, BLOCK, 5]

    def leave(count: int) -> None:
        done.append(count)
        left.set()

    def encode_until_left() -> Vectors:
        _left.set(left)
        return shared.encode(texts, role="passage", progress=leave)

    assert isinstance(Thread(encode_until_left).outcome(), Left)
    assert done == [BLOCK, BLOCK, 5, BLOCK]


def test_the_server_refuses_what_it_cannot_do_in_time(tmp_path: Path) -> None:
    make(tmp_path, "code", FUNCTIONS, HashEncoder())
    slow = SlowEncoder()
    with serving(tmp_path, slow, threads=1, queue=1, queue_timeout_s=20) as client:
        client.post("/search", json={"query": "sort", "corpus": "code", "mode": "lexical"})
        body = {"query": "sort", "corpus": "code"}
        first = Thread(lambda: client.post("/search", json=body))
        until(lambda: len(slow.calls) == 1)
        others = [Thread(lambda: client.post("/search", json=body)) for _ in range(3)]
        until(lambda: sum(other.result is not None for other in others) == 2)
        assert client.get("/livez").status_code == 200
        slow.go.release(10)
        statuses = sorted(one.outcome().status_code for one in (first, *others))
        assert statuses == [200, 200, 503, 503]
        refused = next(other.result for other in others if other.result.status_code == 503)
        assert problem(refused, 503)["type"] == "urn:purlin:problem:overloaded"
        assert refused.headers["retry-after"] == "1"
