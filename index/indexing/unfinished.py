"""What a build that was killed leaves for the next one of its corpus, and the next one removes.

NAME/.unfinished/vectors-FINGERPRINT/    a journal of finished vectors, and the self-check of the
                                         encoder that made them
NAME/.unfinished/read/                   the segment that was read, with read.json
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from purlin.index import builds
from purlin.index.builds import build_files
from purlin.index.builds.manifests import MANIFEST_FORMAT
from purlin.index.encoder import TextEncoder, self_check
from purlin.index.errors import Damaged
from purlin.index.indexing import encoding
from purlin.index.indexing.journal import Journal, count_vectors
from purlin.index.storage import fsync

_VECTORS, _READ, _FACTS_FILE = "vectors-", "read", "read.json"
_JOURNAL_FILE = "vectors.journal"


@dataclass(frozen=True, slots=True)
class Reading:
    """Sources that were read to their end.

    `key` identifies the sources and everything that their documents depend on. `kept` is the number
    of segments that stay, `segment` the name of the new one, and `files` its checksums.
    """

    key: str
    kept: int
    segment: str
    passages: int
    files: Mapping[str, Mapping[str, Any]]
    format: int = MANIFEST_FORMAT


@dataclass(frozen=True, slots=True)
class Progressed:
    """How far an unfinished build got; `passages` is None if it was still reading."""

    encoded: int
    passages: int | None
    bytes: int

    def __str__(self) -> str:
        """Such as "640,000 of 1,000,000 passages (512 MB)"."""
        size = f"({self.bytes / 1e6:,.0f} MB)"
        if self.passages is None:
            return f"{self.encoded:,} encoded passages {size}"
        return f"{self.encoded:,} of {self.passages:,} passages {size}"


class Unfinished:
    """The directory of a corpus's unfinished build, which need not exist."""

    def __init__(self, corpus_directory: Path) -> None:
        self._directory = corpus_directory / builds.UNFINISHED

    # ---- vectors

    def journal(self, encoder: TextEncoder) -> Journal:
        """Open the journal of an encoder; empty if its vectors are not those that it gives now."""
        directory = self._vectors(encoder)
        if directory.is_dir() and not self._comparable(directory, encoder):
            shutil.rmtree(directory)
        prepare = partial(self._write_self_check, directory, encoder)
        return Journal(directory / _JOURNAL_FILE, encoder.dim, encoding.BLOCK, prepare)

    def keep_only(self, encoders: Iterable[TextEncoder]) -> None:
        """Remove the journals of other encoders."""
        kept = [self._vectors(encoder) for encoder in encoders]
        for directory in self._directory.glob(f"{_VECTORS}*"):
            if directory not in kept:
                shutil.rmtree(directory)

    def _vectors(self, encoder: TextEncoder) -> Path:
        name = hashlib.sha256(encoder.fingerprint.encode()).hexdigest()[:16]
        return self._directory / f"{_VECTORS}{name}"

    @staticmethod
    def _comparable(directory: Path, encoder: TextEncoder) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return self_check.drift(directory, encoder) <= self_check.TOLERANCE
        return False

    @staticmethod
    def _write_self_check(directory: Path, encoder: TextEncoder) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self_check.write_self_check(directory, encoder)

    # ---- documents

    def save(self, reading: Reading, staging_dir: Path, *, durable: bool) -> None:
        """Keep the segment and the listing that `staging_dir` has."""
        directory = self._directory / _READ
        shutil.rmtree(directory, ignore_errors=True)
        for name in reading.files:
            build_files.link(staging_dir / name, directory / name)
        # A file with two names is not flushed any more when the build is published.
        for path in directory.rglob("*") if durable else ():
            if path.is_file():
                fsync(path)

        # Written last: without it, the directory says nothing.
        (directory / _FACTS_FILE).write_text(json.dumps(asdict(reading)), encoding="utf-8")

    def reading(self, key: str) -> Reading | None:
        """What was read of the sources with this key; None if it is not whole."""
        reading = self._reading()
        if reading is None or reading.key != key:
            return None

        try:
            build_files.verify(self._directory / _READ, reading.files)
        except Damaged:
            return None

        return reading

    @property
    def has_reading(self) -> bool:
        """Whether sources were read to their end."""
        return self._reading() is not None

    def take_over(self, reading: Reading, staging_dir: Path) -> None:
        """Link what was read into a build."""
        for name in reading.files:
            build_files.link(self._directory / _READ / name, staging_dir / name)

    def _reading(self) -> Reading | None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            facts = json.loads((self._directory / _READ / _FACTS_FILE).read_bytes())
            reading = Reading(**facts)
            return reading if reading.format == MANIFEST_FORMAT else None
        return None

    # ---- all of it

    def progressed(self) -> Progressed | None:
        """How far the unfinished build got; None if there is none. Nothing is verified."""
        if not self._directory.is_dir():
            return None

        sizes = [path.stat().st_size for path in self._directory.rglob("*") if path.is_file()]
        encoded = max(
            map(count_vectors, self._directory.glob(f"{_VECTORS}*/{_JOURNAL_FILE}")), default=0
        )

        reading = self._reading()
        return Progressed(encoded, None if reading is None else reading.passages, sum(sizes))

    def remove(self) -> None:
        """Remove it, after a build that was finished."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def remove_if_empty(self) -> None:
        """Remove it, unless it has vectors or documents to go on from."""
        has_files = self._directory.is_dir() and any(
            path.name in (_JOURNAL_FILE, _FACTS_FILE) for path in self._directory.rglob("*")
        )
        if not has_files:
            self.remove()
