"""The files of a build: verified as they are read, listed with their checksums, and linked."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from purlin.index.builds.catalogs import damage_message
from purlin.index.builds.manifests import read_manifest_json
from purlin.index.errors import Damaged, read_problem
from purlin.index.storage.blocks import SUMS_SUFFIX, BlockFile, sums_path


class Files:
    """Files of a build, each verified as it is read: whole, or the blocks that a read touches.

    Each file can be opened once; `entries` are those of the manifest. Raises Damaged, which names
    the file.
    """

    def __init__(self, directory: Path, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self._directory = directory
        self._unread = dict(entries)

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
            raise self._damaged(name + SUMS_SUFFIX, read_problem(error)) from error

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
            raise self._damaged(name, read_problem(error)) from error

    def _verify(self, name: str, digest: hashlib._Hash) -> None:
        if digest.hexdigest() != self._unread.pop(name)["sha256"]:
            raise self._damaged(name, "was altered")

    def _damaged(self, name: str, problem: str) -> Damaged:
        return Damaged(damage_message(self._directory, name, problem))


def verify(directory: Path, entries: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Compare every file of a build with its checksum. Damaged names the first that differs.

    By default, `entries` are those of the build's manifest, be it of a corpus or of a classifier.
    """
    if entries is None:
        entries = read_manifest_json(directory)["files"]
    Files(directory, entries).check_others()


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
