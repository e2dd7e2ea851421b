"""Access control: API keys with scopes and rates, the scopes of each path, and security headers."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from purlin.app.problems import MEDIA_TYPE, reply
from purlin.app.shared import MAX_RATES, Shared
from purlin.index.errors import InvalidInput

SCOPES = ("search", "classify", "qa", "admin")
MIN_KEY_CHARS = 20
MAX_API_KEYS = MAX_RATES
MAX_KEYS_BYTES = 2**20
REFUSALS = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    # From the queue, which every request that needs a key goes through.
    HTTPStatus.SERVICE_UNAVAILABLE,
)
BURST_S = 10.0  # seconds' worth of its rate that a key may use at once

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HASHED = "sha256:"
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


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as the server knows it.

    `digest` is the SHA-256 of the secret that clients send. `per_minute` limits requests; None
    means no limit.
    """

    name: str
    scopes: frozenset[str]
    digest: bytes
    per_minute: int | None = None


# ---- keys


def parse_keys(text: str, source: str) -> tuple[Key, ...]:
    """Parse keys, one a line or separated by semicolons; `#` begins a comment.

    A line is `NAME SCOPE[,SCOPE] KEY [REQUESTS_PER_MINUTE]`, where KEY is the secret itself or
    `sha256:` and the hex digits of its hash. Raises InvalidInput, which never quotes a line.
    """
    keys: list[Key] = []
    for number, line in enumerate(re.split(r"[\n;]", text), 1):
        if words := line.partition("#")[0].split():
            keys.append(_parse_key(words, f"{source}, line {number}"))

    if len(keys) > MAX_API_KEYS:
        raise InvalidInput(f"{source} has {len(keys)} keys; at most {MAX_API_KEYS} are allowed.")
    if len({key.name for key in keys}) < len(keys):
        raise InvalidInput(f"{source} has the same name twice: give each key its own.")
    if len({key.digest for key in keys}) < len(keys):
        raise InvalidInput(f"{source} has the same key twice: give each name its own.")
    return tuple(keys)


