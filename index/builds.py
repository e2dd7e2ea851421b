"""Builds of corpora and classifiers on disk: immutable, checksummed, switched in one rename.

    HOME/corpora/NAME/CURRENT                      the active build's name
    HOME/corpora/NAME/20261121T093000123456-1a2b3c4d5e6f/   a build: its files, and manifest.json with their checksums
    HOME/classifiers/NAME/...                      the same for classifiers

A build's name ends with the start of its manifest's SHA-256, so the name vouches for the manifest and the manifest for
every other file. Work in progress is in `.making-*`, which no reader looks at; what a killed build left is removed when
the next one starts. The lock is on the directory NAME itself and goes when its holder does.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from index.errors import Damaged, InvalidInput, NotFound, Worse
from index.records import Kind
from index.storage import TEMPORARY, atomic_write, exclusive, fsync, storage_errors

FORMAT = 1
KEPT_BUILDS = 3
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_BUILD = re.compile(r"\d{8}T\d{12}-[0-9a-f]{12}")
_MAX_MANIFEST_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where below HOME the builds of one kind of thing are, and how messages speak of it."""

    folder: str
    thing: str
    make: str
    remake: str
    go_back: str = ""


CORPORA = Shelf(
    "corpora",
    "corpus",
    "`purlin index build`",
    "build the corpus again",
    "`purlin index activate {name} BUILD`",
)
CLASSIFIERS = Shelf(
    "classifiers", "classifier", "`purlin train pesco`", "train the classifier again"
)


class Listing(Protocol):
    """What a manifest of any kind has."""

    @property
    def files(self) -> Mapping[str, Mapping[str, Any]]:
        """A relative path -> its size and SHA-256."""
        ...

    def to_json(self) -> str:
        """What `manifest.json` holds."""
        ...


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a build holds and what it was made from. `files` maps a relative path to its size and SHA-256.

    `logged` counts the earlier queries that lead to its documents. `judged` tells of the queries that it was measured
    with, if any, as `index.indexing.gate.measured` does.
    """

    name: str
    kind: Kind
    created_at: str
    encoder: Mapping[str, Any]
    documents: int
    passages: int
    skipped: int
    splitter: str
    dense_weight: float
    lexical_power: float
    demote: bool = True
    logged: int = 0
    sources: tuple[str, ...] = ()
    reused: int = 0
    took_s: float = 0.0
    measures: Mapping[str, Any] = field(default_factory=dict)
    judged: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    format: int = FORMAT

    def to_json(self) -> str:
        """One JSON object, keys in the order above."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"


def thing_directory(home: Path, name: str, shelf: Shelf = CORPORA) -> Path:
    """Where the builds of a thing are; the name is checked, so that no name leads elsewhere."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} is no {shelf.thing} name: 1 to 64 of a-z, 0-9, '-' and '_', beginning with a letter or "
            "digit.",
            field=shelf.thing,
        )
    return home / shelf.folder / name


def names(home: Path, shelf: Shelf = CORPORA) -> list[str]:
    """Names of the things that have an active build, sorted."""
    found = (home / shelf.folder).glob("*/CURRENT")
    return sorted(path.parent.name for path in found if _NAME.fullmatch(path.parent.name))


def corpora(home: Path) -> list[str]:
    """Names of the corpora that have an active build, sorted."""
    return names(home, CORPORA)


def current(home: Path, name: str, shelf: Shelf = CORPORA) -> Path:
    """Directory of the active build. NotFound tells which names there are, Damaged what is wrong with this one."""
    directory = thing_directory(home, name, shelf)
    try:
        build = (directory / "CURRENT").read_text(encoding="utf-8", errors="replace").strip()
        there = _BUILD.fullmatch(build) and (directory / build).is_dir()
    except (FileNotFoundError, NotADirectoryError):
        known = ", ".join(names(home, shelf)[:20]) or f"none yet; make one with {shelf.make}"
        raise NotFound(
            f"There is no {shelf.thing} {name!r}. {shelf.folder.capitalize()}: {known}.",
            field=shelf.thing,
        ) from None
    except OSError as error:
        raise Damaged(
            f"{name}/CURRENT cannot be read: {error.strerror}. Give this user the right to."
        ) from error
    if not there:
        raise Damaged(
            f"{name}/CURRENT names no build that exists ({build[:60]!r}). {_set_right(name, shelf)}"
        )
    return directory / build


def _set_right(name: str, shelf: Shelf) -> str:
    if shelf.go_back:
        go_back = shelf.go_back.format(name=name)
        return f"`purlin index show {name}` lists the builds, {go_back} sets it right."
    return f"To set it right, {shelf.remake}."


def builds(home: Path, name: str, shelf: Shelf = CORPORA) -> list[str]:
    """Names of the finished builds of a thing, oldest first."""
    directory = thing_directory(home, name, shelf)
    if not directory.is_dir():
        return []
    return sorted(entry.name for entry in directory.iterdir() if _BUILD.fullmatch(entry.name))


def refused(directory: Path) -> bool:
    """Whether a build was measured to be worse than the one that was active then, and not activated."""
    with contextlib.suppress(Damaged, ValueError):
        judged = read_listing(directory).get("judged")
        return isinstance(judged, dict) and bool(judged.get("refused"))
    return False


def withheld(home: Path, name: str) -> list[str]:
    """Builds of a corpus that are newer than the active one, and were refused."""
    active = current(home, name)
    return [
        build
        for build in builds(home, name)
        if build > active.name and refused(active.parent / build)
    ]


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a corpus's build, checked against the build's name."""
    return _manifest(read_listing(directory), directory)


