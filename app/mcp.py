"""`POST /mcp`: the tools for agents, by the Model Context Protocol's streamable HTTP transport.

One request, one reply in JSON: there are no sessions, no streams and no batches. Clients that begin with `initialize`
are served (versions 2025-03-26 to 2025-11-25), and those that send version and capabilities with each request
(2026-07-28). https://modelcontextprotocol.io/specification
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

from app.access import is_loopback
from app.problems import explain
from app.routes import json_only
from app.service import Service, ServiceOf
from app.tools import TOOLS, Tool
from index.errors import PurlinError

HANDSHAKE = ("2025-03-26", "2025-06-18", "2025-11-25")  # versions that begin with `initialize`
STATELESS = ("2026-07-28",)
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
HEADERS = ("Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name")
MAX_ID_CHARS = 256
_META = "io.modelcontextprotocol/"
_SHOWN = 60  # characters of what the client sent
_CACHED_MS = 60_000
_STATUSES = {METHOD_NOT_FOUND: 404}
_INSTRUCTIONS = (
    "Search over indexed code, answers in the exact words of references, and labels for many texts at once. Results "
    "are cut to max_tokens: ask for few first, then for more."
)

JsonObject = dict[str, Any]


class _Refused(Exception):
    """Answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.error: JsonObject = {"code": code, "message": message} | (
            {"data": data} if data else {}
        )
        self.code = code


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request and who sent it; `scopes` is None where there are no keys."""

    params: JsonObject
    scopes: frozenset[str] | None
    service: Service

    def may_use(self, tool: Tool) -> bool:
        return self.scopes is None or tool.scope in self.scopes


async def _from_here(request: Request) -> None:
    """Refuse pages of other origins: a name that leads here, but is not ours, must not open the server to them."""
    origin = request.headers.get("origin")
    if origin is not None and not _is_allowed(origin, request.app.state.origins):
        raise HTTPException(
            403, "Pages of this origin may not come here: PURLIN_CORS_ORIGINS lists those that may."
        )


def _is_allowed(origin: str, listed: Iterable[str]) -> bool:
    if origin in listed or "*" in listed:
        return True
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and is_loopback(parts.hostname or "")
    except ValueError:
        return False


async def _body(request: Request) -> bytes:
    return await request.body()


router = APIRouter(dependencies=[Depends(_from_here), Depends(json_only)])


@router.post("/mcp", include_in_schema=False)
def talk(request: Request, body: Annotated[bytes, Depends(_body)], service: ServiceOf) -> Response:
    """One message of JSON-RPC; `tools/list` describes what can be called."""
    number: str | int | None = None
    stateless = request.headers.get("mcp-protocol-version") in STATELESS
    try:
        message = _message(body)
        _check_version(request.headers)
        if "method" not in message or "id" not in message:
            return Response(
                status_code=202
            )  # a notification, or the reply to a question that was never asked
        number = _id(message["id"])
        asked = _Asked(_object(message, "params"), getattr(request.state, "scopes", None), service)
        if stateless:
            _check_envelope(request.headers, message["method"], asked.params)
        result = _method(message["method"], stateless)(asked)
    except _Refused as refused:
        known = number is not None and not stateless
        return _json(
            {"error": refused.error}, number, 200 if known else _STATUSES.get(refused.code, 400)
        )
    return _json({"result": {"resultType": "complete", **result} if stateless else result}, number)


def _json(reply: JsonObject, number: str | int | None, status: int = 200) -> Response:
    content = json.dumps({"jsonrpc": "2.0", "id": number, **reply}, separators=(",", ":"))
    return Response(content, status, media_type="application/json")


# ---- messages


def _message(body: bytes) -> JsonObject:
    try:
        message = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise _Refused(PARSE_ERROR, "The body is not JSON.") from None
    if isinstance(message, list):
        raise _Refused(INVALID_REQUEST, "Batches are not taken: send one message at a time.")
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise _Refused(INVALID_REQUEST, 'The body must be one JSON object with "jsonrpc": "2.0".')
    if not isinstance(message.get("method", ""), str):
        raise _Refused(INVALID_REQUEST, "method must be a string.")
    if "method" not in message and not message.keys() & {"result", "error"}:
        raise _Refused(INVALID_REQUEST, "method is missing.")
    return message


def _no_number(name: str) -> float:
    raise ValueError(name)


def _id(given: Any) -> str | int:
    if isinstance(given, str) and len(given) <= MAX_ID_CHARS:
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise _Refused(
        INVALID_REQUEST, f"id must be an integer or a string of at most {MAX_ID_CHARS} characters."
    )


def _object(holder: Mapping[str, Any], key: str) -> JsonObject:
    found = holder.get(key, {})
    if not isinstance(found, dict):
        raise _Refused(INVALID_PARAMS, f"{key} must be an object.")
    return found


def _check_version(headers: Headers) -> None:
    """A client that names no version is taken for an old one, as the protocol says."""
    requested = headers.get("mcp-protocol-version")
    if requested is not None and requested not in (*HANDSHAKE, *STATELESS):
        data = {"supported": [*HANDSHAKE, *STATELESS], "requested": requested[:_SHOWN]}
        raise _Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _check_envelope(headers: Headers, method: str, params: JsonObject) -> None:
    """What each request of a stateless version carries, and its repetition in headers (2026-07-28)."""
    meta = _object(params, "_meta")
    missing = [
        name for name in ("protocolVersion", "clientCapabilities") if _META + name not in meta
    ]
    if missing:
        raise _Refused(
            INVALID_PARAMS, f"params._meta lacks {', '.join(_META + name for name in missing)}."
        )
    told = {"mcp-protocol-version": meta[_META + "protocolVersion"], "mcp-method": method}
    if method == "tools/call":
        told["mcp-name"] = params.get("name")
    for name, value in told.items():
        if len(headers.getlist(name)) != 1 or _decoded(headers[name]) != value:
            raise _Refused(HEADER_MISMATCH, f"The header {name} does not say what the body says.")


def _decoded(value: str) -> str | None:
    """A header's value; what is no plain ASCII comes as `=?base64?…?=`."""
    coded = re.fullmatch(r"=\?base64\?(.*)\?=", value)
    try:
        return base64.b64decode(coded[1], validate=True).decode() if coded else value
    except (binascii.Error, UnicodeDecodeError):
        return None


