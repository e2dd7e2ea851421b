"""Quantize an exported fp32 graph to 8-bit weights and activations with fixed scales.

Weights are signed and symmetric, with one scale per output channel; the word table has one scale
per row. Activations are unsigned, with one scale per tensor, measured on sample texts. One scale is too
coarse for a transformer, so large values are reduced first:
- the inputs of a linear layer are divided by a factor per channel by which its weights are
  multiplied, which moves the difficulty from activations to weights and changes nothing else
  (SmoothQuant, arXiv:2211.10438);
- the output of a Gelu is divided by each row's own maximum, as its large values are in few tokens.
Fixed scales make a vector independent of the rest of its batch.

Weights are rounded so that their errors make up for each other on the sample texts, see
`purlin.training.exporting.rounding`. Their scales also leave room for the sum of two products, see
`purlin.training.exporting.saturation`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from purlin.training.exporting.layer_inputs import (
    LayerInput,
    TokenIds,
    linear_layers,
    measure_inputs,
)
from purlin.training.exporting.rounding import compensated
from purlin.training.exporting.saturation import (
    CONTRIB_DOMAIN,
    MAX_ACTIVATION,
    MAX_PAIR,
    PRODUCT,
    FloatArray,
    pair_sums,
)

GELU_MINIMUM = -0.17
TABLE_ROWS = 1000  # smaller lookup tables, such as that of positions, keep 32 bits
SMOOTHING = 0.7  # share of the difficulty that moves from the activations to the weights
WEIGHT_LIMIT = 127  # the largest weight


def quantize(
    source: Path,
    target: Path,
    samples: Iterable[TokenIds],
) -> None:
    """Write the quantized graph of `source` to `target`, which may be the same file.

    The graph takes `input_ids` (n, t); `samples` are such ids, from which the scales are measured.
    """
    model = onnx.load(source)
    inputs = measure_inputs(model, samples)

    graph = _GraphRewriter(model.graph)
    for name, layers in linear_layers(model.graph).items():
        graph.quantize_layers(name, layers, inputs[name])
    graph.quantize_tables()
    graph.finish()

    if all(opset.domain != CONTRIB_DOMAIN for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid(CONTRIB_DOMAIN, 1))
    onnx.checker.check_model(model)
    onnx.save(model, target)


@dataclass(frozen=True, slots=True)
class _Activation:
    """Tensor names of a quantized input: its bytes, their scale and their zero point.

    `row_maximum` names the maximum that each row was divided by, if it was.
    """

    bytes: str
    scale: str
    zero: str
    row_maximum: str | None = None


class _GraphRewriter:
    """Replaces linear layers and lookup tables of a graph by quantized ones."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._producers = {name: node for node in graph.node for name in node.output}

        self._consumers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self._consumers[name].append(node)

        self._replacements: dict[int, list[NodeProto]] = {}  # by id(node)

    def quantize_layers(
        self, name: str, layers: Sequence[NodeProto], layer_input: LayerInput
    ) -> None:
        """Replace the linear layers that read `name`, of which the samples tell `layer_input`."""
        weights = [numpy_helper.to_array(self._constants[layer.input[1]]) for layer in layers]
        nodes: list[NodeProto] = []
        factors = np.ones_like(layer_input.low)

        if self._producers[name].op_type == "Gelu":
            activation = self._quantize_rows(name, nodes)
        else:
            largest = np.maximum(-layer_input.low, layer_input.high)
            factors = _smoothing_factors(largest, weights)
            activation = self._quantize_smoothed(name, nodes, factors, layer_input)

        # The nodes that quantize the input stand before the first of the layers that share it.
        products = layer_input.products / np.outer(factors, factors)
        for layer, weight in zip(layers, weights, strict=True):
            product = self._linear(layer, activation, weight * factors[:, None], products)
            self._replacements[id(layer)] = nodes + product
            nodes = []

    def quantize_tables(self) -> None:
        """Replace lookups in large tables by lookups of bytes and of their row's scale."""
        for node in self._graph.node:
            if node.op_type == "Gather" and node.input[0] in self._constants:
                table = numpy_helper.to_array(self._constants[node.input[0]])
                if table.ndim == 2 and len(table) >= TABLE_ROWS:
                    self._replacements[id(node)] = self._lookup(node, table)

    def finish(self) -> None:
        """Insert the replacements, and drop the constants that no node uses any more."""
        nodes = [
            new for node in self._graph.node for new in self._replacements.get(id(node), [node])
        ]
        del self._graph.node[:]
        self._graph.node.extend(nodes)

        used = {name for node in nodes for name in node.input}
        kept = [tensor for tensor in self._constants.values() if tensor.name in used]
        del self._graph.initializer[:]
        self._graph.initializer.extend(kept)

    def _quantize_smoothed(
        self,
        name: str,
        nodes: list[NodeProto],
        factors: FloatArray,
        layer_input: LayerInput,
    ) -> _Activation:
        inverse = self._constant(f"{name}_inverse", 1 / factors)
        nodes.append(helper.make_node("Mul", [name, inverse], [f"{name}_smooth"]))

        lowest = float((layer_input.low / factors).min())
        highest = float((layer_input.high / factors).max())
        return self._to_bytes(nodes, f"{name}_smooth", lowest, highest)

    def _quantize_rows(self, name: str, nodes: list[NodeProto]) -> _Activation:
        """Divide each row by its maximum, or by 1 if that is smaller, then quantize."""
        last = self._constant(f"{name}_axis", np.array([-1], dtype=np.int64))
        # A divisor of at least 1 keeps every value above Gelu's minimum.
        least = self._constant(f"{name}_least", np.array(1, dtype=np.float32))
        maximum = f"{name}_maximum"

        nodes += [
            helper.make_node("ReduceMax", [name, last], [f"{name}_raw_maximum"], keepdims=1),
            helper.make_node("Max", [f"{name}_raw_maximum", least], [maximum]),
            helper.make_node("Div", [name, maximum], [f"{name}_scaled"]),
        ]
        activation = self._to_bytes(nodes, f"{name}_scaled", GELU_MINIMUM, 1.0)
        return replace(activation, row_maximum=maximum)

    def _to_bytes(self, nodes: list[NodeProto], name: str, low: float, high: float) -> _Activation:
        # A tensor that is always 0 has no range.
        step = (high - low) / MAX_ACTIVATION or 1.0
        scale = self._constant(f"{name}_scale", np.array(step, dtype=np.float32))
        zero = self._constant(f"{name}_zero", np.array(round(-low / step), dtype=np.uint8))

        nodes.append(helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}_bytes"]))
        return _Activation(f"{name}_bytes", scale, zero)

    def _linear(
        self,
        layer: NodeProto,
        activation: _Activation,
        weight: FloatArray,
        products: NDArray[np.float64],
    ) -> list[NodeProto]:
        # Rounding may add a half to each of the two weights of a pair.
        scales = np.maximum(_scales(weight, 0, WEIGHT_LIMIT), pair_sums(weight) / (MAX_PAIR - 1))
        rounded = compensated(weight, scales, products, WEIGHT_LIMIT, MAX_PAIR)

        out = layer.output[0]
        inputs = [
            activation.bytes,
            self._constant(f"{out}_weight", rounded),
            activation.scale,
            self._constant(f"{out}_weight_scales", scales),
            activation.zero,
        ]

        # A bias can be part of the product only where the output is not scaled back afterwards.
        if activation.row_maximum is None:
            bias, out = self._take_bias(out)
            return [_product([*inputs, "", bias] if bias else inputs, out)]
        scale_back = helper.make_node("Mul", [f"{out}_scaled", activation.row_maximum], [out])
        return [_product(inputs, f"{out}_scaled"), scale_back]

    def _take_bias(self, name: str) -> tuple[str | None, str]:
        """Remove the addition of a bias to `name`; return the bias and the name of the sum.

        Returns None and `name` where something else is computed from it.
        """
        consumers = self._consumers[name]
        if len(consumers) != 1 or consumers[0].op_type != "Add":
            return None, name

        add = consumers[0]
        for operand in add.input:
            if operand in self._constants and len(self._constants[operand].dims) == 1:
                self._replacements[id(add)] = []
                return operand, add.output[0]
        return None, name

    def _lookup(self, node: NodeProto, table: FloatArray) -> list[NodeProto]:
        scales = _scales(table, 1, 127)[:, None]
        quantized = np.rint(table / scales).astype(np.int8)
        name, out = node.input[0], node.output[0]
        rows = self._constant(f"{name}_bytes", quantized)
        row_scales = self._constant(f"{name}_scales", scales)

        return [
            helper.make_node("Gather", [rows, node.input[1]], [f"{out}_bytes"]),
            helper.make_node("Cast", [f"{out}_bytes"], [f"{out}_float"], to=TensorProto.FLOAT),
            helper.make_node("Gather", [row_scales, node.input[1]], [f"{out}_scale"]),
            helper.make_node("Mul", [f"{out}_float", f"{out}_scale"], [out]),
        ]

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        self._constants[name] = numpy_helper.from_array(value, name)
        return name


def _product(inputs: Sequence[str], out: str) -> NodeProto:
    return helper.make_node(PRODUCT, inputs, [out], domain=CONTRIB_DOMAIN)


def _smoothing_factors(largest: FloatArray, weights: Sequence[FloatArray]) -> FloatArray:
    """Return factors (channels,) around 1 that move difficulty from inputs to weights.

    Inputs are divided by them, `weights` (channels, out) multiplied.
    """
    heaviest = np.maximum.reduce([np.abs(weight).max(axis=1) for weight in weights])
    # The lower limits keep channels that are never used from getting extreme factors.
    factors = np.maximum(largest, 1e-3) ** SMOOTHING / np.maximum(heaviest, 1e-5) ** (1 - SMOOTHING)
    geometric_mean = np.exp(np.log(factors).mean())
    scaled: FloatArray = (factors / geometric_mean).astype(np.float32)
    return scaled


def _scales(values: FloatArray, axis: int, limit: int) -> FloatArray:
    """Return one scale per line along `axis` that brings its values within -limit to limit."""
    largest = np.abs(values).max(axis=axis)
    scales: FloatArray = np.where(largest > 0, largest / limit, 1).astype(np.float32)
    return scales
