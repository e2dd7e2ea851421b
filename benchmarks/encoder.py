"""Ways to run the base encoder on a CPU: size, speed and quality of each, as a Markdown table.

    python benchmarks/encoder.py --data DIR [--sample 4000] [--only WORD ...]

DIR holds `cosqa` and `csn_challenge` in BEIR's form. Quality is dense MRR@100 on CoSQA's dev queries by exhaustive
search; speed is over a sample of csn_challenge, in slices that all variants take in turn, so that whatever else the
machine does meets all of them. Needs the development set of dependencies; OpenVINO's rows appear if it is installed.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import logging
import random
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import (
    DefaultWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
)
from onnxruntime.transformers.float16 import convert_float_to_float16
from sentence_transformers import SentenceTransformer

from index.encoder import (
    Encoder,
    EncoderSettings,
    Vectors,
    available_cpus,
    open_session,
    open_tokenizer,
)
from training import export
from training.quantize import QuantizationRecipe, quantize

QUERY = "how to read a text file line by line and strip the newline in python"  # 16 tokens
SLICE = 250
Encode = Callable[[Sequence[str]], Vectors]
Build = Callable[[Path], object]


@dataclass
class Variant:
    """One row of the table, and what was measured of it."""

    name: str
    encode: Encode
    megabytes: float
    seconds: list[float] = field(default_factory=list)
    query_ms: list[float] = field(default_factory=list)
    reciprocal_ranks: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0))
    passages: Vectors = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))


@dataclass
class Cosqa:
    passages: list[str]
    queries: list[str]
    relevant: list[set[int]]


class Workshop:
    """Makes variants from one fp32 graph, in a directory of their own."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.fp32, self.masked = work / "fp32.onnx", work / "masked.onnx"
        export.write_graph(export.base_checkpoint(), self.fp32)
        write_masked(self.masked)
        export.export(
            export.base_checkpoint(), work / "plain", export.Card("plain"), quantization="none"
        )
        self.tokenizer = (work / "plain" / "tokenizer.json").read_bytes()
        self.samples = [
            ids[None] for ids in self.encoder(None).tokenize(export.library_texts(), role="passage")
        ]
        layers = [node.name for node in onnx.load(self.fp32).graph.node if node.op_type == "MatMul"]
        self.after_gelu = layers[5::6]

    def encoder(self, session: Any, max_tokens: int = 256) -> Encoder:
        settings = EncoderSettings(
            "study", 384, max_tokens, "", "", {"model.onnx": "", "tokenizer.json": ""}
        )
        return Encoder(
            settings, open_tokenizer(self.tokenizer, max_tokens), session, available_cpus()
        )

    def variant(
        self, name: str, build: Build, open_: Callable[[Path], Any] | None = None, tokens: int = 256
    ) -> Variant:
        path = self.work / "variant.onnx"
        build(path)
        session = open_(path) if open_ else open_session(path.read_bytes())
        return Variant(
            name,
            partial(self.encoder(session, tokens).encode, role="passage"),
            path.stat().st_size / 1e6,
        )

    def padded(self, name: str, build: Build) -> Variant:
        path = self.work / "variant.onnx"
        build(path)
        session = open_threaded(path)
        return Variant(
            name, partial(encode_padded, self.encoder(None), session), path.stat().st_size / 1e6
        )

    def copy(self, path: Path) -> None:
        path.write_bytes(self.fp32.read_bytes())

    def dynamic(self, path: Path, source: Path | None = None, **options: Any) -> None:
        defaults = {
            "per_channel": True,
            "weight_type": QuantType.QInt8,
            "op_types_to_quantize": ["MatMul"],
        }
        quantize_dynamic(source or self.fp32, path, **{**defaults, **options})

    def static(self, path: Path) -> None:
        quantize_static(
            self.fp32,
            path,
            Samples(self.samples[::2]),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )

    def blocks(self, path: Path, bits: int) -> None:
        options: dict[str, Any] = {"block_size": 128, "is_symmetric": True, "accuracy_level": 4}
        config = DefaultWeightOnlyQuantConfig(bits=bits, **options)
        quantizer = MatMulNBitsQuantizer(
            onnx.load(self.fp32), bits=bits, algo_config=config, **options
        )
        quantizer.process()
        quantizer.model.save_model_to_file(str(path))

    def half(self, path: Path) -> None:
        onnx.save(convert_float_to_float16(onnx.load(self.fp32), keep_io_types=True), path)

    def ours(self, path: Path, **changes: Any) -> None:
        quantize(self.fp32, path, self.samples, QuantizationRecipe(**changes))


