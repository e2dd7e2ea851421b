"""Every error as `application/problem+json` (RFC 9457), by one table."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from index.errors import (
    Altered,
    Busy,
    Damaged,
    EncoderMismatch,
    InvalidInput,
    NotFound,
    PurlinError,
    StorageFailed,
    Worse,
)

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 10
_SHOWN = 60  # characters of anything that the client sent


_log = logging.getLogger("purlin.problems")


class Opening(PurlinError):
    """The corpus is still being opened; the next try may find it open."""


class Left(PurlinError):
    """The client went away before it was answered; nobody reads this."""


PROBLEMS: Mapping[type[PurlinError], tuple[HTTPStatus, str]] = {
    InvalidInput: (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input"),
    NotFound: (HTTPStatus.NOT_FOUND, "not-found"),
    Busy: (HTTPStatus.CONFLICT, "busy"),
    Worse: (HTTPStatus.CONFLICT, "worse"),
    Damaged: (HTTPStatus.SERVICE_UNAVAILABLE, "damaged"),
    Altered: (HTTPStatus.SERVICE_UNAVAILABLE, "damaged"),
    EncoderMismatch: (HTTPStatus.SERVICE_UNAVAILABLE, "encoder-mismatch"),
    Opening: (HTTPStatus.SERVICE_UNAVAILABLE, "opening"),
    Left: (HTTPStatus.SERVICE_UNAVAILABLE, "left"),
    StorageFailed: (HTTPStatus.SERVICE_UNAVAILABLE, "storage-failed"),
}


class FieldError(BaseModel):
    """One input that is wrong: where it is in the request (`filter.language`, `texts[3]`), and how it is wrong."""

    field: str
    message: str


class Problem(BaseModel):
    """RFC 9457. `type` is one of `urn:purlin:problem:…`, or `about:blank` where the status says it all."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


def install(app: FastAPI) -> None:
    """Answer every exception with a problem. To be called after all other middleware is added."""
    app.add_exception_handler(PurlinError, _expected)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(_Unexpected)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route declares in OpenAPI about its problems; 500 is always among them."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in (*statuses, 500)
    }


def add_schemas(openapi: dict[str, Any]) -> None:
    """Put the schema that `responses` refers to into an OpenAPI document."""
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    openapi["components"]["schemas"] |= schema.pop("$defs") | {"Problem": schema}


def reply(
    status: HTTPStatus,
    detail: str,
    *,
    slug: str | None = None,
    errors: Sequence[tuple[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A problem response. Half surrogate pairs, which cannot be sent, are written as escapes."""
    problem = Problem(
        type=f"urn:purlin:problem:{slug}" if slug else "about:blank",
        title=status.phrase,
        status=status,
        detail=_sendable(detail),
        errors=[
            FieldError(field=_sendable(field), message=_sendable(message))
            for field, message in errors
        ],
    )
    content = problem.model_dump(exclude_defaults=True)
    return JSONResponse({"type": problem.type, **content}, status, headers, MEDIA_TYPE)


def expected(error: PurlinError) -> tuple[HTTPStatus, str]:
    """Status and slug of an expected error; a class that is not in the table goes by its nearest base."""
    for base in type(error).__mro__:
        if base in PROBLEMS:
            return PROBLEMS[base]
    return HTTPStatus.INTERNAL_SERVER_ERROR, "unexpected"


def _expected(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PurlinError)
    status, slug = expected(error)
    errors = [(error.field, error.message)] if error.field else []
    headers = {"Retry-After": "1"} if isinstance(error, Opening) else None
    return reply(status, error.message, slug=slug, errors=errors, headers=headers)


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    path = request.url.path[:_SHOWN]
    details = {
        HTTPStatus.NOT_FOUND: f"There is nothing at {path}; /openapi.json lists what there is.",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{path} does not take {request.method[:_SHOWN]}; see the Allow header.",
    }
    detail = details.get(status, error.detail) if error.detail == status.phrase else error.detail
    return reply(status, detail, headers=error.headers)


class _Unexpected:
    """Answers and logs what no handler knows. Starlette's own way would let it go on and cost the connection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception:
            if started or scope["type"] != "http":
                raise
            _log.exception("%s %s failed", scope["method"], ascii(scope["path"][:_SHOWN]))
            detail = "Something went wrong in the server; its log has the details."
            await reply(HTTPStatus.INTERNAL_SERVER_ERROR, detail)(scope, receive, send)


# ---- validation


def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if found[0]["type"] == "json_invalid":
        where, why = found[0]["loc"][-1], found[0]["ctx"]["error"]
        return reply(
            HTTPStatus.BAD_REQUEST,
            f"The body is not JSON: {why} at character {where}.",
            slug="not-json",
        )
    detail, errors = explained(found)
    return reply(HTTPStatus.UNPROCESSABLE_ENTITY, detail, slug="invalid-input", errors=errors)


def explained(found: Sequence[Mapping[str, Any]]) -> tuple[str, list[tuple[str, str]]]:
    """What pydantic found wrong as a sentence, and as (field, message) each; locations begin with `body`."""
    errors = [(_field(one["loc"]), _message(one)) for one in found[:MAX_ERRORS]]
    detail = "; ".join(f"{field} {message}" for field, message in errors[:3])
    if len(found) > 3:
        detail += f"; and {len(found) - 3} more"
    return f"{detail}.", errors


def _field(location: Sequence[str | int]) -> str:
    """("body", "filter", "language") -> filter.language; ("body", "texts", 3) -> texts[3]; ("body",) -> body."""
    names = location[1:] or location
    path = "".join(f"[{name}]" if isinstance(name, int) else f".{name[:_SHOWN]}" for name in names)
    return path.removeprefix(".")


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] == "missing":
        return "is required"
    if error["type"] == "extra_forbidden":
        return "is not a key that is known here"
    if error["type"] == "model_attributes_type":
        return "must be a JSON object"
    rule = re.sub(r"^[A-Z]\w* should ", "must ", error["msg"])
    return f"{rule.partition(' after validation')[0]}; {_given(error)}"


def _given(error: Mapping[str, Any]) -> str:
    """What was sent, in a few words: never a long text itself."""
    value = error["input"]
    if error["type"].endswith(("too_long", "too_short")):
        return f"it has {len(value)}"
    if isinstance(value, dict):
        return (
            f"it is an object with {_shortened(', '.join(map(str, list(value)[:5]))) or 'no keys'}"
        )
    if isinstance(value, list):
        return f"it is a list of {len(value)}"
    return (
        f"it is {_shortened(json.dumps(value[: _SHOWN + 1] if isinstance(value, str) else value))}"
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _sendable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
