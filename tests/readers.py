"""A tiny reader with random weights, exported like a real one."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import pre_tokenizers

from tests.tiny import SPECIAL, save_bert
from training import reader
from training.data.questions import AskedSource
from training.model import ModelSettings

QUESTIONS = ["What is the default step of range?", "Which function closes the file?"]
WORDS = (
    *SPECIAL,
    *"what is the default step of range which function closes file a an it if omitted to defaults 1 0 none".split(),
    *"start stop return close ( ) , . = -".split(),
)


def tiny_base(directory: Path) -> Path:
    """A BERT of two layers with random weights and 36 words."""
    return save_bert(directory, WORDS, pre_tokenizers.BertPreTokenizer())


def tiny_recipe(base: Path, source: Path, **keys: object) -> reader.ReaderRecipe:
    """A recipe on that base whose questions are those of `source`."""
    defaults = {
        "name": "tiny-reader",
        "model": ModelSettings(
            base=str(base), max_query_tokens=16, max_passage_tokens=64, max_target_tokens=16
        ),
        "asked": (AskedSource(format="squad", path=source),),
        "reading": reader.ReadingSettings(passages=2, depth=2, max_tokens=64),
    }
    return reader.ReaderRecipe(**{**defaults, **keys})  # type: ignore[arg-type]


def tiny_reader(directory: Path) -> Path:
    """An exported reader directory."""
    base = tiny_base(directory / "base")
    recipe = tiny_recipe(base, directory, export=reader.ReaderExport(quantization="none"))
    torch.manual_seed(2)
    reader.load_reader_model(recipe.model).save(directory / "checkpoint")
    samples = [torch.randint(4, len(WORDS), (length,)).numpy() for length in (5, 9, 30)]
    reader.export_reader(recipe, directory / "checkpoint", directory / "reader", samples)
    return directory / "reader"
