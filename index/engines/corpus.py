"""A corpus in an engine: it may answer from one retriever while the other fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from purlin.index.errors import EngineFailed
from purlin.index.records import Mode
from purlin.index.search.corpus import Corpus, PassageResult, SearchResult
from purlin.index.search.ranking.ranked import Ranked

_R = TypeVar("_R")


class HostedCorpus(Corpus):
    """A corpus whose retrievers may fail one by one.

    With `fallback`, a hybrid search that fails is answered by one retriever alone, with a warning;
    so is any hybrid search of an engine that has only one.
    """

    def __init__(self, *arguments: Any, fallback: bool, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._fallback = fallback

    def search(self, query: str, *, mode: Mode = "hybrid", **options: Any) -> SearchResult:
        """Search as `Corpus.search` does, or with one retriever if the other fails."""
        search = super().search
        result, warning = self._answered(mode, lambda mode: search(query, mode=mode, **options))
        warnings = " ".join(each for each in (warning, result.warning) if each)
        return replace(result, warning=warnings or None)

    def rank(self, query: str, depth: int, *, mode: Mode = "hybrid", **options: Any) -> Ranked:
        """Rank as `Corpus.rank` does, or with one retriever if the other fails."""
        rank = super().rank
        ranked, warning = self._answered(
            mode, lambda mode: rank(query, depth, mode=mode, **options)
        )
        return replace(ranked, warning=warning)

    def passages(
        self, query: str, k: int, *, mode: Mode = "hybrid", **options: Any
    ) -> PassageResult:
        """Return passages as `Corpus.passages` does, or of one retriever if the other fails."""
        passages = super().passages
        result, warning = self._answered(
            mode, lambda mode: passages(query, k, mode=mode, **options)
        )
        return replace(result, warning=warning)

    def _answered(self, mode: Mode, answer: Callable[[Mode], _R]) -> tuple[_R, str | None]:
        """Return an answer in this mode, or else in another one, and then a warning."""
        retrievers: list[Mode] = self.manifest.engine["retrievers"]
        if mode == "hybrid" and len(retrievers) == 1:
            version = self.manifest.engine["version"]
            return answer(retrievers[0]), _warning(retrievers[0], f"Milvus {version} has no other.")

        try:
            return answer(mode), None
        except EngineFailed as error:
            for retriever in retrievers if self._fallback and mode == "hybrid" else ():
                try:
                    return answer(retriever), _warning(retriever, error.message)
                except EngineFailed:
                    continue
            raise


def _warning(mode: Mode, reason: str) -> str:
    return f"Degraded: these hits are those of {mode} search alone. {reason}"
