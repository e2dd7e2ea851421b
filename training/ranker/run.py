"""Train a reranker by a recipe, and export it: a cross-encoder of query and passage.

Each query comes with its passage and hard negatives that an exported encoder ranks nearest. The
loss is listwise cross-entropy.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from purlin.index.encoder import load_encoder
from purlin.training.data.pairs.loading import load_pairs
from purlin.training.loop.checkpoints import dev_measures
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.run import Progress, Say, train
from purlin.training.models.architectures import refuse_longer
from purlin.training.ranker.export import export_ranker
from purlin.training.ranker.lists import make_lists
from purlin.training.ranker.model import load_ranker_model
from purlin.training.ranker.recipe import STAGE, RankerRecipe
from purlin.training.ranker.task import RankerTask

SAMPLE_BATCHES = 4  # batches whose sequences calibrate and check the exported graph


def train_ranker(
    recipe: RankerRecipe,
    out: Path,
    *,
    progress: Progress,
    say: Say,
    cpu: bool = False,
) -> Path:
    """Train and export; return the reranker directory `out`/NAME. A run that was killed is resumed."""
    accelerator = make_accelerator(recipe.loop, cpu=cpu, out=out, say=say)
    loaded, report = load_pairs(recipe.pairs, recipe.exclude)
    if accelerator.is_main_process:
        say(str(report))

    # The first process computes the files; the others then read them.
    with accelerator.main_process_first():
        encoder = load_encoder(recipe.ranking.encoder)
        sources = [
            make_lists(pairs, recipe, encoder, out / STAGE / str(number), say)
            for number, pairs in enumerate(loaded)
        ]

    # The new head starts with the same weights in every process.
    torch.manual_seed(recipe.seed)
    ranker = load_ranker_model(recipe.model).to(accelerator.device)
    refuse_longer("ranking.max_tokens", recipe.ranking.max_tokens, ranker)
    task = RankerTask(ranker, sources, recipe, accelerator)

    # The export does not change the curve.
    checkpoint = train(
        task,
        recipe.loop,
        out / STAGE,
        accelerator,
        seed=recipe.seed,
        recipe=asdict(recipe) | {"export": None, "texts": [each.digest() for each in sources]},
        progress=progress(STAGE) if accelerator.is_main_process else None,
        say=say,
    )

    if accelerator.is_main_process:
        samples = [ids for number in range(SAMPLE_BATCHES) for ids in task.batch(number).sequences]
        export_ranker(recipe, checkpoint, out / recipe.name, samples, dev_measures(checkpoint))
    accelerator.wait_for_everyone()
    return out / recipe.name
