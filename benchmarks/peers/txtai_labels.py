"""Write the model of txtai's zero-shot pipeline for `txtai.api`, and its configuration.

    python txtai_labels.py CHECKPOINT OUT

A model trained on entailment cannot be downloaded here, so this is a BERT of the encoder's size,
6 layers of 384, untrained: it costs what a trained one of that size costs, and its answers mean
nothing. txtai's own default, a DeBERTa or BART of hundreds of millions of weights, costs more.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")


def write(checkpoint: Path, out: Path) -> None:
    torch.manual_seed(0)
    names = {0: "contradiction", 1: "neutral", 2: "entailment"}
    ids = {name: number for number, name in names.items()}
    config = BertConfig.from_pretrained(checkpoint, num_labels=3, id2label=names, label2id=ids)
    model = BertForSequenceClassification(config)
    model.save_pretrained(out / "model")
    for name in TOKENIZER:
        shutil.copy(checkpoint / name, out / "model" / name)

    # `/similarity` uses the embeddings: labels as texts, the text as the query.
    settings = {"labels": {"path": str(out / "model")}, "embeddings": {"path": str(checkpoint)}}
    (out / "config.yml").write_text(json.dumps(settings), encoding="utf-8")


if __name__ == "__main__":
    target = Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    write(Path(sys.argv[1]), target)
