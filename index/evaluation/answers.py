"""Question sets, and measures of the answers and passages that a system returns for them.

Answers are measured by SQuAD's exact match and F1, passages by DPR's accuracy@k. The area under the
ROC curve measures how well a system tells the questions that a reference answers from the others.
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

from purlin.index.errors import InvalidInput
from purlin.index.evaluation.ranking import (
    Measure,
    Values,
    malformed,
    measure,
    read_records,
    resampled,
)

Counts = NDArray[np.int64]

DEPTHS = (1, 10, 100)
# Those that only a reader's answers have.
READER_MEASURES = ("exact match", "right answer first", "right answer or sentence first", "F1")
MAX_QUESTIONS = 100_000
MAX_QUESTION_CHARS = 10_000
MAX_ACCEPTED_ANSWERS = 100
MAX_ANSWER_CHARS = 1_000

_QUOTES = "'\"`´“”‘’„«»"
_CUTS: tuple[Callable[[str], str], ...] = (
    lambda text: text.strip(_QUOTES),
    lambda text: text.rstrip(".,;:"),
    lambda text: text.removesuffix("()"),
)
_ARTICLES = re.compile(r"(?<!\S)(?:an?|the) ")


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a set, with the answers that are accepted: exact words of the entry.

    `entry` is the entry with the answer, as `Location.url` names it, and `form` the kind of
    question, such as `default value`. A question without answers and entry has no answer in the
    reference; `about` is then the entry that one would look into.
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
        """Whether the reference has an answer."""
        return bool(self.answers) or self.entry is not None


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """The measures of one question's answers and passages.

    `answer_rank` is the rank, from 1, of the first passage with an accepted answer's text, and
    `entry_rank` that of the first passage of the right entry; None if there is none among the first
    `max(DEPTHS)`. `exact` and `f1` are those of the first answer; `right` tells that it is exact and
    of the right entry, and `right_sentence` that the sentence it is shown with is. `answerable` is
    the system's own estimate, higher for surer.
    """

    question: Question
    answer_rank: int | None
    entry_rank: int | None
    exact: bool
    f1: float
    answerable: float
    right: bool = False
    right_sentence: bool = False


def read_questions(path: Path, split: str | None = None) -> list[Question]:
    """Read the questions of one split, or of all, in the file's order; gzip by suffix.

    The file has JSON lines {id, question, answers, entry, form, split} and, optionally, `about`.
    Raises NotFound without a file, and InvalidInput for a malformed line, a repeated id, sizes over
    the limits above, or if no question remains.
    """
    questions: dict[str, Question] = {}

    for number, record in read_records(path):
        question = _parse_question(record, path, number)
        if question.id in questions:
            raise malformed(path, number, f"question {question.id!r} comes twice")
        if len(questions) == MAX_QUESTIONS:
            raise malformed(path, number, f"more than {MAX_QUESTIONS:,} questions; split the file")
        questions[question.id] = question

    chosen = [question for question in questions.values() if split in (None, question.split)]
    if not chosen:
        raise InvalidInput(
            f"{path} has no question{_other_splits(split, questions.values())}.", field="split"
        )
    return chosen


def _other_splits(split: str | None, questions: Collection[Question]) -> str:
    splits = ", ".join(sorted({question.split for question in questions}))
    return f" of split {split!r}, only of {splits}" if splits else ""


def _parse_question(record: Any, path: Path, number: int) -> Question:
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
    """Return what is wrong with the values of a question, or None."""
    if not text.strip() or len(text) > MAX_QUESTION_CHARS:
        return f"the question has {len(text):,} characters instead of 1 to {MAX_QUESTION_CHARS:,}"
    if len(answers) > MAX_ACCEPTED_ANSWERS:
        return f"{len(answers):,} answers are more than {MAX_ACCEPTED_ANSWERS}"
    if not all(map(_is_valid_answer, answers)):
        return f"an answer is not a string of 1 to {MAX_ANSWER_CHARS:,} characters"

    if about is not None and not (isinstance(about, str) and about):
        return "about is not an entry's name; leave it out if there is none"
    return "the entry is empty; write null if there is none" if entry == "" else None


def _is_valid_answer(answer: Any) -> bool:
    is_text = isinstance(answer, str) and bool(answer.strip())
    return is_text and len(answer) <= MAX_ANSWER_CHARS


# -- one answer


def exact_match(answer: str, answers: Iterable[str]) -> bool:
    """Return whether the answer equals an accepted one, by SQuAD's definition adapted to code.

    Case, white space and articles before a word do not count, nor do quotes and backticks around
    the answer, stops, commas, semicolons and colons at its end, and a final `()`:
    `"The str.zfill()."` is `str.zfill`. Unlike in SQuAD, punctuation inside and in front counts,
    because it has a meaning: `--exclude`, `0.5`, `.netrc`. An answer is never stripped to nothing:
    `()`, `''` and `a` stay. If no answer is accepted, only the empty string is right.
    """
    return _normal(answer) in {_normal(accepted) for accepted in _or_empty(answers)}


def f1(answer: str, answers: Iterable[str]) -> float:
    """Return the largest F1 (0-1) of the words shared with an accepted answer, as in SQuAD.

    Words are separated by white space and normalized as `exact_match` normalizes an answer.
    """
    return max(_overlap(_words(answer), _words(accepted)) for accepted in _or_empty(answers))


def _or_empty(answers: Iterable[str]) -> Sequence[str]:
    return tuple(answers) or ("",)


def _overlap(answer: Counter[str], accepted: Counter[str]) -> float:
    if not answer or not accepted:
        return float(answer == accepted)
    return 2.0 * (answer & accepted).total() / (answer.total() + accepted.total())


def _words(text: str) -> Counter[str]:
    return Counter(map(_stripped, _normal(text).split()))


def _normal(text: str) -> str:
    return _stripped(_folded(text))


def _folded(text: str) -> str:
    return _ARTICLES.sub("", " ".join(text.lower().split()))


def _stripped(text: str) -> str:
    """Strip punctuation from an answer, layer by layer: `` `str.zfill()`. `` has three."""
    while True:
        cuts = (cut(text).strip() for cut in _CUTS)
        shorter = next((rest for rest in cuts if rest not in ("", text)), text)
        if shorter == text:
            return text
        text = shorter


# -- one question


def judge(
    question: Question,
    passages: Sequence[tuple[str | None, str]],
    answers: Sequence[str],
    answerable: float,
    answer_entry: str | None = None,
    sentence: str = "",
) -> JudgedAnswer:
    """Judge ranked passages (entry, text) and ranked answers.

    The first answer is from `answer_entry`, and shown with `sentence`.

    A passage has an answer if the answer's words are in its text, both normalized as by
    `exact_match`, and not within a longer word or number: `1` is neither in `10` nor in `1.5`.
    """
    first_answer = answers[0] if answers else ""
    of_entry = answer_entry == question.entry
    ranked = passages[: max(DEPTHS)]

    patterns = [_pattern(accepted) for accepted in question.answers]
    has_answer = (any(pattern.search(_folded(text)) for pattern in patterns) for _, text in ranked)
    is_entry = (question.entry is not None and entry == question.entry for entry, _ in ranked)

    return JudgedAnswer(
        question,
        _first_rank(has_answer),
        _first_rank(is_entry),
        exact_match(first_answer, question.answers),
        f1(first_answer, question.answers),
        answerable,
        of_entry and exact_match(first_answer, question.answers),
        of_entry and exact_match(sentence, question.answers),
    )


def _pattern(answer: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?<!\d\.){re.escape(_normal(answer))}(?!\w|\.\d)")


def _first_rank(matches: Iterable[bool]) -> int | None:
    return next((rank for rank, is_match in enumerate(matches, 1) if is_match), None)


# -- all questions


def answer_measures(judged: Sequence[JudgedAnswer]) -> list[Measure]:
    """Return means over the questions with 95 % intervals, in the order of display.

    `answer accuracy@k` and `answer MRR@100` rank passages by the answer's text, as in the paper on
    reference QA; `entry ...` by the entry, which is stricter for a text in many entries. `exact
    match` and `F1` are those of the first answer, and `right answer first` those exact matches that
    are of the right entry, too: the right sentence, for a question that wants one. `right answer or
    sentence first` counts an answer that is shown with an accepted sentence, as well. All of these
    leave out the questions without an answer (or entry). `AUROC` of the estimate that a question
    has an answer is over all questions.

    A measure that no question applies to is left out; raises InvalidInput if all are.
    """
    with_answers = [each for each in judged if each.question.answers]
    with_entry = [each for each in judged if each.question.entry is not None]
    with_answer_and_entry = [each for each in with_answers if each.question.entry]
    # Questions without an answer cannot be ranked right, so that they would lower all means.
    values = {
        **_rank_values("answer", [each.answer_rank for each in with_answers]),
        **_rank_values("entry", [each.entry_rank for each in with_entry]),
        "exact match": [each.exact for each in with_answers],
        "right answer first": [each.right for each in with_answer_and_entry],
        "right answer or sentence first": [
            each.right or each.right_sentence for each in with_answer_and_entry
        ],
        "F1": [each.f1 for each in with_answers],
    }
    measures = [
        measure(name, np.array(per_question, dtype=np.float64), len(judged))
        for name, per_question in values.items()
        if per_question
    ]

    positive = [each.answerable for each in judged if each.question.answerable]
    negative = [each.answerable for each in judged if not each.question.answerable]
    if positive and negative:
        measures.append(_auroc_measure(positive, negative))
    if not measures:
        raise InvalidInput("There is no question with an answer to measure.", field="questions")
    return measures


def form_measures(judged: Sequence[JudgedAnswer]) -> list[Measure]:
    """Return the mean of `right answer first` for each form of the questions with an answer."""
    forms: dict[str, list[float]] = {}
    for each in judged:
        if each.question.answers and each.question.entry:
            forms.setdefault(each.question.form, []).append(float(each.right))

    return [
        measure(f"right, {form}", np.array(values), len(judged))
        for form, values in sorted(forms.items())
    ]


def _rank_values(name: str, ranks: Sequence[int | None]) -> dict[str, list[float]]:
    """Return accuracy at each depth and the reciprocal rank of each question, by measure."""
    values = {
        f"{name} accuracy@{k}": [float(rank is not None and rank <= k) for rank in ranks]
        for k in DEPTHS
    }
    values[f"{name} MRR@{max(DEPTHS)}"] = [1.0 / rank if rank else 0.0 for rank in ranks]
    return values


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return how often a positive's score is above a negative's; ties count half.

    This is Mann and Whitney's U over all pairs. Raises InvalidInput if one side is empty or a score
    is not finite.
    """
    return float(_area(*_count_levels(positive, negative)))


