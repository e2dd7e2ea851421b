"""Files by which sentence-transformers loads a checkpoint of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from purlin.training.models.architectures import positions
from purlin.training.models.settings import MAX_TOKENS, ModelSettings

EXPORT_TOKENS = 256  # the default limit of an encoder exported from a checkpoint


def write_modules(directory: Path, transformer: Any, settings: ModelSettings) -> None:
    """Write the files of sentence-transformers: the list of modules, and the settings of each."""
    names = {"": "Transformer", "1_Pooling": "Pooling"}
    if settings.pooling == "pooler":
        names["2_Dense"] = "Dense"
    if settings.similarity == "cosine":
        names[f"{len(names)}_Normalize"] = "Normalize"

    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for number, (path, name) in enumerate(names.items())
    ]
    pooling = {
        "word_embedding_dimension": transformer.config.hidden_size,
        "pooling_mode_cls_token": settings.pooling != "mean",
        "pooling_mode_mean_tokens": settings.pooling == "mean",
    }
    longest = min(EXPORT_TOKENS, positions(transformer) or MAX_TOKENS)
    limits = {"max_seq_length": longest, "do_lower_case": False}

    for path in names:
        (directory / path).mkdir(exist_ok=True)
    _write_json(directory / "modules.json", modules)
    _write_json(directory / "sentence_bert_config.json", limits)
    _write_json(directory / "1_Pooling" / "config.json", pooling)
    if settings.pooling == "pooler":
        _write_pooler(directory / "2_Dense", transformer)


def _write_pooler(directory: Path, transformer: Any) -> None:
    """Write a model's pooler as the module of sentence-transformers that computes the same."""
    layer, size = transformer.pooler.dense, transformer.config.hidden_size
    config = {
        "in_features": size,
        "out_features": size,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    _write_json(directory / "config.json", config)

    weights = {"linear.weight": layer.weight, "linear.bias": layer.bias}
    save_file(
        {name: weight.detach().contiguous() for name, weight in weights.items()},
        directory / "model.safetensors",
    )


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
