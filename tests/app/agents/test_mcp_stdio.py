"""`purlin mcp`: the same protocol and tools over stdin and stdout, on the workspace around a directory."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from purlin.app.agents import fresh, mcp_stdio
from purlin.app.agents.backend import Backend
from purlin.app.agents.local import LocalCorpora
from purlin.app.agents.mcp import HANDSHAKE, STATELESS
from purlin.app.agents.mcp_stdio import StdioServer
from purlin.app.agents.tools import TOOLS
from purlin.index.encoder import Vectors
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.workspaces import workspace
from tests.support.agents import FILES, META
from tests.support.blocking import BackgroundCall
from tests.support.files import write_tree
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import FUNCTIONS, make, until
from tests.support.static_files import write_static


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the files of the tests of /mcp, whose index is kept nearby."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    write_tree(root, FILES | {"README.md": "# Rows\n\nThe step defaults to 1.\n"})
    monkeypatch.setenv("PURLIN_CACHE", str(tmp_path / "cache"))
    # However busy the machine is, changed files are indexed before the answer.
    monkeypatch.setattr(fresh, "PATIENCE_S", fresh.ANSWER_S)
    return root


@pytest.fixture
def local(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCorpora:
    """The workspace with an encoder that takes no time to load."""
    monkeypatch.setattr(workspace, "load_encoder", lambda directory: HashEncoder())
    return LocalCorpora(project, tmp_path / "home")


def request(message_id: Any, method: str, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": message_id, "method": method, "params": params}
    return json.dumps(message).encode() + b"\n"


def call(message_id: Any, name: str, **arguments: Any) -> bytes:
    return request(message_id, "tools/call", name=name, arguments=arguments)


def talk(backend: Backend, *lines: bytes) -> dict[Any, dict[str, Any]]:
    """Send lines and the end of the input; return the replies by id."""
    sink = io.BytesIO()
    StdioServer(lambda: backend, io.BytesIO(b"".join(lines)), sink).run()
    replies = [json.loads(line) for line in sink.getvalue().splitlines()]
    assert all(reply["jsonrpc"] == "2.0" for reply in replies)
    return {reply["id"]: reply for reply in replies}


def text(reply: dict[str, Any]) -> str:
    return str(reply["result"]["content"][0]["text"])


# ---- the protocol's own client, and a process of its own


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A small static encoder, which a process of its own can load."""
    words = ["sort", "numbers", "read", "rows", "fetch", "page", "download", "csv", "the"]
    return write_static(tmp_path / "encoder", words)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_searches_a_directory(
    project: Path, encoder: Path, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Importing it takes a second, which other tests need not wait for.
    import mcp
    from mcp.client.stdio import StdioServerParameters

    # On a busy machine, to start the server takes longer than its ten seconds.
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 60.0)
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "purlin", "mcp", "--encoder", str(encoder)],
        cwd=project / "web",
        env={"PURLIN_CACHE": os.environ["PURLIN_CACHE"]},
    )

    async def run() -> tuple[Any, ...]:
        async with mcp.Client(parameters, mode=mode) as client:
            searched = await client.call_tool("search_code", {"query": "sort numbers", "k": 1})
            refused = await client.call_tool("search_code", {"query": "x", "path": "../.."})
            return client.protocol_version, await client.list_tools(), searched, refused

    version, listed, searched, refused = anyio.run(run)
    assert version == (STATELESS[-1] if mode == "auto" else HANDSHAKE[-1])
    assert [tool.name for tool in listed.tools] == [tool.name for tool in TOOLS]
    assert searched.structured_content["hits"][0]["path"] == "tools/sort.py"
    assert "1. tools/sort.py:1-3 sort_numbers" in searched.content[0].text
    # It does not work in the root of the repository.
    assert f"; paths are below {project}\n" in searched.content[0].text
    assert searched.structured_content["root"] == str(project)
    assert refused.is_error
    assert "outside of" in refused.content[0].text