def _auroc_measure(positive: Sequence[float], negative: Sequence[float]) -> Measure:
    """Measure AUROC; its interval resamples the two sides separately."""
    counts = _count_levels(positive, negative)

    def resampled_areas(generator: np.random.Generator, rows: int) -> Values:
        sides = (generator.multinomial(side.sum(), side / side.sum(), size=rows) for side in counts)
        return _area(*sides)

    low, high = np.percentile(resampled(resampled_areas, 2 * len(counts[0])), (2.5, 97.5))
    area = float(_area(*counts))
    return Measure("AUROC", area, float(low), float(high), len(positive) + len(negative))


def _count_levels(positive: Sequence[float], negative: Sequence[float]) -> tuple[Counts, Counts]:
    """Count how often each side has each distinct score, from the lowest: two arrays (levels,)."""
    scores = np.array([*positive, *negative], dtype=np.float64)
    if not positive or not negative or not np.isfinite(scores).all():
        raise InvalidInput(
            "AUROC needs finite scores, at least one of either side.", field="answerable"
        )

    distinct, levels = np.unique(scores, return_inverse=True)
    positive_levels, negative_levels = levels[: len(positive)], levels[len(positive) :]
    return (
        np.bincount(positive_levels, minlength=len(distinct)),
        np.bincount(negative_levels, minlength=len(distinct)),
    )


def _area(positive: Counts, negative: Counts) -> Values:
    """Return AUROC (...) for counts (..., levels)."""
    below = negative.cumsum(axis=-1) - negative / 2
    wins = (positive * below).sum(axis=-1)
    pairs = positive.sum(axis=-1) * negative.sum(axis=-1)
    return np.asarray(wins / pairs)
