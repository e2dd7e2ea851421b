"""A worker of `purlin serve --workers N`: `python -m purlin.app.worker NUMBER DESCRIPTOR ...`.

The descriptors are those of `purlin.app.shared`, and last a socket to the supervisor. From it the
worker reads its settings, one line of JSON, and then connections, each sent as a descriptor. It
writes its state, one JSON object a line: `{"state": "started"}`, `{"state": "ready"}`, or
`{"problem": ...}` before it ends. It ends with its supervisor.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import uvicorn

from purlin.app.connections import Server
from purlin.app.keys import Keyring
from purlin.app.main import cpus_of_worker, create_app, server_config
from purlin.app.service import Service
from purlin.app.settings import Settings
from purlin.app.shared import Shared
from purlin.index.encoder.tuning import load_tuned
from purlin.index.errors import PurlinError

TICKS_PER_S = 10  # of uvicorn


class _Server(Server):
    """A server for connections that a supervisor has accepted."""

    def __init__(
        self, config: uvicorn.Config, keyring: Keyring, shared: Shared, control: socket.socket
    ) -> None:
        super().__init__(config, keyring)
        shared.listeners.append(self._take_keys)
        self._shared = shared
        self._control = control
        self._received = 0
        self._seen_keys = 0.0
        self._adopting: set[asyncio.Task[None]] = set()
        self._is_ready = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the service, and begin to take connections."""
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._shared.bell, self._shared.answer_bell)
        loop.add_reader(self._control, self._take_connections)
        self._shared.started[self._shared.number] = 1
        self._report(state="started")

    async def on_tick(self, counter: int) -> bool:
        """Report what has changed; uvicorn calls this ten times a second."""
        ends = await super().on_tick(counter)
        self._shared.beats[self._shared.number] += 1
        self._count_connections()

        service: Service = self.lifespan.state["service"]
        if not self._is_ready and service.ready():
            self._is_ready = True
            self._report(state="ready")

        # A client that has to connect again gets the worker with the fewest connections.
        if counter % TICKS_PER_S == 0 and self._shared.is_crowded():
            self.server_state.default_headers.append((b"connection", b"close"))
        return ends

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take what has been sent, and let running requests finish."""
        self._take_connections()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._control)

        if self._adopting:
            await asyncio.wait(self._adopting)

        self._shared.started[self._shared.number] = 0
        await super().shutdown(sockets)
        loop.remove_reader(self._shared.bell)

    def _take_keys(self) -> None:
        """Take the keys that the supervisor has read again, if there are new ones."""
        if self._shared.keys[0] != self._seen_keys:
            self._seen_keys = self._shared.keys[0]
            self._keyring.take(self._shared.read_page(self._shared.workers + 1).decode())

    def _take_connections(self) -> None:
        """Take all connections that the supervisor has sent; stop if it is gone."""
        while True:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
            except BlockingIOError:
                return
            except OSError:
                message, descriptors = b"", []

            if not message:
                self.should_exit = True
                asyncio.get_running_loop().remove_reader(self._control)
                return
            self._received += 1
            # There is none if this process has too many files open: the connection is closed then.
            for descriptor in descriptors:
                adopting = asyncio.create_task(self._adopt(socket.socket(fileno=descriptor)))
                self._adopting.add(adopting)
                adopting.add_done_callback(self._adopting.discard)

    async def _adopt(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        # The client may have left already.
        with suppress(OSError):
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    def _count_connections(self) -> None:
        remaining = len(self.server_state.connections) + len(self._adopting)
        self._shared.closed[self._shared.number] = self._received - remaining

    def _report(self, **report: str) -> None:
        with suppress(OSError):
            self._control.send(json.dumps(report).encode() + b"\n")


def _read_settings(control: socket.socket) -> Settings:
    line = b""
    while not line.endswith(b"\n"):
        received = control.recv(2**16)
        if not received:
            raise SystemExit("The supervisor has ended.")
        line += received

    values: dict[str, Any] = json.loads(line)
    return Settings(**values)


def main() -> None:
    """Serve until SIGTERM, or until the supervisor ends."""
    # It concerns the supervisor, however many processes get it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    number, *descriptors = map(int, sys.argv[1:])
    control = socket.socket(fileno=descriptors.pop())
    settings = _read_settings(control)
    shared = Shared.join(number, descriptors)
    try:
        # Workers that start together would measure each other.
        encoder = load_tuned(
            settings.encoder, measure=False, max_threads=cpus_of_worker(settings.workers)
        )
        keyring = settings.keyring()
        app = create_app(settings, encoder, shared, keyring)
    except PurlinError as error:
        control.sendall(json.dumps({"problem": error.message}).encode() + b"\n")
        raise SystemExit(1) from None

    control.setblocking(False)
    _Server(server_config(app, settings), keyring, shared, control).run(sockets=[])


if __name__ == "__main__":
    main()
