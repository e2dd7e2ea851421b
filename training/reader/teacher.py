"""Opens the teacher of a recipe, and computes its scores of the training questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelerate import Accelerator

from purlin.index.errors import NotFound
from purlin.index.qa import reader as serving
from purlin.index.qa.reader_settings import READER_SETTINGS
from purlin.training.loop.recorded_recipe import digest
from purlin.training.loop.run import StepProgress
from purlin.training.reader.questions import Questions
from purlin.training.reader.recipe import ReaderRecipe
from purlin.training.reader.scores import ScoredQuestion, ScoreFiles


def teacher_scores(
    recipe: ReaderRecipe,
    sources: Sequence[Questions],
    directory: Path,
    accelerator: Accelerator,
    progress: StepProgress,
) -> ScoreFiles | None:
    """Compute the scores by the recipe's teacher that are not in `directory` yet; None without a teacher.

    Raises NotFound if the teacher is no reader, and InvalidInput if `directory` has other scores.
    """
    teacher = recipe.teacher
    if teacher is None:
        return None

    reader = _open_teacher(Path(teacher.base))
    scored: list[ScoredQuestion] = []
    for source in (source for source in sources if source.distilled):
        for number, item in enumerate(source.items):
            rows = source.candidates(number, teacher.passages)
            scored.append((item.question, [source.pool.passages[row] for row in rows]))

    texts = ((text, *map(serving.model_text, passages)) for text, passages in scored)
    files = ScoreFiles(directory, digest([reader.fingerprint, *texts]), scored)
    files.compute(
        lambda questions: [logits for each in questions for logits in reader.read(*each)],
        accelerator,
        progress,
    )
    return files


def _open_teacher(directory: Path) -> serving.Reader:
    """Open the exported reader of `directory`; raise NotFound if there is none."""
    if not (directory / READER_SETTINGS).is_file():
        raise NotFound(
            f"teacher.base: there is no reader in {directory}. Give the directory of an exported one.",
            field="teacher.base",
        )
    return serving.Reader.load(directory)
