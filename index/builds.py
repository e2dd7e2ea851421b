"""Builds of corpora and classifiers on disk: immutable, checksummed, switched by one rename.

    HOME/corpora/NAME/CURRENT                      the name of the active build
    HOME/corpora/NAME/20261121T093000123456-1a2b3c4d5e6f/   a build: its files, and manifest.json
    HOME/classifiers/NAME/...                      the same layout for classifiers

A build's name ends with the start of its manifest's SHA-256. So the name vouches for the manifest,
and the manifest for every other file. Work in progress lives in `.making-*`, which no reader looks
at; what a killed build left behind is removed when the next one starts, except for `.unfinished`,
which it goes on from (see `purlin.index.indexing.unfinished`). The write lock is a lock on
the directory NAME itself and disappears with the process that holds it.

This module knows builds as directories. `purlin.index.indexing.build` makes a corpus's build, and
`purlin.app.corpora.open_builds` keeps the active ones open to serve them.
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
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from purlin.index.blocks import SUMS_SUFFIX, BlockFile, sums_path
from purlin.index.errors import Damaged, InvalidInput, NotFound, Worse
from purlin.index.records import Kind, Secondary, Splitter
from purlin.index.storage import TEMPORARY, atomic_write, exclusive, fsync, storage_errors

MANIFEST_FORMAT = 5
KEPT_BUILDS = 3
# Directory of what the next build of a corpus goes on from.
UNFINISHED = ".unfinished"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_BUILD = re.compile(r"\d{8}T\d{12}-[0-9a-f]{12}")
_MAX_MANIFEST_BYTES = 16 * 2**20
# Keys that manifests of this format may lack, since they came later.
_OPTIONAL = frozenset({"columns"})


@dataclass(frozen=True, slots=True)
class Catalog:
    """What is stored, corpora or classifiers: its folder below HOME, and the words for messages.

    `item` is the noun in the singular, `create` the command that makes one, `rebuild` the remedy
    for a damaged build, and `activate` the command that goes back to another build, if any.
    """

    folder: str
    item: str
    create: str
    rebuild: str
    activate: str = ""


CORPORA = Catalog(
    "corpora",
    "corpus",
    "`purlin index build`",
    "build the corpus again",
    "`purlin index activate {name} BUILD`",
)
CLASSIFIERS = Catalog(
    "classifiers", "classifier", "`purlin train pesco`", "train the classifier again"
)


class ListsFiles(Protocol):
    """What lists the files of a build."""

    @property
    def files(self) -> Mapping[str, Mapping[str, Any]]:
        """Relative path -> size of the file, and SHA-256 of its content or of its blocks' sums."""
        ...


class AnyManifest(ListsFiles, Protocol):
    """The part that the manifests of corpora and classifiers share."""

    def to_json(self) -> str:
        """Content of `manifest.json`."""
        ...


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a corpus's build holds and what it was made from.

    `sources` are the absolute paths that were read, or words about them. With `secondary`,
    `base_url` and `columns` they are what `purlin.index.sources.open_source` takes to read them again.
    `segments` are the directories of its documents, see `purlin.index.search.segments`; `texts` is
    the version of what they were cut into. An `interim` build serves while the vectors of another
    encoder are made.
    `files` maps a relative path to what `checksums` returns for it. `logged` counts the earlier queries that
    lead to documents of the build. `dense` is what `purlin.index.search.dense.build_index` chose
    and measured for the base, or an engine's index with what `dense.measure` found in it. `judged`
    describes the quality check, if there was one (see `purlin.index.indexing.gate.measure_build`).
    `engine` tells where the documents are if they are not here, see `purlin.index.engines.hosting`.
    """

    name: str
    kind: Kind
    created_at: str
    encoder: Mapping[str, Any]
    documents: int
    passages: int
    skipped: int
    splitter: Splitter
    dense_weight: float
    lexical_power: float
    segments: tuple[str, ...]
    texts: int
    interim: bool = False
    demote: bool = True
    logged: int = 0
    sources: tuple[str, ...] = ()
    secondary: Secondary = "demote"
    base_url: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    reused: int = 0
    took_s: float = 0.0
    measures: Mapping[str, Any] = field(default_factory=dict)
    dense: Mapping[str, Any] = field(default_factory=dict)
    judged: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    format: int = MANIFEST_FORMAT

    def to_json(self) -> str:
        """Return one JSON object with the keys in the order above."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"


