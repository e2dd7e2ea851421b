"""Export a reranker: its ONNX graph, compared with the checkpoint, its settings and its model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from purlin.index import reranker as serving
from purlin.training.cross_encoder import PRECISIONS, Outputs, exported_graph
from purlin.training.exporting.checks import Quantization, refuse_difference
from purlin.training.exporting.directory import write_settings
from purlin.training.exporting.layer_inputs import TokenIds
from purlin.training.exporting.model_card import CARD, Card, markdown_list, recipe_card
from purlin.training.ranker.model import load_ranker_model
from purlin.training.ranker.recipe import RankerRecipe

MAX_LOGIT_DIFFERENCE = 1e-3  # fp32 graph against torch: of any logit

# int8 graph against torch: correlation of the logits of the samples.
MIN_CORRELATION = 0.99


def export_ranker(
    recipe: RankerRecipe,
    checkpoint: Path,
    out: Path,
    samples: Sequence[TokenIds],
    measures: Mapping[str, float] = MappingProxyType({}),
) -> serving.Reranker:
    """Write the reranker directory `out` from a checkpoint, replacing it.

    `samples` are sequences of query and passage. The scales of int8 are measured on them, and the
    graph's logits are compared with the checkpoint's; ExportRefused is raised if they differ, and
    `out` then stays as it was.
    """
    trained = load_ranker_model(recipe.model, directory=checkpoint).eval()
    base_model = recipe.export.base_model or recipe.model.base
    card = recipe_card(recipe.name, recipe.export, base_model, measures)
    quantization = recipe.export.quantization
    with exported_graph(trained, out, ("logits",), samples, quantization, _compare) as (
        new,
        digests,
    ):
        settings = serving.RerankerSettings(
            name=recipe.name,
            max_tokens=recipe.ranking.max_tokens,
            weights=recipe.export.shares(),
            default=recipe.export.default,
            files=digests,
        )
        write_settings(new / serving.RERANKER_SETTINGS, settings, card.details())
        (new / CARD).write_text(_card_text(recipe, card))
    return serving.Reranker.load(out)


def _compare(expected: Outputs, computed: Outputs, quantization: Quantization) -> None:
    """Raise ExportRefused if the graph's logits are not those of the checkpoint."""
    logits, graph_logits = np.array(expected)[:, 0], np.array(computed)[:, 0]
    refuse_difference(
        "logits",
        quantization,
        difference=float(np.abs(logits - graph_logits).max()),
        max_difference=MAX_LOGIT_DIFFERENCE,
        similarity=float(np.corrcoef(logits, graph_logits)[0, 1]),
        min_similarity=MIN_CORRELATION,
        similarity_name="correlation",
    )


def _card_text(recipe: RankerRecipe, card: Card) -> str:
    weights = markdown_list(
        f"{kind}: {share:.2f} of the score" for kind, share in recipe.export.shares().items()
    )
    default = ", ".join(recipe.export.default) or "no kind"

    return card.text(
        "A reranker for Purlin: `model.onnx` maps ids of `[CLS] query [SEP] passage [SEP]`, int64 (n, t) without "
        "padding, to a logit of relevance (n,), where 0 is as likely as not.",
        {
            "Layers": str(recipe.model.layers or "all of the base model's"),
            "Longest sequence": f"{recipe.ranking.max_tokens} tokens, of which the query takes at most a third",
            "Weights": PRECISIONS[recipe.export.quantization],
        },
        {
            "Share in the score": f"{weights}\n\nReranked unless a request says otherwise: {default}."
        },
    )
