"""Makes a build of a corpus from sources, and activates it.

A build takes over what the active one has: whole segments if few files have changed, and otherwise
the documents, term counts and vectors of unchanged files. `purlin.index.builds` knows builds on
disk; `purlin.app.open_builds` serves them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index import builds, self_check, storage
from purlin.index.builds import Manifest
from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.engines import hosting
from purlin.index.engines.milvus import Connection
from purlin.index.errors import InvalidInput, PurlinError, Worse
from purlin.index.indexing import gate
from purlin.index.indexing.earlier import Earlier
from purlin.index.indexing.gate import Judgements
from purlin.index.indexing.reading import Reader
from purlin.index.indexing.segment import write_vectors
from purlin.index.pace import Progress
from purlin.index.passages import DEFAULT_SPLITTERS, TEXTS_VERSION
from purlin.index.records import Kind, Secondary, Skipped, SourceFile, Splitter, Stamp
from purlin.index.search import query_log, segments
from purlin.index.search.fusion import HYBRID
from purlin.index.search.listing import Listing, read_listing
from purlin.index.search.query_log import Logged
from purlin.index.search.segments import BASE, DELTA, VECTOR_FILES
from purlin.index.search.store import Documents, Store

# Fewer passages are encoded so soon that nobody waits for an interim build.
INTERIM_PASSAGES = 500
_RECALL = "dense recall@100"


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
    interim: TextEncoder | None = None,
    durable: bool = True,
    engine: Connection | None = None,
) -> Manifest:
    """Build corpus `name` and activate it; the old build serves until the last moment.

    `origin` is recorded in the manifest. `progress(stage, done, total)` is called with the stages
    read, interim, encode, log, measure and store. With `judged`, the build and the active one are measured
    on the same queries. A build that is significantly worse is kept but not activated, and raises
    Worse, unless `force` is set.

    If nothing serves the corpus yet, a build with the vectors of the faster encoder `interim` does
    as soon as the sources are read, until those of `encoder` are there. After a crash it stays, and
    the next call goes on from it.

    A build that is not `durable` is not flushed to disk, which takes as long as all the rest of a
    small one. If the machine fails soon after, it may be damaged, and has to be made again.

    With `engine`, the documents go there, and all are read and encoded; there is no interim build.

    Raises Busy, EngineFailed, StorageFailed, and InvalidInput if the sources have no document, no judged document
    exists, or no query of the log leads to a document; nothing is left behind then.
    """
    report = progress or _silent
    plan = _Plan(home, name, kind, options or Options(), origin, report, judged, durable, engine)
    with builds.locked(home, name) as directory:
        serves_early = (
            interim is not None
            and engine is None
            and interim.fingerprint != encoder.fingerprint
            and name not in builds.corpora(home)
        )
        with builds.staging(directory) as staging_dir, storage.storage_errors():
            with Earlier() if engine else Earlier.open(home, name, kind) as earlier:
                builder = _Builder(plan, staging_dir, earlier)
                builder.read(sources, encoder)
                if interim is None or not serves_early or builder.passages < INTERIM_PASSAGES:
                    return _finish(plan, builder, encoder, force)
                manifest = builder.finish(interim, "interim")
            build_name = builds.publish(staging_dir, manifest, durable=durable)
            builds.switch(directory, build_name, durable=durable)

        with builds.staging(directory) as staging_dir, storage.storage_errors():
            with Earlier.open(home, name, kind) as earlier:
                builder = _Builder(plan, staging_dir, earlier)
                builder.keep_all()
                return _finish(plan, builder, encoder, force)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be built, apart from the encoder."""

    home: Path
    name: str
    kind: Kind
    options: Options
    origin: tuple[str, ...]
    progress: Progress
    judged: Judgements | None
    durable: bool
    engine: Connection | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def splitter(self) -> Splitter:
        """How bodies become passages."""
        return self.options.splitter or DEFAULT_SPLITTERS[self.kind]


def _finish(plan: _Plan, builder: _Builder, encoder: TextEncoder, force: bool) -> Manifest:
    """Encode, measure, publish and activate what was read; raises Worse if it was refused."""
    manifest = builder.finish(encoder)
    if plan.judged is not None:
        active = _active(plan.home, plan.name)
        measuring = partial(plan.progress, "measure")
        manifest = gate.measure_build(
            builder.directory, manifest, encoder, plan.judged, active, measuring
        )
    if force and manifest.judged.get("refused"):
        manifest = replace(manifest, judged={**manifest.judged, "refused": False})

    if plan.engine is not None:
        storing = partial(plan.progress, "store")
        manifest = hosting.move(plan.engine, builder.directory, manifest, storing)
    directory = builder.directory.parent
    build_name = builds.publish(builder.directory, manifest, durable=plan.durable)
    if plan.engine is not None:
        refused = bool(manifest.judged.get("refused"))
        hosting.finish(plan.engine, manifest, build_name, active=not refused)
    _activate(directory, build_name, manifest, plan.durable)
    return manifest


