"""The page at `/` and the files it is made of: those listed here, nothing else, and no script outside of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

_SCRIPT, _STYLE, _DRAWING = (
    "text/javascript; charset=utf-8",
    "text/css; charset=utf-8",
    "image/svg+xml",
)
FILES: Mapping[str, str] = {
    "style.css": _STYLE,
    "icon.svg": _DRAWING,
    "theme.js": _SCRIPT,
    "app.js": _SCRIPT,
    "api.js": _SCRIPT,
    "ask.js": _SCRIPT,
    "chart.js": _SCRIPT,
    "chooser.js": _SCRIPT,
    "classify.js": _SCRIPT,
    "code.js": _SCRIPT,
    "corpora.js": _SCRIPT,
    "dom.js": _SCRIPT,
    "facets.js": _SCRIPT,
    "hits.js": _SCRIPT,
    "marks.js": _SCRIPT,
    "place.js": _SCRIPT,
    "problem.js": _SCRIPT,
    "search.js": _SCRIPT,
    "syntax.js": _SCRIPT,
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
        "require-trusted-types-for 'script'",  # the browser itself then refuses innerHTML and the like
        "trusted-types 'none'",
    ]
)
_HEADERS = {
    # Asked for again each time, mostly answered with 304: after an upgrade no old module meets a new one.
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_POINTERS = {
    "name": "Purlin",
    "openapi": "/openapi.json",
    "corpora": "/corpora",
    "classifiers": "/classifiers",
}

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def home(request: Request) -> Response:
    """The page for browsers; for programs, where to go from here."""
    if not prefers_html(request.headers.get("accept", "")):
        return JSONResponse(_POINTERS, headers={"Vary": "Accept"})
    headers = {
        "Vary": "Accept",
        "Content-Security-Policy": POLICY,
        "Permissions-Policy": "clipboard-write=(self)",
    }
    return _sent(request, "index.html", "text/html; charset=utf-8", headers)


@router.api_route("/web/{file}", methods=["GET", "HEAD"])
async def web(request: Request, file: str) -> Response:
    """One of the page's files."""
    if file not in FILES:
        raise HTTPException(404)
    return _sent(request, file, FILES[file], {})


def prefers_html(accept: str) -> bool:
    """Whether an Accept header (RFC 9110, section 12.5.1) ranks HTML above JSON, as those of browsers do."""
    return _quality(accept, "text", "html") > _quality(accept, "application", "json")


def _quality(accept: str, kind: str, subtype: str) -> float:
    """The quality that the most specific range gives to a media type, 0 if none names it."""
    found = (0, 0.0)  # how specific, quality
    ranges = {f"{kind}/{subtype}": 3, f"{kind}/*": 2, "*/*": 1}
    for part in accept.lower().split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        if media in ranges:
            found = max(found, (ranges[media], _weight(parameters)))
    return found[1]


def _weight(parameters: list[str]) -> float:
    """The `q` among a media range's parameters, 1 at most; 1 without one, 0 if it is no number."""
    given = next((one[2:] for one in parameters if one.startswith("q=")), "1")
    return (
        min(1.0, float(given)) if given.replace(".", "", 1).isdecimal() and given.isascii() else 0.0
    )


@dataclass(frozen=True, slots=True)
class _Asset:
    content: bytes
    tag: str


@cache
def _asset(name: str) -> _Asset:
    """A file of the package, read once."""
    content = (files("app") / "web" / name).read_bytes()
    return _Asset(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _sent(request: Request, name: str, media_type: str, headers: Mapping[str, str]) -> Response:
    asset = _asset(name)
    headers = {"ETag": asset.tag, **_HEADERS, **headers}
    known = {
        tag.strip().removeprefix("W/")
        for tag in request.headers.get("if-none-match", "").split(",")
    }
    if known & {asset.tag, "*"}:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, headers=headers, media_type=media_type)
