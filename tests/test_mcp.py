"""POST /mcp and the tools behind it; against the protocol's own client, and message by message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.client.streamable_http import streamable_http_client

from app import tools
from app.mcp import HANDSHAKE, STATELESS
from index.indexing.build import build
from index.sources import open_source
from tests.conftest import HashEncoder
from tests.listening import listening
from tests.serving import make, numbered, problem, serving, until
from tests.test_access import CLASSIFYING, KEYS, RUNNING, SEARCHING, bearer
from tests.test_ask import HTML

FILES = {
    "tools/read.py": '"""Tables."""\n\n\ndef read_rows(path):\n    """Read rows from a csv file."""\n    return path\n',
    "tools/sort.py": 'def sort_numbers(numbers):\n    """Sort numbers in order."""\n    return sorted(numbers)\n',
    "web/fetch.js": "/** Download a page from an url. */\nfunction fetchPage(url) {\n  return fetch(url);\n}\n",
    "web/long.py": "def long(rows):\n"
    + "".join(f"    rows.append({line})  # 'row' é\n" for line in range(300)),
}
VERSION = STATELESS[-1]
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, sources, pages = (tmp_path_factory.mktemp(name) for name in ("home", "sources", "pages"))
    for path, content in FILES.items():
        (sources / path).parent.mkdir(exist_ok=True)
        (sources / path).write_text(content)
    build(home, "project", "code", open_source("code", [sources]), HashEncoder())
    (pages / "functions.html").write_text(HTML)
    library = open_source("reference", [pages], base_url="https://example.org")
    build(home, "library", "reference", library, HashEncoder())
    return home


@pytest.fixture(scope="module")
def client(home: Path, reader_directory: Path) -> Iterator[TestClient]:
    with serving(home, reader=reader_directory) as client:
        until(lambda: client.get("/readyz").status_code == 200)
        yield client


def rpc(client: TestClient, method: str, params: Any = None, **headers: str) -> dict[str, Any]:
    """What a request is answered with: a result or an error."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method} | (
        {} if params is None else {"params": params}
    )
    response = client.post("/mcp", json=message, headers=headers)
    assert response.status_code == 200, response.text
    reply: dict[str, Any] = response.json()
    assert (reply.pop("jsonrpc"), reply.pop("id")) == ("2.0", 7)
    return reply


def call(client: TestClient, name: str, **arguments: Any) -> dict[str, Any]:
    result: dict[str, Any] = rpc(client, "tools/call", {"name": name, "arguments": arguments})[
        "result"
    ]
    return result


def text(result: Any) -> str:
    (content,) = result["content"]
    assert content["type"] == "text"
    return str(content["text"])


# ---- the protocol's own client


async def tour(client: mcp.Client) -> list[Any]:
    """Look around and call each tool."""
    listed = await client.list_tools()
    code = await client.call_tool("search_code", {"query": "sort numbers", "k": 1})
    answer = await client.call_tool(
        "ask_reference", {"question": "What is the default step of range?"}
    )
    label = await client.call_tool(
        "classify", {"texts": ["sports"], "labels": ["sports", "business"]}
    )
    wrong = await client.call_tool("search_code", {"query": "x", "k": 1000})
    return [listed, code, answer, label, wrong]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_lists_and_calls_the_tools(
    home: Path, reader_directory: Path, mode: Any
) -> None:
    async def run(url: str) -> tuple[str | None, list[Any]]:
        async with mcp.Client(f"{url}/mcp", mode=mode) as client:
            return client.protocol_version, await tour(client)

    with listening(home, HashEncoder(), reader=reader_directory) as url:
        until(lambda: httpx2.get(f"{url}/readyz").status_code == 200)
        version, (listed, code, answer, label, wrong) = anyio.run(run, url)
    assert version == (VERSION if mode == "auto" else HANDSHAKE[-1])
    assert [tool.name for tool in listed.tools] == ["search_code", "ask_reference", "classify"]
    assert "tools/sort.py:1-3" in code.content[0].text
    assert code.structured_content["hits"][0]["path"] == "tools/sort.py"
    assert answer.structured_content["answers"]
    assert label.structured_content["results"][0]["label"] == "sports"
    assert wrong.is_error
    assert "k must be" in wrong.content[0].text.replace("Input ", "")


