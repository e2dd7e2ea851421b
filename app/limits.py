"""Limits on request bodies: their size, number of values, time to arrive, and memory in total."""

from __future__ import annotations

import anyio
from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from purlin.app.shared import Shared

MAX_BODIES = 8  # bodies of the greatest size that may be held at once
SMALL_BODY_BYTES = 2**16  # bodies up to this size are always accepted
# Commas and opening brackets of a body: each may be a value, which takes many times its bytes in memory.
MAX_SEPARATORS = 1_000_000


class BodyLimit:
    """ASGI middleware that refuses a body of too many bytes or values (413), or one too slow (408).

    What counts is what has arrived, not what the headers promise. All bodies of unanswered requests
    together may have MAX_BODIES times `max_bytes`; beyond that, all but small bodies are refused (503).
    """

    def __init__(
        self, app: ASGIApp, *, max_bytes: int, timeout_s: float, shared: Shared | None = None
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._shared = shared or Shared()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        body = _Body(receive, scope, self._max_bytes, self._timeout_s, self._shared)
        try:
            await self._app(scope, body.receive, send)
        finally:
            self._shared.body_bytes[self._shared.number] -= body.size


class _Body:
    """The body of one request; `size` is the number of bytes that have arrived."""

    def __init__(
        self, receive: Receive, scope: Scope, max_bytes: int, timeout_s: float, shared: Shared
    ) -> None:
        self.size = 0
        self._separators = 0
        self._receive = receive
        self._content_length = _content_length(scope)
        self._has_two_lengths = _has_two_lengths(scope)
        self._max_bytes = max_bytes
        self._deadline = anyio.current_time() + timeout_s
        self._shared = shared
        self._complete = False

    async def receive(self) -> Message:
        """Return the next message of the request, as ASGI's `receive`."""
        if self._complete:
            return await self._receive()

        # A proxy in front may go by the other length, and take the rest of the body for a new request.
        if self._has_two_lengths:
            detail = "The request has both Content-Length and Transfer-Encoding: send one of them."
            raise HTTPException(400, detail, {"Connection": "close"})
        self._check(self._content_length)
        message = await self._next()
        chunk = message.get("body", b"")
        self._hold(len(chunk))
        self._check(self.size)
        self._check_values(chunk)
        self._complete = not message.get("more_body", False)
        return message

    async def _next(self) -> Message:
        with anyio.move_on_after(self._deadline - anyio.current_time()):
            return await self._receive()
        raise HTTPException(408, "The body took too long to arrive.", {"Connection": "close"})

    def _hold(self, size: int) -> None:
        """Count `size` more bytes."""
        # Each worker writes its own cell only, so that no lock is needed.
        self._shared.body_bytes[self._shared.number] += size
        self.size += size

        held = sum(self._shared.body_bytes)
        if held > MAX_BODIES * self._max_bytes and self.size > SMALL_BODY_BYTES:
            raise HTTPException(
                503,
                "The server holds as many long request bodies as it can: "
                "try again in 1 s, or send less at a time.",
                {"Connection": "close", "Retry-After": "1"},
            )

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            detail = f"The body may have at most {self._max_bytes:,} bytes: send less at a time."
            raise HTTPException(413, detail, {"Connection": "close"})

    def _check_values(self, chunk: bytes) -> None:
        self._separators += sum(map(chunk.count, (b",", b"{", b"[")))
        if self._separators > MAX_SEPARATORS:
            detail = (
                f"The body may have at most {MAX_SEPARATORS:,} commas and opening brackets: "
                "send less at a time."
            )
            raise HTTPException(413, detail, {"Connection": "close"})


def _content_length(scope: Scope) -> int:
    """Return the length that the headers promise; 0 without one."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            # Twenty digits exceed any limit, and int() refuses thousands of them.
            return int(value[:20])
    return 0


def _has_two_lengths(scope: Scope) -> bool:
    """Return whether the headers say in two ways where the body ends."""
    return {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}
