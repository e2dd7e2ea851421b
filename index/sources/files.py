"""Walk a directory for its files, leaving out what git ignores, and read them within limits."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path

from purlin.index.records import Document, Skipped, Stamp, is_text, printable
from purlin.index.sources.ignores import MAX_IGNORE_BYTES, Ignore, is_ignored, parse_ignore
from purlin.index.sources.tracked import Tracked

MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_ENTRIES = 500_000

# A file that changed this recently may change again within the same tick of the clock.
RACY_NS = 2_000_000_000

# Windows has no such flag, and no named pipes among its files.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_NAME = attrgetter("name")
# What follows the worktree's name belongs to a submodule in it; "modules/" is before a submodule.
_LINKED_WORKTREE = re.compile(rb"(?<!/modules)/worktrees/[^/\r\n]+\s*\Z")
_NOT_UTF8 = "the file name is not UTF-8"
_TOO_MANY = (
    f"more than {MAX_ENTRIES:,} files and directories: what follows is not read; exclude what you"
    " do not need in .gitignore, or index a directory further down"
)
_IGNORED_DIRS = frozenset(
    {"node_modules", "__pycache__", "site-packages", "dist-packages", "venv", "virtualenv"}
)


def walk(root: Path, hidden: Collection[str] = ()) -> Iterator[str | Skipped]:
    """Paths of regular files below `root`, relative, with forward slashes, sorted by name.

    Leaves out what git would: what a .gitignore names, here, below, or above within the repository, unless
    it is tracked. Further hidden directories other than `hidden`, other worktrees, virtual environments,
    installed packages and symbolic links. A directory or .gitignore that cannot be read is a `Skipped`, and
    so is all that follows `MAX_ENTRIES` files and directories.
    """
    resolved, repository = _repository_of(root)
    outer = list(_outer_ignores(resolved, repository))
    yield from _skipped(outer)
    tracked = _tracked(resolved, repository)

    # Directories on the stack end in a slash; files are there so that all come out in order. None of
    # what is below an ignored one is read unless it is tracked.
    pending: list[tuple[str, tuple[Ignore, ...] | None]] = [("", _ignores(outer))]
    entries_left = MAX_ENTRIES
    while pending:
        path, ignores = pending.pop()
        if path and not path.endswith("/"):
            yield path
            continue

        entries = _entries(root, path, entries_left)
        if isinstance(entries, Skipped):
            yield entries
            continue

        entries_left -= len(entries)
        if entries_left < 0:
            yield Skipped(path or ".", _TOO_MANY)
            return

        own = list(_own_ignore(path, entries)) if ignores is not None else []
        yield from _skipped(own)
        if ignores is not None:
            ignores += _ignores(own)

        for name in _readable_names(entries, hidden):
            if isinstance(name, Skipped):
                yield replace(name, path=path + name.path)
            elif ignores is not None and not is_ignored(path + name, name, ignores):
                pending.append((path + name, ignores))
            elif tracked.has(path + name):
                pending.append((path + name, None))


def _skipped(items: Iterable[Ignore | Skipped]) -> Iterator[Skipped]:
    return (item for item in items if isinstance(item, Skipped))


def _ignores(items: Iterable[Ignore | Skipped]) -> tuple[Ignore, ...]:
    return tuple(item for item in items if isinstance(item, Ignore))


def _entries(root: Path, path: str, limit: int) -> list[os.DirEntry[str]] | Skipped:
    """What a directory holds, last name first: all of it, or a few more than `limit`.

    Nothing for a virtual environment below the root.
    """
    try:
        with os.scandir(f"{root}/{path}") as listing:
            entries = list(islice(listing, limit + 1))
    except OSError as error:
        return Skipped(path or ".", f"the directory cannot be read: {error.strerror}")

    names = {entry.name for entry in entries} if path else ()
    if "pyvenv.cfg" in names:
        return []
    if ".git" in names and _is_linked_worktree(root / path / ".git"):
        reason = "another worktree of a git repository: index it on its own"
        return Skipped(path, reason, by_choice=True)

    entries.sort(key=_NAME, reverse=True)
    return entries


def _readable_names(
    entries: Iterable[os.DirEntry[str]], hidden: Collection[str]
) -> Iterator[str | Skipped]:
    """Names of the entries that are read, a directory's ending in a slash."""
    for entry in entries:
        name = entry.name
        if not is_text(name):
            yield Skipped(printable(name), _NOT_UTF8)
        elif entry.is_file(follow_symlinks=False):
            yield name
        elif _is_entered(name, hidden) and entry.is_dir(follow_symlinks=False):
            yield f"{name}/"


def _is_entered(name: str, hidden: Collection[str]) -> bool:
    return name in hidden or not (name.startswith(".") or name in _IGNORED_DIRS)


def _is_linked_worktree(git: Path) -> bool:
    """Whether this .git is a file that points to a repository with several worktrees."""
    content = read_bounded(git, ".git", 4096) if git.is_file() else None
    return isinstance(content, FileContent) and bool(_LINKED_WORKTREE.search(content.data))


def _repository_of(root: Path) -> tuple[Path, Path | None]:
    """The resolved `root`, and the repository that it is in, if it is in one."""
    resolved = root.resolve()
    above = [resolved, *resolved.parents]
    return resolved, next((path for path in above if exists(path / ".git")), None)


def _tracked(root: Path, repository: Path | None) -> Tracked:
    """What the repository around `root`, which is resolved, tracks below it."""
    inner = root.relative_to(repository).parts if repository else ()
    return Tracked(repository, "".join(f"{part}/" for part in inner))


