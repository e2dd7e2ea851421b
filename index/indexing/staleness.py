"""Staleness of a build: how far its sources have changed since, by names and times alone.

No file is read. A file counts as changed if its inode changed after the build began (ctime). Unlike
the time of the last write, it also moves with copies that keep old times and with renames; but a
change of permissions moves it, too. The number of files and the time are limited.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from purlin.index.builds.manifests import Manifest

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
    roots = manifest.local_roots
    if not roots:
        return None

    staleness = Staleness(reachable=True)
    try:
        if not all(root.exists() for root in roots):
            return Staleness(reachable=False)
        _count(staleness, manifest, roots, read, skipped)
    except _LimitReached:
        staleness.complete = False
    except OSError:
        return Staleness(reachable=False)
    return staleness


def changed_since(manifest: Manifest, names: Iterable[str]) -> set[str]:
    """Return those of the source files `names` that were changed or removed since the build began.

    `names` are those of `Location.path`. None counts as changed if the sources are no local files,
    as for the demo corpora, or cannot be reached at all.
    """
    roots = manifest.local_roots

    try:
        if not roots or not all(root.exists() for root in roots):
            return set()

        began = _began(manifest)
        return {name for name, path in _paths(roots, names) if _has_changed(path, began)}
    except OSError:
        return set()


def is_single_file(manifest: Manifest) -> bool:
    """Return whether all documents come from one file that can be reached."""
    roots = manifest.local_roots
    try:
        return len(roots) == 1 and roots[0].is_file()
    except OSError:
        return False


def _has_changed(path: Path, began: float) -> bool:
    try:
        return path.stat().st_ctime > began + _TICK_S
    except (FileNotFoundError, NotADirectoryError):
        return True


def _began(manifest: Manifest) -> float:
    """Return when the build began, in seconds since 1970."""
    return datetime.fromisoformat(manifest.created_at).timestamp() - manifest.took_s


def _count(
    staleness: Staleness,
    manifest: Manifest,
    roots: list[Path],
    read: Collection[str],
    skipped: Collection[str],
) -> None:
    """Count the files that changed since the build began, and those that a build would read now."""
    # Imported here, because it loads all readers.
    from purlin.index.sources import names

    limits, began = _Limits(), _began(manifest)
    for _, path in _paths(roots, read):
        limits.count_file()
        try:
            staleness.changed += path.stat().st_ctime > began + _TICK_S
        except (FileNotFoundError, NotADirectoryError):
            staleness.removed += 1

    indexed = {*read, *skipped}
    for name in names(manifest.kind, roots):
        limits.count_file()
        staleness.added += name not in indexed


def _paths(roots: list[Path], names: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield names and paths of source files; with several roots, a name begins with its root's."""
    # Imported here, because it loads all readers.
    from purlin.index.sources import prefixes

    root_of = {
        prefix: (root, root.is_file()) for prefix, root in zip(prefixes(roots), roots, strict=True)
    }
    for name in names:
        prefix, _, rest = name.partition("/") if len(roots) > 1 else ("", "", name)
        if prefix in root_of:
            root, is_file = root_of[prefix]
            yield name, root if is_file else root / rest
