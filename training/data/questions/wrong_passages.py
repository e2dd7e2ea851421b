"""Passages that look like answers but are not: negatives for a reader."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.qa.reader import model_text
from purlin.index.search.lexical.bm25 import Lexical, top
from purlin.index.search.lexical.builder import LexicalBuilder
from purlin.index.search.lexical.postings import Postings
from purlin.training.data.questions.reader_questions import PassagePool, TrainingQuestion

# Queries whose cosines with all passages are in memory at a time.
QUERIES_PER_BLOCK = 128


class Miner:
    """Finds passages of a pool that look like answers but are not, as negatives for a reader."""

    def __init__(
        self,
        pool: PassagePool,
        encoder: TextEncoder | None = None,
        passage_vectors: Callable[[Sequence[str]], Vectors] | None = None,
    ) -> None:
        """Index the pool; `passage_vectors` returns vectors of texts that were encoded before."""
        self.encoder = encoder
        self.entries = _number(pool.entries)
        # Manuals repeat themselves: the same text on another page is not a negative.
        self.texts = _number([passage.text for passage in pool.passages])

        texts = [model_text(passage) for passage in pool.passages]
        self.lexical = lexical_index(texts)
        self.vectors = None
        if encoder is not None:
            encode = passage_vectors or partial(encoder.encode, role="passage")
            self.vectors = encode(texts)

    def wrong(self, questions: Sequence[TrainingQuestion], depth: int) -> NDArray[np.int32]:
        """Return rows (len(questions), depth) of the best wrong passages, best first.

        They are those that BM25 ranks highest, without those of the question's own entry, if that is
        known. With an encoder the shape is (len(questions), 2 * depth): passages ranked by BM25 and
        by cosine, in turns. If fewer than `depth` passages share a word with the question, they are
        repeated; if none does, the passages after its own are used.
        """
        rows = np.arange(len(self.texts))
        lexical = (
            self.lexical.scores(self.lexical.weights(question.question), rows)
            for question in questions
        )
        rankings = [self._rank(questions, lexical, depth)]

        if self.encoder is not None and self.vectors is not None:
            texts = [question.question for question in questions]
            queries = self.encoder.encode(texts, role="query")
            rankings.append(self._rank(questions, _cosines(queries, self.vectors), depth))

        return np.stack(rankings, axis=2).reshape(len(questions), -1)

    def _rank(
        self,
        questions: Sequence[TrainingQuestion],
        scores: Iterable[NDArray[np.float32]],
        depth: int,
    ) -> list[NDArray[np.int32]]:
        return [
            self._best(passage_scores, question, depth)
            for passage_scores, question in zip(scores, questions, strict=True)
        ]

    def _best(
        self, scores: NDArray[np.float32], question: TrainingQuestion, depth: int
    ) -> NDArray[np.int32]:
        row = question.passage
        if question.labelled:
            own = (self.entries == self.entries[row]) | (self.texts == self.texts[row])
            scores = np.where(own, np.float32(0.0), scores)
        best = top(scores, depth)
        following = (row + 1 + np.arange(depth)) % len(scores)
        return np.resize(best if len(best) else following, depth).astype(np.int32)


def lexical_index(texts: Iterable[str]) -> Lexical:
    """Return BM25 over the texts."""
    with tempfile.TemporaryDirectory() as directory:
        builder = LexicalBuilder(Path(directory))
        for text in texts:
            builder.add(text)
        builder.close()
        # Open files outlive their directory.
        return Lexical([Postings.load(Path(directory))])


def _cosines(queries: Vectors, passages: Vectors) -> Iterator[NDArray[np.float32]]:
    """Yield each query's cosines with all passages, computed in blocks."""
    for start in range(0, len(queries), QUERIES_PER_BLOCK):
        yield from queries[start : start + QUERIES_PER_BLOCK] @ passages.T


def _number(texts: Sequence[str]) -> NDArray[np.int64]:
    """Number the texts so that equal texts have the same number."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts])