def _outer_ignores(root: Path, repository: Path | None) -> Iterator[Ignore | Skipped]:
    """What the repository around `root` excludes: its own list, then the .gitignore files above.

    `root` is resolved. A file that excludes `root` itself is not applied: somebody asked for that directory.
    """
    if repository is None:
        return

    above = [root, *root.parents]
    outer_directories = reversed(above[1 : above.index(repository) + 1])
    sources = [(repository, repository / ".git" / "info" / "exclude")]
    sources += [(path, path / ".gitignore") for path in outer_directories]

    for directory, file in sources:
        if not exists(file):
            continue
        parts = root.relative_to(directory).parts
        outside = "".join(f"{part}/" for part in parts)
        for item in _read_ignore(file, os.path.relpath(file, root), ""):
            if isinstance(item, Skipped):
                yield item
            elif not item.excludes_any(parts):
                yield replace(item, outside=outside)


def exists(path: Path) -> bool:
    """Return whether there is such a file or directory; False, too, if the system cannot say."""
    try:
        return path.exists()
    except OSError:
        return False


def _own_ignore(path: str, entries: Iterable[os.DirEntry[str]]) -> Iterator[Ignore | Skipped]:
    for entry in entries:
        if entry.name == ".gitignore" and entry.is_file(follow_symlinks=False):
            yield from _read_ignore(Path(entry.path), f"{path}.gitignore", path)


def _read_ignore(file: Path, name: str, base: str) -> Iterator[Ignore | Skipped]:
    content = read_bounded(file, name, MAX_IGNORE_BYTES)
    if isinstance(content, Skipped):
        yield content
    else:
        yield from parse_ignore(content.data, name, base)


def files_below(
    root: Path,
    accepts_file: Callable[[str], bool],
    enters_dir: Callable[[str], bool] = lambda _name: True,
) -> Iterator[Path | Skipped]:
    """Files below `root` in no order; `accepts_file` and `enters_dir` choose by name.

    Links to files count as files, links to directories are not followed. A file or directory that
    cannot be read, or whose name is not UTF-8, is a `Skipped`.
    """
    errors: list[OSError] = []
    for directory, dir_names, file_names in os.walk(root, onerror=errors.append):
        dir_names[:] = filter(enters_dir, dir_names)
        unreadable_dirs = [name for name in dir_names if not is_text(name)]

        for name in (*unreadable_dirs, *filter(accepts_file, file_names)):
            file = _regular_file(Path(directory, name), root)
            if file is not None:
                yield file

        # os.walk descends into what is left in this list.
        dir_names[:] = filter(is_text, dir_names)

    for error in errors:
        yield Skipped(
            _relative(Path(error.filename), root), f"the directory cannot be read: {error.strerror}"
        )


def _regular_file(path: Path, root: Path) -> Path | Skipped | None:
    """The path if it is a file, None if it is anything else."""
    if not is_text(path.name):
        return Skipped(_relative(path, root), _NOT_UTF8)
    try:
        return path if path.is_file() else None
    except OSError as error:
        return Skipped(_relative(path, root), f"cannot be read: {error.strerror}")


def _relative(path: Path, root: Path) -> str:
    return printable(path.relative_to(root).as_posix())


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file's bytes; `stamp` is None if the file changed too recently for its time to tell."""

    data: bytes
    stamp: Stamp | None


def read_bounded(
    path: Path | str, name: str, limit: int = MAX_FILE_BYTES, *, cut: bool = False
) -> FileContent | Skipped:
    """The file's content, or a `Skipped` of this name if it is unreadable or over `limit` bytes.

    With `cut`, only so many bytes are read of a longer file.
    """
    try:
        # A named pipe may have taken the file's place since the walk; opening it must not wait.
        descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return Skipped(name, "not a regular file")
            now = time.time_ns()
            # A buffer for the whole limit would take longer than the reading.
            data = stream.read(min(limit, status.st_size) + (not cut))
            if len(data) > status.st_size:
                data += stream.read(limit + 1 - len(data))
    except OSError as error:
        return Skipped(name, f"cannot be read: {error.strerror}")

    if len(data) > limit:
        return Skipped(name, f"larger than {limit / 2**20:.3g} MiB")

    stamp = _stamp(status)
    return FileContent(data, stamp if stamp[1] < now - RACY_NS else None)


def file_stamp(path: Path | str) -> Stamp | None:
    """The stamp of a file as it is now; None if it cannot be told."""
    try:
        return _stamp(os.stat(path))  # noqa: PTH116 (a Path per file is slow)
    except OSError:
        return None


def unchanged(
    items: Iterator[Document | Skipped], path: Path, name: str, before: Stamp | None
) -> Iterator[Document | Skipped]:
    """Yield the items of a file; then a `Skipped` if it has another stamp than `before`."""
    yield from items
    if file_stamp(path) not in (before, None):
        reason = "changed while it was being read; build again to include the changes"
        yield Skipped(name, reason, passing=True)


def _stamp(status: os.stat_result) -> Stamp:
    # Unlike the time of the last write, that of the inode also moves where tools keep old times.
    return status.st_size, max(status.st_mtime_ns, status.st_ctime_ns)


def is_transient(error: Exception) -> bool:
    """Whether reading the file again may succeed: the system failed, not the file's content."""
    # Errors of the system come with a number; a broken gzip or table raises an OSError without one.
    return isinstance(error, OSError) and error.errno is not None
