"""Log lines as JSON, one object a line, with the ids that identify a request."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_PATH_CHARS = 200
MAX_ADDRESS_CHARS = 64
# Asked every few seconds by proxies and Prometheus: only failures say something.
PROBES = frozenset(["/livez", "/readyz", "/metrics"])
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")

# https://www.w3.org/TR/trace-context/: version, trace id, parent id, flags
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)

_log = logging.getLogger("purlin.requests")


@dataclass(frozen=True, slots=True)
class Trace:
    """Ids of a request. `trace_id` and `parent_id` (32 and 16 hex digits) are those of the W3C.

    `span_id` is this server's span. `sampled` says whether the client records its own span.
    """

    request_id: str
    trace_id: str
    span_id: str
    parent_id: str | None = None
    sampled: bool = False


_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)


def trace_of(headers: Headers) -> Trace:
    """Return the ids in `X-Request-ID` and `traceparent`, or new ones where they are not well-formed."""
    request_id = headers.get("x-request-id", "")
    if not _REQUEST_ID.fullmatch(request_id):
        request_id = secrets.token_hex(16)

    traceparent = headers.get("traceparent", "")
    match = _TRACEPARENT.fullmatch(traceparent)
    # Only versions after 00 may have more fields.
    if match is None or (traceparent.startswith("00") and match[4]):
        return Trace(request_id, secrets.token_hex(16), secrets.token_hex(8))

    sampled = bool(int(match[3], 16) & 1)
    return Trace(request_id, match[1], secrets.token_hex(8), match[2], sampled)


def current_trace() -> Trace | None:
    """Return the ids of the request that is being answered; None outside of requests."""
    return _trace.get()


class Sent:
    """ASGI's `send` of a request, which notes the status of the response: 0 until that begins."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        """Send a message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


class RequestLog:
    """ASGI middleware that gives a request its ids, returns `X-Request-ID` and logs one line.

    The line has method, path, the client's address and the name of the key: no query, no text and no
    secret. Probes that succeed have none.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        trace = trace_of(Headers(scope=scope))
        started = time.perf_counter()
        sent = Sent(send)

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-ID"] = trace.request_id
            await sent(message)

        token = _trace.set(trace)
        try:
            await self._app(scope, receive, with_id)
        finally:
            # Before the reset, so that the line has the ids.
            if sent.status != 200 or scope["path"] not in PROBES:
                fields = _request_fields(scope, sent.status, started)
                _log.info("request", extra={"request": fields})
            _trace.reset(token)


def _request_fields(scope: Scope, status: int, started: float) -> dict[str, Any]:
    """Return the fields of a request's line; status 0 means that the client left before the reply."""
    fields = {
        "method": scope["method"][:20],
        "path": scope["path"][:MAX_PATH_CHARS],
        "status": status,
        "took_ms": round((time.perf_counter() - started) * 1000, 3),
    }

    if client := scope.get("client"):
        # A proxy's header may have anything in its place.
        fields["client"] = client[0][:MAX_ADDRESS_CHARS]
    if key := scope.get("state", {}).get("key"):
        fields["key"] = key
    return fields


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, with the ids of the request it belongs to."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one JSON object without line breaks."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }

        if (trace := _trace.get()) is not None:
            line["request_id"] = trace.request_id
            line["trace_id"] = trace.trace_id
            line["span_id"] = trace.span_id
            if trace.parent_id:
                line["parent_id"] = trace.parent_id

        line |= getattr(record, "request", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def config(form: str) -> dict[str, Any]:
    """Return a configuration for `logging.config.dictConfig`.

    With the form `json`, each request has a line, too; any other form writes plain lines without them.
    """
    as_json = form == "json"
    formatter = {"()": JsonFormatter} if as_json else {"format": "%(levelname)s:     %(message)s"}
    loggers: dict[str, Any] = {
        name: {"handlers": ["stderr"], "level": "INFO", "propagate": False}
        for name in ("purlin", "uvicorn", "asyncio", "opentelemetry")
    }
    loggers["purlin.requests"] = {"level": "INFO" if as_json else "WARNING"}

    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": loggers,
    }
