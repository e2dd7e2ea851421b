"""A corpus in an engine: it may answer from one retriever while the other fails."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from purlin.index.errors import EngineFailed
from purlin.index.records import Mode
from purlin.index.search.corpus import Corpus, Ranked, Retrieved, SearchResult

_SINGLE: tuple[Mode, ...] = ("dense", "lexical")


class HostedCorpus(Corpus):
    """A corpus whose retrievers may fail one by one.

    With `fallback`, a hybrid search that fails is answered by one retriever alone, with a warning;
    so is any hybrid search of an engine that has only one.
    """

    def __init__(self, *arguments: Any, fallback: bool, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._fallback = fallback or len(self.manifest.engine["retrievers"]) == 1

    def search(self, query: str, *, mode: Mode = "hybrid", **options: Any) -> SearchResult:
        """Search as `Corpus.search` does, or with one retriever if the other fails."""
        try:
            return super().search(query, mode=mode, **options)
        except EngineFailed as error:
            for other in self._others(mode):
                with contextlib.suppress(EngineFailed):
                    result = super().search(query, mode=other, **options)
                    return replace(result, warning=_warning(other, error))
            raise

    def rank(self, query: str, depth: int, *, mode: Mode = "hybrid", **options: Any) -> Ranked:
        """Rank as `Corpus.rank` does, or with one retriever if the other fails."""
        try:
            return super().rank(query, depth, mode=mode, **options)
        except EngineFailed as error:
            for other in self._others(mode):
                with contextlib.suppress(EngineFailed):
                    ranked = super().rank(query, depth, mode=other, **options)
                    return replace(ranked, warning=_warning(other, error))
            raise

    def passages(
        self, query: str, k: int, *, mode: Mode = "hybrid"
    ) -> tuple[list[Retrieved], Mapping[str, float]]:
        """Return passages as `Corpus.passages` does, or of one retriever if the other fails."""
        try:
            return super().passages(query, k, mode=mode)
        except EngineFailed:
            for other in self._others(mode):
                with contextlib.suppress(EngineFailed):
                    return super().passages(query, k, mode=other)
            raise

    def _others(self, mode: Mode) -> tuple[Mode, ...]:
        return _SINGLE if self._fallback and mode == "hybrid" else ()


def _warning(mode: Mode, error: EngineFailed) -> str:
    return f"Degraded: these hits are those of {mode} search alone. {error.message}"
