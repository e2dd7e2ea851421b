"""What the server writes about its work: one JSON object a line, with the ids by which a request is followed."""

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
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)

_log = logging.getLogger("purlin.requests")


@dataclass(frozen=True, slots=True)
class Trace:
    """Ids of a request. `trace_id` (32 hex digits) and `parent_id` (16) are the W3C's; the span is this server's.

    `sampled` is what the client says of its own span: whether it is recorded.
    """

    request_id: str
    trace_id: str
    span_id: str
    parent_id: str | None = None
    sampled: bool = False


_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)


def trace_of(headers: Headers) -> Trace:
    """The ids that a client sent in `X-Request-ID` and `traceparent`, where they are well-formed; else fresh ones."""
    given = headers.get("x-request-id", "")
    request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(16)
    parent = headers.get("traceparent", "")
    found = _TRACEPARENT.fullmatch(parent)
    if found is None or (parent.startswith("00") and found[4]):
        return Trace(request_id, secrets.token_hex(16), secrets.token_hex(8))
    return Trace(request_id, found[1], secrets.token_hex(8), found[2], bool(int(found[3], 16) & 1))


def current_trace() -> Trace | None:
    """The ids of the request that is being answered."""
    return _trace.get()


class RequestLog:
    """Gives every request its ids, sends `X-Request-ID` back, and logs one line when it is answered.

    Of what the client sent, the line has method and path alone: no query, no text and no key, only the key's name.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace, started, status = trace_of(Headers(scope=scope)), time.perf_counter(), 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = trace.request_id
            await send(message)

        token = _trace.set(trace)
        try:
            await self._app(scope, receive, watch)
        finally:
            _log.info("%s", "request", extra={"request": _line(scope, status, started)})
            _trace.reset(token)


def _line(scope: Scope, status: int, started: float) -> dict[str, Any]:
    """What is logged of a request; status 0 is one whose client left before it was answered."""
    found = {
        "method": scope["method"][:20],
        "path": scope["path"][:MAX_PATH_CHARS],
        "status": status,
        "took_ms": round((time.perf_counter() - started) * 1000, 3),
    }
    key = scope.get("state", {}).get("key")
    return found | {"key": key} if key else found


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON, with the ids of the request it belongs to."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object without line breaks."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (trace := _trace.get()) is not None:
            line |= {
                "request_id": trace.request_id,
                "trace_id": trace.trace_id,
                "span_id": trace.span_id,
            }
            line |= {"parent_id": trace.parent_id} if trace.parent_id else {}
        line |= getattr(record, "request", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def config(form: str) -> dict[str, Any]:
    """What `logging.config.dictConfig` takes: `json` lines about everything, or `plain` ones without each request."""
    plain = {"format": "%(levelname)s:     %(message)s"}
    formatter = {"()": JsonFormatter} if form == "json" else plain
    quiet = {"purlin.requests": {"level": "INFO" if form == "json" else "WARNING"}}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {
            name: {"handlers": ["stderr"], "level": "INFO", "propagate": False}
            for name in ("purlin", "uvicorn", "opentelemetry")
        }
        | quiet,
    }
