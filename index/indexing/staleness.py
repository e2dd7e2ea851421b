"""Staleness of a build: how far its sources have changed since, by names and times alone.

No file is read. A file counts as changed if its inode changed after the build began (ctime). Unlike
the time of the last write, it also moves with copies that keep old times and with renames; but a
change of permissions moves it, too. The number of files and the time are limited.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from purlin.index.builds import Manifest

MAX_FILES = 50_000
TIME_LIMIT_S = 2.0
# Largest rounding of the times of files and builds.
_TICK_S = 0.01


@dataclass(slots=True)
class Staleness:
    """Number of files that were changed, added and removed since a build.

    `complete` is false if the file or time limit was reached, so that the counts are lower bounds.
    """

    reachable: bool
    complete: bool = True
    changed: int = 0
    added: int = 0
    removed: int = 0


class _LimitReached(Exception):
    """The file or time limit was reached."""


class _Limits:
    def __init__(self) -> None:
        self._files_left = MAX_FILES
        self._deadline = time.monotonic() + TIME_LIMIT_S

    def count_file(self) -> None:
        self._files_left -= 1
        if self._files_left < 0 or time.monotonic() > self._deadline:
            raise _LimitReached


def find_staleness(
    manifest: Manifest, read: Collection[str], skipped: Collection[str]
) -> Staleness | None:
    """Compare the sources with the names of the files that were `read` or `skipped` for a build.

    Returns None if the manifest does not name directories or files, as for the demo corpora.
    """
    roots = [Path(source) for source in manifest.sources]
    if not roots or not all(root.is_absolute() for root in roots):
        return None

    staleness = Staleness(reachable=True)
    try:
        if not all(root.exists() for root in roots):
            return Staleness(reachable=False)
        limits = _Limits()
        _count_changed(staleness, manifest, roots, read, limits)
        _count_added(staleness, manifest, roots, frozenset(read) | frozenset(skipped), limits)
    except _LimitReached:
        staleness.complete = False
    except OSError:
        return Staleness(reachable=False)
    return staleness


def changed_since(manifest: Manifest, paths: Collection[str]) -> set[str]:
    """Return which source files, by name, were changed or removed since a build began.

    Empty if the manifest does not name directories or files that can be seen.
    """
    roots = [Path(source) for source in manifest.sources]
    if not roots or not all(root.is_absolute() and root.exists() for root in roots):
        return set()

    began = datetime.fromisoformat(manifest.created_at).timestamp() - manifest.took_s
    changed = set()
    for name in paths:
        for path in _paths(roots, [name]):
            try:
                if path.stat().st_ctime <= began + _TICK_S:
                    continue
            except OSError:
                pass
            changed.add(name)
    return changed


def _count_changed(
    staleness: Staleness,
    manifest: Manifest,
    roots: list[Path],
    read: Collection[str],
    limits: _Limits,
) -> None:
    """Count the files that were changed or removed since the build began."""
    began = datetime.fromisoformat(manifest.created_at).timestamp() - manifest.took_s
    for path in _paths(roots, read):
        limits.count_file()
        try:
            staleness.changed += path.stat().st_ctime > began + _TICK_S
        except (FileNotFoundError, NotADirectoryError):
            staleness.removed += 1


def _paths(roots: list[Path], names: Collection[str]) -> Iterator[Path]:
    """Paths of source files by name; with several roots, a name begins with that of its root."""
    # Imported here, because it loads all readers.
    from purlin.index.sources import prefixes

    root_of = dict(zip(prefixes(roots), roots, strict=True))
    for name in names:
        prefix, _, rest = name.partition("/") if len(roots) > 1 else ("", "", name)
        if (root := root_of.get(prefix)) is not None:
            yield root if root.is_file() else root / rest


def _count_added(
    staleness: Staleness,
    manifest: Manifest,
    roots: list[Path],
    indexed: Collection[str],
    limits: _Limits,
) -> None:
    """Count the files that a build would read now and that this one did not have."""
    # Imported here, because it loads all readers.
    from purlin.index.sources import names

    for name in names(manifest.kind, roots):
        limits.count_file()
        staleness.added += name not in indexed
