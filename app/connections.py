"""Bounds on connections: how many there are, and how long one may hold its place without getting on."""

from __future__ import annotations

import asyncio
import resource
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

BACKLOG = 128  # connections that the system holds until they are taken, and that are taken at once
MAX_CONNECTIONS = 1_000
PATIENCE_S = 30.0
LOOK_S = 5.0
LEAST_RATE = 8 * 1024  # bytes/s of a reply
MAX_UNREAD = 256 << 20  # bytes of all replies that are not taken yet
SENT_AHEAD = (
    2**17
)  # bytes that the system takes of a reply before the client does: of them one sees no progress


def most() -> int:
    """How many connections there may be: at most half of the files that the process may have open."""
    return min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class Connection(H11Protocol):
    """Uvicorn's, which ends when for PATIENCE_S no request's head gets complete, or its replies are not taken at
    LEAST_RATE. How long a body may take is the business of `app.limits`. What is beyond `most()` is closed at once; of
    more than MAX_UNREAD bytes of replies the longest goes.
    """

    _looking: asyncio.TimerHandle | None = None
    _last: RequestResponseCycle | None = None  # as they were at the last look
    _unread = 0
    _stuck_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the loop."""
        super().connection_made(transport)
        if len(self.connections) > most():
            transport.abort()
        else:
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_AHEAD
            )
            self._looking = self.loop.call_later(LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        unread = self.transport.get_write_buffer_size()
        untaken = unread > max(0.0, self._unread - LEAST_RATE * LOOK_S)
        unasked = not unread and (self.cycle is None or self.cycle.response_complete)
        stuck = self.cycle is self._last and (untaken or unasked)
        self._stuck_s = self._stuck_s + LOOK_S if stuck else 0.0
        self._unread, self._last = unread, self.cycle
        if self._stuck_s >= PATIENCE_S or self._takes_too_much(unread):
            self.transport.abort()
        else:
            self._looking = self.loop.call_later(LOOK_S, self._look)

    def _takes_too_much(self, unread: int) -> bool:
        """Whether this is the longest reply of too many bytes: only one above the mean can be."""
        if unread <= MAX_UNREAD // len(self.connections):
            return False
        waiting = [one.transport.get_write_buffer_size() for one in self.connections]
        return sum(waiting) > MAX_UNREAD and unread >= max(waiting)
