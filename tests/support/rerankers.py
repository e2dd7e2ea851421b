"""A reranker that counts words."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.records import Document, Passage
from purlin.index.texts.passages import render


class WordReranker:
    """The relevance is the share of the query's words in the passage; each takes `seconds`."""

    name = "words"

    def __init__(self, seconds: float = 0.0, weight: float = 0.5) -> None:
        self.weights: Mapping[str, float] = {"code": weight, "reference": weight}
        self.read: list[str] = []
        self._seconds = seconds

    def relevance(
        self,
        query: str,
        passages: Sequence[tuple[Document, Passage]],
        *,
        deadline: float | None = None,
    ) -> Vectors:
        scores, now = [], time.monotonic()
        for document, passage in passages:
            if deadline is not None and now > deadline:
                break
            now += self._seconds
            self.read.append(document.id)
            words = query.lower().split()
            text = render(document, passage).lower()
            scores.append(sum(word in text for word in words) / len(words))
        return np.array(scores, dtype=np.float32)
