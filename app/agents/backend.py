"""What agents' tools work on: the corpora of a server, or a workspace and those of a home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from purlin.index.records import Content, Kind
from purlin.index.search.corpus import Corpus
from purlin.replies import ClassifyReply, DocumentReply, QaReply, SearchReply

if TYPE_CHECKING:
    from purlin.app.corpora.open_builds import OfKind


@dataclass(frozen=True, slots=True)
class LineOfFile:
    """A line of a file, which stands for the innermost document that has it."""

    path: str
    line: int


# A document's id, or a line of it.
Where = str | LineOfFile


def document_id(corpus: Corpus, where: Where) -> str:
    """Id of the document that has a line; an id is returned as it is. Raises NotFound."""
    return corpus.document_at(where.path, where.line).id if isinstance(where, LineOfFile) else where


class Backend(Protocol):
    """What the tools work on."""

    def of_kind(self, kind: Kind) -> OfKind:
        """Corpora of a kind that can be searched, and which cannot be now. Raises Opening."""

    def default(self, kind: Kind) -> str | None:
        """Corpus that a call means if it names none, whatever others there are."""

    def kind(self, corpus: str) -> Kind | None:
        """Kind of a corpus; None while that is not known. Raises NotFound."""

    def relative(self, corpus: str, path: str) -> str:
        """Path of a file or folder as the corpus writes it. Raises InvalidInput for one outside."""

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

    def related(self, corpus: str, where: Where, k: int) -> SearchReply:
        """Documents near one, nearest first, without itself. Raises NotFound."""

    def document(self, corpus: str, where: Where) -> DocumentReply:
        """A whole document. Raises NotFound."""

    def unread(self, corpus: str, beginning: str) -> str | None:
        """Say which files with this beginning of a path are not indexed, and why; None if all are."""

    def ask(self, corpus: str, question: str, k: int) -> QaReply:
        """Answers from a reference. Raises NotFound without a reader."""

    def classify(
        self,
        texts: list[str],
        labels: list[str] | None,
        classifier: str | None,
        *,
        multi_label: bool,
        transductive: bool,
    ) -> ClassifyReply:
        """Labels of texts, by the names of labels or by a trained classifier."""
