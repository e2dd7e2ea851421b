"""Export a checkpoint as an encoder directory: ONNX graph, tokenizer, settings and model card.

The graph maps token ids to unit vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from purlin.index.encoder import SETTINGS
from purlin.index.encoder.exported import MODEL, TOKENIZER
from purlin.index.encoder.transformer import QUERY_MODEL, Encoder, EncoderSettings
from purlin.index.records import Role
from purlin.training.exporting.checks import Quantization, quantize_graphs, refuse_difference
from purlin.training.exporting.directory import (
    file_digests,
    replacing_directory,
    write_settings,
    write_tokenizer,
)
from purlin.training.exporting.graphs import trace
from purlin.training.exporting.model_card import CARD, FINGERPRINT, Card
from purlin.training.exporting.samples import library_texts, probes
from purlin.training.models.architectures import Similarity, refuse_longer
from purlin.training.models.sentence_models import QUERY, load_checkpoint, prompt_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

GRAPHS: dict[Role, str] = {"passage": MODEL, "query": QUERY_MODEL}
MAX_VECTOR_DIFFERENCE = 1e-4  # fp32 graph against torch: of any component of any probe's vector
MIN_COSINE = 0.99  # int8 graph against torch: of the worst probe


def export_encoder(
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


def write_graph(checkpoint: Path, path: Path, similarity: Similarity = "cosine") -> None:
    """Write the fp32 graph: `input_ids` int64 (n, t) -> `vectors` float32 (n, dim).

    They have unit length unless `similarity` is "dot". Rows of `input_ids` have no padding.
    """
    model = load_checkpoint(checkpoint)
    trace(_EncoderGraph(model, similarity), model[0].auto_model, path, ["vectors"])


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


def _checkpoints_by_role(checkpoint: Path) -> dict[Role, Path]:
    query_checkpoint = checkpoint / QUERY
    if query_checkpoint.is_dir():
        return {"passage": checkpoint, "query": query_checkpoint}
    return {"passage": checkpoint}


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

    details = {"quantization": quantization, **card.details()}
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
        # In 8 bits the empty text, which nobody searches for, differs most: of a larger model by more
        # than texts may.
        similarity = min(
            cosine for cosine, probe in zip(cosines.tolist(), probes(), strict=True) if probe
        )

        refuse_difference(
            "vectors",
            quantization,
            difference=float(difference),
            max_difference=MAX_VECTOR_DIFFERENCE,
            similarity=similarity,
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

    return card.text(
        "A text encoder for Purlin: `model.onnx` maps token ids, int64 (n, t) without padding, to "
        f"{vectors[similarity]}, float32 (n, dim). {FINGERPRINT}",
        {
            "Precision": precisions[quantization],
            "Served": served[similarity],
            "Longest text": f"{max_tokens} tokens; the rest is cut off",
            "Prefixes": f"query `{card.query_prefix!r}`, passage `{card.passage_prefix!r}`",
        },
    )
