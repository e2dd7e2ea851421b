"""Models of a few kilobytes with random weights: ONNX encoder directories, and checkpoints."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from purlin.index.classify.trained import ENCODER, ClassifierSpec, write_classifier
from purlin.index.encoder.exported import MODEL, TOKENIZER
from purlin.index.encoder.transformer import EncoderSettings
from tests.support.static_files import digests_of, write_settings

DIM = 32
LABELS = ("sports", "business", "world")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = (
    *SPECIAL,
    *"def return open close read write file line path mode in of the a to = ( ) : . ,".split(),
)


def tiny_encoder(directory: Path, *, query_prefix: str = "", passage_prefix: str = "") -> str:
    """Write an encoder of the mean of a random vector per word; return its fingerprint."""
    directory.mkdir(parents=True)
    vocabulary = ["[UNK]", *LABELS, "about", "the", "news", "of"]
    onnx.save(_model(vocabulary), directory / MODEL)
    tokenizer_of(vocabulary).save(str(directory / TOKENIZER))
    digests = digests_of(directory, MODEL, TOKENIZER)
    settings = EncoderSettings("tiny", DIM, 64, query_prefix, passage_prefix, digests)
    write_settings(directory, settings)
    return settings.fingerprint


def tokenizer_of(words: Sequence[str], splitter: Any = None) -> Tokenizer:
    """A tokenizer of whole lower-case words."""
    tokenizer = Tokenizer(
        models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = splitter or pre_tokenizers.Whitespace()
    return tokenizer


def _model(vocabulary: Sequence[str]) -> onnx.ModelProto:
    rows = [
        np.random.default_rng(zlib.crc32(word.encode())).standard_normal(DIM) for word in vocabulary
    ]
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


def trained(fingerprint: str, **changed: object) -> ClassifierSpec:
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
    return ClassifierSpec(**values | changed)  # type: ignore[arg-type]


def staged(directory: Path, **changed: object) -> Path:
    """A directory with everything that a named classifier has."""
    write_classifier(directory, trained(tiny_encoder(directory / ENCODER), **changed))
    return directory


def save_tokenizer(directory: Path, words: Sequence[str] = WORDS, splitter: Any = None) -> None:
    """Write a tokenizer of whole lower-case words, the first of which are SPECIAL."""
    # Imported here, as the tests of the server run without torch.
    from transformers import PreTrainedTokenizerFast

    tokenizer = tokenizer_of(words, splitter)
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=True))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=128, **names
    ).save_pretrained(directory)


def save_bert(
    directory: Path,
    words: Sequence[str] = WORDS,
    splitter: Any = None,
    *,
    pooler: bool = False,
    **changes: Any,
) -> Path:
    """Write a BERT checkpoint, with weights so large that every layer changes the result."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    values = {
        "vocab_size": len(words),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 128,
        "initializer_range": 0.2,
    }
    BertModel(BertConfig(**values | changes), add_pooling_layer=pooler).save_pretrained(directory)
    save_tokenizer(directory, words, splitter)
    return directory


def save_t5(directory: Path, words: Sequence[str] = WORDS, **changes: Any) -> Path:
    """Write a whole T5 with random weights."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(2)
    values = {
        "vocab_size": len(words),
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
        "pad_token_id": 0,
        "eos_token_id": 3,
        "decoder_start_token_id": 0,
    }
    T5ForConditionalGeneration(T5Config(**values | changes)).save_pretrained(directory)
    save_tokenizer(directory, words)
    return directory


def save_dpr(directory: Path, kind: Any, words: Sequence[str] = WORDS, **changes: int) -> Path:
    """Write one of DPR's models with random weights, in the layout of those published."""
    import torch
    from transformers import DPRConfig

    torch.manual_seed(len(kind.__name__))
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 64, **changes}
    config = DPRConfig(vocab_size=len(words), initializer_range=0.2, **sizes)
    kind(config).save_pretrained(directory)
    save_tokenizer(directory, words)
    return directory
