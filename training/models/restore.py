"""Restore the checkpoint behind an exported directory, except for what 8 bits have rounded.

Released models are graphs, but training continues from weights. This lets the base model of a
recipe be an encoder or a reader of `models/`, where neither the hub nor the original checkpoint is
available.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import NodeProto, numpy_helper
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from purlin.index.encoder.exported import MODEL, TOKENIZER
from purlin.index.encoder.transformer import QUERY_MODEL, open_session
from purlin.index.errors import InvalidInput

HEAD = "head.safetensors"
WORD_TABLE = "embeddings.word_embeddings.weight"
NORM = "embeddings.LayerNorm.weight"
MIN_CORRELATION = 0.95  # of the restored model's states with those of a graph in 8 bits
MAX_PROBE = 30  # tokens
SPECIAL = ("unk", "pad", "cls", "sep", "mask")
Weights = dict[str, torch.Tensor]


@cache
def restored(exported: Path) -> Path:
    """Restore `exported` to a temporary directory, which is removed when the process ends."""
    directory = Path(tempfile.mkdtemp(prefix="purlin-base-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    restore(exported, directory)
    return directory


def restore(exported: Path, out: Path) -> None:
    """Write config, weights and tokenizer of an exported BERT to `out`, with the head of a reader.

    Raises InvalidInput if the graph is not that of one BERT, as `purlin.training.exporting.encoder` writes it.
    """
    try:
        bert, head = _read_bert(exported)
        tokenizer = _tokenizer(exported / TOKENIZER)
    # onnx, torch and tokenizers raise exceptions of all kinds for what a file holds.
    except Exception as error:  # noqa: BLE001
        reason = " ".join(str(error).split())[:200]
        raise InvalidInput(
            f"{exported} is not an exported BERT encoder or reader ({reason}). "
            "Name the checkpoint it was exported from.",
            field="base",
        ) from None

    bert.save_pretrained(out)
    tokenizer.save_pretrained(out)
    if head:
        save_file(head, out / HEAD)


def _read_bert(exported: Path) -> tuple[BertModel, Weights]:
    """Return the BERT of a graph, and the weights of a reader's head (none for an encoder)."""
    if (exported / QUERY_MODEL).is_file():
        raise ValueError("it has two encoders")

    model = onnx.load(exported / MODEL)
    graph = _ExportedGraph(model.graph)
    weights = graph.weights()
    head_names = [name for name in weights if "head." in name]
    head = {name.rpartition("head.")[2]: weights.pop(name) for name in head_names}

    bert = BertModel(graph.config(weights), add_pooling_layer=False)
    bert.load_state_dict(
        {name.removeprefix(graph.prefix): value for name, value in weights.items()}
    )
    _compare_states(model, bert.eval())  # type: ignore[no-untyped-call]
    return bert, head


def _compare_states(model: onnx.ModelProto, bert: BertModel) -> None:
    """Raise ValueError unless both give the same last states.

    Models of other architectures can have weights of the same names.
    """
    norms = [node.output[0] for node in model.graph.node if node.op_type == "LayerNormalization"]
    last = norms[-1]
    model.graph.output.append(onnx.ValueInfoProto(name=last))
    session = open_session(model.SerializeToString())

    length = min(MAX_PROBE, bert.config.vocab_size, bert.config.max_position_embeddings)
    ids = np.arange(length)[None, ::-1].copy()
    with torch.inference_mode():
        states = bert(torch.from_numpy(ids)).last_hidden_state.numpy()
    expected = session.run([last], {"input_ids": ids})[0]

    if np.corrcoef(states.ravel(), expected.ravel())[0, 1] < MIN_CORRELATION:
        raise ValueError("a BERT with its weights computes something else")


def _tokenizer(path: Path) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer.from_str(path.read_text())
    words = {f"{name}_token": f"[{name.upper()}]" for name in SPECIAL}
    special = {
        name: word for name, word in words.items() if tokenizer.token_to_id(word) is not None
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)  # type: ignore[no-untyped-call]


