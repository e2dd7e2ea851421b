"""The models that are trained: a text encoder, and what predicts masked entities from it.

Two architectures, chosen by the base model's config. T5 and CodeT5, as in SANTA: a text's vector is the first
position of the decoder, and the whole T5 predicts. BERT-class encoders: a text's vector is the mean over its tokens, or
its first token's, and a decoder of one layer predicts, which sees nothing but that vector and the masked text's words;
it is not part of what is exported. Queries may have a BERT-class encoder of their own, as in DPR.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

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
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.utils import logging

from index.encoder import Role
from index.errors import Damaged, InvalidInput, NotFound
from index.exported import MODEL
from training.config import in_range
from training.export import QUERY, base_checkpoint, first_position, positions
from training.losses import IGNORED
from training.restore import restored

BASE = "sentence-transformers/all-MiniLM-L6-v2"
DECODER = "decoder.safetensors"
SHARDS = "model.safetensors.index.json"
MAX_TOKENS = 8192
EXPORT_TOKENS = 256  # where an export of the checkpoint is not told otherwise
DROPOUTS = (  # what BERT, DistilBERT, ModernBERT and their like call it
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
)
Similarity = Literal["cosine", "dot"]
Pooling = Literal["mean", "first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A T5 with random weights instead of a base model's; its words are the base model's tokenizer's."""

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
    """Which model, and how texts are put before it. `max_*_tokens` count special tokens.

    `base` is a checkpoint's directory, that of an exported encoder or reader, or a name on the hub. `dropout` None
    keeps the base model's (0 of one from scratch); 0 lets attention run fused, which nearly doubles the speed on a CPU.
    `similarity` "cosine" makes vectors of length 1, "dot" leaves them, as the paper does. `pooling` is that of
    BERT-class encoders. With `query_base` queries have an encoder of their own, and `base` is the passages'.
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

    def __post_init__(self) -> None:
        for name in ("max_query_tokens", "max_passage_tokens", "max_target_tokens"):
            in_range(name, getattr(self, name), 4, MAX_TOKENS)
        in_range("decoder_layers", self.decoder_layers, 1, 12)
        in_range("dropout", self.dropout or 0.0, 0.0, 0.9)


class TextModel(nn.Module):
    """Token ids -> vectors, and vectors and masked texts -> the loss of predicting what was masked."""

    tokenizer: PreTrainedTokenizerFast
    reads_vectors: bool = True
    """Whether `predict` looks at the vectors; where it does not, they may be None."""

    def __init__(self, settings: ModelSettings, tokenizer: Any) -> None:
        super().__init__()
        self.settings, self.tokenizer = settings, tokenizer

    def vectors(self, ids: Tensor, mask: Tensor, role: Role = "passage") -> Tensor:
        """`ids`, `mask` (B, T) -> (B, D) float32, of length 1 if similarity is "cosine"."""
        found = self._vectors(ids, mask, role).float()
        return F.normalize(found, dim=-1) if self.settings.similarity == "cosine" else found

    def grouped_vectors(
        self, ids: Tensor, mask: Tensor, size: int, role: Role = "passage"
    ) -> Tensor:
        """`vectors`; on a CPU `size` texts of similar length go together, so that little of the work is padding."""
        if ids.is_cuda or len(ids) <= size:
            return self.vectors(ids, mask, role)
        return in_groups(lambda part, seen: (self.vectors(part, seen, role),), ids, mask, size)[0]

    def predict(
        self, vectors: Tensor | None, ids: Tensor, mask: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """States (N, D) for the N of `targets` (B, K) that are not IGNORED, in order, and words (V, D): their products
        are the logits. Each state sees the targets before it.

        `vectors` (B, D) are those of the unmasked texts, `ids` and `mask` (B, T) the masked ones.
        """
        raise NotImplementedError

    def fresh(self) -> list[nn.Parameter]:
        """The parameters that are not the base model's."""
        return []

    def save(self, directory: Path) -> None:
        """Write weights, tokenizer and configuration in a layout that other tools load; never pickled."""
        raise NotImplementedError

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        raise NotImplementedError


