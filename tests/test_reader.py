from __future__ import annotations

import json
import math
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import BertPreTokenizer

from index.errors import Damaged, NotFound
from index.qa.answer_types import candidates, expected
from index.qa.features import SPAN, Sought
from index.qa.reader import (
    MAX_ANSWER_TOKENS,
    SETTINGS,
    Packer,
    Readable,
    Reader,
    Settings,
    Span,
    any_answer,
    best_spans,
    logistic,
    normalized,
    readable,
    shown,
    span_clues,
    whole_words,
)
from index.qa.signatures import Entry, Parameter
from index.records import Document, Passage
from tests.readers import QUESTIONS

WORDS = [
    "[CLS]",
    "[SEP]",
    "[UNK]",
    "[PAD]",
    *"what is the default step of range it defaults to 1 if omitted".split(),
]
RANGE = Readable("If step is omitted, it defaults to 1.", "range\nrange.step")


@pytest.fixture(scope="module")
def packer() -> Packer:
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return Packer(tokenizer, 40)


@pytest.fixture(scope="module")
def reader(reader_directory: Path) -> Reader:
    return Reader.load(reader_directory, threads=2)


def test_a_sequence_is_question_and_passage_with_the_characters_of_its_tokens(
    packer: Packer,
) -> None:
    (packed,) = packer.pack("what is the default step", [RANGE])
    text = shown(RANGE)
    assert [WORDS[number] for number in packed.ids[:8]] == [
        "[CLS]", "what", "is", "the", "default", "step", "[SEP]", "range",
    ]  # fmt: skip
    assert packed.first == 7
    assert WORDS[packed.ids[-1]] == "[SEP]"
    read = [text[start:end] for start, end in packed.offsets]
    assert read[:4] == ["range", "range", ".", "step"]
    assert read[-3:] == ["to", "1", "."]
    assert len(packed.ids) == packed.first + len(packed.offsets) + 1


def test_what_is_too_long_is_cut_the_question_to_a_third(packer: Packer) -> None:
    (packed,) = packer.pack("what " * 500, [Readable("step " * 500)])
    assert len(packed.ids) == packer.max_tokens
    assert packed.first == packer.max_tokens // 3 + 2


@given(question=st.text(max_size=60), text=st.text(max_size=80), before=st.text(max_size=20))
@settings(max_examples=150, deadline=None)
def test_spans_are_stretches_of_the_text_whatever_it_holds(
    packer: Packer, question: str, text: str, before: str
) -> None:
    passage = Readable(text, before)
    (packed,) = packer.pack(question, [passage])
    rng = np.random.default_rng(len(text))
    starts, ends = rng.normal(size=(2, len(packed.ids))).astype(np.float32)
    for span in best_spans(starts, ends, packed, passage):
        assert 0 <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip() == text[span.start : span.end]
        assert span.score <= 1e-5


def test_the_best_span_is_that_of_a_search_over_all(packer: Packer) -> None:
    passage = Readable("range of step is the default step it defaults to 1 if omitted")
    (packed,) = packer.pack("what", [passage])
    rng = np.random.default_rng(3)
    for _ in range(20):
        starts, ends = rng.normal(size=(2, len(packed.ids))).astype(np.float32) * 3
        inside = range(packed.first, packed.first + len(packed.offsets))
        every = [
            (
                starts[first] + ends[last],
                packed.offsets[first - packed.first][0],
                packed.offsets[last - packed.first][1],
            )
            for first in inside
            for last in inside
            if first <= last < first + MAX_ANSWER_TOKENS
        ]
        _, start, end = max(every)
        best = best_spans(starts, ends, packed, passage)[0]
        assert (best.start, best.end) == (start, end)


def test_words_that_enclose_the_passage_are_read_but_never_an_answer(packer: Packer) -> None:
    (packed,) = packer.pack("what", [RANGE])
    starts = np.zeros(len(packed.ids), dtype=np.float32)
    starts[packed.first : packed.first + 4] = 50.0
    assert all(
        RANGE.text[span.start : span.end] != "range"
        for span in best_spans(starts, starts, packed, RANGE)
    )