def builds_directory(home: Path, name: str, catalog: Catalog = CORPORA) -> Path:
    """Directory of all builds of one corpus or classifier. Raises as `check_name` does."""
    check_name(name, catalog)
    return home / catalog.folder / name


def check_name(name: str, catalog: Catalog = CORPORA) -> None:
    """Raise InvalidInput for a name that could lead out of HOME."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} is not a valid {catalog.item} name. Use 1 to 64 characters of a-z, "
            "0-9, '-' and '_', starting with a letter or digit.",
            field=catalog.item,
        )


def names(home: Path, catalog: Catalog = CORPORA) -> list[str]:
    """Sorted names of the corpora or classifiers that have an active build."""
    directories = (path.parent.name for path in (home / catalog.folder).glob("*/CURRENT"))
    return sorted(name for name in directories if _NAME.fullmatch(name))


def corpora(home: Path) -> list[str]:
    """Sorted names of the corpora that have an active build."""
    return names(home, CORPORA)


def exists(home: Path, name: str, catalog: Catalog = CORPORA) -> bool:
    """Whether a corpus or classifier has an active build, whatever state that is in."""
    return (builds_directory(home, name, catalog) / "CURRENT").is_file()


def current(home: Path, name: str, catalog: Catalog = CORPORA) -> Path:
    """Directory of the active build.

    Raises NotFound, which lists the existing names, and Damaged, which says what is wrong.
    """
    directory = builds_directory(home, name, catalog)

    try:
        build = (directory / "CURRENT").read_text(encoding="utf-8", errors="replace").strip()
        exists = _BUILD.fullmatch(build) and (directory / build).is_dir()
    except (FileNotFoundError, NotADirectoryError):
        existing = ", ".join(names(home, catalog)[:20])
        existing = existing or f"none yet; make one with {catalog.create}"
        raise NotFound(
            f"There is no {catalog.item} {name!r}. {catalog.folder.capitalize()}: {existing}.",
            field=catalog.item,
        ) from None
    except OSError as error:
        raise Damaged(
            f"{name}/CURRENT cannot be read: {error.strerror}. Give this user read permission."
        ) from error

    if not exists:
        raise Damaged(
            f"{name}/CURRENT names a build that does not exist ({build[:60]!r}). "
            f"{_repair_advice(name, catalog)}"
        )
    return directory / build


def _repair_advice(name: str, catalog: Catalog) -> str:
    if not catalog.activate:
        return f"To repair it, {catalog.rebuild}."
    activate = catalog.activate.format(name=name)
    return f"`purlin index show {name}` lists the builds, {activate} repairs it."


def builds(home: Path, name: str, catalog: Catalog = CORPORA) -> list[str]:
    """Names of the finished builds of a corpus or classifier, oldest first."""
    directory = builds_directory(home, name, catalog)
    return _finished(directory) if directory.is_dir() else []


def _finished(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir() if _BUILD.fullmatch(entry.name))


def refused(directory: Path) -> bool:
    """Whether a build was not activated because it measured worse than the active one."""
    with contextlib.suppress(Damaged, ValueError):
        judged = read_manifest_json(directory).get("judged")
        return isinstance(judged, dict) and bool(judged.get("refused"))
    return False


def withheld(home: Path, name: str) -> list[str]:
    """Refused builds of a corpus that are newer than its active build."""
    active = current(home, name)
    newer = [build for build in builds(home, name) if build > active.name]
    return [build for build in newer if refused(active.parent / build)]


def read_manifest(directory: Path) -> Manifest:
    """Manifest of a corpus's build, checked against the build's name. Raises Damaged."""
    return _manifest(read_manifest_json(directory), directory)


def active_manifest(home: Path, name: str) -> Manifest | None:
    """Manifest of a corpus's active build; None if there is none, or it cannot be read."""
    with contextlib.suppress(NotFound, Damaged):
        return read_manifest(current(home, name))
    return None


