"""POST /mcp: headers, origins and what is no message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from purlin.app.agents.mcp import HANDSHAKE, STATELESS
from tests.support.agents import META, PING, VERSION
from tests.support.serving import problem, serving


def test_an_unknown_version_is_refused(client: TestClient) -> None:
    for version in HANDSHAKE:
        response = client.post("/mcp", json=PING, headers={"MCP-Protocol-Version": version})
        assert response.status_code == 200

    refused = client.post("/mcp", json=PING, headers={"MCP-Protocol-Version": "1999-01-01"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == -32022
    expected = {"supported": [*HANDSHAKE, *STATELESS], "requested": "1999-01-01"}
    assert refused.json()["error"]["data"] == expected


def test_streams_are_not_offered(client: TestClient) -> None:
    for method in ("GET", "DELETE"):
        response = client.request(method, "/mcp")
        assert problem(response, 405)
        assert response.headers["allow"] == "POST"

    params = {"protocolVersion": HANDSHAKE[0]}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    assert "mcp-session-id" not in client.post("/mcp", json=message).headers


def stateless(
    client: TestClient, method: str, params: Any, **headers: str
) -> tuple[int, dict[str, Any]]:
    message = {"jsonrpc": "2.0", "id": "a", "method": method, "params": params}
    all_headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method} | headers
    # An empty header in a test case means that it is not sent.
    sent_headers = {name: value for name, value in all_headers.items() if value}

    response = client.post("/mcp", json=message, headers=sent_headers)
    return response.status_code, response.json()


def test_stateless_requests_need_no_handshake(client: TestClient) -> None:
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
        ("tools/list", {"_meta": META | {"io.modelcontextprotocol/protocolVersion": "x"}}, {}, 400, -32020),
        ("tools/call", {"_meta": META, "name": "classify"}, {}, 400, -32020),
        ("tools/call", {"_meta": META, "name": "classify"}, {"Mcp-Name": "=?base64?%?="}, 400, -32020),
        ("ping", {"_meta": META}, {}, 404, -32601),
        ("initialize", {"_meta": META}, {}, 404, -32601),
    ],
)  # fmt: skip
def test_inconsistent_stateless_requests_are_refused(
    client: TestClient, method: str, params: Any, headers: dict[str, str], status: int, code: int
) -> None:
    actual_status, reply = stateless(client, method, params, **headers)
    assert (actual_status, reply["error"]["code"], reply["id"]) == (status, code, "a")


@pytest.fixture(scope="module")
def listing_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of a server that lists one origin."""
    home = tmp_path_factory.mktemp("empty")
    with serving(home, cors_origins="https://app.example.org") as client:
        yield client


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
def test_only_local_and_listed_origins_are_allowed(
    listing_client: TestClient, origin: str, allowed: bool
) -> None:
    response = listing_client.post("/mcp", json=PING, headers={"Origin": origin})

    assert response.status_code == (200 if allowed else 403)
    if not allowed:
        assert "PURLIN_CORS_ORIGINS" in problem(response, 403)["detail"]


def test_listed_origins_may_send_protocol_headers(listing_client: TestClient) -> None:
    sent = "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name"
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": sent}
    for origin, status in (("https://app.example.org", 200), ("https://evil.example", 400)):
        response = listing_client.options("/mcp", headers={"Origin": origin} | preflight)
        assert response.status_code == status


def test_other_content_types_are_refused(client: TestClient) -> None:
    assert problem(client.post("/mcp", content=b"{}", headers={"Content-Type": "text/plain"}), 415)
