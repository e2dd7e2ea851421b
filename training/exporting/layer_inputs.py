"""What sample texts tell about the inputs of a graph's linear layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

from purlin.training.exporting.saturation import FloatArray

TokenIds = NDArray[np.int64]


def linear_layers(graph: Any) -> dict[str, list[NodeProto]]:
    """Group products with a constant matrix by their input: query, key and value share one."""
    constants = {tensor.name for tensor in graph.initializer}
    layers: dict[str, list[NodeProto]] = defaultdict(list)

    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in constants:
            layers[node.input[0]].append(node)
    return layers


@dataclass(slots=True)
class LayerInput:
    """What the samples tell about the input of linear layers, which has some channels.

    `low` and `high` (channels,) are its range, `products` (channels, channels) the sums of the
    products of its channels, X^T X.
    """

    low: FloatArray
    high: FloatArray
    products: NDArray[np.float64]

    @classmethod
    def without_samples(cls, channels: int) -> LayerInput:
        """Start with zeros, which every range includes."""
        zeros = np.zeros(channels, np.float32)
        return cls(zeros, zeros, np.zeros((channels, channels)))

    def add(self, values: FloatArray) -> None:
        """Take in the rows of `values` (..., channels)."""
        rows = values.reshape(-1, values.shape[-1])
        self.low = np.minimum(self.low, rows.min(axis=0))
        self.high = np.maximum(self.high, rows.max(axis=0))
        self.products += rows.T @ rows


def measure_inputs(model: Any, samples: Iterable[TokenIds]) -> dict[str, LayerInput]:
    """Measure the input of every linear layer on the samples."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = list(linear_layers(model.graph))
    probe.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names
    )

    options = onnxruntime.SessionOptions()
    # On shared cores, threads mostly wait for each other.
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        probe.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    inputs: dict[str, LayerInput] = {}
    for ids in samples:
        for name, values in zip(names, session.run(names, {"input_ids": ids}), strict=True):
            if name not in inputs:
                inputs[name] = LayerInput.without_samples(values.shape[-1])
            inputs[name].add(values)
    return inputs
