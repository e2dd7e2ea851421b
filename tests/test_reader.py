from __future__ import annotations

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import BertPreTokenizer

from index.answer_types import ECHO, MATCH, candidates, expected
from index.errors import Damaged, NotFound
from index.reader import (
    MAX_ANSWER_TOKENS,
    SETTINGS,
    Packer,
    Readable,
    Reader,
    Span,
    best_spans,
    logistic,
    readable,
    selection,
    shown,
    typed,
    whole_words,
)
from index.records import Document, Passage
from tests.readers import QUESTIONS

WORDS = ["[CLS]", "[SEP]", "[UNK]", "[PAD]", *"what is the default step of range it defaults to 1 if omitted".split()]
RANGE = Readable("If step is omitted, it defaults to 1.", "range\nrange.step")


@pytest.fixture(scope="module")
def packer() -> Packer:
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return Packer(tokenizer, 40)


@pytest.fixture(scope="module")
def reader(reader_directory: Path) -> Reader:
    return Reader.load(reader_directory, threads=2)


def test_a_sequence_is_question_and_passage_with_the_characters_of_its_tokens(packer: Packer) -> None:
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
    assert all(RANGE.text[span.start : span.end] != "range" for span in best_spans(starts, starts, packed, RANGE))


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
def test_spans_grow_to_whole_words_and_lose_stops(text: str, start: int, end: int, grown: str) -> None:
    first, last = whole_words(text, start, end)
    assert text[first:last] == grown


def test_selection_is_a_softmax_with_one_more_choice() -> None:
    logits = np.array([1.0, -0.5, 2.0], dtype=np.float32)
    shares, any_answer = selection(logits)
    powers = np.exp(logits)
    np.testing.assert_allclose(shares, powers / powers.sum(), rtol=1e-6)
    assert any_answer == pytest.approx(powers.sum() / (1 + powers.sum()))
    assert selection(np.empty(0, dtype=np.float32))[1] == 0.0
    assert selection(np.array([-900.0], dtype=np.float32))[1] < 1e-6


def test_the_probability_of_an_answer_is_logistic() -> None:
    assert logistic((1.0, 2.0, 3.0), (0.5, 1.0, 0.0, -1.0)) == pytest.approx(1 / (1 + np.exp(1.5)), abs=1e-6)
    assert logistic((1e9, 0, 0), (0, 1, 0, 0)) == pytest.approx(1.0)


def test_answers_are_exact_words_best_first_and_do_not_overlap(reader: Reader) -> None:
    passages = [RANGE, Readable("The range type represents an immutable sequence of numbers.", prior=0.4), Readable("")]
    reading = reader.read("What is the default step?", passages, k=4)
    assert reading.read == 3
    assert len(reading.answers) == 4
    assert [one.score for one in reading.answers] == sorted((one.score for one in reading.answers), reverse=True)
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
    among = next(one for one in reader.read(QUESTIONS[0], [long, RANGE, long], k=20).answers if one.passage == 1)
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


def test_the_expected_type_changes_shares_and_spans_by_bayes() -> None:
    passages = [Readable("save is new in version 3.2, not 3.1"), Readable("save is fast")]
    spans = [
        [Span(0, 4, math.log(0.6)), Span(23, 26, math.log(0.1)), Span(32, 35, math.log(0.05))],
        [Span(0, 4, math.log(0.5))],
    ]
    assert [passages[0].text[span.start : span.end] for span in spans[0]] == ["save", "3.2", "3.1"]
    question, shares = "since when is there save?", np.array([0.3, 0.7], dtype=np.float32)
    kind = expected(question)
    assert kind is not None
    places = [set(candidates(kind, passage.text)) for passage in passages]
    found, changed = typed(question, passages, places, spans, shares)
    gains = [{"save": ECHO, "3.2": MATCH, "3.1": MATCH}, {"save": ECHO}]
    joint = {}  # of passage and span; None stands for all other spans of the passage
    for number, share in enumerate(shares):
        odds = {(span.start, span.end): math.exp(span.score) for span in spans[number]}
        joint[number, None] = share * (1 - sum(odds.values()))
        for (start, end), chance in odds.items():
            joint[number, start] = share * chance * math.exp(gains[number][passages[number].text[start:end]])
    total = sum(joint.values())
    for number, of_passage in enumerate(found):
        assert changed[number] == pytest.approx(sum(v for k, v in joint.items() if k[0] == number) / total, rel=1e-4)
        for span in of_passage:
            expected_chance = joint[number, span.start] / total
            assert changed[number] * math.exp(span.score) == pytest.approx(expected_chance, rel=1e-3)
    assert [span.start for span in found[0]] == [23, 32, 0]


def test_without_an_expected_type_nothing_but_echoes_changes() -> None:
    passages, shares = [Readable("the open call")], np.array([1.0], dtype=np.float32)
    spans = [[Span(4, 8, math.log(0.5)), Span(9, 13, math.log(0.25))]]
    found, changed = typed("How do I do it?", passages, [set()], spans, shares)
    assert found == spans
    assert changed.tolist() == [1.0]
    assert typed("", [], [], [], np.empty(0, dtype=np.float32))[0] == []


def test_spans_of_the_expected_type_are_there_however_unlikely(packer: Packer) -> None:
    [packed] = packer.pack("how many step", [RANGE])
    logits = np.zeros(len(packed.ids), dtype=np.float32)
    logits[packed.first + 3 :][:9] = 30.0  # more than are combined, none of them the number
    kind = expected("how many step")
    assert kind is not None
    places = list(candidates(kind, RANGE.text))
    for given_places, there in (((), False), (places, True)):
        found = best_spans(logits, logits, packed, RANGE, given_places)
        assert ("1" in {RANGE.text[span.start : span.end] for span in found}) == there
    cut = Packer(packer.tokenizer, 16).pack("how many step", [RANGE])[0]
    assert "1" not in {RANGE.text[span.start : span.end] for span in best_spans(logits, logits, cut, RANGE, places)}