class BertLike(TextModel):
    """A BERT-class encoder; the decoder's words are the encoder's."""

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
        """By the light decoder, from the vector and the masked text's words."""
        assert vectors is not None
        length = (
            self.transformer.config.hidden_size**0.5
        )  # of a layer-normalized state, such as a word's
        memory = torch.cat(
            [F.normalize(vectors, dim=-1)[:, None] * length, self._words(ids)], dim=1
        )
        hidden_memory = F.pad(mask == 0, (1, 0))  # the vector is always seen
        previous = F.pad(
            targets[:, :-1].clamp(min=0), (1, 0), value=self.tokenizer.cls_token_id or 0
        )
        k = previous.shape[1]
        causal = torch.ones(k, k, dtype=torch.bool, device=ids.device).triu(1)
        states = self.decoder(
            self._words(previous), memory, tgt_mask=causal, memory_key_padding_mask=hidden_memory
        )
        scale = states.shape[-1] ** -0.5  # as T5 does where input and output share their words
        return states[targets != IGNORED] * scale, self.transformer.get_input_embeddings().weight

    def fresh(self) -> list[nn.Parameter]:
        """Those of the light decoder."""
        return list(self.decoder.parameters())

    def _words(self, ids: Tensor) -> Tensor:
        states: Tensor = self.transformer.embeddings(input_ids=ids)
        return states

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        states: Tensor = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
        if self.settings.pooling == "first":
            return states[:, 0]
        weight = mask.unsqueeze(-1).to(states.dtype)
        return (states * weight).sum(1) / weight.sum(1).clamp(min=1)

    def save(self, directory: Path) -> None:
        """Write what `load` and other tools read."""
        self.transformer.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)
        save_file(
            {name: weight.contiguous() for name, weight in self.decoder.state_dict().items()},
            directory / DECODER,
        )
        _write_modules(directory, self.transformer, self.settings)


class FirstDecoderPosition(TextModel):
    """T5 and CodeT5, as SANTA takes them (eq. 1)."""

    reads_vectors = False

    def __init__(self, settings: ModelSettings, tokenizer: Any, t5: Any) -> None:
        super().__init__(settings, tokenizer)
        self.t5 = t5

    def predict(
        self, vectors: Tensor | None, ids: Tensor, mask: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """By the whole T5, from the masked text; `vectors` are not looked at."""
        seen = self.t5.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        previous = self.t5.prepare_decoder_input_ids_from_labels(targets)
        states = self.t5.decoder(
            input_ids=previous,
            encoder_hidden_states=seen,
            encoder_attention_mask=mask,
            use_cache=False,
        ).last_hidden_state[targets != IGNORED]
        scale = self.t5.model_dim**-0.5 if self.t5.config.scale_decoder_outputs else 1.0
        return states * scale, self.t5.lm_head.weight

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        return first_position(self.t5, ids, mask)

    def save(self, directory: Path) -> None:
        """Write what `load` and other tools read."""
        self.t5.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)


class TwoEncoders(TextModel):
    """DPR's: queries and passages have an encoder each, of one tokenizer. Entities are predicted from passages."""

    def __init__(self, queries: BertLike, passages: BertLike) -> None:
        super().__init__(passages.settings, passages.tokenizer)
        self.queries, self.passages = queries, passages

    def predict(
        self, vectors: Tensor | None, ids: Tensor, mask: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """By the passages' light decoder."""
        return self.passages.predict(vectors, ids, mask, targets)

    def fresh(self) -> list[nn.Parameter]:
        """Those of the light decoders."""
        return [*self.passages.fresh(), *self.queries.fresh()]

    def _vectors(self, ids: Tensor, mask: Tensor, role: Role) -> Tensor:
        return (self.queries if role == "query" else self.passages)._vectors(ids, mask, role)

    def save(self, directory: Path) -> None:
        """Write the passages' encoder as one alone would be, and the queries' within it."""
        self.passages.save(directory)
        (directory / QUERY).mkdir(exist_ok=True)
        self.queries.save(directory / QUERY)


def load(
    settings: ModelSettings, directory: Path | None = None, *, decoder: bool = True
) -> TextModel:
    """The base model, or the one that `save` left in `directory`; `decoder` says that its light decoder is there, too.

    Raises NotFound or InvalidInput for a directory without config, tokenizer or safetensors weights, for a class of
    models that is neither T5 nor BERT-like, and for two encoders that do not fit together; Damaged without a decoder.
    """
    passages = _load(settings, directory, decoder=decoder)
    if settings.query_base is None:
        return passages
    queries = _load(
        replace(settings, base=settings.query_base),
        directory and directory / QUERY,
        decoder=decoder,
    )
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
            "base and query_base have different tokenizers; they need one.", field="query_base"
        )
    return TwoEncoders(queries, passages)


