"""A corpus in an engine: it may answer from one retriever while the other fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from purlin.index.errors import EngineFailed
from purlin.index.records import Mode
from purlin.index.search.corpus import Corpus, PassageResult
from purlin.index.search.ranking.ranked import Ranked

_R = TypeVar("_R", Ranked, PassageResult)


class HostedCorpus(Corpus):
    """A corpus whose retrievers may fail one by one.

    With `fallback`, a hybrid search that fails is answered by one retriever alone, with a warning;
    so is any hybrid search of an engine that has only one.
    """

    def __init__(self, *arguments: Any, fallback: bool, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._fallback = fallback

    def rank(self, query: str, depth: int, *, mode: Mode = "hybrid", **options: Any) -> Ranked:
        """Rank as `Corpus.rank` does, or with one retriever if the other fails."""
        return self._answered(partial(super().rank, query, depth, **options), mode)

    def passages(
        self, query: str, k: int, *, mode: Mode = "hybrid", **options: Any
    ) -> PassageResult:
        """Return passages as `Corpus.passages` does, or of one retriever if the other fails."""
        return self._answered(partial(super().passages, query, k, **options), mode)

    def _answered(self, answer: Callable[..., _R], mode: Mode) -> _R:
        """Return an answer in this mode, or else in that of one retriever, with a warning."""
        retrievers: list[Mode] = self.manifest.engine["retrievers"]
        if mode == "hybrid" and len(retrievers) == 1:
            version = self.manifest.engine["version"]
            return _degraded(answer, retrievers[0], f"Milvus {version} has no other.")

        try:
            return answer(mode=mode)
        except EngineFailed as error:
            for retriever in retrievers if self._fallback and mode == "hybrid" else ():
                with suppress(EngineFailed):
                    return _degraded(answer, retriever, error.message)
            raise


def _degraded(answer: Callable[..., _R], mode: Mode, reason: str) -> _R:
    """Return the answer of one retriever, with a warning that it is."""
    result = answer(mode=mode)
    warning = f"Degraded: these hits are those of {mode} search alone. {reason}"
    return replace(result, warning=" ".join(filter(None, [warning, result.warning])))