# ---- methods


def _initialize(asked: _Asked) -> JsonObject:
    requested = asked.params.get("protocolVersion")
    if not isinstance(requested, str):
        raise _Refused(INVALID_PARAMS, "protocolVersion must be a string.")
    agreed = requested if requested in HANDSHAKE else HANDSHAKE[-1]
    return {"protocolVersion": agreed, "serverInfo": _server(), **_abilities()}


def _discover(_: _Asked) -> JsonObject:
    cached = {"ttlMs": _CACHED_MS, "cacheScope": "private"}
    return (
        {"supportedVersions": list(STATELESS), "_meta": {_META + "serverInfo": _server()}}
        | _abilities()
        | cached
    )


def _server() -> JsonObject:
    return {"name": "purlin", "title": "Purlin", "version": version("purlin")}


def _abilities() -> JsonObject:
    return {"capabilities": {"tools": {}}, "instructions": _INSTRUCTIONS}


def _ping(_: _Asked) -> JsonObject:
    return {}


def _list(asked: _Asked) -> JsonObject:
    """The tools that the sender may use."""
    return {"tools": [_described(tool) for tool in TOOLS if asked.may_use(tool)]}


def _list_cached(asked: _Asked) -> JsonObject:
    return _list(asked) | {"ttlMs": _CACHED_MS, "cacheScope": "private"}


def _described(tool: Tool) -> JsonObject:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.about,
        "inputSchema": tool.schema(),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def _call(asked: _Asked) -> JsonObject:
    """What a tool found; what is wrong with its arguments is a result too, so that the model reads it."""
    name = asked.params.get("name")
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        raise _Refused(
            INVALID_PARAMS, f"Unknown tool; there are {', '.join(tool.name for tool in TOOLS)}."
        )
    if not asked.may_use(tool):
        return _failed(
            f"This key lacks the scope {tool.scope}: ask whoever runs the server for one."
        )
    try:
        found = tool.call(
            tool.asked.model_validate(_object(asked.params, "arguments")), asked.service
        )
    except ValidationError as error:
        return _failed(
            explain([{**one, "loc": ("body", *one["loc"])} for one in error.errors()])[0]
        )
    except PurlinError as error:
        return _failed(error.message)
    return {
        "content": [{"type": "text", "text": found.text}],
        "structuredContent": found.structured,
        "isError": False,
    }


def _failed(message: str) -> JsonObject:
    return {"content": [{"type": "text", "text": message}], "isError": True}


_Method = Callable[[_Asked], JsonObject]
_METHODS: Mapping[str, _Method] = {
    "initialize": _initialize,
    "ping": _ping,
    "tools/list": _list,
    "tools/call": _call,
}
_STATELESS_METHODS: Mapping[str, _Method] = {
    "server/discover": _discover,
    "tools/list": _list_cached,
    "tools/call": _call,
}


def _method(name: str, stateless: bool) -> _Method:
    methods = _STATELESS_METHODS if stateless else _METHODS
    if name not in methods:
        raise _Refused(METHOD_NOT_FOUND, f"There is no method {name[:_SHOWN]!r} here.")
    return methods[name]
