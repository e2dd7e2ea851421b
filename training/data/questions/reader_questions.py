"""Training questions for a reader: the passages of references and where in them the answers are."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.evaluation.answers import Question, read_questions
from purlin.index.qa.reader import ReadingPassage, reading_passage
from purlin.index.records import Document, Skipped, Splitter
from purlin.index.sources import tables
from purlin.training.data.questions.backtranslation import rephraser
from purlin.training.data.questions.sources import QuestionFormat, QuestionSource, excluded_entries
from purlin.training.data.questions.splitting import SplitReference, read_split
from purlin.training.data.templates import generation

# Share of a form's questions that may have the same answer, or a reader learns to guess it.
MAX_SAME_ANSWER = 0.1
MIN_SAME_ANSWER = 20

# Share of a reference's questions that may have the same form, or a reader answers all questions
# as if they had it.
MAX_SAME_FORM = 0.3


@dataclass(slots=True, eq=False)
class PassagePool:
    """The passages of one reference, which serve as each other's negatives.

    `entries` has the entry of each passage, or its page where passages are cut from whole pages.
    `reference` says which of them hold a definition's words; it is empty for SQuAD.
    """

    passages: list[ReadingPassage]
    entries: list[str]
    reference: SplitReference = field(default_factory=SplitReference)


# The pools of the references that were read, by path and splitter.
Pools = dict[tuple[Path, Splitter | None], PassagePool]


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """A question, the pool row of the passage that answers it, and the spans of its answers there.

    `spans` are characters of the passage: of all accepted answers, wherever they stand, the first
    one first. There are none if it is known that the passage answers the question, but not which
    words of it do. If it is not `answered`, the passage only looks like an answer. Of one that is
    not `labelled` nothing is known; its passage is -1.
    """

    question: str
    passage: int
    spans: tuple[tuple[int, int], ...] = ()
    form: str = ""
    answered: bool = True
    labelled: bool = True

    def answers(self, pool: PassagePool) -> list[str]:
        """Return the words of the answers, none if they are unknown."""
        return [pool.passages[self.passage].text[start:end] for start, end in self.spans]


def load_questions(
    source: QuestionSource, pools: Pools
) -> tuple[PassagePool, list[TrainingQuestion]]:
    """Return a source's questions and their pool; a reference is read once and kept in `pools`.

    Raises NotFound for a missing file and InvalidInput for a source without usable questions.
    """
    if not source.path.exists():
        raise NotFound(f"There is no file or directory {source.path}.", field="path")

    pool, items = _READERS[source.format](source, pools)
    questions = list(itertools.islice(items, source.limit))
    if not questions:
        raise InvalidInput(
            f"{source.path} has no usable question of format {source.format}"
            f"{_why_no_templates(source)}.",
            field="path",
        )
    return pool, questions


def _why_no_templates(source: QuestionSource) -> str:
    if source.format != "templates":
        return ""
    return (
        f": none of its entries gives one for the split {source.split!r}. Templates ask for what "
        "functions take, return and raise, for defaults and the like: give a reference that has "
        "such entries, or remove the source from the recipe"
    )


def _reference_pool(path: Path, splitter: Splitter | None, pools: Pools) -> PassagePool:
    if (path, splitter) not in pools:
        reference = read_split(path, splitter)
        pools[path, splitter] = PassagePool(
            [reading_passage(document, passage) for document, passage in reference.passages],
            [generation.document_entry(document) for document, _ in reference.passages],
            reference,
        )

    return pools[path, splitter]


# -- templates -------------------------------------------------------------------------------------


def _template_questions(
    source: QuestionSource, pools: Pools
) -> tuple[PassagePool, Iterator[TrainingQuestion]]:
    pool = _reference_pool(source.path, source.splitter, pools)
    definitions = pool.reference.definitions
    excluded = excluded_entries(source.leave_out, definitions)
    examples = generation.questions(
        definitions, source.split, source.rules, rephraser(source.translators), excluded
    )

    # Shuffled by a fixed seed, so that a limit takes questions from all over the reference.
    Random(0).shuffle(examples)
    return pool, balanced(list(_limit_answers(_in_passages(examples, pool.reference))))


def _in_passages(
    examples: Sequence[generation.Example], reference: SplitReference
) -> Iterator[tuple[generation.Example, TrainingQuestion]]:
    """Yield a question for every passage that contains the whole answer of an example."""
    for example in examples:
        places = reference.locate(example.document_id, example.start, example.end)
        for row, start in places:
            end = start + example.end - example.start
            yield example, TrainingQuestion(example.question, row, ((start, end),), example.form)


def _limit_answers(
    items: Iterable[tuple[generation.Example, TrainingQuestion]],
) -> Iterator[TrainingQuestion]:
    """Drop questions once `MAX_SAME_ANSWER` of a form's questions have their answer, such as None.

    The first `MIN_SAME_ANSWER` are always kept.
    """
    items = list(items)
    forms = Counter(question.form for _, question in items)

    answers: Counter[tuple[str, str]] = Counter()
    for example, question in items:
        answers[question.form, example.answer] += 1
        limit = max(MIN_SAME_ANSWER, MAX_SAME_ANSWER * forms[question.form])
        if answers[question.form, example.answer] <= limit:
            yield question


def balanced(questions: Sequence[TrainingQuestion]) -> Iterator[TrainingQuestion]:
    """Drop the last questions of the most frequent form, so that `MAX_SAME_FORM` have it."""
    forms = Counter(question.form for question in questions)
    frequent, count = forms.most_common(1)[0] if forms else ("", 0)

    # Questions of a single form cannot be balanced, so all are kept.
    rest = len(questions) - count
    remaining = round(rest * MAX_SAME_FORM / (1 - MAX_SAME_FORM)) if rest else count

    for question in questions:
        if question.form == frequent:
            remaining -= 1
            if remaining < 0:
                continue
        yield question


# -- linked questions ------------------------------------------------------------------------------


def _linked_questions(
    source: QuestionSource, pools: Pools
) -> tuple[PassagePool, Iterator[TrainingQuestion]]:
    assert source.reference is not None
    pool = _reference_pool(source.reference, None, pools)
    definitions = pool.reference.definitions
    excluded = excluded_entries(source.leave_out, definitions)
    titles = {generation.document_entry(document): document.title for document in definitions}

    # An entry's first passage has its term.
    rows: dict[str, int] = {}
    for row, entry in enumerate(pool.entries):
        if entry not in excluded:
            rows.setdefault(entry, row)

    def questions() -> Iterator[TrainingQuestion]:
        for record in _records(source.path):
            question = str(record.get("title", "")).strip()
            entry = str(record.get("entry", ""))
            if question and entry in rows:
                row = rows[entry]
                spans = _term_span(pool.passages[row].text, titles[entry])
                yield TrainingQuestion(question, row, spans, "linked")

    return pool, questions()


def _records(path: Path) -> Iterator[Mapping[str, object]]:
    for row in tables.read_rows(path, path.name):
        if not isinstance(row, Skipped):
            yield row.record


def _term_span(text: str, title: str) -> tuple[tuple[int, int], ...]:
    """Return where a term is in its definition's first line: all of it, or its last part."""
    line = text.partition("\n")[0]
    for name in (title, title.rpartition(".")[2]):
        start = line.find(name)
        if name and start >= 0:
            return ((start, start + len(name)),)
    return ()


