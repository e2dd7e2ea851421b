"""Builds whose documents are in Milvus: made, switched, opened, and attached on other servers.

Such a build keeps a manifest and a few small files in its directory. They are in Milvus, too, so
that a server which knows nothing but the address can `attach` it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index import builds
from purlin.index.builds import build_files
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.engines import layout
from purlin.index.engines.corpus import HostedCorpus
from purlin.index.engines.milvus import Connection, Milvus, connected
from purlin.index.engines.retrieval import (
    Collection,
    MilvusDense,
    MilvusDocuments,
    MilvusLexical,
)
from purlin.index.engines.upload import Contents, TermWeights, Uploaded, upload, write_files
from purlin.index.errors import Damaged, EncoderMismatch, EngineFailed, InvalidInput, NotFound
from purlin.index.pace import StageProgress
from purlin.index.search import dense, segments
from purlin.index.search.corpus import Corpus, check_encoder
from purlin.index.search.lexical.languages import LANGUAGES
from purlin.index.search.lexical.postings import Postings
from purlin.index.search.ranking import query_log

BACKEND = "milvus"
_READ_TOGETHER = 1024


# ---- making


def move(
    connection: Connection,
    staging_dir: Path,
    manifest: Manifest,
    progress: StageProgress = lambda *_: None,
) -> Manifest:
    """Move the documents of an unfinished build into Milvus, and return its new manifest.

    The build must have one segment. What is left in `staging_dir` is small. Unfinished collections
    of the corpus, which a killed build left behind, are removed first. Raises EngineFailed, and
    InvalidInput for a document that Milvus cannot hold; nothing is left in Milvus then.
    """
    milvus = connected(connection)
    _remove_unfinished(milvus, manifest.name)

    collection = layout.new_collection(manifest.name)
    (segment,) = manifest.segments
    postings = Postings.load(staging_dir / segment / segments.LEXICAL_DIRECTORY)
    written = 0

    def advance(count: int) -> None:
        nonlocal written
        written += count
        progress(written, manifest.passages)

    try:
        contents = upload(
            milvus,
            collection,
            int(manifest.encoder["dim"]),
            _documents(staging_dir, manifest),
            TermWeights(postings.language, postings.mean),
            advance,
        )
        index = layout.index_passages(milvus, collection, contents.passages)
        index |= _measured(Collection(milvus, collection), staging_dir, manifest)
        _reduce(staging_dir, manifest, contents)
        files = write_files(milvus, collection, _files(staging_dir))
        layout.index_records(milvus, collection)
        _check_count(Collection(milvus, collection).count_passages(), contents)
    except BaseException:
        with contextlib.suppress(EngineFailed):
            _drop(milvus, collection)
        raise

    engine = {
        "backend": BACKEND,
        "address": connection.address,
        "version": milvus.version,
        "collection": collection,
        "retrievers": ["dense", "lexical"] if milvus.has_sparse else ["dense"],
        "buckets": contents.buckets,
        "language": postings.language.name,
        "lists": dict(contents.lists),
        "has_files": contents.has_files,
        "files": files,
    }
    entries = build_files.checksums(staging_dir)
    return replace(manifest, segments=(), engine=engine, dense=index, files=entries)


def _remove_unfinished(milvus: Milvus, name: str) -> None:
    """Remove the collections of a corpus that a killed build left behind."""
    for collection in _collections(milvus, name):
        if not _description(milvus, collection):
            _drop(milvus, collection)


def _documents(staging_dir: Path, manifest: Manifest) -> Uploaded:
    """Yield the documents of a build of one segment, with passages and vectors."""
    (segment,) = manifest.segments
    vectors = np.load(staging_dir / segment / dense.VECTORS_FILE, mmap_mode="r")
    with contextlib.closing(segments.open_documents(staging_dir, manifest)) as documents:
        document, first, spans = None, 0, []

        # A document is whole once the first passage of the next one comes.
        for start in range(0, len(vectors), _READ_TOGETHER):
            rows = range(start, min(start + _READ_TOGETHER, len(vectors)))
            for row, stored in zip(rows, documents.fetch(list(rows)), strict=True):
                if document is not None and stored.document.id != document.id:
                    yield document, spans, vectors[first:row].astype(np.float32)
                    first, spans = row, []
                document = stored.document
                spans.append(stored.passage)

        if document is not None:
            yield document, spans, vectors[first:].astype(np.float32)


def _measured(collection: Collection, staging_dir: Path, manifest: Manifest) -> dict[str, float]:
    """What the engine's index of the vectors finds, and how fast, before a local one is removed."""
    (segment,) = manifest.segments

    def search(query: Vectors, depth: int) -> Vectors:
        return collection.search(query, layout.DENSE, depth, None, slow=True)[1]

    return dense.measure(staging_dir / segment / dense.VECTORS_FILE, search)