def test_configuration_that_fits_better_is_the_first_hit(
    local: LocalCorpora, project: Path
) -> None:
    write_tree(project, {"deploy.yaml": "worker:\n  memory_limit: 512Mi\n  replicas: 2\n"})
    query = "memory_limit and replicas of the worker"
    requests = {
        1: {"query": query},
        2: {"query": query, "content": "all"},
        3: {"query": "sort_numbers"},
    }

    replies = talk(
        local, *(call(number, "search_code", **each) for number, each in requests.items())
    )

    advice = "The first hit is configuration"
    assert [advice in text(replies[number]) for number in requests] == [True, False, False]
    first = replies[1]["result"]["structuredContent"]["hits"][0]
    assert (first["path"], first["start_line"]) == ("deploy.yaml", 1)


def test_stdout_has_messages_only_and_ends_with_the_input(project: Path, encoder: Path) -> None:
    lines = request(1, "initialize", protocolVersion=HANDSHAKE[0]) + call(
        2, "search_code", query="fetch a page", k=1
    )
    process = subprocess.run(
        [sys.executable, "-m", "purlin", "mcp", "--path", project, "--encoder", encoder],
        input=lines,
        capture_output=True,
        timeout=120,
        check=True,
    )
    replies = [json.loads(line) for line in process.stdout.splitlines()]
    assert [reply["id"] for reply in replies] == [1, 2]
    assert "web/fetch.js:2-4" in text(replies[1])
    assert re.search(rb"indexed \d files", process.stderr)


def test_initialize_loads_neither_the_server_nor_the_search() -> None:
    heavy = ["fastapi", "uvicorn", "numpy", "pydantic", "onnxruntime", "faiss"]
    program = (
        "import io, json, sys, purlin.cli.mcp\n"
        "from purlin.app.agents.mcp_stdio import StdioServer\n"
        "server = StdioServer(lambda: None, io.BytesIO(sys.stdin.buffer.read()), io.BytesIO())\n"
        "server.run()\n"
        f"print([name for name in {heavy!r} if name in sys.modules], server._sink.getvalue())\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program],
        input=request(1, "initialize", protocolVersion=HANDSHAKE[0]),
        capture_output=True,
        check=True,
        timeout=120,
    ).stdout
    assert output.startswith(b"[] ")
    assert b"serverInfo" in output


# ---- messages


class Slow:
    """A backend whose searches wait until they may go on."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.go_on = threading.Event()

    def default(self, kind: str) -> str:
        return "code"

    def progress(self, thread: int) -> str | None:
        return None

    def search(self, *arguments: Any) -> Any:
        self.started.release()
        assert self.go_on.wait(30)
        raise InvalidInput("slow")


class Pipe:
    """Input that grows while it is read."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self.source = os.fdopen(reader, "rb")
        self.writer = os.fdopen(writer, "wb", buffering=0)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Slow, Pipe, io.BytesIO]]:
    """A server in a thread, with its backend, input and output."""
    monkeypatch.setattr(mcp_stdio, "PROGRESS_S", 0.05)
    backend, pipe, sink = Slow(), Pipe(), io.BytesIO()
    server = StdioServer(lambda: cast(Backend, backend), pipe.source, sink)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield backend, pipe, sink

    backend.go_on.set()
    pipe.writer.close()
    thread.join(30)
    pipe.source.close()
    assert not thread.is_alive()


def ids(sink: io.BytesIO) -> list[Any]:
    return [json.loads(line)["id"] for line in sink.getvalue().splitlines()]


def test_slow_calls_do_not_delay_others(slow: tuple[Slow, Pipe, io.BytesIO]) -> None:
    backend, pipe, sink = slow
    slow_ids = list(range(10, 18))
    for number in slow_ids:
        pipe.writer.write(call(number, "search_code", query="x"))
        assert backend.started.acquire(timeout=30)
    pipe.writer.write(request(2, "ping") + request(3, "tools/list"))
    until(lambda: sorted(ids(sink)) == [2, 3])

    backend.go_on.set()
    until(lambda: sorted(ids(sink)) == [2, 3, *slow_ids])


