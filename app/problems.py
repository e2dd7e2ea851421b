"""Answers every error with `application/problem+json` (RFC 9457); one table maps errors to statuses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from purlin.app.corpora.open_builds import ENGINE_RETRY_S
from purlin.app.errors import MAX_QUOTED_CHARS, ClientLeft, NotJson, Opening, explain
from purlin.app.logs import Sent
from purlin.index.errors import (
    Altered,
    Busy,
    Damaged,
    EncoderMismatch,
    EngineAway,
    EngineFailed,
    InvalidInput,
    NotFound,
    PurlinError,
    StorageFailed,
    Worse,
    WrongType,
)

MEDIA_TYPE = "application/problem+json"
RESTART_S = 5  # in which a server that shuts down is usually followed by another

_log = logging.getLogger("purlin.problems")


PROBLEMS: Mapping[type[PurlinError], tuple[HTTPStatus, str]] = {
    WrongType: (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input"),
    InvalidInput: (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-input"),
    NotFound: (HTTPStatus.NOT_FOUND, "not-found"),
    NotJson: (HTTPStatus.BAD_REQUEST, "not-json"),
    Busy: (HTTPStatus.CONFLICT, "busy"),
    Worse: (HTTPStatus.CONFLICT, "worse"),
    Damaged: (HTTPStatus.SERVICE_UNAVAILABLE, "damaged"),
    Altered: (HTTPStatus.SERVICE_UNAVAILABLE, "damaged"),
    EncoderMismatch: (HTTPStatus.SERVICE_UNAVAILABLE, "encoder-mismatch"),
    Opening: (HTTPStatus.SERVICE_UNAVAILABLE, "opening"),
    ClientLeft: (HTTPStatus.SERVICE_UNAVAILABLE, "left"),
    StorageFailed: (HTTPStatus.SERVICE_UNAVAILABLE, "storage-failed"),
    EngineAway: (HTTPStatus.SERVICE_UNAVAILABLE, "engine-failed"),
    EngineFailed: (HTTPStatus.SERVICE_UNAVAILABLE, "engine-failed"),
}


class FieldError(BaseModel):
    """One invalid input: where it is (`filter.language`, `texts[3]`) and the rule it breaks."""

    field: str
    message: str


class Problem(BaseModel):
    """An RFC 9457 problem.

    `type` is one of `urn:purlin:problem:…`, or `about:blank` if the status says enough.
    """

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


def add_exception_handlers(app: FastAPI) -> None:
    """Answer every expected exception with a problem; `UnexpectedErrors` answers the others."""
    app.add_exception_handler(PurlinError, _handle_purlin_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_error)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of a route that may answer with these problems.

    500 is always added.
    """
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in (*statuses, 500)
    }


def add_schemas(openapi: dict[str, Any]) -> None:
    """Add the schema that `responses` refers to, to an OpenAPI document."""
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
    """Return a problem response.

    Unpaired surrogates, which UTF-8 cannot encode, are sent as escapes.
    """
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

    # `type` is always sent, even if it is the default.
    content = problem.model_dump(exclude_defaults=True)
    return JSONResponse({"type": problem.type, **content}, status, headers, MEDIA_TYPE)


def status_and_slug(error: PurlinError) -> tuple[HTTPStatus, str]:
    """Return the status and the slug of an error, by the nearest class in the table."""
    for base in type(error).__mro__:
        if base in PROBLEMS:
            return PROBLEMS[base]
    return HTTPStatus.INTERNAL_SERVER_ERROR, "unexpected"


def _handle_purlin_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PurlinError)
    status, slug = status_and_slug(error)
    errors = [(error.field, error.message)] if error.field else []
    return reply(status, error.message, slug=slug, errors=errors, headers=_retry_after(error))


def _retry_after(error: PurlinError) -> dict[str, str] | None:
    """Return the header for an error that a later attempt may not meet."""
    if isinstance(error, Opening):
        return {"Retry-After": "1"}
    if isinstance(error, EngineAway):
        return {"Retry-After": f"{ENGINE_RETRY_S:.0f}"}
    return None


def _handle_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = error.detail

    # The framework repeats the status phrase where it has no message of its own.
    if detail == status.phrase:
        path, method = request.url.path[:MAX_QUOTED_CHARS], request.method[:MAX_QUOTED_CHARS]
        if status == HTTPStatus.NOT_FOUND:
            remedy = "/openapi.json lists all paths"
            if path.endswith("/") and path.rstrip("/") in request.app.openapi()["paths"]:
                remedy = f"send this to {path.rstrip('/')}, without a slash at the end"
            detail = f"There is nothing at {path}; {remedy}."
        elif status == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = (error.headers or {}).get("Allow", "")
            detail = f"{path} does not accept {method}; it takes {allowed}."
    return reply(status, detail, headers=error.headers)


_SHORTAGE = (
    "The server has too little memory or too few threads: raise its limits (of the container, `ulimit "
    "-v` and `-u`), or send less at once."
)


class UnexpectedErrors:
    """Middleware that logs and answers exceptions without a handler, and answers cancelled requests.

    Starlette would answer exceptions, too, but raise them again, which costs the client its connection.
    Requests are cancelled when the time that they have to finish before the server ends is over.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        sent = Sent(send)
        try:
            await self._app(scope, receive, sent)
        except asyncio.CancelledError:
            if sent.status or scope["type"] != "http":
                raise
            await _stopping(scope, receive, send)
        except Exception as error:
            # Half a response cannot be turned into a problem any more.
            if sent.status or scope["type"] != "http":
                raise
            path = ascii(scope["path"][:MAX_QUOTED_CHARS])
            if _is_shortage(error):
                _log.error("%s %s failed: %s. %s", scope["method"], path, error, _SHORTAGE)
                await _short()(scope, receive, send)
                return
            _log.exception("%s %s failed", scope["method"], path)
            detail = "Something went wrong in the server; see its log for details."
            await reply(HTTPStatus.INTERNAL_SERVER_ERROR, detail)(scope, receive, send)


def _is_shortage(error: Exception) -> bool:
    """Return whether the system has refused memory or a thread, and may grant it later."""
    return isinstance(error, MemoryError) or "can't start new thread" in str(error)


def _short() -> JSONResponse:
    return reply(
        HTTPStatus.SERVICE_UNAVAILABLE,
        _SHORTAGE,
        slug="overloaded",
        headers={"Retry-After": str(RESTART_S)},
    )


async def _stopping(scope: Scope, receive: Receive, send: Send) -> None:
    response = reply(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"The server is shutting down: try again in {RESTART_S} s.",
        slug="stopping",
        headers={"Connection": "close", "Retry-After": str(RESTART_S)},
    )
    await response(scope, receive, send)


# ---- validation


def _handle_validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    detail, field_errors = explain(error.errors())
    return reply(HTTPStatus.UNPROCESSABLE_ENTITY, detail, slug="invalid-input", errors=field_errors)


def _sendable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
