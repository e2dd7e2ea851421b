"""Compare ways to run the base encoder on a CPU: size, speed and quality, as a Markdown table.

    python -m benchmarks.speed.encoder --data DIR [--sample 4000] [--only WORD ...] [--speed-only]

DIR holds `cosqa` and `csn_challenge` in BEIR's form. Quality is dense MRR@100 on CoSQA's dev
queries by exhaustive search. Speed is measured on a sample of csn_challenge, in slices that all
variants encode in turn, so that other work on the machine slows all alike. Needs the development
dependencies; rows of OpenVINO appear if it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
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

from benchmarks.speed.functions import read_rows
from purlin.index.cpus import available_cpus
from purlin.index.encoder import Plan, Vectors
from purlin.index.encoder.transformer import Encoder, EncoderSettings, open_session, open_tokenizer
from purlin.index.evaluation.ranking import read_qrels, read_queries, reciprocal_rank
from purlin.training.exporting.encoder import export_encoder, write_graph
from purlin.training.exporting.model_card import Card
from purlin.training.exporting.quantize import QuantizationRecipe, quantize
from purlin.training.exporting.samples import library_texts
from purlin.training.models.sentence_models import base_checkpoint

QUERY = "how to read a text file line by line and strip the newline in python"  # 16 tokens
SLICE = 250
Encode = Callable[[Sequence[str]], Vectors]
Build = Callable[[Path], object]


@dataclass
class Variant:
    """A row of the table and its measurements; `reciprocal_ranks` has one for each query."""

    name: str
    encode: Encode
    megabytes: float
    seconds: list[float] = field(default_factory=list)
    query_ms: list[float] = field(default_factory=list)
    reciprocal_ranks: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0))
    passages: Vectors = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))


NamedMaker = tuple[str, Callable[[str], Variant]]
"""A row's name, and the function that makes its variant from that name."""


@dataclass
class Cosqa:
    """CoSQA's dev queries; `relevant` has the rows of each query's passages."""

    passages: list[str]
    queries: list[str]
    relevant: list[set[int]]


