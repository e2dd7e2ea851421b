"""The tiny model that runs start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tiny import SPECIAL, save_bert
from tests.training.pesco.topics import COMMON, TOPIC_NAMES, TOPICS


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT that knows all words of TEXTS: mean-pooled, it is much like a bag of words."""
    words = [*SPECIAL, ".", *COMMON, *TOPICS["river"], *TOPICS["music"], *TOPIC_NAMES]
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    size |= {"intermediate_size": 16, "max_position_embeddings": 64}
    return save_bert(tmp_path_factory.mktemp("base"), words, **size)
