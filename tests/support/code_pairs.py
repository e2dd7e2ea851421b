"""Pairs of a text and a function, made of verbs and nouns, and tiny models that know their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers

from purlin.training.data.pairs.pair import Pair
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import TextModel, load_text_model
from tests.support.tiny import SPECIAL, save_bert

VERBS = "read write open close copy move list find".split()


NOUNS = "file line path map".split()


def pair_of(verb: str, noun: str) -> Pair:
    code = f"def {verb}_{noun}({noun}, mode):\n    return {noun}.{verb}(mode)"
    return Pair((f"{verb} the {noun} at once", f"how to {verb} a {noun}"), code, "code", "python")


PAIRS = [pair_of(verb, noun) for verb in VERBS for noun in NOUNS]


def vocabulary(sentinel: str) -> list[str]:
    """Return special tokens, sentinels, and all words of PAIRS."""
    text_words = dict.fromkeys(
        spaced(" ".join(text for pair in PAIRS for text in (*pair.queries, pair.passage))).split()
    )
    return [*SPECIAL, *(sentinel.format(number) for number in range(20)), *text_words]


def tiny(base: Path, **changes: Any) -> TextModel:
    torch.manual_seed(3)
    lengths = {"max_query_tokens": 16, "max_passage_tokens": 48, "max_target_tokens": 32}
    return load_text_model(ModelSettings(base=str(base), **{**lengths, **changes}))


def spaced(text: str) -> str:
    return " ".join(word for word, _ in pre_tokenizers.Whitespace().pre_tokenize_str(text))


def save_code_bert(directory: Path) -> Path:
    """Write a BERT of one layer that knows the words of PAIRS."""
    size = {"num_hidden_layers": 1, "intermediate_size": 32, "max_position_embeddings": 64}
    return save_bert(directory, vocabulary("[unused{}]"), **size)
