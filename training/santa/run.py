"""SANTA: train an encoder by a recipe, and export it.

Stages align pairs of texts and structured data, predict masked entities, and fine-tune on queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from purlin.training.data.masking.entities import describe_entities
from purlin.training.data.pairs.loading import Report, load_pairs
from purlin.training.data.pairs.pair import Pair
from purlin.training.dev import DevEvaluator
from purlin.training.encoded import identity_of, require_encoder
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import recipe_card
from purlin.training.loop.checkpoints import dev_measures, storing
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.recorded_recipe import digest
from purlin.training.loop.run import Progress, Say, train
from purlin.training.models.architectures import refuse_longer
from purlin.training.models.averaging import AVERAGED, averaged
from purlin.training.models.pretrained import base_name
from purlin.training.models.text_model import load_text_model
from purlin.training.santa.recipe import SantaExport, SantaRecipe, Stage
from purlin.training.santa.task import SantaTask

REPORT = "report.txt"  # what was trained on, and what was masked in it


def train_santa(
    recipe: SantaRecipe,
    out: Path,
    *,
    progress: Progress,
    say: Say,
    cpu: bool = False,
) -> Path:
    """Train all stages and export; return the encoder directory `out`/NAME.

    A run that was killed is resumed.
    """
    # Before hours of the stages before a teacher's own.
    for base in _teachers(recipe.stage):
        require_encoder(base)
    accelerator = make_accelerator(recipe.stage[0].loop, cpu=cpu, out=out, say=say)
    sources, report = load_pairs(recipe.pairs, recipe.exclude)
    digests = [digest(source) for source in sources]
    if accelerator.is_main_process:
        _describe_masks(recipe, sources, report)
        say(str(report))

    checkpoint: Path | None = None
    for number, stage in enumerate(recipe.stage):
        task = _stage_task(recipe, stage, sources, checkpoint, accelerator, out)
        if accelerator.is_main_process:
            # Not before a recipe is known to run.
            _write_report(out, report)
        checkpoint = train(
            task,
            stage.loop,
            out / stage.name,
            accelerator,
            seed=recipe.seed,
            recipe=_recipe_until(recipe, number, digests),
            progress=progress(stage.name) if accelerator.is_main_process else None,
            say=say,
        )

    assert checkpoint is not None
    if accelerator.is_main_process:
        _export(recipe, checkpoint, out, report, accelerator)
    accelerator.wait_for_everyone()
    return out / recipe.name


def _stage_task(
    recipe: SantaRecipe,
    stage: Stage,
    sources: Sequence[Sequence[Pair]],
    checkpoint: Path | None,
    accelerator: Accelerator,
    out: Path,
) -> SantaTask:
    """Return a stage's task, whose model is that of `checkpoint`, or the base model without one."""
    # What the base model lacks starts with the same weights in every process.
    torch.manual_seed(recipe.seed)
    text_model = load_text_model(recipe.model, checkpoint).to(accelerator.device)
    refuse_longer("export.max_tokens", recipe.export.max_tokens, text_model)

    weights = recipe.sources_of(stage)
    return SantaTask(
        text_model,
        [sources[source] for source in weights],
        stage,
        accelerator,
        seed=recipe.seed,
        directory=out / stage.name,
        weights=list(weights.values()),
        dev=DevEvaluator(recipe.dev, text_model, accelerator, temperature=stage.temperature),
    )


def _describe_masks(recipe: SantaRecipe, sources: Sequence[Sequence[Pair]], report: Report) -> None:
    """Add to the report what is masked in the sources of stages that predict entities."""
    masked = {
        number
        for stage in recipe.stage
        if stage.mep and stage.mask == "entity"
        for number in recipe.sources_of(stage)
    }

    for number in masked:
        report.sources[number].masks = describe_entities(sources[number])


def _write_report(out: Path, report: Report) -> None:
    with storing(out):
        out.mkdir(parents=True, exist_ok=True)
        (out / REPORT).write_text(f"{report}\n")


def _recipe_until(recipe: SantaRecipe, number: int, digests: Sequence[str]) -> dict[str, Any]:
    """Return what decides the curve of stage `number`: later stages and the export do not."""
    stages = recipe.stage[: number + 1]
    content = asdict(replace(recipe, stage=stages, export=SantaExport()))
    content["texts"] = [digests[source] for stage in stages for source in recipe.sources_of(stage)]

    if teachers := _teachers(stages):
        content["teachers"] = [identity_of(base) for base in teachers]
    return content


def _teachers(stages: Sequence[Stage]) -> list[Path]:
    return [stage.teacher.base for stage in stages if stage.teacher]


def _export(
    recipe: SantaRecipe, trained: Path, out: Path, report: Report, accelerator: Accelerator
) -> None:
    checkpoint, measures = trained, dev_measures(trained)
    if recipe.export.base_share:
        checkpoint, measures = _average_with_base(recipe, trained, out, accelerator)

    from_scratch = recipe.model.scratch is not None
    base_model = "none: trained from scratch" if from_scratch else base_name(recipe.model.base)
    card = recipe_card(recipe.name, recipe.export, base_model, measures, report.counts())
    export_encoder(
        checkpoint,
        out / recipe.name,
        card,
        quantization=recipe.export.quantization,
        max_tokens=recipe.export.max_tokens,
        similarity=recipe.model.similarity,
    )


def _average_with_base(
    recipe: SantaRecipe, trained: Path, out: Path, accelerator: Accelerator
) -> tuple[Path, dict[str, float]]:
    """Write the trained model mixed with the base model; return its checkpoint and dev measures."""
    checkpoint = out / AVERAGED
    with storing(checkpoint):
        base = load_text_model(recipe.model)
        mixed = averaged(load_text_model(recipe.model, trained), base, recipe.export.base_share)
        mixed.save(checkpoint)

    temperature = recipe.stage[-1].temperature
    dev = DevEvaluator(
        recipe.dev, mixed.to(accelerator.device), accelerator, temperature=temperature
    )
    return checkpoint, dev.measure()
