"""Tasks of SANTA on tiny models, and recipes of whole runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from purlin.training.data.pairs.pair import Pair
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from purlin.training.santa.recipe import Stage
from purlin.training.santa.task import SantaTask
from tests.support.code_pairs import PAIRS, save_code_bert, tiny, vocabulary
from tests.support.files import write_jsonl
from tests.support.tiny import save_t5

LOOP = LoopSettings(batch_size=8, steps=3, learning_rate=1e-3, every=2, precision="fp32")


def save_bases(home: Path) -> dict[str, Path]:
    """Write the models that stages start from: a BERT and a T5."""
    return {
        "bert": save_code_bert(home / "bert"),
        "t5": save_t5(
            home / "t5",
            vocabulary("<extra_id_{}>"),
            d_model=16,
            d_ff=32,
            num_layers=1,
            num_heads=2,
        ),
    }


def task_of(
    base: Path, directory: Path, stage: Stage, *sources: Sequence[Pair], **changes: Any
) -> SantaTask:
    values = {"seed": 5, "directory": directory, **changes}
    text_model = tiny(base, dropout=0.0).eval()
    return SantaTask(
        text_model, sources or [PAIRS], stage, make_accelerator(LOOP, cpu=True), **values
    )


def words(task: SantaTask, ids: Tensor) -> list[str]:
    """Return the words of each row, without [CLS], [SEP] and padding."""
    names = task.model.tokenizer.convert_ids_to_tokens
    return [
        " ".join(word for word in names(row) if word not in ("[CLS]", "[SEP]", "[PAD]"))
        for row in ids.tolist()
    ]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool((a == b).all()) if a is not None else b is None


HELD = '{name = "held", path = "dev.jsonl", format = "pairs"}'


def write_recipe(home: Path, base: Path, changes: Callable[[str], str] = str) -> Path:
    """Write a recipe of two stages on 24 pairs, which mines hard negatives three times."""
    lines = [
        {"queries": pair.queries, "code": pair.passage, "language": "python"} for pair in PAIRS
    ]
    write_jsonl(home / "pairs.jsonl", lines[:24])
    write_jsonl(home / "dev.jsonl", ({**line, "query": line["queries"][0]} for line in lines))
    text = f"""
        name = "tiny"
        seed = 3
        model = {{base = "{base}", max_query_tokens = 16, max_passage_tokens = 48, max_target_tokens = 32}}
        pairs = [{{format = "pairs", path = "pairs.jsonl"}}]
        dev = [{HELD}]
        export = {{max_tokens = 48, quantization = "none", base_share = 0.25}}

        [[stage]]
        name = "pretrain"
        mep = 1.0
        loop = {{batch_size = 8, epochs = 2, learning_rate = 1e-3, every = 4, precision = "fp32"}}

        [[stage]]
        name = "finetune"
        temperature = 0.1
        hard_negatives = 1
        depth = 5
        loop = {{batch_size = 8, epochs = 3, learning_rate = 1e-3, every = 2, precision = "fp32"}}
    """
    path = home / "recipe.toml"
    path.write_text(changes(text))
    return path
