"""A real encoder directory of a few kilobytes: the mean of a random vector per word, in ONNX."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from index.classifiers import ENCODER, Trained, write_classifier
from index.encoder import MODEL, SETTINGS, TOKENIZER, Settings

DIM = 32
LABELS = ("sports", "business", "world")


def tiny_encoder(directory: Path, words: Sequence[str] = (*LABELS, "about", "the", "news", "of")) -> str:
    """Write it; a word's vector depends on the word alone. Returns its fingerprint."""
    directory.mkdir(parents=True)
    vocabulary = ["[UNK]", *words]
    onnx.save(_model(vocabulary), directory / MODEL)
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / TOKENIZER))
    digests = {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in (MODEL, TOKENIZER)}
    settings = Settings("tiny", DIM, 64, "", "", digests)
    (directory / SETTINGS).write_text(json.dumps(asdict(settings) | {"fingerprint": settings.fingerprint}))
    return settings.fingerprint


def _model(vocabulary: Sequence[str]) -> onnx.ModelProto:
    rows = [np.random.default_rng(zlib.crc32(word.encode())).standard_normal(DIM) for word in vocabulary]
    table = numpy_helper.from_array(np.array(rows, np.float32), "table")
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["states"]),
        helper.make_node("ReduceMean", ["states"], ["means"], axes=[1], keepdims=0),
        helper.make_node("LpNormalization", ["means"], ["vectors"], axis=1, p=2),
    ]
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])
    vectors = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", DIM])
    graph = helper.make_graph(nodes, "tiny", [ids], [vectors], [table])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def trained(fingerprint: str, **changed: object) -> Trained:
    """A classifier of news, by one or two prompts per label."""
    values: dict[str, object] = {
        "name": "tickets",
        "labels": LABELS,
        "prompts": (("about sports", "sports news"), ("about business",), ("about the world",)),
        "offsets": (0.0, 0.1, -0.1),
        "temperature": 0.1,
        "measures": {"agreement": 0.9},
        "fingerprint": fingerprint,
    }
    return Trained(**values | changed)  # type: ignore[arg-type]


def staged(directory: Path, **changed: object) -> Path:
    """A directory with everything that a named classifier has."""
    write_classifier(directory, trained(tiny_encoder(directory / ENCODER), **changed))
    return directory
