"""A teacher's scores, computed once and kept in files."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.errors import Damaged, InvalidInput
from purlin.index.qa.reader import PassageLogits, ReadingPassage
from purlin.index.storage import atomic_write
from purlin.training.loop.checkpoints import storing

QUESTIONS_PER_FILE = 64
DESCRIPTION = "scores.json"
POLL_SECONDS = 1.0
Floats = NDArray[np.float32]
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
    """Scores of many questions in a directory, a file for each QUESTIONS_PER_FILE.

    A run that was killed continues after the last complete file. `digest` identifies teacher,
    questions and passages; a directory with scores of others is refused with InvalidInput.
    """

    def __init__(self, directory: Path, digest: str, count: int) -> None:
        self.directory = directory
        self.digest = digest
        self.count = count
        self.loaded: dict[int, list[list[PassageScores]]] = {}

    def compute(
        self,
        questions: Sequence[ScoredQuestion],
        read: Read,
        *,
        process: int = 0,
        processes: int = 1,
        progress: Callable[[int, int], None] = lambda written, total: None,
    ) -> None:
        """Write the missing files, or the share of process number `process` of `processes`.

        Returns once all files exist. Processes wait for each other's files instead of at a barrier,
        which could time out.
        """
        self._describe()
        numbers = range(-(-len(questions) // QUESTIONS_PER_FILE))
        missing = [
            number for number in numbers[process::processes] if not self._path(number).is_file()
        ]

        for written, number in enumerate(missing, start=1):
            first = number * QUESTIONS_PER_FILE
            part = questions[first : first + QUESTIONS_PER_FILE]
            self._write(number, part, read(part))
            progress(written, len(missing))

        while not all(self._path(number).is_file() for number in numbers):
            time.sleep(POLL_SECONDS)

    def of(self, question: int) -> list[PassageScores]:
        """Return the scores of a question's passages, in their order.

        Raises Damaged if its file cannot be read.
        """
        number, row = divmod(question, QUESTIONS_PER_FILE)
        if number not in self.loaded:
            self.loaded[number] = self._read(number)
        return self.loaded[number][row]

    def _describe(self) -> None:
        """Write what the scores belong to, or refuse a directory that has others."""
        description = {"digest": self.digest, "questions": self.count}
        path = self.directory / DESCRIPTION

        if path.is_file():
            if json.loads(path.read_text()) != description:
                raise InvalidInput(
                    f"{self.directory} has scores of another teacher or other texts. Give another "
                    "--out, or remove it.",
                    field="out",
                )
            return

        with storing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as stream:
                stream.write(json.dumps(description).encode())

    def _path(self, number: int) -> Path:
        return self.directory / f"scores-{number:06d}.npz"

    def _write(
        self, number: int, questions: Sequence[ScoredQuestion], logits: Sequence[PassageLogits]
    ) -> None:
        parts = [_passage_scores(each) for each in logits]

        with storing(self.directory), atomic_write(self._path(number)) as stream:
            np.savez(
                stream,
                passages=np.array([len(passages) for _, passages in questions]),
                tokens=np.array([len(part.offsets) for part in parts]),
                selected=np.array([part.selected for part in parts], dtype=np.float32),
                start=np.concatenate([part.start for part in parts]),
                end=np.concatenate([part.end for part in parts]),
                offsets=np.concatenate([part.offsets for part in parts]),
            )

    def _read(self, number: int) -> list[list[PassageScores]]:
        path = self._path(number)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return _split(dict(arrays))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise Damaged(
                f"{path} is damaged: {error}. Remove it: the same command computes it again."
            ) from error


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