def _load(settings: ModelSettings, directory: Path | None, *, decoder: bool) -> TextModel:
    place = str(directory or place_of(settings.base))
    scratch = settings.scratch if directory is None else None
    if Path(place).is_dir():
        _refuse_incomplete(Path(place), weights=scratch is None)
    config, tokenizer = _config_and_tokenizer(settings.base, place)
    if scratch or config.model_type == "t5":
        t5 = (
            _scratch(scratch, settings, tokenizer)
            if scratch
            else _pretrained_t5(settings, place, config)
        )
        return _prepared(FirstDecoderPosition(settings, tokenizer, t5), t5)
    transformer = _pretrained_bert(settings, place, config)
    model = BertLike(settings, tokenizer, transformer)
    if (directory and decoder) or (Path(place) / DECODER).is_file():
        _read_decoder(model.decoder, Path(place) / DECODER)
    return _prepared(model, transformer)


def pad(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Rows of ids -> (n, longest), filled up with `value`; one wide where all rows are empty."""
    longest = max([1, *map(len, rows)])
    padded = [[*row, *[value] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), longest)


def pad_texts(rows: Sequence[Sequence[int]], filler: int) -> tuple[Tensor, Tensor]:
    """Ids and mask, both (n, longest)."""
    return pad(rows, filler), pad([[1] * len(row) for row in rows], 0)


def in_groups(
    run: Callable[[Tensor, Tensor], tuple[Tensor, ...]], ids: Tensor, mask: Tensor, size: int
) -> tuple[Tensor, ...]:
    """What `run` makes of `ids` and `mask` (n, T), each (n, ...), computed in groups of `size` texts.

    Texts of similar length go together and are cut to the longest of them, so that little of the work is padding.
    """
    lengths = mask.sum(1)
    order = lengths.argsort()
    groups = [(rows, int(lengths[rows].max())) for rows in torch.split(order, size)]
    found = [run(ids[rows, :longest], mask[rows, :longest]) for rows, longest in groups]
    return tuple(torch.cat(parts)[order.argsort()] for parts in zip(*found, strict=True))


def pad_targets(rows: Sequence[Sequence[int]]) -> Tensor:
    """(n, longest), IGNORED where a row has ended."""
    return pad(rows, IGNORED)


def place_of(base: str) -> str | Path:
    """The directory of a base model that is at hand, or its name on the hub.

    The base encoder's is in a package; an exported encoder's or reader's weights are taken from its graph.
    """
    if (Path(base) / MODEL).is_file() and not (Path(base) / "config.json").is_file():
        return restored(Path(base))
    if base != BASE:
        return base
    try:
        return base_checkpoint()
    except NotFound:
        return base


def _refuse_incomplete(directory: Path, *, weights: bool) -> None:
    if not (directory / "config.json").is_file():
        raise NotFound(
            f"{directory} has no config.json: that is no model's directory.", field="base"
        )
    if not any(
        (directory / name).is_file()
        for name in ("tokenizer.json", "vocab.txt", "spiece.model", "vocab.json")
    ):
        raise InvalidInput(
            f"{directory} has no tokenizer (tokenizer.json). Save it there as well.", field="base"
        )
    if weights and (not any(directory.glob("*.safetensors")) or _names_pickles(directory / SHARDS)):
        raise InvalidInput(
            f"{directory} has no *.safetensors weights, or not all are. Pickled weights (.bin, .pt) are refused, as "
            "loading them can run any code; save the model again with save_pretrained(..., safe_serialization=True).",
            field="base",
        )


def _names_pickles(shards: Path) -> bool:
    """Whether a list of the files that weights are spread over has others than safetensors, which would be loaded."""
    if not shards.is_file():
        return False
    try:
        names = json.loads(shards.read_bytes())["weight_map"].values()
        return not all(name.endswith(".safetensors") for name in names)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return True


def _config_and_tokenizer(base: str, place: str) -> tuple[Any, Any]:
    try:
        config = AutoConfig.from_pretrained(place, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=False)
    except Exception as error:  # tokenizers raises bare Exceptions  # noqa: BLE001
        remedy = "Give a model's directory, or its name on the hub where that can be reached."
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


def _pretrained_t5(settings: ModelSettings, place: str, config: Any) -> Any:
    _set_dropout(config, settings.dropout, ["dropout_rate"])
    if config.decoder_start_token_id is None:
        config.decoder_start_token_id = config.pad_token_id
    return _pretrained(T5ForConditionalGeneration, place, config)


def _pretrained_bert(settings: ModelSettings, place: str, config: Any) -> Any:
    """Raises InvalidInput unless words and states have one length, and there are positions for the longest texts."""
    _set_dropout(config, settings.dropout, DROPOUTS)
    unfit = InvalidInput(
        f"{settings.base} is a {config.model_type}: give a T5 or a BERT-like encoder.", field="base"
    )
    if getattr(config, "is_encoder_decoder", False):
        raise unfit
    transformer = (
        _pretrained_dpr(place, config)
        if config.model_type == "dpr"
        else _pretrained(AutoModel, place, config)
    )
    if not hasattr(transformer, "embeddings"):
        raise unfit
    if transformer.get_input_embeddings().embedding_dim != config.hidden_size:
        raise InvalidInput(
            f"{settings.base} has words shorter than its states, which cannot be shared.",
            field="base",
        )
    for name in ("max_query_tokens", "max_passage_tokens", "max_target_tokens"):
        in_range(name, getattr(settings, name), 4, positions(transformer) or MAX_TOKENS)
    return transformer


def _pretrained_dpr(place: str, config: Any) -> Any:
    """The BERT in one of DPR's encoders, whose vector is the state of the first token."""
    if config.projection_dim:
        raise InvalidInput(f"{place} projects its vectors, which is not supported.", field="base")
    of_passages = "DPRContextEncoder" in (config.architectures or [])
    whole = _pretrained(DPRContextEncoder if of_passages else DPRQuestionEncoder, place, config)
    found = (whole.ctx_encoder if of_passages else whole.question_encoder).bert_model
    shared = {
        name: value for name, value in config.to_dict().items() if name in BertConfig().to_dict()
    }
    bert = BertModel(
        BertConfig(**shared | {"model_type": "bert", "architectures": None}),
        add_pooling_layer=False,
    )
    bert.load_state_dict(found.state_dict())
    return bert


def _pretrained(kind: Any, place: str, config: Any) -> Any:
    options = {"use_safetensors": True, "trust_remote_code": False, "output_loading_info": True}
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # as what is missing is told below, in a line
    try:
        model, found = kind.from_pretrained(place, config=config, dtype=torch.float32, **options)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise NotFound(
            f"The weights of {place} cannot be loaded: {_first_line(error)}", field="base"
        ) from None
    finally:
        logging.set_verbosity(verbosity)
    missing = sorted(name for name in found["missing_keys"] if "pooler." not in name)
    if missing:
        raise InvalidInput(
            f"{place} lacks {len(missing)} weights, the first is {missing[0]}.", field="base"
        )
    return model


def _read_decoder(decoder: nn.Module, path: Path) -> None:
    if not path.is_file():
        raise Damaged(
            f"{path} is missing. Remove {path.parent} to go on from the checkpoint before it."
        )
    try:
        decoder.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise InvalidInput(
            f"{path} is not this model's decoder: {_first_line(error)} Is decoder_layers what it was?",
            field="base",
        ) from None


def _prepared(model: TextModel, inner: Any) -> TextModel:
    if model.settings.gradient_checkpointing:  # which transformers 5 has given a new name
        getattr(inner, "activation_checkpointing_enable", inner.gradient_checkpointing_enable)()
    return model


def _set_dropout(config: Any, dropout: float | None, names: Sequence[str]) -> None:
    for name in names:
        if dropout is not None and hasattr(config, name):
            setattr(config, name, dropout)


def _scratch(scratch: Scratch, settings: ModelSettings, tokenizer: Any) -> Any:
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
    """What sentence-transformers reads: the order of modules, and how each is set."""
    names = {"": "Transformer", "1_Pooling": "Pooling"}
    if settings.similarity == "cosine":
        names["2_Normalize"] = "Normalize"
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for number, (path, name) in enumerate(names.items())
    ]
    for path in names:
        (directory / path).mkdir(exist_ok=True)
    _write_json(directory / "modules.json", modules)
    longest = min(EXPORT_TOKENS, positions(transformer) or MAX_TOKENS)
    pooling = {
        "word_embedding_dimension": transformer.config.hidden_size,
        "pooling_mode_cls_token": settings.pooling == "first",
        "pooling_mode_mean_tokens": settings.pooling == "mean",
    }
    _write_json(
        directory / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False}
    )
    _write_json(directory / "1_Pooling" / "config.json", pooling)


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]
