"""Rank answer spans by the reader's logits and the features of passages and spans.

Eq. 1-3 are those of the paper on reference QA. Eq. 3's softmax over the passages has one more
choice here, "none of them", with a logit of 0, so the model can say that no passage answers.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from purlin.index.qa.candidates import may_answer, span_candidates
from purlin.index.qa.features import span_features, span_score
from purlin.index.qa.question import ParsedQuestion
from purlin.index.qa.reader import (
    MIN_SPAN_LOGIT,
    Floats,
    PassageLogits,
    ReadingPassage,
    TokenScores,
)
from purlin.index.qa.sentences import (
    sentence_features,
    sentence_of_answer,
    sentence_score,
)
from purlin.index.qa.signatures import CharSpan
from purlin.index.texts.unspaced import is_unspaced

MAX_ANSWER_TOKENS = 24
NO_SPANS_SCORE = -1e9  # of a passage without spans: far below all others
FOREIGN_MODULE = 1.5  # log odds that a name loses if it is the module of no passage
_TOP_TOKENS = 8  # so many best start tokens of a passage are combined with as many end tokens

_WORD = re.compile(r"\w")
_JOINTS = frozenset(".-")  # between the parts of a word, as in `standby.signal` and `--no-sync`
# Between paragraphs, and between the items of a list.
_BLOCK_END = re.compile(r"\n[^\S\n]*(?:\n|[-*•](?: |\Z))")
_BULLET = re.compile(r"[-*•] (?=\S)")
_SIGN = re.compile(r"(?:^|[\s(\[='\"])(?P<sign>--?)[\w-]$")


@dataclass(frozen=True, slots=True)
class SpanPrediction:
    """Characters `start` to `end` of a passage's text, with the log of a probability or odds."""

    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class RankedAnswer:
    """Characters `start` to `end` of the passage with the number `passage`.

    `score` (0-1) is comparable across questions. `sentence` is the span of the sentence that the answer
    is shown with.
    """

    passage: int
    start: int
    end: int
    score: float
    sentence: CharSpan | None = None


@dataclass(frozen=True, slots=True)
class ReadingResult:
    """What the reader made of a question and its passages.

    `answers` are best first and do not overlap. `answerable` is eq. 3's probability (0-1) that any
    of the passages answers. `relevance` (n,) has each passage's probability. It is 0 for those after
    the first `read_count`, which were not read in time.
    """

    answers: tuple[RankedAnswer, ...]
    answerable: float
    relevance: Floats
    read_count: int


def rank_answers(
    question: ParsedQuestion,
    passages: Sequence[ReadingPassage],
    logits: Sequence[PassageLogits],
    *,
    prior_weight: float,
    word_weights: Mapping[str, float],
    k: int,
) -> ReadingResult:
    """Return the `k` best answers; `logits` may lack the last passages, which were not read.

    A span's score is the sum of the passage's prior, times `prior_weight`, and the weighted features.
    If the question wants a statement, the spans are sentences. `word_weights` maps the question's
    tokens to their idf.
    """
    score = sentence_score if question.statement else span_score
    scored_passages = []
    for passage, passage_logits in zip(passages, logits, strict=False):
        prior = prior_weight * passage.prior
        # Sentences compete for a statement, spans for a value.
        competing = (
            sentence_features(question, passage, passage_logits, word_weights)
            if question.statement
            else spans_with_features(question, passage, passage_logits)
        )
        scored_passages.append(
            [SpanPrediction(*span, prior + score(features)) for span, features in competing]
        )
    if question.answer_type.name == "module":
        scored_passages = merge_modules(scored_passages, passages)
    spans, probabilities = normalize_spans(scored_passages)

    # Passages that were not read keep a relevance of 0.
    relevance = np.zeros(len(passages), dtype=np.float32)
    relevance[: len(probabilities)] = probabilities
    selected = np.array([each.selected for each in logits], dtype=np.float32)

    def with_sentence(answer: RankedAnswer) -> RankedAnswer:
        passage, passage_logits = passages[answer.passage], logits[answer.passage]
        span = (answer.start, answer.end)
        sentence = sentence_of_answer(question, passage, passage_logits, word_weights, span)
        return replace(answer, sentence=sentence)

    answers = map(with_sentence, _best_answers(spans, probabilities, k))
    return ReadingResult(
        tuple(answers), probability_of_any_answer(selected), relevance, len(logits)
    )


