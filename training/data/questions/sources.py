"""Where questions come from, as recipes name it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from purlin.index.errors import InvalidInput
from purlin.index.evaluation.answers import read_questions
from purlin.index.records import Document, Splitter
from purlin.training.config import check_ranges, ranged
from purlin.training.data.questions.backtranslation import rephraser
from purlin.training.data.templates import generation
from purlin.training.data.templates.rules import RulesChoice

QuestionFormat = Literal["templates", "linked", "questions", "squad", "unlabelled"]
WITH_REFERENCE = ("linked", "questions", "unlabelled", "searches")
WITH_LEAVE_OUT = ("templates", "linked", "questions", "unlabelled")


def check_options(
    format: str,
    reference: Path | None,
    rules: RulesChoice | None,
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

    entries = {generation.document_entry(document) for document in documents}
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
    does (`purlin.training.data.questions.splitting`); by default they are those that are served.
    """

    format: QuestionFormat
    path: Path
    reference: Path | None = None
    weight: float = ranged(1.0, 1e-6, 100.0)
    limit: int | None = ranged(None, 1, 1 << 30)
    split: str = "train"
    rules: RulesChoice | None = None
    translators: tuple[str, ...] = ()
    leave_out: tuple[Path, ...] = ()
    splitter: Splitter | None = None
    distilled: bool = True

    def __post_init__(self) -> None:
        check_ranges(self)
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
