"""How far the sources of a build have moved on since it was made, told by names and times alone: no file is read.

A file has changed if its inode did after the build began (ctime, which copies with old times and renames move, too;
so does a change of permissions). What is looked at is bounded in number and time.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from index.builds import Manifest

MAX_FILES = 50_000
SECONDS = 2.0
_TICK_S = 0.01  # what times of files and builds are rounded by, at most


@dataclass(slots=True)
class Staleness:
    """Files that changed, came and went since a build; `complete` is false where there were too many to look at all."""

    reachable: bool
    complete: bool = True
    changed: int = 0
    added: int = 0
    removed: int = 0


class _Enough(Exception):
    """As much was looked at as may be."""


class _Bounds:
    def __init__(self) -> None:
        self._left = MAX_FILES
        self._end = time.monotonic() + SECONDS

    def take(self) -> None:
        self._left -= 1
        if self._left < 0 or time.monotonic() > self._end:
            raise _Enough


def look(manifest: Manifest, read: Collection[str], left_out: Collection[str]) -> Staleness | None:
    """Compare what is there with the names of the files that were `read` for a build, and of those `left_out`.

    None where the manifest does not name directories or files, as for the demo corpora.
    """
    roots = [Path(source) for source in manifest.sources]
    if not roots or not all(root.is_absolute() for root in roots):
        return None
    found = Staleness(reachable=True)
    try:
        if not all(root.exists() for root in roots):
            return Staleness(reachable=False)
        bounds = _Bounds()
        _read_then(found, manifest, roots, read, bounds)
        _there_now(found, manifest, roots, frozenset(read) | frozenset(left_out), bounds)
    except _Enough:
        found.complete = False
    except OSError:
        return Staleness(reachable=False)
    return found


def _read_then(
    found: Staleness, manifest: Manifest, roots: list[Path], read: Collection[str], bounds: _Bounds
) -> None:
    began = datetime.fromisoformat(manifest.created_at).timestamp() - manifest.took_s
    for path in _places(roots, read):
        bounds.take()
        try:
            found.changed += path.stat().st_ctime > began + _TICK_S
        except (FileNotFoundError, NotADirectoryError):
            found.removed += 1


def _places(roots: list[Path], names: Collection[str]) -> Iterator[Path]:
    from index.sources import prefixes

    below = dict(zip(prefixes(roots), roots, strict=True))
    for name in names:
        prefix, _, rest = name.partition("/") if len(roots) > 1 else ("", "", name)
        if (root := below.get(prefix)) is not None:
            yield root if root.is_file() else root / rest


def _there_now(
    found: Staleness, manifest: Manifest, roots: list[Path], known: Collection[str], bounds: _Bounds
) -> None:
    from index.sources import names

    for name in names(manifest.kind, roots):
        bounds.take()
        found.added += name not in known