def merge_modules(
    scored: Sequence[Sequence[SpanPrediction]], passages: Sequence[ReadingPassage]
) -> list[list[SpanPrediction]]:
    """Merge all spans of the same name into one, whose odds are the sum of theirs.

    Many passages of a module contain its name. The span in the section that introduces the module is
    kept if that was read, else the likeliest one. A name that is the module of no passage loses
    `FOREIGN_MODULE`.
    """
    modules = {passage.structure.module for passage in passages}
    mentions: dict[str, list[tuple[bool, float, int, SpanPrediction]]] = defaultdict(list)
    for number, (passage, spans) in enumerate(zip(passages, scored, strict=False)):
        structure = passage.structure
        introduces = structure.directive in ("module", "section")
        for span in spans:
            name = passage.text[span.start : span.end]
            own = introduces and name == structure.module
            mentions[name].append((own, span.score, number, span))

    merged: list[list[SpanPrediction]] = [[] for _ in scored]
    for name, spans_of_name in mentions.items():
        _, _, number, span = max(spans_of_name, key=lambda mention: mention[:2])
        score = _log_sum([mention[1] for mention in spans_of_name])
        penalty = 0.0 if name in modules else FOREIGN_MODULE
        merged[number].append(SpanPrediction(span.start, span.end, score - penalty))
    return merged


def spans_with_features(
    question: ParsedQuestion, passage: ReadingPassage, logits: PassageLogits
) -> Iterator[tuple[CharSpan, dict[str, float]]]:
    """Yield the spans of a passage, each with its features, the reader's logits among them."""
    text, structure = passage.text, passage.structure
    candidates = span_candidates(question, text, structure)

    for span in best_spans(passage, logits, candidates):
        location = (span.start, span.end)
        if not may_answer(question, text[slice(*location)]):
            continue
        features = span_features(question, text, structure, location, candidates.get(location))
        features["passage_logit"] = logits.selected
        features["span_logit"] = max(span.score, MIN_SPAN_LOGIT)
        yield location, features


# -- spans of one passage


def best_spans(
    passage: ReadingPassage, logits: PassageLogits, candidates: Collection[CharSpan] = ()
) -> list[SpanPrediction]:
    """Return the spans of a passage's text, best first, by eq. 1 and 2.

    They are the combinations of the best start and end tokens, if in order, not too long and within a
    paragraph, and the `candidates`, however unlikely. Scores are log probabilities.
    """
    token_scores = TokenScores(passage, logits)
    offsets = token_scores.offsets
    allowed = np.array([0 <= first < last for first, last in offsets], dtype=bool)

    scores: dict[CharSpan, float] = {}
    for first, last in _token_pairs(token_scores.start, token_scores.end, allowed):
        span = whole_words(passage.text, offsets[first][0], offsets[last][1])
        if _BLOCK_END.search(passage.text, *span):
            continue
        score = float(token_scores.start[first] + token_scores.end[last])
        scores[span] = max(score, scores.get(span, -math.inf))

    # Candidates get the probability of their tokens, be it ever so low.
    for span in candidates:
        candidate_score = token_scores.of(span)
        if candidate_score is not None:
            scores.setdefault(span, candidate_score)

    spans = [SpanPrediction(*span, score) for span, score in scores.items() if span[0] < span[1]]
    return sorted(spans, key=lambda span: -span.score)


def _token_pairs(start: Floats, end: Floats, allowed: NDArray[np.bool_]) -> Iterator[CharSpan]:
    """Yield the pairs of a likely first and a likely last token that make a span."""
    last_tokens = _top_tokens(end, allowed)
    for first in _top_tokens(start, allowed):
        for last in last_tokens:
            if first <= last < first + MAX_ANSWER_TOKENS:
                yield first, last


def _top_tokens(scores: Floats, allowed: NDArray[np.bool_]) -> list[int]:
    order = np.argsort(np.where(allowed, -scores, np.inf), kind="stable")[:_TOP_TOKENS]
    return [int(token) for token in order if allowed[token]]


