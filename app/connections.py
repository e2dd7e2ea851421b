"""Bounds on connections: how many may be open, and how long one may stay open without progress.

Uvicorn can limit requests (`limit_concurrency`) and idle time between them (`timeout_keep_alive`),
but not the number of connections, a request that never comes, or a reply that nobody reads.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import resource
import socket
import sys
import time
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from purlin.app.keys import Keyring
from purlin.app.problems import reply
from purlin.index.errors import InvalidInput

BACKLOG = 128  # connections that wait in the kernel
MAX_CONNECTIONS = 1_000
MAX_HEAD_BYTES = 2**16  # of a request's line and headers
STALL_TIMEOUT_S = 30.0
CHECK_INTERVAL_S = 5.0
MIN_BYTES_PER_S = 8 * 1024  # of a reply
MAX_UNREAD_BYTES = 256 << 20  # of all replies together
CLOSING_INTERVAL_S = 0.1

# The kernel takes this much of a reply before the client reads any; within it, progress is not seen.
SEND_BUFFER_BYTES = 2**17

_log = logging.getLogger("purlin.connections")


def max_connections() -> int:
    """Return the limit on connections: at most half of the files that the process may have open."""
    max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(MAX_CONNECTIONS, max_files // 2)


def accepted_at_once() -> int:
    """Return how many connections are accepted at a time.

    One beyond the limit is open for some rounds of the event loop before it is closed. If files ran out
    meanwhile, asyncio would log a traceback for each connection that it cannot accept.
    """
    return max(1, max_connections() // 16)


def warn_of_closing() -> None:
    """Log that a connection is closed because there are too many, once a minute at most."""
    _warn_of_closing(int(time.monotonic()) // 60)


@lru_cache(maxsize=1)
def _warn_of_closing(minute: int) -> None:
    limit = max_connections()
    more_files = f", or raise `ulimit -n` to {2 * MAX_CONNECTIONS:,}"
    _log.warning(
        "connections are closed unanswered, as %d are open: let clients share them by a proxy%s",
        limit,
        more_files if limit < MAX_CONNECTIONS else "",
    )


def bind(host: str, port: int) -> list[socket.socket]:
    """Bind a socket to each address of a host, and return the sockets, which do not listen yet.

    Port 0 stands for a free port, the same for all. Raises InvalidInput.
    """
    listeners: list[socket.socket] = []

    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            listener = socket.socket(family, kind, protocol)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address[0], port, *address[2:]))
            port = listener.getsockname()[1]
    except OSError as error:
        for listener in listeners:
            listener.close()
        message, field = _not_bound(host, port, error)
        raise InvalidInput(message, field=field) from error

    return listeners


def url_of(listener: socket.socket) -> str:
    """Return the URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _not_bound(host: str, port: int, error: OSError) -> tuple[str, str]:
    """Return why an address cannot be bound, with the remedy, and the setting that is wrong."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} of {host} is in use: stop the program that listens there, "
            "or set --port (PURLIN_PORT) to a free one.",
            "port",
        )

    if error.errno == errno.EACCES:
        return f"Listening on port {port} of {host} is not allowed: use one above 1023.", "port"

    return (
        f"{host!r} is not an address of this machine ({error.strerror}): "
        "set --host (PURLIN_HOST) to one.",
        "host",
    )


_QUOTED = re.compile(r"bytearray\(b(.*?)\)?$")


class _Requests(h11.Connection):
    """Reads requests; also refuses a long head that came at once, not only one that is still incomplete."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next part of a request. Raises RemoteProtocolError for a head over MAX_HEAD_BYTES."""
        event = super().next_event()
        if isinstance(event, h11.Request) and _head_bytes(event) > MAX_HEAD_BYTES:
            raise h11.RemoteProtocolError("The head is too long.", error_status_hint=431)
        return event


def _head_bytes(request: h11.Request) -> int:
    """Return the length of a request's line and headers, without what h11 strips from them."""
    line = len(request.method) + len(request.target) + len(b"  HTTP/1.1\r\n")
    headers = request.headers.raw_items()
    return line + sum(len(name) + len(value) + len(b": \r\n") for name, value in headers)


