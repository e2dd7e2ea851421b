"""Makes a build of a corpus from sources, and activates it.

A build takes over what the active one has: whole segments if few files have changed, and otherwise
the documents, term counts and vectors of unchanged files. `purlin.index.builds` knows builds on
disk; `purlin.app.corpora.open_builds` serves them.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from purlin.index import builds
from purlin.index.builds import build_files
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.encoder import TextEncoder
from purlin.index.engines import hosting
from purlin.index.errors import PurlinError, Worse
from purlin.index.indexing import gate
from purlin.index.indexing.builder import RECALL, Builder, Options, Plan
from purlin.index.indexing.unfinished import Unfinished
from purlin.index.pace import Progress
from purlin.index.records import Kind, Skipped, SourceFile, Stamp
from purlin.index.search.store.listing import read_listing

# Fewer passages are encoded so soon that nobody waits for an interim build.
INTERIM_PASSAGES = 500


def build(
    home: Path,
    name: str,
    kind: Kind,
    sources: Iterable[SourceFile | Skipped],
    encoder: TextEncoder,
    *,
    options: Options | None = None,
    progress: Progress | None = None,
    interim: TextEncoder | None = None,
) -> Manifest:
    """Build corpus `name` and activate it; the old build serves until the last moment.

    `progress(stage, finished_count, total)` is called with the stages read, interim, encode, index,
    log, measure and store. A build that measures worse than the active one raises Worse, see `Options`.
    So does, before anything more is encoded, a catalogue that has lost more than half of its products:
    its export may be another file. The same holds for records of any kind in a file that ends too early.

    If nothing serves the corpus yet, a build with the vectors of the faster encoder `interim` does
    as soon as the sources are read, until those of `encoder` are there. After a crash it stays, and
    the next call goes on from it.

    Raises Busy, EngineFailed, StorageFailed, and InvalidInput if the sources have no document, no
    judged document exists, or no query of the log leads to a document.

    A build that was ended by anything, even by SIGKILL, leaves the vectors that it has made, and
    the documents once all are read: the next one goes on from them and removes them. If nothing has
    changed since the active build, that one stays, and its manifest is returned.
    """
    plan = Plan(home, name, kind, options or Options(), progress or (lambda *_: None))

    with builds.locked(home, name) as directory:
        unfinished = Unfinished(directory)
        try:
            unfinished.keep_only([encoder] if interim is None else [encoder, interim])
            manifest = _build(plan, directory, sources, encoder, interim)
        except Worse:
            unfinished.remove()
            raise
        except BaseException:
            unfinished.remove_if_empty()
            raise

        unfinished.remove()
        return manifest


def _build(
    plan: Plan,
    directory: Path,
    sources: Iterable[SourceFile | Skipped],
    encoder: TextEncoder,
    interim: TextEncoder | None,
) -> Manifest:
    """Build from the sources, or from an interim build that is made of them first."""
    options = plan.options
    serves_early = (
        interim is not None
        and options.engine is None
        and interim.fingerprint != encoder.fingerprint
        and plan.name not in builds.corpora(plan.home)
    )
    first_encoder = interim if interim is not None and serves_early else encoder

    with Builder.open(plan, directory) as builder:
        builder.read(sources, first_encoder)
        if not options.force:
            builder.check_complete(builds.active_manifest(plan.home, plan.name))
        if first_encoder is encoder or builder.passages < INTERIM_PASSAGES:
            return _finish(plan, builder, encoder)

        manifest = builder.finish(first_encoder, "interim")
        build_name = builds.publish(builder.directory, manifest.to_json(), durable=options.durable)
        builds.switch(directory, build_name, durable=options.durable)

    with Builder.open(plan, directory) as builder:
        builder.keep_all()
        return _finish(plan, builder, encoder)


def _finish(plan: Plan, builder: Builder, encoder: TextEncoder) -> Manifest:
    """Encode, measure, publish and activate what was read; raises Worse if it was refused.

    A build with the content of the active one would push an older one out of those that are kept: it is
    not published, or, where files were touched since, replaces the active one. `force` publishes it.
    """
    options = plan.options
    manifest = builder.finish(encoder)
    replaced = ""
    if not options.force and options.engine is None:
        same = builder.same_as_active(manifest)
        if same is not None and not same.is_touched:
            return same.manifest
        replaced = same.build if same is not None else ""

    if options.judged is not None:
        active = _active(plan.home, plan.name)
        measuring = partial(plan.progress, "measure")
        manifest = gate.measure_build(
            builder.directory, manifest, encoder, options.judged, active, measuring
        )
    if options.force and manifest.judged.get("refused"):
        manifest = replace(manifest, judged={**manifest.judged, "refused": False})

    if options.engine is not None:
        storing = partial(plan.progress, "store")
        manifest = hosting.move(options.engine, builder.directory, manifest, storing)
        measures = {RECALL: manifest.dense["recall@100"]}
        manifest = replace(manifest, measures=measures, **plan.times())

    directory = builder.directory.parent
    build_name = builds.publish(builder.directory, manifest.to_json(), durable=options.durable)
    if options.engine is not None:
        refused = bool(manifest.judged.get("refused"))
        try:
            hosting.finish(options.engine, manifest, build_name, active=not refused)
        except BaseException:
            # Without its description in the engine it cannot be opened.
            shutil.rmtree(directory / build_name, ignore_errors=True)
            raise

    _activate(directory, build_name, manifest, options.durable, replaced)
    return manifest


def _activate(
    directory: Path, build_name: str, manifest: Manifest, durable: bool, replaced: str
) -> None:
    """Switch to a build, or raise Worse if it was refused."""
    if not manifest.judged.get("refused"):
        builds.switch(directory, build_name, durable=durable, replaced=replaced)
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
        if read_manifest(directory).interim:
            return None

    return directory


def file_digests(home: Path, name: str) -> Mapping[str, tuple[Stamp, str]]:
    """Stamps and digests of the active build's files, for `open_source`; empty without a build."""
    try:
        directory = builds.current(home, name)
        manifest = read_manifest(directory)
        listing = read_listing(directory, build_files.Files(directory, manifest.files).read)
    except PurlinError:
        return {}
    return listing.digests()
