"""How much is worked on at once: a bounded queue with a deadline, and queries that are encoded together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus

import numpy as np
from numpy.typing import NDArray
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access import needs
from app.metrics import Metrics
from app.problems import Left, reply
from index.encoder import Role, TextEncoder, Vectors

RETRY_AFTER_S = 1
RUSH_S, CALM_S = (
    0.1,
    0.5,
)  # refusals for so long are a rush, which ends when there was none for so long
ALONE = 8  # texts in one call above which it is a batch of its own
TOGETHER = 32  # texts of several calls in one batch, about
BLOCK = 256  # texts after which a long call looks whether its client is still there

_left: ContextVar[threading.Event | None] = ContextVar("left", default=None)


# ---- requests


class Queue:
    """Lets `running` requests be worked on at once and `waiting` more wait for it, each for `deadline_s` at most.

    What is beyond that is refused at once with 503 and Retry-After. A request waits only when its body has arrived, so
    that slow clients hold no place, and is dropped when its client leaves. Probes and the page pass without waiting.

    A burst finds its places. In a rush, when refusals go on, places would only let those wait longer who have one:
    then half as many are worked on, rounded up, and none waits (cf. CoDel, RFC 8289).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        running: int,
        waiting: int,
        deadline_s: float,
        metrics: Metrics | None = None,
    ) -> None:
        self._app = app
        self._metrics = metrics or Metrics()
        self._metrics.running.set_function(lambda: self._running)
        self._metrics.waiting.set_function(lambda: len(self._waiting))
        self._most_running = running
        self._most_waiting = waiting
        self._deadline_s = deadline_s
        self._running = 0
        self._began = (
            self._refused
        ) = -CALM_S  # the first and the last refusal of a rush, by the monotonic clock
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        if scope["type"] != "http" or needs(scope["method"], scope["path"]) is None:
            await self._app(scope, receive, send)
        elif self._full():
            await self._refuse(scope, receive, send)
        else:
            await self._queue(scope, receive, send)

    def _places(self) -> tuple[int, int]:
        """How many may be worked on now, and how many may wait."""
        in_rush = self._refused - self._began > RUSH_S and time.monotonic() - self._refused < CALM_S
        return (
            ((self._most_running + 1) // 2, 0)
            if in_rush
            else (self._most_running, self._most_waiting)
        )

    def _full(self) -> bool:
        return not self._free() and len(self._waiting) >= self._places()[1]

    def _free(self) -> bool:
        return self._running < self._places()[0]

    async def _queue(self, scope: Scope, receive: Receive, send: Send) -> None:
        incoming = _Incoming(receive)
        listening = asyncio.create_task(incoming.listen())
        try:
            await incoming.arrived.wait()
            if incoming.left.is_set():
                return
            started = time.perf_counter()
            if await self._turn(incoming):
                self._metrics.stages({"queue": (time.perf_counter() - started) * 1000})
                await self._work(scope, incoming, send)
            elif not incoming.left.is_set():
                await self._refuse(scope, receive, send)
        finally:
            listening.cancel()

    async def _turn(self, incoming: _Incoming) -> bool:
        """Wait for a place; False where there is none in time, or the client left."""
        if self._free():
            self._running += 1
            return True
        if self._full():
            return False
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await asyncio.wait(
                {place, incoming.gone},
                timeout=self._deadline_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        except asyncio.CancelledError:
            self._give_up(place)
            raise
        if place.done() and not incoming.left.is_set():
            return True
        self._give_up(place)
        return False

    def _give_up(self, place: asyncio.Future[None]) -> None:
        if place.done():
            self._next()
        else:
            self._waiting.remove(place)

    async def _work(self, scope: Scope, incoming: _Incoming, send: Send) -> None:
        token = _left.set(incoming.left)
        try:
            await self._app(scope, incoming.receive, send)
        finally:
            _left.reset(token)
            self._next()

    def _next(self) -> None:
        """Free the place, and give who waits longest one if there is."""
        self._running -= 1
        if self._waiting and self._free():
            self._running += 1
            self._waiting.popleft().set_result(None)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        now = time.monotonic()
        if now - self._refused > CALM_S:
            self._began = now
        self._refused = now
        self._metrics.refused.inc()
        detail = f"The server has as much to do as it can: try again in {RETRY_AFTER_S} s."
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        await reply(HTTPStatus.SERVICE_UNAVAILABLE, detail, slug="overloaded", headers=headers)(
            scope, receive, send
        )


class _Incoming:
    """A request as it arrives, read ahead of the app so that its client's leaving is noticed at any time."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: asyncio.Queue[Message | Exception] = asyncio.Queue()
        self.arrived = asyncio.Event()  # the body is here, or there will be none
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.left = threading.Event()

    async def listen(self) -> None:
        """Read until the client leaves or something is wrong, which the app is told in its turn."""
        try:
            await self._read()
        except Exception as error:  # noqa: BLE001 - raised where the app asks for the body
            self._messages.put_nowait(error)
            self.arrived.set()

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            self._messages.put_nowait(message)
            if message["type"] == "http.disconnect":
                break
            if not message.get("more_body", False):
                self.arrived.set()
        self.left.set()
        self.gone.set_result(None)
        self.arrived.set()

    async def receive(self) -> Message:
        """What the app reads."""
        message = await self._messages.get()
        if isinstance(message, Exception):
            raise message
        return message


# ---- encoding


@dataclass(slots=True, eq=False)
class _Call:
    """A few texts that wait for their vectors, in a thread that waits for `ready`.

    `batch` is set in the first call of a batch: its thread encodes for all of them.
    """

    texts: Sequence[str]
    left: threading.Event | None
    ready: threading.Event = field(default_factory=threading.Event)
    batch: list[_Call] = field(default_factory=list)
    vectors: Vectors | None = None
    error: Exception | None = None


class SharedEncoder:
    """An encoder for many threads. Short calls that come while `at_once` others are encoding wait, and are then
    encoded together; nothing ever waits for a batch to fill, so that a single client waits for nothing at all.

    Long calls go to the encoder in blocks. A call whose client has left ends with `Left`.
    """

    def __init__(
        self, encoder: TextEncoder, *, at_once: int, metrics: Metrics | None = None
    ) -> None:
        self._encoder = encoder
        self._batch_texts = (metrics or Metrics()).batch_texts
        self.name = encoder.name
        self.dim = encoder.dim
        roles: tuple[Role, ...] = ("query", "passage")
        self._lanes = {role: _Lane(self._run, role, at_once) for role in roles}

    @property
    def fingerprint(self) -> str:
        """The encoder's."""
        return self._encoder.fingerprint

    @property
    def max_tokens(self) -> int:
        """The encoder's."""
        return self._encoder.max_tokens

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Tokens of each text with its prefix (len(texts),), uncut."""
        return self._encoder.count_tokens(texts, role=role)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Unit vectors (len(texts), dim) in the order given; `progress` is told how many more texts are done."""
        left = _left.get()
        if len(texts) <= ALONE and progress is None:
            return self._lanes[role].encode(texts, left)
        vectors: Vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), BLOCK):
            _check(left)
            block = texts[start : start + BLOCK]
            vectors[start : start + len(block)] = self._run(block, role, progress)
        return vectors

    def _run(
        self, texts: Sequence[str], role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        self._batch_texts.observe(len(texts))
        return self._encoder.encode(texts, role=role, progress=progress)


class _Lane:
    """Short calls of one role."""

    def __init__(
        self, run: Callable[[Sequence[str], Role], Vectors], role: Role, at_once: int
    ) -> None:
        self._run = run
        self._role = role
        self._free = at_once
        self._waiting: deque[_Call] = deque()
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str], left: threading.Event | None) -> Vectors:
        _check(left)
        call = _Call(texts, left)
        with self._lock:
            if self._free:
                self._free -= 1
                call.batch.append(call)
            else:
                self._waiting.append(call)
        if not call.batch:
            call.ready.wait()
        if call.batch:
            self._encode(call.batch)
        if call.error is not None:
            raise call.error
        assert call.vectors is not None
        return call.vectors

    def _encode(self, batch: list[_Call]) -> None:
        try:
            found = self._run([text for call in batch for text in call.texts], self._role)
            start = 0
            for call in batch:
                call.vectors = found[start : start + len(call.texts)]
                start += len(call.texts)
        except Exception as error:  # noqa: BLE001 - raised in the thread of each call
            for call in batch:
                call.error = error
        finally:
            self._hand_over()
            for call in batch[1:]:
                call.ready.set()

    def _hand_over(self) -> None:
        """Let the first call that waits encode for those behind it, as many as go together."""
        with self._lock:
            batch = self._gather()
            if not batch:
                self._free += 1
        if batch:
            batch[0].batch = batch
            batch[0].ready.set()

    def _gather(self) -> list[_Call]:
        batch: list[_Call] = []
        texts = 0
        while self._waiting and texts < TOGETHER:
            call = self._waiting.popleft()
            if call.left is not None and call.left.is_set():
                call.error = _gone()
                call.ready.set()
            else:
                batch.append(call)
                texts += len(call.texts)
        return batch


def _check(left: threading.Event | None) -> None:
    if left is not None and left.is_set():
        raise _gone()


def _gone() -> Left:
    return Left("The client left before it was answered.")
