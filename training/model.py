"""The models that are trained: a text encoder, and a predictor of masked entities.

The config of the base model decides between two architectures. T5 and CodeT5 work as in SANTA: a
text's vector is the first position of the decoder, and the whole T5 predicts. With BERT-class
encoders a text's vector is the mean over its tokens, or its first token's, with or without the base
model's pooler (as SimCSE's); a decoder of one layer predicts, which sees only that vector and the
word embeddings of the masked text, and which is not exported. Queries may have a BERT-class encoder
of their own, as in DPR.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    DPRContextEncoder,
    DPRQuestionEncoder,
    DPRReader,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.utils import logging

from purlin.index.encoder import Role, encoder_directory, encoder_name
from purlin.index.errors import Damaged, InvalidInput, NotFound
from purlin.index.exported import MODEL
from purlin.training.config import in_range
from purlin.training.export import (
    QUERY,
    Similarity,
    base_checkpoint,
    conversion_hint,
    first_position,
    positions,
)
from purlin.training.losses import IGNORED
from purlin.training.restore import restored

BASE = "sentence-transformers/all-MiniLM-L6-v2"
DECODER = "decoder.safetensors"
SHARDS = "model.safetensors.index.json"
MAX_TOKENS = 8192
EXPORT_TOKENS = 256  # the default limit of an encoder exported from a checkpoint
# Names of dropout settings in BERT, DistilBERT, ModernBERT and similar models.
DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
)
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "spiece.model", "vocab.json")
Pooling = Literal["mean", "first", "pooler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Sizes of a T5 with random weights, which uses only the tokenizer of the base model."""

    dim: int = 256
    layers: int = 4
    heads: int = 4
    feed_forward: int = 1024

    def __post_init__(self) -> None:
        in_range("layers", self.layers, 1, 48)
        in_range("heads", self.heads, 1, 64)
        in_range("dim", self.dim, 8, 8192)
        in_range("feed_forward", self.feed_forward, 8, 65_536)

        if self.dim % self.heads:
            raise InvalidInput(
                f"dim {self.dim} must be a multiple of heads {self.heads}.", field="dim"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Which model is trained, and how texts are prepared for it.

    `base` is the directory of a checkpoint, of an exported encoder or reader, `labels` or
    `transformer` for a released encoder, or a name on the hub.
    `max_*_tokens` include special tokens. `dropout` None keeps the base model's (0 for one from
    scratch); 0 enables fused attention, which is nearly twice as fast on a CPU. `similarity`
    "cosine" scales vectors to length 1, "dot" does not, as in the paper. `pooling` applies to
    BERT-class encoders: "mean" over the tokens, the "first" token's state, or what the base model's
    "pooler", a linear layer and tanh, makes of that state. With `query_base` queries have an
    encoder of their own, and `base` is that of passages. The word embeddings and the lowest
    `frozen_layers` layers of BERT-class encoders keep the base's weights, which saves their share of
    the backward pass; 0 trains all. `layers` keeps that many of the base's layers, evenly spaced and
    the last one among them; 0 keeps all.
    """

    base: str = BASE
    query_base: str | None = None
    pooling: Pooling = "mean"
    scratch: Scratch | None = None
    similarity: Similarity = "cosine"
    max_query_tokens: int = 64
    max_passage_tokens: int = 128
    max_target_tokens: int = 64
    decoder_layers: int = 1
    dropout: float | None = None
    gradient_checkpointing: bool = False
    frozen_layers: int = 0
    layers: int = 0

    def __post_init__(self) -> None:
        for name in ("max_query_tokens", "max_passage_tokens", "max_target_tokens"):
            in_range(name, getattr(self, name), 4, MAX_TOKENS)
        in_range("decoder_layers", self.decoder_layers, 1, 12)
        in_range("frozen_layers", self.frozen_layers, 0, 48)
        in_range("layers", self.layers, 0, 48)
        in_range("dropout", self.dropout or 0.0, 0.0, 0.9)


class TextModel(nn.Module):
    """Encodes texts as vectors, and predicts what was masked in them."""

    tokenizer: PreTrainedTokenizerFast
    reads_vectors: bool = True
    """Whether `predict` uses the vectors; if not, they may be None."""

    def __init__(self, settings: ModelSettings, tokenizer: Any) -> None:
        super().__init__()
        self.settings = settings
        self.tokenizer = tokenizer

    def vectors(self, ids: Tensor, mask: Tensor, role: Role = "passage") -> Tensor:
        """Encode `ids`, `mask` (B, T) as float32 (B, D), of length 1 if similarity is "cosine"."""
        vectors = self._vectors(ids, mask, role).float()
        if self.settings.similarity == "cosine":
            return F.normalize(vectors, dim=-1)
        return vectors

    def grouped_vectors(
        self, ids: Tensor, mask: Tensor, size: int, role: Role = "passage"
    ) -> Tensor:
        """Encode as `vectors` does; on a CPU in groups of `size` texts, which saves padding."""
        if ids.is_cuda or len(ids) <= size:
            return self.vectors(ids, mask, role)

        def encode(group_ids: Tensor, group_mask: Tensor) -> tuple[Tensor]:
            return (self.vectors(group_ids, group_mask, role),)

        return in_groups(encode, ids, mask, size)[0]

    def predict(
        self, vectors: Tensor | None, ids: Tensor, mask: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return states (N, D) and word embeddings (V, D), whose products are the logits.

        There is one state for each of `targets` (B, K) that is not IGNORED, in order; it depends on
        the targets before it. `vectors` (B, D) are those of the unmasked texts, `ids` and `mask`
        (B, T) the masked texts.
        """
        raise NotImplementedError

    def fresh(self) -> list[nn.Parameter]:
        """Return the parameters that are not the base model's."""
        return []

    def save(self, directory: Path) -> None:
        """Write weights, tokenizer and config in the layout of other tools; never pickled."""
        raise NotImplementedError

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        raise NotImplementedError


