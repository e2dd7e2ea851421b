"""Questions with their answers, and how well answers and the passages they came from meet them.

Three definitions: SQuAD's exact match and F1 for answers, DPR's accuracy@k for passages, and the area
under the ROC curve for telling the questions that a reference answers from those it does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.errors import InvalidInput
from index.evaluation.ranking import Measure, Values, malformed, measure, read_records, resampled

Counts = NDArray[np.int64]

DEPTHS = (1, 10, 100)
MAX_QUESTIONS = 100_000
MAX_QUESTION = 10_000  # characters
MAX_ANSWERS = 100
MAX_ANSWER = 1_000  # characters

_QUOTES = "'\"`´“”‘’„«»"
_CUTS: tuple[Callable[[str], str], ...] = (
    lambda text: text.strip(_QUOTES),
    lambda text: text.rstrip(".,;:"),
    lambda text: text.removesuffix("()"),
)
_ARTICLES = re.compile(r"(?<!\S)(?:an?|the) ")


@dataclass(frozen=True, slots=True)
class Question:
    """`answers` are exact words of the entry, any of which will do. Without answers and entry it has none.

    `entry` is where the answer stands, as `Location.url` names it; `form` is what is asked for (`default value`).
    `about` is, of a question without an answer, the entry that one would look into.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    entry: str | None
    form: str
    split: str
    about: str | None = None

    @property
    def answerable(self) -> bool:
        """Whether the reference answers it."""
        return bool(self.answers) or self.entry is not None


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one question. Ranks count passages from 1, None where none of the first `max(DEPTHS)` is right.

    `answer_rank` is of the first passage that holds an answer's text, `entry_rank` of the first from the right entry.
    `exact` and `f1` are of the first answer. `answerable` is the system's own estimate, higher for surer.
    """

    question: Question
    answer_rank: int | None
    entry_rank: int | None
    exact: bool
    f1: float
    answerable: float


def read_questions(path: Path, split: str | None = None) -> list[Question]:
    """Questions of one split or all, in the file's order: JSON lines {id, question, answers, entry, form, split} and,
    optionally, `about`. Gzip by suffix.

    Raises NotFound without a file; InvalidInput for a malformed line, an id that comes twice, sizes over the limits
    above, and where no question is left.
    """
    questions: dict[str, Question] = {}
    for number, record in read_records(path):
        question = _question(record, path, number)
        if question.id in questions:
            raise malformed(path, number, f"question {question.id!r} comes twice")
        if len(questions) == MAX_QUESTIONS:
            raise malformed(path, number, f"more than {MAX_QUESTIONS:,} questions; split the file")
        questions[question.id] = question
    chosen = [question for question in questions.values() if split in (None, question.split)]
    if not chosen:
        raise InvalidInput(
            f"{path} has no question{_instead(split, questions.values())}.", field="split"
        )
    return chosen


def _instead(split: str | None, questions: Collection[Question]) -> str:
    splits = ", ".join(sorted({question.split for question in questions}))
    return f" of split {split!r}, only of {splits}" if splits else ""


def _question(record: Any, path: Path, number: int) -> Question:
    match record:
        case {
            "id": str(identifier),
            "question": str(text),
            "answers": list(answers),
            "entry": str() | None as entry,
            "form": str(form),
            "split": str(split),
        } if identifier:
            about = record.get("about")
            if problem := _problem(text, answers, entry, about):
                raise malformed(path, number, problem)
            return Question(identifier, text, tuple(answers), entry, form, split, about)
    raise malformed(
        path, number, "expected id, question, form and split (strings), answers (a list) and entry"
    )


def _problem(text: str, answers: list[Any], entry: str | None, about: Any) -> str | None:
    if not text.strip() or len(text) > MAX_QUESTION:
        return f"the question has {len(text):,} characters instead of 1 to {MAX_QUESTION:,}"
    if len(answers) > MAX_ANSWERS:
        return f"{len(answers):,} answers are more than {MAX_ANSWERS}"
    if not all(
        isinstance(answer, str) and answer.strip() and len(answer) <= MAX_ANSWER
        for answer in answers
    ):
        return f"an answer is not a string of 1 to {MAX_ANSWER:,} characters"
    if about is not None and not (isinstance(about, str) and about):
        return "about is not an entry's name; leave it out if there is none"
    return "the entry is empty; write null if there is none" if entry == "" else None


# One answer


def exact_match(answer: str, answers: Iterable[str]) -> bool:
    """Whether the answer equals one of those accepted, after SQuAD's definition with a normalization fit for code.

    Case, white space and articles before a word do not count, nor do quotes and backticks around the answer, stops,
    commas, semicolons and colons at its end, and a final `()`: `"The str.zfill()."` is `str.zfill`. Other than in
    SQuAD, punctuation inside and in front stays, because it is meant: `--exclude`, `0.5`, `.netrc`. What would leave
    nothing is kept: `()`, `''`, `a`. Where no answer is accepted, as for a question without one, only the empty
    string is right.
    """
    return _normal(answer) in {_normal(accepted) for accepted in _accepted(answers)}


def f1(answer: str, answers: Iterable[str]) -> float:
    """The largest F1 (0-1) of the words shared with one of the answers accepted, as in SQuAD.

    Words are what white space parts, each normalized as `exact_match` does with the whole.
    """
    return max(_overlap(_words(answer), _words(accepted)) for accepted in _accepted(answers))


def _accepted(answers: Iterable[str]) -> Sequence[str]:
    return tuple(answers) or ("",)


def _overlap(answer: Counter[str], accepted: Counter[str]) -> float:
    if not answer or not accepted:
        return float(answer == accepted)
    return 2.0 * (answer & accepted).total() / (answer.total() + accepted.total())


def _words(text: str) -> Counter[str]:
    return Counter(map(_bare, _normal(text).split()))


def _normal(text: str) -> str:
    return _bare(_folded(text))


def _folded(text: str) -> str:
    return _ARTICLES.sub("", " ".join(text.lower().split()))


def _bare(text: str) -> str:
    """Without what stands around an answer, layer by layer: `` `str.zfill()`. `` has three."""
    while True:
        cuts = (cut(text).strip() for cut in _CUTS)
        shorter = next((left for left in cuts if left not in ("", text)), text)
        if shorter == text:
            return text
        text = shorter


# One question


def judge(
    question: Question,
    passages: Sequence[tuple[str | None, str]],
    answers: Sequence[str],
    answerable: float,
) -> Judged:
    """What the ranked passages (entry, text) and the answers, both best first, are worth.

    A passage holds an answer if the answer's words stand in its text, normalized as `exact_match` does, and not within
    a longer word or number: `1` is neither in `10` nor in `1.5`.
    """
    first = answers[0] if answers else ""
    patterns = [_pattern(accepted) for accepted in question.answers]
    ranked = passages[: max(DEPTHS)]
    return Judged(
        question,
        _rank(any(pattern.search(_folded(text)) for pattern in patterns) for _, text in ranked),
        _rank(question.entry is not None and entry == question.entry for entry, _ in ranked),
        exact_match(first, question.answers),
        f1(first, question.answers),
        answerable,
    )


def _pattern(answer: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?<!\d\.){re.escape(_normal(answer))}(?!\w|\.\d)")


def _rank(right: Iterable[bool]) -> int | None:
    return next((rank for rank, hit in enumerate(right, 1) if hit), None)


# All questions


def measures(judged: Sequence[Judged]) -> list[Measure]:
    """Means over the questions with 95 % intervals, in the order they are told in.

    `answer accuracy@k` and `answer MRR@100` go by the answer's text, as in the paper on reference QA; `entry ...` by
    the entry, which is stricter where a text stands in many places; then `exact match` and `F1` of the first answer.
    All these leave out the questions without an answer (or entry). `AUROC` of the estimate that a question has an
    answer is over all of them. A measure that no question tells about is missing; InvalidInput if all are.
    """
    answered = [one for one in judged if one.question.answers]
    placed = [one for one in judged if one.question.entry is not None]
    values = {
        **_ranked("answer", [one.answer_rank for one in answered]),
        **_ranked("entry", [one.entry_rank for one in placed]),
        "exact match": [one.exact for one in answered],
        "F1": [one.f1 for one in answered],
    }
    found = [
        measure(name, np.array(each, dtype=np.float64), len(judged))
        for name, each in values.items()
        if each
    ]
    positive = [one.answerable for one in judged if one.question.answerable]
    negative = [one.answerable for one in judged if not one.question.answerable]
    if positive and negative:
        found.append(_auroc_measure(positive, negative))
    if not found:
        raise InvalidInput("There is no question with an answer to measure.", field="questions")
    return found


def _ranked(name: str, ranks: Sequence[int | None]) -> dict[str, list[float]]:
    accuracies = {
        f"{name} accuracy@{k}": [float(rank is not None and rank <= k) for rank in ranks]
        for k in DEPTHS
    }
    return {
        **accuracies,
        f"{name} MRR@{max(DEPTHS)}": [1.0 / rank if rank else 0.0 for rank in ranks],
    }


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """How often a positive's score is above a negative's, ties counting half: Mann and Whitney's U over all pairs.

    Raises InvalidInput if one side is empty or a score is not finite.
    """
    return float(_area(*_levels(positive, negative)))


def _auroc_measure(positive: Sequence[float], negative: Sequence[float]) -> Measure:
    """Its interval resamples both sides, each by itself."""
    counts = _levels(positive, negative)

    def areas(generator: np.random.Generator, rows: int) -> Values:
        return _area(
            *(generator.multinomial(side.sum(), side / side.sum(), size=rows) for side in counts)
        )

    low, high = np.percentile(resampled(areas, 2 * len(counts[0])), (2.5, 97.5))
    return Measure(
        "AUROC", float(_area(*counts)), float(low), float(high), len(positive) + len(negative)
    )


def _levels(positive: Sequence[float], negative: Sequence[float]) -> tuple[Counts, Counts]:
    """How many of either side have each distinct score, from the lowest: two (levels,)."""
    scores = np.array([*positive, *negative], dtype=np.float64)
    if not positive or not negative or not np.isfinite(scores).all():
        raise InvalidInput(
            "AUROC needs finite scores, at least one of either side.", field="answerable"
        )
    distinct, level = np.unique(scores, return_inverse=True)
    sides = level[: len(positive)], level[len(positive) :]
    return np.bincount(sides[0], minlength=len(distinct)), np.bincount(
        sides[1], minlength=len(distinct)
    )


def _area(positive: Counts, negative: Counts) -> Values:
    """AUROC (...) from counts (..., levels)."""
    below = negative.cumsum(axis=-1) - negative / 2
    return np.asarray(
        (positive * below).sum(axis=-1) / (positive.sum(axis=-1) * negative.sum(axis=-1))
    )
