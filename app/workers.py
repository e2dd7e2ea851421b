"""The supervisor of `purlin serve --workers N`: one listening socket, N processes that answer.

It accepts connections and hands each to the worker that has the fewest. So connections that stay open
spread evenly, which they would not if whichever process wakes first accepted them. It reads no
request.
"""

from __future__ import annotations

import json
import logging
import logging.config
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import FrameType

from purlin.app import logs
from purlin.app.connections import BACKLOG, bind, max_connections, url_of, warn_of_closing
from purlin.app.keys import Keyring
from purlin.app.settings import Settings
from purlin.app.shared import Shared
from purlin.app.slots import Slots
from purlin.index import builds
from purlin.index.encoder import is_static
from purlin.index.errors import PurlinError

# A worker that has run for this long is replaced at once; any other with a delay that grows each time.
SETTLED_S = 10.0
FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 30.0
# A worker whose event loop has not moved for so many checks hangs, and is replaced. Checks are counted
# rather than seconds, because none is made while the whole machine is paused.
CHECK_S, MAX_SILENT_CHECKS = 1.0, 60
_POLL_S = 0.02
EXIT_S = 5.0  # that a worker gets to end, beyond the time for its requests
# Finds how the encoder suits this machine, and remembers it.
_MEASURE = """\
import pathlib, sys
from purlin.index.encoder.tuning import load_tuned
load_tuned(pathlib.Path(sys.argv[1]))
"""

_log = logging.getLogger("purlin.workers")


class WorkerFailed(PurlinError):
    """A worker ended before the server had started; the message is the worker's own."""


@dataclass(slots=True)
class _Worker:
    """A process, and the socket by which it is sent connections and reports its state."""

    number: int
    process: subprocess.Popen[bytes]
    control: socket.socket
    born: float = field(default_factory=time.monotonic)
    received: bytes = b""
    started: bool = False
    ready: bool = False
    problem: str = ""
    beats: float = 0.0
    silent_checks: int = 0


def supervise(settings: Settings) -> None:
    """Serve with `settings.workers` processes until SIGTERM or SIGINT, then let requests finish.

    A worker that dies or hangs is started again. Raises InvalidInput if the address cannot be
    listened on or the keys are invalid, Damaged if the corpora cannot be listed, and WorkerFailed
    if a worker ends before it has started once.
    """
    builds.check_home(settings.home)
    logging.config.dictConfig(logs.config(settings.log))
    _Supervisor(settings, settings.keyring(), bind(settings.host, settings.port)).run()