def test_the_official_client_sends_a_key(home: Path) -> None:
    async def run(url: str) -> tuple[Any, Any]:
        async with httpx2.AsyncClient(headers=bearer(CLASSIFYING)) as http:
            async with mcp.Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
                arguments = {"texts": ["one"], "labels": ["one", "two"]}
                return await client.list_tools(), await client.call_tool("classify", arguments)

    with listening(home, HashEncoder(), keys=KEYS) as url:
        listed, label = anyio.run(run, url)
    assert [tool.name for tool in listed.tools] == ["classify"]
    assert label.structured_content["results"][0]["label"] == "one"


# ---- tools


def test_code_comes_with_place_reason_and_text(client: TestClient) -> None:
    result = call(client, "search_code", query="sort numbers in ascending order", k=2)
    first = result["structuredContent"]["hits"][0]
    assert first["path"] == "tools/sort.py"
    assert (first["start_line"], first["end_line"]) == (1, 3)
    assert first["code"] == FILES["tools/sort.py"].rstrip()
    assert first["why"].startswith("has ")
    assert "cut" not in first
    lines = text(result).splitlines()
    assert lines[0] == "2 hits in project"
    assert lines[1].startswith("1. tools/sort.py:1-3 sort_numbers · ")
    assert lines[2:5] == FILES["tools/sort.py"].splitlines()
    assert result["isError"] is False


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"path": "web/"}, {"web/fetch.js", "web/long.py"}),
        ({"path": "./web/fetch"}, {"web/fetch.js"}),
        ({"path": "tools/sort.py"}, {"tools/sort.py"}),
        ({"language": "javascript"}, {"web/fetch.js"}),
        ({"language": "python", "path": "web/"}, {"web/long.py"}),
        ({"path": "nowhere"}, set()),
    ],
)
def test_search_is_narrowed_by_path_and_language(
    client: TestClient, arguments: dict[str, str], paths: set[str]
) -> None:
    result = call(client, "search_code", query="rows of a page", **arguments)
    assert {hit["path"] for hit in result["structuredContent"]["hits"]} == paths
    if not paths:
        assert text(result) == "Nothing in project fits."


