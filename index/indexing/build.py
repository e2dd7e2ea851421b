"""Sources -> a finished, active build. What the active build already has is taken over, not read or encoded again."""

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

from index import builds, self_check, storage
from index.builds import Manifest
from index.encoder import TextEncoder, Vectors
from index.errors import InvalidInput, PurlinError, Worse
from index.indexing import gate
from index.indexing.gate import Judgements
from index.passages import DEFAULT_SPLITTERS, lexical_text, render, split
from index.records import Document, Kind, Skipped, SourceFile, Splitter
from index.search import dense, query_log
from index.search.fusion import HYBRID
from index.search.lexical import LexicalBuilder
from index.search.query_log import Logged
from index.search.store import Store, StoreWriter

_T = TypeVar("_T")
Progress = Callable[[str, int, int | None], None]
_ENCODED_TOGETHER = 8192  # passages; bounds memory and the work between two lines of progress
_DIGEST_BYTES = 16
_READ = 2  # goes up when files have to be read anew, whatever their readers' versions


@dataclass(frozen=True, slots=True)
class Options:
    """How a corpus is built, besides from what. `dense_weight` None takes the weight tuned for the kind; `log` are
    earlier queries that find their documents, too.
    """

    splitter: Splitter | None = None
    dense_weight: float | None = None
    demote: bool = True
    log: Sequence[Logged] = ()


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
    """Build corpus `name` and make it the active one; the old one serves until the last moment.

    `origin` is noted in the manifest. `progress(stage, done, total)` is called with stages read, encode, log, measure.
    With `judged`, the build and the active one are measured on the same queries, and a build that is worse beyond its
    interval is kept but not activated, unless forced: that raises Worse. Raises Busy, StorageFailed, and InvalidInput
    if the sources yield no document, no build has one that is judged, or the log leads to none; nothing is left
    behind then.
    """
    tell = progress or _silent
    with builds.locked(home, name) as directory, builds.staging(directory) as made:
        with storage.storage_errors():
            making = _Making(made, name, kind, encoder, options or Options(), origin, tell, judged)
            with _previous(home, name, kind) as previous:
                manifest = making.run(sources, previous)
            if judged is not None:
                active = _active(home, name)
                manifest = gate.measured(
                    made, manifest, encoder, judged, active, partial(tell, "measure")
                )
            if force and manifest.judged.get("refused"):
                manifest = replace(manifest, judged={**manifest.judged, "refused": False})
            _activate(directory, builds.publish(made, manifest), manifest)
    return manifest


def _activate(directory: Path, built: str, manifest: Manifest) -> None:
    """Switch to a build, or keep it where it is and raise Worse."""
    if not manifest.judged.get("refused"):
        builds.switch(directory, built)
        return
    builds.remove_oldest(directory, str(manifest.judged["against"]["build"]))
    raise Worse(gate.refusal(manifest, built))


def _active(home: Path, name: str) -> Path | None:
    """The build to compare with; a damaged one cannot be."""
    try:
        return builds.current(home, name)
    except PurlinError:
        return None


def _silent(stage: str, done: int, total: int | None) -> None:
    pass


class _Previous:
    """The active build, as far as it can be taken over from; may be nothing."""

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

    def __enter__(self) -> _Previous:
        return self

    def __exit__(self, *_: object) -> None:
        if self.store is not None:
            self.store.close()

    def comparable(self, encoder: TextEncoder) -> bool:
        """Whether its vectors are those that `encoder` gives on this machine."""
        if self.directory is None or self.encoder != encoder.fingerprint:
            return False
        if not (self.directory / self_check.SELF_CHECK_FILE).is_file():
            return True  # made before builds had a self-check
        return self_check.drift(self.directory, encoder) <= self_check.TOLERANCE

    def documents(self, file: SourceFile) -> Iterator[Document | Skipped] | None:
        """What reading `file` yielded then, if it is unchanged."""
        number = (
            self.store.file_number(file.path, _read_as(file)) if self.store is not None else None
        )
        return (
            self.store.read_file(number) if self.store is not None and number is not None else None
        )


def _previous(home: Path, name: str, kind: Kind) -> _Previous:
    """Open what can be reused. A missing or damaged build only means that everything is made anew."""
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


