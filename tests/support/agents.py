"""Files that agents search, and the requests and replies of their protocol."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient

from purlin.app.agents.mcp import STATELESS

FILES = {
    "tools/read.py": '"""Tables."""\n\n\ndef read_rows(path):\n    """Read rows from a csv file."""\n    return path\n',
    "tools/sort.py": 'def sort_numbers(numbers):\n    """Sort numbers in order."""\n    return sorted(numbers)\n',
    "web/fetch.js": "/** Download a page from an url. */\nfunction fetchPage(url) {\n  return fetch(url);\n}\n",
    "web/long.py": "def long(rows):\n"
    + "".join(f"    rows.append({line})  # 'row' é\n" for line in range(300)),
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
VERSION = STATELESS[-1]
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def rpc(client: TestClient, method: str, params: Any = None, **headers: str) -> dict[str, Any]:
    """Return the result or the error of one request."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method}
    if params is not None:
        message["params"] = params
    response = client.post("/mcp", json=message, headers=headers)

    assert response.status_code == 200, response.text

    reply: dict[str, Any] = response.json()
    assert (reply.pop("jsonrpc"), reply.pop("id")) == ("2.0", 7)

    return reply


def call(client: TestClient, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the result of a tool call."""
    reply = rpc(client, "tools/call", {"name": name, "arguments": arguments})
    result: dict[str, Any] = reply["result"]
    return result


def text(result: Any) -> str:
    """Return the only text block of a result."""
    (content,) = result["content"]
    assert content["type"] == "text"
    return str(content["text"])
