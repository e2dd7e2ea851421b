"""`POST /mcp`: the Model Context Protocol over its streamable HTTP transport.

Each request gets one JSON reply.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from starlette.datastructures import Headers

from purlin.app.access import is_loopback
from purlin.app.agents import mcp
from purlin.app.agents.mcp import Caller, JsonObject, Refused, RequestId
from purlin.app.agents.served import ServedCorpora
from purlin.app.bodies import json_only
from purlin.app.service import ServiceOf

HEADERS = ("Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name")
_STATUSES = {mcp.METHOD_NOT_FOUND: 404}


async def _check_origin(request: Request) -> None:
    """Refuse pages of other origins, even if their name resolves to this server's address."""
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
    message_id: RequestId | None = None
    stateless = request.headers.get("mcp-protocol-version") in mcp.STATELESS
    try:
        message = mcp.parse(body)
        # Without a header the client is an old one, says the protocol.
        mcp.check_version(request.headers.get("mcp-protocol-version", mcp.HANDSHAKE[0]))

        if not mcp.is_request(message):
            return Response(status_code=202)

        message_id = mcp.request_id(message)
        if stateless:
            _check_headers(request.headers, message)
        scopes = getattr(request.state, "scopes", None)
        caller = Caller(lambda: ServedCorpora(service), scopes)
        result = mcp.answer(message, caller, stateless=stateless)
    except Refused as refused:
        # Versions with a handshake answer errors of identified requests with status 200.
        by_handshake = message_id is not None and not stateless
        status = 200 if by_handshake else _STATUSES.get(refused.code, 400)
        return _json({"error": refused.error}, message_id, status)
    return _json({"result": result}, message_id)


def _json(reply: JsonObject, message_id: RequestId | None, status: int = 200) -> Response:
    return Response(mcp.encode(reply, message_id), status, media_type="application/json")


def _check_headers(headers: Headers, message: JsonObject) -> None:
    """Check the metadata of a stateless request, and that its headers repeat it."""
    mcp.check_envelope(message)
    expected = {
        "mcp-protocol-version": mcp.meta(message)[mcp.VERSION_KEY],
        "mcp-method": message["method"],
    }
    if message["method"] == "tools/call":
        expected["mcp-name"] = mcp.params(message).get("name")

    for name, value in expected.items():
        if len(headers.getlist(name)) != 1 or _decoded(headers[name]) != value:
            raise Refused(mcp.HEADER_MISMATCH, f"The header {name} does not match the body.")


def _decoded(value: str) -> str | None:
    """A header's value; anything but plain ASCII comes as `=?base64?…?=`. None if malformed."""
    coded = re.fullmatch(r"=\?base64\?(.*)\?=", value)
    try:
        return base64.b64decode(coded[1], validate=True).decode() if coded else value
    except (binascii.Error, UnicodeDecodeError):
        return None
