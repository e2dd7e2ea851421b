"""OpenTelemetry spans of requests, sent by OTLP/HTTP in the background; imported only if configured.

Spans have the ids of the log (`purlin.app.logs.Trace`), so that a line can be matched with its span. They
are made when a request has ended, from the times that `/metrics` has anyway: requests do no extra
work while they run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from purlin.app.logs import MAX_PATH_CHARS, Sent, Trace, current_trace
from purlin.app.metrics import METHODS, Stages, recorded_stages

CLOSING_S = 3.0  # to send the remaining spans when the server stops
REMINDER_S = 600.0  # between two lines of the log about a collector that takes no spans

_log = logging.getLogger("purlin.tracing")
_SENDING = logging.getLogger(OTLPSpanExporter.__module__)
_QUEUEING = logging.getLogger("opentelemetry.sdk._shared_internal")

# What the SDK says while the current thread sends.
_reasons: ContextVar[list[str] | None] = ContextVar("reasons", default=None)


class Spans:
    """Makes and exports spans. Requests never wait for the collector: late spans are dropped.

    Configured by the SDK's environment variables: OTEL_EXPORTER_OTLP_*, OTEL_SERVICE_NAME,
    OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER and OTEL_BSP_*.
    """

    def __init__(self) -> None:
        self._exporter = _Exporter()
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=_resource(), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("purlin", version("purlin-search"))

    def add(
        self, trace: Trace, name: str, attributes: Mapping[str, Any], started: int, ended: int
    ) -> Span:
        """Make the span of a request that has ended; times in nanoseconds since 1970.

        Not safe to share between threads: the id generator holds the ids of the request meanwhile.
        """
        self._ids.trace = trace
        try:
            span = self._tracer.start_span(
                name, _parent(trace), SpanKind.SERVER, attributes, start_time=started
            )
        finally:
            self._ids.trace = None

        status = attributes.get("http.response.status_code", 500)
        if status >= 500:
            span.set_status(StatusCode.ERROR)
        span.end(ended)
        return span

    def add_stages(self, span: Span, timings_ms: Mapping[str, float], ended: int) -> None:
        """Add consecutive stages as children of a span, the last of which ended at `ended`."""
        context = set_span_in_context(span)
        time_ns = ended - sum(map(_ns, timings_ms.values()))

        for stage, took_ms in timings_ms.items():
            child = self._tracer.start_span(stage, context, start_time=time_ns)
            time_ns += _ns(took_ms)
            child.end(time_ns)

    def middleware(self, app: ASGIApp) -> Tracing:
        """The ASGI middleware that makes a span of every request."""
        return Tracing(app, spans=self)

    def close(self) -> None:
        """Send the remaining spans, for CLOSING_S at most."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSING_S)

        # Ends the retries of an exporter whose collector does not answer.
        if closing.is_alive():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _Exporter(OTLPSpanExporter):
    """Sends spans. Logs when the collector stops taking them, then rarely, and when it takes them again."""

    def __init__(self) -> None:
        super().__init__()
        self._reported: float | None = None
        _SENDING.addFilter(_keep_reason)
        _QUEUEING.addFilter(self._is_answered)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans, and log what has changed; called by the SDK in a thread of its own."""
        reasons: list[str] = []
        token = _reasons.set(reasons)
        try:
            result = super().export(spans)
        finally:
            _reasons.reset(token)

        now = time.monotonic()
        if result is SpanExportResult.SUCCESS:
            if self._reported is not None:
                _log.info("the collector takes spans again")
            self._reported = None
        elif self._reported is None or now - self._reported >= REMINDER_S:
            reason = reasons[0] if reasons else "no reason given"
            _log.warning("the collector takes no spans, which are lost: %s", reason)
            self._reported = now
        return result

    def _is_answered(self, _: logging.LogRecord) -> bool:
        """Pass the SDK's lines about a full queue, unless that is full because nothing can be sent."""
        return self._reported is None


def _keep_reason(record: logging.LogRecord) -> bool:
    """Keep what the SDK says of one attempt out of the log, for the line about all of them."""
    if (reasons := _reasons.get()) is not None:
        reasons.append(record.getMessage())
    return False


class _Ids(RandomIdGenerator):
    """Generates random ids, or returns those of `trace` while it is set."""

    trace: Trace | None = None

    def generate_span_id(self) -> int:
        return super().generate_span_id() if self.trace is None else int(self.trace.span_id, 16)

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.trace is None else int(self.trace.trace_id, 16)


def _resource() -> Resource:
    """The SDK's resource, named `purlin` unless its variables give a name."""
    resource = Resource.create()
    unnamed = str(resource.attributes[SERVICE_NAME]).startswith("unknown_service")
    return resource.merge(Resource({SERVICE_NAME: "purlin"})) if unnamed else resource


def _parent(trace: Trace) -> Context:
    """The client's context; empty without one, so that the span begins a trace."""
    if trace.parent_id is None:
        return Context()

    flags = TraceFlags(TraceFlags.SAMPLED if trace.sampled else TraceFlags.DEFAULT)
    parent = SpanContext(
        int(trace.trace_id, 16), int(trace.parent_id, 16), is_remote=True, trace_flags=flags
    )
    return set_span_in_context(NonRecordingSpan(parent))


def _ns(milliseconds: float) -> int:
    return int(milliseconds * 1_000_000)


class Tracing:
    """ASGI middleware that makes a span of every request; runs inside `logs.RequestLog`."""

    def __init__(self, app: ASGIApp, *, spans: Spans) -> None:
        self._app = app
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        trace = current_trace()
        if scope["type"] != "http" or trace is None:
            await self._app(scope, receive, send)
            return

        started = time.time_ns()
        sent = Sent(send)
        stages: list[Stages] = []
        token = recorded_stages.set(stages)
        try:
            await self._app(scope, receive, sent)
        finally:
            recorded_stages.reset(token)
            self._record(scope, trace, sent.status, started, stages)

    def _record(
        self, scope: Scope, trace: Trace, status: int, started: int, stages: Sequence[Stages]
    ) -> None:
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        attributes: dict[str, Any] = {
            "http.request.method": method,
            "url.scheme": scope.get("scheme", "http"),
            "url.path": scope["path"][:MAX_PATH_CHARS],
            "purlin.request_id": trace.request_id,
        }

        # There is no status if the client left, and no route for an unknown path.
        if status:
            attributes["http.response.status_code"] = status
        route = getattr(scope.get("route"), "path", None)
        if route:
            attributes["http.route"] = route

        name = f"{method} {route}" if route else method
        span = self._spans.add(trace, name, attributes, started, time.time_ns())
        for ended, timings_ms in stages:
            self._spans.add_stages(span, timings_ms, ended)
