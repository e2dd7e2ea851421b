"""Answer a question from a reference.

Search retrieves passages, features rank them, and a reader marks the words that answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from purlin.index.encoder import translator
from purlin.index.errors import InvalidInput
from purlin.index.qa.features import calibrated_probability, calibration_features, passage_scores
from purlin.index.qa.question import ParsedQuestion, parse_question
from purlin.index.qa.reader import Reader, ReadingPassage, reading_passage
from purlin.index.qa.spans import RankedAnswer, ReadingResult, rank_answers
from purlin.index.qa.translation import foreign_question, is_english
from purlin.index.records import Answer, Excerpt, Hit
from purlin.index.search.corpus import Corpus, PassageResult
from purlin.index.search.hits import Retrieved
from purlin.index.search.limits import check_query
from purlin.index.search.store.filters import Filter

READ_DEPTH = 12  # passages that are read at most
MAX_BEHIND = 4.0  # log odds that a passage may be behind the best one, to be read
RANKED_DEPTH = 100  # passages that are ranked by their features
# So many passages tell the language of a reference. Where it is translated, some may not be yet.
LANGUAGE_DEPTH, ENGLISH_SHARE = 20, 0.8
READING_SECONDS = 2.0  # passages not read by then are not searched for answers
DEFAULT_HITS = 10
MAX_ANSWERS = 20
UNLIKELY = 0.5  # below this `answerable`, a corpus probably has no answer


@dataclass(frozen=True, slots=True)
class AskResult:
    """Answers, best first, with the probability (0-1) that the corpus has an answer.

    `answer_type` is the name of the type that the question's wording asks for: `sentence` if it wants
    a statement. `hits` are passages: the `read_count` that the reader read in time, in its order, then
    the others. `timings_ms` maps the steps of the search, "rank" and "read" to their milliseconds.
    `answerable` was computed from the `calibration_features`. `warning` is present if only one of two
    retrievers answered. `read_as` is how a question in another language than English was read: what it
    asks for in English, and its other words translated one by one, or as they are written where the
    reference is in that language, too.
    """

    answers: tuple[Answer, ...]
    answerable: float
    answer_type: str
    hits: tuple[Hit, ...]
    read_count: int
    timings_ms: Mapping[str, float]
    calibration_features: tuple[float, ...]
    warning: str | None = None
    read_as: str | None = None


def answer_question(
    corpus: Corpus,
    reader: Reader,
    question: str,
    *,
    k: int = 3,
    filter: Filter | None = None,
    depth: int = READ_DEPTH,
    max_hits: int = DEFAULT_HITS,
    seconds: float = READING_SECONDS,
) -> AskResult:
    """Return the `k` best answers from the `depth` best passages, and `max_hits` passages as hits.

    All come from documents that pass the filter. Passages that are not read within `seconds` are not
    searched for answers. Raises InvalidInput for a corpus of another kind, for a question that is
    empty, too long or not valid Unicode, and for a `k` out of range.
    """
    _check(corpus, question, k)

    # Search, then rank what it found by the structure of the reference.
    count = max(RANKED_DEPTH, depth, max_hits)
    searched, read_as, english_words = _search(corpus, question, count, filter)
    started = time.monotonic()
    parsed = parse_question(read_as)
    ranked, priors = _ranked_by_structure(parsed, searched.passages)

    # Read the best passages.
    passages = passages_to_read(ranked, priors, depth)
    reading_started = time.monotonic()
    logits = reader.read(read_as, passages, deadline=started + seconds)
    settings = reader.settings
    word_weights = corpus.weights(question, english_words)
    reading = rank_answers(
        parsed, passages, logits, prior_weight=settings.prior_weight, word_weights=word_weights, k=k
    )

    # Estimate whether there is an answer at all.
    features = _features(ranked, reading, passages, word_weights)

    all_words = f"{question} {english_words}".strip()
    return AskResult(
        answers=tuple(_answer(answer, ranked[answer.passage]) for answer in reading.answers),
        answerable=calibrated_probability(features, settings.calibration),
        answer_type=parsed.answer_type.name,
        hits=corpus.highlighted(all_words, _reordered_hits(ranked, reading, max_hits)),
        read_count=reading.read_count,
        timings_ms={
            **searched.timings_ms,
            "rank": (reading_started - started) * 1000,
            "read": (time.monotonic() - reading_started) * 1000,
        },
        calibration_features=features,
        warning=searched.warning,
        read_as=None if read_as == question else read_as,
    )


def _search(
    corpus: Corpus, question: str, count: int, filter: Filter | None
) -> tuple[PassageResult, str, str]:
    """Return `count` passages, how the question is read, and the English words that it was searched by.

    The latter are empty if it was searched as it is written: if it is English, or the passages are not.
    """
    foreign = foreign_question(translator(), question)
    if foreign is None:
        return corpus.passages(question, count, filter=filter), question, ""

    searched = corpus.passages(question, count, filter=filter, in_english=foreign.in_english)
    texts = [passage.hit.text for passage in searched.passages[:LANGUAGE_DEPTH]]
    if sum(is_english(translator(), text) for text in texts) >= ENGLISH_SHARE * len(texts):
        return searched, foreign.in_english, foreign.in_english
    return corpus.passages(question, count, filter=filter), foreign.as_written, ""


def _ranked_by_structure(
    parsed: ParsedQuestion, retrieved: Sequence[Retrieved]
) -> tuple[list[Retrieved], list[float]]:
    """Return the passages, best first, and their priors: log odds relative to the best one's.

    Of those with the same content, only the best one is kept.
    """
    scores = passage_scores(parsed, [(passage.hit, passage.document) for passage in retrieved])
    order = sorted(range(len(retrieved)), key=lambda row: (-scores[row], row))
    # A manual may have a section both on a page of its own and on one with all sections.
    originals: dict[tuple[object, ...], int] = {}
    for row in order:
        originals.setdefault(_content(retrieved[row]), row)

    priors = [float(scores[row] - scores[order[0]]) for row in originals.values()]
    return [retrieved[row] for row in originals.values()], priors


def _content(passage: Retrieved) -> tuple[object, ...]:
    """All that the reader reads of a passage, and the headings above it."""
    document = passage.document
    headings = document.fields.get("headings")
    return document.title, document.context, headings, passage.hit.text


def passages_to_read(
    ranked: Sequence[Retrieved], priors: Sequence[float], depth: int = READ_DEPTH
) -> list[ReadingPassage]:
    """Return the first of the `ranked` passages as the reader sees them, `depth` at most.

    `priors` are their log odds relative to the best one's. Passages that are more than `MAX_BEHIND`
    behind it are left out: they have answered none of the tuning questions.
    """
    return [
        reading_passage(each.document, each.passage, prior)
        for each, prior in zip(ranked[:depth], priors, strict=False)
        if prior >= -MAX_BEHIND
    ]


def _features(
    ranked: Sequence[Retrieved],
    reading: ReadingResult,
    passages: Sequence[ReadingPassage],
    word_weights: Mapping[str, float],
) -> tuple[float, ...]:
    """Return what tells whether there is an answer, from the document of the best one or the first passage."""
    best = reading.answers[0].passage if reading.answers else 0
    return calibration_features(
        [passage.hit for passage in ranked],
        ranked[best].document if ranked else None,
        word_weights,
        reading.answerable,
        [passage.prior for passage in passages],
    )


def _reordered_hits(
    ranked: Sequence[Retrieved], reading: ReadingResult, limit: int
) -> tuple[Hit, ...]:
    """Return the first `limit` hits: by the reader's relevance, then those that it did not read."""
    read_rows = sorted(range(reading.read_count), key=lambda row: (-reading.relevance[row], row))
    hits = []
    for row in read_rows:
        hit = ranked[row].hit
        relevance = round(float(reading.relevance[row]), 4)
        hits.append(replace(hit, scores={**hit.scores, "reader": relevance}))

    hits += [passage.hit for passage in ranked[reading.read_count :]]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits[:limit], 1))


def _answer(answer: RankedAnswer, retrieved: Retrieved) -> Answer:
    text = retrieved.hit.text
    document = retrieved.document

    return Answer(
        text=text[answer.start : answer.end],
        score=round(answer.score, 4),
        start=answer.start,
        end=answer.end,
        passage_id=retrieved.hit.id,
        title=document.title,
        terms=document.context,
        url=document.location.url,
        passage=text,
        sentence=answer.sentence and Excerpt(text[slice(*answer.sentence)], *answer.sentence),
    )


def _check(corpus: Corpus, question: str, k: int) -> None:
    kind = corpus.manifest.kind
    if kind != "reference":
        raise InvalidInput(
            f"Corpus {corpus.name!r} is of kind {kind}; questions need one of kind reference: "
            "search this one instead.",
            field="corpus",
        )

    check_query(question, field="question")
    if not 1 <= k <= MAX_ANSWERS:
        raise InvalidInput(f"k is {k}; it must be 1 to {MAX_ANSWERS}.", field="k")