def read_listing(directory: Path) -> dict[str, Any]:
    """What a build's `manifest.json` says, checked against the build's name. Raises Damaged."""
    path = directory / "manifest.json"
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_MANIFEST_BYTES)
    except OSError as error:
        raise Damaged(damaged(directory, "manifest.json", "cannot be read")) from error
    if hashlib.sha256(content).hexdigest()[:12] != directory.name.rpartition("-")[2]:
        raise Damaged(damaged(directory, "manifest.json", "was altered"))
    listing: dict[str, Any] = json.loads(content)
    return listing


def _manifest(values: dict[str, Any], directory: Path) -> Manifest:
    known = {one.name for one in fields(Manifest)}
    missing = known - values.keys() - {"judged", "logged"}  # which the first builds did not have
    if values.get("format") != FORMAT or missing or values.keys() - known:
        raise Damaged(
            f"{directory.parent.name}/{directory.name} was written by another version (format "
            f"{values.get('format')!r}, this one reads {FORMAT}); build the corpus again."
        )
    return Manifest(**values | {"sources": tuple(values["sources"])})


def damaged(directory: Path, file: str, what: str) -> str:
    """The sentence that refuses a build: its file, what is wrong with it, and what to do."""
    name = directory.parent.name
    shelf = CLASSIFIERS if directory.parent.parent.name == CLASSIFIERS.folder else CORPORA
    remedy = shelf.remake[0].upper() + shelf.remake[1:]
    if shelf.go_back:
        remedy += f", or go back with {shelf.go_back.format(name=name)}"
    return f"{name}/{directory.name}/{file} {what}; this build is not used. {remedy}."


class Files:
    """The files of a build, each compared with its checksum by the one pass that reads it. Damaged names it."""

    def __init__(self, directory: Path, manifest: Listing) -> None:
        self._directory = directory
        self._unread = dict(manifest.files)

    def read(self, path: Path) -> bytes:
        """Content of a file of the build, once: what was compared is what is used."""
        name = path.relative_to(self._directory).as_posix()
        with self._as_written(name) as file:
            content = file.read()
            self._compare(name, hashlib.sha256(content))
        return content

    def check_others(self) -> None:
        """Compare what was not read."""
        for name in list(self._unread):
            with self._as_written(name) as file:
                self._compare(name, hashlib.file_digest(file, "sha256"))

    @contextlib.contextmanager
    def _as_written(self, name: str) -> Iterator[io.BufferedReader]:
        """The file, open, and of the size that it had."""
        expected = self._unread[name]["bytes"]
        try:
            with (self._directory / name).open("rb") as file:
                found = os.fstat(file.fileno()).st_size
                if found != expected:
                    raise self._refused(name, f"has {found} bytes, not {expected}")
                yield file
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._refused(name, "is missing") from error
        except OSError as error:
            raise self._refused(name, f"cannot be read ({error.strerror})") from error

    def _compare(self, name: str, found: hashlib._Hash) -> None:
        if found.hexdigest() != self._unread.pop(name)["sha256"]:
            raise self._refused(name, "was altered")

    def _refused(self, name: str, what: str) -> Damaged:
        return Damaged(damaged(self._directory, name, what))


