"""Makes a build of a corpus from sources, and activates it.

What the active build already has is reused, not read or encoded again. `purlin.index.builds` knows builds
on disk; `purlin.app.open_builds` serves them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from purlin.index import builds, self_check, storage
from purlin.index.builds import Manifest
from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.errors import InvalidInput, PurlinError, Worse
from purlin.index.indexing import gate
from purlin.index.indexing.gate import Judgements
from purlin.index.pace import Progress
from purlin.index.passages import DEFAULT_SPLITTERS, lexical_text, render, split
from purlin.index.records import Document, Kind, Secondary, Skipped, SourceFile, Splitter
from purlin.index.search import dense, query_log
from purlin.index.search.fusion import HYBRID
from purlin.index.search.lexical import LexicalBuilder
from purlin.index.search.query_log import Logged
from purlin.index.search.store import Store, StoreWriter

_T = TypeVar("_T")

# Passages; bounds memory and the work between two calls of progress.
_ENCODED_TOGETHER = 8192
_DIGEST_BYTES = 16
# Raised when files have to be read again, whatever the versions of their readers.
_READ_VERSION = 2


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a build.

    `dense_weight` None takes the weight tuned for the kind. `log` has earlier queries and the
    documents that they led to. `secondary` and `base_url` are those that the sources were opened
    with; the manifest records them, so that the build can be repeated.
    """

    splitter: Splitter | None = None
    dense_weight: float | None = None
    log: Sequence[Logged] = ()
    secondary: Secondary = "demote"
    base_url: str = ""


def build(
    home: Path,
    name: str,
    kind: Kind,
    sources: Iterable[SourceFile | Skipped],
    encoder: TextEncoder,
    *,
    options: Options | None = None,
    origin: tuple[str, ...] = (),
    progress: Progress | None = None,
    judged: Judgements | None = None,
    force: bool = False,
) -> Manifest:
    """Build corpus `name` and activate it; the old build serves until the last moment.

    `origin` is recorded in the manifest. `progress(stage, done, total)` is called with the stages
    read, encode, log and measure. With `judged`, the build and the active one are measured on the
    same queries. A build that is significantly worse is kept but not activated, and raises Worse,
    unless `force` is set.

    Raises Busy, StorageFailed, and InvalidInput if the sources have no document, no judged document
    exists, or no query of the log leads to a document; nothing is left behind then.
    """
    report = progress or _silent
    with builds.locked(home, name) as directory, builds.staging(directory) as staging_dir:
        with storage.storage_errors():
            builder = _Builder(
                staging_dir, name, kind, encoder, options or Options(), origin, report, judged
            )
            with _previous(home, name, kind) as previous:
                manifest = builder.run(sources, previous)

            if judged is not None:
                active = _active(home, name)
                measuring = partial(report, "measure")
                manifest = gate.measure_build(
                    staging_dir, manifest, encoder, judged, active, measuring
                )
            if force and manifest.judged.get("refused"):
                manifest = replace(manifest, judged={**manifest.judged, "refused": False})

            _activate(directory, builds.publish(staging_dir, manifest), manifest)
    return manifest


def _activate(directory: Path, build_name: str, manifest: Manifest) -> None:
    """Switch to a build, or raise Worse if it was refused."""
    if not manifest.judged.get("refused"):
        builds.switch(directory, build_name)
        return
    builds.remove_oldest(directory, str(manifest.judged["against"]["build"]))
    raise Worse(gate.refusal_message(manifest, build_name))


def _active(home: Path, name: str) -> Path | None:
    """Directory of the active build, or None if it is missing or damaged."""
    try:
        return builds.current(home, name)
    except PurlinError:
        return None


def _silent(stage: str, done: int, total: int | None) -> None:
    pass


class _Previous:
    """The reusable parts of the active build, or nothing."""

    def __init__(
        self,
        store: Store | None = None,
        vectors: NDArray[np.float16] | None = None,
        encoder: str = "",
        directory: Path | None = None,
    ) -> None:
        self.store = store
        self.directory = directory
        self.vectors = vectors
        self.encoder = encoder
        self._comparable: bool | None = None

    def __enter__(self) -> _Previous:
        return self

    def __exit__(self, *_: object) -> None:
        if self.store is not None:
            self.store.close()

    def comparable(self, encoder: TextEncoder) -> bool:
        """Whether the stored vectors are those that `encoder` gives on this machine."""
        # Both passages and logged queries ask; the self-check's texts are encoded once.
        if self._comparable is None:
            self._comparable = self._compare(encoder)
        return self._comparable

    def _compare(self, encoder: TextEncoder) -> bool:
        if self.directory is None or self.encoder != encoder.fingerprint:
            return False

        # The first builds had no self-check.
        if not (self.directory / self_check.SELF_CHECK_FILE).is_file():
            return True
        return self_check.drift(self.directory, encoder) <= self_check.TOLERANCE

    def documents(self, file: SourceFile) -> Iterator[Document | Skipped] | None:
        """Yield what `file` yielded for that build, or return None if it has changed since."""
        if self.store is None:
            return None
        number = self.store.file_number(file.path, _file_digest(file))
        return self.store.read_file(number) if number is not None else None


