"""Training questions for a reader: the passages of references and where in them the answers are."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.evaluation.answers import Question, read_questions
from purlin.index.qa.reader import ReadingPassage, model_text, reading_passage
from purlin.index.records import Document, Skipped, Splitter
from purlin.index.search.lexical import Lexical, top
from purlin.index.search.lexical_builder import LexicalBuilder
from purlin.index.search.postings import Postings
from purlin.index.sources import tables
from purlin.training.config import in_range
from purlin.training.data import templates
from purlin.training.data.backtranslation import rephraser
from purlin.training.data.splitting import SplitReference, read_split

QuestionFormat = Literal["templates", "linked", "questions", "squad", "unlabelled"]
WITH_REFERENCE = ("linked", "questions", "unlabelled", "searches")
WITH_LEAVE_OUT = ("templates", "linked", "questions", "unlabelled")

# Share of a form's questions that may have the same answer, or a reader learns to guess it.
MAX_SAME_ANSWER = 0.1
MIN_SAME_ANSWER = 20

# Share of a reference's questions that may have the same form, or a reader answers all questions
# as if they had it.
MAX_SAME_FORM = 0.3

# Queries whose cosines with all passages are in memory at a time.
QUERIES_PER_BLOCK = 128


def check_options(
    format: str,
    reference: Path | None,
    rules: templates.RulesChoice | None,
    translators: Sequence[str],
    leave_out: Sequence[Path],
    splitter: Splitter | None = None,
) -> None:
    """Raise InvalidInput, naming the field, for an option that the format needs or does not use."""
    if splitter is not None and format not in ("templates", "questions"):
        raise InvalidInput(
            "splitter belongs to the formats templates and questions; remove it.", field="splitter"
        )

    if (format in WITH_REFERENCE) != bool(reference):
        raise InvalidInput(
            f"reference belongs to the formats {', '.join(WITH_REFERENCE)}, which need one.",
            field="reference",
        )

    for name, value in (("rules", rules), ("translators", translators)):
        if value and format != "templates":
            raise InvalidInput(
                f"{name} belongs to the format templates, not to {format}; remove it.", field=name
            )

    if leave_out and format not in WITH_LEAVE_OUT:
        raise InvalidInput(
            f"leave_out belongs to the formats {', '.join(WITH_LEAVE_OUT)}; remove it.",
            field="leave_out",
        )
    rephraser(translators)


def excluded_entries(paths: Sequence[Path], documents: Iterable[Document]) -> frozenset[str]:
    """Return the entries that question sets ask about, to keep them out of training.

    Of a directory, all sets directly in it count, whichever of them ask about these documents.
    Raises NotFound for a missing file and InvalidInput for a set, or a directory, that asks about
    none of the documents.
    """
    if not paths:
        return frozenset()

    entries = {templates.document_entry(document) for document in documents}
    excluded: set[str] = set()
    for path in paths:
        sets = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        questions = [question for each in sets for question in read_questions(each)]
        covered = entries & {question.entry or question.about or "" for question in questions}
        if not covered:
            raise InvalidInput(
                f"{path} asks about no entry of the reference: nothing is left out.",
                field="leave_out",
            )
        excluded |= covered
    return frozenset(excluded)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSource:
    """Where questions come from, as a recipe names it. Raises InvalidInput naming the field.

    templates: questions made from the definitions in a reference's HTML, for the entries of
    `split`. `rules` is a file of custom templates, or "paper" for the paper's single one;
    `translators` are two models, there and back, whose rephrasings are added.

    linked: rows {title, question, entry} of questions that led to an entry of `reference`, whose
    term is the answer.

    questions: a question set over `reference`, as `purlin.index.evaluation.answers` reads it. Used are
    the questions of `split` whose answer is in their entry, and those without an answer that name
    the entry they are `about`. For these formats, no questions are produced about the entries
    that the question sets in `leave_out`, files or a directory of them, ask about.

    squad: rows {question, context, answers}; questions without answers ask for something that the
    context does not say.

    unlabelled: rows {question} or {title} of questions to ask `reference`, without answers: for a
    recipe with a teacher, whose scores are all that is learnt from them. Of rows that name an
    `entry`, those are dropped whose entry is left out.

    A recipe's teacher reads the questions of sources that are `distilled`. Of the others, only the
    labels are learnt, so that the teacher passes on nothing about entries that are left out.

    `splitter` cuts the passages of templates and questions as the paper's splitter of that name
    does (`purlin.training.data.splitting`); by default they are those that are served.
    """

    format: QuestionFormat
    path: Path
    reference: Path | None = None
    weight: float = 1.0
    limit: int | None = None
    split: str = "train"
    rules: templates.RulesChoice | None = None
    translators: tuple[str, ...] = ()
    leave_out: tuple[Path, ...] = ()
    splitter: Splitter | None = None
    distilled: bool = True

    def __post_init__(self) -> None:
        formats = get_args(QuestionFormat)
        if self.format not in formats:
            raise InvalidInput(f"format must be one of {', '.join(formats)}.", field="format")
        if self.format == "unlabelled" and not self.distilled:
            raise InvalidInput(
                "Nothing can be learnt from questions without labels that no teacher reads; remove "
                "distilled = false.",
                field="distilled",
            )

        check_options(
            self.format,
            self.reference,
            self.rules,
            self.translators,
            self.leave_out,
            self.splitter,
        )
        in_range("weight", self.weight, 1e-6, 100.0)
        if self.limit is not None:
            in_range("limit", self.limit, 1, 1 << 30)


@dataclass(slots=True)
class PassagePool:
    """The passages of one reference, which serve as each other's negatives.

    `entries` has the entry of each passage, or its page where passages are cut from whole pages.
    `reference` says which of them hold a definition's words; it is empty for SQuAD. `miner` is
    created once for all sources over it.
    """

    passages: list[ReadingPassage]
    entries: list[str]
    reference: SplitReference = field(default_factory=SplitReference)
    miner: Miner | None = None


# The pools of the references that were read, by path and splitter.
Pools = dict[tuple[Path, Splitter | None], PassagePool]


@dataclass(frozen=True, slots=True, repr=False)
class TrainingQuestion:
    """A question, the pool row of the passage that answers it, and the span of the answer there.

    `start` and `end` (characters) are None if it is known that the passage answers the question,
    but not which words of it do. If it is not `answered`, the passage only looks like an answer. Of
    one that is not `labelled` nothing is known; its passage is -1.
    """

    question: str
    passage: int
    start: int | None = None
    end: int | None = None
    form: str = ""
    answered: bool = True
    labelled: bool = True

    def __repr__(self) -> str:
        # Checkpoints store a digest of this text: another one would refuse to resume them.
        return (
            f"Asked(question={self.question!r}, passage={self.passage!r}, start={self.start!r}, "
            f"end={self.end!r}, form={self.form!r}, answered={self.answered!r})"
        )

    def answer(self, pool: PassagePool) -> str:
        """Return the answer's words, or "" if they are unknown."""
        if self.start is None:
            return ""
        return pool.passages[self.passage].text[self.start : self.end]


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
            f"{source.path} has no usable question of format {source.format}.", field="path"
        )
    return pool, questions