def verify(directory: Path, manifest: Listing) -> None:
    """Compare every file of a build with its checksum. Damaged names the first that differs."""
    Files(directory, manifest).check_others()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums(directory: Path) -> dict[str, dict[str, Any]]:
    """Relative path -> {bytes, sha256} of every file below a directory."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        path.relative_to(directory).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": _sha256(path),
        }
        for path in files
    }


# ---- changing what is there


@contextlib.contextmanager
def locked(home: Path, name: str, shelf: Shelf = CORPORA) -> Iterator[Path]:
    """Hold the one write lock of a thing; yields its directory, made if need be. Busy if another process has it."""
    directory = thing_directory(home, name, shelf)
    with storage_errors():
        directory.mkdir(parents=True, exist_ok=True)
    thing = shelf.thing.capitalize()
    with exclusive(
        directory,
        f"{thing} {name!r} is being built or changed by another process; try again later.",
    ):
        try:
            with storage_errors():
                _sweep(directory)
            yield directory
        finally:
            with contextlib.suppress(OSError):
                directory.rmdir()  # succeeds only where nothing was ever finished


def _sweep(directory: Path) -> None:
    """Remove what a killed process left."""
    for left in directory.glob(f"{TEMPORARY}*"):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


@contextlib.contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """A fresh directory to make a build in; removed on the way out unless `publish` has renamed it."""
    with storage_errors():
        made = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=directory))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def publish(made: Path, manifest: Listing) -> str:
    """Write the manifest, flush everything to disk, give the build its name and return it."""
    content = manifest.to_json().encode()
    (made / "manifest.json").write_bytes(content)
    for path in [*made.rglob("*"), made]:
        fsync(path)
    build = f"{_stamp(made.parent)}-{hashlib.sha256(content).hexdigest()[:12]}"
    made.chmod(0o755)
    made.rename(made.parent / build)
    fsync(made.parent)
    return build


def _stamp(directory: Path) -> str:
    """The time; after the clock was set back, a microsecond after the newest build, so that names sort as made."""
    now = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    newest = max(
        (entry.name for entry in directory.iterdir() if _BUILD.fullmatch(entry.name)), default=""
    )
    if now > newest:
        return now
    day, _, time = newest.partition("-")[0].partition("T")
    return f"{day}T{int(time) + 1:012}"


def switch(directory: Path, build: str) -> None:
    """Make `build` the active one, in one rename, and forget the oldest builds beyond those kept."""
    with atomic_write(directory / "CURRENT") as file:
        file.write(f"{build}\n".encode())
    fsync(directory)
    forget_oldest(directory, build)


def forget_oldest(directory: Path, active: str) -> None:
    """Remove the builds beyond those kept: the active one, the last few, and the last one that was refused."""
    finished = sorted(entry.name for entry in directory.iterdir() if _BUILD.fullmatch(entry.name))
    worse = [build for build in finished if refused(directory / build)]
    others = [build for build in finished if build not in worse]
    for old in worse[:-1] + others[:-KEPT_BUILDS]:
        if old != active:
            shutil.rmtree(directory / old, ignore_errors=True)


def activate(home: Path, name: str, build: str, *, force: bool = False) -> None:
    """Make a finished build of a corpus the active one, after comparing all its files with their checksums.

    Raises Worse for a build that was refused, unless forced.
    """
    if build not in builds(home, name):
        known = ", ".join(builds(home, name)) or "none"
        raise NotFound(
            f"Corpus {name!r} has no build {build[:60]!r}. Builds: {known}.", field="build"
        )
    with locked(home, name) as directory, storage_errors():
        manifest = read_manifest(directory / build)
        if manifest.judged.get("refused") and not force:
            raise Worse(
                f"Build {build} was refused, as it answered judged queries worse than the one that was active then; "
                "`force` activates it all the same.",
                field="build",
            )
        verify(directory / build, manifest)
        switch(directory, build)


def roll_back(home: Path, name: str) -> str:
    """Make the build before the active one that was not refused the active one, and return it. NotFound without one."""
    active = current(home, name)
    older = [
        build
        for build in builds(home, name)
        if build < active.name and not refused(active.parent / build)
    ]
    if not older:
        raise NotFound(
            f"Corpus {name!r} has no build before {active.name}, the active one.", field="corpus"
        )
    activate(home, name, older[-1])
    return older[-1]


def delete(home: Path, name: str) -> None:
    """Remove a corpus with all its builds; CURRENT goes first, so that no reader sees half of it."""
    if not thing_directory(home, name).is_dir():
        current(home, name)  # raises NotFound with the names there are
    with locked(home, name) as directory, storage_errors():
        (directory / "CURRENT").unlink(missing_ok=True)
        for build in builds(home, name):
            shutil.rmtree(directory / build)
