"""The user's cache directory: indexes of directories that were searched, and clones of URLs.

    CACHE/home/corpora/NAME/...        builds, as in any PURLIN_HOME
    CACHE/home/workspaces/NAME/        what a workspace remembers of its directory; its lock
    CACHE/clones/NAME/                 clones of git URLs

Everything can be made again, so the directory can be deleted at any time. Entries that were not
used for the longest time are removed when all of them together exceed `MAX_BYTES`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from purlin.index import builds
from purlin.index.errors import PurlinError
from purlin.index.storage import exclusive

MAX_BYTES = 2 << 30
ORIGIN_FILE = "origin.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """An index or a clone in the cache.

    `root` is the directory that was indexed, or the clone. `used` is the time of the last search
    (seconds of the clock).
    """

    name: str
    root: Path
    bytes: int
    used: float
    is_clone: bool = False


def cache_directory() -> Path:
    """PURLIN_CACHE, else `purlin` in the platform's directory for caches."""
    if directory := os.environ.get("PURLIN_CACHE"):
        return Path(directory)
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/purlin"
    # The specification tells to ignore a relative path.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "purlin"


def home_of(cache: Path) -> Path:
    """The PURLIN_HOME inside the cache."""
    return cache / "home"


def clones(cache: Path) -> Path:
    """Directory of the clones inside the cache."""
    return cache / "clones"


def state_directory(home: Path, name: str) -> Path:
    """Directory for what a workspace remembers beside its builds."""
    return home / "workspaces" / name


def create(cache: Path) -> None:
    """Create the cache directory, which only this user may read. Raises OSError."""
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not os.access(cache, os.W_OK | os.X_OK):
        raise PermissionError(f"no write permission for {cache}")


def entries(cache: Path) -> list[Entry]:
    """All indexes and clones, least recently used first."""
    return sorted(_entries(cache), key=lambda entry: entry.used)


def _entries(cache: Path) -> Iterator[Entry]:
    root = home_of(cache)
    for state in _directories(root / "workspaces"):
        size = _size(builds.builds_directory(root, state.name))
        yield Entry(state.name, _root(state), size, state.stat().st_mtime)
    for clone in _directories(clones(cache)):
        yield Entry(clone.name, clone, _size(clone), clone.stat().st_mtime, is_clone=True)


def _directories(parent: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [path for path in parent.iterdir() if path.is_dir() and path.name[0] != "."]
    return []


def _root(state: Path) -> Path:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return Path(json.loads((state / ORIGIN_FILE).read_bytes())["root"])
    return Path("?")


def _size(directory: Path) -> int:
    """Bytes on disk; a file with several names counts once."""
    sizes = {}
    for path, _, files in os.walk(directory):
        for file in files:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(path, file))  # noqa: PTH118 (a clone has many files)
                sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


def remove(cache: Path, entry: Entry) -> bool:
    """Remove an entry; returns False if another process uses it just now."""
    if entry.is_clone:
        shutil.rmtree(entry.root, ignore_errors=True)
        return True

    state = state_directory(home_of(cache), entry.name)
    try:
        with exclusive(state, "in use"):
            if builds.builds_directory(home_of(cache), entry.name).is_dir():
                builds.delete(home_of(cache), entry.name)
            shutil.rmtree(state, ignore_errors=True)
    except PurlinError:
        return False
    return True


def trim(cache: Path, keep: Collection[str], limit: int = MAX_BYTES) -> list[Entry]:
    """Remove the least recently used entries until all together fit, but not those of `keep`."""
    remaining = entries(cache)
    total = sum(entry.bytes for entry in remaining)
    removed = []

    for entry in remaining:
        if total <= limit:
            break

        if entry.name not in keep and remove(cache, entry):
            removed.append(entry)
            total -= entry.bytes

    return removed