def read_keys_file(path: Path) -> tuple[Key, ...]:
    """Read keys from a file, see `parse_keys`. Raises InvalidInput."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_KEYS_BYTES + 1)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "not UTF-8")
        raise InvalidInput(
            f"The keys in {path} cannot be read ({reason}): set PURLIN_KEYS_FILE to a text file "
            "that this user may read."
        ) from None

    if len(content) > MAX_KEYS_BYTES:
        raise InvalidInput(
            f"{path} has more than {MAX_KEYS_BYTES:,} bytes: it cannot be a file of keys."
        )
    return parse_keys(text, str(path))


def configured_keys(text: str, file: Path | None) -> tuple[Key, ...]:
    """Return the keys of the settings `keys` and `keys_file`.

    Raises InvalidInput, also for one that is set but has no key: such a server would let all in.
    """
    if file is not None and text:
        raise InvalidInput("PURLIN_KEYS and PURLIN_KEYS_FILE are both set: unset one of them.")

    keys = parse_keys(text, "PURLIN_KEYS") if file is None else read_keys_file(file)
    if not keys and (text or file):
        raise InvalidInput(
            f"{file or 'PURLIN_KEYS'} has no key, and a server without keys answers everyone: "
            "add one, which `purlin key` makes, or unset the variable."
        )

    return keys


def new_key(name: str, scopes: Sequence[str], per_minute: int | None = None) -> tuple[str, str]:
    """Make a key of 256 random bits: its secret, and the line for the server, which has its hash."""
    secret = f"purlin-{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    rate = "" if per_minute is None else f" {per_minute}"
    line = f"{name} {','.join(scopes)} {_HASHED}{digest}{rate}"

    # Raises InvalidInput for a name, scope or rate that the server would refuse.
    parse_keys(line, "The new key")
    return secret, line


def _parse_key(words: Sequence[str], where: str) -> Key:
    """Parse the words of one line; `where` begins error messages."""
    if not 3 <= len(words) <= 4:
        raise InvalidInput(
            f"{where} has {len(words)} words; expected NAME SCOPE[,SCOPE] KEY [REQUESTS_PER_MINUTE]."
        )

    name, scope_list, secret, *rate = words
    scopes = frozenset(scope_list.split(","))
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{where}: the first word is not a valid name; "
            "use 1 to 64 letters, digits, '_', '.' and '-'."
        )
    if not scopes <= set(SCOPES):
        raise InvalidInput(
            f"{where}: the second word is not a list of scopes; they are {', '.join(SCOPES)}."
        )
    if rate and not re.fullmatch(r"[1-9]\d{0,6}", rate[0]):
        raise InvalidInput(
            f"{where}: the last word is not a valid rate; use 1 to 9999999 requests per minute."
        )
    return Key(name, scopes, _digest(secret, where), int(rate[0]) if rate else None)


def _digest(secret: str, where: str) -> bytes:
    """Return the SHA-256 of a secret, which is in clear or `sha256:` and hex digits."""
    if secret.startswith(_HASHED):
        digest = secret.removeprefix(_HASHED)
        if not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
            raise InvalidInput(
                f"{where}: a hash is `{_HASHED}` and 64 hex digits; `purlin key` makes such a line."
            )
        return bytes.fromhex(digest)

    if len(secret) < MIN_KEY_CHARS:
        raise InvalidInput(
            f"{where}: a key needs at least {MIN_KEY_CHARS} characters; "
            "`purlin key` makes a secure one."
        )
    return hashlib.sha256(secret.encode()).digest()


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
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}

    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            scopes = accepted_scopes(method.upper(), path)
            if scopes is None:
                continue

            # A server without keys admits everything except administration, so other keys are optional.
            optional: list[dict[str, list[str]]] = [] if scopes == ("admin",) else [{}]
            operation["security"] = [*optional, {"key": []}]
            for status in REFUSALS:
                response = {"description": status.phrase, "content": content}
                operation["responses"][str(status.value)] = response


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
        keys: Sequence[Key],
        routes: Sequence[BaseRoute],
        hosts: Sequence[str] = (),
        shared: Shared | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._keys = keys
        self._routes = routes
        self._hosts = hosts

        shared = shared or Shared()
        self._rates = {
            key.name: _Rate(key.per_minute, shared, number, clock)
            for number, key in enumerate(keys)
            if key.per_minute is not None
        }

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
        if not self._keys:
            return self._refusal_without_keys(scope, scopes)

        key = self._find(_bearer(scope))
        if key is None:
            return _unknown_key()
        scope.setdefault("state", {}).update(key=key.name, scopes=key.scopes)
        if key.scopes.isdisjoint(scopes):
            return _forbidden(
                f"This key lacks the scope {' or '.join(scopes)}: "
                "ask whoever runs the server for one."
            )

        wait_s = self._rates[key.name].take() if key.name in self._rates else 0.0
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

    def _find(self, secret: bytes) -> Key | None:
        """Return the key with this secret; all are compared, so that timing reveals nothing."""
        digest = hashlib.sha256(secret).digest()
        match = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                match = key
        return match


class _Rate:
    """A leaky bucket of the uses of a key, in the table that all workers share.

    It drains at the rate of the key and holds BURST_S of it, at least one use.
    """

    def __init__(
        self, per_minute: int, shared: Shared, number: int, clock: Callable[[], float]
    ) -> None:
        self._per_s = per_minute / 60
        self._capacity = max(1.0, self._per_s * BURST_S)
        self._shared = shared
        self._number = number
        self._clock = clock

    def take(self) -> float:
        """Count a use and return 0.0, or return the seconds until there is room for one."""
        uses, times = self._shared.rate_uses, self._shared.rate_times

        with self._shared.locked():
            now = self._clock()
            current = max(0.0, uses[self._number] - (now - times[self._number]) * self._per_s)
            # Sums of fractions may miss a whole use by a rounding error.
            excess = round(current + 1.0 - self._capacity, 9)
            uses[self._number] = current + (excess <= 0)
            times[self._number] = now

        return max(0.0, round(excess / self._per_s, 6))


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
