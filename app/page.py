"""The web page at `/` and its files below `/web/`; nothing else is served or loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import PurePath

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

_WEB = files("purlin.app") / "web"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FILES: Mapping[str, str] = {
    file.name: _MEDIA_TYPES[suffix]
    for file in sorted(_WEB.iterdir(), key=lambda file: file.name)
    if (suffix := PurePath(file.name).suffix) in _MEDIA_TYPES
}
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # makes the browser refuse innerHTML
        "trusted-types 'none'",
    ]
)
_HEADERS = {
    # Browsers ask each time and mostly get 304, so that old and new modules never mix.
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Relative to `/`, so that they hold below a path of another site, too.
_LINKS = {
    "name": "Purlin",
    "openapi": "openapi.json",
    "corpora": "corpora",
    "classifiers": "classifiers",
}

page_router = APIRouter(include_in_schema=False)


@page_router.api_route("/", methods=["GET", "HEAD"])
async def home(request: Request) -> Response:
    """Return the page to browsers, and links to the API to programs."""
    if not prefers_html(request.headers.get("accept", "")):
        return JSONResponse(_LINKS, headers={"Vary": "Accept"})

    headers = {
        "Vary": "Accept",
        "Content-Security-Policy": POLICY,
        "Permissions-Policy": "clipboard-write=(self)",
    }
    return _file_response(request, "index.html", "text/html; charset=utf-8", headers)


@page_router.api_route("/web/{file}", methods=["GET", "HEAD"])
async def web(request: Request, file: str) -> Response:
    """Return one of the page's files."""
    if file not in FILES:
        raise HTTPException(404)
    return _file_response(request, file, FILES[file], {})


# ---- content negotiation (RFC 9110, section 12.5.1)


def prefers_html(accept: str) -> bool:
    """Return whether an Accept header ranks HTML above JSON, as those of browsers do."""
    return _quality(accept, "text", "html") > _quality(accept, "application", "json")


def _quality(accept: str, kind: str, subtype: str) -> float:
    """Return the quality that the most specific range gives to a media type, or 0."""
    specificity = {f"{kind}/{subtype}": 3, f"{kind}/*": 2, "*/*": 1}
    best = (0, 0.0)  # specificity, quality
    for part in accept.lower().split(","):
        media_range, *parameters = (word.strip() for word in part.split(";"))
        if media_range in specificity:
            best = max(best, (specificity[media_range], _weight(parameters)))
    return best[1]


def _weight(parameters: list[str]) -> float:
    """Return the `q` of a media range, at most 1; 1 if absent, 0 if not a number."""
    weights = (parameter[2:] for parameter in parameters if parameter.startswith("q="))
    weight = next(weights, "1")
    if not weight.isascii() or not weight.replace(".", "", 1).isdecimal():
        return 0.0
    return min(1.0, float(weight))


# ---- files


@cache
def _asset(name: str) -> tuple[bytes, str]:
    """Return the content of a file of the page, read once per process, and its ETag."""
    content = (_WEB / name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _file_response(
    request: Request, name: str, media_type: str, headers: Mapping[str, str]
) -> Response:
    """Return a file, or 304 if the client has it already."""
    content, etag = _asset(name)
    headers = {"ETag": etag, **_HEADERS, **headers}

    if_none_match = request.headers.get("if-none-match", "")
    client_etags = {etag.strip().removeprefix("W/") for etag in if_none_match.split(",")}
    if client_etags & {etag, "*"}:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)