def test_a_cancelled_call_is_not_answered(slow: tuple[Slow, Pipe, io.BytesIO]) -> None:
    backend, pipe, sink = slow
    # One more than there are workers: it waits, and never starts.
    count = mcp_stdio.WORKERS + 1
    pipe.writer.write(b"".join(call(n, "search_code", query="x") for n in range(count)))
    for _ in range(mcp_stdio.WORKERS):
        assert backend.started.acquire(timeout=30)

    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    # In Python, True and 1.0 are keys that are equal to 1.
    for number in (0, count - 1, 999, None, [1], True, 1.0):
        message = cancelled | {"params": {"requestId": number}}
        pipe.writer.write(json.dumps(message).encode() + b"\n")
    # A notification is never answered, not even if it is malformed.
    for params in (None, 5, "1", [1]):
        pipe.writer.write(json.dumps(cancelled | {"params": params}).encode() + b"\n")
    pipe.writer.write(request("after", "ping"))
    until(lambda: ids(sink) == ["after"])

    backend.go_on.set()
    until(lambda: len(ids(sink)) == mcp_stdio.WORKERS)
    assert set(ids(sink)) == {"after", *range(1, mcp_stdio.WORKERS)}
    assert not backend.started.acquire(blocking=False)


def test_cancelled_calls_leave_nothing_behind(slow: tuple[Slow, Pipe, io.BytesIO]) -> None:
    backend, pipe, sink = slow
    for number in range(mcp_stdio.WORKERS):
        pipe.writer.write(call(number, "search_code", query="x"))
        assert backend.started.acquire(timeout=30)

    numbers = range(100, 100 + 2 * mcp_stdio.MAX_UNDER_WAY)
    for number in numbers:
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        message = cancelled | {"params": {"requestId": number}}
        pipe.writer.write(call(number, "search_code", query="x"))
        pipe.writer.write(json.dumps(message).encode() + b"\n")
    pipe.writer.write(request("after", "ping"))
    until(lambda: ids(sink) == ["after"])
    kept = [each for each in gc.get_objects() if type(each) is mcp_stdio._UnderWay]
    # Locals of threads may still hold one each; those of other tests have other numbers.
    assert sum(each.id in numbers for each in kept) <= mcp_stdio.WORKERS


def test_a_call_is_answered_in_time_even_if_the_tools_take_long_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcp_stdio, "PROGRESS_S", 0.05)
    monkeypatch.setattr(mcp_stdio, "LATE_S", 0.2)
    may_start, backend, pipe, sink = threading.Event(), Slow(), Pipe(), io.BytesIO()
    backend.go_on.set()

    def open_backend() -> Backend:
        assert may_start.wait(30)
        return cast(Backend, backend)

    server = StdioServer(open_backend, pipe.source, sink)
    thread = threading.Thread(target=server.run)
    thread.start()
    pipe.writer.write(call(1, "search_code", query="x"))
    until(lambda: ids(sink) == [1])
    reply = json.loads(sink.getvalue())
    assert reply["result"]["isError"]
    assert text(reply).startswith("Purlin is not ready yet (starting). Call again")

    may_start.set()
    pipe.writer.write(call(2, "no_tool"))
    until(lambda: ids(sink) == [1, 2])
    pipe.writer.close()
    thread.join(30)
    pipe.source.close()
    assert not thread.is_alive()


def test_a_call_is_answered_in_time_even_if_all_workers_are_busy(
    monkeypatch: pytest.MonkeyPatch, slow: tuple[Slow, Pipe, io.BytesIO]
) -> None:
    backend, pipe, sink = slow
    for number in range(mcp_stdio.WORKERS):
        pipe.writer.write(call(number, "search_code", query="x"))
    for _ in range(mcp_stdio.WORKERS):
        assert backend.started.acquire(timeout=30)

    monkeypatch.setattr(mcp_stdio, "LATE_S", 0.2)
    pipe.writer.write(call("queued", "search_code", query="x"))
    until(lambda: ids(sink) == ["queued"])
    assert "(waiting for other calls). Call again" in text(json.loads(sink.getvalue()))

    backend.go_on.set()
    until(lambda: len(ids(sink)) == mcp_stdio.WORKERS + 1)
    assert not backend.started.acquire(blocking=False)  # nobody searches for the queued one