class Workshop:
    """Makes variants from one fp32 graph, in the directory `work`."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.fp32, self.masked = work / "fp32.onnx", work / "masked.onnx"
        checkpoint = base_checkpoint()
        write_graph(checkpoint, self.fp32)
        write_masked(self.masked)
        export_encoder(checkpoint, work / "plain", Card("plain"), quantization="none")

        self.tokenizer = (work / "plain" / "tokenizer.json").read_bytes()
        texts = library_texts()
        self.samples = [ids[None] for ids in self.encoder(None).tokenize(texts, role="passage")]

        # A layer has six MatMul nodes, the last of which follows its Gelu.
        layers = [node.name for node in onnx.load(self.fp32).graph.node if node.op_type == "MatMul"]
        self.after_gelu = layers[5::6]

    def encoder(self, session: Any, max_tokens: int = 256) -> Encoder:
        digests = {"model.onnx": "", "tokenizer.json": ""}
        settings = EncoderSettings("study", 384, max_tokens, "", "", digests)
        tokenizer = open_tokenizer(self.tokenizer, max_tokens)
        return Encoder(
            settings, tokenizer, {"passage": session, "query": session}, Plan(available_cpus())
        )

    def variant(
        self, name: str, build: Build, open_: Callable[[Path], Any] | None = None, tokens: int = 256
    ) -> Variant:
        """A variant run as Purlin runs encoders, unless `open_` opens its session."""
        path = self.work / "variant.onnx"
        build(path)

        session = open_(path) if open_ else open_session(path.read_bytes())
        encode = partial(self.encoder(session, tokens).encode, role="passage")
        return Variant(name, encode, path.stat().st_size / 1e6)

    def padded(self, name: str, build: Build) -> Variant:
        """A variant run as most programs run encoders: in padded batches."""
        path = self.work / "variant.onnx"
        build(path)

        encode = partial(encode_padded, self.encoder(None), open_threaded(path))
        return Variant(name, encode, path.stat().st_size / 1e6)

    def copy(self, path: Path) -> None:
        path.write_bytes(self.fp32.read_bytes())

    def copy_masked(self, path: Path) -> None:
        path.write_bytes(self.masked.read_bytes())

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
        graph = onnx.load(self.fp32)

        quantizer = MatMulNBitsQuantizer(graph, bits=bits, algo_config=config, **options)
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
        # A request serves one thread at a time, and the encoder calls `run` from several.
        self._local = threading.local()

    def run(self, _: None, feeds: dict[str, Any]) -> list[Vectors]:
        if not hasattr(self._local, "request"):
            self._local.request = self._model.create_infer_request()
        return [np.array(self._local.request.infer(feeds)[0])]


class Torch:
    """sentence-transformers with its default settings, in 32 or in 16 bits."""

    def __init__(self, *, bfloat16: bool = False) -> None:
        torch.set_num_threads(available_cpus())
        self._model = SentenceTransformer(str(base_checkpoint()), device="cpu")
        self._bfloat16 = bfloat16

    def __call__(self, texts: Sequence[str]) -> Vectors:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._bfloat16):
            return self._model.encode(list(texts), show_progress_bar=False)


def write_masked(path: Path, attention: str = "eager", masked: bool = True) -> None:
    """Write the usual export: plain attention, and a mask as an input beside the ids."""

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = SentenceTransformer(str(base_checkpoint()), device="cpu")
            self.model[0].auto_model.set_attn_implementation(attention)

        def forward(
            self, input_ids: torch.Tensor, mask: torch.Tensor | None = None
        ) -> torch.Tensor:
            mask = torch.ones_like(input_ids) if mask is None else mask
            output = self.model({"input_ids": input_ids, "attention_mask": mask})
            return output["sentence_embedding"]

    ids = torch.arange(10, 24).reshape(2, 7)
    inputs = {"input_ids": ids}
    if masked:
        inputs["mask"] = torch.ones_like(ids).triu(-4)

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        Graph().eval(),
        tuple(inputs.values()),
        path,
        input_names=list(inputs),
        output_names=["vectors"],
        opset_version=18,
        dynamo=True,
        external_data=False,
        dynamic_shapes={name: dict(dynamic) for name in inputs},
        verbose=False,
    )


def open_threaded(path: Path, **options: Any) -> onnxruntime.InferenceSession:
    """Open a session with onnxruntime's defaults and `threads` (default: all CPUs) for each run."""
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = options.get("threads", available_cpus())
    return onnxruntime.InferenceSession(path, session_options, providers=["CPUExecutionProvider"])


def encode_padded(
    encoder: Encoder, session: onnxruntime.InferenceSession, texts: Sequence[str]
) -> Vectors:
    """Encode as most programs do: padded batches of 32 texts, longest first."""
    ids = encoder.tokenize(texts, role="passage")
    longest_first = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    vectors = np.empty((len(ids), encoder.dim), dtype=np.float32)

    for start in range(0, len(ids), 32):
        rows = longest_first[start : start + 32]
        shape = (len(rows), len(ids[rows[0]]))
        feeds = {name: np.zeros(shape, dtype=np.int64) for name in ("input_ids", "mask")}
        for number, row in enumerate(rows):
            feeds["input_ids"][number, : len(ids[row])] = ids[row]
            feeds["mask"][number, : len(ids[row])] = 1
        vectors[rows] = session.run(None, feeds)[0]
    return vectors