class BertLike(TextModel):
    """A BERT-class encoder with a light decoder, which shares its word embeddings.

    `answer_head` has the weights of a linear layer from states to start, end and selection logits,
    if the base model is a reader of DPR's.
    """

    answer_head: dict[str, Tensor] | None = None

    def __init__(self, settings: ModelSettings, tokenizer: Any, transformer: Any) -> None:
        super().__init__(settings, tokenizer)
        self.transformer = transformer
        config = transformer.config
        layer = nn.TransformerDecoderLayer(
            config.hidden_size,
            config.num_attention_heads,
            getattr(config, "intermediate_size", 4 * config.hidden_size),
            dropout=0.0,
            activation="gelu",
            batch_first=True,
        )
        self.decoder = nn.TransformerDecoder(layer, settings.decoder_layers)

    def predict(
        self, vectors: Tensor | None, ids: Tensor, mask: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Predict with the light decoder, from the vector and the masked text's words."""
        assert vectors is not None

        # The vector gets the length of a layer-normalized state, such as a word's.
        length = self.transformer.config.hidden_size**0.5
        vector_states = F.normalize(vectors, dim=-1)[:, None] * length
        memory = torch.cat([vector_states, self._words(ids)], dim=1)
        hidden_memory = F.pad(mask == 0, (1, 0))  # the vector is never hidden

        start = self.tokenizer.cls_token_id or 0
        previous = F.pad(targets[:, :-1].clamp(min=0), (1, 0), value=start)
        k = previous.shape[1]
        causal = torch.ones(k, k, dtype=torch.bool, device=ids.device).triu(1)
        states = self.decoder(
            self._words(previous), memory, tgt_mask=causal, memory_key_padding_mask=hidden_memory
        )

        # As long as they are: BERT's word embeddings are short. T5 has long ones, and scales for it.
        return states[targets != IGNORED], self.transformer.get_input_embeddings().weight

    def fresh(self) -> list[nn.Parameter]:
        """Return the parameters of the light decoder."""
        return list(self.decoder.parameters())

    def _words(self, ids: Tensor) -> Tensor:
        states: Tensor = self.transformer.embeddings(input_ids=ids)
        return states

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        output = self.transformer(input_ids=ids, attention_mask=mask)
        if self.settings.pooling == "pooler":
            pooled: Tensor = output.pooler_output
            return pooled

        states: Tensor = output.last_hidden_state
        if self.settings.pooling == "first":
            return states[:, 0]

        # Padding does not count in the mean.
        weight = mask.unsqueeze(-1).to(states.dtype)
        return (states * weight).sum(1) / weight.sum(1).clamp(min=1)

    def save(self, directory: Path) -> None:
        """Write the checkpoint that `load_text_model` and sentence-transformers load."""
        self.transformer.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)

        weights = self.decoder.state_dict()
        save_file(
            {name: weight.contiguous() for name, weight in weights.items()}, directory / DECODER
        )
        _write_modules(directory, self.transformer, self.settings)