def read_manifest_json(directory: Path) -> dict[str, Any]:
    """Content of a build's `manifest.json`, checked against the build's name. Raises Damaged."""
    path = directory / "manifest.json"
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_MANIFEST_BYTES)
    except OSError as error:
        raise Damaged(damage_message(directory, "manifest.json", "cannot be read")) from error

    if hashlib.sha256(content).hexdigest()[:12] != directory.name.rpartition("-")[2]:
        raise Damaged(damage_message(directory, "manifest.json", "was altered"))
    values: dict[str, Any] = json.loads(content)
    return values


def _manifest(values: dict[str, Any], directory: Path) -> Manifest:
    expected = {item.name for item in fields(Manifest)}
    missing = expected - values.keys() - _OPTIONAL
    unknown = values.keys() - expected

    if values.get("format") != MANIFEST_FORMAT or missing or unknown:
        raise Damaged(
            f"{directory.parent.name}/{directory.name} was written by another version (format "
            f"{values.get('format')!r}, this one reads {MANIFEST_FORMAT}); build the corpus again."
        )
    lists = {name: tuple(values[name]) for name in ("sources", "segments")}
    return Manifest(**values | lists)


def damage_message(directory: Path, file: str, problem: str) -> str:
    """Error message for a build that is not used: its file, the problem and the remedy."""
    name = directory.parent.name
    catalog = CLASSIFIERS if directory.parent.parent.name == CLASSIFIERS.folder else CORPORA

    remedy = catalog.rebuild[0].upper() + catalog.rebuild[1:]
    if catalog.activate:
        remedy += f", or go back with {catalog.activate.format(name=name)}"
    return f"{name}/{directory.name}/{file} {problem}; this build is not used. {remedy}."