def _activate(directory: Path, build_name: str, manifest: Manifest, durable: bool) -> None:
    """Switch to a build, or raise Worse if it was refused."""
    if not manifest.judged.get("refused"):
        builds.switch(directory, build_name, durable=durable)
        builds.remove_interim(directory, build_name)
        return
    builds.remove_oldest(directory, str(manifest.judged["against"]["build"]))
    raise Worse(gate.refusal_message(manifest, build_name))


def _active(home: Path, name: str) -> Path | None:
    """Directory of the active build; None if it is missing or an interim one."""
    try:
        directory = builds.current(home, name)
    except PurlinError:
        return None
    with contextlib.suppress(PurlinError):
        if builds.read_manifest(directory).interim:
            return None
    return directory


def _silent(stage: str, done: int, total: int | None) -> None:
    pass


def file_digests(home: Path, name: str) -> Mapping[str, tuple[Stamp, str]]:
    """Stamps and digests of the active build's files, for `open_source`; empty without a build."""
    try:
        directory = builds.current(home, name)
        manifest = builds.read_manifest(directory)
        listing = read_listing(directory, builds.Files(directory, manifest).read)
    except PurlinError:
        return {}
    return listing.digests()


class _Builder:
    """Makes one build in its staging directory."""

    def __init__(self, plan: _Plan, staging_dir: Path, earlier: Earlier) -> None:
        self.directory = staging_dir
        self._plan, self._earlier = plan, earlier
        self._reader = Reader(staging_dir, plan.splitter, earlier, plan.progress)
        self._content = _Content()
        # Entries of the manifest that hold for linked files.
        self._linked: dict[str, Mapping[str, Any]] = {}

    @property
    def passages(self) -> int:
        """Number of passages of the build."""
        return self._content.passages

    def read(self, sources: Iterable[SourceFile | Skipped], encoder: TextEncoder) -> None:
        """Write the documents and postings of all sources."""
        self._describe(self._reader.read(sources, encoder))
        self._plan.progress("read", self._content.documents, self._content.documents)

    def keep_all(self) -> None:
        """Take over the documents and postings of the earlier build as they are."""
        self._reader.kept = len(self._earlier.segments)
        self._describe(self._earlier.listing)

    def finish(self, encoder: TextEncoder, stage: str = "encode") -> Manifest:
        """Write the vectors and everything else of the encoder, and return the manifest."""
        content = self._content
        with self._stores() as stores:
            reused, recall = self._write_vectors(stores, encoder, stage)
            documents = Documents(stores, content.numeric, content.live)
            logged = self._write_log(documents, encoder) if self._plan.options.log else 0

        self_check.write_self_check(self.directory, encoder)
        values = {
            "documents": content.documents,
            "passages": content.passages,
            "skipped": content.skipped,
            "logged": logged,
            "reused": reused,
            "interim": stage == "interim",
            "measures": {_RECALL: recall},
        }
        return self._manifest(encoder, values)

    # ---- documents

    @property
    def _names(self) -> tuple[str, ...]:
        return (BASE, DELTA)[: self._reader.kept + (self._reader.writer is not None)]

    @contextlib.contextmanager
    def _stores(self) -> Iterator[list[Store]]:
        """Open the documents of all segments."""
        stores = [Store(self.directory / name, self._plan.kind) for name in self._names]
        try:
            yield stores
        finally:
            for store in stores:
                store.close()

    def _describe(self, listing: Listing) -> None:
        """Link what stays, and write what belongs to all segments; checks log and judgements.

        Raises InvalidInput without documents.
        """
        self._link(lambda file: file not in VECTOR_FILES)
        listing.save(self.directory)
        with self._stores() as stores:
            skipped = len(segments.left_out(listing, stores))
            if not stores:
                raise InvalidInput(self._nothing_message(skipped), field="path")

            numbers = [(file.segment, file.number) for file in listing.files]
            order = segments.order_of(numbers, stores)
            live = None if order is None else order >= 0
            if order is not None:
                np.save(self.directory / segments.ORDER_FILE, order)
            numeric = segments.field_types(stores, live)
            segments.write_fields(self.directory, numeric)

            documents = Documents(stores, numeric, live)
            rows = len(documents.document_of)
            self._content = _Content(numeric, live, rows, documents.count, skipped)
            if not documents.count:
                raise InvalidInput(self._nothing_message(skipped), field="path")
            self._check_options(documents)

    def _link(self, is_linked: Callable[[str], bool]) -> None:
        """Link those files of the segments that stay which `is_linked` names."""
        manifest, directory = self._earlier.manifest, self._earlier.directory
        if manifest is None or directory is None:
            return
        for name, details in manifest.files.items():
            segment, _, file = name.partition("/")
            if segment in (BASE, DELTA)[: self._reader.kept] and is_linked(file):
                builds.link(directory / name, self.directory / name)
                self._linked[name] = details

    def _nothing_message(self, skipped: int) -> str:
        message = f"There is nothing to index for {self._plan.name!r}."
        if first := self._reader.first_skipped:
            message += f" {skipped} left out, the first: {first.path}: {first.reason}."
        # Names of files that are not UTF-8 hold lone surrogates.
        return message.encode(errors="replace").decode()

    def _check_options(self, documents: Documents) -> None:
        """Refuse a log or judgements of another corpus before anything is encoded."""
        log = self._plan.options.log
        query_log.check_log(log, documents.rows_of({logged.document for logged in log}))

        if self._plan.judged is not None:
            # Documents that the build has lost are judged, too.
            relevant = self._plan.judged.relevant_ids
            available = documents.rows_of(relevant).keys() | self._earlier.existing_ids(relevant)
            gate.check_judged_documents(self._plan.judged, available)

    # ---- vectors

    def _write_vectors(
        self, stores: Sequence[Store], encoder: TextEncoder, stage: str
    ) -> tuple[int, float]:
        """Write the vectors; returns how many were reused, and the recall of their index."""
        kept, comparable = self._reader.kept, self._earlier.comparable(encoder)
        if comparable:
            self._link(lambda file: file in VECTOR_FILES)

        reusable = self._reusable(stores, encoder)
        missing = sum(int((rows < 0).sum()) for rows in reusable)
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self._plan.progress(stage, done, missing)

        manifest = self._earlier.manifest
        recall = float(manifest.measures[_RECALL]) if kept and manifest is not None else 1.0
        for number in range(kept if comparable else 0, len(stores)):
            is_new = number == kept
            measured = write_vectors(
                self.directory / self._names[number],
                stores[number],
                encoder,
                self._earlier,
                reusable[number],
                self._reader.writer.texts if is_new and self._reader.writer is not None else {},
                advance,
            )
            # That of a delta is always 1.
            recall = measured if number == 0 else recall

        encoded = np.concatenate(reusable) < 0
        live = encoded if self._content.live is None else encoded & self._content.live
        return self.passages - int(np.count_nonzero(live)), recall

    def _reusable(self, stores: Sequence[Store], encoder: TextEncoder) -> list[NDArray[np.int64]]:
        """For each passage of each segment, the row of the earlier build with its vector, or -1."""
        kept = self._reader.kept
        reusable = [
            np.arange(start, start + len(store.document_of))
            for store, start in zip(stores[:kept], self._earlier.starts, strict=False)
        ]
        if not self._earlier.comparable(encoder):
            reusable = [np.full(len(rows), -1) for rows in reusable]
        if self._reader.writer is not None:
            reusable.append(self._reader.writer.reusable(stores[kept], encoder))
        return reusable

    def _write_log(self, documents: Documents, encoder: TextEncoder) -> int:
        """Write the query log; returns how many of its queries lead to a document."""
        cached: Mapping[str, Vectors] = {}
        if self._earlier.directory is not None and self._earlier.comparable(encoder):
            cached = query_log.logged_vectors(self._earlier.directory)

        log = self._plan.options.log
        rows = documents.rows_of({logged.document for logged in log})
        progress = partial(self._plan.progress, "log")
        return query_log.write_log(self.directory, log, rows, encoder, cached, progress)

    def _manifest(self, encoder: TextEncoder, values: Mapping[str, Any]) -> Manifest:
        plan, options = self._plan, self._plan.options
        created_at = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
        fusion = HYBRID[encoder.architecture, plan.kind]
        weight = options.dense_weight
        return Manifest(
            name=plan.name,
            kind=plan.kind,
            created_at=f"{created_at}Z",
            encoder={
                "name": encoder.name,
                "fingerprint": encoder.fingerprint,
                "dim": encoder.dim,
            },
            splitter=plan.splitter,
            dense_weight=fusion.dense_weight if weight is None else weight,
            lexical_power=fusion.lexical_power,
            segments=self._names,
            texts=TEXTS_VERSION,
            demote=options.secondary == "demote",
            sources=plan.origin,
            secondary=options.secondary,
            base_url=options.base_url,
            took_s=round(time.monotonic() - plan.started, 3),
            files=builds.checksums(self.directory, self._linked),
            **values,
        )


@dataclass(frozen=True, slots=True)
class _Content:
    """What a build holds.

    `numeric` maps each field to whether any of its values is a number. `live` (rows,) is false for
    passages that were removed since their segment was written; None means that there are none.
    """

    numeric: Mapping[str, bool] = field(default_factory=dict)
    live: NDArray[np.bool_] | None = None
    rows: int = 0
    documents: int = 0
    skipped: int = 0

    @property
    def passages(self) -> int:
        """Number of passages, without those that were removed."""
        return self.rows if self.live is None else int(np.count_nonzero(self.live))
