"""An exported fp32 graph -> the same graph with 8-bit weights and activations, at fixed scales.

Weights are signed, symmetric, with one scale per output channel; the word table has one scale per row.
Activations are unsigned, with one scale per tensor found on sample texts. A single scale is too coarse for a
transformer, so the large values are tamed first:
- inputs of a linear layer are divided by a factor per channel that its weights are multiplied by, which moves the
  difficulty from activations to weights and changes nothing else (SmoothQuant, arXiv:2211.10438);
- the output of a Gelu is divided by each row's own maximum, as its large values sit in a few tokens.
Fixed scales make a vector independent of what else is in its batch.

Scales of weights also leave room for the sum of two products: x86 processors without VNNI add the products of inputs
2i and 2i + 1 in 16 bits, and a sum that does not fit is cut off without a word. `saturating_layers` proves from the
weights that no input can reach such a sum, so that a graph computes the same on every processor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Ranges = dict[str, tuple[Floats, Floats]]  # a tensor's least and largest value per channel

GELU_LEAST = -0.17  # the lowest point of Gelu
LEVELS = 255  # the largest activation, unsigned
MAX_PAIR = (
    32_767 // LEVELS
)  # the largest sum of two neighbouring weights of one sign: LEVELS times it fits 16 bits
PRODUCT = "MatMulIntegerToFloat"
TABLE_ROWS = 1000  # a smaller table that rows are gathered from, as of positions, stays as it is


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the study in docs/encoder.md varies; the defaults are what is released.

    `smoothing` is the share of the difficulty that moves to the weights. `weight_limit` is the largest weight.
    `pair_limit` is the largest sum of two neighbouring weights of one sign; None lets sums saturate without VNNI.
    """

    smoothing: float | None = 0.7
    row_scales: bool = True
    weight_limit: int = 127
    pair_limit: int | None = MAX_PAIR


RELEASED = Recipe()


