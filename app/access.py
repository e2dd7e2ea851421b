"""Who may do what: API keys with scopes and rates, what each path needs, and the headers that browsers act upon."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.problems import MEDIA_TYPE, reply
from index.errors import InvalidInput

SCOPES = ("search", "classify", "qa", "admin")
MIN_KEY_CHARS = 20
MAX_API_KEYS = 1_000
MAX_KEYS_BYTES = 2**20
REFUSALS = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,  # from the queue that every request with a key goes through
)
BURST_S = 10.0  # of its rate, a key may use as much at once

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HASHED = "sha256:"
_OPEN = frozenset(["/", "/livez", "/readyz", "/metrics", "/openapi.json"])
_NEEDS = {
    "search": ("search",),
    "classify": ("classify",),
    "qa": ("qa",),
    "corpora": ("search", "qa", "admin"),
    "classifiers": ("classify", "admin"),
    "v1": ("search",),
    "embed": ("search",),
    "rerank": ("search",),
    "mcp": ("search", "qa", "classify"),  # each tool needs its own
}
_PRIVATE = (".localhost", ".local", ".internal")  # names that nobody can register
_ADMINISTERED = frozenset(
    ["corpora", "classifiers"]
)  # changing what is below them takes an admin key


@dataclass(frozen=True, slots=True)
class Key:
    """A key as the server knows it: `digest` is the SHA-256 of what its holder sends; no rate means no limit."""

    name: str
    scopes: frozenset[str]
    digest: bytes
    per_minute: int | None = None


# ---- reading and making keys


def parse_keys(text: str, source: str) -> tuple[Key, ...]:
    """Keys, one a line (or between semicolons): `NAME SCOPE[,SCOPE] KEY [REQUESTS_PER_MINUTE]`; `#` begins a comment.

    KEY is the key itself or `sha256:` and the hex of its hash. Raises InvalidInput, which never cites a line.
    """
    keys: list[Key] = []
    for number, line in enumerate(re.split(r"[\n;]", text), 1):
        if words := line.partition("#")[0].split():
            keys.append(_key(words, f"{source}, line {number}"))
    if len(keys) > MAX_API_KEYS:
        raise InvalidInput(f"{source} has {len(keys)} keys; at most {MAX_API_KEYS} are allowed.")
    for what, values in (
        ("name", [key.name for key in keys]),
        ("key", [key.digest for key in keys]),
    ):
        if len(set(values)) < len(values):
            raise InvalidInput(f"{source} has the same {what} twice: give each its own.")
    return tuple(keys)


def read_keys_file(path: Path) -> tuple[Key, ...]:
    """The keys in a file. Raises InvalidInput."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_KEYS_BYTES + 1)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The keys in {path} cannot be read ({type(error).__name__}).") from None
    if len(content) > MAX_KEYS_BYTES:
        raise InvalidInput(
            f"{path} has more than {MAX_KEYS_BYTES:,} bytes: it cannot be a file of keys."
        )
    return parse_keys(text, str(path))


def new_key(name: str, scopes: Sequence[str], per_minute: int | None = None) -> tuple[str, str]:
    """A fresh key (256 random bits), and the line that makes a server know it, which does not tell the key."""
    secret = f"purlin-{secrets.token_urlsafe(32)}"
    rate = "" if per_minute is None else f" {per_minute}"
    line = f"{name} {','.join(scopes)} {_HASHED}{hashlib.sha256(secret.encode()).hexdigest()}{rate}"
    parse_keys(line, "The new key")
    return secret, line


def _key(words: Sequence[str], where: str) -> Key:
    if not 3 <= len(words) <= 4:
        raise InvalidInput(
            f"{where} has {len(words)} words: NAME SCOPE[,SCOPE] KEY [REQUESTS_PER_MINUTE] is wanted."
        )
    name, listed, secret, *rate = words
    scopes = frozenset(listed.split(","))
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{where}: the first word is no name: 1 to 64 letters, digits, '_', '.' and '-'."
        )
    if not scopes <= set(SCOPES):
        raise InvalidInput(
            f"{where}: the second word is no list of scopes; they are {', '.join(SCOPES)}."
        )
    if rate and not re.fullmatch(r"[1-9]\d{0,6}", rate[0]):
        raise InvalidInput(f"{where}: the last word is no rate: 1 to 9999999 requests per minute.")
    return Key(name, scopes, _digest(secret, where), int(rate[0]) if rate else None)


def _digest(secret: str, where: str) -> bytes:
    if secret.startswith(_HASHED):
        if not re.fullmatch(r"[0-9a-fA-F]{64}", secret.removeprefix(_HASHED)):
            raise InvalidInput(
                f"{where}: a hash is `{_HASHED}` and 64 hex digits; `purlin key` makes such a line."
            )
        return bytes.fromhex(secret.removeprefix(_HASHED))
    if len(secret) < MIN_KEY_CHARS:
        raise InvalidInput(
            f"{where}: a key has at least {MIN_KEY_CHARS} characters; `purlin key` makes a good one."
        )
    return hashlib.sha256(secret.encode()).digest()


# ---- what a request needs


def needs(method: str, path: str) -> tuple[str, ...] | None:
    """Scopes any one of which lets a request in; None where no key is needed. An unknown path takes any key."""
    if path in _OPEN or path.startswith("/web/"):
        return None
    first, _, below = path.removeprefix("/").partition("/")
    if first in _ADMINISTERED and below and method not in ("GET", "HEAD"):
        return ("admin",)
    return _NEEDS.get(first, SCOPES)


