"""Access control: the scopes of each path, the rates of keys, and security headers."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from purlin.app.keys import SCOPES, Key, Keyring
from purlin.app.problems import reply, responses
from purlin.app.shared import Shared

REFUSALS = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    # From the queue, which every request that needs a key goes through.
    HTTPStatus.SERVICE_UNAVAILABLE,
)
BURST_S = 10.0  # seconds' worth of its rate that a key may use at once

_OPEN_PATHS = frozenset(["/", "/livez", "/readyz", "/metrics", "/openapi.json"])

# Scopes by the first part of the path; any one of them is enough.
_SCOPES_OF = {
    "search": ("search",),
    "classify": ("classify",),
    "qa": ("qa",),
    "corpora": ("search", "qa", "admin"),
    "classifiers": ("classify", "admin"),
    "v1": ("search",),
    "embed": ("search",),
    "rerank": ("search",),
    "mcp": ("search", "qa", "classify"),  # each tool checks its own scope
}
# Changing anything below these paths takes an admin key.
_ADMIN_PATHS = frozenset(["corpora", "classifiers"])

# Domains that nobody can register.
_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal")


# ---- scopes of requests


def accepted_scopes(method: str, path: str) -> tuple[str, ...] | None:
    """Return the scopes of which a key needs one; None where no key is needed.

    A path without a route accepts all scopes.
    """
    if path in _OPEN_PATHS or path.startswith("/web/"):
        return None

    first, _, below = path.removeprefix("/").partition("/")
    if first in _ADMIN_PATHS and below and method not in ("GET", "HEAD"):
        return ("admin",)
    return _SCOPES_OF.get(first, SCOPES)


def describe(openapi: dict[str, Any]) -> None:
    """Add to an OpenAPI document which operations take a key, and the refusals of requests."""
    openapi["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    refusals = {str(status): response for status, response in responses(*REFUSALS).items()}

    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            scopes = accepted_scopes(method.upper(), path)
            if scopes is None:
                continue

            # A server without keys admits everything except administration, so other keys are optional.
            optional: list[dict[str, list[str]]] = [] if scopes == ("admin",) else [{}]
            operation["security"] = [*optional, {"key": []}]
            operation["responses"] |= refusals


class Access:
    """ASGI middleware that admits a request if its key has a scope that the path accepts.

    Without configured keys, it admits all requests that change nothing, if they are addressed to an IP
    address, a private name or one of `hosts`. With any other name, they may come from a page of another
    site that has pointed its own name at this server, to count as same-origin (DNS rebinding).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keyring: Keyring,
        routes: Sequence[BaseRoute],
        hosts: Sequence[str] = (),
        shared: Shared | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._keyring = keyring
        self._routes = routes
        self._hosts = hosts
        self._shared = shared or Shared()
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point. Puts the name and scopes of the key in the request's state."""
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        """Return the reply to a request that is not admitted; None if it is."""
        # Routes ignore a line break at the end of a path, but `accepted_scopes` does not.
        if "\n" in scope["path"]:
            return reply(HTTPStatus.NOT_FOUND, "There is nothing at a path with a line break.")

        scopes = accepted_scopes(scope["method"], scope["path"])
        if scopes is None:
            return None
        # Where nothing can be changed, no key helps: the router says so.
        if scopes == ("admin",) and not self._has_route(scope):
            scopes = SCOPES
        keys = self._keyring.keys
        if not keys:
            return self._refusal_without_keys(scope, scopes)

        number = _find(keys, _bearer(scope))
        if number is None:
            return _unknown_key()
        key = keys[number]
        scope.setdefault("state", {}).update(key=key.name, scopes=key.scopes)
        if key.scopes.isdisjoint(scopes):
            return _forbidden(
                f"This key lacks the scope {' or '.join(scopes)}: "
                "ask whoever runs the server for one."
            )

        wait_s = _take_use(self._shared, number, key, self._clock())
        return _too_many_requests(key, wait_s) if wait_s else None

    def _has_route(self, scope: Scope) -> bool:
        return any(route.matches(scope)[0] == Match.FULL for route in self._routes)

    def _refusal_without_keys(self, scope: Scope, scopes: tuple[str, ...]) -> JSONResponse | None:
        if scopes == ("admin",):
            return _forbidden(
                "This takes an admin key, and the server has no keys: set PURLIN_KEYS, "
                "see `purlin key`."
            )

        name = _host(scope)
        if "*" in self._hosts or name in self._hosts or _is_private(name):
            return None
        return _forbidden(
            f"This server has no keys and is not known as {name[:60]!r}: set PURLIN_HOSTS to the "
            "names that lead here, which protects it from pages of other sites, or PURLIN_KEYS."
        )