def test_paths_are_those_of_the_hits_where_there_are_several_sources(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text(f"def in_{name}(rows):\n    return rows\n")
    sources = open_source("code", [tmp_path / "one", tmp_path / "two"])
    build(tmp_path, "both", "code", sources, HashEncoder())
    with serving(tmp_path) as client:
        until(lambda: client.get("/readyz").status_code == 200)
        (hit,) = call(client, "search_code", query="rows", path="two/")["structuredContent"]["hits"]
    assert hit["path"] == "two/code.py"


def test_answers_come_with_passage_and_link(client: TestClient) -> None:
    result = call(client, "ask_reference", question="What is the default step of range?", k=5)
    found = result["structuredContent"]
    assert 0 <= found["answerable"] <= 1
    assert f"answerable {found['answerable']:.2f}" in text(result)
    assert len(found["answers"]) == 5
    passages: dict[int, str] = {}
    for number, answer in enumerate(found["answers"], 1):
        passages[number] = (
            answer["passage"] if "passage" in answer else passages[answer["passage_of"]]
        )
        assert answer["text"] in passages[number]
        assert answer["url"].startswith("https://example.org/functions.html#")
        assert f"{number}. {json.dumps(answer['text'])}" in text(result)
    assert len(set(passages.values())) == sum("passage" in answer for answer in found["answers"])


def test_texts_get_labels_in_order(client: TestClient) -> None:
    result = call(
        client, "classify", texts=["sports", "business"], labels=["business", "sports", "world"]
    )
    assert [one["label"] for one in result["structuredContent"]["results"]] == [
        "sports",
        "business",
    ]
    assert text(result).splitlines()[1].startswith("1. sports ")
    alike = call(client, "classify", texts=["a"], labels=["sports", "Sports"])
    assert "nearly the same" in text(alike)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("search_code", {}, "query is required"),
        ("search_code", {"query": " "}, "query is empty"),
        ("search_code", {"query": "x", "max_tokens": 10}, "greater than or equal to 200"),
        ("search_code", {"query": "x", "colour": "red"}, "colour is not a known key"),
        (
            "search_code",
            {"query": "x", "corpus": "library"},
            "is of kind reference. Those of kind code: project.",
        ),
        ("search_code", {"query": "x", "corpus": "nowhere"}, "nowhere"),
        ("search_code", {"query": "x", "corpus": "../x"}, "1 to 64"),
        (
            "ask_reference",
            {"question": "x", "corpus": "project"},
            "is of kind code. Those of kind reference: library",
        ),
        ("ask_reference", {"question": "x" * 5000}, "at most 4096 characters"),
        ("classify", {"texts": ["a"]}, "either `labels` or `classifier`"),
        ("classify", {"texts": ["a"] * 101, "labels": ["a", "b"]}, "at most 100 items"),
        ("classify", {"texts": [], "labels": ["a", "b"]}, "at least 1 item"),
        ("classify", {"texts": ["a"], "labels": ["a"]}, "multi_label"),
        ("classify", {"texts": ["a"], "classifier": "none"}, "none"),
    ],
)
def test_what_is_wrong_with_arguments_is_a_result_that_the_model_reads(
    client: TestClient, name: str, arguments: dict[str, Any], words: str
) -> None:
    result = call(client, name, **arguments)
    assert result["isError"] is True
    assert words in text(result)


