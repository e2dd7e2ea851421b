"""Train a static encoder: word vectors distilled from a transformer, then aligned on pairs.

Every word of the vocabulary is encoded by the transformer alone, as in Model2Vec; the vectors are
reduced to their principal components and weighted by how rare a word is (SIF, Arora et al. 2017).
That is the start of contrastive training, which changes vectors and weights alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index.encoder import TextEncoder, load_encoder
from purlin.index.errors import InvalidInput
from purlin.training.data.pairs.loading import load_pairs
from purlin.training.data.pairs.pair import Pair
from purlin.training.exporting.model_card import recipe_card
from purlin.training.loop.checkpoints import dev_measures
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.recorded_recipe import digest
from purlin.training.loop.run import Progress, Say, train
from purlin.training.static.export import export_static
from purlin.training.static.model import WordVectors
from purlin.training.static.recipe import CHECKPOINTS, StaticExport, StaticRecipe
from purlin.training.static.task import StaticTask
from purlin.training.static.vocabulary import choose_words, distilled


def train_static(
    recipe: StaticRecipe,
    out: Path,
    *,
    progress: Progress,
    say: Say,
    cpu: bool = False,
) -> Path:
    """Train word vectors and export them; return the encoder directory `out`/NAME.

    A run that was killed is resumed. Raises InvalidInput in a run of several processes.
    """
    # Sums of word vectors gain nothing from bf16.
    settings = replace(recipe.loop, precision="fp32")
    accelerator = make_accelerator(settings, cpu=cpu, out=out, say=say)
    if accelerator.num_processes > 1:
        raise InvalidInput("A static encoder is trained by a single process; start only one.")

    sources, report = load_pairs(recipe.pairs, recipe.exclude)
    say(str(report))
    teacher = load_encoder(recipe.teacher)
    vocabulary, shares = choose_words(sources, recipe)
    say(f"{len(vocabulary):,} words; each is encoded by {teacher.name}")
    vectors = distilled(vocabulary, teacher, recipe.dim)
    model = WordVectors(vectors, np.log(recipe.rarity / (recipe.rarity + shares)))

    task = StaticTask(model, vocabulary, sources, recipe, accelerator)
    checkpoint = train(
        task,
        settings,
        out / CHECKPOINTS,
        accelerator,
        seed=recipe.seed,
        recipe=_recorded(recipe, sources, teacher),
        progress=progress(CHECKPOINTS),
        say=say,
    )
    task.restore(checkpoint)
    export, measures = recipe.export, dev_measures(checkpoint)
    card = recipe_card(recipe.name, export, export.base_model, measures, report.counts())
    export_static(model, vocabulary, out / recipe.name, card, export.max_tokens)
    return out / recipe.name


def _recorded(
    recipe: StaticRecipe, sources: Sequence[Sequence[Pair]], teacher: TextEncoder
) -> dict[str, Any]:
    """Return what decides the curve; the export does not."""
    content = asdict(replace(recipe, export=StaticExport()))
    return content | {"texts": list(map(digest, sources)), "teacher": teacher.fingerprint}
