"""Routes whose bodies are JSON, and how all routes are named."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from purlin.app.errors import MAX_QUOTED_CHARS
from purlin.app.strict_json import parsed


def operation_name(route: APIRoute) -> str:
    """Name of a route in the OpenAPI document, by which generators name a client's functions."""
    return route.name


class JsonRoute(APIRoute):
    """A route whose body is JSON, in UTF-8 and without compression."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request of this route."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            await json_only(request)
            if body := await request.body():
                # `Request.json` returns what is there already.
                request._json = parsed(body)
            return await handle(request)

        return handle_json


async def json_only(request: Request) -> None:
    """Refuse a body whose media type is not JSON, and one that is compressed."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        actual = f"it is {media_type[:MAX_QUOTED_CHARS]!r}" if media_type else "there is none"
        raise HTTPException(415, f"The Content-Type must be application/json; {actual}.")

    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise HTTPException(
            415,
            f"The Content-Encoding is {encoding[:MAX_QUOTED_CHARS]!r}: send the body uncompressed.",
        )
