"""Distil a reader: the scores of a larger one, computed once into files, as soft targets.

Teacher and student may have different tokenizers, so that the teacher's probabilities of the first
and last token of an answer become probabilities of its first and last character, and these again
probabilities of the student's tokens.
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from purlin.index.errors import Damaged, InvalidInput
from purlin.index.qa.reader import PackedPassage, PassageLogits, ReadingPassage
from purlin.training.checkpoints import storing
from purlin.training.config import in_range

QUESTIONS_PER_FILE = 64
DESCRIPTION = "scores.json"
# Of the teacher's probability, on tokens that the student's shorter sequence still has.
MIN_KEPT = 0.5
POLL_SECONDS = 1.0

Offsets = Sequence[tuple[int, int]]
Floats = NDArray[np.float32]
ScoredQuestion = tuple[str, Sequence[ReadingPassage]]
Read = Callable[[Sequence[ScoredQuestion]], Sequence[PassageLogits]]
"""Reads each question with its passages, and returns the logits of all passages in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherSettings:
    """Which reader teaches, and how much its scores count.

    `base` is the directory of a reader's checkpoint, of an exported reader, or a reader of DPR's.
    It reads each question with `passages` passages, from which training draws. `temperature`
    divides the logits of teacher and student, and `weight` multiplies the loss beside that of the
    labels. `max_tokens` is the longest sequence of a checkpoint; None is the student's.
    """

    base: str
    temperature: float = 2.0
    weight: float = 1.0
    passages: int = 8
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if not self.base:
            raise InvalidInput("Name the reader that teaches.", field="base")
        in_range("temperature", self.temperature, 0.01, 100.0)
        in_range("weight", self.weight, 1e-6, 1e6)
        in_range("passages", self.passages, 2, 1000)
        in_range("max_tokens", self.max_tokens or 32, 32, 8192)


@dataclass(frozen=True, slots=True)
class PassageScores:
    """A teacher's logits for one passage: `selected`, and `start` and `end` (t,) of its tokens.

    `offsets` (t, 2) are the characters of each token in the passage's `model_text`.
    """

    selected: float
    start: Floats
    end: Floats
    offsets: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class SoftTargets:
    """A teacher's logits and distributions for B questions with P passages each.

    `selected` (B, P) are logits; `start` and `end` (B * P, t) distributions over the student's
    tokens at the teacher's temperature; `has_target` (B * P,) tells where there is one, and
    `has_scores` (B,) which questions the teacher has read.
    """

    selected: Tensor
    start: Tensor
    end: Tensor
    has_target: Tensor
    has_scores: Tensor

    def on(self, device: torch.device) -> SoftTargets:
        """Return the targets on a device."""
        tensors = (self.selected, self.start, self.end, self.has_target, self.has_scores)
        return SoftTargets(*(tensor.to(device) for tensor in tensors))


# -- scores in files ----------------------------------------------------------------------------


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
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Write the files that are missing; each process writes a share of them.

        Returns once all files exist: processes wait for each other's without a barrier, which could
        time out.
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

        Raises Damaged if its file is not readable.
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
            _replace(path, json.dumps(description).encode())

    def _path(self, number: int) -> Path:
        return self.directory / f"scores-{number:06d}.npz"

    def _write(
        self, number: int, questions: Sequence[ScoredQuestion], logits: Sequence[PassageLogits]
    ) -> None:
        parts = [_passage_scores(each) for each in logits]
        content = io.BytesIO()
        np.savez(
            content,
            passages=np.array([len(passages) for _, passages in questions]),
            tokens=np.array([len(part.offsets) for part in parts]),
            selected=np.array([part.selected for part in parts], dtype=np.float32),
            start=np.concatenate([part.start for part in parts]),
            end=np.concatenate([part.end for part in parts]),
            offsets=np.concatenate([part.offsets for part in parts]),
        )
        with storing(self.directory):
            _replace(self._path(number), content.getvalue())

    def _read(self, number: int) -> list[list[PassageScores]]:
        path = self._path(number)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return _split(dict(arrays))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise Damaged(
                f"{path} is damaged: {error}. Remove it: the same command computes it again."
            ) from error


def _replace(path: Path, content: bytes) -> None:
    """Write a file aside and rename it, so that it is complete whenever it exists."""
    new = path.with_name(f".{path.name}")
    new.write_bytes(content)
    new.replace(path)


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


# -- targets and loss ---------------------------------------------------------------------------


