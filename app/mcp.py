"""`POST /mcp`: tools for agents over the streamable HTTP transport of the Model Context Protocol.

Each request gets one JSON reply: there are no sessions, streams or batches. Supported are clients
that begin with `initialize` (versions 2025-03-26 to 2025-11-25) and clients that send version and
capabilities with each request (2026-07-28). https://modelcontextprotocol.io/specification
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import ValidationError
from starlette.datastructures import Headers

from purlin.app.access import is_loopback
from purlin.app.problems import explain
from purlin.app.routes import json_only
from purlin.app.service import Service, ServiceOf
from purlin.app.tools import TOOLS, Tool
from purlin.index.errors import PurlinError

# Versions of the protocol that begin with `initialize`, and those that send all with each request.
HANDSHAKE = ("2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)

# Error codes of JSON-RPC and of the protocol.
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022

HEADERS = ("Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name")
MAX_REQUEST_ID_CHARS = 256
_META = "io.modelcontextprotocol/"
_SHOWN = 60  # characters of a client's value that a message quotes
_CACHED_MS = 60_000
_STATUSES = {METHOD_NOT_FOUND: 404}
_INSTRUCTIONS = (
    "Search over indexed code, answers in the exact words of references, and labels for many texts at once. Results "
    "are cut to max_tokens: ask for few first, then for more."
)

JsonObject = dict[str, Any]


class _Refused(Exception):
    """A request that is answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.error: JsonObject = {"code": code, "message": message}
        if data:
            self.error["data"] = data


@dataclass(frozen=True, slots=True)
class _Call:
    """Parameters of a request and the scopes of its key; None if the server has no keys."""

    params: JsonObject
    scopes: frozenset[str] | None
    service: Service

    def may_use(self, tool: Tool) -> bool:
        return self.scopes is None or tool.scope in self.scopes


async def _check_origin(request: Request) -> None:
    """Refuse pages of other origins, also if their name has this server's address."""
    origin = request.headers.get("origin")
    if origin is not None and not _is_allowed(origin, request.app.state.origins):
        raise HTTPException(
            403,
            "Pages of this origin may not call this server: "
            "add the origin to PURLIN_CORS_ORIGINS to allow it.",
        )


def _is_allowed(origin: str, allowed: Iterable[str]) -> bool:
    """Whether an origin is in the list or a loopback one."""
    if origin in allowed or "*" in allowed:
        return True

    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and is_loopback(parts.hostname or "")
    except ValueError:
        return False


async def _body(request: Request) -> bytes:
    return await request.body()


mcp_router = APIRouter(dependencies=[Depends(_check_origin), Depends(json_only)])


@mcp_router.post("/mcp", include_in_schema=False)
def talk(request: Request, body: Annotated[bytes, Depends(_body)], service: ServiceOf) -> Response:
    """Answer one message of JSON-RPC; `tools/list` describes the tools."""
    message_id: str | int | None = None
    stateless = request.headers.get("mcp-protocol-version") in STATELESS
    try:
        message = _message(body)
        _check_version(request.headers)

        # A notification or a reply, neither of which is answered.
        if "method" not in message or "id" not in message:
            return Response(status_code=202)

        message_id = _id(message["id"])
        call = _Call(_object(message, "params"), getattr(request.state, "scopes", None), service)
        if stateless:
            _check_envelope(request.headers, message["method"], call.params)
        result = _method(message["method"], stateless)(call)
    except _Refused as refused:
        # Versions with a handshake answer errors of identified requests with status 200.
        by_handshake = message_id is not None and not stateless
        status = 200 if by_handshake else _STATUSES.get(refused.code, 400)
        return _json({"error": refused.error}, message_id, status)

    if stateless:
        result = {"resultType": "complete", **result}
    return _json({"result": result}, message_id)


def _json(reply: JsonObject, message_id: str | int | None, status: int = 200) -> Response:
    content = json.dumps({"jsonrpc": "2.0", "id": message_id, **reply}, separators=(",", ":"))
    return Response(content, status, media_type="application/json")


# ---- messages


def _message(body: bytes) -> JsonObject:
    """Parse and check one message of JSON-RPC."""
    try:
        message = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise _Refused(PARSE_ERROR, "The body is not JSON.") from None

    if isinstance(message, list):
        raise _Refused(INVALID_REQUEST, "Batches are not supported: send one message at a time.")
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise _Refused(INVALID_REQUEST, 'The body must be one JSON object with "jsonrpc": "2.0".')
    if not isinstance(message.get("method", ""), str):
        raise _Refused(INVALID_REQUEST, "method must be a string.")
    if "method" not in message and not message.keys() & {"result", "error"}:
        raise _Refused(INVALID_REQUEST, "method is missing.")
    return message


def _refuse_constant(name: str) -> float:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(name)


def _id(value: Any) -> str | int:
    if isinstance(value, str) and len(value) <= MAX_REQUEST_ID_CHARS:
        return value
    # In Python, bool is a kind of int.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _Refused(
        INVALID_REQUEST,
        f"id must be an integer or a string of at most {MAX_REQUEST_ID_CHARS} characters.",
    )


