from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purlin.index.qa.answer_types import candidate_spans, expected_type
from purlin.index.qa.features import SPAN_WEIGHTS
from purlin.index.qa.question import parse_question
from purlin.index.qa.reader import Packer, PassageLogits, Reader, ReadingPassage
from purlin.index.qa.signatures import Parameter, PassageStructure
from purlin.index.qa.spans import (
    MAX_ANSWER_TOKENS,
    SpanPrediction,
    best_spans,
    normalize_spans,
    probability_of_any_answer,
    spans_with_features,
    whole_words,
)
from tests.support.readers import QUESTIONS, RANGE, read_answers, word_packer

# Spans of one passage


@given(question=st.text(max_size=60), text=st.text(max_size=80), context=st.text(max_size=20))
@example(question="", text="0\r)", context="")
@settings(max_examples=150)
def test_spans_are_inside_any_text(packer: Packer, question: str, text: str, context: str) -> None:
    passage = ReadingPassage(text, context)
    (packed,) = packer.pack(question, [passage])
    rng = np.random.default_rng(len(text))
    starts, ends = rng.normal(size=(2, len(packed.ids))).astype(np.float32)
    for span in best_spans(passage, PassageLogits(packed, starts, ends, 0.0)):
        assert 0 <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip() == text[span.start : span.end]
        assert span.score <= 1e-5


def test_the_best_span_is_that_of_a_full_search(packer: Packer) -> None:
    passage = ReadingPassage("range of step is the default step it defaults to 1 if omitted")
    (packed,) = packer.pack("what", [passage])
    rng = np.random.default_rng(3)
    for _ in range(20):
        starts, ends = rng.normal(size=(2, len(packed.ids))).astype(np.float32) * 3
        tokens = range(packed.first, packed.first + len(packed.offsets))
        spans = [
            (
                starts[first] + ends[last],
                packed.offsets[first - packed.first][0],
                packed.offsets[last - packed.first][1],
            )
            for first in tokens
            for last in tokens
            if first <= last < first + MAX_ANSWER_TOKENS
        ]
        _, start, end = max(spans)
        best = best_spans(passage, PassageLogits(packed, starts, ends, 0.0))[0]
        assert (best.start, best.end) == (start, end)


def test_the_context_is_never_an_answer(packer: Packer) -> None:
    (packed,) = packer.pack("what", [RANGE])
    starts = np.zeros(len(packed.ids), dtype=np.float32)
    starts[packed.first : packed.first + 4] = 50.0
    spans = best_spans(RANGE, PassageLogits(packed, starts, starts, 0.0))
    assert all(RANGE.text[span.start : span.end] != "range" for span in spans)


@pytest.mark.parametrize(
    ("text", "start", "end", "expected"),
    [
        ("use heapify() here", 4, 8, "heapify"),
        ("returns None.", 8, 13, "None"),
        ("a, b", 1, 4, "b"),
        ("raise  ValueError :", 5, 19, "ValueError"),
        ("a standby.signal file", 10, 16, "standby.signal"),
        ("see os.path. Then", 4, 6, "os.path"),
        ("with --no-sync or -n", 10, 14, "--no-sync"),
        ("with --json is", 6, 11, "--json"),
        ("is -2 or", 4, 5, "-2"),
        ("from 3-2", 7, 8, "3-2"),
        ("(the default)", 5, 13, "default"),
        ("f(x) is", 0, 4, "f(x)"),
        ("it is [x", 6, 8, "x"),
        ("値は30秒です", 2, 4, "30"),
        ("版は2.4以降", 2, 3, "2.4"),
        ("x", 0, 0, ""),
        ("...", 0, 3, ""),
        # The bullet of an item is no sign, nor part of an option.
        ("Either of\n- -X dev", 10, 14, "-X"),
        ("- import time", 0, 8, "import"),
        ("Either:\n  - import time", 8, 18, "import"),
        ("x - y", 2, 5, "- y"),
    ],
)
def test_spans_grow_to_whole_words(text: str, start: int, end: int, expected: str) -> None:
    first, last = whole_words(text, start, end)
    assert text[first:last] == expected


@pytest.mark.parametrize("text", ["Ends here.\n\nBegins", "- one\n- two", "one two\nthree"])
def test_spans_stay_within_a_paragraph(packer: Packer, text: str) -> None:
    passage = ReadingPassage(text)
    [packed] = packer.pack("what", [passage])
    logits = np.zeros(len(packed.ids), dtype=np.float32)
    best = best_spans(passage, PassageLogits(packed, logits, logits, 0.0))
    crossing = [span for span in best if "\n" in text[span.start : span.end]]
    assert bool(crossing) == (text == "one two\nthree")


def test_unlikely_candidates_are_spans(packer: Packer) -> None:
    [packed] = packer.pack("how many step", [RANGE])
    logits = np.zeros(len(packed.ids), dtype=np.float32)
    # More tokens than are combined, none of them the number.
    logits[packed.first + 3 :][:9] = 30.0
    candidates = list(candidate_spans(expected_type("how many step"), RANGE.text))
    for spans, is_span in (([], False), (candidates, True)):
        best = best_spans(RANGE, PassageLogits(packed, logits, logits, 0.0), spans)
        assert ("1" in {RANGE.text[span.start : span.end] for span in best}) == is_span


