"""Spans as a collector gets them, by OTLP/HTTP; and servers whose collector is down."""

from __future__ import annotations

import socket
import subprocess
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

from app import tracing
from app.logs import Trace, current_trace
from app.main import create_app, serve
from app.settings import Settings, spans_requested
from index.encoder import Role
from index.errors import InvalidInput, NotFound
from tests.conftest import HashEncoder
from tests.serving import make, numbered, problem, serving

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SEARCH = {"query": "sort", "corpus": "code"}
LEGS = {"filter", "encode", "lexical", "dense", "fuse", "fetch"}


class Collector:
    """What it was sent, once it answers; `answers` is cleared for one that takes connections and keeps silent."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.received: list[ResourceSpans] = []
        self.paths: set[str] = set()
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.answers.set()

    @property
    def spans(self) -> list[Span]:
        return [span for one in self.received for scope in one.scope_spans for span in scope.spans]

    def named(self, name: str) -> Span:
        (found,) = [span for span in self.spans if span.name == name]
        return found


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.paths.add(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.asked.set()
            if not collector.answers.wait(30):
                return
            collector.received.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
            self.send_response(200)
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
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


def attributes(span: Span) -> dict[str, object]:
    return {
        one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes
    }


def test_a_search_is_a_span_of_its_clients_trace_with_its_stages_below(
    home: Path, collector: Collector
) -> None:
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
    stages = [one for one in collector.spans if one.parent_span_id == span.span_id]
    assert {one.name for one in stages} == LEGS | {"queue"}
    assert {one.trace_id.hex() for one in stages} == {TRACE}
    timings = response.json()["timings_ms"]
    for one in stages:
        assert span.start_time_unix_nano <= one.start_time_unix_nano <= one.end_time_unix_nano
        assert one.end_time_unix_nano <= span.end_time_unix_nano
        if one.name in timings:
            took_ms = (one.end_time_unix_nano - one.start_time_unix_nano) / 1e6
            assert took_ms == pytest.approx(timings[one.name], abs=0.001)
    assert "sort" not in str([attributes(one) for one in collector.spans])


def test_a_request_without_a_trace_begins_one_that_its_log_line_names(
    home: Path, collector: Collector
) -> None:
    class Noting(HashEncoder):
        def encode(self, *arguments: Any, **options: Any) -> Any:
            seen.append(current_trace())
            return super().encode(*arguments, **options)

    seen: list[Trace | None] = []
    with serving(home, Noting()) as client:
        client.post("/search", json=SEARCH)
        client.get("/livez")
    span = collector.named("POST /search")
    trace = seen[-1]
    assert trace is not None
    assert (span.trace_id.hex(), span.span_id.hex()) == (trace.trace_id, trace.span_id)
    assert not span.parent_span_id
    assert collector.named("GET /livez").trace_id != span.trace_id


def test_every_request_is_told_by_route_and_status_and_who_is_to_blame(
    home: Path, collector: Collector
) -> None:
    class Failing(HashEncoder):
        def encode(self, *arguments: Any, role: Role, **options: Any) -> Any:
            # Passages are encoded by the self-check when the corpus is opened.
            if role == "query":
                raise ZeroDivisionError("unforeseen")
            return super().encode(*arguments, role=role, **options)

    with serving(home, Failing()) as client:
        problem(client.post("/search", json=SEARCH), 500)
        client.get("/corpora/none")
        client.request("ODD", "/nothing/here")
    failed, missing, odd = (
        collector.named(name) for name in ("POST /search", "GET /corpora/{name}", "_OTHER")
    )
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert attributes(missing)["http.response.status_code"] == 404
    assert missing.status.code == odd.status.code == Status.STATUS_CODE_UNSET
    assert "http.route" not in attributes(odd)


def test_a_trace_that_its_client_does_not_record_is_not_recorded_here(
    home: Path, collector: Collector
) -> None:
    with serving(home) as client:
        client.get("/livez", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
        client.get("/corpora")
    assert [span.name for span in collector.spans if span.name.startswith("GET")] == [
        "GET /corpora"
    ]


def test_the_service_is_named_purlin_unless_its_variables_say_otherwise(
    home: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", "shop-search"):
        monkeypatch.setenv("OTEL_SERVICE_NAME", name)
        with serving(home) as client:
            client.get("/livez")
    names = [
        one.value.string_value for sent in collector.received for one in sent.resource.attributes
        if one.key == "service.name"
    ]  # fmt: skip
    assert names == ["purlin", "shop-search"]


def test_requests_are_answered_while_the_collector_keeps_silent(
    home: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "CLOSING_S", 0.1)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    collector.answers.clear()
    with serving(home) as client:
        client.post("/search", json=SEARCH)
        assert collector.asked.wait(30)  # one export is under way from here on
        for _ in range(50):
            assert client.post("/search", json=SEARCH).status_code == 200
        assert collector.received == []


def test_requests_are_answered_where_there_is_no_collector(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setattr(tracing, "CLOSING_S", 0.1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://127.0.0.1:{port}/v1/traces")
    with serving(home) as client:
        for _ in range(20):
            assert client.post("/search", json=SEARCH).status_code == 200


def test_answers_name_their_reading_too(
    tmp_path: Path, reader_directory: Path, collector: Collector
) -> None:
    make(tmp_path, "notes", numbered(3), HashEncoder(), "reference")
    with serving(tmp_path, reader=reader_directory) as client:
        assert (
            client.post("/qa", json={"question": "which number?", "corpus": "notes"}).status_code
            == 200
        )
    span = collector.named("POST /qa")
    assert {one.name for one in collector.spans if one.parent_span_id == span.span_id} == LEGS | {
        "queue",
        "rank",
        "read",
    }


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            },
            True,
        ),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
    ],
)
def test_spans_are_sent_only_where_the_variables_ask_for_them(
    environ: dict[str, str], wanted: bool
) -> None:
    assert spans_requested(environ) == wanted


def test_another_protocol_is_refused_at_the_start(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(
        InvalidInput, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; spans are sent by http/protobuf"
    ):
        create_app(Settings(), HashEncoder())


def test_without_the_extra_the_server_says_what_to_install(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "app.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(NotFound, match=r"is not installed: pip install 'purlin\[otel\]'"):
        serve(Settings(port=0))


def test_nothing_of_it_is_imported_where_it_is_not_wanted() -> None:
    code = (
        "import sys; from app.main import create_app; from app.settings import Settings; create_app(Settings());"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk') or name == 'app.tracing'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
