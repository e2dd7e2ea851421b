"""What a reader is trained on: questions, the passages of their references, and where the answers stand in them."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from index.encoder import TextEncoder
from index.errors import InvalidInput, NotFound
from index.evaluation.answers import Question, read_questions
from index.passages import split
from index.qa.reader import ReadingPassage, model_text, reading_passage
from index.records import Document, Passage, Skipped
from index.search.lexical import Lexical, LexicalBuilder, top
from index.sources import open_source, tables
from training.config import in_range
from training.data import templates
from training.data.backtranslation import rephraser

Format = Literal["templates", "linked", "questions", "squad"]
MAX_SAME_ANSWER = (
    0.1  # of a form's questions may have the same answer, or a reader learns to guess it
)
MIN_SAME_ANSWER = 20
MAX_FORM = (
    0.3  # of a reference's questions may be of one form, or a reader answers all as if they were
)


def check_options(
    format: str,
    reference: Path | None,
    rules: Path | None,
    translators: Sequence[str],
    leave_out: Sequence[Path],
) -> None:
    """Raise InvalidInput, naming the field, for what a source's format needs and lacks, or does not use."""
    if (format in ("linked", "questions")) != bool(reference):
        raise InvalidInput(
            "reference belongs to the formats linked and questions, which need one.",
            field="reference",
        )
    for name, value in (("rules", rules), ("translators", translators)):
        if value and format != "templates":
            raise InvalidInput(
                f"{name} belongs to the format templates, not to {format}; remove it.", field=name
            )
    if leave_out and format not in ("templates", "linked"):
        raise InvalidInput(
            "leave_out belongs to the formats templates and linked; remove it.", field="leave_out"
        )
    rephraser(translators)


def left_out(paths: Sequence[Path], documents: Iterable[Document]) -> frozenset[str]:
    """The entries that question sets ask about, to keep them out of training.

    Raises NotFound without a file and InvalidInput for a set that asks about none of the reference's documents.
    """
    known = {templates.document_entry(document) for document in documents} if paths else set[str]()
    found = frozenset[str]()
    for path in paths:
        asked = known & {
            question.entry or question.about or "" for question in read_questions(path)
        }
        if not asked:
            raise InvalidInput(
                f"{path} asks about no entry of the reference: nothing is left out.",
                field="leave_out",
            )
        found |= asked
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSource:
    """Where questions come from, as a recipe names it.

    templates: a reference's HTML, whose definitions become questions; those of `split`, which is by entry. `rules` is
    a file of templates of one's own; `translators` are two models, there and back, whose words are asked as well.
    linked: rows {title, question, entry} of questions that led to an entry of `reference`; its term is the answer.
    Of both, nothing is asked about the entries that the question sets `leave_out` ask about.
    questions: a question set over `reference`, as `index.evaluation.answers` reads them; those of
    `split` whose answer stands in their entry, and those without one that say which entry they are `about`.
    squad: rows {question, context, answers}, those without answers asking for what the context does not say.
    """

    format: Format
    path: Path
    reference: Path | None = None
    weight: float = 1.0
    limit: int | None = None
    split: str = "train"
    rules: Path | None = None
    translators: tuple[str, ...] = ()
    leave_out: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            raise InvalidInput(
                f"format must be one of {', '.join(get_args(Format))}.", field="format"
            )
        check_options(self.format, self.reference, self.rules, self.translators, self.leave_out)
        in_range("weight", self.weight, 1e-6, 100.0)
        in_range("limit", self.limit or 1, 1, 1 << 30)


@dataclass(slots=True)
class Pool:
    """Passages that are each other's negatives: those of one reference. `entries` says what each belongs to.

    Of a reference `documents` are kept, and in `places` by their ids the rows of their passages. `miner` is made once
    for all sources over it.
    """

    passages: list[ReadingPassage]
    entries: list[str]
    documents: list[Document] = field(default_factory=list)
    places: dict[str, list[tuple[int, Passage]]] = field(default_factory=dict)
    miner: Miner | None = None

    def add(self, document: Document) -> None:
        """Append a document's passages."""
        self.documents.append(document)
        self.places[document.id] = list(enumerate(split(document), len(self.passages)))
        for _, passage in self.places[document.id]:
            self.passages.append(reading_passage(document, passage))
            self.entries.append(templates.document_entry(document))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the row of the passage in its pool that answers it, and the answer's characters in its text.

    `start` and `end` are None where the passage is known to be right, but not which words of it. Where it is not
    `answered`, the passage only looks as if it did.
    """

    question: str
    passage: int
    start: int | None = None
    end: int | None = None
    form: str = ""
    answered: bool = True

    def answer(self, pool: Pool) -> str:
        """The answer's words, empty if unknown."""
        return "" if self.start is None else pool.passages[self.passage].text[self.start : self.end]


