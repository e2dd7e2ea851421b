"""Makes a build of a corpus from sources, and activates it.

A build takes over what the active one has: whole segments if few files have changed, and otherwise
the documents, term counts and vectors of unchanged files. `purlin.index.builds` knows builds on
disk; `purlin.app.open_builds` serves them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index import builds, self_check, storage
from purlin.index.builds import Manifest
from purlin.index.encoder import TextEncoder, Vectors
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
            with Earlier.open(home, name, kind) as earlier:
                manifest = builder.run(sources, earlier)

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


def known_digests(home: Path, name: str) -> Mapping[str, tuple[Stamp, str]]:
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

    def run(self, sources: Iterable[SourceFile | Skipped], earlier: Earlier) -> Manifest:
        """Write all files of the build, and return its manifest."""
        started = time.monotonic()
        reader = Reader(self._staging_dir, self._splitter, earlier, self._progress)
        listing = reader.read(sources, self._encoder)
        listing.save(self._staging_dir)
        linked = self._link(reader.kept, earlier)

        names = (BASE, DELTA)[: reader.kept + (reader.writer is not None)]
        stores = [Store(self._staging_dir / name, self._kind) for name in names]
        try:
            content = self._content(reader, listing, stores)
            self._check_judged(content.documents, earlier)
            reused, measures = self._write_vectors(reader, stores, content, earlier)
            logged = self._write_log(content.documents, earlier) if self._options.log else 0
        finally:
            for store in stores:
                store.close()

        self_check.write_self_check(self._staging_dir, self._encoder)
        counts = {
            "documents": content.documents.count,
            "passages": content.passages,
            "skipped": content.skipped,
            "logged": logged,
            "reused": reused,
        }
        return self._manifest(names, counts, time.monotonic() - started, measures, linked)

    def _link(self, kept: int, earlier: Earlier) -> dict[str, Mapping[str, Any]]:
        """Link the files of the segments that stay; returns their entries in the manifest."""
        linked: dict[str, Mapping[str, Any]] = {}
        if not kept or earlier.manifest is None or earlier.directory is None:
            return linked

        with_vectors = earlier.comparable(self._encoder)
        for name, details in earlier.manifest.files.items():
            segment, _, file = name.partition("/")
            if segment in (BASE, DELTA)[:kept] and (with_vectors or file not in VECTOR_FILES):
                builds.link(earlier.directory / name, self._staging_dir / name)
                linked[name] = details
        return linked

    def _content(self, reader: Reader, listing: Listing, stores: Sequence[Store]) -> _Content:
        """Write the order of the passages and the fields; raises InvalidInput without documents."""
        skipped = len(segments.left_out(listing, stores))
        if not stores:
            raise InvalidInput(self._nothing_message(reader, skipped), field="path")

        order = segments.order_of([(file.segment, file.number) for file in listing.files], stores)
        live = None
        if order is not None:
            np.save(self._staging_dir / segments.ORDER_FILE, order)
            live = order >= 0

        documents = Documents(stores, segments.field_types(stores, live), live)
        segments.write_fields(self._staging_dir, documents.numeric)
        self._progress("read", documents.count, documents.count)
        if not documents.count:
            raise InvalidInput(self._nothing_message(reader, skipped), field="path")

        self._check_log(documents)
        return _Content(documents, live, skipped)

    def _nothing_message(self, reader: Reader, skipped: int) -> str:
        message = f"There is nothing to index for {self._name!r}."
        if first := reader.first_skipped:
            message += f" {skipped} left out, the first: {first.path}: {first.reason}."
        # Names of files that are not UTF-8 hold lone surrogates.
        return message.encode(errors="replace").decode()

    def _check_log(self, documents: Documents) -> None:
        log = self._options.log
        query_log.check_log(log, documents.rows_of({logged.document for logged in log}))

    def _check_judged(self, documents: Documents, earlier: Earlier) -> None:
        """Refuse judgements of another corpus before anything is encoded."""
        if self._judged is None:
            return
        # Documents that the build has lost are judged, too.
        relevant = self._judged.relevant_ids
        available = documents.rows_of(relevant).keys() | earlier.existing_ids(relevant)
        gate.check_judged_documents(self._judged, available)

    def _write_vectors(
        self, reader: Reader, stores: Sequence[Store], content: _Content, earlier: Earlier
    ) -> tuple[int, dict[str, float]]:
        """Write the vectors of new segments; returns how many were reused, and the measures."""
        comparable = earlier.comparable(self._encoder)
        # For each passage, the row of the earlier build that has its vector, or -1.
        reusable = [
            np.arange(start, start + len(store.document_of))
            if comparable
            else np.full(len(store.document_of), -1)
            for store, start in zip(stores[: reader.kept], earlier.starts, strict=False)
        ]
        if reader.writer is not None:
            reusable.append(reader.writer.reusable(stores[reader.kept], self._encoder))
        missing = sum(int((rows < 0).sum()) for rows in reusable)
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self._progress("encode", done, missing)

        measures = dict(earlier.manifest.measures) if earlier.manifest is not None else {}
        recall = measures.get(_RECALL, 1.0)
        for number in range(reader.kept if comparable else 0, len(stores)):
            directory = self._staging_dir / (BASE, DELTA)[number]
            measured = write_vectors(
                directory, stores[number], self._encoder, earlier, reusable[number], advance
            )
            # That of a delta is always 1.
            recall = measured if number == 0 else recall

        encoded = np.concatenate(reusable) < 0
        live = encoded if content.live is None else encoded & content.live
        return content.passages - int(np.count_nonzero(live)), {_RECALL: recall}

    def _write_log(self, documents: Documents, earlier: Earlier) -> int:
        """Write the query log; returns how many of its queries lead to a document."""
        cached: Mapping[str, Vectors] = {}
        if earlier.directory is not None and earlier.comparable(self._encoder):
            cached = query_log.logged_vectors(earlier.directory)

        log = self._options.log
        rows = documents.rows_of({logged.document for logged in log})
        progress = partial(self._progress, "log")
        return query_log.write_log(self._staging_dir, log, rows, self._encoder, cached, progress)

    def _manifest(
        self,
        names: tuple[str, ...],
        counts: Mapping[str, Any],
        took_s: float,
        measures: dict[str, float],
        linked: Mapping[str, Mapping[str, Any]],
    ) -> Manifest:
        weight = self._options.dense_weight
        fusion = HYBRID[self._encoder.architecture, self._kind]
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
            splitter=self._splitter,
            dense_weight=fusion.dense_weight if weight is None else weight,
            lexical_power=fusion.lexical_power,
            segments=names,
            texts=TEXTS_VERSION,
            demote=self._options.secondary == "demote",
            sources=self._origin,
            secondary=self._options.secondary,
            base_url=self._options.base_url,
            took_s=round(took_s, 3),
            measures=measures,
            files=builds.checksums(self._staging_dir, linked),
            **counts,
        )


@dataclass(frozen=True, slots=True)
class _Content:
    """What a build holds. `live` (rows,) is false for passages that were removed since."""

    documents: Documents
    live: NDArray[np.bool_] | None
    skipped: int

    @property
    def passages(self) -> int:
        """Number of passages, without those that were removed."""
        if self.live is None:
            return len(self.documents.document_of)
        return int(np.count_nonzero(self.live))
