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
import re
import secrets
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from purlin.index.builds.build_files import verify
from purlin.index.builds.catalogs import CLASSIFIERS, CORPORA, Catalog
from purlin.index.builds.manifests import Manifest, read_manifest, read_manifest_json
from purlin.index.errors import Damaged, InvalidInput, NotFound, Worse, read_problem
from purlin.index.storage import TEMPORARY, atomic_write, exclusive, fsync, storage_errors

KEPT_BUILDS = 3
# Directory of what the next build of a corpus goes on from.
UNFINISHED = ".unfinished"
DELETED = ".deleted"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_BUILD = re.compile(r"\d{8}T\d{12}-[0-9a-f]{12}")


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
    """Sorted names of the corpora or classifiers that have an active build, readable or not.

    Raises Damaged if their folder cannot be read.
    """
    return [path.name for path in _directories(home, catalog) if _is_active(path)]


def inactive(home: Path, catalog: Catalog = CORPORA) -> list[str]:
    """Sorted messages on corpora or classifiers that have builds and none that is active.

    So a copy of a home is that lacks a CURRENT. Raises Damaged if their folder cannot be read.
    """
    return [
        message
        for path in _directories(home, catalog)
        if not _is_active(path) and (message := _inactive_message(path, catalog))
    ]


def _inactive_message(directory: Path, catalog: Catalog) -> str:
    """Return what helps where no build is active; empty without builds."""
    try:
        finished = _finished(directory)
    except OSError:
        return ""
    if not finished:
        return ""
    name = directory.name
    return (
        f"{name} has builds, but no CURRENT, as in an incomplete copy: "
        f"`{catalog.command} activate {name} {finished[-1]}` serves the newest, "
        f"`{catalog.command} delete {name}` removes them."
    )


def _directories(home: Path, catalog: Catalog) -> list[Path]:
    """Return the sorted directories that may be corpora or classifiers. Raises Damaged."""
    try:
        directories = list((home / catalog.folder).iterdir())
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        message = (
            f"{home / catalog.folder} is a file, or below one: set PURLIN_HOME to a directory."
        )
        raise Damaged(message) from error
    except OSError as error:
        raise Damaged(f"{home / catalog.folder} {read_problem(error)}.") from error

    return sorted(path for path in directories if _NAME.fullmatch(path.name))


def check_home(home: Path) -> None:
    """Raise Damaged if the corpora or the classifiers of a home cannot be listed."""
    for catalog in (CORPORA, CLASSIFIERS):
        names(home, catalog)


def _is_active(directory: Path) -> bool:
    """Whether a directory has an active build; one that hides it from this user may have one."""
    try:
        (directory / "CURRENT").stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def corpora(home: Path) -> list[str]:
    """Sorted names of the corpora that have an active build."""
    return names(home, CORPORA)


def exists(home: Path, name: str, catalog: Catalog = CORPORA) -> bool:
    """Whether a corpus or classifier has an active build, whatever state that is in."""
    return _is_active(builds_directory(home, name, catalog))


def current(home: Path, name: str, catalog: Catalog = CORPORA) -> Path:
    """Directory of the active build.

    Raises NotFound, which lists the existing names, and Damaged, which says what is wrong.
    """
    directory = builds_directory(home, name, catalog)

    try:
        build = (directory / "CURRENT").read_text(encoding="utf-8", errors="replace").strip()
        exists = _BUILD.fullmatch(build) and (directory / build).is_dir()
    except (FileNotFoundError, NotADirectoryError):
        if message := _inactive_message(directory, catalog):
            raise NotFound(message, field=catalog.item) from None
        existing = ", ".join(names(home, catalog)[:20])
        existing = existing or f"none yet; make one with {catalog.create}"
        raise NotFound(
            f"There is no {catalog.item} {name!r}. {catalog.folder.capitalize()}: {existing}.",
            field=catalog.item,
        ) from None
    except OSError as error:
        raise Damaged(f"{name}/CURRENT {read_problem(error)}.") from error

    if not exists:
        raise Damaged(
            f"{name}/CURRENT names a build that does not exist ({build[:60]!r}). "
            f"`{catalog.command} show {name}` lists the builds, "
            f"`{catalog.command} activate {name} BUILD` repairs it."
        )
    return directory / build