@pytest.mark.parametrize(
    ("text", "start", "end", "grown"),
    [
        ("use heapify() here", 4, 8, "heapify"),
        ("returns None.", 8, 13, "None"),
        ("a, b", 1, 4, "b"),
        ("raise  ValueError :", 5, 19, "ValueError"),
        ("x", 0, 0, ""),
        ("...", 0, 3, "..."[:0]),
    ],
)
def test_spans_grow_to_whole_words_and_lose_stops(
    text: str, start: int, end: int, grown: str
) -> None:
    first, last = whole_words(text, start, end)
    assert text[first:last] == grown


def test_that_any_passage_answers_is_a_softmax_with_one_more_choice() -> None:
    powers = np.exp(np.array([1.0, -0.5, 2.0]))
    assert any_answer(np.log(powers).astype(np.float32)) == pytest.approx(
        powers.sum() / (1 + powers.sum())
    )
    assert any_answer(np.empty(0, dtype=np.float32)) == 0.0
    assert any_answer(np.array([-900.0], dtype=np.float32)) < 1e-6


def test_the_probability_of_an_answer_is_logistic() -> None:
    assert logistic((1.0, 2.0, 3.0), (0.5, 1.0, 0.0, -1.0)) == pytest.approx(
        1 / (1 + np.exp(1.5)), abs=1e-6
    )
    assert logistic((1e9, 0, 0), (0, 1, 0, 0)) == pytest.approx(1.0)


def test_answers_are_exact_words_best_first_and_do_not_overlap(reader: Reader) -> None:
    passages = [
        RANGE,
        Readable("The range type represents an immutable sequence of numbers.", prior=0.4),
        Readable(""),
    ]
    reading = reader.read("What is the default step?", passages, k=4)
    assert reading.read == 3
    assert len(reading.answers) == 4
    assert [one.score for one in reading.answers] == sorted(
        (one.score for one in reading.answers), reverse=True
    )
    for number, one in enumerate(reading.answers):
        assert passages[one.passage].text[one.start : one.end]
        assert 0 <= one.score <= 1
        for other in reading.answers[:number]:
            assert one.passage != other.passage or one.end <= other.start or other.end <= one.start
    assert reading.relevance.sum() == pytest.approx(1.0, abs=1e-5)
    assert 0 <= reading.answerable <= 1


def test_reading_alone_and_among_others_gives_the_same_spans(reader: Reader) -> None:
    """Sequences are not padded, so that what else is read does not matter."""
    long = Readable("The start of a range " * 12)
    alone = reader.read(QUESTIONS[0], [RANGE]).answers[0]
    among = next(
        one
        for one in reader.read(QUESTIONS[0], [long, RANGE, long], k=20).answers
        if one.passage == 1
    )
    assert (alone.start, alone.end) == (among.start, among.end)


def test_no_passages_no_answer(reader: Reader) -> None:
    reading = reader.read("What?", [])
    assert (reading.answers, reading.read, reading.relevance.size) == ((), 0, 0)
    assert reading.answerable < 0.5


def test_when_time_is_up_the_first_passage_is_still_read(reader: Reader) -> None:
    reading = reader.read("What is it?", [RANGE] * 6, deadline=time.monotonic() - 1)
    assert reading.read == 1
    assert reading.answers
    assert list(reading.relevance[1:]) == [0.0] * 5


def test_text_that_is_no_unicode_is_read(reader: Reader) -> None:
    assert reader.read("\ud800 what", [Readable("a \udfff b step 1")]).answers


def test_the_passage_is_what_the_encoder_reads_with_its_text_last() -> None:
    document = Document("d", "reference", "range.step", "range.step\nThe step.", context=("range",))
    passage = Passage("d", 0, 0, len(document.body), "range")
    found = readable(document, passage, 0.5)
    assert (found.text, found.prior) == (document.body, 0.5)
    assert shown(found).endswith(document.body)
    assert "range" in found.before


def test_a_missing_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="purlin train refqa"):
        Reader.load(tmp_path / "none")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", SETTINGS])
