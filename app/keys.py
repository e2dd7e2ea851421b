"""API keys: their format in the settings, with scopes and rates, and new ones."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from purlin.app.shared import MAX_RATES
from purlin.index.errors import InvalidInput

SCOPES = ("search", "classify", "qa", "admin")
MIN_KEY_CHARS = 20
MAX_API_KEYS = MAX_RATES
MAX_KEYS_BYTES = 2**20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HASHED = "sha256:"

_log = logging.getLogger("purlin.keys")


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


def read_keys_file(path: Path) -> str:
    """Return the text of a file of keys. Raises InvalidInput."""
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
    return text


class Keyring:
    """The keys of the settings `keys` and `keys_file`; after SIGHUP the file is read again.

    `text` is where they were read from. Raises InvalidInput, also for a setting that has no key: such a
    server would let all in.
    """

    def __init__(self, text: str = "", file: Path | None = None) -> None:
        if file is not None and text:
            raise InvalidInput("PURLIN_KEYS and PURLIN_KEYS_FILE are both set: unset one of them.")

        self._file = file
        self.is_outdated = False
        self.take(text if file is None else read_keys_file(file))

    def take(self, text: str) -> None:
        """Replace all keys by those of a text. Raises InvalidInput, and keeps them then."""
        keys = parse_keys(text, str(self._file or "PURLIN_KEYS"))
        if not keys and (text or self._file):
            raise InvalidInput(
                f"{self._file or 'PURLIN_KEYS'} has no key, and a server without keys answers "
                "everyone: add one, which `purlin key` makes, or unset the variable."
            )
        self.text, self.keys = text, keys

    def note_hangup(self, *_: object) -> None:
        """Handle SIGHUP: keys are read when the server gets to it."""
        self.is_outdated = True

    def read_again(self) -> None:
        """Read the file again; keys that cannot be used leave those before, which is logged."""
        self.is_outdated = False
        if self._file is None:
            _log.warning("SIGHUP changes nothing: it reads PURLIN_KEYS_FILE, which is not set")
            return

        try:
            self.take(read_keys_file(self._file))
        except InvalidInput as error:
            _log.error("the keys stay as they were: %s", error.message)
        else:
            _log.info("%d keys were read again from %s", len(self.keys), self._file)


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
