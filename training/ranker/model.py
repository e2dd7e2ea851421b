"""The reranker that is trained: a cross-encoder of query and passage."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from purlin.index.errors import InvalidInput
from purlin.training.cross_encoder import CrossEncoder
from purlin.training.models.pretrained import base_path
from purlin.training.models.restore import HEAD
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import BertLike, load_text_model

SELECTION = 2  # the row of a reader's head that gives the logit of a passage


class RankerModel(CrossEncoder):
    """A cross-encoder with one logit on the first token: that of relevance."""

    def __init__(self, text_model: BertLike) -> None:
        super().__init__(text_model, 1)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits (n,) of `ids` and `mask` (n, t)."""
        logits: Tensor = self.head(self.states(ids, mask)[:, 0]).float()[:, 0]
        return logits


def load_ranker_model(settings: ModelSettings, directory: Path | None = None) -> RankerModel:
    """Load the base model, or what `save` wrote to `directory`.

    The head is a new one, unless the base is a reader: then it is the one that selects passages.
    Raises what `purlin.training.models.text_model.load_text_model` does, and Damaged for a head that cannot be
    read.
    """
    text_model = load_text_model(settings, directory, decoder=False)
    if not isinstance(text_model, BertLike):
        raise InvalidInput("A reranker needs a BERT-like base model.", field="base")

    ranker = RankerModel(text_model)
    source = directory or Path(base_path(settings.base))
    if directory is not None or (source / HEAD).is_file():
        ranker.load_head(source, output=SELECTION)
    return ranker