class Files:
    """Files of a build, each verified as it is read: whole, or the blocks that a read touches.

    Each file can be opened once. Raises Damaged, which names the file.
    """

    def __init__(self, directory: Path, manifest: ListsFiles) -> None:
        self._directory = directory
        self._unread = dict(manifest.files)

    def read(self, path: Path) -> bytes:
        """Return the verified content of a file that is read whole."""
        name = self._name(path)
        with self._opened(name) as file:
            content = file.read()
            self._verify(name, hashlib.sha256(content))
        return content

    def blocks(self, path: Path) -> BlockFile:
        """Open a file whose blocks are verified when they are read."""
        name = self._name(path)
        entry = self._entry(name, "blocks")
        sums = self._read_sums(name, entry)
        message = partial(damage_message, self._directory, name)
        file = BlockFile(path, int(entry["bytes"]), sums, message)
        del self._unread[name]
        return file

    def check(self, path: Path) -> None:
        """Verify a file of the build without keeping its content."""
        name = self._name(path)
        if "blocks" in self._unread[name]:
            with contextlib.closing(self.blocks(path)) as blocks:
                blocks.check()
        else:
            with self._opened(name) as file:
                self._verify(name, hashlib.file_digest(file, "sha256"))

    def skip(self, directory: Path) -> None:
        """Leave out the unread files of a directory, whose content is in memory already."""
        prefix = f"{directory.relative_to(self._directory).as_posix()}/"
        for name in [name for name in self._unread if name.startswith(prefix)]:
            del self._unread[name]

    def check_others(self) -> None:
        """Verify the files that were not read."""
        for name in list(self._unread):
            self.check(self._directory / name)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._directory).as_posix()

    def _entry(self, name: str, checksum: str) -> Mapping[str, Any]:
        """Entry of a file that is read in one of the two ways: "sha256" or "blocks"."""
        entry = self._unread.get(name, {})
        if checksum not in entry:
            raise self._damaged(name, "is not listed in manifest.json as this version reads it")
        return entry

    def _read_sums(self, name: str, entry: Mapping[str, Any]) -> bytes:
        try:
            sums = sums_path(self._directory / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._damaged(name + SUMS_SUFFIX, "is missing") from error
        except OSError as error:
            raise self._damaged(name + SUMS_SUFFIX, f"cannot be read ({error.strerror})") from error

        if hashlib.sha256(sums).hexdigest() != entry["blocks"]:
            raise self._damaged(name + SUMS_SUFFIX, "was altered")
        return sums

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[io.BufferedReader]:
        """Open a file after a check of its size."""
        expected = self._entry(name, "sha256")["bytes"]
        try:
            with (self._directory / name).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != expected:
                    raise self._damaged(name, f"has {size} bytes, not {expected}")
                yield file
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._damaged(name, "is missing") from error
        except OSError as error:
            raise self._damaged(name, f"cannot be read ({error.strerror})") from error

    def _verify(self, name: str, digest: hashlib._Hash) -> None:
        if digest.hexdigest() != self._unread.pop(name)["sha256"]:
            raise self._damaged(name, "was altered")

    def _damaged(self, name: str, problem: str) -> Damaged:
        return Damaged(damage_message(self._directory, name, problem))


def verify(directory: Path, manifest: ListsFiles | None = None) -> None:
    """Compare every file of a build with its checksum. Damaged names the first that differs.

    Without a `manifest`, the build may be of a corpus or of a classifier.
    """
    Files(directory, manifest or _Listing(read_manifest_json(directory)["files"])).check_others()


@dataclass(frozen=True, slots=True)
class _Listing:
    """The part of a manifest that lists the files."""

    files: Mapping[str, Mapping[str, Any]]


def checksums(
    directory: Path, linked: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """Relative path -> {bytes, sha256} of every file below a directory.

    A file with sums of its blocks has {bytes, blocks}, the SHA-256 of the sums. The entries of
    `linked` files are taken over from the build that they are of.
    """
    entries = {}
    for path in sorted(directory.rglob("*")):
        if not path.is_file() or _is_sums(path):
            continue
        name = path.relative_to(directory).as_posix()
        if linked is not None and name in linked:
            entries[name] = dict(linked[name])
        elif sums_path(path).is_file():
            entries[name] = {"bytes": path.stat().st_size, "blocks": _sha256(sums_path(path))}
        else:
            entries[name] = {"bytes": path.stat().st_size, "sha256": _sha256(path)}
    return entries


def _is_sums(path: Path) -> bool:
    return path.suffix == SUMS_SUFFIX and path.with_suffix("").is_file()


def link(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`, or a copy of it where files cannot be linked.

    The sums of its blocks follow the file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    pairs = [(source, target)]
    if sums_path(source).is_file():
        pairs.append((sums_path(source), sums_path(target)))

    for existing, new in pairs:
        try:
            new.hardlink_to(existing)
        except OSError:
            shutil.copyfile(existing, new)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- writing


@contextlib.contextmanager
def locked(home: Path, name: str, catalog: Catalog = CORPORA) -> Iterator[Path]:
    """Hold the write lock of a corpus or classifier; yields its directory, created if need be.

    Raises Busy if another process has the lock.
    """
    directory = builds_directory(home, name, catalog)
    busy = (
        f"{catalog.item.capitalize()} {name!r} is being built or changed by another process; "
        "try again later."
    )
    with exclusive(directory, busy, create=True):
        try:
            with storage_errors():
                _remove_litter(directory)
            yield directory
        finally:
            # Succeeds only if the directory is empty: no build of this name was ever finished.
            with contextlib.suppress(OSError):
                directory.rmdir()


def _remove_litter(directory: Path) -> None:
    """Remove the unfinished files and directories of a killed process."""
    for path in directory.glob(f"{TEMPORARY}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """Yield a fresh directory to make a build in; it is removed unless `publish` renamed it."""
    with storage_errors():
        staging_dir = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=directory))
    try:
        yield staging_dir
    finally:
        shutil.rmtree(staging_dir, ignore_errors=True)


def publish(staging_dir: Path, manifest: AnyManifest, *, durable: bool = True) -> str:
    """Write the manifest, flush everything to disk, and rename the directory to its build name.

    Returns the name of the build. What is not `durable` is not flushed. If the machine fails then,
    files may lack their content, which their checksums tell.
    """
    content = manifest.to_json().encode()
    (staging_dir / "manifest.json").write_bytes(content)
    for path in [*staging_dir.rglob("*"), staging_dir] if durable else ():
        # A file with several names is that of an earlier build, and was flushed then.
        if path.is_dir() or path.stat().st_nlink == 1:
            fsync(path)

    directory = staging_dir.parent
    build = f"{_timestamp(directory)}-{hashlib.sha256(content).hexdigest()[:12]}"
    # mkdtemp made it readable for this user only.
    staging_dir.chmod(0o755)
    staging_dir.rename(directory / build)
    if durable:
        fsync(directory)
    return build


def adopt(staging_dir: Path, build: str) -> None:
    """Give a directory with the files of a build that was made elsewhere the build's name.

    Raises Damaged if the files are not those of its manifest.
    """
    directory = staging_dir.parent / build
    if not _BUILD.fullmatch(build):
        raise Damaged(f"{build[:60]!r} is not the name of a build.")
    for path in staging_dir.iterdir():
        fsync(path)
    staging_dir.chmod(0o755)
    staging_dir.rename(directory)
    try:
        verify(directory, read_manifest(directory))
    except Damaged:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    fsync(directory.parent)


def _timestamp(directory: Path) -> str:
    """Current time, or a microsecond after the newest build if the clock was set back.

    So names sort in the order in which the builds were made.
    """
    now = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    newest = max(_finished(directory), default="")
    if now > newest:
        return now

    day, _, time = newest.partition("-")[0].partition("T")
    return f"{day}T{int(time) + 1:012}"


def switch(directory: Path, build: str, *, durable: bool = True) -> None:
    """Make `build` the active one in one rename, and remove the oldest builds."""
    with atomic_write(directory / "CURRENT", durable=durable) as file:
        file.write(f"{build}\n".encode())
    if durable:
        fsync(directory)
    remove_oldest(directory, build)


def remove_oldest(directory: Path, active: str) -> None:
    """Remove all builds but the active one, the last `KEPT_BUILDS`, and the last refused one."""
    finished = _finished(directory)
    worse = [build for build in finished if refused(directory / build)]
    good = [build for build in finished if build not in worse]

    for build in worse[:-1] + good[:-KEPT_BUILDS]:
        if build != active:
            shutil.rmtree(directory / build, ignore_errors=True)


def remove_interim(directory: Path, active: str) -> None:
    """Remove the builds, other than the active one, that served for the time being only."""
    for build in _finished(directory):
        with contextlib.suppress(Damaged, ValueError):
            if build != active and read_manifest_json(directory / build).get("interim"):
                shutil.rmtree(directory / build, ignore_errors=True)


def activate(home: Path, name: str, build: str, *, force: bool = False) -> None:
    """Make a finished build of a corpus the active one, after a check of all its files.

    Raises Worse for a build that was refused, unless `force` is set.
    """
    finished = builds(home, name)
    if build not in finished:
        raise NotFound(
            f"Corpus {name!r} has no build {build[:60]!r}. Builds: {', '.join(finished) or 'none'}.",
            field="build",
        )

    with locked(home, name) as directory, storage_errors():
        manifest = read_manifest(directory / build)
        if manifest.judged.get("refused") and not force:
            raise Worse(
                f"Build {build} was refused because it answered the judged queries worse than the "
                "build that was active then. Use `force` to activate it anyway.",
                field="build",
            )
        verify(directory / build, manifest)
        switch(directory, build)


def previous(home: Path, name: str) -> str:
    """Name of the newest build that is older than the active one and was not refused.

    Raises NotFound if there is none.
    """
    active = current(home, name)
    older = [build for build in builds(home, name) if build < active.name]
    candidates = [build for build in older if not refused(active.parent / build)]
    if not candidates:
        raise NotFound(
            f"Corpus {name!r} has no build before {active.name}, the active one.", field="corpus"
        )
    return candidates[-1]


def delete(home: Path, name: str) -> None:
    """Remove a corpus with all its builds."""
    if not builds_directory(home, name).is_dir():
        # Raises NotFound, which lists the existing names.
        current(home, name)

    with locked(home, name) as directory:
        clear(directory)


def clear(directory: Path) -> None:
    """Remove all builds of a corpus, whose lock the caller holds."""
    with storage_errors():
        # CURRENT goes first, so that no reader opens a corpus that is half removed.
        (directory / "CURRENT").unlink(missing_ok=True)
        for build in _finished(directory):
            shutil.rmtree(directory / build)
        shutil.rmtree(directory / UNFINISHED, ignore_errors=True)
