"""Repositories on disk: where one begins, which worktrees belong together, and clones of a URL.

Nothing but `clone` runs git: a search must not depend on it, nor wait for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from purlin.index.errors import Busy, InvalidInput, NotFound
from purlin.index.storage import TEMPORARY, exclusive

# A clone or fetch that takes longer is given up.
CLONE_SECONDS = 180.0
# A clone that was fetched more recently is searched as it is.
FETCH_AGE_S = 3600.0
_SCHEMES = ("https", "ssh", "git", "file")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# No questions, no hooks, no helper programs of a URL's choosing.
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never")
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    "GIT_LFS_SKIP_SMUDGE": "1",
}


def find_root(path: Path) -> Path:
    """Directory of the repository around `path`: the nearest with a `.git`, else `path` itself.

    A `.git` of the whole home directory, or of the file system's root, does not count for what is
    below. Raises NotFound, and InvalidInput for a file and for these two directories.
    """
    try:
        directory = path.expanduser().resolve()
    except FileNotFoundError:
        raise NotFound("The working directory was removed; change to another one.") from None
    if not directory.exists():
        raise NotFound(f"There is no directory {str(path)!r}.", field="path")
    if not directory.is_dir():
        raise InvalidInput(
            f"{str(path)!r} is a file; give the directory that it is in.", field="path"
        )

    too_large = {Path(directory.anchor), Path.home().resolve()}
    if directory in too_large:
        raise InvalidInput(
            f"{directory} is a whole home directory or file system, not a repository; "
            "change to a directory in it, or give one with --path.",
            field="path",
        )
    for parent in (directory, *directory.parents):
        if parent not in too_large and os.path.lexists(parent / ".git"):
            return parent
    return directory


def common_directory(root: Path) -> Path | None:
    """Git directory that all worktrees of a repository share, or None outside of git."""
    git = root / ".git"

    try:
        if git.is_dir():
            return git.resolve()

        pointer = git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        own = root / pointer
        return (own / (own / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except (OSError, ValueError):
        return None


def is_url(path: str) -> bool:
    """Whether `path` is a URL, or git's short form HOST:PATH, and no directory."""
    return bool(_URL.match(path) or re.match(r"[\w.-]+@[\w.-]+:", path)) and not Path(path).exists()


def clone(url: str, directory: Path) -> tuple[Path, str | None]:
    """Clone a repository's newest commit below `directory`, or fetch it if the clone is old.

    Returns the clone, and a warning if it could not be fetched again and may be old. Raises
    InvalidInput for a URL of another scheme, and NotFound if git or the repository is missing.
    """
    shown = _checked(url)
    if shutil.which("git") is None:
        raise NotFound(f"git is needed to clone {shown}; install it, or give a directory.")

    name = re.sub(r"[^\w.-]", "-", urlsplit(url).path.rstrip("/").rpartition("/")[2])
    name = name.removesuffix(".git").lstrip(".-")[:40]
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"{name or 'clone'}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"

    if not target.is_dir():
        _clone(url, shown, target)
    # A time in the future counts as old, too: the clock was set back since.
    elif abs(time.time() - _fetched(target)) > FETCH_AGE_S:
        return target, _fetch(shown, target)
    return target, None


def _checked(url: str) -> str:
    """The URL without user name and password, for messages."""
    parts = urlsplit(url)
    host_needed = parts.scheme != "file"
    if parts.scheme not in _SCHEMES or (host_needed and not parts.hostname):
        raise InvalidInput(
            f"{url[:80]!r} cannot be cloned; give a URL that begins with "
            f"{', '.join(f'{scheme}://' for scheme in _SCHEMES)}, or a directory.",
            field="path",
        )

    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _clone(url: str, shown: str, target: Path) -> None:
    staging = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=target.parent))

    try:
        repository = staging / "clone"
        _git("clone", "--quiet", "--depth", "1", "--", url, str(repository), shown=shown)

        # Another process may have cloned it meanwhile; one clone is as good as the other.
        with contextlib.suppress(FileExistsError, OSError):
            repository.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fetch(shown: str, target: Path) -> str | None:
    """Fetch a clone again; returns a warning if that failed, or another process does it."""
    # Another process that fetches moves this time before it is done.
    before = _fetched(target)

    try:
        with exclusive(target, f"{shown} is being fetched by another process."):
            _update(shown, target, before)
    except (Busy, NotFound) as error:
        age = abs(time.time() - before) / 3600
        return f"{error.message} This searches the clone of {age:.0f} hours ago."

    return None


def _update(shown: str, target: Path, before: float) -> None:
    """Bring a clone to the newest commit; if that fails, its last fetch stays that of `before`."""
    try:
        _git("-C", str(target), "fetch", "--quiet", "--depth", "1", "origin", "HEAD", shown=shown)
        _git("-C", str(target), "reset", "--quiet", "--hard", "FETCH_HEAD", shown=shown)
    except BaseException:
        # git empties the file before it asks the remote, which would make the clone look new.
        with contextlib.suppress(OSError):
            os.utime(target / ".git" / "FETCH_HEAD", (before, before))
        raise


def _fetched(target: Path) -> float:
    """Time of the last fetch, else of the clone, in seconds of the clock."""
    git = target / ".git"
    for file in (git / "FETCH_HEAD", git / "HEAD"):
        with contextlib.suppress(OSError):
            return file.stat().st_mtime
    return 0.0


def _git(*arguments: str, shown: str) -> None:
    try:
        subprocess.run(
            [*_GIT, *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CLONE_SECONDS,
            env=os.environ | _ENVIRONMENT,
        )
    except subprocess.TimeoutExpired:
        raise NotFound(
            f"{shown} was not cloned within {CLONE_SECONDS:.0f} s; clone it yourself, and search there."
        ) from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        reason = next((line for line in lines if line.startswith("fatal:")), "git failed")
        raise NotFound(
            f"{shown} could not be cloned ({reason.removeprefix('fatal:').strip()[:200]}). "
            "Check the URL and the network."
        ) from None
