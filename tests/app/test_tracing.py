"""Spans that a collector receives by OTLP/HTTP, and servers whose collector is down."""

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from purlin.app import tracing
from purlin.app.logs import Trace, current_trace
from purlin.app.main import create_app, serve
from purlin.app.settings import Settings, spans_requested
from purlin.index.errors import InvalidInput, NotFound
from tests.support.hash_encoder import FailingEncoder, HashEncoder
from tests.support.serving import make, numbered, problem, serving, until
from tests.support.traffic import run

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SEARCH = {"query": "sort", "corpus": "code"}
STAGES = {"filter", "encode", "lexical", "dense", "fuse", "fetch"}


class Collector:
    """A collector of spans on the loopback.

    `received` grows as it answers. Clear `answers` for one that accepts connections and never
    replies, and set `status` for one that refuses.
    """

    status = 200
    refusals = 0

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.received: list[ResourceSpans] = []
        self.paths: set[str] = set()
        self.connected = threading.Event()
        self.answers = threading.Event()
        self.answers.set()

    @property
    def spans(self) -> list[Span]:
        scopes = [scope for resource in self.received for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    def named(self, name: str) -> Span:
        (span,) = [span for span in self.spans if span.name == name]
        return span


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.paths.add(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.connected.set()
            if not collector.answers.wait(30):
                return
            if collector.status == 200:
                request = ExportTraceServiceRequest.FromString(body)
                collector.received.extend(request.resource_spans)
            else:
                collector.refusals += 1
            self.send_response(collector.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            collector.answers.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    # However busy the machine is, the last spans arrive.
    monkeypatch.setattr(tracing, "CLOSING_S", 60.0)
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


def attributes(span: Span) -> dict[str, object]:
    """Return the attributes of a span by name."""
    return {
        attribute.key: getattr(attribute.value, str(attribute.value.WhichOneof("value")))
        for attribute in span.attributes
    }


def test_a_search_joins_the_trace_of_its_client(home: Path, collector: Collector) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "abc-1"}
    with serving(home) as client:
        response = client.post("/search?secret=1", json=SEARCH | {"explain": True}, headers=headers)

    assert collector.paths == {"/v1/traces"}

    span = collector.named("POST /search")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.kind == Span.SPAN_KIND_SERVER
    assert attributes(span) == {
        "http.request.method": "POST",
        "http.route": "/search",
        "http.response.status_code": 200,
        "url.scheme": "http",
        "url.path": "/search",
        "purlin.request_id": "abc-1",
    }

    stages = [child for child in collector.spans if child.parent_span_id == span.span_id]
    assert {stage.name for stage in stages} == STAGES | {"queue", "rerank"}
    assert {stage.trace_id.hex() for stage in stages} == {TRACE}

    timings = response.json()["timings_ms"]
    for stage in stages:
        assert span.start_time_unix_nano <= stage.start_time_unix_nano <= stage.end_time_unix_nano
        assert stage.end_time_unix_nano <= span.end_time_unix_nano

        if stage.name in timings:
            took_ms = (stage.end_time_unix_nano - stage.start_time_unix_nano) / 1e6
            assert took_ms == pytest.approx(timings[stage.name], abs=0.001)

    # No text of the request is recorded.
    assert "sort" not in str([attributes(recorded) for recorded in collector.spans])


def test_a_request_without_a_trace_starts_one(home: Path, collector: Collector) -> None:
    class Noting(HashEncoder):
        def encode(self, *arguments: Any, **options: Any) -> Any:
            traces.append(current_trace())
            return super().encode(*arguments, **options)

    traces: list[Trace | None] = []
    with serving(home, Noting()) as client:
        client.post("/search", json=SEARCH)
        client.get("/livez")

    span = collector.named("POST /search")
    trace = traces[-1]

    assert trace is not None
    assert (span.trace_id.hex(), span.span_id.hex()) == (trace.trace_id, trace.span_id)
    assert not span.parent_span_id
    assert collector.named("GET /livez").trace_id != span.trace_id


def test_spans_have_route_and_status(home: Path, collector: Collector) -> None:
    with serving(home, FailingEncoder()) as client:
        problem(client.post("/search", json=SEARCH), 500)

        client.get("/corpora/none")
        client.request("ODD", "/nothing/here")

    failed = collector.named("POST /search")
    missing = collector.named("GET /corpora/{name}")
    odd = collector.named("_OTHER")

    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert attributes(missing)["http.response.status_code"] == 404
    assert missing.status.code == odd.status.code == Status.STATUS_CODE_UNSET
    assert "http.route" not in attributes(odd)


def test_unsampled_traces_are_not_recorded(home: Path, collector: Collector) -> None:
    with serving(home) as client:
        client.get("/livez", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
        client.get("/corpora")
    names = [span.name for span in collector.spans if span.name.startswith("GET")]
    assert names == ["GET /corpora"]


def test_the_service_name_defaults_to_purlin(
    home: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", "shop-search"):
        monkeypatch.setenv("OTEL_SERVICE_NAME", name)
        with serving(home) as client:
            client.get("/livez")

    resources = [spans.resource for spans in collector.received]
    names = [
        attribute.value.string_value
        for resource in resources
        for attribute in resource.attributes
        if attribute.key == "service.name"
    ]

    assert names == ["purlin", "shop-search"]


def test_a_silent_collector_does_not_delay_requests(
    home: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "CLOSING_S", 0.1)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    collector.answers.clear()
    with serving(home) as client:
        client.post("/search", json=SEARCH)
        # One export is under way from here on.
        assert collector.connected.wait(30)
        for _ in range(50):
            assert client.post("/search", json=SEARCH).status_code == 200
        assert collector.received == []


def test_a_missing_collector_does_not_fail_requests(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setattr(tracing, "CLOSING_S", 0.1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://127.0.0.1:{port}/v1/traces")
    with serving(home) as client:
        for _ in range(20):
            assert client.post("/search", json=SEARCH).status_code == 200


def test_a_collector_that_takes_no_spans_is_logged_once_and_so_is_its_return(
    home: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    collector.status = 401
    with serving(home) as client:
        until(lambda: client.get("/livez").is_success and collector.refusals >= 3)
        collector.status = 200
        until(lambda: client.get("/livez").is_success and len(collector.received) > 1)

    lines = [
        text for name, _, text in caplog.record_tuples if re.match("opentele|purlin.tra", name)
    ]
    assert len(lines) == 2
    assert lines[0].startswith("the collector takes no spans, which are lost: Failed to export")
    assert "401" in lines[0]
    assert lines[1] == "the collector takes spans again"


def test_qa_spans_include_the_reader(
    tmp_path: Path, reader_directory: Path, collector: Collector
) -> None:
    make(tmp_path, "notes", numbered(3), "reference")
    with serving(tmp_path, reader=reader_directory) as client:
        response = client.post("/qa", json={"question": "which number?", "corpus": "notes"})
        assert response.status_code == 200

    span = collector.named("POST /qa")
    stages = {child.name for child in collector.spans if child.parent_span_id == span.span_id}

    assert stages == STAGES | {"queue", "rank", "read"}


@pytest.mark.parametrize(
    ("environ", "requested"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
    ],
)  # fmt: skip
def test_variables_decide_whether_spans_are_sent(environ: dict[str, str], requested: bool) -> None:
    assert spans_requested(environ) == requested


def test_other_protocols_are_refused_at_startup(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    message = "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; spans are sent by http/protobuf"
    with pytest.raises(InvalidInput, match=message):
        create_app(Settings(), HashEncoder())


def test_a_missing_extra_names_the_package(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "purlin.app.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(NotFound, match=r"is not installed: pip install 'purlin-search\[otel\]'"):
        serve(Settings(port=0))


def test_opentelemetry_is_not_imported_by_default() -> None:
    code = (
        "import sys; from purlin.app.main import create_app; from purlin.app.settings import Settings\n"
        "create_app(Settings())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk') or name == 'purlin.app.tracing'])"
    )
    assert run([sys.executable, "-c", code]).stdout.strip() == "[]"