def test_without_a_corpus_the_only_one_of_its_kind_is_asked(home: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert "no corpus of kind code" in text(call(client, "search_code", query="x"))
        for name in ("one", "two"):
            make(tmp_path, name, numbered(2), HashEncoder())
        until(lambda: "several" in text(call(client, "search_code", query="x")))
        assert "`corpus` to one of one, two" in text(call(client, "search_code", query="x"))
        assert (
            call(client, "search_code", query="x", corpus="two")["structuredContent"]["corpus"]
            == "two"
        )


def test_without_a_reader_it_is_said_what_is_missing(home: Path, tmp_path: Path) -> None:
    with serving(home, reader=tmp_path / "none") as client:
        until(lambda: client.get("/readyz").status_code == 200)
        assert "PURLIN_READER" in text(call(client, "ask_reference", question="x"))


# ---- budgets


@pytest.mark.parametrize("max_tokens", [200, 400, 1_000, 4_000, 20_000])
def test_results_fit_into_their_budget_twice(client: TestClient, max_tokens: int) -> None:
    for name, arguments in (
        ("search_code", {"query": "append rows", "k": 4}),
        ("ask_reference", {"question": "step of range", "k": 20}),
        (
            "classify",
            {"texts": ["sports"] * 100, "labels": ["sports", "a rather long label about the news"]},
        ),
    ):
        result = call(client, name, max_tokens=max_tokens, **arguments)
        structured = json.dumps(result["structuredContent"], ensure_ascii=False)
        assert len(text(result).encode()) <= max_tokens * tools.BYTES_PER_TOKEN
        assert len(structured.encode()) <= max_tokens * tools.BYTES_PER_TOKEN
        shown = [*result["structuredContent"].values()][
            -2 if "left_out" in result["structuredContent"] else -1
        ]
        assert len(shown) >= 1


def test_half_surrogate_pairs_are_refused_and_sent_back_as_escapes(client: TestClient) -> None:
    body = b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/call", "params": {"name": "classify", "arguments": '
    body += b'{"texts": ["a \\udfff"], "labels": ["b\\ud800", "c"]}}}'
    response = client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert response.json()["id"] == "\ud800"
    assert response.json()["result"]["isError"] is True
    assert "texts[0] must be a valid string" in text(response.json()["result"])
    assert '"b\\ud800"' in text(response.json()["result"])


def test_long_code_is_cut_between_lines_and_short_code_stays_whole(client: TestClient) -> None:
    result = call(client, "search_code", query="append rows", k=4, max_tokens=1_000)
    hits = {hit["path"]: hit for hit in result["structuredContent"]["hits"]}
    long = FILES["web/long.py"].splitlines()
    assert hits["web/long.py"]["cut"]
    kept = hits["web/long.py"]["code"].splitlines()
    assert 10 < len(kept) < 100
    assert kept == long[: len(kept)]
    assert f"… {len(long) - len(kept)} lines" in text(result)
    assert hits["tools/sort.py"]["code"] == FILES["tools/sort.py"].rstrip()
    whole = call(client, "search_code", query="append rows", k=4, max_tokens=20_000)
    assert "cut" not in str(whole["structuredContent"])


def test_what_finds_no_room_is_counted(client: TestClient) -> None:
    labels = ["sports", "business"]
    result = call(client, "classify", texts=["sports"] * 100, labels=labels, max_tokens=200)
    found = result["structuredContent"]
    assert len(found["results"]) + found["left_out"] == 100
    assert text(result).endswith(f"{found['left_out']} more: raise max_tokens.")


_LINES = st.lists(
    st.text(st.characters(exclude_characters="\n"), max_size=30), min_size=1, max_size=12
)


@settings(deadline=None)
@given(_LINES, st.data())
def test_a_window_is_whole_lines_around_its_place(lines: list[str], data: st.DataObject) -> None:
    whole = "\n".join(lines)
    at = data.draw(st.integers(0, max(0, len(whole) - 1)))
    room = data.draw(st.integers(0, 200))
    start, end = tools.window(whole, at, room)
    shown = whole[start:end]
    assert 0 <= start <= at <= max(end, at) <= len(whole)
    assert (
        shown == "" or len(json.dumps(shown, ensure_ascii=False).encode(errors="replace")) <= room
    )
    line = whole[whole.rfind("\n", 0, at) + 1 :].split("\n")[0] + "\n"
    if whole and len(json.dumps(line, ensure_ascii=False).encode(errors="replace")) <= room:
        assert start == 0 or whole[start - 1] == "\n"
        assert end == len(whole) or whole[end - 1] == "\n"
        assert start <= at < end
    if len(json.dumps(whole, ensure_ascii=False).encode(errors="replace")) <= room:
        assert shown == whole


# ---- messages


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}', -32700),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "ping"}', -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600),
        (b"null", -32600),
        (b'"ping"', -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": "' + b"x" * 257 + b'", "method": "ping"}', -32600),
    ],
)
def test_what_is_no_message_is_refused_with_its_code(
    client: TestClient, body: bytes, code: int
) -> None:
    response = client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    reply = response.json()
    assert (reply["jsonrpc"], reply["id"], reply["error"]["code"]) == ("2.0", None, code)
    assert reply["error"]["message"]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("nothing", None, -32601),
        ("server/discover", None, -32601),
        ("resources/list", {}, -32601),
        ("ping", [], -32602),
        ("initialize", {}, -32602),
        ("initialize", {"protocolVersion": 5}, -32602),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": "nothing"}, -32602),
        ("tools/call", {"name": ["search_code"]}, -32602),
        ("tools/call", {"name": "search_code", "arguments": []}, -32602),
    ],
)
def test_requests_that_cannot_be_done_are_errors(
    client: TestClient, method: str, params: Any, code: int
) -> None:
    assert rpc(client, method, params)["error"]["code"] == code


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result"]), _JSON),
    st.dictionaries(st.sampled_from(["name", "arguments", "_meta", "protocolVersion"]), _JSON),
    st.sampled_from(["initialize", "ping", "tools/list", "tools/call"]),
)
def test_any_message_is_answered(
    client: TestClient, message: dict[str, Any], params: dict[str, Any], method: str
) -> None:
    for sent in (
        message,
        {"jsonrpc": "2.0", "method": method, "id": "x", "params": params} | message,
    ):
        response = client.post(
            "/mcp", content=json.dumps(sent), headers={"Content-Type": "application/json"}
        )
        assert response.status_code in (200, 202, 400)
        if response.status_code != 202:
            assert response.json()["jsonrpc"] == "2.0"


