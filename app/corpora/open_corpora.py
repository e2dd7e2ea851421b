"""The corpora that serve requests, each opened with the encoder that made its vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from purlin.app.corpora.open_builds import OpenBuilds, Status
from purlin.app.errors import Opening, listed
from purlin.index import builds
from purlin.index.builds.catalogs import CORPORA
from purlin.index.builds.manifests import read_manifest, read_manifest_json
from purlin.index.encoder import TextEncoder
from purlin.index.engines.hosting import open_corpus
from purlin.index.errors import NotFound, PurlinError
from purlin.index.lookups import Lookups
from purlin.index.records import Kind
from purlin.index.search.corpus import Corpus
from purlin.replies import ServingState


class OfKind(NamedTuple):
    """The sorted names of the corpora of a kind that are in service.

    `left_out` is a sentence that names the others, None if there are none.
    """

    names: list[str]
    left_out: str | None


def _left_out(opening: list[str], refused: list[str]) -> str | None:
    sentences = []
    if opening:
        sentences.append(f"Not searched, as they are still being opened: {listed(opening)}.")
    if refused:
        sentences.append(
            f"Not searched, as they cannot be served: {listed(refused)}; see /corpora."
        )

    return " ".join(sentences) or None


class OpenCorpora(OpenBuilds[Corpus]):
    """All corpora below `home`, each opened with the encoder that made its vectors.

    `encoder_of` finds the encoder that a manifest names; a corpus is refused if there is only another.
    `filters` counts, over all corpora, the hits and misses of the caches of filters' row masks.
    """

    def __init__(
        self,
        home: Path,
        encoder_of: Callable[[Mapping[str, Any]], TextEncoder],
        *,
        timeout_s: float,
    ) -> None:
        self.filters = Lookups()
        self._encoder_of = encoder_of
        super().__init__(home, CORPORA, self._load_corpus, timeout_s=timeout_s)

    def of_kind(self, kind: Kind) -> OfKind:
        """Return the corpora of a kind that are in service.

        If there is none, raises Opening while one may still be opened, the error with which one was
        refused, or NotFound.
        """
        by_state: dict[ServingState, list[str]] = {"serving": [], "opening": [], "refused": []}
        for status in self.statuses():
            own = self._kind(status)
            # One that is being opened may be of any kind while that is not known.
            if own == kind or (own is None and status.state == "opening"):
                by_state[status.state].append(status.name)

        serving, opening, refused = by_state.values()
        if serving:
            return OfKind(serving, _left_out(opening, refused))
        if opening:
            raise Opening(
                f"Still being opened: {listed(opening)}; try again in a moment.", field="corpus"
            )
        if refused:
            with self.lease(refused[0]):
                return OfKind(refused[:1], None)
        raise NotFound(f"This server has no corpus of kind {kind}.", field="corpus")

    def _kind(self, status: Status[Corpus]) -> str | None:
        """Kind by the manifest of a corpus, which may be of another version; None if it is damaged."""
        if status.opened is not None:
            return status.opened.manifest.kind
        with suppress(PurlinError, ValueError):
            return str(read_manifest_json(builds.current(self._home, status.name)).get("kind"))
        return None

    def _load_corpus(self, build: Path, serving: Corpus | None) -> Corpus:
        encoder = self._encoder_of(read_manifest(build).encoder)
        # A build after a small change has most of its segments in memory already.
        corpus = open_corpus(build, encoder, serving)
        corpus.filter_lookups = self.filters
        if corpus.warning is not None:
            self._log.warning("%s", corpus.warning)
        return corpus

    def _described(self, opened: Corpus) -> str:
        """Name the build and the encoder of its vectors; those of an interim build are replaced soon."""
        build = "interim build" if opened.manifest.interim else "build"
        return f"{build} {opened.build}, vectors by {opened.encoder.name}"