def variants(workshop: Workshop) -> Iterator[NamedMaker]:
    """Yield the name and the maker of every variant; the first is the reference of all others."""
    dynamic, ours = workshop.dynamic, workshop.ours

    def graph(name: str, build: Build, *rest: Any) -> NamedMaker:
        return name, lambda title: workshop.variant(title, build, *rest)

    yield from usual_variants(workshop)

    # Floating point.
    plain = partial(write_masked, masked=False)
    yield graph("fp32, plain attention", plain)
    yield graph("fp32", workshop.copy)
    yield graph(
        "fp32, SkipLayerNormalization fused", workshop.copy, partial(open_threaded, threads=1)
    )
    yield graph("fp16", workshop.half)

    # Quantization by onnxruntime.
    yield graph(
        "int8 dynamic, per tensor, unsigned",
        partial(dynamic, per_channel=False, weight_type=QuantType.QUInt8),
    )
    yield graph("int8 dynamic, per tensor, signed", partial(dynamic, per_channel=False))
    yield graph("int8 dynamic, per channel", dynamic)
    yield graph("int8 dynamic, per channel, 7 bits", partial(dynamic, reduce_range=True))
    yield graph(
        "int8 dynamic, per channel, word table too",
        partial(dynamic, op_types_to_quantize=["MatMul", "Gather"]),
    )
    yield graph(
        "int8 dynamic, per channel, after Gelu fp32",
        partial(dynamic, nodes_to_exclude=workshop.after_gelu),
    )
    yield graph("int8 static (QDQ), per channel", workshop.static)
    yield graph("8-bit blocks of 128 (MatMulNBits)", partial(workshop.blocks, bits=8))
    yield graph("4-bit blocks of 128 (MatMulNBits)", partial(workshop.blocks, bits=4))

    # Our quantization, whole and with parts left out.
    yield graph(
        "ours, neither smoothing nor row scales", partial(ours, smoothing=None, row_scales=False)
    )
    yield graph("ours without smoothing", partial(ours, smoothing=None))
    yield graph("ours without row scales", partial(ours, row_scales=False))
    yield graph("ours, 7-bit weights", partial(ours, weight_limit=63))
    yield graph("ours, rounded to the nearest", partial(ours, compensate=False))
    yield graph("**ours**", ours)
    yield graph("ours, texts cut at 128 tokens", ours, None, 128)

    if importlib.util.find_spec("openvino"):
        yield from openvino_variants(graph, plain, workshop.static)


def usual_variants(workshop: Workshop) -> Iterator[NamedMaker]:
    """Yield what most programs run."""

    def padded(name: str, build: Build) -> NamedMaker:
        return name, lambda title: workshop.padded(title, build)

    # The checkpoint's weights are 90.9 MB.
    yield "sentence-transformers fp32", lambda title: Variant(title, Torch(), 90.9)
    yield (
        "sentence-transformers, bf16 autocast",
        lambda title: Variant(title, Torch(bfloat16=True), 90.9),
    )
    yield padded("usual export fp32, padded", workshop.copy_masked)
    masked_per_tensor = partial(workshop.dynamic, source=workshop.masked, per_channel=False)
    yield padded(
        "usual export, int8 dynamic per tensor, padded",
        partial(masked_per_tensor, op_types_to_quantize=["MatMul", "Gather"]),
    )


def openvino_variants(
    graph: Callable[..., NamedMaker], plain: Build, static: Build
) -> Iterator[NamedMaker]:
    """Yield the variants that OpenVINO runs."""
    yield graph("OpenVINO f32", plain, partial(OpenVino, precision="f32"))
    yield graph("OpenVINO bf16", plain, partial(OpenVino, precision="bf16"))
    yield graph("OpenVINO, int8 static (QDQ)", static, partial(OpenVino, precision="f32"))


def read_cosqa(data: Path) -> Cosqa:
    directory = data / "cosqa"
    corpus = list(read_rows(directory / "corpus.jsonl.gz"))
    rows = {document["_id"]: row for row, document in enumerate(corpus)}
    texts = read_queries(directory / "queries.jsonl")
    relevant = {
        query: {rows[document] for document, grade in grades.items() if grade > 0}
        for query, grades in read_qrels(directory / "qrels" / "dev.tsv").items()
        if any(grade > 0 for grade in grades.values())
    }

    return Cosqa(
        passages=[document["text"] for document in corpus],
        queries=[texts[query] for query in relevant],
        relevant=list(relevant.values()),
    )


