"""Export a static encoder: its files, compared with the model, and its model card."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from purlin.index.encoder import SETTINGS
from purlin.index.encoder.exported import settings_of
from purlin.index.encoder.static import (
    ENGLISH_FILES,
    LANGUAGE_FILES,
    LANGUAGE_TRANSLATIONS,
    LANGUAGE_VOCABULARY,
    LANGUAGE_WEIGHTS,
    ROLES,
    TRANSLATIONS,
    VECTORS,
    VOCABULARY,
    WEIGHTS,
    StaticEncoder,
    StaticSettings,
)
from purlin.index.encoder.vocabulary import MultilingualVocabulary, Vocabulary
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


def with_languages(
    base: Path,
    languages: Vocabulary,
    translations: NDArray[np.uint16],
    columns: NDArray[np.float16],
) -> StaticEncoder:
    """Return the static encoder `base` with words of other languages; it has no fingerprint of its own.

    `translations` (words, TRANSLATIONS) has rows of English words; `columns` (words, 1 + TRANSLATIONS)
    by how much each word speaks against English, and the shares of its translations.
    """
    english = Vocabulary((base / VOCABULARY).read_text(encoding="utf-8").split("\n"))
    evidence, shares = np.split(columns.astype(np.float32), [1], axis=1)
    vocabulary = MultilingualVocabulary(english, languages, evidence[:, 0], translations, shares)
    settings = settings_of(StaticSettings, json.loads((base / SETTINGS).read_bytes()))
    return StaticEncoder(settings, vocabulary, np.load(base / VECTORS), np.load(base / WEIGHTS))


def export_languages(
    base: Path,
    out: Path,
    languages: Vocabulary,
    translations: NDArray[np.uint16],
    columns: NDArray[np.float16],
    card: Card,
) -> StaticEncoder:
    """Write the encoder directory `out`, replacing it: the English words of `base`, and `languages`."""
    settings = settings_of(StaticSettings, json.loads((base / SETTINGS).read_bytes()))
    with replacing_directory(out) as new:
        for name in ENGLISH_FILES:
            shutil.copyfile(base / name, new / name)
        np.save(new / LANGUAGE_TRANSLATIONS, translations)
        np.save(new / LANGUAGE_WEIGHTS, columns)
        (new / LANGUAGE_VOCABULARY).write_text("\n".join(languages.words), encoding="utf-8")

        digests = file_digests(new, (*ENGLISH_FILES, *LANGUAGE_FILES))
        settings = replace(settings, name=card.name, files=digests)
        write_settings(new / SETTINGS, settings, card.details())
        (new / CARD).write_text(_languages_card_text(card, len(languages), settings.max_tokens))
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


def _languages_card_text(card: Card, words: int, max_tokens: int) -> str:
    return card.text(
        "A static text encoder for Purlin, with words of other languages than English: "
        f"`languages-translations.npy` has the rows of the {TRANSLATIONS} English words at most that translate each "
        f"of {words:,} words and pieces, `languages-weights.npy` by how much it speaks against English and the shares "
        "of these. The other files are those of an encoder of English texts, whose vectors are the same "
        f"here. {FINGERPRINT}",
        {"Longest text": f"{max_tokens:,} words and pieces; the rest is cut off"},
    )
