"""Which files of a directory are source code, and what part each plays: the walk, .gitignore, and roles."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from index.records import Skipped, is_text

MAX_BYTES = 2 * 1024 * 1024
MAX_IGNORE_BYTES = 1024 * 1024
MAX_IGNORE_LINE = 500
MAX_IGNORE_STARS = (
    4  # each further one multiplies the matching time of a long file name by its length
)

_NOT_UTF8 = "the file name is not UTF-8"
_NEVER = frozenset(
    {"node_modules", "__pycache__", "site-packages", "dist-packages", "venv", "virtualenv"}
)


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One .gitignore; `base` is its directory relative to the root, with a slash at its end or empty."""

    base: str
    spec: GitIgnoreSpec


def walk(root: Path) -> Iterator[str | Skipped]:
    """Paths of regular files below `root`, relative with forward slashes, each directory sorted by name.

    Left out: what a .gitignore excludes, hidden directories, virtual environments, installed packages, symbolic
    links. A directory or .gitignore that cannot be read is a `Skipped`.
    """
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
        found = list(_read_ignore(root, path)) if has_ignore else []
        yield from (problem for problem in found if isinstance(problem, Skipped))
        ignores += tuple(ignore for ignore in found if isinstance(ignore, _Ignore))
        for entry in entries:
            if not is_text(entry.name):
                yield Skipped(path + _shown(entry.name), _NOT_UTF8)
            elif (child := _child(entry, path)) and not _is_ignored(child, ignores):
                pending.append((child, ignores))


def below(
    root: Path, wanted: Callable[[str], bool], entered: Callable[[str], bool] = lambda _name: True
) -> Iterator[Path | Skipped]:
    """Files below `root` whose names are `wanted`, in directories whose names are `entered`, in no order.

    Links to files are files, links to directories are not entered. What cannot be looked at, or has a name that is
    not UTF-8, is a `Skipped`.
    """
    problems: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=problems.append):
        folders[:] = filter(entered, folders)
        odd = [name for name in folders if not is_text(name)]
        looked_at = (_file(Path(folder, name), root) for name in (*odd, *filter(wanted, names)))
        yield from (found for found in looked_at if found is not None)
        folders[:] = filter(is_text, folders)
    for problem in problems:
        yield Skipped(
            _relative(Path(problem.filename), root),
            f"the directory cannot be read: {problem.strerror}",
        )


def _file(path: Path, root: Path) -> Path | Skipped | None:
    """The path of a file, None for anything else."""
    if not is_text(path.name):
        return Skipped(_relative(path, root), _NOT_UTF8)
    try:
        return path if path.is_file() else None
    except OSError as error:
        return Skipped(_relative(path, root), f"cannot be read: {error.strerror}")


def _relative(path: Path, root: Path) -> str:
    return _shown(path.relative_to(root).as_posix())


def _shown(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")


def _child(entry: os.DirEntry[str], parent: str) -> str | None:
    """The entry's relative path, with a slash at the end of a directory's; None for what is never read."""
    if entry.is_file(follow_symlinks=False):
        return parent + entry.name
    if (
        not entry.is_dir(follow_symlinks=False)
        or entry.name.startswith(".")
        or entry.name in _NEVER
    ):
        return None
    if os.path.lexists(os.path.join(entry.path, "pyvenv.cfg")):  # noqa: PTH118 (a Path per directory is slow)
        return None
    return f"{parent}{entry.name}/"


def _read_ignore(root: Path, base: str) -> Iterator[_Ignore | Skipped]:
    """The directory's .gitignore, and each of its lines that is not applied."""
    name = f"{base}.gitignore"
    content = read_bounded(root / name, name, MAX_IGNORE_BYTES)
    if isinstance(content, Skipped):
        yield content
        return
    patterns = []
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        try:
            patterns.append(_pattern(line))
        except ValueError as error:
            yield Skipped(name, f"this pattern is not applied: {error}", number)
    yield _Ignore(base, GitIgnoreSpec(patterns))


def _pattern(line: str) -> GitIgnoreSpecPattern:
    """Raises ValueError for a pattern that is invalid, or could take very long to match."""
    if len(line) > MAX_IGNORE_LINE:
        raise ValueError(f"longer than {MAX_IGNORE_LINE} characters")
    if not line.startswith("#") and len(re.findall(r"\*+", line)) > MAX_IGNORE_STARS:
        raise ValueError(f"more than {MAX_IGNORE_STARS} wildcards")
    return GitIgnoreSpecPattern(line)


def _is_ignored(path: str, ignores: tuple[_Ignore, ...]) -> bool:
    """The innermost .gitignore that has a pattern for the path decides."""
    for ignore in reversed(ignores):
        verdict = ignore.spec.check_file(path.removeprefix(ignore.base)).include
        if verdict is not None:
            return verdict
    return False


def read_bounded(path: Path, name: str, limit: int = MAX_BYTES) -> bytes | Skipped:
    """The file's content, or under `name` why it was not read: over `limit` bytes, gone, no permission."""
    try:
        with path.open("rb") as stream:
            content = stream.read(limit + 1)
    except OSError as error:
        return Skipped(name, f"cannot be read: {error.strerror}")
    if len(content) > limit:
        return Skipped(name, f"larger than {limit / 2**20:.3g} MiB")
    return content


def passes(error: Exception) -> bool:
    """Whether reading the same file again may go better: the system failed, not what the file holds."""
    return (
        isinstance(error, OSError) and error.errno is not None
    )  # a broken gzip or table comes without a number


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
_HEADER_LINES, _HEADER_BYTES = 20, 4096
_MINIFIED_LINE, _MINIFIED_BYTES = 250, 2048


def role(path: str, content: bytes) -> str:
    """What part a file plays, from its relative path and its content.

    One of `source`, `test`, `vendored`, `generated`, `minified`; where several fit, vendored comes first, test last.
    """
    for name, pattern in _ROLES.items():
        if pattern.search(path):
            return name
    return _role_by_content(content) or ("test" if _TEST.search(path) else "source")


def _role_by_content(content: bytes) -> str | None:
    if (
        len(content) >= _MINIFIED_BYTES
        and len(content) / (content.count(b"\n") + 1) > _MINIFIED_LINE
    ):
        return "minified"
    header = b"\n".join(content[:_HEADER_BYTES].split(b"\n")[:_HEADER_LINES])
    return "generated" if _GENERATED_HEADER.search(header) else None