class FirstDecoderPosition(TextModel):
    """T5 or CodeT5 as in SANTA: a vector is the decoder's first position (eq. 1)."""

    reads_vectors = False

    def __init__(self, settings: ModelSettings, tokenizer: Any, t5: Any) -> None:
        super().__init__(settings, tokenizer)
        self.t5 = t5

    def predict(
        self, vectors: Tensor | None, ids: Tensor, mask: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Predict with the whole T5, from the masked text; `vectors` are not used."""
        encoded = self.t5.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        previous = self.t5.prepare_decoder_input_ids_from_labels(targets)
        states = self.t5.decoder(
            input_ids=previous,
            encoder_hidden_states=encoded,
            encoder_attention_mask=mask,
            use_cache=False,
        ).last_hidden_state[targets != IGNORED]

        scale = self.t5.model_dim**-0.5 if self.t5.config.scale_decoder_outputs else 1.0
        return states * scale, self.t5.lm_head.weight

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        return first_position(self.t5, ids, mask)

    def save(self, directory: Path) -> None:
        """Write the checkpoint that `load_text_model` and transformers load."""
        self.t5.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)


class TwoEncoders(TextModel):
    """DPR: an encoder for queries and one for passages, which share a tokenizer.

    Entities are predicted from passages.
    """

    def __init__(self, queries: BertLike, passages: BertLike) -> None:
        super().__init__(passages.settings, passages.tokenizer)
        self.queries = queries
        self.passages = passages

    def predict(
        self, vectors: Tensor | None, ids: Tensor, mask: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Predict with the light decoder of passages."""
        return self.passages.predict(vectors, ids, mask, targets)

    def fresh(self) -> list[nn.Parameter]:
        """Return the parameters of both light decoders."""
        return [*self.passages.fresh(), *self.queries.fresh()]

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        encoder = self.queries if role == "query" else self.passages
        return encoder._vectors(ids, mask, role)

    def save(self, directory: Path) -> None:
        """Write the passages' encoder like a single one, and the queries' in its subdirectory."""
        self.passages.save(directory)
        (directory / QUERY).mkdir(exist_ok=True)
        self.queries.save(directory / QUERY)


def load_text_model(
    settings: ModelSettings, directory: Path | None = None, *, decoder: bool = True
) -> TextModel:
    """Load the base model, or the one that `save` wrote to `directory`.

    `decoder` says whether the light decoder is read from `directory` too. Raises NotFound or
    InvalidInput for a directory without config, tokenizer or safetensors weights, for a model that
    is neither T5 nor BERT-like, and for two encoders that do not fit together; Damaged if the
    decoder is missing.
    """
    passages = _load_one(settings, directory, decoder=decoder)
    if settings.query_base is None:
        return passages

    query_settings = replace(settings, base=settings.query_base)
    query_directory = directory and directory / QUERY
    queries = _load_one(query_settings, query_directory, decoder=decoder)
    return _two_encoders(queries, passages)


def _two_encoders(queries: TextModel, passages: TextModel) -> TwoEncoders:
    """Combine two encoders, or raise InvalidInput if they do not fit together."""
    if not (isinstance(passages, BertLike) and isinstance(queries, BertLike)):
        raise InvalidInput(
            "Two encoders need two BERT-like base models: leave query_base out.", field="query_base"
        )
    if queries.transformer.config.hidden_size != passages.transformer.config.hidden_size:
        raise InvalidInput(
            "base and query_base give vectors of different lengths.", field="query_base"
        )
    if queries.tokenizer.get_vocab() != passages.tokenizer.get_vocab():
        raise InvalidInput(
            "base and query_base have different tokenizers; they need the same.", field="query_base"
        )

    return TwoEncoders(queries, passages)


def _load_one(settings: ModelSettings, directory: Path | None, *, decoder: bool) -> TextModel:
    source = str(directory or base_path(settings.base))
    scratch = settings.scratch if directory is None else None
    if Path(source).is_dir():
        _refuse_incomplete(Path(source), weights=scratch is None)
    config, tokenizer = _config_and_tokenizer(settings.base, source)

    if scratch:
        t5 = _t5_from_scratch(scratch, settings, tokenizer)
        return _prepared(FirstDecoderPosition(settings, tokenizer, t5), t5, directory)
    if config.model_type == "t5":
        t5 = _pretrained_t5(settings, source, config)
        return _prepared(FirstDecoderPosition(settings, tokenizer, t5), t5, directory)

    transformer, answer_head = _pretrained_bert(settings, source, config)
    model = BertLike(settings, tokenizer, transformer)
    model.answer_head = answer_head
    if (directory and decoder) or (Path(source) / DECODER).is_file():
        _read_decoder(model.decoder, Path(source) / DECODER)
    return _prepared(model, transformer, directory)


def pad(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Return rows of ids as (n, longest), padded with `value`; one column if all are empty."""
    longest = max([1, *map(len, rows)])
    padded = [[*row, *[value] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), longest)


def pad_texts(rows: Sequence[Sequence[int]], filler: int) -> tuple[Tensor, Tensor]:
    """Return ids and mask, both (n, longest)."""
    return pad(rows, filler), pad([[1] * len(row) for row in rows], 0)


def in_groups(
    run: Callable[[Tensor, Tensor], tuple[Tensor, ...]], ids: Tensor, mask: Tensor, size: int
) -> tuple[Tensor, ...]:
    """Return what `run` computes from `ids` and `mask` (n, T), in groups of `size` texts.

    Texts of similar length form a group and are cut to the longest of them, so that little of the
    work is padding. The results, each (n, ...), are in the order of `ids`.
    """
    lengths = mask.sum(1)
    # Neighbours in this order have similar lengths.
    order = lengths.argsort()

    results = []
    for rows in torch.split(order, size):
        longest = int(lengths[rows].max())
        results.append(run(ids[rows, :longest], mask[rows, :longest]))

    original_order = order.argsort()
    return tuple(torch.cat(parts)[original_order] for parts in zip(*results, strict=True))


def pad_targets(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return targets as (n, longest), padded with IGNORED."""
    return pad(rows, IGNORED)


def base_path(base: str) -> str | Path:
    """Return the directory of a base model, or its name on the hub.

    The default base encoder is in a package. The weights of an exported encoder or reader, which
    may be a word such as `labels` for a released one, are restored from its graph.
    """
    exported = encoder_directory(base)
    if (exported / MODEL).is_file() and not (exported / "config.json").is_file():
        return restored(exported)
    # Only the default base model has a package; others come from the hub.
    if base != BASE:
        return base

    try:
        return base_checkpoint()
    except NotFound:
        return base


def base_name(base: str) -> str:
    """Return what a model card calls a base model: the name of an exported encoder, else `base`."""
    return encoder_name(encoder_directory(base)) or base


def _refuse_incomplete(directory: Path, *, weights: bool) -> None:
    """Raise NotFound or InvalidInput unless config, tokenizer and (if `weights`) weights exist."""
    if not (directory / "config.json").is_file():
        raise NotFound(
            f"{directory} has no config.json. Give the directory of a saved model.", field="base"
        )
    if not any((directory / name).is_file() for name in TOKENIZER_FILES):
        raise InvalidInput(
            f"{directory} has no tokenizer (tokenizer.json). Save it in the same directory.",
            field="base",
        )

    if weights and (not any(directory.glob("*.safetensors")) or _names_pickles(directory / SHARDS)):
        raise InvalidInput(
            f"{directory} has no *.safetensors weights, or not for all of them. Pickled weights (.bin, "
            f".pt) are refused, as loading them can run any code. {conversion_hint(directory)}",
            field="base",
        )


def _names_pickles(shards: Path) -> bool:
    """Tell whether an index of shards names a file that is not safetensors: it would be loaded."""
    if not shards.is_file():
        return False

    try:
        names = json.loads(shards.read_bytes())["weight_map"].values()
        return not all(name.endswith(".safetensors") for name in names)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return True


def _config_and_tokenizer(base: str, source: str) -> tuple[Any, Any]:
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    # tokenizers raises bare Exceptions.
    except Exception as error:  # noqa: BLE001
        remedy = "Give a model's directory, or its name on the hub if that can be reached."
        raise NotFound(
            f"The base model {base} cannot be loaded: {_first_line(error)} {remedy}", field="base"
        ) from None

    if not tokenizer.is_fast:
        raise InvalidInput(f"{base} has no fast tokenizer (tokenizer.json).", field="base")
    if tokenizer.pad_token_id is None:
        raise InvalidInput(
            f"The tokenizer of {base} has no padding token; give it one.", field="base"
        )
    return config, tokenizer


def _pretrained_t5(settings: ModelSettings, source: str, config: Any) -> Any:
    _set_dropout(config, settings.dropout, ["dropout_rate"])
    # T5 starts its decoder with padding where the config does not say otherwise.
    if config.decoder_start_token_id is None:
        config.decoder_start_token_id = config.pad_token_id
    return _pretrained(T5ForConditionalGeneration, source, config)


def _pretrained_bert(
    settings: ModelSettings, source: str, config: Any
) -> tuple[Any, dict[str, Tensor] | None]:
    """Load a BERT-like encoder, and the head of a reader of DPR's.

    Raises InvalidInput unless word embeddings and states have the same length, and there are
    positions for the longest texts.
    """
    _set_dropout(config, settings.dropout, DROPOUTS)
    unsupported = InvalidInput(
        f"{settings.base} is a {config.model_type}: give a T5 or a BERT-like encoder.", field="base"
    )
    # Of encoder-decoder models, only T5 is supported.
    if getattr(config, "is_encoder_decoder", False):
        raise unsupported

    transformer: Any
    answer_head = None
    if config.model_type == "dpr":
        transformer, answer_head = _pretrained_dpr(source, config)
    else:
        transformer = _pretrained(AutoModel, source, config, pooler=settings.pooling == "pooler")

    if settings.pooling == "pooler" and getattr(transformer, "pooler", None) is None:
        raise InvalidInput(f'{settings.base} has no pooler: use pooling "first".', field="pooling")
    if not hasattr(transformer, "embeddings"):
        raise unsupported
    if transformer.get_input_embeddings().embedding_dim != config.hidden_size:
        raise InvalidInput(
            f"{settings.base} has word embeddings shorter than its states, which cannot be shared.",
            field="base",
        )
    for name in ("max_query_tokens", "max_passage_tokens", "max_target_tokens"):
        in_range(name, getattr(settings, name), 4, positions(transformer) or MAX_TOKENS)
    return transformer, answer_head


def _pretrained_dpr(source: str, config: Any) -> tuple[BertModel, dict[str, Tensor] | None]:
    """Load the BERT inside one of DPR's models, and the head if that is its reader.

    An encoder's vector is the state of the first token.
    """
    if config.projection_dim:
        raise InvalidInput(f"{source} projects its vectors, which is not supported.", field="base")

    answer_head = None
    architectures = config.architectures or []
    if "DPRReader" in architectures:
        predictor = _pretrained(DPRReader, source, config).span_predictor
        inner = predictor.encoder.bert_model
        answer_head = _joined([predictor.qa_outputs, predictor.qa_classifier])
    elif "DPRContextEncoder" in architectures:
        inner = _pretrained(DPRContextEncoder, source, config).ctx_encoder.bert_model
    else:
        inner = _pretrained(DPRQuestionEncoder, source, config).question_encoder.bert_model

    # A plain BERT, so that checkpoints are saved and loaded as those of other encoders.
    names = BertConfig().to_dict()
    shared = {name: value for name, value in config.to_dict().items() if name in names}
    shared |= {"model_type": "bert", "architectures": None}
    bert = BertModel(BertConfig(**shared), add_pooling_layer=False)
    bert.load_state_dict(inner.state_dict())
    return bert, answer_head


def _joined(layers: Sequence[nn.Linear]) -> dict[str, Tensor]:
    """Return the weights of one linear layer that computes the outputs of `layers` in turn."""
    return {
        "weight": torch.cat([layer.weight.detach() for layer in layers]),
        "bias": torch.cat([layer.bias.detach() for layer in layers]),
    }


def _pretrained(model_type: Any, source: str, config: Any, *, pooler: bool = False) -> Any:
    """Load safetensors weights; raise NotFound if they cannot be read, InvalidInput if any lack.

    Those of a `pooler` may lack where it is not used.
    """
    options = {"use_safetensors": True, "trust_remote_code": False, "output_loading_info": True}

    # transformers would log a table of missing weights; the error below says it in one line.
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        model, loading = model_type.from_pretrained(
            source, config=config, dtype=torch.float32, **options
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise NotFound(
            f"The weights of {source} cannot be loaded: {_first_line(error)}", field="base"
        ) from None
    finally:
        logging.set_verbosity(verbosity)

    missing = sorted(name for name in loading["missing_keys"] if pooler or "pooler." not in name)
    if missing:
        raise InvalidInput(
            f"{source} lacks {len(missing)} weights, the first is {missing[0]}.", field="base"
        )
    return model


def _read_decoder(decoder: nn.Module, path: Path) -> None:
    if not path.is_file():
        raise Damaged(
            f"{path} is missing. Remove {path.parent} to resume from the checkpoint before it."
        )

    try:
        decoder.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise InvalidInput(
            f"{path} is not this model's decoder: {_first_line(error)} Check that decoder_layers is "
            "the same as in the run that wrote it.",
            field="base",
        ) from None


def _prepared(model: TextModel, inner: Any, directory: Path | None) -> TextModel:
    # What was written to a directory has only the layers that were kept.
    if model.settings.layers and directory is None:
        _keep_layers(inner, model.settings.layers)
    if model.settings.frozen_layers:
        _freeze(inner, model.settings.frozen_layers)
    if model.settings.gradient_checkpointing:
        # transformers 5 has renamed the method.
        getattr(inner, "activation_checkpointing_enable", inner.gradient_checkpointing_enable)()
    return model


def _freeze(transformer: nn.Module, count: int) -> None:
    """Keep the embeddings and the lowest `count` layers of a BERT from being trained.

    Raises InvalidInput if it has fewer layers, or no list of them.
    """
    layers = _bert_layers(transformer, "frozen_layers")
    in_range("frozen_layers", count, 1, len(layers))
    for module in (transformer.embeddings, *layers[:count]):
        cast(nn.Module, module).requires_grad_(False)


def _bert_layers(transformer: nn.Module, field: str) -> nn.ModuleList:
    """Return the list of a BERT's layers; raise InvalidInput, naming `field`, for other models."""
    layers = getattr(getattr(transformer, "encoder", None), "layer", None)
    if not isinstance(layers, nn.ModuleList):
        raise InvalidInput(
            f"The base model has no list of layers to choose from: set {field} to 0.", field=field
        )
    return layers


def _keep_layers(transformer: nn.Module, count: int) -> None:
    """Keep `count` layers of a BERT, evenly spaced, the last one among them."""
    layers = _bert_layers(transformer, "layers")
    if count > len(layers):
        raise InvalidInput(
            f"layers is {count}, but the base model has {len(layers)}.", field="layers"
        )
    numbers = [round(len(layers) * rank / count) - 1 for rank in range(1, count + 1)]
    bert = cast(Any, transformer)
    bert.encoder.layer = nn.ModuleList(layers[number] for number in numbers)
    bert.config.num_hidden_layers = count


def _set_dropout(config: Any, dropout: float | None, names: Sequence[str]) -> None:
    for name in names:
        if dropout is not None and hasattr(config, name):
            setattr(config, name, dropout)


def _t5_from_scratch(scratch: Scratch, settings: ModelSettings, tokenizer: Any) -> Any:
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=scratch.dim,
        d_kv=scratch.dim // scratch.heads,
        d_ff=scratch.feed_forward,
        num_layers=scratch.layers,
        num_heads=scratch.heads,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id or tokenizer.sep_token_id,
        dropout_rate=settings.dropout or 0.0,
    )
    config.decoder_start_token_id = tokenizer.pad_token_id
    return T5ForConditionalGeneration(config)


def _write_modules(directory: Path, transformer: Any, settings: ModelSettings) -> None:
    """Write the files of sentence-transformers: the list of modules, and the settings of each."""
    names = {"": "Transformer", "1_Pooling": "Pooling"}
    if settings.pooling == "pooler":
        names["2_Dense"] = "Dense"
    if settings.similarity == "cosine":
        names[f"{len(names)}_Normalize"] = "Normalize"

    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for number, (path, name) in enumerate(names.items())
    ]
    pooling = {
        "word_embedding_dimension": transformer.config.hidden_size,
        "pooling_mode_cls_token": settings.pooling != "mean",
        "pooling_mode_mean_tokens": settings.pooling == "mean",
    }
    longest = min(EXPORT_TOKENS, positions(transformer) or MAX_TOKENS)
    limits = {"max_seq_length": longest, "do_lower_case": False}

    for path in names:
        (directory / path).mkdir(exist_ok=True)
    _write_json(directory / "modules.json", modules)
    _write_json(directory / "sentence_bert_config.json", limits)
    _write_json(directory / "1_Pooling" / "config.json", pooling)
    if settings.pooling == "pooler":
        _write_pooler(directory / "2_Dense", transformer)


def _write_pooler(directory: Path, transformer: Any) -> None:
    """Write a model's pooler as the module of sentence-transformers that computes the same."""
    layer, size = transformer.pooler.dense, transformer.config.hidden_size
    config = {
        "in_features": size,
        "out_features": size,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    _write_json(directory / "config.json", config)
    weights = {"linear.weight": layer.weight, "linear.bias": layer.bias}
    save_file(
        {name: weight.detach().contiguous() for name, weight in weights.items()},
        directory / "model.safetensors",
    )


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]