def _previous(home: Path, name: str, kind: Kind) -> _Previous:
    """Open the active build for reuse.

    If it is missing, damaged or of another kind, nothing is reused and everything is made again.
    """
    try:
        directory = builds.current(home, name)
        manifest = builds.read_manifest(directory)
        builds.verify(directory, manifest)
    except PurlinError:
        return _Previous()
    if manifest.kind != kind:
        return _Previous()

    vectors = np.load(directory / "vectors.npy", mmap_mode="r")
    store = Store(directory / "documents.sqlite", kind)
    return _Previous(store, vectors, manifest.encoder["fingerprint"], directory)


class _Builder:
    """Makes one build in its staging directory."""

    def __init__(
        self,
        staging_dir: Path,
        name: str,
        kind: Kind,
        encoder: TextEncoder,
        options: Options,
        origin: tuple[str, ...],
        progress: Progress,
        judged: Judgements | None,
    ) -> None:
        self._staging_dir, self._name, self._kind = staging_dir, name, kind
        self._encoder, self._options, self._origin = encoder, options, origin
        self._progress, self._judged = progress, judged
        self._splitter: Splitter = options.splitter or DEFAULT_SPLITTERS[kind]

        self._store = StoreWriter(staging_dir / "documents.sqlite")
        self._lexical = LexicalBuilder()
        # Of the rendered text of each passage.
        self._digests: list[bytes] = []
        # Document id -> row.
        self._rows: dict[str, int] = {}
        self._first_skipped: Skipped | None = None

    def run(self, sources: Iterable[SourceFile | Skipped], previous: _Previous) -> Manifest:
        """Write all files of the build, and return its manifest."""
        started = time.monotonic()
        try:
            self._read(sources, previous)
            query_log.check_log(self._options.log, self._rows)
            self._check_judged(previous)
        except BaseException:
            self._store.abandon()
            raise
        self._store.close()

        self._lexical.save(self._staging_dir / "lexical")
        self_check.write_self_check(self._staging_dir, self._encoder)
        reused = self._encode(previous)
        logged = self._write_log(previous) if self._options.log else 0
        measures = dense.build_index(self._staging_dir)
        return self._manifest(reused, logged, time.monotonic() - started, measures)

    def _check_judged(self, previous: _Previous) -> None:
        """Refuse judgements of another corpus before anything is encoded."""
        if self._judged is None:
            return
        # Documents that the build has lost are judged, too.
        before: set[str] = set()
        if previous.store is not None:
            before = previous.store.existing_ids(self._judged.relevant_ids)
        gate.check_judged_documents(self._judged, self._rows.keys() | before)

    # ---- reading

    def _read(self, sources: Iterable[SourceFile | Skipped], previous: _Previous) -> None:
        for source in _readable(sources):
            if isinstance(source, Skipped):
                self._skip(source, None)
                continue

            number = self._store.add_file(source.path, _file_digest(source))
            first_row = self._store.documents
            items = previous.documents(source) or _readable(source.read())
            # Not `any`, which would stop before all items are added.
            if sum(self._add(item, number, first_row) for item in items):
                self._store.outdate(number)

        self._progress("read", self._store.documents, self._store.documents)
        if not self._store.documents:
            raise InvalidInput(self._nothing_message(), field="path")

    def _nothing_message(self) -> str:
        message = f"There is nothing to index for {self._name!r}."
        if first := self._first_skipped:
            message += f" {self._store.skipped} left out, the first: {first.path}: {first.reason}."
        # Names of files that are not UTF-8 hold lone surrogates.
        return message.encode(errors="replace").decode()

    def _skip(self, skipped: Skipped, file: int | None) -> None:
        self._first_skipped = self._first_skipped or skipped
        self._store.add_skipped(skipped, file)

    def _add(self, item: Document | Skipped, file: int, first_row: int) -> bool:
        """Add an item of a file whose documents begin at `first_row`.

        Returns whether the file may yield something else next time though it is unchanged: after a
        failure that is `passing`, or if another file has the same id, which it may lose.
        """
        if isinstance(item, Skipped):
            self._skip(item, file)
            return item.passing

        path = item.location.path
        if (duplicate := self._rows.get(item.id)) is not None:
            reason = f"the id {item.id[:200]!r} exists already"
            self._skip(Skipped(path or item.id, reason), file)
            return duplicate < first_row

        row = self._store.documents
        try:
            self._add_document(item, file)
        except UnicodeEncodeError:
            self._skip(Skipped(path or ascii(item.id), "its text is not valid Unicode"), file)
        else:
            self._rows[item.id] = row
        return False

    def _add_document(self, document: Document, file: int) -> None:
        passages = split(document, self._splitter)
        digests = [_digest(render(document, passage)) for passage in passages]
        self._store.add(document, file, zip(passages, digests, strict=True))
        self._digests.extend(digests)

        for passage in passages:
            self._lexical.add(lexical_text(document, passage))
        # The total is unknown while the sources are read.
        if self._store.documents % 256 == 0:
            self._progress("read", self._store.documents, None)

    # ---- encoding

    def _encode(self, previous: _Previous) -> int:
        """Write `vectors.npy`, a block at a time; returns how many rows were reused.

        The file is not memory-mapped: on a full disk, writing to a mapping kills the process.
        """
        reusable = self._reusable_rows(previous)
        missing = int((reusable < 0).sum())
        store = Store(self._staging_dir / "documents.sqlite", self._kind)
        shape = (len(reusable), self._encoder.dim)
        header = {"descr": "<f2", "fortran_order": False, "shape": shape}
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self._progress("encode", done, missing)

        try:
            with (self._staging_dir / "vectors.npy").open("wb") as file:
                np.lib.format.write_array_header_1_0(file, header)
                for start in range(0, len(reusable), _ENCODED_TOGETHER):
                    block = reusable[start : start + _ENCODED_TOGETHER]
                    vectors = self._vectors(start, block, previous, store, advance)
                    file.write(vectors.tobytes())
        finally:
            store.close()
        return len(reusable) - missing

    def _reusable_rows(self, previous: _Previous) -> NDArray[np.int64]:
        """For each passage, the row of the previous build with the same rendered text, or -1."""
        if (
            previous.store is None
            or previous.vectors is None
            or not previous.comparable(self._encoder)
        ):
            return np.full(len(self._digests), -1, dtype=np.int64)

        rows = previous.store.digests()
        return np.array([rows.get(digest, -1) for digest in self._digests], dtype=np.int64)

    def _vectors(
        self,
        start: int,
        reusable: NDArray[np.int64],
        previous: _Previous,
        store: Store,
        advance: Callable[[int], None],
    ) -> NDArray[np.float16]:
        """Vectors of the passages from row `start` on, reused or encoded."""
        vectors = np.empty((len(reusable), self._encoder.dim), dtype=np.float16)
        reused, missing = np.flatnonzero(reusable >= 0), np.flatnonzero(reusable < 0)

        if len(reused) and previous.vectors is not None:
            vectors[reused] = previous.vectors[reusable[reused]]
        if len(missing):
            stored = store.fetch((start + missing).tolist())
            texts = [render(item.document, item.passage) for item in stored]
            vectors[missing] = self._encoder.encode(texts, role="passage", progress=advance)
        return vectors

    def _write_log(self, previous: _Previous) -> int:
        """Write the query log; returns how many of its queries lead to a document."""
        cached: Mapping[str, Vectors] = {}
        if previous.directory is not None and previous.comparable(self._encoder):
            cached = query_log.logged_vectors(previous.directory)

        progress = partial(self._progress, "log")
        return query_log.write_log(
            self._staging_dir, self._options.log, self._rows, self._encoder, cached, progress
        )

    def _manifest(
        self, reused: int, logged: int, took_s: float, measures: dict[str, float]
    ) -> Manifest:
        weight = self._options.dense_weight
        created_at = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
        return Manifest(
            name=self._name,
            kind=self._kind,
            created_at=f"{created_at}Z",
            encoder={
                "name": self._encoder.name,
                "fingerprint": self._encoder.fingerprint,
                "dim": self._encoder.dim,
            },
            documents=self._store.documents,
            passages=len(self._digests),
            skipped=self._store.skipped,
            splitter=self._splitter,
            dense_weight=HYBRID[self._kind].dense_weight if weight is None else weight,
            lexical_power=HYBRID[self._kind].lexical_power,
            demote=self._options.secondary == "demote",
            logged=logged,
            sources=self._origin,
            secondary=self._options.secondary,
            base_url=self._options.base_url,
            reused=reused,
            took_s=round(took_s, 3),
            measures=measures,
            files=builds.checksums(self._staging_dir),
        )


def _readable(items: Iterable[_T]) -> Iterator[_T]:
    """Yield the items of a source; raises InvalidInput if it cannot be read.

    So such an error is not mistaken for one of PURLIN_HOME's disk.
    """
    try:
        yield from items
    except OSError as error:
        raise InvalidInput(
            f"The sources cannot be read ({error}). Make sure that they exist and are readable.",
            field="path",
        ) from error


def _file_digest(file: SourceFile) -> str:
    return f"{_READ_VERSION} {file.digest}"


def _digest(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
