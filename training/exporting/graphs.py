"""Modules of torch as ONNX graphs, with attention as one fused operator."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import torch
from transformers import AttentionInterface, AttentionMaskInterface

FUSED = "purlin-fused"  # name of our attention function in the registry of transformers
OPSET = 20  # the first with Gelu as one operator


def trace(graph: torch.nn.Module, transformer: Any, path: Path, outputs: Sequence[str]) -> None:
    """Write a module that takes `input_ids` int64 (n, t), without padding, as an ONNX graph.

    Attention becomes one fused operator. `transformer` is the part of the module with attention; it
    cannot be run by torch afterwards, only traced.
    """
    AttentionInterface.register(FUSED, _fused_attention)
    AttentionMaskInterface.register(FUSED, _no_mask)
    transformer.set_attn_implementation(
        FUSED if transformer._supports_attention_backend else "eager"
    )

    with warnings.catch_warnings(), _without_torchvision():
        # torch's exporter uses functions that torch itself has deprecated.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.eval(),
            (torch.arange(10, 24).reshape(2, 7),),
            path,
            input_names=["input_ids"],
            output_names=list(outputs),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            # Both the number of texts and their length vary.
            dynamic_shapes={"input_ids": {0: "n", 1: "t"}},
            verbose=False,
        )
    _strip(path)


@contextmanager
def _without_torchvision() -> Iterator[None]:
    """Silence the exporter's warnings that torchvision is missing: text models need none."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")

    def unrelated(record: logging.LogRecord) -> bool:
        return "torchvision is not installed" not in record.getMessage()

    logger.addFilter(unrelated)
    try:
        yield
    finally:
        logger.removeFilter(unrelated)


def _fused_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float = 1.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Return attention (n, heads, t, d) as one operator of onnxruntime, which torch cannot run."""
    n, heads, t, d = query.shape
    inputs = [states.transpose(1, 2).reshape(n, t, heads * d) for states in (query, key, value)]

    mixed = torch.onnx.ops.symbolic(
        "com.microsoft::MultiHeadAttention",
        inputs,
        attrs={"num_heads": heads, "scale": float(scaling)},
        dtype=query.dtype,
        shape=(n, t, heads * d),
        version=1,
    )
    return mixed.reshape(n, t, heads, d), None


def _no_mask(*_: Any, **__: Any) -> None:
    """Return no mask: all rows of a batch have the same length, so there is no padding."""


def _strip(path: Path) -> None:
    """Remove the exporter's notes on the origin of each node, which name files of this machine."""
    model = onnx.load(path)
    graph = model.graph
    tensors = [*graph.input, *graph.output, *graph.value_info, *graph.initializer]

    for item in [model, graph, *graph.node, *tensors]:
        del item.metadata_props[:]
        item.doc_string = ""

    onnx.save(model, path)
