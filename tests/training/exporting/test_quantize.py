"""8-bit graphs whose sums fit 16 bits: proved from the weights, and computed by onnxruntime."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from purlin.index.encoder import TRANSFORMER_ENCODER
from purlin.index.encoder.exported import MODEL
from purlin.index.encoder.transformer import open_session
from purlin.training.exporting.checks import ExportRefused, refuse_saturation
from purlin.training.exporting.saturation import MAX_PAIR, saturating_layers

MODELS = sorted(path.parent for path in TRANSFORMER_ENCODER.parent.glob("*/*.onnx"))
ACTIVATIONS = 255

Weights = NDArray[np.int8]
WEIGHTS = st.tuples(st.integers(1, 9), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.int8, shape, elements=st.integers(-127, 127))
)


def product_graph(path: Path, weight: Weights) -> Path:
    """Write a graph of one 8-bit product, with scales of 1: bytes (n, in) -> floats (n, out)."""
    inputs, outputs = weight.shape
    constants = {
        "weight": weight,
        "scale": np.float32(1),
        "weight_scales": np.ones(outputs, np.float32),
        "zero": np.uint8(0),
    }
    names = ["bytes", "weight", "scale", "weight_scales", "zero"]
    graph = helper.make_graph(
        [helper.make_node("MatMulIntegerToFloat", names, ["sums"], domain="com.microsoft")],
        "product",
        [helper.make_tensor_value_info("bytes", TensorProto.UINT8, ["n", inputs])],
        [helper.make_tensor_value_info("sums", TensorProto.FLOAT, ["n", outputs])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)

    return path


def sums_in_16_bits(activations: NDArray[np.uint8], weight: Weights) -> NDArray[np.int64]:
    """Return `activations @ weight` as with AVX2: products 2i and 2i + 1 saturate at 16 bits."""
    products = activations[:, :, None].astype(np.int64) * weight[None]
    products = np.pad(products, ((0, 0), (0, products.shape[1] % 2), (0, 0)))
    pairs = products[:, 0::2] + products[:, 1::2]
    summed: NDArray[np.int64] = np.clip(pairs, -(1 << 15), (1 << 15) - 1).sum(axis=1)
    return summed


def hardest(weight: Weights) -> NDArray[np.uint8]:
    """Return inputs (2 * out, in) with the largest and the smallest sums of each output."""
    signs = np.concatenate([weight.T > 0, weight.T < 0])
    return (signs * ACTIVATIONS).astype(np.uint8)


@pytest.mark.parametrize("directory", MODELS, ids=lambda path: path.name)
def test_no_released_graph_can_saturate(directory: Path) -> None:
    assert saturating_layers(directory / MODEL) == []


@given(weight=WEIGHTS)
def test_saturating_layers_are_named(weight: Weights) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = product_graph(Path(directory) / MODEL, weight)
        named = saturating_layers(path)

    inputs = hardest(weight)
    saturates = (sums_in_16_bits(inputs, weight) != inputs.astype(np.int64) @ weight).any()
    assert named == (["sums"] if saturates else [])


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("inputs", [1, 2, 7, 16, 384, 385])
def test_onnxruntime_adds_limited_weights_exactly(tmp_path: Path, rows: int, inputs: int) -> None:
    """Fails without VNNI if onnxruntime pairs other inputs than `saturating_layers` assumes."""
    random = np.random.default_rng(inputs)
    # The largest weights whose sums of two cannot saturate.
    limited = random.integers(-MAX_PAIR // 2, MAX_PAIR // 2 + 1, (inputs, 24)).astype(np.int8)
    path = product_graph(tmp_path / MODEL, limited)
    assert saturating_layers(path) == []

    activations = np.concatenate(
        [hardest(limited), random.integers(200, 256, (16, inputs))]
    ).astype(np.uint8)
    session = open_session(path.read_bytes())
    batches = [activations[start : start + rows] for start in range(0, len(activations), rows)]
    sums = np.concatenate([session.run(None, {"bytes": batch})[0] for batch in batches])

    assert sums == pytest.approx(activations.astype(np.int64) @ limited.astype(np.int64))


def test_an_export_that_can_saturate_is_refused(tmp_path: Path) -> None:
    product_graph(tmp_path / MODEL, np.array([[MAX_PAIR - 1], [2]], np.int8))
    with pytest.raises(ExportRefused, match=r"model.onnx has 1 layers .* 16 bits"):
        refuse_saturation(tmp_path)
