"""The Model Context Protocol without a transport: messages of JSON-RPC, methods and their results.

It serves clients that begin with `initialize` (versions 2024-11-05 to 2025-11-25) and clients that
send version and capabilities with each request (2026-07-28). There are no sessions, streams or
batches; over stdio, calls that wait for an index have notifications of progress. https://modelcontextprotocol.io/specification

`purlin.app.agents.mcp_http` and `purlin.app.agents.mcp_stdio` are the transports. The tools are imported when
they are first asked for, so that `initialize` is answered before that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from purlin.app.errors import MAX_QUOTED_CHARS, NotJson
from purlin.app.strict_json import parsed
from purlin.index.errors import InvalidInput, PurlinError

if TYPE_CHECKING:
    from purlin.app.agents.backend import Backend
    from purlin.app.agents.tool import Tool

# Versions of the protocol that begin with `initialize`, and those that send all with each request.
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)

# Error codes of JSON-RPC and of the protocol.
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR, HEADER_MISMATCH, UNSUPPORTED_VERSION = -32603, -32020, -32022

MAX_REQUEST_ID_CHARS = 256
_META = "io.modelcontextprotocol/"
VERSION_KEY = _META + "protocolVersion"
_CACHED: Mapping[str, Any] = {"ttlMs": 60_000, "cacheScope": "private"}
_INSTRUCTIONS = (
    "To find where code does something, call search_code with a few plain words or a name, then read the files that "
    "it names; grep is for exact strings. Results are cut to max_tokens: ask for few first, then for more. A hit "
    "marked CHANGED is of a file that has changed since it was indexed."
)

_ABILITIES: Mapping[str, Any] = {"capabilities": {"tools": {}}, "instructions": _INSTRUCTIONS}

JsonObject = dict[str, Any]
RequestId = str | int


class Refused(Exception):
    """A request that is answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.error: JsonObject = {"code": code, "message": message}
        if data:
            self.error["data"] = data


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: `scopes` are those of the key, None where there are no keys.

    `backend` returns what the tools work on; it is called when a tool is.
    """

    backend: Callable[[], Backend]
    scopes: frozenset[str] | None = None

    def may_use(self, tool: Tool) -> bool:
        """Whether the key has the scope of a tool."""
        return self.scopes is None or tool.scope in self.scopes


def answer(message: JsonObject, caller: Caller, *, stateless: bool) -> JsonObject:
    """Return the result of a request. Raises Refused."""
    result = _method(message["method"], stateless)(params(message), caller)
    return {"resultType": "complete", **result} if stateless else result


def encode(reply: JsonObject, message_id: RequestId | None) -> str:
    """Write a reply, `{"result": ...}` or `{"error": ...}`, as one line."""
    return _line({"id": message_id, **reply})


def encode_progress(token: RequestId, seconds: float, text: str) -> str:
    """Write a notification that a request is under way for so many seconds, as one line."""
    progress = {"progressToken": token, "progress": round(seconds, 1), "message": text}
    return _line({"method": "notifications/progress", "params": progress})


def _line(message: JsonObject) -> str:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))


# ---- messages


def parse(body: bytes) -> JsonObject:
    """Parse and check one message of JSON-RPC. Raises Refused."""
    try:
        message = parsed(body, _refuse_constant)
    except NotJson as error:
        raise Refused(PARSE_ERROR, str(error)) from None
    except InvalidInput as error:
        raise Refused(INVALID_REQUEST, str(error)) from None

    if isinstance(message, list):
        raise Refused(INVALID_REQUEST, "Batches are not supported: send one message at a time.")
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Refused(INVALID_REQUEST, 'A message must be one JSON object with "jsonrpc": "2.0".')
    if not isinstance(message.get("method", ""), str):
        raise Refused(INVALID_REQUEST, "method must be a string.")
    if "method" not in message and not message.keys() & {"result", "error"}:
        raise Refused(INVALID_REQUEST, "method is missing.")
    return message


def _refuse_constant(name: str) -> float:
    """Refuse NaN and Infinity, which are not JSON."""
    raise NotJson(f"The body is not JSON: it has {name}, which is no number of JSON.")


def request_id(message: JsonObject) -> RequestId:
    """Return the id of a request. Raises Refused for what cannot be one."""
    if (value := as_id(message["id"])) is not None:
        return value

    raise Refused(
        INVALID_REQUEST,
        f"id must be an integer or a string of at most {MAX_REQUEST_ID_CHARS} characters.",
    )


def as_id(value: object) -> RequestId | None:
    """Return a value that may be the id of a request or a token of progress; None for any other."""
    if isinstance(value, str) and len(value) <= MAX_REQUEST_ID_CHARS:
        return value

    # In Python, bool is a kind of int, and True the key 1 of a dict.
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_request(message: JsonObject) -> bool:
    """Whether a message needs an answer; a notification or a reply does not."""
    return "method" in message and "id" in message


def params(message: JsonObject) -> JsonObject:
    """Return the parameters of a message. Raises Refused."""
    return _object(message, "params")


def meta(message: JsonObject) -> JsonObject:
    """Return the metadata of a message. Raises Refused."""
    return _object(params(message), "_meta")


def _object(holder: Mapping[str, Any], key: str) -> JsonObject:
    value = holder.get(key, {})
    if not isinstance(value, dict):
        raise Refused(INVALID_PARAMS, f"{key} must be an object.")
    return value


def progress_token(message: JsonObject) -> RequestId | None:
    """Return the token of a request that wants to hear of progress. Raises Refused."""
    return as_id(meta(message).get("progressToken"))


def check_version(requested: Any) -> bool:
    """Whether a version is one without handshake. Raises Refused for a version that is unknown."""
    if requested not in (*HANDSHAKE, *STATELESS):
        shown = (
            requested[:MAX_QUOTED_CHARS] if isinstance(requested, str) else type(requested).__name__
        )
        data = {"supported": [*HANDSHAKE, *STATELESS], "requested": shown}
        raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return requested in STATELESS


def check_envelope(message: JsonObject) -> None:
    """Refuse a request without the metadata that the stateless versions need."""
    metadata = meta(message)
    needed = [_META + name for name in ("protocolVersion", "clientCapabilities")]
    if missing := [name for name in needed if name not in metadata]:
        raise Refused(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}.")


# ---- methods


def _initialize(params: JsonObject, _: Caller) -> JsonObject:
    requested = params.get("protocolVersion")
    if not isinstance(requested, str):
        raise Refused(INVALID_PARAMS, "protocolVersion must be a string.")

    # The server offers its newest version where it does not know the client's.
    agreed = requested if requested in HANDSHAKE else HANDSHAKE[-1]
    return {"protocolVersion": agreed, "serverInfo": _server(), **_ABILITIES}


def _discover(_: JsonObject, __: Caller) -> JsonObject:
    about = {"supportedVersions": list(STATELESS), "_meta": {_META + "serverInfo": _server()}}
    return {**about, **_ABILITIES, **_CACHED}


def _server() -> JsonObject:
    return {"name": "purlin", "title": "Purlin", "version": version("purlin-search")}


def _list(_: JsonObject, caller: Caller) -> JsonObject:
    """The tools that the key may use."""
    from purlin.app.agents.tools import TOOLS

    return {"tools": [_described(tool) for tool in TOOLS if caller.may_use(tool)]}


def _described(tool: Tool) -> JsonObject:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.schema(),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def _call_tool(params: JsonObject, caller: Caller) -> JsonObject:
    """Call a tool. Errors in its arguments are results, too, so that the model can read them."""
    from purlin.app.agents.tools import TOOLS

    name = params.get("name")
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        names = ", ".join(tool.name for tool in TOOLS)
        raise Refused(INVALID_PARAMS, f"Unknown tool; available are {names}.")
    if not caller.may_use(tool):
        return failed(
            f"This key lacks the scope {tool.scope}: ask whoever runs the server for one."
        )

    arguments = _object(params, "arguments")
    try:
        result = tool.run(arguments, caller.backend())
    except PurlinError as error:
        return failed(error.message)

    return {
        "content": [{"type": "text", "text": result.text}],
        "structuredContent": result.structured,
        "isError": False,
    }


def failed(message: str) -> JsonObject:
    """The result of a call that failed, with what to do about it."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


_Method = Callable[[JsonObject, Caller], JsonObject]
_METHODS: Mapping[str, _Method] = {
    "initialize": _initialize,
    "ping": lambda _, __: {},
    "tools/list": _list,
    "tools/call": _call_tool,
}
_STATELESS_METHODS: Mapping[str, _Method] = {
    "server/discover": _discover,
    "tools/list": lambda params, caller: {**_list(params, caller), **_CACHED},
    "tools/call": _call_tool,
}


def _method(name: str, stateless: bool) -> _Method:
    methods = _STATELESS_METHODS if stateless else _METHODS
    if name not in methods:
        raise Refused(METHOD_NOT_FOUND, f"There is no method {name[:MAX_QUOTED_CHARS]!r} here.")
    return methods[name]