def test_every_altered_file_is_named(reader_directory: Path, tmp_path: Path, name: str) -> None:
    for file in reader_directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Damaged, match=name):
        Reader.load(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(Damaged, match=name):
        Reader.load(tmp_path)


def test_settings_that_do_not_fit_are_refused(reader_directory: Path, tmp_path: Path) -> None:
    content = json.loads((reader_directory / SETTINGS).read_text())
    for change in ({"calibration": [1.0]}, {"max_tokens": 4}, {"prior_weight": 2.0}, {"files": {}}):
        (tmp_path / SETTINGS).write_text(json.dumps(content | change))
        with pytest.raises(Damaged, match=SETTINGS):
            Reader.load(tmp_path)


@pytest.mark.parametrize(
    "change", [{"prior_weight": math.nan}, {"calibration": [1.0, math.inf, 1.0, 1.0, 1.0]}]
)
def test_numbers_that_are_none_are_refused(
    reader_directory: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    content = json.loads((reader_directory / SETTINGS).read_text()) | change
    known = {field.name: content[field.name] for field in fields(Settings)}
    content["fingerprint"] = Settings(**known).fingerprint
    (tmp_path / SETTINGS).write_text(json.dumps(content))
    with pytest.raises(Damaged, match=f"{next(iter(change))} is no finite number"):
        Reader.load(tmp_path)


def test_probabilities_are_a_softmax_over_the_spans_of_all_passages() -> None:
    scores = [[1.0, 3.0], [], [2.0]]
    spans = [[Span(at, at + 1, score) for at, score in enumerate(each)] for each in scores]
    total = sum(math.exp(score) for each in scores for score in each)
    within, shares = normalized(spans)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] == 0.0
    for share, found, each in zip(shares, within, scores, strict=True):
        chances = [share * math.exp(span.score) for span in found]
        assert chances == pytest.approx(
            [math.exp(score) / total for score in sorted(each, reverse=True)], rel=1e-5
        )
    assert normalized([])[0] == []
    assert normalized([[], []])[0] == [[], []]


def test_a_span_has_the_clues_of_its_place_and_those_of_the_reader(packer: Packer) -> None:
    text = "range(start, step=1)\nThe step."
    entry = Entry(
        "function", signature=20, parameters=(Parameter("step", (18, 19), optional=True),)
    )
    passage = Readable(text, entry=entry)
    [packed] = packer.pack("which argument", [passage])
    logits = np.zeros((1, len(packed.ids)), dtype=np.float32)
    output = [logits, logits, np.array([0.5], dtype=np.float32)]
    clues = {
        (span.start, span.end): each
        for span, each in span_clues(Sought("which argument"), passage, packed, output)
    }
    assert (
        clues[13, 17] | {"typed": 1.0, "optional": 1.0, "switch": 0.0, "signature": 0.0}
        == clues[13, 17]
    )
    assert clues[25, 29]["typed"] == 1.0
    assert clues[0, 5]["signature"] == 1.0
    assert "typed" not in clues[0, 5]
    for each in clues.values():
        assert each["selected"] == 0.5
        assert each["read"] == pytest.approx(-2 * math.log(len(packed.offsets)), abs=1e-4)
        assert each.keys() <= SPAN.keys()


def test_a_prior_decides_between_passages_that_are_alike(
    reader_directory: Path, reader: Reader
) -> None:
    settings = replace(reader.settings, prior_weight=1.0)
    weighing = Reader.load(reader_directory, threads=1)
    weighing.settings = settings
    passages = [replace(RANGE, prior=-3.0), RANGE]
    first, second = weighing.read(QUESTIONS[0], passages).relevance
    assert second / first == pytest.approx(math.exp(3.0), rel=1e-3)


def test_spans_of_the_expected_type_are_there_however_unlikely(packer: Packer) -> None:
    [packed] = packer.pack("how many step", [RANGE])
    logits = np.zeros(len(packed.ids), dtype=np.float32)
    logits[packed.first + 3 :][:9] = 30.0  # more than are combined, none of them the number
    places = list(candidates(expected("how many step"), RANGE.text))
    for given_places, there in (((), False), (places, True)):
        found = best_spans(logits, logits, packed, RANGE, given_places)
        assert ("1" in {RANGE.text[span.start : span.end] for span in found}) == there
    cut = Packer(packer.tokenizer, 16).pack("how many step", [RANGE])[0]
    assert "1" not in {
        RANGE.text[span.start : span.end] for span in best_spans(logits, logits, cut, RANGE, places)
    }
