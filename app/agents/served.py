"""What agents' tools work on in a server: its corpora, its classifiers and its reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from purlin.app.agents.backend import Backend, Opened
from purlin.app.corpora.open_corpora import OfKind
from purlin.app.routes import classify_reply, corpus_answers, qa_reply, search_reply
from purlin.app.schemas import ClassifyRequest, QaRequest, SearchRequest
from purlin.app.service import Service
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.file_filters import content_filter
from purlin.index.records import Content, Kind
from purlin.index.search.corpus import Corpus
from purlin.index.search.grouping import PARENT
from purlin.replies import ClassifyReply, QaReply, SearchReply


class ServedCorpora(Backend):
    """The corpora of a service.

    None of them stands out, an agent may not have the files of a server, and builds that serve answer
    while others are made.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def of_kind(self, kind: Kind) -> OfKind:
        """Corpora of a kind. Raises Opening, and what a corpus is refused with, if none serves."""
        try:
            return self._service.corpora.of_kind(kind)
        except NotFound:
            return OfKind([], None)

    def kind(self, corpus: str) -> Kind | None:
        """Kind of a corpus; None while it is not open. Raises NotFound."""
        opened = self._service.corpora.status(corpus).opened
        return opened.manifest.kind if opened is not None else None

    def relative(self, corpus: str, path: str) -> str:
        """The path without `./`. Raises InvalidInput for one that is absolute or leads upwards."""
        if path.startswith("/") or ".." in PurePosixPath(path).parts:
            raise InvalidInput(
                f"path is {path[:80]!r}; give it relative to the root of the corpus, like the paths of hits.",
                field="path",
            )
        return path.removeprefix("./")

    def search(
        self,
        corpora: Sequence[str],
        query: str,
        k: int,
        filter: Mapping[str, Any],
        content: Content,
    ) -> SearchReply:
        """Search corpora; `content` matters if the documents of all of them say what they are."""
        field_names = [self._field_names(corpus) for corpus in corpora]
        shared = set.intersection(*field_names)
        conditions: dict[str, Any] = dict(content_filter(shared, content, filter) or {})

        names = list(corpora) if len(corpora) > 1 else corpora[0]
        group_by = PARENT if any(PARENT in each for each in field_names) else None
        request = SearchRequest(
            query=query, corpus=names, k=k, filter=conditions, group_by=group_by, explain=True
        )
        return search_reply(request, self._service)

    def _field_names(self, corpus: str) -> set[str]:
        with self._service.lease(corpus) as leased:
            return set(leased.field_names)

    @contextmanager
    def opened(self, corpus: str) -> Iterator[Opened]:
        """Keep a corpus open. Raises NotFound, Opening, and what it is refused with."""
        with self._service.lease(corpus) as leased:
            yield Opened(leased)

    def changed(self, corpus: Corpus, paths: Iterable[str | None]) -> set[str]:
        """Files that have changed since the build of an open corpus."""
        return self._service.freshness.changed(corpus, paths)

    def observe(self, timings_ms: Mapping[str, float]) -> None:
        """Count the stages among the server's metrics."""
        self._service.metrics.stages(timings_ms)

    def ask(self, corpus: str, question: str, k: int) -> QaReply:
        """Answers from a reference. Raises NotFound without a reader."""
        return qa_reply(QaRequest(question=question, corpus=corpus, k=k), self._service)

    def answer(self, corpus: Corpus, question: str, k: int) -> QaReply:
        """Answers from a corpus that this service does not hold."""
        request = QaRequest(question=question, corpus=corpus.name, k=k)
        return corpus_answers(corpus, request, self._service)

    def classify(self, arguments: Mapping[str, Any]) -> ClassifyReply:
        """Labels of texts, by the names of labels or by a trained classifier."""
        return classify_reply(ClassifyRequest(**arguments), self._service)