class Connection(H11Protocol):
    """Uvicorn's HTTP connection, closed when it makes no progress or when there are too many.

    - It stalls when for STALL_TIMEOUT_S no request's head is completed, or its reply is read at
      less than MIN_BYTES_PER_S. (The time for a request's body is limited in `purlin.app.limits`.)
    - A connection beyond `max_connections()` is closed as soon as it is accepted.
    - When unread replies exceed MAX_UNREAD_BYTES, the connection with the longest one is closed.
    """

    _next_check: asyncio.TimerHandle | None = None
    _stalled_s = 0.0

    # The values of the last check.
    _last_cycle: RequestResponseCycle | None = None
    _last_unread = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = _Requests(h11.SERVER, MAX_HEAD_BYTES)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; called by the event loop."""
        super().connection_made(transport)
        if len(self.connections) > max_connections():
            warn_of_closing()
            transport.abort()
            return

        connected = transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._schedule_check()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection; called by the event loop."""
        if self._next_check is not None:
            self._next_check.cancel()
        super().connection_lost(exc)

    def _should_upgrade(self) -> bool:
        """Answer a request for another protocol as one of HTTP; uvicorn would log a warning for each."""
        return False

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not a request, or has too long a head; called by uvicorn for h11's error."""
        error = sys.exception()
        is_long = getattr(error, "error_status_hint", 400) == 431
        # h11 quotes what was sent as Python writes it.
        cause = _QUOTED.sub(r"\1", ascii(str(error or msg))[1:-1][:200])
        detail = f"This is not a valid HTTP request: {cause}."
        if is_long:
            detail = f"The line and headers of a request may have at most {MAX_HEAD_BYTES:,} bytes: shorten them."
        answer = reply(HTTPStatus(431 if is_long else 400), detail, headers={"Connection": "close"})

        response = h11.Response(
            status_code=answer.status_code, headers=answer.raw_headers, reason=b""
        )
        for event in (response, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _schedule_check(self) -> None:
        self._next_check = self.loop.call_later(CHECK_INTERVAL_S, self._check)

    def _check(self) -> None:
        """Close the connection if it has stalled for too long or holds too much memory."""
        unread = self.transport.get_write_buffer_size()
        self._stalled_s = self._stalled_s + CHECK_INTERVAL_S if self._is_stalled(unread) else 0.0
        self._last_unread = unread
        self._last_cycle = self.cycle

        if self._stalled_s >= STALL_TIMEOUT_S or self._holds_too_much(unread):
            self.transport.abort()
        else:
            self._schedule_check()

    def _is_stalled(self, unread: int) -> bool:
        # A new cycle is a new request: the client makes progress.
        if self.cycle is not self._last_cycle:
            return False

        reply_stalls = unread > max(0.0, self._last_unread - MIN_BYTES_PER_S * CHECK_INTERVAL_S)
        between_requests = self.cycle is None or self.cycle.response_complete
        return reply_stalls or (not unread and between_requests)

    def _holds_too_much(self, unread: int) -> bool:
        """Return whether all unread replies together are too large and this one is the longest."""
        # A cheap test first: the longest is never below the mean.
        max_unread = MAX_UNREAD_BYTES // (self.config.workers or 1)
        if unread <= max_unread // len(self.connections):
            return False

        sizes = [connection.transport.get_write_buffer_size() for connection in self.connections]
        return sum(sizes) > max_unread and unread >= max(sizes)


class Server(uvicorn.Server):
    """Uvicorn's server, which at its end also closes the connections that were just being accepted.

    Uvicorn closes each connection after its reply once, at the beginning. One accepted at that moment
    would stay open, and a client that goes on sending would keep the server from ending in time.

    It reads the keys of `keyring` again when they are outdated.
    """

    _reading_keys: asyncio.Task[None] | None = None

    def __init__(self, config: uvicorn.Config, keyring: Keyring) -> None:
        super().__init__(config)
        self._keyring = keyring

    async def on_tick(self, counter: int) -> bool:
        """Do what is due; uvicorn calls this ten times a second."""
        is_reading = self._reading_keys is not None and not self._reading_keys.done()
        if self._keyring.is_outdated and not is_reading:
            # A disk that stands still does not hold up the server.
            reading = asyncio.to_thread(self._keyring.read_again)
            self._reading_keys = asyncio.create_task(reading)
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections; more than are accepted at a time wait in the kernel."""
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and let running requests finish."""
        closing = asyncio.create_task(self._close_connections())
        try:
            await super().shutdown(sockets)
        finally:
            closing.cancel()

    async def _close_connections(self) -> None:
        """Close each connection as soon as it has no running request."""
        while True:
            for connection in list(self.server_state.connections):
                if not connection.transport.is_closing():
                    connection.shutdown()
            await asyncio.sleep(CLOSING_INTERVAL_S)
