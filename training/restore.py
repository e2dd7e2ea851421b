"""An exported directory -> the checkpoint it was made from, but for what 8 bits have rounded.

What is released are graphs; training goes on from weights. A base model may so be an encoder or a reader of `models/`,
where neither the hub nor the checkpoint behind it is at hand.
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

from index.encoder import QUERY_MODEL, open_session
from index.errors import InvalidInput
from index.exported import MODEL, TOKENIZER

HEAD = "head.safetensors"
WORDS = "embeddings.word_embeddings.weight"
NORM = "embeddings.LayerNorm.weight"
ALIKE = 0.95  # correlation of states with those of a graph in 8 bits, at least
SPECIAL = ("unk", "pad", "cls", "sep", "mask")
Floats = NDArray[np.float32]
Weights = dict[str, torch.Tensor]


@cache
def restored(exported: Path) -> Path:
    """A directory with what `restore` writes in it, which is removed when the process ends."""
    place = Path(tempfile.mkdtemp(prefix="purlin-base-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    restore(exported, place)
    return place


def restore(exported: Path, out: Path) -> None:
    """Write config, weights and tokenizer of an exported BERT to `out`, and the head where it is a reader's.

    Raises InvalidInput where the graph is not that of one BERT as `training.export` writes them.
    """
    try:
        if (exported / QUERY_MODEL).is_file():
            raise ValueError("it has two encoders")
        model = onnx.load(exported / MODEL)
        graph = _Graph(model.graph)
        weights = graph.weights()
        head = {
            name.rpartition("head.")[2]: weights.pop(name)
            for name in list(weights)
            if "head." in name
        }
        bert = BertModel(graph.config(weights), add_pooling_layer=False)
        bert.load_state_dict(
            {name.removeprefix(graph.prefix): value for name, value in weights.items()}
        )
        _compare(model, bert.eval())  # type: ignore[no-untyped-call]
        tokenizer = _tokenizer(exported / TOKENIZER)
    # onnx, torch and tokenizers raise exceptions of all kinds for what a file holds.
    except Exception as error:  # noqa: BLE001
        why = " ".join(str(error).split())[:200]
        message = f"{exported} is no exported BERT encoder or reader ({why}). Name the checkpoint it is made from."
        raise InvalidInput(message, field="base") from None
    bert.save_pretrained(out)
    tokenizer.save_pretrained(out)
    if head:
        save_file(head, out / HEAD)


def _compare(model: onnx.ModelProto, bert: BertModel) -> None:
    """Raises ValueError unless the last states are the graph's: other models have weights of the same names."""
    norms = [node.output[0] for node in model.graph.node if node.op_type == "LayerNormalization"]
    model.graph.output.append(onnx.ValueInfoProto(name=norms[-1]))
    session = open_session(model.SerializeToString())
    ids = np.arange(min(30, bert.config.vocab_size, bert.config.max_position_embeddings))[
        None, ::-1
    ].copy()
    with torch.inference_mode():
        ours = bert(torch.from_numpy(ids)).last_hidden_state.numpy()
    if (
        np.corrcoef(ours.ravel(), session.run([norms[-1]], {"input_ids": ids})[0].ravel())[0, 1]
        < ALIKE
    ):
        raise ValueError("its weights in a BERT do not do what it does")


def _tokenizer(path: Path) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer.from_str(path.read_text())
    named = {f"{name}_token": f"[{name.upper()}]" for name in SPECIAL}
    known = {name: word for name, word in named.items() if tokenizer.token_to_id(word) is not None}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **known)  # type: ignore[no-untyped-call]


class _Graph:
    """The weights of a graph, by the names they had."""

    def __init__(self, graph: Any) -> None:
        self.nodes: list[NodeProto] = list(graph.node)
        self.constants = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
        }
        self.makers = {name: node for node in self.nodes for name in node.output}
        self.readers = {name: node for node in self.nodes for name in node.input}
        (self.prefix,) = [name.removesuffix(NORM) for name in self.constants if name.endswith(NORM)]

    def config(self, weights: Weights) -> BertConfig:
        """Sizes as the weights have them, the rest as the operators say."""

        def size(name: str) -> int:
            return len(weights[self.prefix + name])

        return BertConfig(
            vocab_size=size(WORDS),
            hidden_size=size(NORM),
            num_hidden_layers=sum(name.endswith("attention.self.query.weight") for name in weights),
            num_attention_heads=self._attribute("MultiHeadAttention", "num_heads"),
            intermediate_size=size("encoder.layer.0.intermediate.dense.bias"),
            max_position_embeddings=size("embeddings.position_embeddings.weight"),
            type_vocab_size=size("embeddings.token_type_embeddings.weight"),
            layer_norm_eps=self._attribute("LayerNormalization", "epsilon"),
            pad_token_id=0,
        )

    def weights(self) -> Weights:
        """Name -> float32, those of linear layers (out, in)."""
        named = {
            name: value
            for name, value in self.constants.items()
            if name.endswith((".weight", ".bias"))
        }
        words = self.prefix + WORDS
        if words not in named:
            named[words] = self.constants[f"{words}_bytes"] * self.constants[f"{words}_scales"]
        for bias, weight in self._layers():
            named[bias.removesuffix("bias") + "weight"] = weight.T
        return {
            name: torch.tensor(value, dtype=torch.float32).contiguous()
            for name, value in named.items()
        }

    def _layers(self) -> Iterator[tuple[str, Floats]]:
        """The name of each linear layer's bias, and its weights (in, out)."""
        for node in self.nodes:
            if node.op_type == "MatMul" and node.input[1] in self.constants:
                yield self._bias(node), self.constants[node.input[1]]
            elif node.op_type == "MatMulIntegerToFloat":
                weight = self.constants[node.input[1]] * self.constants[node.input[3]]
                yield self._bias(node), weight * self._smoothing(node)

    def _bias(self, layer: NodeProto) -> str:
        """What is added to a layer's output: by the layer itself, next, or after it is scaled back."""
        for name in layer.input[6:]:
            return str(name)
        after = self.readers[layer.output[0]]
        after = self.readers[after.output[0]] if after.op_type == "Mul" else after
        (name,) = [name for name in after.input if name in self.constants]
        return str(name)

    def _smoothing(self, layer: NodeProto) -> Floats:
        """What the layer's inputs are multiplied by (in, 1), which `training.quantize` took from the weights."""
        before = self.makers[self.makers[layer.input[0]].input[0]]
        return (
            self.constants[before.input[1]][:, None]
            if before.op_type == "Mul"
            else np.ones((1, 1), np.float32)
        )

    def _attribute(self, operator: str, name: str) -> Any:
        node = next(node for node in self.nodes if node.op_type == operator)
        return next(
            onnx.helper.get_attribute_value(one) for one in node.attribute if one.name == name
        )