def _object(holder: Mapping[str, Any], key: str) -> JsonObject:
    value = holder.get(key, {})
    if not isinstance(value, dict):
        raise _Refused(INVALID_PARAMS, f"{key} must be an object.")
    return value


def _check_version(headers: Headers) -> None:
    """Refuse unknown versions. Without a header the client is an old one, says the protocol."""
    requested = headers.get("mcp-protocol-version")
    if requested is not None and requested not in (*HANDSHAKE, *STATELESS):
        data = {"supported": [*HANDSHAKE, *STATELESS], "requested": requested[:_SHOWN]}
        raise _Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _check_envelope(headers: Headers, method: str, params: JsonObject) -> None:
    """Check the metadata of a stateless request, and that its headers repeat it (2026-07-28)."""
    meta = _object(params, "_meta")
    missing = [
        name for name in ("protocolVersion", "clientCapabilities") if _META + name not in meta
    ]
    if missing:
        raise _Refused(
            INVALID_PARAMS, f"params._meta lacks {', '.join(_META + name for name in missing)}."
        )

    expected = {"mcp-protocol-version": meta[_META + "protocolVersion"], "mcp-method": method}
    if method == "tools/call":
        expected["mcp-name"] = params.get("name")
    for name, value in expected.items():
        if len(headers.getlist(name)) != 1 or _decoded(headers[name]) != value:
            raise _Refused(HEADER_MISMATCH, f"The header {name} does not match the body.")


def _decoded(value: str) -> str | None:
    """A header's value; anything but plain ASCII comes as `=?base64?…?=`. None if malformed."""
    coded = re.fullmatch(r"=\?base64\?(.*)\?=", value)
    try:
        return base64.b64decode(coded[1], validate=True).decode() if coded else value
    except (binascii.Error, UnicodeDecodeError):
        return None


# ---- methods


def _initialize(call: _Call) -> JsonObject:
    requested = call.params.get("protocolVersion")
    if not isinstance(requested, str):
        raise _Refused(INVALID_PARAMS, "protocolVersion must be a string.")

    # The server offers its newest version where it does not know the client's.
    agreed = requested if requested in HANDSHAKE else HANDSHAKE[-1]
    return {"protocolVersion": agreed, "serverInfo": _server(), **_abilities()}


def _discover(_: _Call) -> JsonObject:
    cached = {"ttlMs": _CACHED_MS, "cacheScope": "private"}
    return (
        {"supportedVersions": list(STATELESS), "_meta": {_META + "serverInfo": _server()}}
        | _abilities()
        | cached
    )


def _server() -> JsonObject:
    return {"name": "purlin", "title": "Purlin", "version": version("purlin-search")}


def _abilities() -> JsonObject:
    return {"capabilities": {"tools": {}}, "instructions": _INSTRUCTIONS}


def _ping(_: _Call) -> JsonObject:
    return {}


def _list(call: _Call) -> JsonObject:
    """The tools that the key may use."""
    return {"tools": [_described(tool) for tool in TOOLS if call.may_use(tool)]}


def _list_cached(call: _Call) -> JsonObject:
    return _list(call) | {"ttlMs": _CACHED_MS, "cacheScope": "private"}


def _described(tool: Tool) -> JsonObject:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.schema(),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def _call_tool(call: _Call) -> JsonObject:
    """Call a tool. Errors in its arguments are results, too, so that the model can read them."""
    name = call.params.get("name")
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        names = ", ".join(tool.name for tool in TOOLS)
        raise _Refused(INVALID_PARAMS, f"Unknown tool; available are {names}.")
    if not call.may_use(tool):
        return _failed(
            f"This key lacks the scope {tool.scope}: ask whoever runs the server for one."
        )

    try:
        arguments = tool.arguments.model_validate(_object(call.params, "arguments"))
        result = tool.call(arguments, call.service)
    except ValidationError as error:
        # Locations begin with the part of the request, as FastAPI has them.
        errors = [{**details, "loc": ("body", *details["loc"])} for details in error.errors()]
        return _failed(explain(errors)[0])
    except PurlinError as error:
        return _failed(error.message)

    return {
        "content": [{"type": "text", "text": result.text}],
        "structuredContent": result.structured,
        "isError": False,
    }


def _failed(message: str) -> JsonObject:
    return {"content": [{"type": "text", "text": message}], "isError": True}


_Method = Callable[[_Call], JsonObject]
_METHODS: Mapping[str, _Method] = {
    "initialize": _initialize,
    "ping": _ping,
    "tools/list": _list,
    "tools/call": _call_tool,
}
_STATELESS_METHODS: Mapping[str, _Method] = {
    "server/discover": _discover,
    "tools/list": _list_cached,
    "tools/call": _call_tool,
}


def _method(name: str, stateless: bool) -> _Method:
    methods = _STATELESS_METHODS if stateless else _METHODS
    if name not in methods:
        raise _Refused(METHOD_NOT_FOUND, f"There is no method {name[:_SHOWN]!r} here.")
    return methods[name]
