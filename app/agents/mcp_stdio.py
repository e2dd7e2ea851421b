"""The Model Context Protocol over stdin and stdout: one message of JSON a line.

One thread reads and answers what takes no time; calls of tools run beside each other in a few
others, so that a slow one neither delays the rest nor the notification that cancels it. Answers
come in the order in which they are ready, as JSON-RPC allows.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from purlin.app.agents import mcp
from purlin.app.agents.mcp import Caller, JsonObject, Refused, RequestId
from purlin.index.lookups import Once

if TYPE_CHECKING:
    from purlin.app.agents.backend import Backend

# As the largest body of an HTTP request.
MAX_LINE_BYTES = 16 * 2**20
MAX_UNDER_WAY = 64
# More than an agent calls at once: while there is no index, each call waits for it in a worker.
WORKERS = 16
# Time between two notifications of progress.
PROGRESS_S = 2.0
# How long a call may wait until this has started and the repository is indexed, on a machine so busy
# that the limits of `fresh` come too late: less than the minute after which many clients give up.
LATE_S = 50.0
_LATE = "Purlin is not ready yet ({}). Call again in a minute; until then, use grep."
# Methods that a worker answers, because they load or run a tool.
_SLOW = ("tools/list", "tools/call")

_log = logging.getLogger("purlin.mcp")


@dataclass(slots=True, eq=False)
class _UnderWay:
    """A request that a worker answers: when it came, and the token of its notifications of progress.

    `thread` is the worker's, once it has begun.
    """

    message: JsonObject
    id: RequestId
    stateless: bool
    started_s: float
    progress_token: RequestId | None
    thread: int | None = None


class StdioServer:
    """Answers the messages of one client.

    `open_backend` returns what the tools work on. It is called once, in the background, when the
    first message has been answered.
    """

    def __init__(
        self, open_backend: Callable[[], Backend], source: BinaryIO, sink: BinaryIO
    ) -> None:
        self._backend = Once(open_backend)
        self._caller = Caller(self._backend)

        self._source = source
        self._sink = sink
        self._write_lock = threading.Lock()

        # Requests that a worker has or will get, oldest first; a cancelled one is no longer among them,
        # and its id may be that of another.
        self._under_way: dict[RequestId, _UnderWay] = {}
        self._lock = threading.Lock()
        # That there is a request for a worker, or that the input has ended.
        self._has_more = threading.Condition(self._lock)
        self._is_ended = False

    def run(self) -> None:
        """Answer messages until the input ends, and finish the calls that are under way then."""
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        ended = threading.Event()
        threading.Thread(target=self._attend, args=(ended,), daemon=True).start()

        warm_up = None
        while line := self._source.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                self._skip_line(line)
            elif line.strip():
                self._receive(line)
                warm_up = warm_up or self._warm_up()

        with self._lock:
            self._is_ended = True
            self._has_more.notify_all()
        for worker in workers:
            worker.join()
        ended.set()

    def _warm_up(self) -> threading.Thread:
        """Open the backend beside the messages that come before the first call of a tool."""
        thread = threading.Thread(target=self._backend, daemon=True)
        thread.start()
        return thread

    def _skip_line(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self._source.readline(MAX_LINE_BYTES)
        error = Refused(
            mcp.INVALID_REQUEST,
            f"The message has more than {MAX_LINE_BYTES:,} bytes: send less in one call.",
        )
        self._write({"error": error.error}, None)

    def _receive(self, line: bytes) -> None:
        """Answer a message, or hand it to a worker."""
        message_id: RequestId | None = None
        try:
            message = mcp.parse(line)
            if not mcp.is_request(message):
                self._note(message)
                return

            message_id = mcp.request_id(message)
            stateless = _is_stateless(message)
            if message["method"] in _SLOW:
                self._enqueue(message, message_id, stateless)
            else:
                result = mcp.answer(message, self._caller, stateless=stateless)
                self._write({"result": result}, message_id)
        except Refused as error:
            self._write({"error": error.error}, message_id)

    def _note(self, message: JsonObject) -> None:
        """Take notice of a notification; only that of a cancellation matters.

        None is answered, not even with an error: one that is malformed has no effect.
        """
        details = message.get("params")
        if message.get("method") != "notifications/cancelled" or not isinstance(details, dict):
            return

        cancelled = mcp.as_id(details.get("requestId"))
        if cancelled is not None:
            with self._lock:
                self._under_way.pop(cancelled, None)

    def _enqueue(self, message: JsonObject, message_id: RequestId, stateless: bool) -> None:
        token = mcp.progress_token(message)
        under_way = _UnderWay(message, message_id, stateless, time.monotonic(), token)
        with self._lock:
            if message_id in self._under_way:
                raise Refused(mcp.INVALID_REQUEST, "Another request with this id is under way.")
            if len(self._under_way) >= MAX_UNDER_WAY:
                raise Refused(
                    mcp.INVALID_REQUEST,
                    f"{MAX_UNDER_WAY} requests are under way: wait for their answers.",
                )

            self._under_way[message_id] = under_way
            self._has_more.notify()

    # ---- workers

    def _work(self) -> None:
        while (request := self._next()) is not None:
            self._answer(request)

    def _next(self) -> _UnderWay | None:
        """The oldest request that no worker has, for this thread; None at the end of the input."""
        with self._lock:
            while True:
                for request in self._under_way.values():
                    if request.thread is None:
                        request.thread = threading.get_ident()
                        return request
                if self._is_ended:
                    return None
                self._has_more.wait()

    def _answer(self, request: _UnderWay) -> None:
        message = request.message
        try:
            reply = {"result": mcp.answer(message, self._caller, stateless=request.stateless)}
        except Refused as refused:
            reply = {"error": refused.error}
        except Exception:  # noqa: BLE001 - the next request must be answered, too
            _log.exception("%s failed", message["method"])
            text = "Something went wrong in the server; see its stderr for details."
            reply = {"error": {"code": mcp.INTERNAL_ERROR, "message": text}}

        self._end(request, reply)

    def _end(self, request: _UnderWay, reply: JsonObject) -> None:
        """Send the reply to a request that is still awaited."""
        with self._lock:
            is_awaited = self._is_awaited(request)
            if is_awaited:
                del self._under_way[request.id]
        if is_awaited:
            self._write(reply, request.id)

    def _is_awaited(self, request: _UnderWay) -> bool:
        """Whether a request was neither cancelled nor answered."""
        return self._under_way.get(request.id) is request

    # ---- output

    def _attend(self, ended: threading.Event) -> None:
        """Tell calls what they wait for, a worker or the index, and those that wait too long to come again."""
        while not ended.wait(PROGRESS_S):
            backend = self._backend.value
            with self._lock:
                calls = [
                    request
                    for request in self._under_way.values()
                    if request.message["method"] == "tools/call"
                ]

            for request in calls:
                seconds = time.monotonic() - request.started_s
                progress: str | None = "starting"
                if backend is not None:
                    thread = request.thread
                    progress = backend.progress(thread) if thread else "waiting for other calls"
                if progress is None:
                    continue

                if seconds > LATE_S:
                    self._end(request, {"result": mcp.failed(_LATE.format(progress))})
                elif request.progress_token is not None:
                    line = mcp.encode_progress(request.progress_token, seconds, progress)
                    self._send(line, request)

    def _write(self, reply: JsonObject, message_id: RequestId | None) -> None:
        self._send(mcp.encode(reply, message_id))

    def _send(self, line: str, request: _UnderWay | None = None) -> None:
        """Write a line; a notification about a request only until this is answered."""
        with self._write_lock:
            if request is not None and not self._is_awaited(request):
                return
            try:
                self._sink.write(line.encode() + b"\n")
                self._sink.flush()
            except (BrokenPipeError, ValueError):
                # The client no longer reads; its input ends, too.
                _log.info("An answer was dropped: the client has closed its end.")


def _is_stateless(message: JsonObject) -> bool:
    """Whether a request carries its version (2026-07-28). Raises Refused."""
    version = mcp.meta(message).get(mcp.VERSION_KEY)
    if version is None:
        return False
    stateless = mcp.check_version(version)
    if stateless:
        mcp.check_envelope(message)
    return stateless
