from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.app.agents import tools
from purlin.app.agents.mcp import HANDSHAKE
from tests.support.agents import VERSION, rpc, text
from tests.support.hash_encoder import HashEncoder
from tests.support.listening import listening
from tests.support.serving import API_KEYS, CLASSIFY_KEY, PATIENTLY, bearer, until


async def tour(client: Any) -> list[Any]:
    """List the tools and call each one, once with an invalid argument."""
    listed = await client.list_tools()
    code = await client.call_tool("search_code", {"query": "sort numbers", "k": 1})
    answer = await client.call_tool(
        "ask_reference", {"question": "What is the default step of range?"}
    )
    label = await client.call_tool(
        "classify", {"texts": ["sports"], "labels": ["sports", "business"]}
    )
    invalid = await client.call_tool("search_code", {"query": "x", "k": 1000})
    return [listed, code, answer, label, invalid]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_calls_every_tool(
    home: Path, reader_directory: Path, mode: Any
) -> None:
    # Importing it takes a second, which other tests need not wait for.
    import mcp

    async def run(url: str) -> tuple[str | None, list[Any]]:
        async with mcp.Client(f"{url}/mcp", mode=mode) as client:
            return client.protocol_version, await tour(client)

    with listening(home, HashEncoder(), reader=reader_directory) as url:
        until(lambda: httpx2.get(f"{url}/readyz", **PATIENTLY).status_code == 200)
        version, (listed, code, answer, label, invalid) = anyio.run(run, url)

    assert version == (VERSION if mode == "auto" else HANDSHAKE[-1])
    assert [tool.name for tool in listed.tools] == [tool.name for tool in tools.TOOLS]
    assert "tools/sort.py:1-3" in code.content[0].text
    assert code.structured_content["hits"][0]["path"] == "tools/sort.py"
    assert answer.structured_content["answers"]
    assert label.structured_content["results"][0]["label"] == "sports"
    assert invalid.is_error
    assert "k must be" in invalid.content[0].text.replace("Input ", "")


def test_the_official_client_sends_a_key(home: Path) -> None:
    import mcp
    from mcp.client.streamable_http import streamable_http_client

    async def run(url: str) -> tuple[Any, Any]:
        async with httpx2.AsyncClient(headers=bearer(CLASSIFY_KEY)) as http:
            async with mcp.Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
                arguments = {"texts": ["one"], "labels": ["one", "two"]}
                return await client.list_tools(), await client.call_tool("classify", arguments)

    with listening(home, HashEncoder(), keys=API_KEYS) as url:
        listed, label = anyio.run(run, url)
    assert [tool.name for tool in listed.tools] == ["classify"]
    assert label.structured_content["results"][0]["label"] == "one"


def test_lone_surrogates_are_refused_as_escapes(client: TestClient) -> None:
    body = b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/call", "params": {"name": "classify", "arguments": '
    body += b'{"texts": ["a \\udfff"], "labels": ["b\\ud800", "c"]}}}'
    response = client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert response.json()["id"] == "\ud800"
    assert response.json()["result"]["isError"] is True
    assert "texts[0] must be valid Unicode" in text(response.json()["result"])
    assert '"b\\ud800"' in text(response.json()["result"])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}', -32700),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "ping"}', -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', -32600),
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
def test_malformed_messages_have_error_codes(client: TestClient, body: bytes, code: int) -> None:
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
def test_unknown_requests_are_errors(
    client: TestClient, method: str, params: Any, code: int
) -> None:
    assert rpc(client, method, params)["error"]["code"] == code


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result"]), _JSON),
    st.dictionaries(st.sampled_from(["name", "arguments", "_meta", "protocolVersion"]), _JSON),
    st.sampled_from(["initialize", "ping", "tools/list", "tools/call"]),
)
def test_any_message_is_answered(
    client: TestClient, message: dict[str, Any], params: dict[str, Any], method: str
) -> None:
    complete = {"jsonrpc": "2.0", "method": method, "id": "x", "params": params} | message
    headers = {"Content-Type": "application/json"}
    for sent in (message, complete):
        response = client.post("/mcp", content=json.dumps(sent), headers=headers)
        assert response.status_code in (200, 202, 400)
        if response.status_code != 202:
            assert response.json()["jsonrpc"] == "2.0"


@pytest.mark.parametrize("requested", [*HANDSHAKE, "2024-10-07", "2099-01-01", VERSION])
def test_the_protocol_version_is_negotiated(client: TestClient, requested: str) -> None:
    result = rpc(
        client, "initialize", {"protocolVersion": requested, "capabilities": {}, "clientInfo": {}}
    )["result"]
    assert result["protocolVersion"] == (requested if requested in HANDSHAKE else HANDSHAKE[-1])
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "purlin"


def test_clients_of_2024_get_their_version() -> None:
    # They end the connection where they are offered a later one.
    assert "2024-11-05" in HANDSHAKE


def test_notifications_are_accepted_without_a_body(client: TestClient) -> None:
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ):
        response = client.post("/mcp", json=message)
        assert (response.status_code, response.content) == (202, b"")

    assert rpc(client, "ping") == {"result": {}}