class Samples(CalibrationDataReader):
    """Calibration texts in the form that onnxruntime's static quantization reads."""

    def __init__(self, ids: Sequence[Any]) -> None:
        self._rows = iter(ids)

    def get_next(self) -> dict[str, Any] | None:
        row = next(self._rows, None)
        return None if row is None else {"input_ids": row}


class OpenVino:
    """OpenVINO behind the one method of an onnxruntime session that the encoder uses."""

    def __init__(self, path: Path, precision: str) -> None:
        import openvino

        cpus = available_cpus()
        hints = {
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": cpus,
            "NUM_STREAMS": cpus,
        }
        core = openvino.Core()
        self._model = core.compile_model(core.read_model(path), "CPU", hints)
        self._local = threading.local()

    def run(self, _: None, feeds: dict[str, Any]) -> list[Vectors]:
        if not hasattr(self._local, "request"):
            self._local.request = self._model.create_infer_request()
        return [np.array(self._local.request.infer(feeds)[0])]


class Torch:
    """sentence-transformers with its default settings, in 32 or in 16 bits."""

    def __init__(self, *, bfloat16: bool = False) -> None:
        torch.set_num_threads(available_cpus())
        self._model = SentenceTransformer(str(export.base_checkpoint()), device="cpu")
        self._bfloat16 = bfloat16

    def __call__(self, texts: Sequence[str]) -> Vectors:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._bfloat16):
            return self._model.encode(list(texts), show_progress_bar=False)


