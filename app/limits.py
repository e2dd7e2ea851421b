"""Bounds on what a request may send, and for how long."""

from __future__ import annotations

import anyio
from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """Ends the reading of a body that is too long (413) or too slow (408), whatever its headers promised."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, timeout_s: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        if scope["type"] == "http":
            receive = _Body(receive, _promised(scope), self._max_bytes, self._timeout_s).receive
        await self._app(scope, receive, send)


class _Body:
    """The body of one request, counted as it arrives."""

    def __init__(self, receive: Receive, promised: int, max_bytes: int, timeout_s: float) -> None:
        self._receive = receive
        self._promised = promised
        self._max_bytes = max_bytes
        self._deadline = anyio.current_time() + timeout_s
        self._arrived = 0
        self._complete = False

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        self._check(self._promised)
        message = await self._next()
        self._arrived += len(message.get("body", b""))
        self._check(self._arrived)
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
    lengths = [value for name, value in scope["headers"] if name == b"content-length" and value.isdigit()]
    return int(lengths[0][:20]) if lengths else 0