class _ExportedGraph:
    """Reads the weights of a graph under the names that they had in the checkpoint."""

    def __init__(self, graph: Any) -> None:
        self.nodes: list[NodeProto] = list(graph.node)
        self.constants = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
        }
        self.producers = {name: node for node in self.nodes for name in node.output}
        self.consumers = {name: node for node in self.nodes for name in node.input}

        # Wrappers put a prefix before the names of the BERT's own weights.
        (self.prefix,) = [name.removesuffix(NORM) for name in self.constants if name.endswith(NORM)]

    def config(self, weights: Weights) -> BertConfig:
        """Return the model's config: sizes from the weights, the rest from the operators."""

        def size(name: str) -> int:
            return len(weights[self.prefix + name])

        return BertConfig(
            vocab_size=size(WORD_TABLE),
            hidden_size=size(NORM),
            num_hidden_layers=sum(name.endswith("attention.self.query.weight") for name in weights),
            num_attention_heads=self._attribute("MultiHeadAttention", "num_heads"),
            intermediate_size=size("encoder.layer.0.intermediate.dense.bias"),
            max_position_embeddings=size("embeddings.position_embeddings.weight"),
            type_vocab_size=size("embeddings.token_type_embeddings.weight"),
            layer_norm_eps=self._attribute("LayerNormalization", "epsilon"),
            # BERT's padding is its first word.
            pad_token_id=0,
        )

    def weights(self) -> Weights:
        """Return name -> float32 tensor; those of linear layers are (out, in)."""
        arrays = {
            name: value
            for name, value in self.constants.items()
            if name.endswith((".weight", ".bias"))
        }

        # In 8 bits the word table is stored as bytes, with a scale per row.
        word_table = self.prefix + WORD_TABLE
        if word_table not in arrays:
            rows = self.constants[f"{word_table}_bytes"]
            arrays[word_table] = rows * self.constants[f"{word_table}_scales"]

        for bias, weight in self._layers():
            arrays[bias.removesuffix("bias") + "weight"] = weight.T

        return {
            name: torch.tensor(value, dtype=torch.float32).contiguous()
            for name, value in arrays.items()
        }

    def _layers(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield the name of each linear layer's bias, and its weights (in, out)."""
        for node in self.nodes:
            if node.op_type == "MatMul" and node.input[1] in self.constants:
                yield self._bias(node), self.constants[node.input[1]]
            elif node.op_type == "MatMulIntegerToFloat":
                weight = self.constants[node.input[1]] * self.constants[node.input[3]]
                yield self._bias(node), weight * self._smoothing(node)

    def _bias(self, layer: NodeProto) -> str:
        """Return the name of the constant that is added to a layer's output."""
        # A quantized layer may take the bias as its last input.
        for name in layer.input[6:]:
            return str(name)

        # Otherwise an Add follows, after the product that scales rows back, if there is one.
        add = self.consumers[layer.output[0]]
        if add.op_type == "Mul":
            add = self.consumers[add.output[0]]
        (name,) = [name for name in add.input if name in self.constants]
        return str(name)

    def _smoothing(self, layer: NodeProto) -> NDArray[np.float32]:
        """Return what `purlin.training.exporting.quantize` divided the weights by: factors (in, 1) of the inputs."""
        quantizer = self.producers[layer.input[0]]
        multiplier = self.producers[quantizer.input[0]]
        if multiplier.op_type != "Mul":
            return np.ones((1, 1), np.float32)

        return self.constants[multiplier.input[1]][:, None]

    def _attribute(self, operator: str, name: str) -> Any:
        node = next(node for node in self.nodes if node.op_type == operator)
        attribute = next(attribute for attribute in node.attribute if attribute.name == name)
        return onnx.helper.get_attribute_value(attribute)