def read_sample(data: Path, count: int) -> list[str]:
    """`count` functions of csn_challenge, the same in every call."""
    texts = [row["text"] for row in read_rows(data / "csn_challenge" / "corpus.jsonl.gz")]
    return random.Random(0).sample(texts, count)


def measure_quality(variant: Variant, cosqa: Cosqa) -> None:
    """Set the variant's passage vectors, and its reciprocal rank for each query."""
    variant.passages = variant.encode(cosqa.passages)
    # Queries one by one, as a server encodes them.
    queries = np.concatenate([variant.encode([query]) for query in cosqa.queries])
    ranked = np.argsort(-(queries @ variant.passages.T), axis=1, kind="stable")[:, :100]

    pairs = zip(ranked.tolist(), cosqa.relevant, strict=True)
    variant.reciprocal_ranks = np.array([reciprocal_rank(*pair) for pair in pairs])


def measure_speed(variants: Sequence[Variant], texts: Sequence[str]) -> None:
    """Time every variant on each slice of the texts, and on one query 20 times per slice."""
    for start in range(0, len(texts), SLICE):
        for variant in variants:
            # Warm up: the variants before this one have emptied the caches.
            variant.encode([QUERY])

            started = time.perf_counter()
            variant.encode(texts[start : start + SLICE])
            variant.seconds.append(time.perf_counter() - started)

            for _ in range(20):
                started = time.perf_counter()
                variant.encode([QUERY])
                variant.query_ms.append((time.perf_counter() - started) * 1000)


def table_row(variant: Variant, reference: Variant) -> str:
    """A Markdown row; speed and quality are compared with the reference."""
    speedup = np.median(np.array(reference.seconds) / np.array(variant.seconds))
    rate = SLICE / np.median(variant.seconds)
    cells = [
        variant.name,
        f"{variant.megabytes:.1f}",
        f"{min(variant.query_ms):.2f} / {np.median(variant.query_ms):.2f}",
        f"{rate:.0f}",
        f"{speedup:.1f}",
    ]

    if len(variant.reciprocal_ranks):
        change = variant.reciprocal_ranks - reference.reciprocal_ranks
        half_width = 1.96 * change.std() / np.sqrt(len(change))
        cosine = float((variant.passages * reference.passages).sum(axis=1).mean())
        cells += [
            f"{variant.reciprocal_ranks.mean():.4f}",
            f"{change.mean():+.4f} ± {half_width:.4f}",
            f"{cosine:.4f}",
        ]
    return "| " + " | ".join(cells) + " |"


def selected_variants(
    workshop: Workshop, cosqa: Cosqa, sample: Sequence[str], options: argparse.Namespace
) -> list[Variant]:
    """Make the selected variants and measure their quality; print those that fail."""
    selected: list[Variant] = []
    for name, make in variants(workshop):
        # The first variant is the reference, so it is never left out.
        if selected and options.only and not any(word in name for word in options.only):
            continue

        try:
            variant = make(name)
            selected.append(variant)
            variant.encode(sample[:8])
        except Exception as error:  # noqa: BLE001 - a variant that fails is a result too
            print(f"{name}: {str(error)[:200]}", flush=True)
            continue

        if not options.speed_only:
            measure_quality(variant, cosqa)
            mean = variant.reciprocal_ranks.mean()
            print(f"{name}: MRR@100 {mean:.4f}", file=sys.stderr, flush=True)
    return selected


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
        rows = selected_variants(Workshop(Path(work)), cosqa, sample, options)
        measure_speed(rows, sample)

    print(
        "| variant | MB | query ms, least / median | passages/s | x first "
        "| MRR@100 | change | cosine to fp32 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(table_row(row, rows[0]))


if __name__ == "__main__":
    main()