def whole_words(text: str, start: int, end: int) -> CharSpan:
    """Grow a span to whole words, then trim white space and punctuation at its ends.

    Names with dots and hyphens are words, and so are options and negative numbers.
    """
    while _is_inside_word(text, start):
        start -= 1
    while _is_inside_word(text, end):
        end += 1
    if sign := _SIGN.search(text[max(0, start - 3) : start + 1]):
        start -= len(sign["sign"])

    start, end = _without_open_brackets(text, *_trimmed(text, start, end))
    return _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> CharSpan:
    """Cut white space, stops and commas of the sentence at both ends, and the bullet of an item."""
    while start < end and (
        text[start].isspace() or text[start] in ",;:" or _is_bullet(text, start, end)
    ):
        start += 1
    while start < end and (text[end - 1].isspace() or text[end - 1] in ",;:."):
        end -= 1
    return start, end


def _is_bullet(text: str, start: int, end: int) -> bool:
    """Return whether an item of a list begins, indented or not."""
    indent = text[text.rfind("\n", 0, start) + 1 : start]
    return not indent.strip() and _BULLET.match(text, start, end) is not None


def _without_open_brackets(text: str, start: int, end: int) -> CharSpan:
    """Cut a bracket at either end whose partner is outside of the span: `default)`."""
    for opening, closing in ("()", "[]", "{}"):
        answer = text[start:end]
        if answer.endswith(closing) and answer.count(closing) > answer.count(opening):
            end -= 1
        elif answer.startswith(opening) and answer.count(opening) > answer.count(closing):
            start += 1
    return start, end


def _is_inside_word(text: str, position: int) -> bool:
    """Return whether a word goes on at a position: `na|me`, `file|.name` or `file.|name`."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]

    # The character on the other side of a joint must belong to the word, too.
    if before in _JOINTS and position > 1:
        before = text[position - 2]
    elif after in _JOINTS and position + 1 < len(text):
        after = text[position + 1]
    if is_unspaced(before) != is_unspaced(after):
        return False
    return _WORD.match(before) is not None and _WORD.match(after) is not None


# -- spans of all passages


def normalize_spans(
    spans: Sequence[Sequence[SpanPrediction]],
) -> tuple[list[list[SpanPrediction]], Floats]:
    """Normalize log odds over the spans of all passages.

    Returns each passage's spans, best first, with log probabilities within the passage, and the
    probabilities (n,) of the passages.
    """
    sums = [_log_sum([span.score for span in passage_spans]) for passage_spans in spans]

    within = []
    for passage_spans, log_sum in zip(spans, sums, strict=True):
        normalized = [
            SpanPrediction(span.start, span.end, span.score - log_sum) for span in passage_spans
        ]
        within.append(sorted(normalized, key=lambda span: -span.score))

    probabilities = np.exp(np.array(sums, dtype=np.float64) - _log_sum(sums))
    return within, probabilities.astype(np.float32)


def _log_sum(scores: Sequence[float]) -> float:
    """Return the log of the sum of exponentials; NO_SPANS_SCORE for no scores."""
    if not scores:
        return NO_SPANS_SCORE
    # Subtracting the highest score keeps the exponentials finite.
    highest = max(scores)
    return highest + math.log(sum(math.exp(score - highest) for score in scores))


def _best_answers(
    spans: Sequence[Sequence[SpanPrediction]], probabilities: Floats, k: int
) -> list[RankedAnswer]:
    """Return the `k` most probable spans, without those that overlap better ones."""
    candidates = [
        RankedAnswer(number, span.start, span.end, float(probability) * math.exp(span.score))
        for number, (passage_spans, probability) in enumerate(
            zip(spans, probabilities, strict=True)
        )
        for span in passage_spans
    ]
    candidates.sort(key=lambda answer: (-answer.score, answer.passage, answer.start))

    answers: list[RankedAnswer] = []
    for candidate in candidates:
        if len(answers) == k:
            break
        if not any(_overlap(candidate, answer) for answer in answers):
            answers.append(candidate)
    return answers


def _overlap(first: RankedAnswer, second: RankedAnswer) -> bool:
    is_apart = first.end <= second.start or second.end <= first.start
    return first.passage == second.passage and not is_apart


def probability_of_any_answer(logits: Floats) -> float:
    """Return eq. 3's probability that any passage answers, from the passages' logits (n,)."""
    if not len(logits):
        return 0.0
    log_sum = _log_sum(logits.tolist())
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, log_sum))))