@pytest.mark.parametrize("requested", [*HANDSHAKE, "2024-11-05", "2099-01-01", VERSION])
def test_the_version_is_agreed_upon(client: TestClient, requested: str) -> None:
    result = rpc(
        client, "initialize", {"protocolVersion": requested, "capabilities": {}, "clientInfo": {}}
    )["result"]
    assert result["protocolVersion"] == (requested if requested in HANDSHAKE else HANDSHAKE[-1])
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "purlin"


def test_a_version_that_is_not_known_is_refused(client: TestClient) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for version in HANDSHAKE:
        assert (
            client.post("/mcp", json=message, headers={"MCP-Protocol-Version": version}).status_code
            == 200
        )
    refused = client.post("/mcp", json=message, headers={"MCP-Protocol-Version": "1999-01-01"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == -32022
    assert refused.json()["error"]["data"] == {
        "supported": [*HANDSHAKE, *STATELESS],
        "requested": "1999-01-01",
    }


def test_notifications_and_replies_are_taken_without_an_answer(client: TestClient) -> None:
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ):
        response = client.post("/mcp", json=message)
        assert (response.status_code, response.content) == (202, b"")
    assert rpc(client, "ping") == {"result": {}}


def test_there_is_no_stream_and_no_session(client: TestClient) -> None:
    for method in ("GET", "DELETE"):
        response = client.request(method, "/mcp")
        assert problem(response, 405)
        assert response.headers["allow"] == "POST"
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": HANDSHAKE[0]},
    }
    assert "mcp-session-id" not in client.post("/mcp", json=message).headers


def stateless(
    client: TestClient, method: str, params: Any, **headers: str
) -> tuple[int, dict[str, Any]]:
    message = {"jsonrpc": "2.0", "id": "a", "method": method, "params": params}
    sent = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method} | headers
    response = client.post(
        "/mcp", json=message, headers={name: value for name, value in sent.items() if value}
    )
    return response.status_code, response.json()


def test_stateless_requests_carry_all_there_is_to_know(client: TestClient) -> None:
    status, reply = stateless(client, "server/discover", {"_meta": META})
    assert status == 200
    assert reply["result"]["supportedVersions"] == list(STATELESS)
    assert reply["result"]["resultType"] == "complete"
    call = {"_meta": META, "name": "classify", "arguments": {"texts": ["a"], "labels": ["a", "b"]}}
    for name in ("classify", "=?base64?Y2xhc3NpZnk=?="):
        status, reply = stateless(client, "tools/call", call, **{"Mcp-Name": name})
        assert (status, reply["result"]["isError"]) == (200, False)


