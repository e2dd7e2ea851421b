"""The models that are trained: a text encoder, and a predictor of masked entities.

The config of the base model decides between two architectures. T5 and CodeT5 work as in SANTA: a
text's vector is the first position of the decoder, and the whole T5 predicts. With BERT-class
encoders a text's vector is the mean over its tokens, or its first token's, with or without the base
model's pooler (as SimCSE's); a decoder of one layer predicts, which sees only that vector and the
word embeddings of the masked text, and which is not exported. Queries may have a BERT-class encoder
of their own, as in DPR.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast

from purlin.index.errors import Damaged, InvalidInput
from purlin.index.records import Role
from purlin.training.losses import IGNORED
from purlin.training.models.architectures import first_position
from purlin.training.models.checkpoint_layout import write_modules
from purlin.training.models.layers import freeze_layers, keep_layers
from purlin.training.models.padding import in_groups
from purlin.training.models.pretrained import (
    base_path,
    load_bert,
    load_config_and_tokenizer,
    load_t5,
    random_t5,
    refuse_incomplete,
)
from purlin.training.models.saved_model import SavedModel
from purlin.training.models.sentence_models import QUERY
from purlin.training.models.settings import ModelSettings
from purlin.training.reasons import first_line

DECODER = "decoder.safetensors"


class TextModel(SavedModel):
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

    def load(self, directory: Path) -> None:
        """Load the weights that `save` wrote. Raises what `load_text_model` does."""
        self.load_state_dict(load_text_model(self.settings, directory).state_dict())

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
        self.decoder = nn.TransformerDecoder(layer, 1)

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
        write_modules(directory, self.transformer, self.settings)


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
    passages = _load_encoder(settings, directory, decoder=decoder)
    if settings.query_base is None:
        return passages

    query_settings = replace(settings, base=settings.query_base)
    query_directory = directory and directory / QUERY
    queries = _load_encoder(query_settings, query_directory, decoder=decoder)
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


def _load_encoder(settings: ModelSettings, directory: Path | None, *, decoder: bool) -> TextModel:
    """Load the base model of `settings`, or what was saved to `directory`, as a single encoder."""
    source = str(directory or base_path(settings.base))
    scratch = settings.scratch if directory is None else None
    if Path(source).is_dir():
        refuse_incomplete(Path(source), weights=scratch is None)
    config, tokenizer = load_config_and_tokenizer(settings.base, source)

    if scratch:
        t5 = random_t5(scratch, settings, tokenizer)
        return _prepare(FirstDecoderPosition(settings, tokenizer, t5), t5, directory)
    if config.model_type == "t5":
        t5 = load_t5(settings, source, config)
        return _prepare(FirstDecoderPosition(settings, tokenizer, t5), t5, directory)

    transformer, answer_head = load_bert(settings, source, config)
    model = BertLike(settings, tokenizer, transformer)
    model.answer_head = answer_head
    if (directory and decoder) or (Path(source) / DECODER).is_file():
        _read_decoder(model.decoder, Path(source) / DECODER)
    return _prepare(model, transformer, directory)


def _read_decoder(decoder: nn.Module, path: Path) -> None:
    if not path.is_file():
        raise Damaged(
            f"{path} is missing. Remove {path.parent} to resume from the checkpoint before it."
        )

    try:
        decoder.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise InvalidInput(
            f"{path} is not this model's decoder: {first_line(error)}",
            field="base",
        ) from None


def _prepare(model: TextModel, inner: Any, directory: Path | None) -> TextModel:
    """Drop, freeze and checkpoint layers of `inner`, the model's transformer, as its settings say."""
    # What was written to a directory has only the layers that were kept.
    if model.settings.layers and directory is None:
        keep_layers(inner, model.settings.layers)
    if model.settings.frozen_layers:
        freeze_layers(inner, model.settings.frozen_layers)
    if model.settings.gradient_checkpointing:
        # transformers 5 has renamed the method.
        getattr(inner, "activation_checkpointing_enable", inner.gradient_checkpointing_enable)()

    return model
