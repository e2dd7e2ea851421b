"""Reads bodies of JSON, and says what is wrong with one that cannot be read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from purlin.app.errors import MAX_QUOTED_CHARS, NotJson
from purlin.index.errors import InvalidInput


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


def parsed(body: bytes) -> Any:
    """Return the value of a body. Raises NotJson, and InvalidInput for a key that is there twice."""
    try:
        return json.loads(body, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise NotJson(f"The body is not JSON: {error.msg} at character {error.pos}.") from None
    except UnicodeDecodeError as error:
        raise NotJson(
            f"The body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}. Send it in UTF-8."
        ) from None
    except RecursionError:
        raise NotJson(
            "Lists and objects of the body are nested hundreds of levels deep; no request needs more than five."
        ) from None
    except ValueError:
        # Of Python's limit on digits, which keeps the time for a number short.
        raise NotJson(
            "A number of the body has thousands of digits; at most 64 bits are read."
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; otherwise, the last of two equal keys would count, and nothing tell of the first."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)[:MAX_QUOTED_CHARS]
        raise InvalidInput(
            f"The key {key!r} is in one object more than once: send it once.", field=key
        )
    return values