@pytest.mark.parametrize(
    ("method", "params", "headers", "status", "code"),
    [
        ("tools/list", {}, {}, 400, -32602),
        ("tools/list", {"_meta": {}}, {}, 400, -32602),
        ("tools/list", {"_meta": META}, {"Mcp-Method": "ping"}, 400, -32020),
        ("tools/list", {"_meta": META}, {"Mcp-Method": ""}, 400, -32020),
        (
            "tools/list",
            {"_meta": META | {"io.modelcontextprotocol/protocolVersion": "x"}},
            {},
            400,
            -32020,
        ),
        ("tools/call", {"_meta": META, "name": "classify"}, {}, 400, -32020),
        (
            "tools/call",
            {"_meta": META, "name": "classify"},
            {"Mcp-Name": "=?base64?%?="},
            400,
            -32020,
        ),
        ("ping", {"_meta": META}, {}, 404, -32601),
        ("initialize", {"_meta": META}, {}, 404, -32601),
    ],
)
def test_stateless_requests_that_contradict_themselves(
    client: TestClient, method: str, params: Any, headers: dict[str, str], status: int, code: int
) -> None:
    found, reply = stateless(client, method, params, **headers)
    assert (found, reply["error"]["code"], reply["id"]) == (status, code, "a")


# ---- who may come


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:3000", True),
        ("https://127.0.0.1", True),
        ("http://[::1]:8000", True),
        ("https://app.example.org", True),
        ("https://app.example.org:444", False),
        ("http://evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://testserver", False),
        ("null", False),
        ("file://", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_pages_come_from_here_or_from_listed_origins(
    tmp_path: Path, origin: str, allowed: bool
) -> None:
    with serving(tmp_path, cors_origins="https://app.example.org") as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        response = client.post("/mcp", json=message, headers={"Origin": origin})
        assert response.status_code == (200 if allowed else 403)
        if not allowed:
            assert "PURLIN_CORS_ORIGINS" in problem(response, 403)["detail"]


def test_browsers_of_listed_origins_may_send_the_headers_of_the_protocol(tmp_path: Path) -> None:
    with serving(tmp_path, cors_origins="https://app.example.org") as client:
        wanted = "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name"
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": wanted}
        assert (
            client.options(
                "/mcp", headers={"Origin": "https://app.example.org"} | asked
            ).status_code
            == 200
        )
        assert (
            client.options("/mcp", headers={"Origin": "https://evil.example"} | asked).status_code
            == 400
        )


def test_a_body_that_is_no_json_by_its_type_is_refused(client: TestClient) -> None:
    assert problem(client.post("/mcp", content=b"{}", headers={"Content-Type": "text/plain"}), 415)


def test_each_tool_needs_its_own_scope(home: Path) -> None:
    keys = f"{KEYS}\nmaster admin a-key-that-only-administers"
    with serving(home, keys=keys) as client:
        until(lambda: client.get("/readyz").status_code == 200)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert problem(client.post("/mcp", json=ping), 401)
        assert problem(
            client.post("/mcp", json=ping, headers=bearer("a-key-that-only-administers")), 403
        )
        client.headers |= bearer(SEARCHING)
        listed = rpc(client, "tools/list")["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["search_code", "ask_reference"]
        assert call(client, "search_code", query="sort")["isError"] is False
        refused = call(client, "classify", texts=["a"], labels=["a", "b"])
        assert refused["isError"] is True
        assert "lacks the scope classify" in text(refused)
        client.headers |= bearer(RUNNING)
        assert [tool["name"] for tool in rpc(client, "tools/list")["result"]["tools"]] == [
            "search_code"
        ]


def test_descriptions_say_when_to_use_a_tool_and_schemas_are_complete(client: TestClient) -> None:
    listed = rpc(client, "tools/list")["result"]["tools"]
    assert len(json.dumps(listed)) / tools.BYTES_PER_TOKEN < 2_500
    for tool in listed:
        assert " Use it " in tool["description"]
        assert " Not for " in tool["description"]
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert tool["inputSchema"]["properties"]["max_tokens"]["default"] == 2_000
        for about in tool["inputSchema"]["properties"].values():
            assert about["type"] in ("string", "integer", "array", "boolean")
            assert about["description"]
            assert about.get("default", 0) is not None
        assert tool["annotations"]["readOnlyHint"]