def quantize(source: Path, target: Path, samples: Iterable[Ids], recipe: Recipe = RELEASED) -> None:
    """Write the quantized graph of `source`, which takes `input_ids` (n, t); `samples` are such ids."""
    model = onnx.load(source)
    ranges = _measure(model, samples)
    graph = _Rewrite(model.graph, recipe)
    for name, layers in _linear_layers(model.graph).items():
        graph.quantize_layers(name, layers, *ranges[name])
    graph.quantize_tables()
    graph.finish()
    if all(opset.domain != "com.microsoft" for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.checker.check_model(model)
    onnx.save(model, target)


def saturating_layers(path: Path) -> list[str]:
    """Names of the 8-bit products of a graph in which two products added in 16 bits could be cut off.

    A graph without such layers gives the same sums with and without VNNI, whatever its input.
    """
    graph = onnx.load(path).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    names = []
    for node in graph.node:
        if node.op_type != PRODUCT:
            continue
        weight = numpy_helper.to_array(constants[node.input[1]])
        if weight.dtype != np.int8 or _pair_sums(weight).max() > MAX_PAIR:
            names.append(node.output[0])
    return names


def prevent_saturation(path: Path) -> None:
    """Raise the scales of a quantized graph's weights, in place, as far as `saturating_layers` asks for.

    For graphs quantized before scales left that room. Layers that need nothing keep their bytes.
    """
    model = onnx.load(path)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != PRODUCT:
            continue
        weight, scales = (numpy_helper.to_array(constants[node.input[i]]) for i in (1, 3))
        sums = _pair_sums(weight)
        growth = np.where(sums > MAX_PAIR, sums / (MAX_PAIR - 1), 1).astype(np.float32)
        for name, value in (
            (node.input[1], _rounded(weight, growth)),
            (node.input[3], scales * growth),
        ):
            constants[name].CopyFrom(numpy_helper.from_array(value, name))
    onnx.save(model, path)


def _linear_layers(graph: Any) -> dict[str, list[NodeProto]]:
    """Products with a constant matrix, by the name of their input: query, key and value share one."""
    constants = {tensor.name for tensor in graph.initializer}
    layers: dict[str, list[NodeProto]] = defaultdict(list)
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in constants:
            layers[node.input[0]].append(node)
    return layers


def _measure(model: Any, samples: Iterable[Ids]) -> Ranges:
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = list(_linear_layers(model.graph))
    probe.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        probe.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    ranges: Ranges = {}
    for ids in samples:
        for name, values in zip(names, session.run(names, {"input_ids": ids}), strict=True):
            rows = values.reshape(-1, values.shape[-1])
            low, high = ranges.get(name, (np.float32(0), np.float32(0)))
            ranges[name] = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return ranges


@dataclass(frozen=True, slots=True)
class _Activation:
    """Names of a quantized input: its bytes, their scale and zero point, and the maximum that rows were divided by."""

    bytes: str
    scale: str
    zero: str
    row_maximum: str | None = None


class _Rewrite:
    """A graph while linear layers and tables in it are replaced."""

    def __init__(self, graph: Any, recipe: Recipe) -> None:
        self._graph = graph
        self._recipe = recipe
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._makers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self._readers[name].append(node)
        self._replaced: dict[int, list[NodeProto]] = {}  # id(node) -> what stands in its place

    def quantize_layers(
        self, name: str, layers: Sequence[NodeProto], low: Floats, high: Floats
    ) -> None:
        """Replace the linear layers that read `name`, whose channels were measured to lie from `low` to `high`."""
        weights = [numpy_helper.to_array(self._constants[layer.input[1]]) for layer in layers]
        before: list[NodeProto] = []
        factors = np.ones_like(low)
        if self._recipe.row_scales and self._makers[name].op_type == "Gelu":
            activation = self._quantize_rows(name, before)
        else:
            if self._recipe.smoothing is not None:
                factors = _smoothing(np.maximum(-low, high), weights, self._recipe.smoothing)
            activation = self._quantize_smoothed(name, before, factors, low, high)
        for layer, weight in zip(layers, weights, strict=True):
            self._replaced[id(layer)] = before + self._linear(
                layer, activation, weight * factors[:, None]
            )
            before = []

    def quantize_tables(self) -> None:
        """Replace lookups in large tables by lookups of bytes and of their row's scale."""
        for node in self._graph.node:
            if node.op_type == "Gather" and node.input[0] in self._constants:
                table = numpy_helper.to_array(self._constants[node.input[0]])
                if table.ndim == 2 and len(table) >= TABLE_ROWS:
                    self._replaced[id(node)] = self._lookup(node, table)

    def finish(self) -> None:
        """Put the replacements in place, and leave out the constants that nothing reads any more."""
        nodes = [new for node in self._graph.node for new in self._replaced.get(id(node), [node])]
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        read = {name for node in nodes for name in node.input}
        kept = [tensor for tensor in self._constants.values() if tensor.name in read]
        del self._graph.initializer[:]
        self._graph.initializer.extend(kept)

    def _quantize_smoothed(
        self, name: str, nodes: list[NodeProto], factors: Floats, low: Floats, high: Floats
    ) -> _Activation:
        inverse = self._constant(f"{name}_inverse", 1 / factors)
        nodes.append(helper.make_node("Mul", [name, inverse], [f"{name}_smooth"]))
        return self._bytes(
            nodes, f"{name}_smooth", float((low / factors).min()), float((high / factors).max())
        )

    def _quantize_rows(self, name: str, nodes: list[NodeProto]) -> _Activation:
        last = self._constant(f"{name}_axis", np.array([-1], dtype=np.int64))
        least = self._constant(f"{name}_least", np.array(1, dtype=np.float32))
        maximum = f"{name}_maximum"
        nodes += [
            helper.make_node("ReduceMax", [name, last], [f"{name}_raw_maximum"], keepdims=1),
            helper.make_node("Max", [f"{name}_raw_maximum", least], [maximum]),
            helper.make_node("Div", [name, maximum], [f"{name}_scaled"]),
        ]
        quantized = self._bytes(nodes, f"{name}_scaled", GELU_LEAST, 1.0)
        return _Activation(quantized.bytes, quantized.scale, quantized.zero, maximum)

    def _bytes(self, nodes: list[NodeProto], name: str, low: float, high: float) -> _Activation:
        step = (high - low) / LEVELS or 1.0
        scale = self._constant(f"{name}_scale", np.array(step, dtype=np.float32))
        zero = self._constant(f"{name}_zero", np.array(round(-low / step), dtype=np.uint8))
        nodes.append(helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}_bytes"]))
        return _Activation(f"{name}_bytes", scale, zero)

    def _linear(self, layer: NodeProto, activation: _Activation, weight: Floats) -> list[NodeProto]:
        scales = _scales(weight, 0, self._recipe.weight_limit)
        if self._recipe.pair_limit is not None:
            # Rounding may add a half to each of the two.
            scales = np.maximum(scales, _pair_sums(weight) / (self._recipe.pair_limit - 1))
        quantized = _rounded(weight, scales)
        out = layer.output[0]
        inputs = [
            activation.bytes,
            self._constant(f"{out}_weight", quantized),
            activation.scale,
            self._constant(f"{out}_weight_scales", scales),
            activation.zero,
        ]
        if activation.row_maximum is None:
            bias, out = self._take_bias(out)
            return [_product([*inputs, "", bias] if bias else inputs, out)]
        scale_back = helper.make_node("Mul", [f"{out}_scaled", activation.row_maximum], [out])
        return [_product(inputs, f"{out}_scaled"), scale_back]

    def _take_bias(self, name: str) -> tuple[str | None, str]:
        """The vector that is added to `name` and the name of the sum, if that is all that `name` is for."""
        if len(self._readers[name]) == 1 and self._readers[name][0].op_type == "Add":
            add = self._readers[name][0]
            for other in add.input:
                if other in self._constants and len(self._constants[other].dims) == 1:
                    self._replaced[id(add)] = []
                    return other, add.output[0]
        return None, name

    def _lookup(self, node: NodeProto, table: Floats) -> list[NodeProto]:
        scales = _scales(table, 1, 127)[:, None]
        quantized = _rounded(table, scales)
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
    return helper.make_node(PRODUCT, inputs, [out], domain="com.microsoft")


def _smoothing(largest: Floats, weights: Sequence[Floats], share: float) -> Floats:
    """Factors (channels,) around 1 that inputs are divided by and weights (channels, out) multiplied by."""
    heaviest = np.maximum.reduce([np.abs(weight).max(axis=1) for weight in weights])
    factors = np.maximum(largest, 1e-3) ** share / np.maximum(heaviest, 1e-5) ** (1 - share)
    scaled: Floats = (factors / np.exp(np.log(factors).mean())).astype(np.float32)
    return scaled


def _scales(values: Floats, axis: int, limit: int) -> Floats:
    """Scales that bring each line of `values` along `axis` within -limit to limit: one per line, without `axis`."""
    largest = np.abs(values).max(axis=axis)
    scales: Floats = np.where(largest > 0, largest / limit, 1).astype(np.float32)
    return scales


def _rounded(values: NDArray[Any], scales: Floats) -> NDArray[np.int8]:
    return np.rint(values / scales).astype(np.int8)


def _pair_sums(weight: NDArray[Any]) -> Floats:
    """The largest sum of two neighbouring weights of one sign, per output channel: weights (in, out) -> (out,)."""
    padded = np.pad(weight, ((0, len(weight) % 2), (0, 0))).astype(np.float32)
    first, second = padded[0::2], padded[1::2]
    positive = np.maximum(first, 0) + np.maximum(second, 0)
    negative = np.maximum(-first, 0) + np.maximum(-second, 0)
    sums: Floats = np.maximum(positive, negative).max(axis=0)
    return sums
