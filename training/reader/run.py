"""Train a reader by a recipe, and export it: reference QA.

A cross-encoder of question and passage selects the passage, and the first and last token of the
answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from purlin.training.loop.checkpoints import dev_measures, storing
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.run import Progress, Say, train
from purlin.training.models.architectures import refuse_longer
from purlin.training.models.averaging import AVERAGED, averaged
from purlin.training.reader.export import export_reader
from purlin.training.reader.model import load_reader_model
from purlin.training.reader.questions import Questions, read_source_questions
from purlin.training.reader.recipe import PASSAGES, STAGE, TEACHER, ReaderRecipe
from purlin.training.reader.task import ReaderTask
from purlin.training.reader.teacher import teacher_scores

SAMPLE_BATCHES = 4  # batches whose sequences calibrate and check the exported graph


def train_reader(
    recipe: ReaderRecipe,
    out: Path,
    *,
    progress: Progress,
    say: Say,
    cpu: bool = False,
) -> Path:
    """Train and export; return the reader directory `out`/NAME. A run that was killed is resumed."""
    accelerator = make_accelerator(recipe.loop, cpu=cpu, out=out, say=say)
    # The new head starts with the same weights in every process.
    torch.manual_seed(recipe.seed)
    new_head = not recipe.export.base_share
    reader = load_reader_model(recipe.model, new_head=new_head)
    reader.to(accelerator.device)
    refuse_longer("reading.max_tokens", recipe.reading.max_tokens, reader)

    # Other processes read the vectors that the main process has written.
    with accelerator.main_process_first():
        training, dev = read_source_questions(recipe, out / PASSAGES, progress(PASSAGES))
    if accelerator.is_main_process:
        _say_counts(recipe, training, dev, say)

    scores = teacher_scores(recipe, training, out / TEACHER, accelerator, progress(TEACHER))
    task = ReaderTask(reader, training, recipe, accelerator, dev=dev, scores=scores)

    # A run can be resumed with other settings of the export, which do not change the training.
    texts = [source.digest() for source in (*training, *dev)]
    texts += [scores.digest] if scores else []
    checkpoint = train(
        task,
        recipe.loop,
        out / STAGE,
        accelerator,
        seed=recipe.seed,
        recipe=asdict(recipe) | {"export": None, "texts": texts},
        progress=progress(STAGE) if accelerator.is_main_process else None,
        say=say,
    )

    if accelerator.is_main_process:
        samples = [
            sequence.ids
            for number in range(SAMPLE_BATCHES)
            for drawn in task.drawn(number)[0]
            for sequence in drawn.packed
        ]
        measures = dev_measures(checkpoint)
        if recipe.export.base_share:
            checkpoint, measures = _average_with_base(task, checkpoint, out)
        export_reader(recipe, checkpoint, out / recipe.name, samples, measures)
    accelerator.wait_for_everyone()
    return out / recipe.name


def _say_counts(
    recipe: ReaderRecipe,
    training: Sequence[Questions],
    dev: Sequence[Questions],
    say: Say,
) -> None:
    sources = zip((*recipe.questions, *recipe.dev), (*training, *dev), strict=True)
    for source, mined in sources:
        count = f"{len(mined.items):,} questions"
        say(f"{source.path.name} ({source.format}, {source.split}): {count}")


def _average_with_base(task: ReaderTask, trained: Path, out: Path) -> tuple[Path, dict[str, float]]:
    """Write the trained reader mixed with its base; return the checkpoint and its dev measures."""
    recipe, checkpoint = task.recipe, out / AVERAGED
    with storing(checkpoint):
        reader = load_reader_model(recipe.model, trained)
        averaged(reader, load_reader_model(recipe.model), recipe.export.base_share).save(checkpoint)

    task.restore(checkpoint)
    task.model.eval()
    with torch.no_grad():
        return checkpoint, task.measure()
