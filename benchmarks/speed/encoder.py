"""Compare ways to run the base encoder on a CPU: size, speed and quality, as a Markdown table.

    python -m benchmarks.speed.encoder --data DIR [--sample 4000]

DIR holds `cosqa` and `csn_challenge` in BEIR's form. Quality is dense MRR@100 on CoSQA's dev
queries by exhaustive search. Speed is measured on a sample of csn_challenge, in slices that all
variants encode in turn, so that other work on the machine slows all alike. Needs the development
dependencies.
"""

from __future__ import annotations

import logging
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic
from sentence_transformers import SentenceTransformer

from benchmarks.options import command_parser
from benchmarks.speed.functions import read_rows
from purlin.index.cpus import available_cpus
from purlin.index.encoder import Plan, Vectors
from purlin.index.encoder.exported import MODEL, TOKENIZER
from purlin.index.encoder.transformer import Encoder, EncoderSettings, open_session, open_tokenizer
from purlin.index.evaluation.ranking import read_qrels, read_queries, reciprocal_rank
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.exporting.quantize import quantize
from purlin.training.exporting.samples import library_texts
from purlin.training.models.sentence_models import base_checkpoint

QUERY = "how to read a text file line by line and strip the newline in python"  # 16 tokens
SLICE = 250
MAX_TOKENS = 256
Encode = Callable[[Sequence[str]], Vectors]


@dataclass
class Variant:
    """A row of the table and its measurements; `reciprocal_ranks` has one for each query."""

    name: str
    encode: Encode
    megabytes: float
    seconds: list[float] = field(default_factory=list)
    query_ms: list[float] = field(default_factory=list)
    reciprocal_ranks: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    passages: Vectors = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))


@dataclass
class Cosqa:
    """CoSQA's dev queries; `relevant` has the rows of each query's passages."""

    passages: list[str]
    queries: list[str]
    relevant: list[set[int]]


def make_variants(work: Path) -> Iterator[Variant]:
    """Yield the variants, made in the directory `work`; the first is the reference of all others."""
    torch.set_num_threads(available_cpus())
    checkpoint = base_checkpoint()
    sentence_model = SentenceTransformer(str(checkpoint), device="cpu")
    weights_mb = (checkpoint / "model.safetensors").stat().st_size / 1e6
    encode = partial(sentence_model.encode, show_progress_bar=False)
    yield Variant("sentence-transformers fp32", lambda texts: encode(list(texts)), weights_mb)

    plain = export_encoder(checkpoint, work / "plain", Card("plain"), quantization="none")
    fp32, dynamic, ours = work / "plain" / MODEL, work / "dynamic.onnx", work / "ours.onnx"
    quantize_dynamic(
        fp32,
        dynamic,
        per_channel=True,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gather"],
    )
    quantize(fp32, ours, [ids[None] for ids in plain.tokenize(library_texts(), role="passage")])

    tokenizer = (work / "plain" / TOKENIZER).read_bytes()
    graphs = {"fp32": fp32, "int8 dynamic, per channel, word table too": dynamic, "**ours**": ours}
    for name, path in graphs.items():
        encoder = _open(path, tokenizer, plain.dim)
        yield Variant(name, partial(encoder.encode, role="passage"), path.stat().st_size / 1e6)


def _open(path: Path, tokenizer: bytes, dim: int) -> Encoder:
    """A graph run as Purlin runs encoders."""
    settings = EncoderSettings("study", dim, MAX_TOKENS, "", "", {MODEL: "", TOKENIZER: ""})
    session = open_session(path.read_bytes())
    sessions = {"passage": session, "query": session}
    return Encoder(
        settings, open_tokenizer(tokenizer, MAX_TOKENS), sessions, Plan(available_cpus())
    )


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
    change = variant.reciprocal_ranks - reference.reciprocal_ranks
    half_width = 1.96 * change.std() / np.sqrt(len(change))
    cosine = float((variant.passages * reference.passages).sum(axis=1).mean())

    cells = [
        variant.name,
        f"{variant.megabytes:.1f}",
        f"{min(variant.query_ms):.2f} / {np.median(variant.query_ms):.2f}",
        f"{SLICE / np.median(variant.seconds):.0f}",
        f"{speedup:.1f}",
        f"{variant.reciprocal_ranks.mean():.4f}",
        f"{change.mean():+.4f} ± {half_width:.4f}",
        f"{cosine:.4f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--sample", type=int, default=4000, help="functions to time each variant on"
    )
    options = parser.parse_args()

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    cosqa, sample = read_cosqa(options.data), read_sample(options.data, options.sample)
    with tempfile.TemporaryDirectory() as work:
        variants = list(make_variants(Path(work)))
    for variant in variants:
        measure_quality(variant, cosqa)
    measure_speed(variants, sample)

    print(
        "| variant | MB | query ms, least / median | passages/s | x first "
        "| MRR@100 | change | cosine to fp32 |"
    )
    print("|---" * 8 + "|")
    for variant in variants:
        print(table_row(variant, variants[0]))


if __name__ == "__main__":
    main()
