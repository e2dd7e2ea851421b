"""Each request as a span of OpenTelemetry, sent by OTLP/HTTP in the background. Imported only where it is asked for.

The ids are those of the log (`app.logs.Trace`), so that a line and its span find each other. Spans are made when a
request is over, from the clock and the stages that `/metrics` has anyway: nothing is added to the work itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.logs import MAX_PATH_CHARS, Trace, current_trace
from app.metrics import METHODS, Stages, recorded_stages

CLOSING_S = 3.0  # for what was not sent yet, when the server ends


class Spans:
    """Where finished requests go. What the collector does not take in time is dropped; requests never wait for it.

    The SDK's variables hold: OTEL_EXPORTER_OTLP_*, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
    OTEL_BSP_*.
    """

    def __init__(self) -> None:
        self._exporter = OTLPSpanExporter()
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=_resource(), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("purlin", version("purlin"))

    def add(
        self, trace: Trace, name: str, attributes: Mapping[str, Any], started: int, ended: int
    ) -> Span:
        """The span of a request, ended; times in nanoseconds since 1970. To be called by one thread."""
        self._ids.given = trace
        try:
            span = self._tracer.start_span(
                name, _parent(trace), SpanKind.SERVER, attributes, start_time=started
            )
        finally:
            self._ids.given = None
        status = attributes.get("http.response.status_code", 500)
        if status >= 500:
            span.set_status(StatusCode.ERROR)
        span.end(ended)
        return span

    def add_stages(self, span: Span, timings_ms: Mapping[str, float], ended: int) -> None:
        """Stages as children of a span: one after the other, as they were begun, the last one up to `ended`."""
        context = set_span_in_context(span)
        at = ended - sum(map(_ns, timings_ms.values()))
        for stage, took_ms in timings_ms.items():
            child = self._tracer.start_span(stage, context, start_time=at)
            at += _ns(took_ms)
            child.end(at)

    def middleware(self, app: ASGIApp) -> Tracing:
        """What makes a span of every request."""
        return Tracing(app, spans=self)

    def close(self) -> None:
        """Send what is left, for CLOSING_S at most."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSING_S)
        if closing.is_alive():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # which ends its retries


class _Ids(RandomIdGenerator):
    """Random ids, but those of `given` while it is set."""

    given: Trace | None = None

    def generate_span_id(self) -> int:
        return super().generate_span_id() if self.given is None else int(self.given.span_id, 16)

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self.given is None else int(self.given.trace_id, 16)


def _resource() -> Resource:
    found = Resource.create()
    unnamed = str(found.attributes[SERVICE_NAME]).startswith("unknown_service")
    return found.merge(Resource({SERVICE_NAME: "purlin"})) if unnamed else found


def _parent(trace: Trace) -> Context:
    """The context that the client sent; empty without one, so that the span begins a trace."""
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
    """Makes a span of every request, with its stages as children. Has its place inside of `logs.RequestLog`."""

    def __init__(self, app: ASGIApp, *, spans: Spans) -> None:
        self._app = app
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        trace = current_trace()
        if scope["type"] != "http" or trace is None:
            await self._app(scope, receive, send)
            return
        started, status = time.time_ns(), 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        stages: list[Stages] = []
        token = recorded_stages.set(stages)
        try:
            await self._app(scope, receive, watch)
        finally:
            recorded_stages.reset(token)
            self._record(scope, trace, status, started, stages)

    def _record(
        self, scope: Scope, trace: Trace, status: int, started: int, stages: Sequence[Stages]
    ) -> None:
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        about: dict[str, Any] = {
            "http.request.method": method,
            "url.scheme": scope.get("scheme", "http"),
            "url.path": scope["path"][:MAX_PATH_CHARS],
            "purlin.request_id": trace.request_id,
        }
        about |= (
            {"http.response.status_code": status} if status else {}
        )  # none where the client left
        route = getattr(scope.get("route"), "path", None)
        about |= {"http.route": route} if route else {}
        span = self._spans.add(
            trace, f"{method} {route}" if route else method, about, started, time.time_ns()
        )
        for ended, timings_ms in stages:
            self._spans.add_stages(span, timings_ms, ended)