def test_the_id_of_a_cancelled_call_may_be_used_again(slow: tuple[Slow, Pipe, io.BytesIO]) -> None:
    backend, pipe, sink = slow
    pipe.writer.write(call(1, "search_code", query="x"))
    assert backend.started.acquire(timeout=30)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    pipe.writer.write(json.dumps(cancelled).encode() + b"\n")
    pipe.writer.write(request(1, "tools/call", name="no_tool"))

    until(lambda: ids(sink) == [1])
    backend.go_on.set()
    pipe.writer.write(call(2, "search_code", query="x"))
    until(lambda: ids(sink) == [1, 2])
    assert b"Unknown tool" in sink.getvalue().splitlines()[0]


class SlowSink(io.BytesIO):
    """Output that takes notifications of progress only when it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked = threading.Event()
        self.go_on = threading.Event()

    def write(self, line: Any) -> int:
        if b"notifications/progress" in line:
            self.blocked.set()
            assert self.go_on.wait(30)
        return super().write(line)


def test_progress_that_nobody_reads_does_not_keep_messages_from_being_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcp_stdio, "PROGRESS_S", 0.05)
    backend, pipe, sink = Slow(), Pipe(), SlowSink()
    monkeypatch.setattr(backend, "progress", lambda thread: "half of it", raising=False)
    server = StdioServer(lambda: cast(Backend, backend), pipe.source, sink)
    thread = threading.Thread(target=server.run)
    thread.start()
    loud = {"name": "search_code", "arguments": {"query": "x"}, "_meta": {"progressToken": "token"}}
    pipe.writer.write(request(1, "tools/call", **loud))
    assert sink.blocked.wait(30)

    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    pipe.writer.write(json.dumps(cancelled).encode() + b"\n")
    for number in (1, 2):
        pipe.writer.write(call(number, "search_code", query="x"))
        assert backend.started.acquire(timeout=30)

    sink.go_on.set()
    backend.go_on.set()
    pipe.writer.close()
    thread.join(30)
    pipe.source.close()
    assert not thread.is_alive()
    answered = [json.loads(line).get("id") for line in sink.getvalue().splitlines()]
    assert answered.count(1) == answered.count(2) == 1


def test_requests_under_way_are_limited(slow: tuple[Slow, Pipe, io.BytesIO]) -> None:
    _, pipe, sink = slow
    count = mcp_stdio.MAX_UNDER_WAY
    pipe.writer.write(b"".join(call(n, "search_code", query="x") for n in range(count + 1)))
    until(lambda: ids(sink) == [count])
    assert b"wait for their answers" in sink.getvalue()

    pipe.writer.write(call(0, "search_code", query="x"))
    until(lambda: ids(sink) == [count, 0])
    assert b"Another request with this id" in sink.getvalue()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{\n", -32700),
        (b"\xff\n", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}\n', -32600),
        (b"[]\n", -32600),
        (b'{"jsonrpc": "2.0", "id": 1}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": [], "method": "ping"}\n', -32600),
        (b'"no line end', -32700),
    ],
)
def test_malformed_lines_have_error_codes(local: LocalCorpora, line: bytes, code: int) -> None:
    replies = talk(local, b"\n", line)
    assert replies[None]["error"]["code"] == code


def test_a_line_too_long_is_skipped(local: LocalCorpora, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_stdio, "MAX_LINE_BYTES", 100)
    replies = talk(local, b"x" * 1000 + b"\n", request(1, "ping"), b"x" * 101)
    assert "more than 100 bytes" in replies[None]["error"]["message"]
    assert replies[1]["result"] == {}


def test_versions_without_handshake_come_with_each_request(local: LocalCorpora) -> None:
    replies = talk(
        local,
        request(1, "server/discover", _meta=META),
        request(2, "tools/list", _meta=META),
        request(3, "ping", _meta=META),
        request(4, "tools/list", _meta={"io.modelcontextprotocol/protocolVersion": STATELESS[0]}),
        request(5, "tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "1999-01-01"}),
        request(6, "server/discover"),
        *(request(version, "initialize", protocolVersion=version) for version in HANDSHAKE),
    )
    assert replies[1]["result"]["supportedVersions"] == list(STATELESS)
    assert replies[2]["result"]["resultType"] == "complete"
    assert [replies[n]["error"]["code"] for n in (3, 4, 5, 6)] == [-32601, -32602, -32022, -32601]
    for version in HANDSHAKE:
        assert replies[version]["result"]["protocolVersion"] == version


def test_an_unexpected_error_is_answered(
    local: LocalCorpora, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local, "search", lambda *_: 1 / 0)
    replies = talk(local, call(1, "search_code", query="x"), request(2, "ping"))
    assert replies[1]["error"]["code"] == -32603
    assert replies[2]["result"] == {}
    assert "ZeroDivisionError" in caplog.text


def test_a_client_that_reads_no_more_ends_the_answers(local: LocalCorpora) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = io.BytesIO(request(1, "ping") + request(2, "ping"))
    with os.fdopen(writer, "wb", buffering=0) as sink:
        StdioServer(lambda: local, lines, sink).run()
    assert lines.read() == b""


# ---- the workspace


def test_answers_follow_the_files(local: LocalCorpora, project: Path) -> None:
    def first(query: str) -> Any:
        reply = talk(local, call(1, "search_code", query=query, k=1))[1]
        return reply["result"]["structuredContent"]["hits"][0]

    assert first("sort numbers")["path"] == "tools/sort.py"
    assert first("sort numbers")["why"].startswith("name: sort, numbers; ")
    assert first("sort_numbers")["why"] == "it is what you named"
    (project / "tools/sort.py").write_text("\n\ndef sort_numbers(numbers):\n    return numbers\n")
    assert first("sort numbers")["start_line"] == 3
    (project / "tools/stack.py").write_text("def push_onto_stack(item):\n    pass\n")
    assert first("push onto stack")["path"] == "tools/stack.py"


class SlowEncoder(HashEncoder):
    """An encoder that waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def encode(self, *arguments: Any, **options: Any) -> Vectors:
        assert self.go_on.wait(60)
        return super().encode(*arguments, **options)