def read_asked(source: AskedSource, pools: dict[Path, Pool]) -> tuple[Pool, list[Asked]]:
    """A source's questions and their pool; pools of references are read once and kept in `pools`.

    Raises NotFound without a file and InvalidInput where nothing in it is of use.
    """
    if not source.path.exists():
        raise NotFound(f"There is no file or directory {source.path}.", field="path")
    pool, found = _READERS[source.format](source, pools)
    asked = list(itertools.islice(found, source.limit))
    if not asked:
        raise InvalidInput(
            f"{source.path} has no usable question of format {source.format}.", field="path"
        )
    return pool, asked


def _reference(path: Path, pools: dict[Path, Pool]) -> Pool:
    if path not in pools:
        pools[path] = Pool([], [])
        for file in open_source("reference", [path]):
            for found in () if isinstance(file, Skipped) else file.read():
                if isinstance(found, Document):
                    pools[path].add(found)
    return pools[path]


def _templates(source: AskedSource, pools: dict[Path, Pool]) -> tuple[Pool, Iterator[Asked]]:
    pool = _reference(source.path, pools)
    without = left_out(source.leave_out, pool.documents)
    chosen = templates.questions(
        pool.documents, source.split, source.rules, rephraser(source.translators), without
    )
    Random(0).shuffle(chosen)
    return pool, balanced(list(_varied(_placed(chosen, pool.places))))


def _placed(
    examples: Sequence[templates.Example], rows: Mapping[str, Sequence[tuple[int, Passage]]]
) -> Iterator[tuple[templates.Example, Asked]]:
    for one in examples:
        for row, passage in rows[one.document_id]:
            if passage.start <= one.start and one.end <= passage.end:
                start = one.start - passage.start
                yield one, Asked(one.question, row, start, start + one.end - one.start, one.form)


def _varied(found: Iterator[tuple[templates.Example, Asked]]) -> Iterator[Asked]:
    """Without the many questions of a form that have one answer, such as None: `MAX_SAME_ANSWER` of them may."""
    every = list(found)
    forms = Counter(asked.form for _, asked in every)
    seen: Counter[tuple[str, str]] = Counter()
    for example, asked in every:
        seen[asked.form, example.answer] += 1
        if seen[asked.form, example.answer] <= max(
            MIN_SAME_ANSWER, MAX_SAME_ANSWER * forms[asked.form]
        ):
            yield asked


def balanced(found: Sequence[Asked]) -> Iterator[Asked]:
    """Without the last questions of the most frequent form, so that it has no more than its `MAX_FORM`."""
    forms = Counter(asked.form for asked in found)
    frequent, count = forms.most_common(1)[0] if forms else ("", 0)
    others = len(found) - count
    left = round(others * MAX_FORM / (1 - MAX_FORM)) if others else count
    for asked in found:
        left -= asked.form == frequent
        if asked.form != frequent or left >= 0:
            yield asked


def _linked(source: AskedSource, pools: dict[Path, Pool]) -> tuple[Pool, Iterator[Asked]]:
    assert source.reference is not None
    pool = _reference(source.reference, pools)
    without, first = left_out(source.leave_out, pool.documents), dict[str, int]()
    for row, entry in enumerate(pool.entries):
        if entry not in without:
            first.setdefault(entry, row)
    titles = {templates.document_entry(document): document.title for document in pool.documents}

    def asked() -> Iterator[Asked]:
        for row in tables.read_rows(source.path, source.path.name):
            record = {} if isinstance(row, Skipped) else row.record
            title, entry = str(record.get("title", "")).strip(), str(record.get("entry", ""))
            if title and entry in first:
                place = first[entry]
                yield Asked(
                    title, place, *_named(pool.passages[place].text, titles[entry]), "linked"
                )

    return pool, asked()


def _named(text: str, title: str) -> tuple[int | None, int | None]:
    """Where the term stands in its own definition's first line: whole, or its last part."""
    line = text.partition("\n")[0]
    for name in (title, title.rpartition(".")[2]):
        if name and (start := line.find(name)) >= 0:
            return start, start + len(name)
    return None, None


