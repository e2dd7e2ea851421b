"""Admission of requests: how many run, how many wait and for how long; the rest is refused."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from contextvars import ContextVar
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from purlin.app.access import accepted_scopes
from purlin.app.errors import ClientLeft
from purlin.app.metrics import Metrics
from purlin.app.problems import reply
from purlin.app.shared import Shared
from purlin.app.slots import Slots

RETRY_AFTER_S = 1

# Set when the client of the current request has closed its connection; None outside of requests.
client_gone: ContextVar[threading.Event | None] = ContextVar("client_gone", default=None)


def raise_if_client_gone() -> None:
    """Raise ClientLeft if the client of the current request has closed its connection."""
    gone = client_gone.get()
    if gone is not None and gone.is_set():
        raise ClientLeft("The client closed the connection before it was answered.")


class RequestQueue:
    """ASGI middleware that runs at most `running` requests while at most `waiting` more wait.

    A request waits for `deadline_s` at most. All others are refused at once with 503 and
    Retry-After. A request takes a slot only when its body has arrived, so that slow clients hold
    none, and gives it up when its client leaves. Probes and the page pass without waiting.

    Short bursts find slots. During a rush, when refusals go on, waiting would only make the
    accepted requests late: half as many run, rounded up, and none waits (cf. CoDel, RFC 8289).

    The limits hold for all workers that share a table together.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        running: int,
        waiting: int,
        deadline_s: float,
        metrics: Metrics | None = None,
        shared: Shared | None = None,
    ) -> None:
        self._app = app
        self._deadline_s = deadline_s
        self._running = 0
        # The waiting requests, each with the time at which it began to wait.
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()

        shared = shared or Shared()
        shared.listeners.append(self._collect)
        self._slots = Slots(shared, running=running, waiting=waiting)

        self._metrics = metrics or Metrics()
        self._metrics.running.set_function(lambda: self._running)
        self._metrics.waiting.set_function(lambda: len(self._waiting))
        self._metrics.running_limit.set(running)
        self._metrics.waiting_limit.set(waiting)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        if scope["type"] != "http" or accepted_scopes(scope["method"], scope["path"]) is None:
            await self._app(scope, receive, send)
        elif self._slots.is_full():
            await self._refuse(scope, receive, send)
        else:
            await self._admit(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, wait for a slot and run the request, unless its client leaves."""
        incoming = _Incoming(receive)
        reading = asyncio.create_task(incoming.read())
        try:
            await incoming.arrived.wait()
            if incoming.gone.is_set():
                return

            started = time.perf_counter()
            if await self._take_slot(incoming):
                self._metrics.stages({"queue": (time.perf_counter() - started) * 1000})
                await self._run(scope, incoming, send)
            elif not incoming.gone.is_set():
                await self._refuse(scope, receive, send)
        except asyncio.CancelledError:
            # A thread that works on it ends as if the client had left.
            incoming.gone.set()
            raise
        finally:
            reading.cancel()

    async def _take_slot(self, incoming: _Incoming) -> bool:
        """Wait for a slot; False if none is free before the deadline or the client leaves."""
        entered = self._slots.enter()
        if entered != "wait":
            self._running += entered == "run"
            return entered == "run"

        slot = asyncio.get_running_loop().create_future()
        self._waiting.append((slot, time.monotonic()))
        self._report_queue()
        try:
            await asyncio.wait(
                {slot, incoming.disconnected},
                timeout=self._deadline_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        except asyncio.CancelledError:
            self._give_up(slot)
            raise

        if slot.done() and not incoming.gone.is_set():
            return True
        self._give_up(slot)
        return False

    def _give_up(self, slot: asyncio.Future[None]) -> None:
        """Hand a granted slot on, or leave the queue."""
        if slot.done():
            self._release_slot()
        else:
            self._waiting = deque(waiter for waiter in self._waiting if waiter[0] is not slot)
            self._report_queue()

    def _report_queue(self) -> None:
        oldest = self._waiting[0][1] if self._waiting else 0.0
        self._slots.report_queue(len(self._waiting), oldest)

    async def _run(self, scope: Scope, incoming: _Incoming, send: Send) -> None:
        token = client_gone.set(incoming.gone)
        try:
            await self._app(scope, incoming.receive, send)
        finally:
            client_gone.reset(token)
            self._release_slot()

    def _release_slot(self) -> None:
        """Free a slot, and grant one to the request that has waited longest, here or elsewhere."""
        self._running -= 1
        if self._slots.release():
            self._grant()

    def _collect(self) -> None:
        """Use the slots that other workers have freed for requests of this one."""
        for _ in range(self._slots.collect()):
            self._grant()

    def _grant(self) -> None:
        """Give one of this worker's slots to its first request in the queue."""
        self._running += 1
        if not self._waiting:
            # The request that the slot was meant for has left meanwhile.
            self._release_slot()
            return

        slot, _ = self._waiting.popleft()
        slot.set_result(None)
        self._report_queue()

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._slots.note_refusal()
        self._metrics.refused.inc()

        response = reply(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"The server is at its limit of running and waiting requests: "
            f"try again in {RETRY_AFTER_S} s.",
            slug="overloaded",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )
        await response(scope, receive, send)


class _Incoming:
    """A request as it arrives, read ahead of the app so that a disconnect is noticed at once.

    `arrived` is set when the body is complete or never will be. `gone` and `disconnected` both say that
    the client has left: the one to threads, the other to the event loop.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: asyncio.Queue[Message | Exception] = asyncio.Queue()
        self.arrived = asyncio.Event()
        self.disconnected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone = threading.Event()

    async def read(self) -> None:
        """Read until the client leaves; an error is kept, and raised when the app reads."""
        try:
            await self._read_messages()
        except Exception as error:  # noqa: BLE001 - raised again in `receive`
            self._messages.put_nowait(error)
            self.arrived.set()

    async def _read_messages(self) -> None:
        while True:
            message = await self._receive()
            self._messages.put_nowait(message)
            if message["type"] == "http.disconnect":
                break
            if not message.get("more_body", False):
                self.arrived.set()

        self.gone.set()
        self.disconnected.set_result(None)
        self.arrived.set()

    async def receive(self) -> Message:
        """Return the next message of the request, as ASGI's `receive`."""
        message = await self._messages.get()
        if isinstance(message, Exception):
            raise message
        return message
