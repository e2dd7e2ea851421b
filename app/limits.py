"""Bounds on what a request may send, and for how long."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODIES = 8  # of the greatest length, that are held at once
SMALL = 2**16  # bytes of a body that are held in any case


class BodyLimit:
    """Ends the reading of a body that is too long (413) or too slow (408), whatever its headers promised.

    All bodies together that are not answered yet may have BODIES times `max_bytes`; those that then arrive are refused
    (503) unless they are small.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int, timeout_s: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        body = _Body(receive, _promised(scope), self._max_bytes, self._timeout_s, self._hold)
        try:
            await self._app(scope, body.receive, send)
        finally:
            self._held -= body.arrived

    def _hold(self, body: _Body, size: int) -> None:
        self._held += size
        body.arrived += size
        if self._held > BODIES * self._max_bytes and body.arrived > SMALL:
            detail = "The server holds as many long requests as it can: try again in 1 s, or send less at a time."
            raise HTTPException(503, detail, {"Connection": "close", "Retry-After": "1"})


class _Body:
    """The body of one request, counted as it arrives."""

    def __init__(
        self,
        receive: Receive,
        promised: int,
        max_bytes: int,
        timeout_s: float,
        hold: Callable[[_Body, int], None],
    ) -> None:
        self.arrived = 0
        self._receive = receive
        self._hold = hold
        self._promised = promised
        self._max_bytes = max_bytes
        self._deadline = anyio.current_time() + timeout_s
        self._complete = False

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        self._check(self._promised)
        message = await self._next()
        self._hold(self, len(message.get("body", b"")))
        self._check(self.arrived)
        self._complete = not message.get("more_body", False)
        return message

    async def _next(self) -> Message:
        with anyio.move_on_after(self._deadline - anyio.current_time()):
            return await self._receive()
        raise HTTPException(408, "The body took too long to arrive.", {"Connection": "close"})

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            detail = f"The body may have at most {self._max_bytes:,} bytes: send less at a time."
            raise HTTPException(413, detail, {"Connection": "close"})


def _promised(scope: Scope) -> int:
    lengths = [
        value for name, value in scope["headers"] if name == b"content-length" and value.isdigit()
    ]
    return int(lengths[0][:20]) if lengths else 0