def describe(openapi: dict[str, Any]) -> None:
    """Write into an OpenAPI document which operations take a key, and what is answered without a good one."""
    openapi["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            if (scopes := needs(method.upper(), path)) is not None:
                optional: list[dict[str, list[str]]] = [] if scopes == ("admin",) else [{}]
                operation["security"] = [*optional, {"key": []}]
                for status in REFUSALS:
                    operation["responses"][str(status.value)] = {
                        "description": status.phrase,
                        "content": content,
                    }


class Access:
    """Lets a request in if its key may do what it asks for, or if there are no keys and it changes nothing.

    Without keys it must also have come here by an address, a private name or one of `hosts`: a page elsewhere may give
    its own name this server's address, and would then be of the same origin to a browser (DNS rebinding).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Sequence[Key],
        hosts: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._keys = keys
        self._hosts = hosts
        self._rates = {
            key.name: _Rate(key.per_minute, clock) for key in keys if key.per_minute is not None
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point. The key's name and scopes are then in the request's state, as `key` and `scopes`."""
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        if "\n" in scope["path"]:  # which a route ignores at the end
            return reply(HTTPStatus.NOT_FOUND, "There is nothing at a path with a line break.")
        scopes = needs(scope["method"], scope["path"])
        if scopes is None:
            return None
        if not self._keys:
            return self._without_keys(scope, scopes)
        key = self._find(_bearer(scope))
        if key is None:
            return _unknown()
        scope.setdefault("state", {}).update(key=key.name, scopes=key.scopes)
        if key.scopes.isdisjoint(scopes):
            return _forbidden(
                f"This key lacks the scope {' or '.join(scopes)}: ask whoever runs the server for one."
            )
        wait_s = self._rates[key.name].take() if key.name in self._rates else 0.0
        return _too_many(key, wait_s) if wait_s else None

    def _without_keys(self, scope: Scope, scopes: tuple[str, ...]) -> JSONResponse | None:
        if scopes == ("admin",):
            return _forbidden(
                "This takes an admin key, and the server has no keys: set PURLIN_KEYS, see `purlin key`."
            )
        name = _host(scope)
        if "*" in self._hosts or name in self._hosts or _is_private(name):
            return None
        return _forbidden(
            f"This server has no keys and is not known as {name[:60]!r}: set PURLIN_HOSTS to the names that lead here, "
            "so that no other site's pages can pass for its own, or PURLIN_KEYS."
        )

    def _find(self, secret: bytes) -> Key | None:
        """The key that was sent. Compares with all of them, so that the time taken tells nothing."""
        digest = hashlib.sha256(secret).digest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


class _Rate:
    """A bucket of tokens that fills at the key's rate and holds BURST_S of it, at least one."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._per_s = per_minute / 60
        self._most = max(1.0, self._per_s * BURST_S)
        self._clock = clock
        self._tokens = self._most
        self._seen = clock()

    def take(self) -> float:
        """Take a token: 0.0, or the seconds until there is one."""
        now = self._clock()
        self._tokens = min(self._most, self._tokens + (now - self._seen) * self._per_s)
        self._seen = now
        if self._tokens < 1.0:
            return (1.0 - self._tokens) / self._per_s
        self._tokens -= 1.0
        return 0.0


def _bearer(scope: Scope) -> bytes:
    scheme, _, secret = Headers(scope=scope).get("authorization", "").partition(" ")
    return secret.strip().encode("latin-1") if scheme.lower() == "bearer" else b""


def _host(scope: Scope) -> str:
    """The name that the client came by, or its address; empty where it does not say, as browsers always do."""
    try:
        name = urlsplit("//" + Headers(scope=scope).get("host", "")).hostname or ""
    except ValueError:
        return "invalid.name"
    return name.removesuffix(".")  # which says that it is whole


def _is_private(name: str) -> bool:
    """Whether no name server of others can have answered for it: an address, a name without a dot or a private one."""
    return "." not in name or name.endswith(_PRIVATE) or _address(name) is not None


def _unknown() -> JSONResponse:
    detail = (
        "This server takes requests with a known key only: send it as `Authorization: Bearer KEY`."
    )
    return reply(
        HTTPStatus.UNAUTHORIZED, detail, slug="no-key", headers={"WWW-Authenticate": "Bearer"}
    )


def _forbidden(detail: str) -> JSONResponse:
    return reply(HTTPStatus.FORBIDDEN, detail, slug="not-allowed")


def _too_many(key: Key, wait_s: float) -> JSONResponse:
    detail = f"This key may send {key.per_minute} requests per minute: try again in {math.ceil(wait_s)} s."
    headers = {"Retry-After": str(math.ceil(wait_s))}
    return reply(HTTPStatus.TOO_MANY_REQUESTS, detail, slug="rate", headers=headers)


# ---- browsers, and who can reach the server at all


class SecurityHeaders:
    """What keeps browsers from doing more with a response than it is for; a route may set its own policy."""

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


def exposures(host: str, keys: Sequence[Key]) -> Iterator[str]:
    """Warnings about who can reach the server, in sentences."""
    if not keys and not is_loopback(host):
        yield (
            f"NO API KEYS, AND LISTENING ON {host}: whoever reaches this address can search and read whole documents. "
            "Set PURLIN_KEYS or PURLIN_KEYS_FILE (`purlin key` makes keys), or let only trusted machines reach it."
        )


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