def _reference_pool(path: Path, splitter: Splitter | None, pools: Pools) -> PassagePool:
    if (path, splitter) not in pools:
        reference = read_split(path, splitter)
        pools[path, splitter] = PassagePool(
            [reading_passage(document, passage) for document, passage in reference.passages],
            [templates.document_entry(document) for document, _ in reference.passages],
            reference,
        )
    return pools[path, splitter]


# ---- templates


def _template_questions(
    source: QuestionSource, pools: Pools
) -> tuple[PassagePool, Iterator[TrainingQuestion]]:
    pool = _reference_pool(source.path, source.splitter, pools)
    definitions = pool.reference.definitions
    excluded = excluded_entries(source.leave_out, definitions)
    examples = templates.questions(
        definitions, source.split, source.rules, rephraser(source.translators), excluded
    )

    # Shuffled by a fixed seed, so that a limit takes questions from all over the reference.
    Random(0).shuffle(examples)
    return pool, balanced(list(_limit_answers(_in_passages(examples, pool.reference))))


def _in_passages(
    examples: Sequence[templates.Example], reference: SplitReference
) -> Iterator[tuple[templates.Example, TrainingQuestion]]:
    """Yield a question for every passage that contains the whole answer of an example."""
    for example in examples:
        places = reference.locate(example.document_id, example.start, example.end)
        for row, start in places:
            end = start + example.end - example.start
            yield example, TrainingQuestion(example.question, row, start, end, example.form)


