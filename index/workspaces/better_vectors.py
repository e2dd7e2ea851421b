"""The index of a directory with the best vectors that are ready.

A first search must not wait for minutes, so a directory is indexed with the static encoder's
vectors. Where transformers can run, a process of low priority then makes an index with better
vectors (`purlin cache build`), and searches use that one as long as it is up to date. They index a
few changed files in it themselves; after a change of many files they go back to the static vectors,
until the process has followed.

    CACHE/home/workspaces/NAME/started     its time is when the process was last started

PURLIN_BACKGROUND=off starts no process.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from purlin.index import builds, cache
from purlin.index.encoder import ENCODERS, default_encoder
from purlin.index.errors import NotFound
from purlin.index.pace import Progress
from purlin.index.records import Kind
from purlin.index.search.corpus import Corpus
from purlin.index.workspaces.workspace import (
    Workspace,
    find_directory,
    new_workspace,
    open_workspace,
    variant_of,
    workspace_name,
)

# Changes that a search indexes itself, in about a second: a process would take longer to start.
MAX_FILES_IN_SEARCH, MAX_NEW_BYTES_IN_SEARCH = 5, 65_536
# A directory with more passages keeps its static vectors: the process would take a quarter of an hour or more.
MAX_PASSAGES = 50_000
# The process is started again if it has not done its work by then.
RETRY_S = 600.0
_STARTED = "started"


def better_encoder(kind: Kind) -> str | None:
    """Return the word in `ENCODERS` for the encoder of better vectors; None if it cannot run here."""
    directory = default_encoder(kind)
    words = [word for word, each in ENCODERS.items() if each == directory]
    return words[0] if words and words[0] != "static" else None


class BestWorkspace:
    """The open index of a directory with the best vectors; safe to share between threads.

    It can be refreshed and searched as a `Workspace`, and has its `root`, `corpus` and `notes`. As a
    context manager it gives the workspace to search, and closes all at the end.
    """

    def __init__(self, root: Path, kind: Kind, directory: Path) -> None:
        self.root = root
        self._kind: Kind = kind
        self._cache_directory = directory
        self._encoder_word = better_encoder(kind)

        self._static: Workspace | None = None
        self._better: Workspace | None = None
        self._current: Workspace | None = None

        self._lock = threading.RLock()
        # Kept, so that it can be waited for when it has ended.
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """Release all files; a process that makes better vectors goes on."""
        with self._lock:
            for workspace in (self._static, self._better):
                if workspace is not None:
                    workspace.close()

    def __enter__(self) -> Workspace:
        return self.current

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def corpus(self) -> Corpus:
        """The open build; another one after a `refresh` that indexed or chose something."""
        return self.current.corpus

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the last refresh, see `Workspace`."""
        return self.current.notes

    @property
    def is_behind(self) -> bool:
        """Whether the open build may lack what has changed, see `Workspace`."""
        return self.current.is_behind

    @property
    def current(self) -> Workspace:
        """The workspace that the last `refresh` chose."""
        if self._current is None:
            raise NotFound(f"Nothing of {self.root} is indexed yet; refresh first.")
        return self._current

    @contextlib.contextmanager
    def last_build(self) -> Iterator[Corpus | None]:
        """Keep a build open while another thread refreshes; None without one.

        The one that was chosen last comes first, then any that is open.
        """
        workspace = self._open_workspace()
        if workspace is None:
            yield None
            return
        with workspace.last_build() as corpus:
            yield corpus

    @property
    def is_open(self) -> bool:
        """Whether there is a `last_build`."""
        return self._open_workspace() is not None

    def _open_workspace(self) -> Workspace | None:
        """The first workspace that has a build open: the one chosen last comes first."""
        workspaces = (self._current, self._better, self._static)
        return next((each for each in workspaces if each is not None and each.is_open), None)

    def refresh(self, progress: Progress | None = None) -> None:
        """Open the index with better vectors if it is as the files are now, else the static one.

        Raises what `Workspace.refresh` raises.
        """
        with self._lock:
            current = self._caught_up()
            if current is None:
                current = self._refreshed(progress)
                self._start_process(current)
            self._current = current

    def _caught_up(self) -> Workspace | None:
        """The workspace with better vectors, if there is one, and it is up to date."""
        if self._encoder_word is None:
            return None

        if self._better is None:
            # Looked up first, since loading an encoder takes a quarter of a second.
            name = workspace_name(self.root, variant_of(self._kind, self._encoder_word))
            if not builds.exists(cache.home_of(self._cache_directory), name):
                return None

            self._better = new_workspace(
                self.root, self._kind, self._encoder_word, self._cache_directory
            )

        is_current = self._better.catch_up(MAX_FILES_IN_SEARCH, MAX_NEW_BYTES_IN_SEARCH)
        return self._better if is_current else None

    def _refreshed(self, progress: Progress | None) -> Workspace:
        """The workspace with static vectors, of the files as they are now."""
        if self._static is None:
            self._static = new_workspace(self.root, self._kind, "static", self._cache_directory)
        self._static.refresh(progress)
        return self._static

    def _start_process(self, static: Workspace) -> None:
        """Start the process that makes better vectors, unless it was started a while ago."""
        if self._encoder_word is None or os.environ.get("PURLIN_BACKGROUND") == "off":
            return
        if static.corpus.manifest.passages > MAX_PASSAGES:
            return

        started = _started_file(self.root, self._kind, self._cache_directory)
        with contextlib.suppress(OSError):
            # A time in the future counts as a while ago: the clock was set back since.
            if started.is_file() and abs(time.time() - started.stat().st_mtime) < RETRY_S:
                return
            started.touch()
            self._process = _spawn(self.root, self._kind, self._cache_directory)
            static.notes += (
                "a process of low priority makes better vectors of it, which later searches use; "
                "--encoder static and PURLIN_BACKGROUND=off do without",
            )