def soft_targets(
    scores: Sequence[Sequence[PassageScores] | None],
    packed: Sequence[PackedPassage],
    width: int,
    temperature: float,
) -> SoftTargets:
    """Return the targets of a batch.

    `scores` are those of each question's passages, or None for a question that the teacher has not
    read; `packed` the student's sequences of all questions in the same order, padded to `width`
    tokens.
    """
    start, end = torch.zeros(2, len(packed), width)
    has_target = torch.zeros(len(packed), dtype=torch.bool)
    selected = torch.zeros(len(scores), len(packed) // len(scores))
    has_scores = torch.tensor([passages is not None for passages in scores])

    for question, passages in enumerate(scores):
        if passages is None:
            continue
        selected[question] = torch.tensor([passage.selected for passage in passages])

        for row, passage in enumerate(passages, start=question * len(passages)):
            sequence = packed[row]
            aligned = aligned_distributions(passage, sequence.offsets, temperature)
            if aligned is not None:
                tokens = slice(sequence.first, sequence.first + len(sequence.offsets))
                start[row, tokens], end[row, tokens] = map(torch.from_numpy, aligned)
                has_target[row] = True

    return SoftTargets(selected, start, end, has_target, has_scores)


def aligned_distributions(
    passage: PassageScores, offsets: Offsets, temperature: float
) -> tuple[Floats, Floats] | None:
    """Return a teacher's softened start and end distributions over a student's tokens.

    `offsets` are the characters of the student's tokens in the same text. A first character between
    two tokens counts for the token after it, a last one for the token before it; what lies beyond
    the student's last token, whose sequence may be shorter, is left out. None if less than MIN_KEPT
    of either distribution is left.
    """
    if not len(offsets) or not len(passage.offsets):
        return None

    first, last = np.array(offsets).T
    first_characters, last_characters = passage.offsets[:, 0], passage.offsets[:, 1] - 1
    start_tokens = np.searchsorted(last, first_characters, side="right")
    end_tokens = np.searchsorted(first, last_characters, side="right") - 1

    inside = last_characters < last[-1]
    start = _gathered(passage.start, start_tokens, inside, len(offsets), temperature)
    end = _gathered(passage.end, end_tokens, inside & (end_tokens >= 0), len(offsets), temperature)
    return None if start is None or end is None else (start, end)


def _gathered(
    logits: Floats, tokens: NDArray[np.intp], inside: NDArray[np.bool_], count: int, t: float
) -> Floats | None:
    """Return the softmax of logits / t, added up by `tokens` (of `count`) where `inside`."""
    scaled = logits.astype(float) / t
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()

    sums = np.bincount(tokens[inside], probabilities[inside], minlength=count)
    if sums.sum() < MIN_KEPT:
        return None
    distribution: Floats = (sums / sums.sum()).astype(np.float32)
    return distribution


def distillation_loss(
    starts: Tensor,
    ends: Tensor,
    selected: Tensor,
    targets: SoftTargets,
    temperature: float,
    none_score: float | None,
) -> dict[str, Tensor]:
    """Return the losses "soft select" and "soft span", each a mean over B questions, of which those
    that the teacher has not read add nothing.

    They are temperature^2 times the Kullback-Leibler divergence of teacher and student (Hinton et
    al. 2015): over passages, and over the first and the last token in each passage, weighted by the
    teacher's probability of that passage. By the chain rule their sum is the divergence over
    (passage, first token) and (passage, last token), where the passage counts once.

    `starts`, `ends` (B * P, t) and `selected` (B * P,) are the student's logits; `none_score` is
    that of "none of the passages" in both, or None if there is no such choice.
    """
    b, p = targets.selected.shape
    columns = [selected.reshape(b, p), targets.selected.to(selected)]
    if none_score is not None:
        columns = [F.pad(column, (0, 1), value=none_score) for column in columns]
    student, teacher = (torch.log_softmax(column / temperature, dim=1) for column in columns)

    divergences = F.kl_div(student, teacher, reduction="none", log_target=True).sum(1)
    weights = teacher[:, :p].exp().reshape(-1) * targets.has_target
    spans = torch.zeros_like(weights)
    for logits, target in ((starts, targets.start), (ends, targets.end)):
        log_probabilities = torch.log_softmax(logits / temperature, dim=1)
        spans = spans + F.kl_div(log_probabilities, target, reduction="none").sum(1)

    scale = temperature**2 / b
    return {
        "soft select": scale * (divergences * targets.has_scores).sum(),
        "soft span": scale * (weights * spans).sum(),
    }