def write_masked(path: Path, attention: str = "eager", masked: bool = True) -> None:
    """The usual export: plain attention, and a mask beside the ids."""

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = SentenceTransformer(str(export.base_checkpoint()), device="cpu")
            self.model[0].auto_model.set_attn_implementation(attention)

        def forward(
            self, input_ids: torch.Tensor, mask: torch.Tensor | None = None
        ) -> torch.Tensor:
            mask = torch.ones_like(input_ids) if mask is None else mask
            return self.model({"input_ids": input_ids, "attention_mask": mask})[
                "sentence_embedding"
            ]

    ids = torch.arange(10, 24).reshape(2, 7)
    inputs = {"input_ids": ids} | ({"mask": torch.ones_like(ids).triu(-4)} if masked else {})
    torch.onnx.export(
        Graph().eval(),
        tuple(inputs.values()),
        path,
        input_names=list(inputs),
        output_names=["vectors"],
        opset_version=18,
        dynamo=True,
        external_data=False,
        dynamic_shapes={
            name: {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for name in inputs
        },
        verbose=False,
    )


def open_threaded(path: Path, **options: Any) -> onnxruntime.InferenceSession:
    """As onnxruntime comes, with all processors for each run."""
    given = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.get("threads", available_cpus())
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def encode_padded(
    encoder: Encoder, session: onnxruntime.InferenceSession, texts: Sequence[str]
) -> Vectors:
    """What most programs do: batches of 32 texts in order of length, padded."""
    ids = encoder.tokenize(texts, role="passage")
    order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    vectors = np.empty((len(ids), encoder.dim), dtype=np.float32)
    for start in range(0, len(ids), 32):
        rows = order[start : start + 32]
        feeds = {
            name: np.zeros((len(rows), len(ids[rows[0]])), dtype=np.int64)
            for name in ("input_ids", "mask")
        }
        for number, row in enumerate(rows):
            feeds["input_ids"][number, : len(ids[row])] = ids[row]
            feeds["mask"][number, : len(ids[row])] = 1
        vectors[rows] = session.run(None, feeds)[0]
    return vectors


def variants(shop: Workshop) -> Iterator[tuple[str, Callable[[str], Variant]]]:
    """Name and maker of every row; the first is what others are compared with."""
    dynamic, ours = shop.dynamic, shop.ours
    eight_all = partial(dynamic, op_types_to_quantize=["MatMul", "Gather"])
    usual = partial(
        dynamic, source=shop.masked, per_channel=False, op_types_to_quantize=["MatMul", "Gather"]
    )

    def graph(name: str, build: Build, *rest: Any) -> tuple[str, Callable[[str], Variant]]:
        return name, lambda title: shop.variant(title, build, *rest)

    yield "sentence-transformers fp32", lambda title: Variant(title, Torch(), 90.9)
    yield (
        "sentence-transformers, bf16 autocast",
        lambda title: Variant(title, Torch(bfloat16=True), 90.9),
    )
    yield (
        "usual export fp32, padded",
        lambda t: shop.padded(t, lambda p: p.write_bytes(shop.masked.read_bytes())),
    )
    yield "usual export, int8 dynamic per tensor, padded", lambda title: shop.padded(title, usual)
    yield graph("fp32, plain attention", partial(write_masked, masked=False))
    yield graph("fp32", shop.copy)
    yield graph("fp32, SkipLayerNormalization fused", shop.copy, partial(open_threaded, threads=1))
    yield graph("fp16", shop.half)
    yield graph(
        "int8 dynamic, per tensor, unsigned",
        partial(dynamic, per_channel=False, weight_type=QuantType.QUInt8),
    )
    yield graph("int8 dynamic, per tensor, signed", partial(dynamic, per_channel=False))
    yield graph("int8 dynamic, per channel", dynamic)
    yield graph("int8 dynamic, per channel, 7 bits", partial(dynamic, reduce_range=True))
    yield graph("int8 dynamic, per channel, word table too", eight_all)
    yield graph(
        "int8 dynamic, per channel, after Gelu fp32",
        partial(dynamic, nodes_to_exclude=shop.after_gelu),
    )
    yield graph("int8 static (QDQ), per channel", shop.static)
    yield graph("8-bit blocks of 128 (MatMulNBits)", partial(shop.blocks, bits=8))
    yield graph("4-bit blocks of 128 (MatMulNBits)", partial(shop.blocks, bits=4))
    yield graph(
        "ours, neither smoothing nor row scales", partial(ours, smoothing=None, row_scales=False)
    )
    yield graph("ours without smoothing", partial(ours, smoothing=None))
    yield graph("ours without row scales", partial(ours, row_scales=False))
    yield graph("ours, 7-bit weights", partial(ours, weight_limit=63))
    yield graph("**ours**", ours)
    yield graph("ours, texts cut at 128 tokens", ours, None, 128)
    if importlib.util.find_spec("openvino"):
        plain = partial(write_masked, masked=False)
        yield graph("OpenVINO f32", plain, partial(OpenVino, precision="f32"))
        yield graph("OpenVINO bf16", plain, partial(OpenVino, precision="bf16"))
        yield graph("OpenVINO, int8 static (QDQ)", shop.static, partial(OpenVino, precision="f32"))


def read_lines(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as lines:
        yield from lines


def read_cosqa(data: Path) -> Cosqa:
    corpus = [json.loads(line) for line in read_lines(data / "cosqa" / "corpus.jsonl.gz")]
    rows = {document["_id"]: row for row, document in enumerate(corpus)}
    texts = {
        query["_id"]: query["text"]
        for query in map(json.loads, (data / "cosqa" / "queries.jsonl").open())
    }
    relevant: dict[str, set[int]] = {}
    for line in (data / "cosqa" / "qrels" / "dev.tsv").read_text().splitlines()[1:]:
        query, document, score = line.split("\t")
        if int(score) > 0:
            relevant.setdefault(query, set()).add(rows[document])
    return Cosqa(
        [d["text"] for d in corpus], [texts[query] for query in relevant], list(relevant.values())
    )


def read_sample(data: Path, count: int) -> list[str]:
    texts = [
        json.loads(line)["text"] for line in read_lines(data / "csn_challenge" / "corpus.jsonl.gz")
    ]
    return random.Random(0).sample(texts, count)


def judge(variant: Variant, cosqa: Cosqa) -> None:
    variant.passages = variant.encode(cosqa.passages)
    queries = np.concatenate([variant.encode([query]) for query in cosqa.queries])
    ranked = np.argsort(-(queries @ variant.passages.T), axis=1, kind="stable")[:, :100]
    pairs = zip(ranked, cosqa.relevant, strict=True)
    ranks = (
        [rank for rank, row in enumerate(rows, 1) if row in relevant] for rows, relevant in pairs
    )
    variant.reciprocal_ranks = np.array([1 / found[0] if found else 0.0 for found in ranks])


def race(rows: Sequence[Variant], texts: Sequence[str]) -> None:
    for start in range(0, len(texts), SLICE):
        for variant in rows:
            variant.encode([QUERY])
            started = time.perf_counter()
            variant.encode(texts[start : start + SLICE])
            variant.seconds.append(time.perf_counter() - started)
            for _ in range(20):
                started = time.perf_counter()
                variant.encode([QUERY])
                variant.query_ms.append((time.perf_counter() - started) * 1000)


def line(variant: Variant, first: Variant, exact: Variant) -> str:
    faster = np.median(np.array(first.seconds) / np.array(variant.seconds))
    rate = SLICE / np.median(variant.seconds)
    cells = [
        variant.name,
        f"{variant.megabytes:.1f}",
        f"{min(variant.query_ms):.2f} / {np.median(variant.query_ms):.2f}",
    ]
    cells += [f"{rate:.0f}", f"{faster:.1f}"]
    if len(variant.reciprocal_ranks):
        change = variant.reciprocal_ranks - exact.reciprocal_ranks
        spread = 1.96 * change.std() / np.sqrt(len(change))
        cosine = float((variant.passages * exact.passages).sum(axis=1).mean())
        cells += [
            f"{variant.reciprocal_ranks.mean():.4f}",
            f"{change.mean():+.4f} ± {spread:.4f}",
            f"{cosine:.4f}",
        ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--sample", type=int, default=4000, help="functions to time each variant on"
    )
    parser.add_argument(
        "--only", nargs="*", default=[], help="rows whose names contain one of these, and the first"
    )
    parser.add_argument("--speed-only", action="store_true", help="leave out MRR")
    options = parser.parse_args()

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    cosqa, sample = read_cosqa(options.data), read_sample(options.data, options.sample)
    with tempfile.TemporaryDirectory() as work:
        rows = []
        for name, make in variants(Workshop(Path(work))):
            if rows and options.only and not any(word in name for word in options.only):
                continue
            try:
                rows.append(make(name))
                rows[-1].encode(sample[:8])
            except Exception as error:  # noqa: BLE001 - a way that does not work is a result too
                print(f"{name}: {str(error)[:200]}", flush=True)
                continue
            if not options.speed_only:
                judge(rows[-1], cosqa)
                print(
                    f"{name}: MRR@100 {rows[-1].reciprocal_ranks.mean():.4f}",
                    file=sys.stderr,
                    flush=True,
                )
        race(rows, sample)
    print(
        "| variant | MB | query ms, least / median | passages/s | x first | MRR@100 | change | cosine to fp32 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(line(row, rows[0], rows[0]))


if __name__ == "__main__":
    main()
