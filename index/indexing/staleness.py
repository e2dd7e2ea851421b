"""Staleness of a build: how far its sources have changed since, by names and times alone.

No file is read. A file counts as changed if its inode changed after the build began (ctime), or a link
to its root did. Unlike the time of the last write, it also moves with copies that keep old times and
with renames; but a change of permissions moves it, too. The number of files and the time are limited.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import compress, islice
from pathlib import Path
from typing import Literal

from purlin.index.builds.manifests import Manifest
from purlin.index.records import Hit

MAX_FILES = 50_000
TIME_LIMIT_S = 2.0
# Largest rounding of the times of files and builds.
_TICK_S = 0.01

_Change = Literal["changed", "added", "removed"]


@dataclass(slots=True)
class Staleness:
    """Number of files that were changed, added and removed since a build.

    `complete` is false if the counts are lower bounds: the file or time limit was reached, or the build
    is dated in the future.
    """

    reachable: bool
    complete: bool = True
    changed: int = 0
    added: int = 0
    removed: int = 0


def find_staleness(
    manifest: Manifest, read: Collection[str], skipped: Collection[str], *, bounded: bool = True
) -> Staleness | None:
    """Compare the sources with the names of the files that were `read` or `skipped` for a build.

    Of both the files that were read and those that would be now, MAX_FILES are looked at, within
    TIME_LIMIT_S, or all unless the look is `bounded`. Returns None if the manifest does not name
    directories or files, as for the demo corpora.
    """
    roots = manifest.local_roots
    if not roots:
        return None

    # Imported here, because it loads all readers.
    from purlin.index.sources import names

    complete, counts = True, Counter[_Change | None]()
    try:
        if not all(root.exists() for root in roots):
            return Staleness(reachable=False)
        if is_ahead(manifest):
            return Staleness(reachable=True, complete=False)

        # The time is that for the files: on a busy machine, to load the reader takes longer than the limit.
        names_now = names(manifest.kind, roots)
        max_files = MAX_FILES if bounded else math.inf
        deadline = time.monotonic() + (TIME_LIMIT_S if bounded else math.inf)
        for changes in (_changes(manifest, roots, read), _additions(names_now, read, skipped)):
            for number, change in enumerate(changes):
                if number == max_files or time.monotonic() > deadline:
                    complete = False
                    break
                counts[change] += 1
    except OSError:
        return Staleness(reachable=False)
    return Staleness(True, complete, counts["changed"], counts["added"], counts["removed"])


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
        if _is_linked_anew(roots, began):
            return set(names)
        return {name for name, path in _paths(roots, names) if _change(path, began)}
    except OSError:
        return set()


def mark_stale(
    hits: tuple[Hit, ...], corpus: str, changed: Callable[[Iterable[str | None]], set[str]]
) -> tuple[Hit, ...]:
    """Mark as stale the hits of a corpus whose file has changed since its build.

    `changed` returns the changed ones of some paths. Hits of other corpora stay as they are.
    """
    is_own = [hit.corpus in (None, corpus) for hit in hits]
    paths = changed(hit.location.path for hit in compress(hits, is_own))
    return tuple(
        replace(hit, stale=True) if own and hit.location.path in paths else hit
        for hit, own in zip(hits, is_own, strict=True)
    )


def seconds_since_write(manifest: Manifest) -> float:
    """Return how long ago any of the files that a build would read now was written.

    Infinite if none can be read, or the last time is in the future: that of another clock.
    """
    # Imported here, because it loads all readers.
    from purlin.index.sources import names

    last_write = -math.inf
    roots = manifest.local_roots
    for _, path in _paths(roots, islice(names(manifest.kind, roots), MAX_FILES)):
        with suppress(OSError):
            last_write = max(last_write, path.stat().st_mtime)

    seconds = time.time() - last_write
    return seconds if seconds >= 0 else math.inf


def is_single_file(manifest: Manifest) -> bool:
    """Return whether all documents come from one file that can be reached."""
    roots = manifest.local_roots
    try:
        return len(roots) == 1 and roots[0].is_file()
    except OSError:
        return False


def _began(manifest: Manifest) -> float:
    """Return when the build began, in seconds since 1970."""
    return datetime.fromisoformat(manifest.created_at).timestamp() - manifest.took_s


def is_ahead(manifest: Manifest) -> bool:
    """Return whether a build began in the future: the clock was set back, and times tell nothing."""
    return _began(manifest) > time.time()


def _changes(
    manifest: Manifest,
    roots: list[Path],
    read: Collection[str],
) -> Iterator[_Change | None]:
    """Yield what has happened since the build began to each of its files."""
    began = _began(manifest)
    if _is_linked_anew(roots, began):
        yield "changed"
    for _, path in _paths(roots, read):
        yield _change(path, began)


def _additions(
    names_now: Iterable[str], read: Collection[str], skipped: Collection[str]
) -> Iterator[_Change | None]:
    """Yield whether the build has each of the files that one would read now."""
    indexed = {*read, *skipped}
    for name in names_now:
        yield None if name in indexed else "added"


def _change(path: Path, began: float) -> _Change | None:
    """Return what has happened to a file of the build since it began."""
    try:
        return "changed" if path.stat().st_ctime > began + _TICK_S else None
    except (FileNotFoundError, NotADirectoryError):
        return "removed"


def _is_linked_anew(roots: Iterable[Path], began: float) -> bool:
    """Return whether a link on the way to a root is newer than the build: its target may be older."""
    paths = {path for root in roots for path in (root, *root.parents)}
    return any(path.is_symlink() and path.lstat().st_ctime > began + _TICK_S for path in paths)


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
