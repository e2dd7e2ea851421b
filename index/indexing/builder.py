"""One build of a corpus in its staging directory, from what is to be built to its manifest."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from purlin.index import builds, storage, versions
from purlin.index.builds import build_files
from purlin.index.builds.manifests import Manifest
from purlin.index.builds.remarks import (
    MOST_COLUMNS,
    MOST_PLACES,
    REMARKS_FILE,
    LeftOut,
    Remarks,
    column_changes,
    shown,
    summarised,
)
from purlin.index.cpus import available_cpus
from purlin.index.encoder import TextEncoder, Vectors, self_check
from purlin.index.engines.milvus import Connection
from purlin.index.errors import InvalidInput, Worse
from purlin.index.indexing import gate
from purlin.index.indexing.ahead import MOST_PROCESSES
from purlin.index.indexing.earlier import Earlier
from purlin.index.indexing.encoding import Encoding
from purlin.index.indexing.gate import Judgements
from purlin.index.indexing.reading import SourceReader
from purlin.index.indexing.segment import write_vectors
from purlin.index.indexing.staleness import changed_since, is_ahead
from purlin.index.indexing.unfinished import Reading, Unfinished
from purlin.index.pace import Progress
from purlin.index.records import Kind, Secondary, Skipped, SourceFile, Splitter, printable
from purlin.index.search import dense, segments
from purlin.index.search.documents import Documents
from purlin.index.search.lexical.languages import ENGLISH
from purlin.index.search.ranking import query_log
from purlin.index.search.ranking.fusion import HYBRID, WORDS_LEAD, Fusion
from purlin.index.search.ranking.query_log import Logged
from purlin.index.search.segments import BASE, DELTA, VECTOR_FILES
from purlin.index.search.store.filters import FieldType
from purlin.index.search.store.listing import LISTING_FILE, Listing
from purlin.index.search.store.segment_store import Store
from purlin.index.texts.fertility import MAX_TOKENS_PER_WORD, SAMPLED_TEXTS, tokens_per_word
from purlin.index.texts.passages import DEFAULT_SPLITTERS, render

# A catalogue of fewer products may lose any number of them.
GUARDED_PRODUCTS = 20
# The share of products that a catalogue may lose without a warning.
MOST_LOST = 0.2
# The progress of indexing fewer rows is not shown.
SHOWN_ROWS = 30_000
RECALL = "dense recall@100"
_READABLE = (
    " A reference is HTML, Markdown, reStructuredText, AsciiDoc, manual pages, OpenAPI, AsyncAPI or JSON"
    " Schema in JSON or YAML, GraphQL schemas, Protocol Buffers, or, where nothing else is, plain"
    " text; convert other formats to one of these."
)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a build.

    `dense_weight` None takes the weight tuned for the kind, or a lower one for products in a language
    that the encoder hardly knows. `log` has earlier queries and the documents that they led to.

    `origin` says where the sources are, and `secondary`, `base_url` and `columns` are those that they
    were opened with; the manifest records them, so that the build can be repeated.

    With `judged`, the build and the active one are measured on the same queries. A build that is
    significantly worse is kept but not activated, unless `force` is set. `force` also publishes a build
    in which nothing has changed, one that has lost more than half of its products, and one of a file
    that ends too early.

    A build that is not `durable` is not flushed to disk, which takes as long as all the rest of a
    small one. If the machine fails soon after, it may be damaged, and has to be made again.

    With `engine`, the documents go there, and all are read and encoded; there is no interim build.
    """

    splitter: Splitter | None = None
    dense_weight: float | None = None
    log: Sequence[Logged] = ()
    secondary: Secondary = "demote"
    base_url: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    origin: tuple[str, ...] = ()
    judged: Judgements | None = None
    force: bool = False
    durable: bool = True
    engine: Connection | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be built, apart from the encoder."""

    home: Path
    name: str
    kind: Kind
    options: Options
    progress: Progress
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: float = field(default_factory=time.monotonic)

    @property
    def splitter(self) -> Splitter:
        """How bodies become passages."""
        return self.options.splitter or DEFAULT_SPLITTERS[self.kind]

    def times(self) -> dict[str, Any]:
        """Return `created_at` and `took_s` of a manifest if the build ends now.

        Their difference is when the build began, and a file changed after that counts as changed. So the
        clock is not read twice: however long the process pauses in between, the difference stays.
        """
        took = timedelta(seconds=round(time.monotonic() - self.started, 3))
        created_at = (self.began + took).replace(tzinfo=None).isoformat(timespec="milliseconds")
        return {"created_at": f"{created_at}Z", "took_s": took.total_seconds()}


class Builder:
    """Makes one build in its staging directory."""

    def __init__(self, plan: Plan, staging_dir: Path, earlier: Earlier) -> None:
        self.directory = staging_dir
        self._plan, self._earlier = plan, earlier
        self._unfinished = Unfinished(staging_dir.parent)
        self._content = _Content()

        # Number of segments that stay, and the name of the new one, if any.
        self._kept, self._new_segment = 0, ""
        self._first_skipped: Skipped | None = None
        self._cut_off: Skipped | None = None
        self._remarks = Remarks()

        # The vectors that are being made, and the encoder that makes them.
        self._encoding: Encoding | None = None
        self._encoder: TextEncoder | None = None

        # Entries of the manifest that hold for linked files.
        self._linked: dict[str, Mapping[str, Any]] = {}

    @classmethod
    @contextlib.contextmanager
    def open(cls, plan: Plan, directory: Path) -> Iterator[Self]:
        """Open the active build and a staging directory beside it, which is removed at the end."""
        with (
            builds.staging(directory) as staging_dir,
            storage.storage_errors(),
            # What an engine has is read and encoded anew.
            Earlier()
            if plan.options.engine
            else Earlier.open(plan.home, plan.name, plan.kind) as earlier,
        ):
            builder = cls(plan, staging_dir, earlier)
            try:
                yield builder
            finally:
                if builder._encoding is not None:
                    builder._encoding.close()

    @property
    def passages(self) -> int:
        """Number of passages of the build."""
        return self._content.passages

    def read(self, sources: Iterable[SourceFile | Skipped], encoder: TextEncoder) -> None:
        """Write the documents and postings of all sources, while `encoder` makes their vectors."""
        plan, encoding = self._plan, self._encode_with(encoder)
        # Code has names, and questions to references are read in English.
        language = None if plan.kind == "product" else ENGLISH
        # Where encoding takes longer than reading, other processes would only slow it down.
        is_fast = encoder.architecture == "static"
        processes = min(available_cpus(), MOST_PROCESSES) if is_fast else 1
        reader = SourceReader(
            self.directory,
            plan.splitter,
            self._earlier,
            encoding,
            plan.progress,
            language,
            processes,
        )
        listing = reader.read(sources, self._earlier.comparable(encoder), self._unfinished)
        self._kept, self._new_segment = reader.kept, reader.segment
        self._first_skipped, self._cut_off = reader.first_skipped, reader.cut_off
        self._describe(listing)
        self._remarks = self._remarks_on(reader)
        plan.progress("read", self._content.documents, self._content.documents)

        # A build that is killed while it encodes or makes a graph is not to read the sources again.
        makes_graph = reader.segment == BASE and self.passages > dense.EXACT_ROWS
        is_whole = not reader.failed and reader.cut_off is None
        if (encoding.takes_long or makes_graph) and is_whole:
            entries = build_files.checksums(self.directory, self._linked)
            prefix = f"{reader.segment}/"
            files = {
                name: entry
                for name, entry in entries.items()
                if name == LISTING_FILE or name.startswith(prefix)
            }
            self._linked |= files
            reading = Reading(reader.key, reader.kept, reader.segment, self.passages, files)
            self._unfinished.save(reading, self.directory, durable=plan.options.durable)

    def check_complete(self, active: Manifest | None) -> None:
        """Raise Worse if a file ends too early, or if most of the active build's products are gone."""
        if self._cut_off is not None:
            raise Worse(self._cut_off_message(self._cut_off, active))
        if active is None or not self._plan.kind == active.kind == "product":
            return

        before, now = active.documents, self._content.documents
        if before < GUARDED_PRODUCTS or now >= before / 2:
            return

        left_out = self._left_out_message(self._content.skipped)
        raise Worse(
            f"Corpus {self._plan.name!r} would have {now:,} products in place of {before:,}, so the "
            f"active build stays.{left_out} If so many are really gone, repeat with --force."
        )

    def keep_all(self) -> None:
        """Take over the documents and postings of the earlier build as they are."""
        self._kept = len(self._earlier.segments)
        self._describe(self._earlier.listing)
        self._remarks = self._earlier.remarks

    def finish(self, encoder: TextEncoder, stage: str = "encode") -> Manifest:
        """Write the vectors and everything else of the encoder, and return the manifest."""
        content = self._content
        with self._stores() as stores:
            documents = Documents(stores, content.field_types, content.order)
            self._encode(stores, documents, encoder, stage)
            reused, index = self._write_vectors(stores, encoder)
            logged = self._write_log(documents, encoder) if self._plan.options.log else 0
            fusion = self._fusion(documents, encoder)

        self_check.write_self_check(self.directory, encoder)
        self._remarks.save(self.directory)
        plan, options = self._plan, self._plan.options
        return Manifest(
            name=plan.name,
            kind=plan.kind,
            encoder={"name": encoder.name, "fingerprint": encoder.fingerprint, "dim": encoder.dim},
            splitter=plan.splitter,
            segments=self._names,
            texts=versions.TEXTS,
            readers=versions.readers(plan.kind),
            documents=content.documents,
            passages=content.passages,
            skipped=content.skipped,
            reused=reused,
            logged=logged,
            interim=stage == "interim",
            dense_weight=fusion.dense_weight,
            lexical_power=fusion.lexical_power,
            demote=options.secondary == "demote",
            sources=options.origin,
            secondary=options.secondary,
            base_url=options.base_url,
            columns=dict(options.columns),
            measures={RECALL: index["recall@100"]},
            dense=index,
            **plan.times(),
            files=build_files.checksums(self.directory, self._linked),
        )

    def same_as_active(self, manifest: Manifest) -> SameBuild | None:
        """Return the active build, if it has the same content."""
        active, directory = self._earlier.manifest, self._earlier.directory
        if active is None or directory is None:
            return None

        # What a build remarks on may be that it differs from the one before; a list of files has stamps.
        apart = (gate.JUDGED_FILE, REMARKS_FILE, LISTING_FILE)
        files = {name: entry for name, entry in active.files.items() if name not in apart}
        again = replace(
            manifest,
            files={name: entry for name, entry in manifest.files.items() if name not in apart},
            created_at=active.created_at,
            took_s=active.took_s,
            reused=active.reused,
            judged=active.judged,
            # The time of a search is measured each time.
            dense=active.dense,
        )
        if again != replace(active, files=files):
            return None

        is_listed_anew = manifest.files[LISTING_FILE] != active.files[LISTING_FILE]
        names = {file.name for file in self._earlier.listing.files}
        # Else the files would count as changed since the build for ever.
        is_touched = is_listed_anew or is_ahead(active) or bool(changed_since(active, names))
        return SameBuild(directory.name, active, is_touched)

    # ---- documents

    @property
    def _names(self) -> tuple[str, ...]:
        return (BASE, DELTA)[: self._kept + bool(self._new_segment)]

    @contextlib.contextmanager
    def _stores(self) -> Iterator[list[Store]]:
        """Open the documents of all segments."""
        with contextlib.ExitStack() as stack:
            stores = (Store(self.directory / name, self._plan.kind) for name in self._names)
            yield [stack.enter_context(contextlib.closing(store)) for store in stores]

    def _describe(self, listing: Listing) -> None:
        """Link what stays, and write what belongs to all segments; checks log and judgements.

        Raises InvalidInput without documents.
        """
        self._link(self._kept, lambda file: file not in VECTOR_FILES)
        listing.save(self.directory)
        with self._stores() as stores:
            left_out = segments.left_out(listing, stores)
            skipped = len(left_out)
            if not stores:
                raise InvalidInput(self._nothing_message(skipped), field="path")

            # Which passages of the segments are still there, and in what order.
            numbers = [(file.segment, file.number) for file in listing.files]
            order = segments.order_of(numbers, stores)
            if order is not None:
                np.save(self.directory / segments.ORDER_FILE, order)

            field_types = segments.field_types(stores, None if order is None else order >= 0)
            segments.write_fields(self.directory, field_types)

            documents = Documents(stores, field_types, order)
            passages = sum(len(store.document_of) for store in stores)
            if documents.everything is not None:
                passages = int(np.count_nonzero(documents.everything))
            self._content = _Content(
                field_types, order, len(documents), passages, skipped, summarised(left_out)
            )
            if not len(documents):
                raise InvalidInput(self._nothing_message(skipped), field="path")
            self._check_options(documents)

    def _link(self, segments: int, is_linked: Callable[[str], bool]) -> None:
        """Link those files of the earlier build's first `segments` that `is_linked` names."""
        manifest, directory = self._earlier.manifest, self._earlier.directory
        if manifest is None or directory is None:
            return

        for name, details in manifest.files.items():
            segment, _, file = name.partition("/")
            if segment in (BASE, DELTA)[:segments] and is_linked(file):
                build_files.link(directory / name, self.directory / name)
                self._linked[name] = details

    def _nothing_message(self, skipped: int) -> str:
        left_out = self._left_out_message(skipped)
        if self._plan.kind == "reference":
            left_out += _READABLE
        elif not left_out:
            kind = self._plan.kind
            ignored = ", or .gitignore leaves them out" if kind == "code" else ""
            left_out = (
                f" The sources have no file that kind {kind!r} reads{ignored}: check path and kind."
            )
        return f"There is nothing to index for {self._plan.name!r}.{left_out}"

    def _cut_off_message(self, end: Skipped, active: Manifest | None) -> str:
        stays = "nothing was built" if active is None else "the active build stays"
        return printable(
            f"{end.location} {end.reason}. The file ends there too early, or cannot be read any further, so "
            f"{stays}. Export it again, under another name until it is complete; --force takes what "
            "is there."
        )

    def _left_out_message(self, skipped: int) -> str:
        """A sentence on what was left out, after a space; empty if nothing was."""
        first = self._first_skipped
        if first is None:
            return ""
        return printable(f" {skipped} left out, the first: {first.path}: {first.reason}.")

    def _check_options(self, documents: Documents) -> None:
        """Refuse a log or judgements of another corpus before anything is encoded."""
        log = self._plan.options.log
        query_log.check_log(log, documents.rows_of({logged.document for logged in log}))

        if self._plan.options.judged is not None:
            # Documents that the build has lost are judged, too.
            relevant = self._plan.options.judged.relevant_ids
            available = documents.rows_of(relevant).keys() | self._earlier.existing_ids(relevant)
            gate.check_judged_documents(self._plan.options.judged, available)

    def _remarks_on(self, reader: SourceReader) -> Remarks:
        """Return what is to be said of the sources that were read."""
        columns = {
            standard: tuple(map(shown, islice(names, MOST_COLUMNS)))
            for standard, names in reader.columns.items()
        }
        warnings = list(column_changes(self._earlier.remarks.columns, columns))
        if reader.untitled:
            tables = ", ".join(map(shown, islice(reader.untitled, MOST_PLACES)))
            warnings.append(
                f"no column serves as title, so products are titled by their texts: {tables}; "
                '--column title="COLUMN" assigns one'
            )

        active, now = self._earlier.manifest, self._content.documents
        if self._plan.kind == "product" and active is not None:
            lost = active.documents - now
            if active.documents >= GUARDED_PRODUCTS and lost > MOST_LOST * active.documents:
                warnings.append(f"{now:,} products, {lost:,} fewer than in the build before")
        return Remarks(columns, self._content.left_out, tuple(warnings))

    # ---- vectors

    def _encode_with(self, encoder: TextEncoder) -> Encoding:
        """Return what makes the vectors of an encoder; that of another one is given up."""
        if self._encoding is not None and self._encoder is not encoder:
            self._encoding.close()
            self._encoding = None

        if self._encoding is None:
            comparable = self._earlier.comparable(encoder)
            self._encoding = Encoding(
                encoder,
                self._unfinished.journal(encoder),
                self._earlier.rows_of if comparable else None,
            )
            self._encoder = encoder

        return self._encoding

    def _encode(
        self, stores: Sequence[Store], documents: Documents, encoder: TextEncoder, stage: str
    ) -> None:
        """Make the vectors that the earlier build does not have, of all segments."""
        encoding = self._encode_with(encoder)
        # What was read comes first, as it does while it is read; the same text counts once.
        for number in [*range(self._kept, len(stores)), *range(self._kept)]:
            first_row = sum(len(store.document_of) for store in stores[:number])
            for row, digest in enumerate(stores[number].digests(), first_row):
                encoding.add(row, digest.tobytes(), None)
        encoding.end()

        def texts_of(rows: Sequence[int]) -> list[str]:
            return [render(item.document, item.passage) for item in documents.fetch(rows)]

        def report(encoded_count: int, total: int) -> None:
            if total:
                self._plan.progress(stage, encoded_count, total)

        encoding.finish(texts_of, report)

    def _write_vectors(
        self, stores: Sequence[Store], encoder: TextEncoder
    ) -> tuple[int, Mapping[str, Any]]:
        """Write the vectors; returns how many were reused, and what is known of their index."""
        earlier = self._earlier if self._earlier.comparable(encoder) else None
        kept = 0 if earlier is None else self._kept
        # As after changes of prices: the same texts in the same order have the same graph.
        if earlier is not None and not kept and earlier.segments[0].has_texts_of(stores[0]):
            kept = 1
        self._link(kept, lambda file: file in VECTOR_FILES)

        journal = self._encode_with(encoder).journal
        manifest = self._earlier.manifest
        index = manifest.dense if kept and manifest is not None else {}

        # True for each passage whose vector was not made for this build.
        reused = [np.ones(len(store.document_of), np.bool_) for store in stores]
        written = range(kept, len(stores))
        total, indexed_count = sum(len(reused[number]) for number in written), 0
        for number in written:
            directory = self.directory / self._names[number]
            digests = stores[number].digests()
            reused[number] = write_vectors(directory, digests, encoder.dim, journal, earlier)
            built = dense.build_index(
                directory, progress=partial(self._indexed, total, indexed_count)
            )
            indexed_count += len(digests)
            # A delta is small and searched exactly.
            index = built if number == 0 else index
        self._indexed(total, indexed_count)

        encoded = ~np.concatenate(reused)
        order = self._content.order
        live = encoded if order is None else encoded & (order >= 0)
        return self.passages - int(np.count_nonzero(live)), index

    def _indexed(self, total: int, indexed_count: int, more: int = 0) -> None:
        """Show how many vectors are indexed: `indexed_count` of whole segments, and `more`."""
        if total >= SHOWN_ROWS:
            self._plan.progress("index", indexed_count + more, total)

    def _write_log(self, documents: Documents, encoder: TextEncoder) -> int:
        """Write the query log; returns how many of its queries lead to a document."""
        cached: Mapping[str, Vectors] = {}
        if self._earlier.directory is not None and self._earlier.comparable(encoder):
            cached = query_log.logged_vectors(self._earlier.directory)

        log = self._plan.options.log
        rows = documents.rows_of({logged.document for logged in log})
        progress = partial(self._plan.progress, "log")
        return query_log.write_log(self.directory, log, rows, encoder, cached, progress)

    def _fusion(self, documents: Documents, encoder: TextEncoder) -> Fusion:
        """Return how scores are fused: as tuned for the kind, or with words in the lead.

        Words lead in a catalogue in a language that the encoder hardly knows.
        """
        fusion = HYBRID[encoder.architecture, self._plan.kind]
        if (weight := self._plan.options.dense_weight) is not None:
            return replace(fusion, dense_weight=weight)
        if self._plan.kind != "product" or fusion.dense_weight <= WORDS_LEAD:
            return fusion

        # Rows of passages that were removed have a negative order.
        order = self._content.order
        rows = np.arange(self.passages) if order is None else np.flatnonzero(order >= 0)
        sample = documents.fetch(rows[:: -(-len(rows) // SAMPLED_TEXTS)].tolist())
        texts = [render(stored.document, stored.passage) for stored in sample]
        is_foreign = tokens_per_word(encoder.count_tokens, texts) > MAX_TOKENS_PER_WORD
        return replace(fusion, dense_weight=WORDS_LEAD) if is_foreign else fusion


@dataclass(frozen=True, slots=True)
class SameBuild:
    """A build with the content of a new one, and whether its files were touched since it was made."""

    build: str
    manifest: Manifest
    is_touched: bool


@dataclass(frozen=True, slots=True)
class _Content:
    """What a build holds.

    `field_types` has the type of each field. `order` is that of `purlin.index.search.segments`.
    `documents` and `passages` count those that were not removed.
    """

    field_types: Mapping[str, FieldType] = field(default_factory=dict)
    order: NDArray[np.int32] | None = None
    documents: int = 0
    passages: int = 0
    skipped: int = 0
    left_out: tuple[LeftOut, ...] = ()
