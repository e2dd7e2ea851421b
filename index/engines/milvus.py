"""A connection to Milvus: calls with time limits, its failures in words, and its version.

The address is that of a server, `http://host:19530`, or a file `name.db` for Milvus Lite, which
runs in this process. The secret is only ever handed to the client library.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from purlin.index.errors import EngineAway, EngineFailed, InvalidInput

# Importing it takes most of a second.
if TYPE_CHECKING:
    from pymilvus import MilvusClient

ADDRESS_VARIABLE, TOKEN_VARIABLE = "PURLIN_MILVUS", "PURLIN_MILVUS_TOKEN"
TIMEOUT_VARIABLE, FALLBACK_VARIABLE = "PURLIN_MILVUS_TIMEOUT_S", "PURLIN_MILVUS_FALLBACK"
_TIMEOUT_S = 5.0
# Attempts to reach a lost server within a slow call, half a minute; with a time limit, the client
# library would try until that has passed.
_SLOW_ATTEMPTS = 15
# After a connection failed, calls fail at once for so long.
_PAUSE_S = 1.0
_OLDEST, _OLDEST_WITH_SPARSE = (2, 3), (2, 4)
_LITE = "milvus_lite"
# gRPC waits up to two minutes before it tries a lost server again, for all channels together.
_RECONNECT = {
    "grpc.initial_reconnect_backoff_ms": 200,
    "grpc.max_reconnect_backoff_ms": 1000,
    "grpc.use_local_subchannel_pool": 1,
}
_UNREACHABLE = ("connect", "unavailable", "refused", "closed")


@dataclass(frozen=True, slots=True)
class Connection:
    """Where Milvus is, and how to talk to it.

    `fallback` lets a search answer from one retriever while the other fails.
    """

    address: str
    token: str = field(default="", repr=False)
    timeout_s: float = _TIMEOUT_S
    fallback: bool = False

    @classmethod
    def of(cls, address: str = "", *, recorded: str = "") -> Connection:
        """Return the connection to `address`, or that of the environment, or else `recorded`.

        Raises InvalidInput.
        """
        variables = os.environ
        address = address or variables.get(ADDRESS_VARIABLE, "") or recorded
        token = variables.get(TOKEN_VARIABLE, "")
        fallback = variables.get(FALLBACK_VARIABLE, "").lower() in ("1", "true", "yes", "on")

        try:
            timeout_s = float(variables.get(TIMEOUT_VARIABLE, "") or _TIMEOUT_S)
        except ValueError:
            raise InvalidInput(f"{TIMEOUT_VARIABLE} must be a number of seconds.") from None

        return cls(_checked(address), token, timeout_s, fallback)


def _checked(address: str) -> str:
    """The address, absolute if it is a file; raises InvalidInput."""
    if address.endswith(".db"):
        return str(Path(address).absolute())

    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False

    if not valid:
        raise InvalidInput(
            f"{ADDRESS_VARIABLE} must be an address such as http://127.0.0.1:19530, or a file "
            "that ends in .db for Milvus Lite.",
            field="milvus",
        )

    if parts.username or parts.password:
        raise InvalidInput(
            f"The address of Milvus must have no name and no password in it, as it is shown and "
            f"stored; put NAME:PASSWORD into {TOKEN_VARIABLE}.",
            field="milvus",
        )

    return address


def _again(failure: EngineFailed) -> EngineFailed:
    """A new exception, because what is raised keeps all that its request held."""
    return type(failure)(failure.message)


class Milvus:
    """A client of one Milvus; safe to share between threads. Methods raise EngineFailed."""

    def __init__(self, connection: Connection) -> None:
        if importlib.util.find_spec("pymilvus") is None:
            raise EngineFailed(
                "Corpora in Milvus need pymilvus: pip install 'purlin-search[milvus]'."
            )

        self.connection = connection
        self._lock = threading.Lock()
        self._client: MilvusClient | None = None
        self._failed_at = -_PAUSE_S
        self._failure: EngineFailed | None = None

    def call(self, method: str, *arguments: Any, slow: bool = False, **options: Any) -> Any:
        """Call a method of the client, with the connection's time limit.

        What a build waits for is `slow`: a flush, an index, a collection that is loaded. It may
        take any time as long as the server answers the keep-alive of its connection.
        """
        limits = {"retry_times": _SLOW_ATTEMPTS} if slow else {"timeout": self.connection.timeout_s}

        # pymilvus reports failures of any kind.
        try:
            return getattr(self._connected(), method)(*arguments, **limits, **options)
        except EngineFailed:
            raise
        except Exception as error:  # noqa: BLE001
            raise self._failed(error) from None

    def _connected(self) -> MilvusClient:
        with self._lock:
            # Those that waited for the lock must not wait for the same server one by one.
            if self._failure is not None and time.monotonic() - self._failed_at < _PAUSE_S:
                raise _again(self._failure)
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> MilvusClient:
        # It logs what it raises, with parameters.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL + 1)
        from pymilvus import MilvusClient

        connection = self.connection
        try:
            return MilvusClient(
                uri=connection.address,
                token=connection.token,
                timeout=connection.timeout_s,
                dedicated=True,
                grpc_options=_RECONNECT,
            )
        except Exception as error:  # noqa: BLE001
            self._failure, self._failed_at = self._failed(error), time.monotonic()
            raise _again(self._failure) from None

    def _failed(self, error: Exception) -> EngineFailed:
        """What went wrong, in words; remembers that the server cannot be reached."""
        text = str(getattr(error, "message", "") or error)
        where = f"Milvus at {self.connection.address}"
        lower = text.lower()

        if "unauthenticated" in lower or "auth check" in lower:
            return EngineFailed(f"{where} refused the token; set {TOKEN_VARIABLE}.")

        if "deadline" in lower or "timeout" in lower or "timed out" in lower:
            limit_s = self.connection.timeout_s
            return EngineAway(f"{where} did not answer within {limit_s:g} s; try again later.")

        if any(word in lower for word in _UNREACHABLE):
            self._failure = EngineAway(
                f"{where} cannot be reached; start it, or set {ADDRESS_VARIABLE}."
            )
            self._failed_at = time.monotonic()
            return _again(self._failure)

        reason = " ".join(text.replace(self.connection.token or "\0", "***").split())
        return EngineFailed(f"{where} failed: {reason[:300]}")

    def close(self) -> None:
        """Close the connection; a later call opens another."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # ---- version

    @cached_property
    def version(self) -> str:
        """The server's version; raises EngineFailed for one that is too old."""
        version = str(self.call("get_server_version"))
        if not version.startswith(_LITE) and _numbers(version) < _OLDEST:
            raise EngineFailed(
                f"Milvus at {self.connection.address} is of version {version}; Purlin needs 2.3."
            )
        return version

    @property
    def is_lite(self) -> bool:
        """Whether this is Milvus Lite, in this process."""
        return self.version.startswith(_LITE)

    @property
    def has_sparse(self) -> bool:
        """Whether it has sparse vectors, which lexical search needs."""
        return self.is_lite or _numbers(self.version) >= _OLDEST_WITH_SPARSE


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


_open: dict[Connection, Milvus] = {}
_open_lock = threading.Lock()


def connected(connection: Connection) -> Milvus:
    """Return this process's client of a connection."""
    with _open_lock:
        if connection not in _open:
            _open[connection] = Milvus(connection)
        return _open[connection]