def _questions(source: AskedSource, pools: dict[Path, Pool]) -> tuple[Pool, Iterator[Asked]]:
    assert source.reference is not None
    pool = _reference(source.reference, pools)
    places: dict[str | None, list[int]] = defaultdict(list)
    for document in pool.documents:
        places[templates.document_entry(document)] += [row for row, _ in pool.places[document.id]]
    asked = (
        _held(question, pool, places[entry])
        for question in read_questions(source.path, source.split)
        if (entry := question.entry or question.about) in places
    )
    return pool, (one for one in asked if one is not None)


def _held(question: Question, pool: Pool, rows: Sequence[int]) -> Asked | None:
    """With the first of the entry's passages that holds the first answer that one holds, as whole words.

    A question that has none looks in vain at the first passage.
    """
    if not question.answerable:
        return Asked(question.question, rows[0], form=question.form, answered=False)
    for answer in question.answers:
        for row in rows:
            if found := re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", pool.passages[row].text):
                return Asked(question.question, row, *found.span(), question.form)
    return None


def _squad(source: AskedSource, pools: dict[Path, Pool]) -> tuple[Pool, Iterator[Asked]]:
    pool, rows = Pool([], []), dict[str, int]()
    found: list[Asked] = []
    for row in tables.read_rows(source.path, source.path.name):
        record = {} if isinstance(row, Skipped) else row.record
        match record:
            case {"question": str(question), "context": str(context), "answers": list(answers)}:
                place = rows.setdefault(context, len(rows))
                if place == len(pool.passages):
                    pool.passages.append(ReadingPassage(context))
                    pool.entries.append(str(place))
                found += _of_squad(question, place, context, answers)
    return pool, iter(found)


def _of_squad(question: str, place: int, context: str, answers: Sequence[Any]) -> Iterator[Asked]:
    """By the first answer; SQuAD 2.0's questions without one ask for what the passage does not say."""
    match answers[:1]:
        case []:
            yield Asked(question, place, form="squad", answered=False)
        case [{"text": str(text), "answer_start": int(start)}] if text and context.startswith(
            text, max(start, 0)
        ):
            yield Asked(question, place, start, start + len(text), "squad")


_READERS: dict[Format, Callable[[AskedSource, dict[Path, Pool]], tuple[Pool, Iterator[Asked]]]] = {
    "templates": _templates,
    "linked": _linked,
    "questions": _questions,
    "squad": _squad,
}


class Miner:
    """Finds the passages of a pool that look like answers but are not: what a reader has to tell from the right one."""

    def __init__(self, pool: Pool, encoder: TextEncoder | None = None) -> None:
        self.encoder, self.entries = encoder, _numbered(pool.entries)
        self.texts = _numbered(
            [passage.text for passage in pool.passages]
        )  # manuals repeat themselves on other pages
        seen = [model_text(passage) for passage in pool.passages]
        with tempfile.TemporaryDirectory() as work:
            builder = LexicalBuilder()
            for text in seen:
                builder.add(text)
            builder.save(Path(work))
            self.lexical = Lexical.load(Path(work))
        self.vectors = None if encoder is None else encoder.encode(seen, role="passage")

    def wrong(self, asked: Sequence[Asked], depth: int) -> NDArray[np.int32]:
        """Rows (len(asked), depth), best first: for each question the passages that BM25 finds best, but for those of
        its entry. With an encoder (len(asked), 2 * depth): by turns one of BM25's and one of the nearest by cosine.

        Where fewer than `depth` share a word with the question they are repeated; where none does, the passages that
        follow its own stand in.
        """
        found = [
            [
                self._best(self.lexical.scores(self.lexical.weights(one.question)), one, depth)
                for one in asked
            ]
        ]
        if self.encoder is not None and self.vectors is not None:
            vectors = self.encoder.encode([one.question for one in asked], role="query")
            near = (self.vectors @ vector for vector in vectors)
            found.append(
                [self._best(scores, one, depth) for scores, one in zip(near, asked, strict=True)]
            )
        return np.stack(found, axis=2).reshape(len(asked), -1)

    def _best(self, scores: NDArray[np.float32], one: Asked, depth: int) -> NDArray[np.int32]:
        own = (self.entries == self.entries[one.passage]) | (self.texts == self.texts[one.passage])
        best = top(np.where(own, np.float32(0.0), scores), depth)
        follow = (one.passage + 1 + np.arange(depth)) % len(scores)
        return np.resize(best if len(best) else follow, depth).astype(np.int32)


def _numbered(texts: Sequence[str]) -> NDArray[np.int64]:
    """The same number for the same text."""
    numbers = dict[str, int]()
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts])
