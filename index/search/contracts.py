"""What a corpus needs from the engine that stores it: two retrievers, and its documents.

`purlin.index.search.corpus` fuses, ranks and explains by these contracts alone, so a search is the
same wherever vectors, postings and texts are stored. Passages and documents are identified by their
rows, int64 numbers that an engine chooses and keeps as long as a build is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from purlin.index.encoder import Vectors
from purlin.index.records import Document, Passage
from purlin.index.search.arrays import LexicalScores, Mask, Rows
from purlin.index.search.lexical.languages import Language
from purlin.index.search.store.filters import FieldType, Filter
from purlin.index.search.store.segment_store import StoredPassage

# Which passages a search may return, in the form of the engine that made it: a mask of all rows, or an
# expression. A corpus passes it on and never looks inside.
Allowed = Any


@dataclass(frozen=True, slots=True)
class Details:
    """What the ranking of a repository needs to know of n documents.

    `paths` are those of their files, None for a record of a list. `title_tokens` and `path_tokens`
    are the distinct tokens of titles and paths, separated by spaces. `secondary` masks documents whose
    role counts less, `modules` those with the code outside a file's definitions.
    """

    titles: Sequence[str]
    paths: Sequence[str | None]
    title_tokens: Sequence[str]
    path_tokens: Sequence[str]
    secondary: Mask
    modules: Mask


class DenseRetriever(Protocol):
    """Search by the vectors of passages."""

    def search(
        self, query: Vectors, depth: int, allowed: Allowed | None = None
    ) -> tuple[Rows, Vectors]:
        """Return rows and cosines of the `depth` allowed passages nearest to `query` (dim,).

        Best first; fewer only if there are no more.
        """

    def scores(self, query: Vectors, rows: Rows) -> Vectors:
        """Return the cosines (len(rows),) of `query` (dim,) with these passages."""

    def mean(self, rows: Rows) -> Vectors:
        """Return the unit vector (dim,) between the vectors of these passages."""


class LexicalRetriever(Protocol):
    """Search by words: scores are shares in 0-1 of the most that the query could get."""

    language: Language  # of the passages

    def corrected(self, query: str) -> str:
        """Return the query in the spelling of the passages, as far as the engine can tell."""

    def weights(self, query: str, *, with_absent: bool = True) -> Mapping[str, float]:
        """Map each distinct token of the query to the most that it can add to a score.

        Unless `with_absent`, those that no passage has are left out.
        """

    def search(
        self, weights: Mapping[str, float], depth: int, allowed: Allowed | None = None
    ) -> tuple[Rows, LexicalScores]:
        """Return rows and scores of the `depth` best allowed passages with any of the tokens.

        Best first, ties in the order of rows; fewer only if there are no more.
        """

    def scores(self, weights: Mapping[str, float], rows: Rows) -> LexicalScores:
        """Return the scores (len(rows),) of these passages, 0 for one without any of the tokens."""

    def matching(self, weights: Mapping[str, float], allowed: Allowed | None = None) -> Rows:
        """Return all allowed rows with any of the tokens, in ascending order."""

    def explain(self, weights: Mapping[str, float], rows: Rows) -> list[dict[str, float]]:
        """Map, for each of these passages, each token that adds to its score to what it adds."""


class DocumentStore(Protocol):
    """The documents of a build and their passages, without those that were removed.

    - `field_types`: the type of each field that a filter may use, by their sorted names.
    - `everything`: what a search without a filter may return; None if no row was removed.
    """

    field_types: Mapping[str, FieldType]
    everything: Allowed | None

    @property
    def has_files(self) -> bool:
        """Whether any document is part of a file, whose path tells what the document is for."""

    def allowed(self, conditions: Filter) -> Allowed:
        """Return what a search with this filter may return. Raises InvalidInput with the field's name."""

    def first_allowed(self, allowed: Allowed) -> Rows:
        """Return the first allowed passage of each document that has one, in the order of the sources."""

    def count(self, allowed: Allowed) -> int:
        """Count the documents that have an allowed passage."""

    def texts(self, field: str, most: int) -> Sequence[str]:
        """Return some texts of a field, `most` or little more; none if the store lists none."""

    def is_allowed(self, rows: Rows, allowed: Allowed | None) -> Mask:
        """Tell of each passage (n,) whether it is allowed."""

    def document_of(self, rows: Rows) -> Rows:
        """Return the document (n,) of each passage."""

    def passages_of(self, documents: Rows) -> Rows:
        """Return the rows of all passages of these documents, in ascending order."""

    def lengths(self, rows: Rows) -> Rows:
        """Return the length (n,) of each passage in characters."""

    def order(self, rows: Rows) -> Rows:
        """Return numbers (n,) that sort passages of equal score."""

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Map those of the ids that exist to their documents."""

    def rows_named(self, name: str) -> Rows:
        """Return passages of the documents whose id or title is `name`; titles in any case."""

    def rows_where(self, conditions: Filter, limit: int | None = None) -> Rows:
        """Return passages that pass a filter, in ascending order; at most the first `limit`."""

    def secondary(self, documents: Rows) -> Mask:
        """Tell of each document (n,) whether its role counts less, as that of a test does."""

    def details(self, documents: Rows) -> Details:
        """Return what the ranking of a repository needs to know of these documents."""

    def existing_paths(self, paths: Iterable[str]) -> set[str]:
        """Return those of the paths that some document's file has."""

    def document(self, document_id: str) -> Document:
        """Return the document with this id, whole. Raises NotFound."""

    def fetch(self, rows: Sequence[int]) -> list[StoredPassage]:
        """Return passages in the given order; those of one document share its object."""

    def close(self) -> None:
        """Release files and connections; later calls fail."""


class PassageReranker(Protocol):
    """A model, of this name, that reads a query and a passage together.

    `weights` has the share (0-1) of the relevance in the score, for each kind that can be reranked.
    """

    name: str
    weights: Mapping[str, float]

    def relevance(
        self,
        query: str,
        passages: Sequence[tuple[Document, Passage]],
        *,
        deadline: float | None = None,
    ) -> Vectors:
        """Return the relevance (n,) in 0-1 of the first n passages: those read before the deadline.

        A deadline is a time of `time.monotonic()`.
        """