def test_candidates_that_were_cut_off_are_not_spans(packer: Packer) -> None:
    [packed] = word_packer(16).pack("how many step", [RANGE])
    logits = np.zeros(len(packed.ids), dtype=np.float32)
    candidates = list(candidate_spans(expected_type("how many step"), RANGE.text))
    best = best_spans(RANGE, PassageLogits(packed, logits, logits, 0.0), candidates)
    assert "1" not in {RANGE.text[span.start : span.end] for span in best}


def test_spans_have_features_of_structure_and_reader(packer: Packer) -> None:
    text = "range(start, step=1)\nThe step."
    parameter = Parameter("step", (18, 19), optional=True)
    structure = PassageStructure("function", signature_end=20, parameters=(parameter,))
    passage = ReadingPassage(text, structure=structure)
    [packed] = packer.pack("which argument", [passage])
    zeros = np.zeros(len(packed.ids), dtype=np.float32)
    logits = PassageLogits(packed, zeros, zeros, 0.5)

    question = parse_question("which argument")
    features = dict(spans_with_features(question, passage, logits))
    expected = {"typed": 1.0, "optional": 1.0, "switch": 0.0, "signature": 0.0}
    assert features[13, 17] | expected == features[13, 17]
    assert features[25, 29]["typed"] == 1.0
    assert features[0, 5]["signature"] == 1.0
    assert "typed" not in features[0, 5]
    for each in features.values():
        assert each["passage_logit"] == 0.5
        assert each["span_logit"] == pytest.approx(-2 * math.log(len(packed.offsets)), abs=1e-4)
        assert each.keys() <= SPAN_WEIGHTS.keys()


# Probabilities


def test_probabilities_are_a_softmax_over_all_spans() -> None:
    scores = [[1.0, 3.0], [], [2.0]]
    spans = [
        [SpanPrediction(start, start + 1, score) for start, score in enumerate(passage_scores)]
        for passage_scores in scores
    ]
    total = sum(math.exp(score) for score in itertools.chain(*scores))
    within, probabilities = normalize_spans(spans)
    assert probabilities.sum() == pytest.approx(1.0)
    assert probabilities[1] == 0.0

    for probability, normalized, passage_scores in zip(probabilities, within, scores, strict=True):
        products = [probability * math.exp(span.score) for span in normalized]
        expected = [math.exp(score) / total for score in sorted(passage_scores, reverse=True)]
        assert products == pytest.approx(expected, rel=1e-5)


def test_passages_without_spans_are_normalized() -> None:
    assert normalize_spans([])[0] == []
    assert normalize_spans([[], []])[0] == [[], []]


def test_probability_of_any_answer_is_a_softmax_with_one_more_choice() -> None:
    powers = np.exp(np.array([1.0, -0.5, 2.0]))
    expected = powers.sum() / (1 + powers.sum())
    assert probability_of_any_answer(np.log(powers).astype(np.float32)) == pytest.approx(expected)
    assert probability_of_any_answer(np.empty(0, dtype=np.float32)) == 0.0
    assert probability_of_any_answer(np.array([-900.0], dtype=np.float32)) < 1e-6


# Answers of all passages


def test_answers_are_best_first(reader: Reader) -> None:
    passages = [
        RANGE,
        ReadingPassage("The range type represents an immutable sequence of numbers.", prior=0.4),
        ReadingPassage(""),
    ]
    result = read_answers(reader, "What is the default step?", passages, k=4)
    assert result.read_count == 3
    assert len(result.answers) == 4
    scores = [answer.score for answer in result.answers]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    for answer in result.answers:
        assert passages[answer.passage].text[answer.start : answer.end]
    assert result.relevance.sum() == pytest.approx(1.0, abs=1e-5)
    assert 0 <= result.answerable <= 1


def test_answers_do_not_overlap(reader: Reader) -> None:
    passages = [RANGE, ReadingPassage("The range type represents a sequence of numbers.")]
    answers = read_answers(reader, "What is the default step?", passages, k=6).answers
    assert len(answers) > 2
    for left, right in itertools.combinations(answers, 2):
        apart = left.end <= right.start or right.end <= left.start
        assert left.passage != right.passage or apart


def test_answers_do_not_depend_on_other_passages(reader: Reader) -> None:
    long = ReadingPassage("The start of a range " * 12)
    alone = read_answers(reader, QUESTIONS[0], [RANGE]).answers[0]
    answers = read_answers(reader, QUESTIONS[0], [long, RANGE, long], k=20).answers
    among = next(answer for answer in answers if answer.passage == 1)
    assert (alone.start, alone.end) == (among.start, among.end)


def test_no_passages_have_no_answer(reader: Reader) -> None:
    result = read_answers(reader, "What?", [])
    assert (result.answers, result.read_count, result.relevance.size) == ((), 0, 0)
    assert result.answerable < 0.5


def test_passages_not_read_in_time_have_no_relevance(reader: Reader) -> None:
    late = time.monotonic() - 1
    result = read_answers(reader, "What is it?", [RANGE] * 6, deadline=late)
    assert result.read_count == 1
    assert result.answers
    assert list(result.relevance[1:]) == [0.0] * 5


def test_priors_decide_between_equal_passages(reader_directory: Path) -> None:
    reader = Reader.load(reader_directory, threads=1)
    reader.settings = replace(reader.settings, prior_weight=1.0)
    passages = [replace(RANGE, prior=-3.0), RANGE]
    first, second = read_answers(reader, QUESTIONS[0], passages).relevance
    assert second / first == pytest.approx(math.exp(3.0), rel=1e-3)


def test_invalid_unicode_has_answers(reader: Reader) -> None:
    passages = [ReadingPassage("a \udfff b step 1")]
    assert read_answers(reader, "\ud800 what", passages).answers
