from __future__ import annotations

import io
import json
import logging
import logging.config
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from purlin.app import logs
from purlin.app.logs import JsonFormatter, trace_of
from purlin.app.settings import Settings
from purlin.index.errors import InvalidInput
from tests.support.hash_encoder import FailingEncoder, HashEncoder
from tests.support.serving import FUNCTIONS, make, problem, serving, until
from tests.support.traffic import running

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SEARCH = {"query": "a very private query", "corpus": "code"}


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """A stream of what the loggers of `purlin` write as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("purlin")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(before)


def lines(written: io.StringIO, logger: str = "purlin.requests") -> list[dict[str, Any]]:
    """Return the records of one logger."""
    records = [json.loads(line) for line in written.getvalue().splitlines()]
    return [record for record in records if record["logger"] == logger]


def test_a_request_is_one_line_without_its_text(home: Path, written: io.StringIO) -> None:
    with serving(home, keys="reader search the-key-of-the-reader") as client:
        headers = {"X-Request-ID": "abc-1", "traceparent": f"00-{TRACE}-{SPAN}-01"}
        headers["Authorization"] = "Bearer the-key-of-the-reader"
        response = client.post("/search?secret=1", json=SEARCH, headers=headers)

    assert response.headers["x-request-id"] == "abc-1"

    (line,) = lines(written)
    assert line.pop("took_ms") > 0
    assert re.fullmatch(r"[0-9a-f]{16}", line.pop("span_id"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
    assert line == {
        "level": "info",
        "logger": "purlin.requests",
        "process": os.getpid(),
        "message": "request",
        "request_id": "abc-1",
        "trace_id": TRACE,
        "parent_id": SPAN,
        "method": "POST",
        "path": "/search",
        "status": 200,
        "client": "testclient",
        "key": "reader",
    }
    assert not re.search("private|the-key|secret", written.getvalue())


@pytest.mark.parametrize(
    ("proxies", "forwarded", "client"),
    [
        ("", ["6.6.6.6"], "127.0.0.1"),
        ("10.0.0.0/8", ["6.6.6.6"], "127.0.0.1"),
        ("127.0.0.1", ["6.6.6.6, 203.0.113.9"], "203.0.113.9"),
        # As HAProxy adds it: a header of its own, behind the client's.
        ("127.0.0.1", ["6.6.6.6", "203.0.113.9"], "203.0.113.9"),
        ("127.0.0.1, 10.0.0.0/8", ["203.0.113.9, 10.1.2.3"], "203.0.113.9"),
        ("127.0.0.1", ["x" * 5000], "x" * 64),
        ("127.0.0.1", [], "127.0.0.1"),
    ],
)
def test_a_client_is_named_by_a_proxy_that_is_trusted(
    home: Path, proxies: str, forwarded: list[str], client: str
) -> None:
    with running(home, log="json", proxies=proxies) as server:
        headers = [("X-Forwarded-For", value) for value in forwarded]
        server.client.get("/corpora", headers=headers)
        server.stop()
        records = [json.loads(line) for line in server.log().splitlines()]

    (line,) = [record for record in records if record.get("path") == "/corpora"]
    assert line["client"] == client


@pytest.mark.parametrize("proxies", ["proxy.example", "10.0.0.1/8", "*"])
def test_proxies_are_addresses(proxies: str) -> None:
    with pytest.raises(InvalidInput, match="PURLIN_PROXIES must be addresses or networks"):
        Settings.read({"proxies": proxies})


def test_errors_are_logged_with_the_request_id(home: Path, written: io.StringIO) -> None:
    with serving(home, FailingEncoder()) as client:
        response = client.post("/search", json=SEARCH, headers={"X-Request-ID": "failing"})
        problem(response, 500)

    (error,) = lines(written, "purlin.problems")
    assert error["request_id"] == "failing" == response.headers["x-request-id"]
    assert error["level"] == "error"
    assert "ZeroDivisionError: the secret is 42" in error["error"]
    assert lines(written)[0]["status"] == 500


def test_probes_are_logged_only_if_they_fail(tmp_path: Path, written: io.StringIO) -> None:
    class Waiting(HashEncoder):
        def encode(self, *arguments: Any, **options: Any) -> Any:
            is_asked.wait(30)
            return super().encode(*arguments, **options)

    is_asked = threading.Event()
    make(tmp_path, "code", FUNCTIONS)
    with serving(tmp_path, Waiting()) as client:
        assert client.get("/readyz").status_code == 503
        is_asked.set()
        until(lambda: client.get("/readyz").status_code == 200)
        for path in ("/livez", "/metrics"):
            assert client.get(path).status_code == 200
        client.post("/livez")

    logged = [(line["path"], line["status"]) for line in lines(written)]
    assert set(logged) == {("/readyz", 503), ("/livez", 405)}


def test_malformed_request_ids_are_replaced(home: Path, written: io.StringIO) -> None:
    with serving(home) as client:
        for request_id in ("", "x" * 65, "with space", 'quote"', "a\tb"):
            response = client.get("/corpora", headers={"X-Request-ID": request_id})
            assert re.fullmatch("[0-9a-f]{32}", response.headers["x-request-id"])
    assert len({line["request_id"] for line in lines(written)}) == 5


@pytest.mark.parametrize(
    ("parent", "continued"),
    [
        (f"00-{TRACE}-{SPAN}-00", True),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
        (f"00-{TRACE}-{SPAN}-01-more", False),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN}", False),
        (f"00-{TRACE}-{SPAN}-01\n", False),
        ("", False),
    ],
)
def test_a_trace_is_continued_if_traceparent_is_valid(parent: str, continued: bool) -> None:
    trace = trace_of(Headers({"traceparent": parent}))
    assert (trace.trace_id == TRACE, trace.parent_id == SPAN) == (continued, continued)
    assert (trace.parent_id is None) == (not continued)
    assert trace.span_id != SPAN


@given(
    st.text(st.characters(max_codepoint=255), max_size=80),
    st.text(st.characters(max_codepoint=255), max_size=80),
)
def test_ids_are_always_well_formed(request_id: str, parent: str) -> None:
    trace = trace_of(Headers({"x-request-id": request_id, "traceparent": parent}))
    assert re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", trace.request_id)
    assert re.fullmatch(r"[0-9a-f]{32}", trace.trace_id)


def test_one_record_is_one_line() -> None:
    record = logging.LogRecord("purlin", logging.INFO, "", 0, "%s", ('a\nb" \x00 \ud800',), None)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert line.isascii()
    assert json.loads(line)["message"] == 'a\nb" \x00 \ud800'


@pytest.mark.parametrize(("form", "requests"), [("json", True), ("plain", False)])
def test_the_log_format_is_a_setting(
    form: str, requests: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("purlin", "purlin.requests", "uvicorn")
    before = {
        name: (logging.getLogger(name).level, logging.getLogger(name).propagate) for name in names
    }
    try:
        logging.config.dictConfig(logs.config(form))
        logging.getLogger("uvicorn.error").info("started")
        logging.getLogger("purlin.requests").info("request")
        shown = capsys.readouterr().err.splitlines()
        (started,) = [line for line in shown if "started" in line]
        message = json.loads(started)["message"] if form == "json" else started.split()[-1]

        assert message == "started"
        assert any("request" in line for line in shown) == requests
    finally:
        for name, (level, propagate) in before.items():
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).setLevel(level)
            logging.getLogger(name).propagate = propagate
