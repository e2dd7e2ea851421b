"""A question to a corpus -> exact answers: a search finds passages, structure ranks them, a reader marks the words."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from index.errors import InvalidInput
from index.evaluation.answers import DEPTHS, Judged, Question, judge
from index.qa.features import evidence, passage_scores
from index.qa.reader import MAX_ANSWERS, Found, Reader, Reading, logistic, readable
from index.records import Answer, Hit
from index.search.corpus import MAX_QUERY_CHARS, Corpus, Retrieved

DEPTH = 12  # passages that are read
FOUND = 100  # passages that are ranked by what their structure says
SECONDS = 2.0  # for the reader; what is not read by then keeps its place in the search
HITS = 10


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers best first, the probability (0-1) that the corpus answers the question, and the passages behind it.

    `hits` are ordered by the reader, those that it did not read last. `timings_ms` has the legs of the search,
    rank and read, in milliseconds; `read` counts the passages that were read in time. `evidence` is what `answerable`
    is calibrated on, see `index.qa.features.evidence`.
    """

    answers: tuple[Answer, ...]
    answerable: float
    hits: tuple[Hit, ...]
    read: int
    timings_ms: Mapping[str, float]
    evidence: tuple[float, ...]


def ask(
    corpus: Corpus,
    reader: Reader,
    question: str,
    *,
    k: int = 3,
    depth: int = DEPTH,
    hits: int = HITS,
    seconds: float = SECONDS,
) -> Answered:
    """The `k` best answers from the `depth` best passages, and `hits` passages.

    Raises InvalidInput for a corpus of another kind, and for a question of no words or too many.
    """
    _check(corpus, question, k)
    found, timings = corpus.passages(question, max(FOUND, depth, hits))
    started = time.monotonic()
    scores = passage_scores(question, [(one.hit, one.document) for one in found])
    order = sorted(range(len(found)), key=lambda at: (-scores[at], at))
    retrieved = [found[at] for at in order]
    passages = [
        readable(one.document, one.passage, float(scores[at] - scores[order[0]]))
        for at, one in zip(order[:depth], retrieved[:depth], strict=True)
    ]
    ranked = time.monotonic()
    reading = reader.read(question, passages, k=k, deadline=started + seconds)
    answers = tuple(_answer(one, retrieved[one.passage]) for one in reading.answers)
    best = reading.answers[0].passage if reading.answers else 0
    document = retrieved[best].document if found else None
    known = evidence(
        [one.hit for one in found], document, corpus.weights(question), reading.answerable
    )
    answerable = logistic(known, reader.settings.calibration)
    shown = corpus.highlighted(question, _reranked(retrieved, reading, hits))
    laps = {
        **timings,
        "rank": (ranked - started) * 1000,
        "read": (time.monotonic() - ranked) * 1000,
    }
    return Answered(answers, answerable, shown, reading.read, laps, known)


def _reranked(retrieved: Sequence[Retrieved], reading: Reading, k: int) -> tuple[Hit, ...]:
    """The best `k` hits by the reader's ranking, then those that it did not read, as they come."""
    order = sorted(range(reading.read), key=lambda at: (-reading.relevance[at], at))
    found = [
        replace(
            retrieved[at].hit,
            scores={**retrieved[at].hit.scores, "reader": round(float(reading.relevance[at]), 4)},
        )
        for at in order
    ]
    every = [*found, *(one.hit for one in retrieved[reading.read :])]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(every[:k], 1))


def judged(
    corpus: Corpus,
    reader: Reader | None,
    questions: Sequence[Question],
    *,
    depth: int = DEPTH,
    progress: Callable[[int], None] | None = None,
) -> list[Judged]:
    """Judge the answers to each question by `index.evaluation.answers.judge`.

    Without a reader the passages alone are judged.
    """
    results = []
    for number, question in enumerate(questions, 1):
        answers: tuple[Answer, ...] = ()
        if reader is None:
            hits = tuple(one.hit for one in corpus.passages(question.question, max(DEPTHS))[0])
            answerable = hits[0].score if hits else 0.0
        else:
            found = ask(
                corpus, reader, question.question, depth=depth, hits=max(DEPTHS), seconds=60.0
            )
            answers, hits, answerable = found.answers, found.hits, found.answerable
        passages = [(entry_of(hit), hit.text) for hit in hits]
        results.append(judge(question, passages, [answer.text for answer in answers], answerable))
        if progress is not None:
            progress(number)
    return results


def entry_of(hit: Hit) -> str:
    """Where a hit stands, wherever the reference is served from: page within its tree, `#`, anchor."""
    _, mark, anchor = (hit.location.url or "").partition("#")
    return f"{hit.location.path or hit.document_id}{mark}{anchor}"


def _answer(found: Found, one: Retrieved) -> Answer:
    passage = one.hit.text
    return Answer(
        text=passage[found.start : found.end],
        score=round(found.score, 4),
        start=found.start,
        end=found.end,
        passage_id=one.hit.id,
        title=one.document.title,
        terms=one.document.context,
        url=one.document.location.url,
        passage=passage,
    )


def _check(corpus: Corpus, question: str, k: int) -> None:
    kind = corpus.manifest.kind
    if kind != "reference":
        raise InvalidInput(
            f"Corpus {corpus.name!r} is of kind {kind}; questions need one of kind reference: search this one instead.",
            field="corpus",
        )
    if not question.strip():
        raise InvalidInput("question is empty; give it at least one word.", field="question")
    if len(question) > MAX_QUERY_CHARS:
        raise InvalidInput(
            f"question has {len(question):,} characters; at most {MAX_QUERY_CHARS:,} are allowed: shorten it.",
            field="question",
        )
    if not 1 <= k <= MAX_ANSWERS:
        raise InvalidInput(f"k is {k}; it must be 1 to {MAX_ANSWERS}.", field="k")