def builds(home: Path, name: str, catalog: Catalog = CORPORA) -> list[str]:
    """Names of the finished builds of a corpus or classifier, oldest first.

    Raises Damaged if their directory cannot be read.
    """
    directory = builds_directory(home, name, catalog)
    try:
        return _finished(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Damaged(f"{name} {read_problem(error)}.") from error


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


def active_manifest(home: Path, name: str) -> Manifest | None:
    """Manifest of a corpus's active build; None if there is none, or it cannot be read."""
    with contextlib.suppress(NotFound, Damaged):
        return read_manifest(current(home, name))
    return None


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
    # Named before it is made, so that an interrupt right after that removes it, too.
    staging_dir = directory / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        with storage_errors():
            staging_dir.mkdir(mode=0o700)
        yield staging_dir
    finally:
        shutil.rmtree(staging_dir, ignore_errors=True)


def publish(staging_dir: Path, manifest: str, *, durable: bool = True) -> str:
    """Write the manifest, flush everything to disk, and rename the directory to its build name.

    `manifest` is its content. Returns the name of the build. What is not `durable` is not flushed:
    if the machine fails then, files may lack their content, which their checksums tell.
    """
    content = manifest.encode()
    (staging_dir / "manifest.json").write_bytes(content)
    for path in [*staging_dir.rglob("*"), staging_dir] if durable else ():
        # A file with several names is that of an earlier build, and was flushed then.
        if path.is_dir() or path.stat().st_nlink == 1:
            fsync(path)

    directory = staging_dir.parent
    build = f"{_timestamp(directory)}-{hashlib.sha256(content).hexdigest()[:12]}"
    # While it was made, only this user could read it.
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
        verify(directory, read_manifest(directory).files)
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


def switch(directory: Path, build: str, *, durable: bool = True, replaced: str = "") -> None:
    """Make `build` the active one in one rename, and remove the build that it replaces and the oldest."""
    with atomic_write(directory / "CURRENT", durable=durable) as file:
        file.write(f"{build}\n".encode())
    if durable:
        fsync(directory)
    if replaced:
        shutil.rmtree(directory / replaced, ignore_errors=True)
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
    check_finished(home, name, build)

    with locked(home, name) as directory, storage_errors():
        manifest = read_manifest(directory / build)
        if manifest.judged.get("refused") and not force:
            raise Worse(
                f"Build {build} was refused because it answered the judged queries worse than the "
                "build that was active then. Use `force` to activate it anyway.",
                field="build",
            )
        verify(directory / build, manifest.files)
        switch(directory, build)


def check_finished(home: Path, name: str, build: str, catalog: Catalog = CORPORA) -> None:
    """Raise NotFound, with the names of the finished builds, if `build` is none of them."""
    finished = builds(home, name, catalog)
    if build not in finished:
        raise NotFound(
            f"{catalog.item.capitalize()} {name!r} has no build {build[:60]!r}. "
            f"Builds: {', '.join(finished) or 'none'}.",
            field="build",
        )


def previous(home: Path, name: str, catalog: Catalog = CORPORA) -> str:
    """Name of the newest build that is older than the active one and was not refused.

    Raises NotFound if there is none.
    """
    active = current(home, name, catalog)
    older = [build for build in builds(home, name, catalog) if build < active.name]
    candidates = [build for build in older if not refused(active.parent / build)]
    if not candidates:
        raise NotFound(
            f"{catalog.item.capitalize()} {name!r} has no build before {active.name}, the active one.",
            field=catalog.item,
        )

    return candidates[-1]


def delete(home: Path, name: str, catalog: Catalog = CORPORA, *, remembered: bool = False) -> None:
    """Remove a corpus or classifier with all its builds, `remembered` if its name is to be known as deleted."""
    directory = builds_directory(home, name, catalog)
    if not directory.is_dir() or [path.name for path in directory.iterdir()] == [DELETED]:
        # Raises NotFound, which lists the existing names.
        current(home, name, catalog)

    with locked(home, name, catalog) as directory:
        clear(directory)
        if remembered:
            # A full disk may have no room for an entry.
            with contextlib.suppress(OSError):
                (directory / DELETED).touch()


def is_deleted(home: Path, name: str) -> bool:
    """Whether somebody has deleted a corpus, and it was not built since."""
    return not exists(home, name) and (builds_directory(home, name) / DELETED).is_file()


def clear(directory: Path) -> None:
    """Remove all builds of a corpus or classifier, whose lock the caller holds."""
    with storage_errors():
        # CURRENT goes first, so that no reader opens a corpus that is half removed.
        (directory / "CURRENT").unlink(missing_ok=True)
        for build in _finished(directory):
            shutil.rmtree(directory / build)
        shutil.rmtree(directory / UNFINISHED, ignore_errors=True)
