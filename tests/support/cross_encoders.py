"""A tiny reader and a tiny reranker with random weights, whose graphs are written without torch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import pre_tokenizers

from purlin.index.encoder.exported import MODEL, TOKENIZER
from purlin.index.qa.reader_settings import READER_SETTINGS, ReaderSettings
from purlin.index.reranker import RERANKER_SETTINGS, RerankerSettings
from tests.support.static_files import digests_of
from tests.support.tiny import DIM, SPECIAL, WORDS, tokenizer_of

READING_WORDS = (
    *SPECIAL,
    *"what is the default step of range which function closes file a an it if omitted to defaults 1 0 none".split(),
    *"start stop return close ( ) , . = -".split(),
)


def write_reader(directory: Path) -> Path:
    """Write a reader directory."""
    files = _write_model(directory, READING_WORDS, {"start": 2, "end": 2, "selected": 1})
    settings = ReaderSettings(
        name="tiny-reader",
        max_tokens=64,
        prior_weight=0.55,
        calibration=(1.1663, 4.5191, -5.0551, -0.3409, 0.6905),
        files=files,
    )
    return _write_settings(directory / READER_SETTINGS, settings)


def write_reranker(directory: Path, *, default: tuple[str, ...] = ()) -> Path:
    """Write a reranker directory for code and products."""
    files = _write_model(directory, WORDS, {"relevance": 1})
    settings = RerankerSettings(
        name="tiny-reranker",
        max_tokens=32,
        weights={"code": 0.3, "product": 0.3},
        default=default,
        files=files,
    )
    return _write_settings(directory / RERANKER_SETTINGS, settings)


def _write_settings(path: Path, settings: ReaderSettings | RerankerSettings) -> Path:
    path.write_text(json.dumps(asdict(settings) | {"fingerprint": settings.fingerprint}))
    return path.parent


def _write_model(directory: Path, words: tuple[str, ...], ranks: dict[str, int]) -> dict[str, str]:
    """Write tokenizer and graph, and return their digests.

    An output of rank 2 has a logit for each token, one of rank 1 that of the first token.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer_of(words, pre_tokenizers.BertPreTokenizer()).save(str(directory / TOKENIZER))
    onnx.save(_graph(len(words), ranks), directory / MODEL)
    return digests_of(directory, MODEL, TOKENIZER)


def _graph(n_words: int, ranks: dict[str, int]) -> onnx.ModelProto:
    """Return a graph in which every token has a share in every logit, as with attention."""
    rng = np.random.default_rng(3)

    def weights(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    constants = [
        weights("table", n_words, DIM),
        weights("mixing", DIM, DIM),
        numpy_helper.from_array(np.array(0, np.int64), "first"),
        numpy_helper.from_array(np.array([2], np.int64), "last axis"),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["states"]),
        helper.make_node("ReduceMean", ["states"], ["context"], axes=[1]),
        helper.make_node("MatMul", ["context", "mixing"], ["mixed context"]),
        helper.make_node("Add", ["states", "mixed context"], ["sums"]),
        helper.make_node("Tanh", ["sums"], ["mixed"]),
    ]
    outputs = []
    for name, rank in ranks.items():
        constants.append(weights(f"{name} weights", DIM, 1))
        per_token = name if rank == 2 else f"{name} by token"
        nodes += [
            helper.make_node("MatMul", ["mixed", f"{name} weights"], [f"{name} column"]),
            helper.make_node("Squeeze", [f"{name} column", "last axis"], [per_token]),
        ]
        if rank == 1:
            nodes.append(helper.make_node("Gather", [per_token, "first"], [name], axis=1))
        shape = ["n", "t"][:rank]
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", "t"])
    graph = helper.make_graph(nodes, "tiny", [ids], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