def _reduce(staging_dir: Path, manifest: Manifest, contents: Contents) -> None:
    """Remove what is in Milvus now, and number the documents of the query log as there."""
    for segment in manifest.segments:
        shutil.rmtree(staging_dir / segment)
    logged = staging_dir / query_log.DOCUMENTS_FILE
    if logged.exists():
        np.save(logged, contents.documents[np.load(logged)])


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.is_file())


def _check_count(stored: int, contents: Contents) -> None:
    """Compare how many passages Milvus has with how many were written."""
    if stored != contents.passages:
        raise EngineFailed(
            f"Milvus has {stored:,} passages of the {contents.passages:,} that were written; "
            "build again."
        )


def finish(connection: Connection, manifest: Manifest, build: str, *, active: bool = True) -> None:
    """Describe a published build in Milvus and, if it is `active`, make it the corpus's.

    Removes the oldest builds, as on disk. Raises EngineFailed.
    """
    milvus = connected(connection)
    _describe(milvus, _collection(manifest), {"build": build, "manifest": manifest.to_json()})
    if active:
        _switch(milvus, manifest)

    target = _target(milvus, manifest.name)
    described = [
        collection
        for collection in _collections(milvus, manifest.name)
        if _description(milvus, collection)
    ]
    for collection in described[: -builds.KEPT_BUILDS]:
        if collection != target:
            _drop(milvus, collection)


def _switch(milvus: Milvus, manifest: Manifest) -> None:
    """Let the corpus's alias mean this build."""
    alias = layout.alias(manifest.name)
    is_new = _target(milvus, manifest.name) is None
    milvus.call("create_alias" if is_new else "alter_alias", _collection(manifest), alias)


# ---- what Milvus has


def _collection(manifest: Manifest) -> str:
    return str(manifest.engine["collection"])


def _collections(milvus: Milvus, name: str) -> list[str]:
    """Collections of a corpus's builds, oldest first."""
    names: Sequence[str] = milvus.call("list_collections")
    return sorted(item for item in names if layout.corpus_of(item) == name)


def _target(milvus: Milvus, name: str) -> str | None:
    """Collection of a corpus's active build, or None."""
    alias = layout.alias(name)
    # It is true of aliases, too.
    if not milvus.call("has_collection", alias):
        return None
    return str(milvus.call("describe_alias", alias)["collection_name"])


def _describe(milvus: Milvus, collection: str, content: Mapping[str, Any]) -> None:
    """Write what `_description` reads: the build is finished then."""
    chunks = list(layout.chunks(json.dumps(content)))
    rows = [
        layout.record(layout.DESCRIPTION - number, chunk, **{layout.CHUNKS: len(chunks)})
        for number, chunk in enumerate(chunks)
    ]

    records = layout.records_of(collection)
    milvus.call("upsert", records, rows)
    milvus.call("flush", records, slow=True)


