"""Sums of two 8-bit products that must fit 16 bits.

x86 processors without VNNI add the products of inputs 2i and 2i + 1 in 16 bits and silently
saturate. `saturating_layers` proves from the weights that no input can reach such a sum, so that a
graph computes the same on every processor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

FloatArray = NDArray[np.float32]
CONTRIB_DOMAIN = "com.microsoft"  # onnxruntime's own operators
MAX_ACTIVATION = 255  # unsigned 8 bits

# The largest sum of two neighbouring weights of one sign: MAX_ACTIVATION times it fits 16 bits.
MAX_PAIR = 32_767 // MAX_ACTIVATION
PRODUCT = "MatMulIntegerToFloat"


def saturating_layers(path: Path) -> list[str]:
    """Return the names of 8-bit products in which the sum of two products could exceed 16 bits.

    A graph without such layers gives the same sums with and without VNNI, whatever its input.
    """
    graph = onnx.load(path).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}

    names = []
    for node in graph.node:
        if node.op_type != PRODUCT:
            continue
        weight = numpy_helper.to_array(constants[node.input[1]])
        if weight.dtype != np.int8 or pair_sums(weight).max() > MAX_PAIR:
            names.append(node.output[0])
    return names


def pair_sums(weight: NDArray[Any]) -> FloatArray:
    """Return the largest sum of two neighbouring weights of one sign: (in, out) -> (out,)."""
    padded = np.pad(weight, ((0, len(weight) % 2), (0, 0))).astype(np.float32)
    first, second = padded[0::2], padded[1::2]

    positive = np.maximum(first, 0) + np.maximum(second, 0)
    negative = np.maximum(-first, 0) + np.maximum(-second, 0)
    sums: FloatArray = np.maximum(positive, negative).max(axis=0)
    return sums
