"""How much of the processor's matrix-product peak batch encoding reaches, as a Markdown table.

    python -m benchmarks.speed.peak --data DIR [--texts 400] [--rounds 7] [--encoder DIR]

One core, in turns: onnxruntime's 8-bit product of large matrices (the peak), its fp32 product, and
the encoder over functions of csn_challenge. The encoder's work is counted in multiply-adds of its
8-bit products by tokens, and of attention, which is fp32, by tokens and lengths. Rates are by the
processor's time, so that other load matters little. Then a profile tells what the time goes to.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.speed.encoder import read_sample
from purlin.index.encoder import TRANSFORMER_ENCODER, Plan
from purlin.index.encoder.exported import MODEL
from purlin.index.encoder.transformer import Encoder
from purlin.training.exporting.saturation import CONTRIB_DOMAIN, PRODUCT

# Large enough that neither reading nor packing shows, small enough for the second-level cache.
ROWS, INNER, COLUMNS = 1024, 1536, 384

Run = Callable[[], object]


def one_node(node: onnx.NodeProto, kind: int, constants: dict[str, Any]) -> Any:
    """A session on one thread for a graph of one node, from `rows` to `product`."""
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("rows", kind, [ROWS, INNER])],
        [helper.make_tensor_value_info("product", TensorProto.FLOAT, [ROWS, COLUMNS])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(CONTRIB_DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def product_8_bits(random: np.random.Generator) -> Run:
    """The product of unsigned by signed bytes that the encoder's layers are made of."""
    constants = {
        "weight": random.integers(-60, 60, (INNER, COLUMNS)).astype(np.int8),
        "scale": np.float32(0.01),
        "weight_scales": np.full(COLUMNS, 0.01, np.float32),
        "zero": np.uint8(7),
    }

    inputs = ["rows", "weight", "scale", "weight_scales", "zero"]
    node = helper.make_node(PRODUCT, inputs, ["product"], domain=CONTRIB_DOMAIN)
    session = one_node(node, TensorProto.UINT8, constants)

    rows = random.integers(0, 255, (ROWS, INNER)).astype(np.uint8)
    return lambda: session.run(None, {"rows": rows})


def product_fp32(random: np.random.Generator) -> Run:
    """The product of floats."""
    weight = random.standard_normal((INNER, COLUMNS), dtype=np.float32)
    node = helper.make_node("MatMul", ["rows", "weight"], ["product"])
    session = one_node(node, TensorProto.FLOAT, {"weight": weight})
    rows = random.standard_normal((ROWS, INNER), dtype=np.float32)
    return lambda: session.run(None, {"rows": rows})


def work_of(directory: Path, lengths: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Multiply-adds of an encoder over texts of these lengths: in 8 bits, and of attention."""
    graph = onnx.load(directory / MODEL).graph
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    products = [shapes[node.input[1]] for node in graph.node if node.op_type == PRODUCT]
    layers = sum(node.op_type == "MultiHeadAttention" for node in graph.node)
    # The first product of a model is that of its first queries: as wide as the model.
    width = products[0][1]

    per_token = float(sum(inner * columns for inner, columns in products))
    attention = 2.0 * layers * width * float(np.square(lengths.astype(np.float64)).sum())
    return per_token * float(lengths.sum()), attention


def rates(runs: dict[str, tuple[Run, float]], rounds: int) -> dict[str, np.ndarray[Any, Any]]:
    """Multiply-adds per second of the processor's time, in 10^9: one for each run and round."""
    for run, _ in runs.values():
        run()

    measured: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (run, work) in runs.items():
            started = time.process_time()
            run()
            measured[name].append(work / (time.process_time() - started) / 1e9)

    return {name: np.array(values) for name, values in measured.items()}


def repeated(run: Run, times: int) -> Run:
    return lambda: [run() for _ in range(times)]


def profile(directory: Path, ids: list[np.ndarray[Any, Any]]) -> Counter[str]:
    """Microseconds in each operator over texts that are encoded one by one."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    with tempfile.TemporaryDirectory() as scratch:
        options.profile_file_prefix = f"{scratch}/profile"
        session = onnxruntime.InferenceSession(
            (directory / MODEL).read_bytes(),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["SkipLayerNormFusion"],
        )
        for row in ids:
            session.run(None, {"input_ids": row[None]})
        events = json.loads(Path(session.end_profiling()).read_text())

    spent: Counter[str] = Counter()
    for event in events:
        if event["name"].endswith("_kernel_time"):
            spent[event["args"]["op_name"]] += event["dur"]
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, default=TRANSFORMER_ENCODER)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()

    encoder = Encoder.load(options.encoder, plan=Plan(1))
    texts = read_sample(options.data, options.texts)
    ids = encoder.tokenize(texts, role="passage")
    lengths = np.array([len(row) for row in ids])
    linear, attention = work_of(options.encoder, lengths)

    random = np.random.default_rng(0)
    product = 20.0 * ROWS * INNER * COLUMNS
    measured = rates(
        {
            "8-bit product, the peak": (repeated(product_8_bits(random), 20), product),
            "fp32 product": (repeated(product_fp32(random), 20), product),
            "encoder": (lambda: encoder.encode(texts, role="passage"), linear + attention),
        },
        options.rounds,
    )

    peak, ours = measured["8-bit product, the peak"], measured["encoder"]
    print("| | 10^9 multiply-adds/s, median (least - most) |")
    print("|---|---|")
    for name, values in measured.items():
        print(f"| {name} | {np.median(values):.0f} ({values.min():.0f} - {values.max():.0f}) |")

    share = np.median(ours / peak)
    without = share * linear / (linear + attention)
    print(
        f"\nThe encoder reaches {share:.2f} of the peak ({without:.2f} without attention), ", end=""
    )
    print(f"n = {options.rounds} rounds, {len(texts)} texts of {lengths.mean():.0f} tokens.\n")

    spent = profile(options.encoder, ids)
    print("| operator | share of the time |")
    print("|---|---|")
    for name, microseconds in spent.most_common(10):
        print(f"| {name} | {microseconds / spent.total():.1%} |")


if __name__ == "__main__":
    main()
