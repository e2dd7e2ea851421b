"""Export a static encoder: its files, compared with the model, and its model card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from purlin.index.encoder import SETTINGS
from purlin.index.encoder.static import (
    ROLES,
    VECTORS,
    VOCABULARY,
    WEIGHTS,
    StaticEncoder,
    StaticSettings,
    Vocabulary,
)
from purlin.training.exporting.checks import ExportRefused
from purlin.training.exporting.directory import file_digests, replacing_directory, write_settings
from purlin.training.exporting.model_card import CARD, FINGERPRINT, Card
from purlin.training.exporting.samples import library_texts
from purlin.training.static.model import WordVectors, count_words, make_bags

MIN_COSINE = 0.999  # of the exported vectors to the trained ones


def in_memory(model: WordVectors, vocabulary: Vocabulary, max_tokens: int) -> StaticEncoder:
    """Return the encoder that an export would write; it has no fingerprint of its own."""
    vectors, weights = model.quantized()
    digests = dict.fromkeys((VECTORS, WEIGHTS, VOCABULARY), "")
    settings = StaticSettings("static", "in memory", vectors.shape[1], max_tokens, digests)
    return StaticEncoder(settings, vocabulary, vectors, weights)


def export_static(
    model: WordVectors, vocabulary: Vocabulary, out: Path, card: Card, max_tokens: int
) -> StaticEncoder:
    """Write the encoder directory `out`, replacing it.

    Raises ExportRefused if its vectors are not those of the model; `out` then stays as it was.
    """
    with replacing_directory(out) as new:
        vectors, weights = model.quantized()
        np.save(new / VECTORS, vectors)
        np.save(new / WEIGHTS, weights)
        (new / VOCABULARY).write_text("\n".join(vocabulary.words), encoding="utf-8")

        digests = file_digests(new, (VECTORS, WEIGHTS, VOCABULARY))
        settings = StaticSettings("static", card.name, vectors.shape[1], max_tokens, digests)
        write_settings(new / SETTINGS, settings, card.details())
        _compare(model, StaticEncoder.load(new))
        (new / CARD).write_text(_card_text(card, vectors.shape, max_tokens))
    return StaticEncoder.load(out)


def _compare(model: WordVectors, encoder: StaticEncoder) -> None:
    """Raise ExportRefused unless the encoder's vectors of code and prose are the model's."""
    texts = library_texts()
    for role in ROLES:
        bags = make_bags(count_words(encoder.vocabulary, texts, encoder.max_tokens))
        with torch.no_grad():
            expected = model.cpu()(bags, role).numpy()

        # A text without a known word has zeros in both.
        has_words = expected.any(axis=1)
        cosines = np.sum(expected * encoder.encode(texts, role=role), axis=1)[has_words]

        if cosines.min(initial=1.0) < MIN_COSINE:
            raise ExportRefused(
                f"A {role}'s vector has cosine {cosines.min():.4f} to the trained one; at least "
                f"{MIN_COSINE} is allowed. Nothing was written."
            )


def _card_text(card: Card, shape: tuple[int, ...], max_tokens: int) -> str:
    return card.text(
        f"A static text encoder for Purlin: `vectors.npy` has {shape[0]:,} words with {shape[1]} components each, in "
        "8 bits; `weights.npy` has each word's weight in queries and in passages, times the scale of its row. A text's "
        "vector is the weighted sum over its words, times the root of how often each occurs, scaled to length 1. "
        f"{FINGERPRINT}",
        {"Longest text": f"{max_tokens:,} words and pieces; the rest is cut off"},
    )