class _Supervisor:
    """Starts workers, hands connections to them, and starts again what dies or hangs."""

    def __init__(
        self, settings: Settings, keyring: Keyring, listeners: Sequence[socket.socket]
    ) -> None:
        self._settings = settings
        self._keyring = keyring
        self._listeners = listeners
        self._shared = Shared.create(settings.workers)
        self._slots = Slots(self._shared, running=settings.threads, waiting=settings.queue)
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, _Worker] = {}

        # By the number of the worker: the last delay, and when it is due to be started again.
        self._delays: dict[int, float] = {}
        self._due: dict[int, float] = {}

        self._next_check = time.monotonic() + CHECK_S
        self._listening = False
        self._accepting = False
        self._stopping = False
        self._at_once = False

    def run(self) -> None:
        """Serve until a signal stops it."""
        try:
            with self._catching_signals():
                if not is_static(self._settings.encoder):
                    self._measure_encoder()
                for number in range(0 if self._stopping else self._settings.workers):
                    self._start(number)

                while not self._stopping:
                    for key, _ in self._selector.select(self._until_due()):
                        key.data()
                    self._start_due()
                    self._check_if_due()
                    self._read_keys_if_due()
        finally:
            self._stop()

    # ---- workers

    def _measure_encoder(self) -> None:
        """Have the encoder measured by a process, as workers that start together would measure each other.

        They report what is wrong with the encoder.
        """
        command = [sys.executable, "-c", _MEASURE, str(self._settings.encoder)]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as measuring:
            while measuring.poll() is None:
                if self._stopping:
                    measuring.kill()
                time.sleep(_POLL_S)

    def _start(self, number: int) -> None:
        """Start a worker. Raises OSError if the system is short of memory, files or processes."""
        control, worker_end = socket.socketpair()
        inherited = [*self._shared.files, worker_end.fileno()]
        with worker_end:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", "purlin.app.worker", str(number), *map(str, inherited)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=inherited,
                    # In a session of its own: Ctrl-C reaches the supervisor alone, which stops it in order.
                    start_new_session=True,
                )
            except OSError:
                control.close()
                raise

        settings = self._settings.model_dump(mode="json")
        # The text rather than the file, so that all workers have the same keys.
        settings |= {"keys": self._keyring.text, "keys_file": None}
        # A worker that ends before it reads is noticed by the end of its socket.
        with suppress(OSError):
            control.sendall(json.dumps(settings).encode() + b"\n")
        control.setblocking(False)

        worker = self._workers[number] = _Worker(number, process, control)
        self._selector.register(control, selectors.EVENT_READ, partial(self._read, worker))

    def _read(self, worker: _Worker) -> None:
        """Read what a worker reports, one JSON object a line; the end of its socket means its own end."""
        try:
            received = worker.control.recv(2**16)
        except BlockingIOError:
            return
        except OSError:
            received = b""

        *lines, worker.received = (worker.received + received).split(b"\n")
        for line in lines:
            self._note(worker, json.loads(line))
        if not received:
            self._replace(worker)

    def _note(self, worker: _Worker, report: dict[str, str]) -> None:
        worker.problem = report.get("problem", worker.problem)

        if report.get("state") == "started":
            worker.started = True
            if not self._listening:
                self._listen()
            self._accept_if_possible()
        elif report.get("state") == "ready":
            worker.ready = True
            _log.info("worker %d (process %d) is ready", worker.number, worker.process.pid)

    def _replace(self, worker: _Worker) -> None:
        """Have another worker started in place of one that has ended, at once or after a delay."""
        self._selector.unregister(worker.control)
        worker.control.close()
        status = _status(worker.process)
        del self._workers[worker.number]
        self._slots.reclaim(worker.number)
        self._accept_if_possible()
        if self._stopping:
            return
        if not self._listening:
            raise WorkerFailed(worker.problem or f"A worker could not start: it {status}.")

        settled = time.monotonic() - worker.born >= SETTLED_S
        delay_s = self._start_later(worker.number, at_once=settled)
        self._shared.restarts[0] += 1
        _log.error(
            "worker %d (process %d) %s; another is started in %.1f s. %s",
            worker.number,
            worker.process.pid,
            status,
            delay_s,
            worker.problem,
        )

    def _start_later(self, number: int, *, at_once: bool = False) -> float:
        """Have a worker started at once or after a longer delay than last time; returns the delay."""
        longer_s = max(FIRST_DELAY_S, 2 * self._delays.get(number, 0.0))
        delay_s = 0.0 if at_once else min(LONGEST_DELAY_S, longer_s)
        self._delays[number] = delay_s
        self._due[number] = time.monotonic() + delay_s
        return delay_s

    def _until_due(self) -> float:
        """Seconds until the next worker is to be started, or the next check."""
        return max(0.0, min([self._next_check, *self._due.values()]) - time.monotonic())

    def _start_due(self) -> None:
        now = time.monotonic()
        for number in [number for number, due in self._due.items() if due <= now]:
            del self._due[number]
            try:
                self._start(number)
            except OSError as error:
                delay_s = self._start_later(number)
                _log.error(
                    "worker %d cannot be started (%s); tried again in %.1f s",
                    number,
                    error,
                    delay_s,
                )

    def _check_if_due(self) -> None:
        """End workers whose event loops stand still."""
        if time.monotonic() < self._next_check:
            return

        self._next_check = time.monotonic() + CHECK_S
        for worker in self._workers.values():
            beats = self._shared.beats[worker.number]
            # A worker that starts or shuts down has no ticks.
            is_silent = self._shared.started[worker.number] == 1 and beats == worker.beats
            worker.silent_checks = worker.silent_checks + 1 if is_silent else 0
            worker.beats = beats
            self._end_if_hanging(worker)

    def _end_if_hanging(self, worker: _Worker) -> None:
        if worker.silent_checks == MAX_SILENT_CHECKS:
            # Logged a check earlier than the worker is ended: it may only be waiting to write its own log.
            _log.error(
                "worker %d (process %d) has not moved for %.0f s and is ended",
                worker.number,
                worker.process.pid,
                MAX_SILENT_CHECKS * CHECK_S,
            )
        elif worker.silent_checks > MAX_SILENT_CHECKS:
            worker.process.kill()

    def _read_keys_if_due(self) -> None:
        """Read the keys again after SIGHUP, and have all workers take them."""
        if not self._keyring.is_outdated:
            return

        self._keyring.read_again()
        self._shared.write_page(self._settings.workers + 1, self._keyring.text.encode())
        self._shared.keys[0] += 1
        self._shared.ring_others()

    # ---- connections

    def _listen(self) -> None:
        self._listening = True
        for listener in self._listeners:
            listener.setblocking(False)
            listener.listen(BACKLOG)
        workers = self._settings.workers
        _log.info("%d workers serve on %s", workers, url_of(self._listeners[0]))

    def _accept_if_possible(self) -> None:
        """Accept connections while any worker can take them; until then, they wait in the kernel."""
        possible = self._listening and bool(self._takers())
        if possible == self._accepting:
            return

        self._accepting = possible
        for listener in self._listeners:
            if possible:
                accept = partial(self._accept, listener)
                self._selector.register(listener, selectors.EVENT_READ, accept)
            else:
                self._selector.unregister(listener)

    def _takers(self) -> list[_Worker]:
        """Workers that connections go to: those with all corpora open, if there are any."""
        started = [worker for worker in self._workers.values() if worker.started]
        return [worker for worker in started if worker.ready] or started

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(BACKLOG):
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # The client has left already, or the system is short of something for a while.
                _log.warning("a connection cannot be accepted: %s", error)
                time.sleep(0.01)
                return

            with connection:
                self._hand_over(connection)

    def _hand_over(self, connection: socket.socket) -> None:
        """Send a connection to the worker with the fewest; close it beyond the limit.

        One whose event loop stands still gets it only if no other worker can take it.
        """
        shared = self._shared
        if sum(shared.sent) - sum(shared.closed) >= max_connections():
            warn_of_closing()
            return

        def load(worker: _Worker) -> tuple[bool, int]:
            return worker.silent_checks > 1, shared.open_connections(worker.number)

        for worker in sorted(self._takers(), key=load):
            # A worker that is about to end, or that does not read any more, cannot take it.
            with suppress(OSError):
                socket.send_fds(worker.control, [b"+"], [connection.fileno()])
                shared.sent[worker.number] += 1
                return

    # ---- the end

    @contextmanager
    def _catching_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGINT, where a second SIGINT waits for no requests; note SIGHUP."""
        wakeup, wakeup_end = socket.socketpair()
        wakeup.setblocking(False)
        wakeup_end.setblocking(False)
        self._selector.register(wakeup, selectors.EVENT_READ, lambda: wakeup.recv(2**10))

        previous_end = signal.set_wakeup_fd(wakeup_end.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop_soon)
        signal.signal(signal.SIGHUP, self._keyring.note_hangup)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous_end)
            self._selector.unregister(wakeup)
            wakeup.close()
            wakeup_end.close()

    def _stop_soon(self, number: int, _: FrameType | None) -> None:
        self._at_once = self._stopping and number == signal.SIGINT
        self._stopping = True

    def _stop(self) -> None:
        """Hand over the connections that wait, and end all workers when they are done."""
        for listener in self._listeners:
            if self._accepting:
                self._accept(listener)
            listener.close()

        for worker in self._workers.values():
            worker.process.terminate()
        deadline = time.monotonic() + self._settings.shutdown_timeout_s + EXIT_S
        while any(worker.process.poll() is None for worker in self._workers.values()):
            if self._at_once or time.monotonic() > deadline:
                for worker in self._workers.values():
                    worker.process.kill()
            time.sleep(_POLL_S)

        for worker in self._workers.values():
            worker.control.close()
        self._selector.close()
        self._shared.close()


def _status(process: subprocess.Popen[bytes]) -> str:
    """Return how a process that has closed its socket ended, as the rest of a sentence."""
    try:
        code = process.wait(EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()

    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with status {code}"