def _description(milvus: Milvus, collection: str) -> dict[str, Any]:
    """What `finish` wrote of a build; empty for one that was never finished."""
    records = layout.records_of(collection)
    if not milvus.call("has_collection", records) or not milvus.call("list_indexes", records):
        return {}
    milvus.call("load_collection", records, slow=True)
    rows = milvus.call(
        "query",
        records,
        filter=f"{layout.ROW} <= {layout.DESCRIPTION}",
        output_fields=[layout.ROW, layout.CHUNKS, layout.TEXT],
        consistency_level="Strong",
    )
    if not rows or len(rows) < rows[0][layout.CHUNKS]:
        return {}

    # The keys go down from DESCRIPTION.
    rows = sorted(rows, key=lambda row: -int(row[layout.ROW]))
    return dict(json.loads("".join(row[layout.TEXT] for row in rows)))


def _drop(milvus: Milvus, collection: str) -> None:
    # The passages go last: without them, nothing tells that the records are there.
    for name in (layout.records_of(collection), collection):
        milvus.call("drop_collection", name)


# ---- opening


def open_corpus(directory: Path, encoder: TextEncoder, opened: Corpus | None = None) -> Corpus:
    """Open a build, wherever its documents are; `opened` is one that it may share files with.

    Raises Damaged, which names the file, EncoderMismatch and EngineFailed.
    """
    manifest = read_manifest(directory)
    check_encoder(manifest, encoder)
    if not manifest.engine:
        return Corpus.open(directory, manifest, encoder, opened)

    milvus = _milvus(manifest)
    _check(milvus, manifest)

    files = build_files.Files(directory, manifest.files)
    field_types = segments.read_fields(directory, files)
    collection = Collection(milvus, _collection(manifest))
    engine = manifest.engine
    language = LANGUAGES[engine["language"]]
    return HostedCorpus(
        directory,
        manifest,
        encoder,
        files,
        MilvusDense(collection),
        MilvusLexical(collection, manifest.passages, int(engine["buckets"]), language),
        MilvusDocuments(
            collection,
            manifest.kind,
            field_types,
            engine["lists"],
            has_files=bool(engine["has_files"]),
        ),
        fallback=milvus.connection.fallback,
    )


def _check(milvus: Milvus, manifest: Manifest) -> None:
    """Raise unless Milvus has this build, with vectors of its encoder, ready to be searched."""
    name = _collection(manifest)
    if not milvus.call("has_collection", name):
        raise Damaged(
            f"Milvus at {milvus.connection.address} has no collection {name}; build the corpus "
            "again, or set PURLIN_MILVUS to the address of the Milvus that has it."
        )

    described = _description(milvus, name)
    made_by = json.loads(described["manifest"])["encoder"] if described else {}
    if made_by != manifest.encoder:
        raise EncoderMismatch(
            f"Collection {name} in Milvus has vectors of encoder {made_by.get('name')!r} "
            f"({str(made_by.get('fingerprint'))[:12]}), but its build names "
            f"{manifest.encoder['name']!r} ({manifest.encoder['fingerprint'][:12]}); "
            "build the corpus again."
        )

    for collection in (name, layout.records_of(name)):
        milvus.call("load_collection", collection, slow=True)


# ---- switching


def activate(home: Path, name: str, build: str, *, force: bool = False) -> None:
    """Make a finished build the active one, on disk and in Milvus; see `builds.activate`."""
    # Whoever asks may name anything, also a path; `builds.activate` says what there is.
    exists = build in builds.builds(home, name)
    manifest = _hosted(builds.builds_directory(home, name) / build) if exists else None

    if manifest is not None:
        if manifest.judged.get("refused") and not force:
            # Raises Worse, before anything is switched.
            builds.activate(home, name, build)

        milvus = _milvus(manifest)
        _check(milvus, manifest)
        # Other servers follow the alias; so may this one, if its own disk fails now.
        _switch(milvus, manifest)
    builds.activate(home, name, build, force=force)


def roll_back(home: Path, name: str) -> str:
    """Activate the build before the active one, on disk and in Milvus; returns its name."""
    build = builds.previous(home, name)
    activate(home, name, build)
    return build


