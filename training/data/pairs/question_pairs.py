"""Pairs from questions over references: by template, from question sets, and from links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from purlin.index.errors import InvalidInput
from purlin.index.records import Document
from purlin.index.texts.passages import render, split
from purlin.training.data.pairs.documents import read_documents
from purlin.training.data.pairs.pair import Draft, Drafts, Pair, PairSource
from purlin.training.data.pairs.rows import Record, optional_text, pairs_from_rows, required_text
from purlin.training.data.questions.backtranslation import rephraser
from purlin.training.data.questions.reader_questions import load_questions
from purlin.training.data.questions.sources import QuestionSource, excluded_entries
from purlin.training.data.questions.splitting import SplitReference, read_split
from purlin.training.data.templates import generation

# Of a passage, there and back: a hundred words of code may have four tokens each.
MAX_TRANSLATED_TOKENS = 512


def template_pairs(source: PairSource) -> Drafts:
    """Make questions by template about the entries of the source's split.

    Each passage is paired with all the questions that it answers. With a splitter, they are those
    whose answer and described sentence it has, as in the paper (section 3.5).
    """
    reference = read_split(source.path, source.splitter)
    yield from reference.skipped

    translates_pairs = source.translate == "pairs"
    examples = generation.questions(
        reference.definitions,
        source.split,
        source.rules,
        None if translates_pairs else rephraser(source.translators),
        excluded_entries(source.leave_out, reference.definitions),
        originals=source.originals or translates_pairs,
    )

    # All questions that a passage answers are queries of the same pair.
    queries: dict[int, list[str]] = defaultdict(list)
    for example in examples:
        row = _row_of(example, reference, is_served=source.splitter is None)
        if row is not None:
            queries[row].append(example.question)

    drafts: list[Draft] = []
    for row, questions in queries.items():
        document, passage = reference.passages[row]
        pair = Pair(tuple(questions), render(document, passage), "reference")
        drafts.append(Draft(pair, document.location.path or document.id))

    if source.originals or not translates_pairs:
        yield from drafts
    if translates_pairs:
        yield from translated_pairs(drafts, source.translators)


def translated_pairs(drafts: Sequence[Draft], translators: Sequence[str]) -> Drafts:
    """Yield pairs with question and passage both translated there and back.

    A question is left out, and so are all of a passage, if the translation says the same as before
    (reference QA, section 3.5.1).
    """
    rephrase = rephraser(translators, max_tokens=MAX_TRANSLATED_TOKENS)
    assert rephrase is not None
    questions = list(dict.fromkeys(query for draft in drafts for query in draft.pair.queries))
    returned = dict(zip(questions, rephrase(questions), strict=True))
    passages = rephrase([draft.pair.passage for draft in drafts])

    for draft, passage in zip(drafts, passages, strict=True):
        queries = tuple(text for query in draft.pair.queries if (text := returned[query]))
        if passage and queries:
            yield Draft(replace(draft.pair, queries=queries, passage=passage), draft.path)


def _row_of(
    example: generation.Example, reference: SplitReference, *, is_served: bool
) -> int | None:
    """Return the first passage with an example's answer, or with the beginning of it if served."""
    if is_served:
        places = reference.locate(example.document_id, example.start, example.start + 1)
        return next((row for row, _ in places), None)

    answer = reference.locate(example.document_id, example.start, example.end)
    sentence = example.described
    described = reference.locate(example.document_id, sentence.start, sentence.end)
    common = {row for row, _ in answer} & {row for row, _ in described}
    return min(common, default=None)


def question_set_pairs(source: PairSource) -> Drafts:
    """Pair the answerable questions of the source's split with the passages that answer them."""
    question_source = QuestionSource(
        format="questions",
        path=source.path,
        reference=source.reference,
        split=source.split,
        splitter=source.splitter,
        leave_out=source.leave_out,
    )
    pool, questions = load_questions(question_source, {})

    # A question without an answer has no relevant passage.
    for question in questions:
        if question.answered:
            passage = render(*pool.reference.passages[question.passage])
            yield Draft(Pair((question.question,), passage, "reference"), source.path.name)


def linked_pairs(source: PairSource) -> Drafts:
    """Pair people's questions with the first passage of the entry that an answer links to."""
    assert source.reference is not None
    documents = [
        document
        for document in read_documents("reference", source.reference)
        if isinstance(document, Document)
    ]

    passages: dict[str, str] = {}
    for document in documents:
        first = split(document)[0]
        passages.setdefault(generation.document_entry(document), render(document, first))
    excluded = excluded_entries(source.leave_out, documents)

    def linked_pair(record: Record, source: PairSource) -> Pair:
        title = required_text(record, ("title",), "question")
        entry = required_text(record, ("entry",), "entry")
        if entry not in passages:
            raise InvalidInput("its entry is not in the reference")
        if entry in excluded:
            raise InvalidInput("its entry is left out")

        # People search with a title alone and with the whole text.
        full_question = f"{title}\n{optional_text(record, ('question',))}".strip()
        return Pair((title, full_question), passages[entry], "reference")

    yield from pairs_from_rows(source, linked_pair)