def workspace_of(root: Path, kind: Kind, encoder: str | None) -> Workspace | BestWorkspace:
    """Return the index of a directory, with the vectors of an encoder if one is named.

    The first refresh opens it.
    """
    directory = cache.cache_directory()
    if encoder is None:
        return BestWorkspace(root, kind, directory)
    return new_workspace(root, kind, encoder, directory)


def open_directory(
    path: Path | str = ".",
    *,
    kind: Kind = "code",
    encoder: str | None = None,
    progress: Progress | None = None,
) -> Workspace | BestWorkspace:
    """Open and refresh the index of the repository around a directory, with the best vectors that are ready.

    If an `encoder` is named, the index has its vectors. `open_workspace` describes the arguments and
    what is raised.
    """
    if encoder is not None:
        return open_workspace(path, kind=kind, encoder=encoder, progress=progress)

    directory = cache.cache_directory()
    root, notes = find_directory(path, directory)
    best = BestWorkspace(root, kind, directory)
    try:
        best.refresh(progress)
    except BaseException:
        best.close()
        raise
    best.current.notes = notes + best.notes
    return best


def build_better(
    path: Path | str, kind: Kind, *, progress: Progress | None = None
) -> Workspace | None:
    """Make the index with better vectors now; None if its encoder cannot run here.

    Raises what `open_workspace` raises.
    """
    encoder = better_encoder(kind)
    if encoder is None:
        return None
    workspace = open_workspace(path, kind=kind, encoder=encoder, progress=progress)
    with contextlib.suppress(OSError):
        _started_file(workspace.root, kind, cache.cache_directory()).unlink()
    return workspace


def _started_file(root: Path, kind: Kind, directory: Path) -> Path:
    """The file whose time tells when the process was last started, beside the static index."""
    name = workspace_name(root, variant_of(kind, "static"))
    return cache.state_directory(cache.home_of(directory), name) / _STARTED


def _spawn(root: Path, kind: Kind, directory: Path) -> subprocess.Popen[bytes]:
    """Start `purlin cache build` for a directory. Raises OSError."""
    command = [sys.executable, "-P", "-m", "purlin", "cache", "build", "--background", str(root)]
    return subprocess.Popen(
        [*command, *(["--docs"] if kind == "reference" else [])],
        # Not the repository, whose modules must not be imported.
        cwd=directory,
        env={**os.environ, "PURLIN_CACHE": str(directory.absolute())},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C is meant for the search. A session of its own would have a processor's share of its
        # own, whatever its priority.
        process_group=0 if hasattr(os, "setpgid") else None,
    )
