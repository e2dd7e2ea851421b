"""Base models as they are loaded: from a directory, from the hub, or from an exported encoder."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from huggingface_hub import constants
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    DPRContextEncoder,
    DPRQuestionEncoder,
    DPRReader,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.utils import logging

from purlin.index.encoder import ENCODERS, encoder_directory, encoder_name
from purlin.index.encoder.exported import MODEL
from purlin.index.errors import InvalidInput, NotFound
from purlin.training.config import in_range
from purlin.training.models.architectures import positions
from purlin.training.models.restore import restored
from purlin.training.models.sentence_models import base_checkpoint, conversion_hint
from purlin.training.models.settings import BASE, MAX_TOKENS, ModelSettings, Scratch
from purlin.training.reasons import first_line

SHARDS = "model.safetensors.index.json"

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


def refuse_incomplete(directory: Path, *, weights: bool) -> None:
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


def _hub_has_address() -> bool:
    """Tell whether the hub's name can be resolved; behind a proxy, that is the proxy's task."""
    hub = urlsplit(constants.ENDPOINT)
    if hub.scheme in getproxies() or "all" in getproxies():
        return True

    try:
        # Without the name of a service: slim images have no /etc/services to find it in.
        return bool(socket.getaddrinfo(hub.hostname, hub.port))
    except OSError:
        return False


def load_config_and_tokenizer(base: str, source: str) -> tuple[Any, Any]:
    """Load the config and the fast tokenizer of `source`, which messages call `base`.

    Raises NotFound if they cannot be loaded, and InvalidInput for a tokenizer that is slow or has
    no padding token.
    """
    # Without a network, the hub's client would try each file six times, for over a minute.
    local = Path(source).is_dir() or not _hub_has_address()
    options = {"trust_remote_code": False, "local_files_only": local}
    try:
        config = AutoConfig.from_pretrained(source, **options)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    # tokenizers raises bare Exceptions.
    except Exception as error:  # noqa: BLE001
        released = ", ".join(word for word, path in ENCODERS.items() if (path / MODEL).is_file())
        remedy = (
            f"Give a model's directory, one of {released} for a released encoder, or its name on the "
            "hub if that can be reached."
        )
        raise NotFound(
            f"The base model {base} cannot be loaded: {first_line(error)} {remedy}", field="base"
        ) from None

    if not tokenizer.is_fast:
        raise InvalidInput(f"{base} has no fast tokenizer (tokenizer.json).", field="base")
    if tokenizer.pad_token_id is None:
        raise InvalidInput(
            f"The tokenizer of {base} has no padding token; give it one.", field="base"
        )
    return config, tokenizer


def load_t5(settings: ModelSettings, source: str, config: Any) -> Any:
    """Load a T5. Raises NotFound or InvalidInput if its weights cannot be read or some lack."""
    _set_dropout(config, settings.dropout, ["dropout_rate"])
    # T5 starts its decoder with padding where the config does not say otherwise.
    if config.decoder_start_token_id is None:
        config.decoder_start_token_id = config.pad_token_id
    return _pretrained(T5ForConditionalGeneration, source, config)


def load_bert(
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
            f"The weights of {source} cannot be loaded: {first_line(error)}", field="base"
        ) from None
    finally:
        logging.set_verbosity(verbosity)

    missing = sorted(name for name in loading["missing_keys"] if pooler or "pooler." not in name)
    if missing:
        raise InvalidInput(
            f"{source} lacks {len(missing)} weights, the first is {missing[0]}.", field="base"
        )
    return model


def _set_dropout(config: Any, dropout: float | None, names: Sequence[str]) -> None:
    for name in names:
        if dropout is not None and hasattr(config, name):
            setattr(config, name, dropout)


def random_t5(scratch: Scratch, settings: ModelSettings, tokenizer: Any) -> Any:
    """Return a T5 with random weights, of the sizes in `scratch`."""
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
