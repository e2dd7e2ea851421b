"""A teacher's scores, computed once and kept in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray

from purlin.index.errors import InvalidInput
from purlin.index.qa.reader import Floats, PassageLogits, ReadingPassage
from purlin.training.loop.run import StepProgress
from purlin.training.pieces import ABOUT, Arrays, Pieces

QUESTIONS_PER_FILE = 64
ScoredQuestion = tuple[str, Sequence[ReadingPassage]]
Read = Callable[[Sequence[ScoredQuestion]], Sequence[PassageLogits]]
"""Reads each question with its passages, and returns the logits of all passages as one sequence."""


@dataclass(frozen=True, slots=True)
class PassageScores:
    """A teacher's logits for one passage: `selected`, and `start` and `end` (t,) of its tokens.

    `offsets` (t, 2) are the characters of each token in the passage's `model_text`.
    """

    selected: float
    start: Floats
    end: Floats
    offsets: NDArray[np.int32]


class ScoreFiles:
    """A teacher's scores of `questions`, with their passages, in pieces of QUESTIONS_PER_FILE.

    `digest` identifies teacher, questions and passages; a directory with scores of others is
    refused with InvalidInput.
    """

    def __init__(self, directory: Path, digest: str, questions: Sequence[ScoredQuestion]) -> None:
        self.digest = digest
        self.questions = questions
        self.pieces = Pieces(directory, {"digest": digest}, len(questions), QUESTIONS_PER_FILE)
        self.loaded: dict[int, list[list[PassageScores]]] = {}

        # Scores may have taken hours, and are not removed for want of another --out.
        if (directory / ABOUT).exists() and not self.pieces.belongs():
            raise InvalidInput(
                f"{directory} has scores of another teacher or other texts. Give another --out, or "
                "remove it.",
                field="out",
            )

    def compute(self, read: Read, accelerator: Accelerator, progress: StepProgress) -> None:
        """Have `read` compute what is missing; all processes share the work. Raises StorageFailed."""
        self.pieces.compute(
            lambda rows: _arrays(self.questions[rows], read(self.questions[rows])),
            process=accelerator.process_index,
            processes=accelerator.num_processes,
            progress=lambda scored, total: progress(scored, total, {}),
        )

    def of(self, question: int) -> list[PassageScores]:
        """Return the scores of a question's passages, in their order.

        Raises Damaged if its file cannot be read.
        """
        number, row = divmod(question, QUESTIONS_PER_FILE)
        if number not in self.loaded:
            self.loaded[number] = _split(self.pieces.read(number))
        return self.loaded[number][row]


def _arrays(questions: Sequence[ScoredQuestion], logits: Sequence[PassageLogits]) -> Arrays:
    """Return what a piece keeps of the logits of all passages of `questions`."""
    parts = [_passage_scores(each) for each in logits]
    return {
        "passages": np.array([len(passages) for _, passages in questions]),
        "tokens": np.array([len(part.offsets) for part in parts]),
        "selected": np.array([part.selected for part in parts], dtype=np.float32),
        "start": np.concatenate([part.start for part in parts]),
        "end": np.concatenate([part.end for part in parts]),
        "offsets": np.concatenate([part.offsets for part in parts]),
    }


def _passage_scores(logits: PassageLogits) -> PassageScores:
    packed = logits.packed
    tokens = slice(packed.first, packed.first + len(packed.offsets))
    offsets = np.array(packed.offsets, dtype=np.int32).reshape(-1, 2)

    return PassageScores(
        logits.selected,
        np.asarray(logits.start[tokens], dtype=np.float32),
        np.asarray(logits.end[tokens], dtype=np.float32),
        offsets,
    )


def _split(arrays: dict[str, NDArray[np.generic]]) -> list[list[PassageScores]]:
    """Return the scores of a file, by question and passage."""
    ends = np.cumsum(arrays["tokens"].astype(int))[:-1]
    columns = [np.split(arrays[name], ends) for name in ("start", "end", "offsets")]
    passages = [
        PassageScores(float(selected), start, end, offsets)
        for selected, start, end, offsets in zip(
            arrays["selected"].astype(float), *columns, strict=True
        )
    ]

    question_ends = np.cumsum(arrays["passages"].astype(int))
    starts = [0, *question_ends[:-1]]
    return [passages[first:last] for first, last in zip(starts, question_ends, strict=True)]
