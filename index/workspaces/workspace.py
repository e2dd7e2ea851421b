"""Search of a directory without setting anything up: its index is kept in the user's cache.

`open_workspace` finds the repository around a directory and reads what is indexed of it;
`refresh` compares the files with that, and indexes what changed. A worktree that is searched for
the first time starts from the index of another worktree of its repository.

    CACHE/home/corpora/NAME/           builds, see `purlin.index.builds`
    CACHE/home/workspaces/NAME/        origin.json: what was indexed; the lock

NAME is the directory's name and the start of a hash of its path, then `-docs` for documentation, and
the encoder if it is not the static one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from purlin.index import builds, cache, versions
from purlin.index.encoder import ENCODERS, TextEncoder, encoder_directory, load_encoder
from purlin.index.errors import Busy, InvalidInput, NotFound, PurlinError, StorageFailed
from purlin.index.file_filters import content_filter, with_language_names
from purlin.index.pace import Progress
from purlin.index.records import Content, Kind, Mode, Skipped, SourceFile
from purlin.index.search.contracts import PassageReranker
from purlin.index.search.corpus import Corpus, SearchResult
from purlin.index.search.store.filters import Condition, Filter, beginning_with
from purlin.index.search.store.listing import Listing
from purlin.index.sources import open_source
from purlin.index.storage import atomic_write, exclusive, storage_errors
from purlin.index.workspaces import repositories
from purlin.index.workspaces.changes import Changes, unread_note

# Source files; a directory with more is not one repository.
MAX_FILES = 100_000
# How long another process's indexing is waited for: without an earlier build, and with one.
FIRST_WAIT_S, WAIT_S = 120.0, 2.0
_POLL_S = 0.1
# What the names of indexes of a kind end in.
_VARIANTS: dict[Kind, str] = {"code": "", "reference": "-docs", "product": "-products"}


@dataclass(frozen=True, slots=True)
class _Origin:
    """What an index was made of, so that other worktrees of a repository find it.

    `root` is the directory, `git` the common directory of the repository's worktrees, `variant`
    tells what is indexed and by which encoder.
    """

    root: str
    git: str | None
    variant: str

    @classmethod
    def read(cls, state: Path) -> _Origin | None:
        """Read the origin of a workspace; None if there is nothing usable."""
        try:
            return cls(**json.loads((state / cache.ORIGIN_FILE).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, state: Path) -> None:
        """Replace the origin of a workspace. Raises StorageFailed."""
        with storage_errors(), atomic_write(state / cache.ORIGIN_FILE) as file:
            file.write(json.dumps(asdict(self)).encode())


class Workspace:
    """The open index of a directory; safe to share between threads, which take turns.

    `root` is the directory, `corpus` its open build. `notes` say what a user should know: what the
    last refresh indexed, and whether the answers may be old.
    """

    def __init__(
        self, root: Path, kind: Kind, encoder: TextEncoder, variant: str, directory: Path
    ) -> None:
        """Make one for the vectors of `encoder`; `variant` is what its name ends in."""
        self.root = root
        self.kind: Kind = kind
        self.notes: tuple[str, ...] = ()
        # Whether the open build may lack what has changed: another process was indexing it.
        self.is_behind = False
        self._encoder = encoder
        self._variant = variant
        self._corpus: Corpus | None = None
        self._lock = threading.RLock()
        # Held while the open build is used without the lock above, or another takes its place.
        self._in_use = threading.Lock()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._temporary_note: tuple[str, ...] = ()

        self._cache = self._writable(directory)
        self._home = cache.home_of(self._cache)
        self._name = workspace_name(root, variant)
        self._state = cache.state_directory(self._home, self._name)

    def _writable(self, directory: Path) -> Path:
        """The cache directory, or a temporary one if it cannot be written to."""
        try:
            cache.create(directory)
        except OSError as error:
            self._temporary = tempfile.TemporaryDirectory(prefix="purlin-")
            self._temporary_note = (
                f"the cache {directory} cannot be written to ({error.strerror or error}), so this "
                "index is not kept; set PURLIN_CACHE to another directory",
            )
            return Path(self._temporary.name)

        return directory

    def close(self) -> None:
        """Release all files; later searches fail."""
        with self._lock:
            self._replace(None)
            if self._temporary is not None:
                self._temporary.cleanup()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- reading

    @property
    def corpus(self) -> Corpus:
        """The open build; another one after a `refresh` that indexed something."""
        if self._corpus is None:
            raise NotFound(f"Nothing of {self.root} is indexed yet; refresh first.")
        return self._corpus

    @property
    def is_open(self) -> bool:
        """Whether a build is open, be it one that does not have all files as they are now."""
        return self._corpus is not None

    @contextlib.contextmanager
    def last_build(self) -> Iterator[Corpus | None]:
        """Keep the build that was opened last open while another thread refreshes; None without one."""
        with self._in_use:
            yield self._corpus

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        offset: int = 0,
        content: Content = "code",
        filter: Filter | None = None,
        mode: Mode = "hybrid",
        explain: bool = False,
        reranker: PassageReranker | None = None,
    ) -> SearchResult:
        """Return hits of what the last refresh indexed, see `Corpus.search`."""
        with self._lock:
            conditions = content_filter(
                self.corpus.field_names, content, with_language_names(filter)
            )
            return self.corpus.search(
                query,
                k=k,
                offset=offset,
                mode=mode,
                filter=conditions,
                explain=explain,
                reranker=reranker,
            )

    # ---- refreshing

    def refresh(self, progress: Progress | None = None) -> bool:
        """Index what changed since the last time; returns whether another build is open now.

        Without changes, all it does is to list the files. While another process indexes the same
        directory, this waits for it; if that takes long, the build before is kept, and a note says
        so. Raises InvalidInput for a directory with nothing to index, or with too much, Busy if
        there is no build to answer from, and StorageFailed.
        """
        with self._lock, _cache_named():
            self.notes, self.is_behind = self._temporary_note, False
            before = self._corpus
            has_build = self._name in builds.corpora(self._home)
            deadline = time.monotonic() + (WAIT_S if has_build else FIRST_WAIT_S)

            while not self._update(progress, deadline):
                time.sleep(_POLL_S)

            self._mark_used()
            return self._corpus is not before

    def catch_up(self, most_files: int, most_new_bytes: int) -> bool:
        """Index new and changed files if they are few; returns whether the index is up to date.

        Few means at most `most_files`, and at most `most_new_bytes` in the new ones together; of a
        changed file, only what changed is encoded. Returns False if nothing is indexed yet, if
        more has changed, and while another process indexes the directory. Raises InvalidInput and
        StorageFailed as `refresh` does.
        """
        with self._lock, _cache_named():
            self.notes = self._temporary_note
            active, sources, changes = self._compare()
            if (
                changes is None
                or changes.changed > most_files
                or changes.new_bytes > most_new_bytes
            ):
                return False

            if changes:
                try:
                    if not self._build_alone(active, sources, None):
                        return False
                except Busy:
                    return False

            self._mark_used()
            return True

    def _mark_used(self) -> None:
        """Note the time: the cache drops first what was not used for the longest time."""
        with contextlib.suppress(OSError):
            os.utime(self._state)

    def _update(self, progress: Progress | None, deadline: float) -> bool:
        """Open a build of the files as they are now; returns False if another process makes it."""
        active, sources, changes = self._compare()
        if changes is not None and not changes:
            return True

        try:
            return self._build_alone(active, sources, progress)
        except Busy:
            if time.monotonic() < deadline:
                return False

            self._keep_last_build()

        return True

    def _compare(self) -> tuple[str | None, list[SourceFile | Skipped], Changes | None]:
        """Open the active build; returns its name, the files as they are now, and what has changed.

        That is None if the texts of all files have to be made again.
        """
        active = self._active()
        # A build that cannot be read, or of another version, is made again.
        with contextlib.suppress(PurlinError):
            self._open()
        indexed = self._corpus.listing if self._corpus is not None else Listing()
        sources = self._list(indexed)

        has_texts = self._corpus is not None and self._corpus.manifest.texts == versions.TEXTS
        changes = Changes.between(self.root, sources, indexed) if has_texts else None
        return active, sources, changes

    def _build_alone(
        self, active: str | None, sources: list[SourceFile | Skipped], progress: Progress | None
    ) -> bool:
        """Make a build unless another process has made one since `active`. Raises Busy."""
        busy = f"{self.root} is being indexed by another process."
        with exclusive(self._state, busy, create=True):
            if self._active() != active:
                return False
            self._build(sources, progress)
        return True

    def _active(self) -> str | None:
        """Name of the active build, whether it can be read or not."""
        with contextlib.suppress(PurlinError):
            return builds.current(self._home, self._name).name
        return None

    def _list(self, indexed: Listing) -> list[SourceFile | Skipped]:
        """List the files of the directory; those with the stamps of `indexed` are not opened."""
        files = open_source(self.kind, [self.root], content="all", digests=indexed.digests())
        sources = list(islice(files, MAX_FILES + 1))
        if len(sources) > MAX_FILES:
            raise InvalidInput(
                f"{self.root} has more than {MAX_FILES:,} files to index; "
                "search in a directory below it.",
                field="path",
            )

        if all(isinstance(source, Skipped) for source in sources):
            what = "files" if self.kind == "code" else "documentation"
            unread = "".join(f" ({note})" for note in unread_note(sources))
            raise InvalidInput(
                f"{self.root} has no {what} that Purlin reads, or .gitignore leaves them out{unread}.",
                field="path",
            )
        return sources

    def _open(self) -> None:
        """Open the active build unless it is open. Raises NotFound, Damaged, EncoderMismatch."""
        directory = builds.current(self._home, self._name)
        before = self._corpus
        if before is not None and before.build == directory.name:
            return
        self._replace(Corpus.load(directory, self._encoder, before))

    def _replace(self, corpus: Corpus | None) -> None:
        """Close the open build once nobody uses it, and have another one, or none, in its place."""
        with self._in_use:
            if self._corpus is not None:
                self._corpus.close()
            self._corpus = corpus

    def _keep_last_build(self) -> None:
        """Open the last build while another process makes the next one. Raises Busy without one."""
        with contextlib.suppress(PurlinError):
            self._open()
        if self._corpus is None:
            raise Busy(f"{self.root} is being indexed by another process; try again later.")
        self.is_behind = True
        self.notes += (
            "another process is indexing this directory; these answers are of its last index",
        )

    def _build(self, sources: list[SourceFile | Skipped], progress: Progress | None) -> None:
        # Imported here, since most searches find nothing to index.
        from purlin.index.indexing.build import build
        from purlin.index.indexing.builder import Options

        started = time.monotonic()
        is_new = self._name not in builds.corpora(self._home)
        git = repositories.common_directory(self.root)
        origin = _Origin(str(self.root), str(git) if git else None, self._variant)
        if is_new:
            self._start_from_sibling(origin)

        manifest = build(
            self._home,
            self._name,
            self.kind,
            sources,
            self._encoder,
            # An index of the cache that a failing machine damaged is made again.
            options=Options(origin=(origin.root,), durable=False),
            progress=progress,
        )
        self._open()
        origin.write(self._state)

        files = sum(isinstance(source, SourceFile) for source in sources)
        new = manifest.passages - manifest.reused
        self.notes += (
            f"indexed {files:,} files of {self.root} in {time.monotonic() - started:.1f} s "
            f"({manifest.documents:,} documents, {new:,} new)",
            *unread_note(sources),
        )
        # Later builds hardly add to the size, and counting it takes time.
        removed = cache.trim(self._cache, {self._name, self.root.name}) if is_new else []
        self.notes += tuple(f"the cache dropped its index of {entry.root}" for entry in removed)

    def _start_from_sibling(self, origin: _Origin) -> None:
        """Link the build of another worktree of this repository, so that little is left to do."""
        for name in builds.corpora(self._home) if origin.git else ():
            sibling = _Origin.read(cache.state_directory(self._home, name))
            if sibling is None or (sibling.git, sibling.variant) != (origin.git, origin.variant):
                continue

            # Without the link, everything is read and encoded anew, no more.
            with contextlib.suppress(PurlinError, OSError):
                source = builds.current(self._home, name)
                with builds.locked(self._home, self._name) as directory:
                    with builds.staging(directory) as staging_dir:
                        copy = staging_dir / source.name
                        shutil.copytree(source, copy, copy_function=os.link)
                        copy.rename(directory / source.name)
                    builds.switch(directory, source.name)
                return


@contextlib.contextmanager
def _cache_named() -> Iterator[None]:
    """Let errors of storage name PURLIN_CACHE: what raises them knows only a home."""
    try:
        yield
    except StorageFailed as error:
        message = error.message.replace("PURLIN_HOME", "PURLIN_CACHE")
        raise StorageFailed(message) from error


def open_workspace(
    path: Path | str = ".",
    *,
    kind: Kind = "code",
    cache_directory: Path | None = None,
    encoder: TextEncoder | str = "static",
    progress: Progress | None = None,
) -> Workspace:
    """Open the index of the repository around a directory, and refresh it.

    `path` may also be a git URL, which is cloned into the cache. `kind` "reference" reads the
    documentation instead of the code. `encoder` is `static`, `transformer`, the directory of one,
    or a loaded one. `cache_directory` is by default the user's; if it cannot be written to, the index
    is temporary, and a note says so.

    Raises NotFound for a path that does not exist, InvalidInput for a file or a home directory, and
    what `Workspace.refresh` raises.
    """
    directory = cache_directory or cache.cache_directory()
    root, notes = find_directory(path, directory)
    workspace = new_workspace(root, kind, encoder, directory)
    try:
        workspace.refresh(progress)
    except BaseException:
        workspace.close()
        raise

    workspace.notes = notes + workspace.notes
    return workspace


def new_workspace(
    root: Path, kind: Kind, encoder: TextEncoder | str, cache_directory: Path
) -> Workspace:
    """Return the index of a directory; its first refresh opens it. `encoder` as in `open_workspace`."""
    loaded = load_encoder(encoder_directory(encoder)) if isinstance(encoder, str) else encoder
    word = encoder if isinstance(encoder, str) and encoder in ENCODERS else loaded.fingerprint[:8]
    return Workspace(root, kind, loaded, variant_of(kind, word), cache_directory)


def find_directory(path: Path | str, cache_directory: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the root of the repository around a path, or of the clone of a URL, and its notes."""
    notes: tuple[str, ...] = ()
    if isinstance(path, str) and repositories.is_url(path):
        path, warning = repositories.clone(path, cache.clones(cache_directory))
        notes = (warning,) if warning else ()
    return repositories.find_root(Path(path)), notes


def variant_of(kind: Kind, encoder: str) -> str:
    """Return what the name of an index ends in; `encoder` is a word of `ENCODERS`, or its own."""
    return _VARIANTS[kind] if encoder == "static" else f"{_VARIANTS[kind]}-{encoder}"


def workspace_name(root: Path, variant: str) -> str:
    """Return the name of a directory's index: its name, the start of its path's hash, the variant."""
    letters = re.sub(r"[^a-z0-9_-]+", "-", root.name.lower()).strip("-_")[:30]
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:10]
    return f"{letters or 'root'}-{digest}{variant}"


def within(root: Path, path: Path | str, field: str = "path") -> dict[str, Condition]:
    """Return the filter on documents of a file, or of a directory below `root`.

    It is empty, so that all documents pass, for the root itself, for paths outside of it, and for
    the URL of a repository. `field` has the paths of documents.
    """
    if isinstance(path, str) and repositories.is_url(path):
        return {}
    resolved = Path(path).expanduser().resolve()
    if resolved == root or not resolved.is_relative_to(root):
        return {}
    name = resolved.relative_to(root).as_posix()
    return {field: name if resolved.is_file() else beginning_with(f"{name}/")}