def _find(keys: Sequence[Key], secret: bytes) -> int | None:
    """Return the number of the key with this secret; all are compared, so that timing reveals nothing."""
    digest = hashlib.sha256(secret).digest()
    match = None
    for number, key in enumerate(keys):
        if hmac.compare_digest(key.digest, digest):
            match = number
    return match


def _take_use(shared: Shared, number: int, key: Key, now: float) -> float:
    """Count a use of a key, and return 0.0, or return the seconds until there is room for one.

    The uses are a leaky bucket in the table that all workers share. It drains at the rate of the key and
    holds BURST_S of it, at least one use. Another key at this number, after keys were read again, begins
    with an empty one.
    """
    if key.per_minute is None:
        return 0.0
    per_s = key.per_minute / 60
    capacity = max(1.0, per_s * BURST_S)
    # As many bits as a cell holds exactly.
    mark = float(int.from_bytes(key.digest[:6]))

    with shared.locked():
        uses = shared.rate_uses[number] if shared.rate_keys[number] == mark else 0.0
        current = max(0.0, uses - (now - shared.rate_times[number]) * per_s)
        # Sums of fractions may miss a whole use by a rounding error.
        excess = round(current + 1.0 - capacity, 9)
        shared.rate_uses[number] = current + (excess <= 0)
        shared.rate_times[number] = now
        shared.rate_keys[number] = mark

    return max(0.0, round(excess / per_s, 6))


def _bearer(scope: Scope) -> bytes:
    """Return the secret in the Authorization header; empty without one."""
    scheme, _, secret = Headers(scope=scope).get("authorization", "").partition(" ")
    return secret.strip().encode("latin-1") if scheme.lower() == "bearer" else b""


def _host(scope: Scope) -> str:
    """Return the name or address in the Host header, which browsers always send; empty without one."""
    try:
        name = urlsplit("//" + Headers(scope=scope).get("host", "")).hostname or ""
    except ValueError:
        return "invalid.name"
    # A dot at the end marks a fully qualified name.
    return name.removesuffix(".")


def _is_private(name: str) -> bool:
    """Return whether public DNS cannot resolve a name: an address, a single word or a private name."""
    return "." not in name or name.endswith(_PRIVATE_SUFFIXES) or _address(name) is not None


def _unknown_key() -> JSONResponse:
    return reply(
        HTTPStatus.UNAUTHORIZED,
        "This server needs a known key: send it as `Authorization: Bearer KEY`.",
        slug="no-key",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _forbidden(detail: str) -> JSONResponse:
    return reply(HTTPStatus.FORBIDDEN, detail, slug="not-allowed")


def _too_many_requests(key: Key, wait_s: float) -> JSONResponse:
    retry_after_s = math.ceil(wait_s)
    requests = "1 request" if key.per_minute == 1 else f"{key.per_minute} requests"
    return reply(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"This key may send {requests} per minute: try again in {retry_after_s} s.",
        slug="rate",
        headers={"Retry-After": str(retry_after_s)},
    )


# ---- browsers and exposure


class SecurityHeaders:
    """ASGI middleware that sets security headers for browsers; a route may set its own."""

    DEFAULTS = (
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    )

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.DEFAULTS:
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


def exposure(host: str, keys: Sequence[Key]) -> str | None:
    """Return a warning if anyone can reach the server and use it, else None."""
    if keys or is_loopback(host):
        return None
    return (
        f"NO API KEYS, AND LISTENING ON {host}: whoever reaches this address can search and "
        "read whole documents. Set PURLIN_KEYS or PURLIN_KEYS_FILE (`purlin key` makes keys), "
        "or let only trusted machines reach it."
    )


def is_loopback(host: str) -> bool:
    """Return whether a name or address is a loopback one."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
