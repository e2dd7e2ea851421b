"""Judge the answers of a corpus to questions whose answers are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from purlin.index.evaluation.answers import DEPTHS, JudgedAnswer, Question, judge
from purlin.index.qa.ask import READ_DEPTH, answer_question
from purlin.index.qa.reader import Reader
from purlin.index.records import Answer, Hit
from purlin.index.search.corpus import Corpus

SECONDS_PER_QUESTION = 60.0  # enough to read every passage, so that results do not vary


def judge_corpus(
    corpus: Corpus,
    reader: Reader | None,
    questions: Sequence[Question],
    *,
    depth: int = READ_DEPTH,
    progress: Callable[[int], None] | None = None,
) -> list[JudgedAnswer]:
    """Answer each question and judge the result; without a reader, judge the passages alone.

    `progress` is called with the number of questions judged so far.
    """
    judged = []
    for number, question in enumerate(questions, 1):
        answers, hits, answerable = _answers(corpus, reader, question.question, depth)
        passages = [(hit_entry(hit), hit.text) for hit in hits]
        texts = [answer.text for answer in answers]
        best = answers[0] if answers else None
        entry = answer_entry(best, hits) if best else None
        sentence = best.sentence.text if best and best.sentence else ""
        judged.append(judge(question, passages, texts, answerable, entry, sentence))

        if progress is not None:
            progress(number)
    return judged


def _answers(
    corpus: Corpus, reader: Reader | None, question: str, depth: int
) -> tuple[tuple[Answer, ...], tuple[Hit, ...], float]:
    if reader is None:
        hits = tuple(item.hit for item in corpus.passages(question, max(DEPTHS)).passages)
        return (), hits, hits[0].score if hits else 0.0

    result = answer_question(
        corpus, reader, question, depth=depth, max_hits=max(DEPTHS), seconds=SECONDS_PER_QUESTION
    )
    return result.answers, result.hits, result.answerable


def answer_entry(answer: Answer, hits: Sequence[Hit]) -> str | None:
    """Return the entry whose passage contains the answer; None if it is not among the hits."""
    return next((hit_entry(hit) for hit in hits if hit.id == answer.passage_id), None)


def hit_entry(hit: Hit) -> str:
    """Return a hit's entry as question sets name it: the page's path, `#`, the anchor.

    The URL that the reference is served from does not matter.
    """
    _, mark, anchor = (hit.location.url or "").partition("#")
    return f"{hit.location.path or hit.document_id}{mark}{anchor}"
