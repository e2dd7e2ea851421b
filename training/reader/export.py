"""Export a reader: its ONNX graph, compared with the checkpoint, its settings and its model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
from scipy.special import softmax  # type: ignore[import-untyped]

from purlin.index.qa import reader as serving
from purlin.index.qa.reader_settings import READER_SETTINGS, ReaderSettings
from purlin.training.cross_encoder import PRECISIONS, Outputs, exported_graph
from purlin.training.exporting.checks import Quantization, refuse_difference
from purlin.training.exporting.directory import write_settings
from purlin.training.exporting.layer_inputs import TokenIds
from purlin.training.exporting.model_card import CARD, Card, recipe_card
from purlin.training.exporting.saturation import FloatArray
from purlin.training.reader.model import load_reader_model
from purlin.training.reader.recipe import ReaderRecipe

MAX_LOGIT_DIFFERENCE = 1e-3  # of any logit, between the fp32 graph and torch
MIN_OVERLAP = 0.95  # mean, of the distributions over tokens by the int8 graph and by torch


def export_reader(
    recipe: ReaderRecipe,
    checkpoint: Path,
    out: Path,
    samples: Sequence[TokenIds],
    measures: Mapping[str, float] = MappingProxyType({}),
) -> serving.Reader:
    """Write the reader directory `out` from a checkpoint, replacing it.

    `samples` are sequences of question and passage. On them, the scales of int8 are measured, and the
    graph's logits are compared with the checkpoint's. If these differ too much, raises ExportRefused
    and leaves `out` as it was.
    """
    trained = load_reader_model(recipe.model, checkpoint).eval()
    base_model = recipe.export.base_model or recipe.model.base
    card = recipe_card(recipe.name, recipe.export, base_model, measures)
    outputs, quantization = ("start", "end", "selected"), recipe.export.quantization
    with exported_graph(trained, out, outputs, samples, quantization, _compare) as (new, digests):
        settings = ReaderSettings(
            name=recipe.name,
            max_tokens=recipe.reading.max_tokens,
            prior_weight=recipe.export.prior_weight,
            calibration=recipe.export.calibration,
            files=digests,
        )
        write_settings(new / READER_SETTINGS, settings, card.details())
        (new / CARD).write_text(_card_text(recipe, card))
    return serving.Reader.load(out)


def _compare(expected: Outputs, computed: Outputs, quantization: Quantization) -> None:
    """Raise ExportRefused if the graph's logits are not those of the checkpoint."""
    pairs = [
        pair
        for sample_pair in zip(expected, computed, strict=True)
        for pair in zip(*sample_pair, strict=True)
    ]
    difference = max(float(np.abs(reference - logits).max()) for reference, logits in pairs)
    overlaps = [_overlap(reference, logits) for reference, logits in pairs if reference.ndim]

    refuse_difference(
        "logits",
        quantization,
        difference=difference,
        max_difference=MAX_LOGIT_DIFFERENCE,
        similarity=float(np.mean(overlaps)),
        min_similarity=MIN_OVERLAP,
        similarity_name="mean overlap of distributions",
    )


def _overlap(reference: FloatArray, logits: FloatArray) -> float:
    """Return the overlap of two softmax distributions, which is 1 if they are equal."""
    return float(np.minimum(softmax(reference), softmax(logits)).sum())


def _card_text(recipe: ReaderRecipe, card: Card) -> str:
    return card.text(
        "A reader for Purlin: `model.onnx` maps ids of `[CLS] question [SEP] passage [SEP]`, int64 (n, t) without "
        "padding, to start and end logits (n, t) and a passage's selection logit (n,), where 0 is the logit of "
        '"no passage answers".',
        {
            "Longest sequence": f"{recipe.reading.max_tokens} tokens, of which the question takes at most a third",
            "Weights": PRECISIONS[recipe.export.quantization],
        },
    )
