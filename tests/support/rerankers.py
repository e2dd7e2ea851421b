"""A tiny reranker with random weights, exported like a real one, and one that counts words."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

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


def tiny_reranker(directory: Path, *, default: tuple[str, ...] = ()) -> Path:
    """An exported reranker directory of a BERT of two layers, for code and products."""
    # Imported here, as the tests of the server run without torch.
    import torch
    from tokenizers import pre_tokenizers

    from purlin.training.data.pairs.pair import PairSource
    from purlin.training.models.settings import ModelSettings
    from purlin.training.ranker.export import export_ranker
    from purlin.training.ranker.model import load_ranker_model
    from purlin.training.ranker.recipe import RankerExport, RankerRecipe, RankingSettings
    from tests.support.tiny import WORDS, save_bert

    base = save_bert(directory / "base", WORDS, pre_tokenizers.BertPreTokenizer())
    recipe = RankerRecipe(
        name="tiny-reranker",
        pairs=(PairSource(format="pairs", path=directory),),
        ranking=RankingSettings(encoder=directory, max_tokens=32),
        model=ModelSettings(base=str(base)),
        export=RankerExport(quantization="none", default=default),
    )
    torch.manual_seed(2)
    load_ranker_model(recipe.model).save(directory / "checkpoint")
    samples = [torch.randint(4, len(WORDS), (length,)).numpy() for length in (5, 9, 30)]
    export_ranker(recipe, directory / "checkpoint", directory / "reranker", samples)
    return directory / "reranker"
