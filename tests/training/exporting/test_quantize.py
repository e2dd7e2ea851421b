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
from typer.testing import CliRunner

from purlin.cli import commands
from purlin.index.encoder import TRANSFORMER_ENCODER
from purlin.index.encoder.exported import MODEL
from purlin.index.encoder.transformer import Encoder, open_session
from purlin.index.qa.reader import Reader
from purlin.training.exporting.checks import ExportRefused, refuse_saturation
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.exporting.quantize import quantize
from purlin.training.exporting.samples import library_texts, probes
from purlin.training.exporting.saturation import prevent_saturation, saturating_layers
from tests.support.tiny import save_bert

pytestmark = pytest.mark.usefixtures("graphs_once")

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


def weights_of(path: Path) -> tuple[Weights, NDArray[np.float32]]:
    """Return the weights (in, out) of a `product_graph`, and their scales (out,)."""
    constants = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer
    }
    return constants["weight"], constants["weight_scales"]


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


@given(weight=WEIGHTS)
def test_raised_scales_prevent_saturation(weight: Weights) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = product_graph(Path(directory) / MODEL, weight)
        prevent_saturation(path)
        assert saturating_layers(path) == []
        smaller, scales = weights_of(path)

    assert scales.max() <= 2.01
    assert (np.abs(smaller * scales - weight) <= scales / 2 + 1e-4).all()
    kept = scales == 1
    assert (smaller[:, kept] == weight[:, kept]).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("inputs", [1, 2, 7, 16, 384, 385])
def test_onnxruntime_adds_limited_weights_exactly(tmp_path: Path, rows: int, inputs: int) -> None:
    """Fails without VNNI if onnxruntime pairs other inputs than `saturating_layers` assumes."""
    random = np.random.default_rng(inputs)
    weight = random.integers(-127, 128, (inputs, 24)).astype(np.int8)
    path = product_graph(tmp_path / MODEL, weight)
    prevent_saturation(path)
    limited, scales = weights_of(path)

    activations = np.concatenate(
        [hardest(limited), random.integers(200, 256, (16, inputs))]
    ).astype(np.uint8)
    session = open_session(path.read_bytes())
    batches = [activations[start : start + rows] for start in range(0, len(activations), rows)]
    sums = np.concatenate([session.run(None, {"bytes": batch})[0] for batch in batches])

    exact = activations.astype(np.int64) @ limited.astype(np.int64)
    assert sums == pytest.approx(exact * scales, rel=1e-5)


@pytest.fixture(scope="module")
def fp32(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("encoders")
    export_encoder(
        save_bert(directory / "bert"), directory / "fp32", Card("tiny"), quantization="none"
    )
    return directory / "fp32"


@pytest.fixture(scope="module")
def saturating(fp32: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder as earlier versions exported it."""
    from purlin.training.exporting.directory import _update_digests
    from purlin.training.exporting.encoder import SETTINGS, TOKENIZER

    directory = tmp_path_factory.mktemp("old") / "encoder"
    directory.mkdir()
    for path in fp32.iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    ids = Encoder.load(fp32).tokenize(library_texts(), role="passage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("purlin.training.exporting.quantize.MAX_PAIR", 4 * ACTIVATIONS)
        quantize(fp32 / MODEL, directory / MODEL, [row[None] for row in ids])
    assert (directory / TOKENIZER).is_file()
    _update_digests(directory / SETTINGS)
    return directory


def test_an_export_that_can_saturate_is_refused(saturating: Path) -> None:
    with pytest.raises(ExportRefused, match=r"model.onnx has \d+ layers .* 16 bits"):
        refuse_saturation(saturating)


def test_an_old_encoder_is_exported_again(fp32: Path, saturating: Path, tmp_path: Path) -> None:
    arguments = ["train", "export", str(saturating), "--to", str(tmp_path / "new")]
    result = CliRunner().invoke(commands.app, arguments)
    assert result.exit_code == 0, result.output

    refuse_saturation(tmp_path / "new")
    encoder, before = Encoder.load(tmp_path / "new"), Encoder.load(saturating)
    assert encoder.name == before.name
    assert encoder.fingerprint != before.fingerprint
    exact = Encoder.load(fp32).encode(probes(), role="passage")
    assert (encoder.encode(probes(), role="passage") * exact).sum(axis=1).min() > 0.99


def test_a_reader_is_exported_again(reader_directory: Path, tmp_path: Path) -> None:
    """The tiny reader has 32-bit weights: nothing in it can saturate, and nothing changes."""
    result = CliRunner().invoke(
        commands.app, ["train", "export", str(reader_directory), "--to", str(tmp_path / "new")]
    )
    assert result.exit_code == 0, result.output
    assert Reader.load(tmp_path / "new").fingerprint == Reader.load(reader_directory).fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--name", "other"], "keeps its name"), (["--fp32"], "keeps its name and its 8 bits")],
)
def test_an_exported_encoder_keeps_name_and_bits(
    saturating: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    arguments = ["train", "export", str(saturating), "--to", str(tmp_path / "new"), *options]
    with pytest.raises(Exception, match=message):
        CliRunner().invoke(commands.app, arguments, catch_exceptions=False)
    assert not (tmp_path / "new").exists()