@pytest.fixture
def slow_index(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[LocalCorpora, SlowEncoder]]:
    """A workspace that is not indexed before its encoder may go on."""
    encoder = SlowEncoder()
    monkeypatch.setattr(workspace, "load_encoder", lambda directory: encoder)
    monkeypatch.setattr(fresh, "ANSWER_S", 0.3)
    yield LocalCorpora(project, tmp_path / "home"), encoder
    encoder.go_on.set()


def test_a_call_does_not_wait_for_a_long_indexing(
    slow_index: tuple[LocalCorpora, SlowEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    local, encoder = slow_index
    search = call(1, "search_code", query="sort_numbers")
    # The second call waits for the turn of the first one, which goes on.
    for _ in range(2):
        reply = talk(local, search)[1]
        assert reply["result"]["isError"]
        assert re.search(
            r"project is still being indexed \(\w+ .+\)\. Call again in a minute", text(reply)
        )

    encoder.go_on.set()
    monkeypatch.setattr(fresh, "ANSWER_S", 60.0)
    assert "sort_numbers" in text(talk(local, search)[1])
    assert local.progress(threading.get_ident()) is None


def test_the_last_build_answers_while_changed_files_are_indexed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = SlowEncoder()
    encoder.go_on.set()
    monkeypatch.setattr(workspace, "load_encoder", lambda directory: encoder)
    first = LocalCorpora(project, tmp_path / "home")
    search = call(1, "search_code", query="sort numbers", k=2)
    assert "warning" not in talk(first, search)[1]["result"]["structuredContent"]

    encode = encoder.encode
    monkeypatch.setattr(fresh, "PATIENCE_S", 0.3)
    (project / "tools/sort.py").write_text("def sort_numbers(numbers):\n    pass\n")
    go_on = threading.Event()

    def encode_later(texts: Any, **options: Any) -> Vectors:
        assert not any("def sort_numbers" in each for each in texts) or go_on.wait(60)
        return encode(texts, **options)

    monkeypatch.setattr(encoder, "encode", encode_later)
    # The second one answers from what is on the disk.
    for local in (first, LocalCorpora(project, tmp_path / "home")):
        for _ in range(2):
            reply = talk(local, search)[1]
            hits = reply["result"]["structuredContent"]["hits"]
            assert hits[0]["path"] == "tools/sort.py"
            assert hits[0]["changed"] is True
            assert "until then the last one answers" in text(reply)

        for tool in ("find_related", "read_document"):
            reply = talk(local, call(1, tool, id="tools/sort.py:1"))[1]
            assert "until then the last one answers" in text(reply).partition("\n")[0]
            assert "being brought up to date" in reply["result"]["structuredContent"]["warning"]

    go_on.set()
    monkeypatch.setattr(fresh, "PATIENCE_S", 60.0)
    until(lambda: not first._indexes["workspace"]._is_late)
    reply = talk(first, search)[1]
    assert "changed" not in reply["result"]["structuredContent"]["hits"][0]
    assert "warning" not in reply["result"]["structuredContent"]


def test_the_wait_for_other_calls_counts_before_the_last_build_answers(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = SlowEncoder()
    encoder.go_on.set()
    monkeypatch.setattr(workspace, "load_encoder", lambda directory: encoder)
    local = LocalCorpora(project, tmp_path / "home")
    search = call(1, "search_code", query="sort numbers", k=2)
    talk(local, search)

    encode, go_on = encoder.encode, threading.Event()
    waits_for_indexing: list[float] = []

    def encode_late(texts: Any, **options: Any) -> Vectors:
        assert not any("def sort_numbers" in each for each in texts) or go_on.wait(60)
        return encode(texts, **options)

    def give_up(futures: Any, seconds: float) -> Any:
        waits_for_indexing.append(seconds)
        return wait(futures, 0)

    monkeypatch.setattr(fresh, "wait", give_up)
    monkeypatch.setattr(fresh, "PATIENCE_S", 30.0)
    monkeypatch.setattr(encoder, "encode", encode_late)
    (project / "tools/sort.py").write_text("def sort_numbers(numbers):\n    pass\n")
    index = local._indexes["workspace"]

    def hold_the_turn() -> None:
        until(lambda: bool(index._waiting))
        time.sleep(0.5)
        index._turn.release()

    index._turn.acquire()
    holder = BackgroundCall(hold_the_turn)
    assert "until then the last one answers" in text(talk(local, search)[1])
    assert holder.outcome() is None
    assert 0 < waits_for_indexing[0] <= 30.0 - 0.5

    go_on.set()
    until(lambda: not index._is_late)


def test_an_index_that_another_process_brings_up_to_date_is_said_to_be_old(
    local: LocalCorpora, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = call(1, "search_code", query="sort numbers")
    assert "warning" not in talk(local, search)[1]["result"]["structuredContent"]
    monkeypatch.setattr(
        workspace.Workspace,
        "refresh",
        lambda self, progress=None: setattr(self, "is_behind", True),
    )
    assert "until then the last one answers" in text(talk(local, search)[1])


def test_searches_of_code_do_not_wait_for_the_documentation(
    local: LocalCorpora, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(local, call(1, "search_code", query="sort numbers"))
    monkeypatch.setattr(fresh, "PATIENCE_S", 30.0)
    with local._indexes["workspace-docs"].opened():
        reply = talk(local, call(1, "search_code", query="sort numbers"))[1]
        assert "warning" not in reply["result"]["structuredContent"]


def test_what_ends_a_long_indexing_is_told_to_the_next_call(
    slow_index: tuple[LocalCorpora, SlowEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    local, encoder = slow_index

    def fail(*_: Any, **__: Any) -> Vectors:
        assert encoder.go_on.wait(60)
        raise InvalidInput("The disk is full.")

    search = call(1, "search_code", query="sort_numbers")
    with monkeypatch.context() as failing:
        failing.setattr(encoder, "encode", fail)
        assert "still being indexed" in text(talk(local, search)[1])
        encoder.go_on.set()
        monkeypatch.setattr(fresh, "ANSWER_S", 60.0)
        assert "The disk is full." in text(talk(local, search)[1])

    # The call after it indexes again.
    assert "sort_numbers" in text(talk(local, search)[1])


def test_a_call_hears_of_progress_if_it_asks_for_it(
    slow_index: tuple[LocalCorpora, SlowEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    local, encoder = slow_index
    monkeypatch.setattr(fresh, "ANSWER_S", 60.0)
    monkeypatch.setattr(mcp_stdio, "PROGRESS_S", 0.2)
    monkeypatch.setattr(local, "classify", lambda arguments: encoder.go_on.wait(60) / 0)
    texts = {"texts": ["The parcel never came."], "labels": ["delivery", "payment"]}
    calls = [
        request(name, "tools/call", name=tool, arguments=arguments, _meta=metadata)
        for name, tool, arguments, metadata in (
            ("quiet", "search_code", {"query": "rows"}, {}),
            ("loud", "search_code", {"query": "rows"}, {"progressToken": "token"}),
            # It waits for no index.
            ("label", "classify", texts, {"progressToken": "other"}),
        )
    ]
    sink = io.BytesIO()

    def notified() -> list[Any]:
        messages = [json.loads(line) for line in sink.getvalue().splitlines()]
        return [message["params"] for message in messages if "params" in message]

    def encode_once_progress_is_heard() -> None:
        until(lambda: sum(" of " in params["message"] for params in notified()) > 1)
        encoder.go_on.set()

    server = StdioServer(lambda: local, io.BytesIO(b"".join(calls)), sink)
    # Until the server has started, any call hears of that.
    server._backend()
    encoding = BackgroundCall(encode_once_progress_is_heard)
    server.run()
    assert encoding.outcome() is None

    heard = notified()
    assert {params["progressToken"] for params in heard} == {"token"}
    assert re.fullmatch(r"\w+ [\d,]+ of [\d,]+ \w+", heard[-1]["message"])
    seconds = [params["progress"] for params in heard]
    assert len(seconds) > 1
    assert seconds == sorted(set(seconds))


def test_a_file_that_changes_meanwhile_is_marked(
    local: LocalCorpora, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(local, call(1, "search_code", query="x"))
    monkeypatch.setattr(workspace.Workspace, "refresh", lambda self, progress=None: False)
    time.sleep(0.02)
    (project / "tools/sort.py").write_text("def sort_numbers(numbers):\n    pass\n")

    reply = talk(local, call(1, "search_code", query="sort numbers", k=2))[1]
    hits = {hit["path"]: hit for hit in reply["result"]["structuredContent"]["hits"]}
    assert hits["tools/sort.py"]["changed"] is True
    assert sum("changed" in hit for hit in hits.values()) == 1
    assert reply["result"]["structuredContent"]["changed_files"] == 1
    assert "CHANGED since" in text(reply)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tools", "tools"),
        ("tools/", "tools/"),
        ("./tools/../web/fetch", "web/fetch"),
        (".", ""),
        ("{root}/tools/sort.py", "tools/sort.py"),
        ("{root}", ""),
        ("link.py", "tools/sort.py"),
    ],
)
def test_paths_are_relative_to_the_root(
    local: LocalCorpora, project: Path, path: str, expected: str
) -> None:
    (project / "link.py").symlink_to("tools/sort.py")
    assert local.relative("workspace", path.format(root=project)) == expected


@pytest.mark.parametrize(
    "path", ["..", "../project2", "/etc/passwd", "out/passwd", "a\x00b", "loop/x", "tools/../../x"]
)
def test_paths_outside_are_refused(local: LocalCorpora, project: Path, path: str) -> None:
    (project / "out").symlink_to("/etc")
    (project / "loop").symlink_to("loop")
    with pytest.raises(InvalidInput, match="path is"):
        local.relative("workspace", path)
    for name, argument in (("search_code", "path"), ("find_related", "id")):
        arguments = {"query": "x"} if name == "search_code" else {}
        location = path if argument == "path" else f"{path}:1"
        reply = talk(local, call(1, name, **arguments, **{argument: location}))[1]
        assert reply["result"]["isError"] is True


def test_a_home_directory_is_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    reply = talk(LocalCorpora(tmp_path, tmp_path / "none"), call(1, "search_code", query="x"))[1]
    assert "--path" in text(reply)


def test_a_working_directory_may_have_been_removed(
    local: LocalCorpora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    reply = talk(local, call(1, "search_code", query="sort numbers"))[1]
    assert f"; paths are below {tmp_path / 'project'}\n" in text(reply)


# ---- a home beside the workspace


def test_corpora_of_a_home_are_searched_where_there_is_no_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("purlin.index.encoder.Encoder.load", lambda directory, **_: HashEncoder())
    make(tmp_path / "home", "shared", FUNCTIONS)
    replies = talk(
        LocalCorpora(tmp_path, tmp_path / "home"),
        call(1, "search_code", query="sort numbers", corpus="shared", k=1),
        call(2, "find_related", id="web/fetch.js::fetchPage", corpus="shared", k=1),
    )
    for reply in replies.values():
        assert " in shared (" in text(reply)


def test_settings_of_a_server_beside_it_do_not_count(
    local: LocalCorpora, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purlin.index.encoder.Encoder.load", lambda directory, **_: HashEncoder())
    for name, value in (("WATCH", "1"), ("DEMO", "1"), ("MILVUS", "http://127.0.0.1:1")):
        monkeypatch.setenv(f"PURLIN_{name}", value)
    settings = local._in_home()._service._settings
    assert (settings.watch, settings.demo, settings.milvus) == (False, False, "")


def test_corpora_of_a_home_are_searched_by_name(
    local: LocalCorpora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader_directory: Path
) -> None:
    monkeypatch.setattr("purlin.index.encoder.Encoder.load", lambda directory, **_: HashEncoder())
    monkeypatch.setenv("PURLIN_READER", str(reader_directory))
    make(tmp_path / "home", "shared", FUNCTIONS)

    replies = talk(
        local,
        call(1, "search_code", query="sort numbers", corpus="shared", k=1),
        call(2, "search_code", query="sort numbers", k=1),
        call(3, "search_products", query="a drill"),
        call(4, "search_code", query="x", corpus="none"),
        call(5, "classify", texts=["sports"], labels=["sports", "business"]),
        call(6, "ask_reference", question="What is the default step?"),
        call(7, "search_code", query="x", corpus="workspace-docs"),
        call(8, "find_related", id="web/fetch.js::fetchPage", corpus="shared", k=1),
        call(9, "read_document", id="web/fetch.js::fetchPage", corpus="shared"),
    )
    assert text(replies[1]).startswith("1 hit in shared (")
    assert "in workspace (" in text(replies[2])
    assert "no corpus of kind product" in text(replies[3])
    assert replies[4]["result"]["isError"]
    assert "1. sports" in text(replies[5])
    assert "from workspace-docs (" in text(replies[6])
    assert "Those of kind code: workspace, shared." in text(replies[7])
    assert "tools/" in text(replies[8])
    assert "function fetchPage" in text(replies[9])
    with pytest.raises(NotFound):
        local.kind("none")


def test_the_languages_of_a_directory_are_listed_if_none_is_meant(local: LocalCorpora) -> None:
    reply = talk(local, call(1, "search_code", query="sort rows of a page", language="Golang"))[1]
    assert "Nothing in workspace fits language Golang: leave it out" in text(reply)
    assert "It has: javascript, markdown, python." in text(reply)


def test_a_file_that_is_not_indexed_is_named_with_its_reason(
    local: LocalCorpora, project: Path
) -> None:
    for name in ("one", "two"):
        (project / f"big_{name}.py").write_bytes(b"x = 1\n\0")
    requests = {
        1: ("search_code", {"query": "rows", "path": "big_one.py"}),
        2: ("search_code", {"query": "rows", "path": "big"}),
        3: ("search_code", {"query": "rows", "path": "nowhere.py"}),
        4: ("read_document", {"id": "big_two.py:1"}),
        5: ("read_document", {"id": "nowhere.py:1"}),
    }
    calls = (call(number, name, **arguments) for number, (name, arguments) in requests.items())
    replies = talk(local, *calls)
    texts = {number: replies[number]["result"]["content"][0]["text"] for number in requests}

    reason = "is not indexed (binary: it holds a zero byte)"
    assert texts[1].endswith(f" big_one.py {reason}.")
    assert texts[2].endswith(f" big_one.py {reason}, and 1 more.")
    assert "not indexed" not in texts[3]
    assert texts[4].endswith(f"; big_two.py {reason}.")
    assert texts[5].endswith("; that file has none.")
