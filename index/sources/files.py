"""Walk a directory for its source files (.gitignore counts), and tell the role that each plays."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from index.records import Skipped, Stamp, is_text

MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_IGNORE_BYTES = 1024 * 1024
MAX_IGNORE_LINE = 500

# A file that changed this recently may change again within the same tick of the clock.
RACY_NS = 2_000_000_000

# Each further wildcard multiplies the time to match a long file name by its length.
MAX_IGNORE_STARS = 4

# Windows has no such flag, and no named pipes among its files.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_NOT_UTF8 = "the file name is not UTF-8"
_IGNORED_DIRS = frozenset(
    {"node_modules", "__pycache__", "site-packages", "dist-packages", "venv", "virtualenv"}
)


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One .gitignore; `base` is its directory relative to the root: empty or ending in a slash."""

    base: str
    spec: GitIgnoreSpec


def walk(root: Path) -> Iterator[str | Skipped]:
    """Paths of regular files below `root`, relative, with forward slashes, sorted by name.

    Leaves out what a .gitignore excludes, hidden directories, virtual environments, installed
    packages and symbolic links. A directory or .gitignore that cannot be read is a `Skipped`.
    """
    # Directories on the stack end in a slash; files are there so that all come out in order.
    pending: list[tuple[str, tuple[_Ignore, ...]]] = [("", ())]
    while pending:
        path, ignores = pending.pop()
        if not path.endswith("/") and path:
            yield path
            continue

        try:
            entries = sorted(os.scandir(root / path), key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            yield Skipped(path or ".", f"the directory cannot be read: {error.strerror}")
            continue

        has_ignore = any(
            entry.name == ".gitignore" and entry.is_file(follow_symlinks=False) for entry in entries
        )
        ignore_results = list(_read_ignore(root, path)) if has_ignore else []
        yield from (result for result in ignore_results if isinstance(result, Skipped))
        ignores += tuple(result for result in ignore_results if isinstance(result, _Ignore))

        for entry in entries:
            if not is_text(entry.name):
                yield Skipped(path + _printable(entry.name), _NOT_UTF8)
            elif (child := _child(entry, path)) and not _is_ignored(child, ignores):
                pending.append((child, ignores))


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
            _relative(Path(error.filename), root),
            f"the directory cannot be read: {error.strerror}",
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
    return _printable(path.relative_to(root).as_posix())


def _printable(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")


def _child(entry: os.DirEntry[str], parent: str) -> str | None:
    """The relative path, a directory's ending in a slash; None for what is never read."""
    if entry.is_file(follow_symlinks=False):
        return parent + entry.name
    if not entry.is_dir(follow_symlinks=False):
        return None

    if entry.name.startswith(".") or entry.name in _IGNORED_DIRS:
        return None
    if os.path.lexists(os.path.join(entry.path, "pyvenv.cfg")):  # noqa: PTH118 (a Path per directory is slow)
        return None

    return f"{parent}{entry.name}/"


def _read_ignore(root: Path, base: str) -> Iterator[_Ignore | Skipped]:
    """Parse the directory's .gitignore; a pattern that is not applied is a `Skipped`."""
    name = f"{base}.gitignore"
    content = read_bounded(root / name, name, MAX_IGNORE_BYTES)

    if isinstance(content, Skipped):
        yield content
        return

    patterns = []
    for number, line in enumerate(content.data.decode(errors="replace").splitlines(), start=1):
        try:
            patterns.append(_pattern(line))
        except ValueError as error:
            yield Skipped(name, f"this pattern is not applied: {error}", number)

    yield _Ignore(base, GitIgnoreSpec(patterns))


def _pattern(line: str) -> GitIgnoreSpecPattern:
    """Raises ValueError for a pattern that is invalid or could take very long to match."""
    if len(line) > MAX_IGNORE_LINE:
        raise ValueError(f"longer than {MAX_IGNORE_LINE} characters")
    if not line.startswith("#") and len(re.findall(r"\*+", line)) > MAX_IGNORE_STARS:
        raise ValueError(f"more than {MAX_IGNORE_STARS} wildcards")
    return GitIgnoreSpecPattern(line)


def _is_ignored(path: str, ignores: tuple[_Ignore, ...]) -> bool:
    """Whether the innermost .gitignore with a pattern for the path excludes it."""
    for ignore in reversed(ignores):
        verdict = ignore.spec.check_file(path.removeprefix(ignore.base)).include
        if verdict is not None:
            return verdict
    return False


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes; `stamp` is None if the file changed too recently for its time to tell."""

    data: bytes
    stamp: Stamp | None


def read_bounded(path: Path, name: str, limit: int = MAX_FILE_BYTES) -> Content | Skipped:
    """The file's content, or a `Skipped` of this name if it is unreadable or over `limit` bytes."""
    try:
        # A named pipe may have taken the file's place since the walk; opening it must not wait.
        descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return Skipped(name, "not a regular file")
            now = time.time_ns()
            data = stream.read(limit + 1)
    except OSError as error:
        return Skipped(name, f"cannot be read: {error.strerror}")

    if len(data) > limit:
        return Skipped(name, f"larger than {limit / 2**20:.3g} MiB")

    stamp = _stamp(status)
    return Content(data, stamp if stamp[1] < now - RACY_NS else None)


def file_stamp(path: Path) -> Stamp | None:
    """The stamp of a file as it is now; None if it cannot be told."""
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def _stamp(status: os.stat_result) -> Stamp:
    # Unlike the time of the last write, that of the inode also moves where tools keep old times.
    return status.st_size, max(status.st_mtime_ns, status.st_ctime_ns)


def is_transient(error: Exception) -> bool:
    """Whether reading the file again may succeed: the system failed, not the file's content."""
    # Errors of the system come with a number; a broken gzip or table raises an OSError without one.
    return isinstance(error, OSError) and error.errno is not None


_VENDORED = re.compile(
    r"(^|/)(_?vendor(s|ed)?|third[_-]?party|3rd[_-]?party|bower_components|jspm_packages|godeps|_workspace)/"
    r"|(^|/)dist/.*\.[cm]?jsx?$|[.-](bundle|umd)(\.min)?\.[cm]?js$",
    re.IGNORECASE,
)
_MINIFIED = re.compile(r"[.-]min\.[cm]?js$", re.IGNORECASE)
_GENERATED = re.compile(
    r"_pb2(_grpc)?\.pyi?$|\.pb(\.gw)?\.go$|(^|/)zz_generated[^/]*$|[._](g|gen|generated)\.\w+$|_pb\.(js|ts|rb)$"
)
_TEST = re.compile(
    r"(^|/)(\w*_)?(tests?|specs?|testing|testdata|__tests__|__mocks__|e2e)/"
    r"|(^|/)(test_[^/]*|[^/]*_tests?|tests?|conftest)\.py$|_test\.go$|[._-](test|spec)s?\.[cm]?[jt]sx?$"
    r"|(^|/)(Test[A-Z]\w*|\w*(Tests?|TestCase|IT))\.java$|Test(Case)?\.php$|(^|/)(test_[^/]*|[^/]*_(test|spec))\.rb$"
)
_ROLES = {"vendored": _VENDORED, "minified": _MINIFIED, "generated": _GENERATED}
_GENERATED_HEADER = re.compile(
    rb"^[ \t]*(?:#|//|/\*|\*|<!--|\"\"\").{0,200}?(?:code generated .{0,200}do not edit|@generated\b"
    rb"|auto-?generated (?:by|from|file|code|do not)|(?:is|was) (?:auto-?|automatically )generated"
    rb"|generated .{0,200}do not (?:edit|modify))",
    re.IGNORECASE | re.MULTILINE,
)

# Generated code says so in its first lines. Minified code has very long ones on average.
_HEADER_LINES, _HEADER_BYTES = 20, 4096
_MINIFIED_LINE, _MINIFIED_BYTES = 250, 2048


def role(path: str, content: bytes) -> str:
    """The role of a file, from its relative path and its content.

    One of `source`, `test`, `vendored`, `generated`, `minified`. Where several fit, vendored wins
    over all others and test over none.
    """
    for name, pattern in _ROLES.items():
        if pattern.search(path):
            return name

    return _role_by_content(content) or ("test" if _TEST.search(path) else "source")


def _role_by_content(content: bytes) -> str | None:
    mean_line = len(content) / (content.count(b"\n") + 1)
    if len(content) >= _MINIFIED_BYTES and mean_line > _MINIFIED_LINE:
        return "minified"

    header = b"\n".join(content[:_HEADER_BYTES].split(b"\n")[:_HEADER_LINES])
    return "generated" if _GENERATED_HEADER.search(header) else None
