"""Repeats a corpus's build from the sources that its manifest names."""

from __future__ import annotations

from pathlib import Path

from purlin.index import builds
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.encoder import TextEncoder
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.indexing.build import build, file_digests
from purlin.index.indexing.builder import Options
from purlin.index.indexing.staleness import find_staleness
from purlin.index.pace import Progress
from purlin.index.search.store.listing import read_listing
from purlin.index.sources import open_source


def why_not_repeatable(manifest: Manifest) -> str | None:
    """Return why a build cannot be repeated from its manifest alone, or None if it can."""
    if not manifest.local_roots:
        return "its manifest names no directories or files"
    if manifest.logged:
        return "it has a query log, which only `purlin index build --query-log` gives it"
    if manifest.judged:
        return "its builds are measured before they serve; use `purlin index build --queries`"
    if manifest.engine:
        return "its documents are not on this machine; use `purlin index build --backend milvus`"
    return None


def is_due(home: Path, name: str) -> bool:
    """Return whether the active build was made by earlier rules than today's, or of other sources.

    Sources are compared by names and times alone. Raises NotFound if a source is missing, so that it
    is not mistaken for deleted files.
    """
    directory = builds.current(home, name)
    manifest = read_manifest(directory)
    missing = [str(root) for root in manifest.local_roots if not root.exists()]
    if missing:
        raise NotFound(f"The sources {', '.join(missing[:3])} of corpus {name!r} are missing.")

    if manifest.is_outdated:
        return True

    listing = read_listing(directory)
    names = listing.names(len(listing.files) + len(listing.skipped))
    # Nobody waits for this look, and a build would look at all files, too.
    staleness = find_staleness(manifest, *names, bounded=False)
    if staleness is None or not staleness.complete:
        return True
    return any((staleness.changed, staleness.added, staleness.removed))


def repeat_build(
    home: Path, name: str, encoder: TextEncoder, *, progress: Progress | None = None
) -> Manifest:
    """Build a corpus again as its active build was, from the sources as they are now.

    Raises InvalidInput if that is not possible, NotFound if a source is missing, and whatever
    `build` raises.
    """
    manifest = read_manifest(builds.current(home, name))
    if (reason := why_not_repeatable(manifest)) is not None:
        raise InvalidInput(f"Corpus {name!r} cannot be built again by itself: {reason}.")

    roots = manifest.local_roots
    sources = open_source(
        manifest.kind,
        roots,
        secondary=manifest.secondary,
        base_url=manifest.base_url,
        columns=manifest.columns,
        digests=file_digests(home, name),
    )
    options = Options(
        splitter=manifest.splitter,
        dense_weight=manifest.dense_weight,
        secondary=manifest.secondary,
        base_url=manifest.base_url,
        columns=manifest.columns,
        origin=manifest.sources,
    )
    return build(home, name, manifest.kind, sources, encoder, options=options, progress=progress)