def _limit_answers(
    items: Iterable[tuple[templates.Example, TrainingQuestion]],
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


# ---- linked questions


def _linked_questions(
    source: QuestionSource, pools: Pools
) -> tuple[PassagePool, Iterator[TrainingQuestion]]:
    assert source.reference is not None
    pool = _reference_pool(source.reference, None, pools)
    definitions = pool.reference.definitions
    excluded = excluded_entries(source.leave_out, definitions)
    titles = {templates.document_entry(document): document.title for document in definitions}

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
                start, end = _find_term(pool.passages[row].text, titles[entry])
                yield TrainingQuestion(question, row, start, end, "linked")

    return pool, questions()


def _records(path: Path) -> Iterator[Mapping[str, object]]:
    for row in tables.read_rows(path, path.name):
        if not isinstance(row, Skipped):
            yield row.record


def _find_term(text: str, title: str) -> tuple[int | None, int | None]:
    """Return the span of the term in its definition's first line: all of it, or its last part."""
    line = text.partition("\n")[0]
    for name in (title, title.rpartition(".")[2]):
        start = line.find(name)
        if name and start >= 0:
            return start, start + len(name)
    return None, None


# ---- question sets


def _question_set(
    source: QuestionSource, pools: Pools
) -> tuple[PassagePool, Iterator[TrainingQuestion]]:
    assert source.reference is not None
    pool = _reference_pool(source.reference, source.splitter, pools)
    excluded = excluded_entries(source.leave_out, pool.reference.definitions)

    # Several documents may belong to the same entry.
    definitions: dict[str | None, list[Document]] = defaultdict(list)
    for document in pool.reference.definitions:
        own_entry = templates.document_entry(document)
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
    """Find the first answer that is in a passage of the definitions; None if none is.

    An unanswerable question gets the first passage as one that only looks like an answer.
    """
    if not question.answerable:
        row = reference.rows(definitions[0].id)[0]
        return TrainingQuestion(question.question, row, form=question.form, answered=False)

    for answer in question.answers:
        for document in definitions:
            for start, end in answer_spans(answer, document.body):
                for row, first in reference.locate(document.id, start, end):
                    last = first + end - start
                    return TrainingQuestion(question.question, row, first, last, question.form)
    return None


def answer_spans(answer: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has an answer as whole words."""
    for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text):
        yield match.span()


# ---- unlabelled questions


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


# ---- SQuAD


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
            yield TrainingQuestion(question, row, start, start + len(text), "squad")


_Reader = Callable[[QuestionSource, Pools], tuple[PassagePool, Iterator[TrainingQuestion]]]
_READERS: dict[QuestionFormat, _Reader] = {
    "templates": _template_questions,
    "linked": _linked_questions,
    "questions": _question_set,
    "squad": _squad_questions,
    "unlabelled": _unlabelled_questions,
}


class Miner:
    """Finds passages of a pool that look like answers but are not, as negatives for a reader."""

    def __init__(
        self,
        pool: PassagePool,
        encoder: TextEncoder | None = None,
        passage_vectors: Callable[[Sequence[str]], Vectors] | None = None,
    ) -> None:
        """Index the pool; `passage_vectors` returns vectors of texts that were encoded before."""
        self.encoder = encoder
        self.entries = _number(pool.entries)
        # Manuals repeat themselves: the same text on another page is not a negative.
        self.texts = _number([passage.text for passage in pool.passages])

        texts = [model_text(passage) for passage in pool.passages]
        with tempfile.TemporaryDirectory() as directory:
            builder = LexicalBuilder(Path(directory))
            for text in texts:
                builder.add(text)
            builder.close()
            # Open files outlive their directory.
            self.lexical = Lexical([Postings.load(Path(directory))])

        self.vectors = None
        if encoder is not None:
            encode = passage_vectors or partial(encoder.encode, role="passage")
            self.vectors = encode(texts)

    def wrong(self, questions: Sequence[TrainingQuestion], depth: int) -> NDArray[np.int32]:
        """Return rows (len(questions), depth) of the best wrong passages, best first.

        They are those that BM25 ranks highest, without those of the question's own entry, if that is
        known. With an
        encoder the shape is (len(questions), 2 * depth): passages ranked by BM25 and by cosine, in
        turns. If fewer than `depth` passages share a word with the question, they are repeated; if
        none does, the passages after its own are used.
        """
        rows = np.arange(len(self.texts))
        lexical = (
            self.lexical.scores(self.lexical.weights(question.question), rows)
            for question in questions
        )
        rankings = [self._rank(questions, lexical, depth)]

        if self.encoder is not None and self.vectors is not None:
            texts = [question.question for question in questions]
            queries = self.encoder.encode(texts, role="query")
            rankings.append(self._rank(questions, _cosines(queries, self.vectors), depth))

        return np.stack(rankings, axis=2).reshape(len(questions), -1)

    def _rank(
        self,
        questions: Sequence[TrainingQuestion],
        scores: Iterable[NDArray[np.float32]],
        depth: int,
    ) -> list[NDArray[np.int32]]:
        return [
            self._best(passage_scores, question, depth)
            for passage_scores, question in zip(scores, questions, strict=True)
        ]

    def _best(
        self, scores: NDArray[np.float32], question: TrainingQuestion, depth: int
    ) -> NDArray[np.int32]:
        row = question.passage
        if question.labelled:
            own = (self.entries == self.entries[row]) | (self.texts == self.texts[row])
            scores = np.where(own, np.float32(0.0), scores)
        best = top(scores, depth)
        following = (row + 1 + np.arange(depth)) % len(scores)
        return np.resize(best if len(best) else following, depth).astype(np.int32)


def _cosines(queries: Vectors, passages: Vectors) -> Iterator[NDArray[np.float32]]:
    """Yield each query's cosines with all passages, computed in blocks."""
    for start in range(0, len(queries), QUERIES_PER_BLOCK):
        yield from queries[start : start + QUERIES_PER_BLOCK] @ passages.T


def _number(texts: Sequence[str]) -> NDArray[np.int64]:
    """Number the texts so that equal texts have the same number."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts])