# -- question sets ---------------------------------------------------------------------------------


def _question_set(
    source: QuestionSource, pools: Pools
) -> tuple[PassagePool, Iterator[TrainingQuestion]]:
    assert source.reference is not None
    pool = _reference_pool(source.reference, source.splitter, pools)
    excluded = excluded_entries(source.leave_out, pool.reference.definitions)

    # Several documents may belong to the same entry.
    definitions: dict[str | None, list[Document]] = defaultdict(list)
    for document in pool.reference.definitions:
        own_entry = generation.document_entry(document)
        if document.id in pool.reference.parts and own_entry not in excluded:
            definitions[own_entry].append(document)

    located = (
        _locate(question, pool.reference, definitions[entry])
        for question in read_questions(source.path, source.split)
        if (entry := question.entry or question.about) in definitions
    )
    return pool, (question for question in located if question is not None)


def _locate(
    question: Question, reference: SplitReference, definitions: Sequence[Document]
) -> TrainingQuestion | None:
    """Find the first answer that is in a passage of the definitions, and where else that passage
    has one; None if none has.

    An unanswerable question gets the first passage as one that only looks like an answer.
    """
    if not question.answerable:
        row = reference.rows(definitions[0].id)[0]
        return TrainingQuestion(question.question, row, form=question.form, answered=False)

    located = [
        (row, (first, first + end - start))
        for answer in question.answers
        for document in definitions
        for start, end in answer_spans(answer, document.body)
        for row, first in reference.locate(document.id, start, end)
    ]
    if not located:
        return None

    right_row = located[0][0]
    spans = dict.fromkeys(span for row, span in located if row == right_row)
    return TrainingQuestion(question.question, right_row, tuple(spans), question.form)


