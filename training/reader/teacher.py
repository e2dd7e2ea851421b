"""Opens the teacher of a recipe, and computes its scores of the training questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from accelerate import Accelerator

from purlin.index.qa import reader as serving
from purlin.index.qa.reader_settings import READER_SETTINGS
from purlin.training.loop.recorded_recipe import digest
from purlin.training.loop.run import StepProgress
from purlin.training.models.architectures import refuse_longer
from purlin.training.reader.model import ReaderModel, load_teacher
from purlin.training.reader.questions import Questions
from purlin.training.reader.recipe import ReaderRecipe, TeacherSettings
from purlin.training.reader.scores import Read, ScoredQuestion, ScoreFiles


def teacher_scores(
    recipe: ReaderRecipe,
    sources: Sequence[Questions],
    directory: Path,
    accelerator: Accelerator,
    progress: StepProgress,
) -> ScoreFiles | None:
    """Compute the scores by the recipe's teacher that are not in `directory` yet; None without a teacher.

    Raises InvalidInput if the teacher is not a reader, or if `directory` has other scores.
    """
    teacher = recipe.teacher
    if teacher is None:
        return None

    read, teacher_digest = _open_teacher(recipe, teacher, accelerator)
    scored: list[ScoredQuestion] = []
    for source in (source for source in sources if source.distilled):
        for number, item in enumerate(source.items):
            rows = source.candidates(number, teacher.passages)
            scored.append((item.question, [source.pool.passages[row] for row in rows]))

    texts = ((text, map(serving.model_text, passages)) for text, passages in scored)
    everything = [teacher_digest, *((text, *passages) for text, passages in texts)]
    files = ScoreFiles(directory, digest(everything), len(scored))
    files.compute(
        scored,
        read,
        process=accelerator.process_index,
        processes=accelerator.num_processes,
        progress=lambda number, total: progress(number, total, {}),
    )
    return files


def _open_teacher(
    recipe: ReaderRecipe, teacher: TeacherSettings, accelerator: Accelerator
) -> tuple[Read, str]:
    """Return a function that reads with the teacher, and the teacher's digest.

    Raises InvalidInput or NotFound, naming the field, if it cannot be opened as a reader.
    """
    if (Path(teacher.base) / READER_SETTINGS).is_file():
        exported = serving.Reader.load(Path(teacher.base))
        return lambda questions: _read_exported(exported, questions), exported.fingerprint

    max_tokens = teacher.max_tokens or recipe.reading.max_tokens
    reader = load_teacher(teacher.base, recipe.model).to(accelerator.device)
    refuse_longer("teacher.max_tokens", max_tokens, reader)

    packer = reader.packer(max_tokens)
    identity = digest([max_tokens, reader.digest()])
    return lambda questions: _read_checkpoint(reader, packer, accelerator, questions), identity


def _read_exported(
    exported: serving.Reader, questions: Sequence[ScoredQuestion]
) -> list[serving.PassageLogits]:
    return [logits for question in questions for logits in exported.read(*question)]


def _read_checkpoint(
    reader: ReaderModel,
    packer: serving.Packer,
    accelerator: Accelerator,
    questions: Sequence[ScoredQuestion],
) -> list[serving.PassageLogits]:
    packed = [sequence for question in questions for sequence in packer.pack(*question)]
    ids, mask = reader.padded([sequence.ids for sequence in packed])

    device = accelerator.device
    with torch.inference_mode(), accelerator.autocast():
        logits = reader.grouped(ids.to(device), mask.to(device))
    starts, ends, selected = (values.float().cpu().numpy() for values in logits)
    return [
        serving.PassageLogits(sequence, starts[row], ends[row], float(selected[row]))
        for row, sequence in enumerate(packed)
    ]