def delete(home: Path, name: str) -> None:
    """Remove a corpus with all its builds, on disk and in Milvus."""
    directory = builds.builds_directory(home, name)
    manifests = [_hosted(directory / build) for build in builds.builds(home, name)]

    for manifest in (item for item in manifests if item is not None):
        milvus = _milvus(manifest)
        if _target(milvus, name) is not None:
            milvus.call("drop_alias", layout.alias(name))
        for collection in _collections(milvus, name):
            _drop(milvus, collection)

    builds.delete(home, name, remembered=True)


def _hosted(directory: Path) -> Manifest | None:
    """Manifest of a build in Milvus; None for any other, or one that cannot be read."""
    with contextlib.suppress(Damaged):
        manifest = read_manifest(directory)
        return manifest if manifest.engine else None
    return None


def _milvus(manifest: Manifest) -> Milvus:
    return connected(Connection.of(recorded=str(manifest.engine["address"])))


# ---- attaching


def hosted(connection: Connection) -> list[str]:
    """Sorted names of the corpora that Milvus has an active build of."""
    milvus = connected(connection)
    collections: Sequence[str] = milvus.call("list_collections")
    names = {name for item in collections if (name := layout.corpus_of(item)) is not None}
    return sorted(name for name in names if _target(milvus, name) is not None)


def attach(home: Path, name: str, connection: Connection) -> str:
    """Make the build of a corpus that is active in Milvus the active one here; returns its name.

    Raises NotFound if Milvus has none, Damaged if its files are not those of its manifest, and
    InvalidInput if there is a corpus of that name whose documents are here.
    """
    here = builds.active_manifest(home, name)
    if here is not None and not here.engine:
        raise InvalidInput(
            f"There is a corpus {name!r} already, whose documents are on this machine; delete it, "
            "or build the other one under another name.",
            field="corpus",
        )
    milvus = connected(connection)
    target = _target(milvus, name)
    described = _description(milvus, target) if target is not None else {}
    if target is None or not described:
        listed = ", ".join(hosted(connection)) or "none"
        raise NotFound(
            f"Milvus at {connection.address} has no corpus {name!r}. Corpora: {listed}.",
            field="corpus",
        )

    build = str(described["build"])
    with builds.locked(home, name) as directory:
        # It may be here already, as an earlier one of this corpus.
        if build not in builds.builds(home, name):
            with builds.staging(directory) as staging_dir:
                _fetch(milvus, target, described["manifest"], staging_dir)
                builds.adopt(staging_dir, build)
        if not (builds.exists(home, name) and builds.current(home, name).name == build):
            builds.switch(directory, build)
    return build


def detach(home: Path, name: str, connection: Connection) -> bool:
    """Remove what is here of a corpus that Milvus has nothing of; returns whether that is so.

    A corpus of that name whose documents are on this machine stays. Raises Busy and EngineFailed.
    """
    if _collections(connected(connection), name):
        return False
    with builds.locked(home, name) as directory:
        here = builds.active_manifest(home, name)
        if here is not None and here.engine:
            builds.clear(directory)
    return True


def _fetch(milvus: Milvus, collection: str, manifest: str, directory: Path) -> None:
    """Write a build's manifest and files, as they are in Milvus, into a directory."""
    (directory / "manifest.json").write_bytes(manifest.encode())

    files: Mapping[str, Sequence[int]] = json.loads(manifest)["engine"]["files"]
    records = Collection(milvus, collection)

    for name, (first, count) in files.items():
        keys = range(first, first - count, -1)
        rows = records.rows(records.records, keys, [layout.TEXT])
        texts = {int(row[layout.ROW]): str(row[layout.TEXT]) for row in rows}
        content = b64decode("".join(texts.get(key, "") for key in keys))
        # Names come from a server: none leads out of the directory.
        (directory / Path(name).name).write_bytes(content)