def answer_spans(answer: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has an answer as whole words."""
    for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text):
        yield match.span()


# -- unlabelled questions --------------------------------------------------------------------------


def _unlabelled_questions(
    source: QuestionSource, pools: Pools
) -> tuple[PassagePool, Iterator[TrainingQuestion]]:
    assert source.reference is not None
    pool = _reference_pool(source.reference, None, pools)
    excluded = excluded_entries(source.leave_out, pool.reference.definitions)

    texts = (
        str(record.get("question") or record.get("title") or "").strip()
        for record in _records(source.path)
        if record.get("entry") not in excluded
    )

    # The same question twice would be read by the teacher twice.
    return pool, (
        TrainingQuestion(text, -1, form="unlabelled", answered=False, labelled=False)
        for text in dict.fromkeys(filter(None, texts))
    )


# -- SQuAD -----------------------------------------------------------------------------------------


def _squad_questions(
    source: QuestionSource, pools: Pools
) -> tuple[PassagePool, Iterator[TrainingQuestion]]:
    pool = PassagePool([], [])
    rows: dict[str, int] = {}
    questions: list[TrainingQuestion] = []

    for record in _records(source.path):
        match record:
            case {"question": str(question), "context": str(context), "answers": list(answers)}:
                # Questions about the same context share one passage.
                row = rows.setdefault(context, len(rows))
                if row == len(pool.passages):
                    pool.passages.append(ReadingPassage(context))
                    pool.entries.append(str(row))
                questions += _squad_question(question, row, context, answers)
    return pool, iter(questions)


def _squad_question(
    question: str, row: int, context: str, answers: Sequence[Any]
) -> Iterator[TrainingQuestion]:
    """Yield a question with its first answer, or none if that is not in the context.

    In SQuAD 2.0 a question without answers asks for something that the passage does not say.
    """
    match answers[:1]:
        case []:
            yield TrainingQuestion(question, row, form="squad", answered=False)
        case [{"text": str(text), "answer_start": int(start)}] if text and context.startswith(
            text, max(start, 0)
        ):
            yield TrainingQuestion(question, row, ((start, start + len(text)),), "squad")


_Reader = Callable[[QuestionSource, Pools], tuple[PassagePool, Iterator[TrainingQuestion]]]

_READERS: dict[QuestionFormat, _Reader] = {
    "templates": _template_questions,
    "linked": _linked_questions,
    "questions": _question_set,
    "squad": _squad_questions,
    "unlabelled": _unlabelled_questions,
}