class _Making:
    """One build in progress, in its staging directory."""

    def __init__(
        self,
        made: Path,
        name: str,
        kind: Kind,
        encoder: TextEncoder,
        options: Options,
        origin: tuple[str, ...],
        progress: Progress,
        judged: Judgements | None,
    ) -> None:
        self._judged = judged
        self._made, self._name, self._kind = made, name, kind
        self._encoder, self._options, self._origin, self._progress = (
            encoder,
            options,
            origin,
            progress,
        )
        self._splitter: Splitter = options.splitter or DEFAULT_SPLITTERS[kind]
        self._store = StoreWriter(made / "documents.sqlite")
        self._lexical = LexicalBuilder()
        self._digests: list[bytes] = []
        self._rows: dict[str, int] = {}  # of documents, by id
        self._first_skipped: Skipped | None = None

    def run(self, sources: Iterable[SourceFile | Skipped], previous: _Previous) -> Manifest:
        started = time.monotonic()
        try:
            self._read(sources, previous)
            query_log.check_log(self._options.log, self._rows)
            if self._judged is not None:
                before = (
                    previous.store.existing_ids(self._judged.relevant)
                    if previous.store is not None
                    else set()
                )
                gate.check_known(self._judged, self._rows.keys() | before)
        except BaseException:
            self._store.abandon()
            raise
        self._store.close()
        self._lexical.save(self._made / "lexical")
        self_check.write_self_check(self._made, self._encoder)
        reused = self._encode(previous)
        logged = self._save_log(previous) if self._options.log else 0
        measures = dense.build_index(self._made)
        return self._manifest(reused, logged, time.monotonic() - started, measures)

    # ---- reading

    def _read(self, sources: Iterable[SourceFile | Skipped], previous: _Previous) -> None:
        for source in _readable(sources):
            if isinstance(source, Skipped):
                self._skip(source, None)
                continue
            number, row = self._store.add_file(source.path, _read_as(source)), self._store.documents
            items = previous.documents(source) or _readable(source.read())
            if sum(self._add(item, number, row) for item in items):
                self._store.outdate(number)
        self._progress("read", self._store.documents, self._store.documents)
        if not self._store.documents:
            first = self._first_skipped
            why = (
                f" {self._store.skipped} left out, the first: {first.path}: {first.reason}."
                if first
                else ""
            )
            said = f"There is nothing to index for {self._name!r}.{why}".encode(
                errors="replace"
            ).decode()
            raise InvalidInput(said, field="path")

    def _skip(self, skipped: Skipped, file: int | None) -> None:
        self._first_skipped = self._first_skipped or skipped
        self._store.add_skipped(skipped, file)

    def _add(self, item: Document | Skipped, file: int, first: int) -> bool:
        """Keep what a file yielded whose documents begin at row `first`.

        True if the file may yield something else though it is unchanged: a failure that passes, an id that is only
        taken as long as another file has it.
        """
        if isinstance(item, Skipped):
            self._skip(item, file)
            return item.passing
        if (taken := self._rows.get(item.id)) is not None:
            self._skip(
                Skipped(
                    item.location.path or item.id, f"the id {item.id[:200]!r} is there already"
                ),
                file,
            )
            return taken < first
        row = self._store.documents
        try:
            self._add_document(item, file)
        except UnicodeEncodeError:
            self._skip(
                Skipped(
                    item.location.path or ascii(item.id), "its text holds half a surrogate pair"
                ),
                file,
            )
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
        if self._store.documents % 256 == 0:
            self._progress("read", self._store.documents, None)

    # ---- encoding

    def _encode(self, previous: _Previous) -> int:
        """Write `vectors.npy`, a block at a time; returns how many rows were taken over.

        Not through a map of the file: where the disk is full, writing to one ends the process.
        """
        taken = self._taken(previous)
        missing = int((taken < 0).sum())
        store = Store(self._made / "documents.sqlite", self._kind)
        about = {"descr": "<f2", "fortran_order": False, "shape": (len(taken), self._encoder.dim)}
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            self._progress("encode", done, missing)

        try:
            with (self._made / "vectors.npy").open("wb") as file:
                np.lib.format.write_array_header_1_0(file, about)
                for start in range(0, len(taken), _ENCODED_TOGETHER):
                    block = taken[start : start + _ENCODED_TOGETHER]
                    file.write(self._vectors(start, block, previous, store, advance).tobytes())
        finally:
            store.close()
        return len(taken) - missing

    def _taken(self, previous: _Previous) -> NDArray[np.int64]:
        """For each passage the row of the previous build's vectors that reads the same, or -1."""
        if (
            previous.store is None
            or previous.vectors is None
            or not previous.comparable(self._encoder)
        ):
            return np.full(len(self._digests), -1, dtype=np.int64)
        known = previous.store.digests()
        return np.array([known.get(digest, -1) for digest in self._digests], dtype=np.int64)

    def _vectors(
        self,
        start: int,
        taken: NDArray[np.int64],
        previous: _Previous,
        store: Store,
        advance: Callable[[int], None],
    ) -> NDArray[np.float16]:
        """Vectors of the passages from row `start` on, taken over or encoded."""
        vectors = np.empty((len(taken), self._encoder.dim), dtype=np.float16)
        known, missing = np.flatnonzero(taken >= 0), np.flatnonzero(taken < 0)
        if len(known) and previous.vectors is not None:
            vectors[known] = previous.vectors[taken[known]]
        if len(missing):
            texts = [
                render(one.document, one.passage) for one in store.fetch((start + missing).tolist())
            ]
            vectors[missing] = self._encoder.encode(texts, role="passage", progress=advance)
        return vectors

    def _save_log(self, previous: _Previous) -> int:
        """Write the query log; returns how many of its queries lead to a document."""
        known: Mapping[str, Vectors] = {}
        if previous.directory is not None and previous.comparable(self._encoder):
            known = query_log.logged_vectors(previous.directory)
        progress = partial(self._progress, "log")
        return query_log.write_log(
            self._made, self._options.log, self._rows, self._encoder, known, progress
        )

    def _manifest(
        self, reused: int, logged: int, took_s: float, measures: dict[str, float]
    ) -> Manifest:
        weight = self._options.dense_weight
        return Manifest(
            name=self._name,
            kind=self._kind,
            created_at=f"{datetime.now(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z",
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
            demote=self._options.demote,
            logged=logged,
            sources=self._origin,
            reused=reused,
            took_s=round(took_s, 3),
            measures=measures,
            files=builds.checksums(self._made),
        )


def _readable(items: Iterable[_T]) -> Iterator[_T]:
    """The items of a source; that it cannot be read is told apart from a home that cannot be written to."""
    try:
        yield from items
    except OSError as error:
        raise InvalidInput(
            f"The sources cannot be read ({error}). Make sure that they are there and that you may read them.",
            field="path",
        ) from error


def _read_as(file: SourceFile) -> str:
    return f"{_READ} {file.digest}"


def _digest(text: str) -> bytes:
    return hashlib.blake2b(
        text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES
    ).digest()
