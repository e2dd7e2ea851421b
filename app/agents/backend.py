"""What agents' tools work on: the corpora of a server, or a workspace and those of a home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from purlin.index.indexing import staleness
from purlin.index.records import Content, Hit, Kind
from purlin.index.search.corpus import Corpus, SearchResult
from purlin.replies import ClassifyReply, QaReply, SearchReply

if TYPE_CHECKING:
    from purlin.app.corpora.open_corpora import OfKind

_MAX_SUGGESTED = 3  # paths that a call may have meant


class Opened(NamedTuple):
    """A corpus that is kept open, and what limits the answers from it, as that it is not up to date."""

    corpus: Corpus
    warning: str | None = None


class Backend(Protocol):
    """What the tools work on; a method that a backend leaves out answers None."""

    def of_kind(self, kind: Kind) -> OfKind:
        """Corpora of a kind that can be searched, and which cannot be now. Raises Opening."""

    def default(self, kind: Kind) -> str | None:
        """Corpus that a call means if it names none, whatever others there are."""
        return None

    def kind(self, corpus: str) -> Kind | None:
        """Kind of a corpus; None while that is not known. Raises NotFound."""

    def relative(self, corpus: str, path: str) -> str:
        """Path of a file or folder as the corpus writes it. Raises InvalidInput for one outside."""

    def root(self, corpus: str) -> Path | None:
        """Directory that paths are relative to, where it is another than the agent works in."""
        return None

    def opened(self, corpus: str) -> AbstractContextManager[Opened]:
        """Keep a corpus open. Raises NotFound."""

    def changed(self, corpus: Corpus, paths: Iterable[str | None]) -> set[str]:
        """Files that have changed since the build of an open corpus."""

    def observe(self, timings_ms: Mapping[str, float]) -> None:
        """Take note of how long the stages of an answer took."""
        return

    def progress(self, thread: int) -> str | None:
        """How far the indexing is that the call of a thread waits for; None if it waits for none."""
        return None

    def search(
        self,
        corpora: Sequence[str],
        query: str,
        k: int,
        filter: Mapping[str, Any],
        content: Content,
    ) -> SearchReply:
        """Hits of one or several corpora, with their explanations.

        `content` matters where documents say what they are.
        """

    def ask(self, corpus: str, question: str, k: int) -> QaReply:
        """Answers from a reference. Raises NotFound without a reader."""

    def classify(self, arguments: Mapping[str, Any]) -> ClassifyReply:
        """Labels of texts, by the names of labels or by a trained classifier.

        The arguments are those of a request to classify.
        """


def path_advice(backend: Backend, name: str, beginning: str) -> str:
    """Say which files with this beginning of a path are not indexed, and which paths may be meant."""
    with backend.opened(name) as (corpus, _):
        unread = corpus.listing.unread(beginning)
        paths = corpus.listing.ending_in(beginning, _MAX_SUGGESTED)
    advice = f" {unread}." if unread else ""
    return advice + (f" Did you mean path {' or '.join(paths)}?" if paths else "")


def reply_of(backend: Backend, name: str, corpus: Corpus, result: SearchResult) -> SearchReply:
    """Reply with the hits of one corpus."""
    return SearchReply(
        hits=marked(backend, corpus, result.hits),
        total=result.total,
        took_ms=round(sum(result.timings_ms.values()), 3),
        corpus=name,
        build=corpus.build,
        encoder=corpus.encoder.name,
        warning=result.warning,
        related=result.related,
    )


def marked(backend: Backend, corpus: Corpus, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """The hits of a corpus, those marked as stale whose file has changed since the build."""
    return staleness.mark_stale(hits, corpus.name, partial(backend.changed, corpus))
