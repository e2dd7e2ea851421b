"""Sentences of passages, and which of them answers a question that wants a statement."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.qa.answer_types import statement_kind
from purlin.index.qa.question import parse_question
from purlin.index.qa.reader import (
    MIN_SPAN_LOGIT,
    PackedPassage,
    PassageLogits,
    ReadingPassage,
    reading_passage,
)
from purlin.index.qa.sentences import (
    MAX_SENTENCES,
    SENTENCE_WEIGHTS,
    sentence_features,
    sentence_of_answer,
    sentences,
)
from purlin.index.qa.signatures import PassageStructure
from purlin.index.qa.spans import SpanPrediction, merge_modules, rank_answers
from purlin.index.records import Document
from purlin.index.texts.passages import split

SIGNATURE = "shop.Basket.save(path, *, mode='w', retries=3)"
SAVE = f"""{SIGNATURE}

Write the basket to a file, e.g. on a disk. If mode is 'x', an existing
file is kept (see open() for more.) The file is closed.

- retries is at least 1.
- A locked file raises PermissionError because nobody may write to it.

>>> basket.save("list.txt")
True

Use this:

basket.save(path)

New in version 3.2."""


def _passage(body: str = SAVE, title: str = "shop.Basket.save") -> ReadingPassage:
    fields = {"signature": SIGNATURE, "directive": "method", "module": "shop"}
    document = Document("save", "reference", title, body, fields=fields)
    return reading_passage(document, split(document)[0])


def _logits(selected: float = 0.0) -> PassageLogits:
    nothing = np.zeros(0, dtype=np.float32)
    return PassageLogits(
        PackedPassage(np.zeros(0, dtype=np.int64), 0, ()), nothing, nothing, selected
    )


def _first_answer(question: str, weights: dict[str, float], *passages: ReadingPassage) -> str:
    passages = passages or (_passage(),)
    logits, options = [_logits() for _ in passages], {"prior_weight": 0.5, "k": 3}
    parsed = parse_question(question)
    result = rank_answers(parsed, passages, logits, word_weights=weights, **options)
    best = result.answers[0]
    return passages[best.passage].text[best.start : best.end]


def test_sentences_leave_out_signature_code_and_versions() -> None:
    passage = _passage()
    texts = [passage.text[slice(*each)] for each in sentences(passage)]
    assert texts == [
        "Write the basket to a file, e.g. on a disk.",
        "If mode is 'x', an existing\nfile is kept (see open() for more.)",
        "The file is closed.",
        "retries is at least 1.",
        "A locked file raises PermissionError because nobody may write to it.",
        "Use this:",
    ]


def test_rows_of_a_table_are_sentences_of_their_own() -> None:
    text = (
        "The modes are:\nmode | meaning\nw | write. It overwrites\nx | create\nNo more are known."
    )
    passage = ReadingPassage(text)
    expected = ["The modes are:", "mode | meaning", "w | write.", "It overwrites", "x | create"]
    expected += ["No more are known."]
    assert [text[slice(*each)] for each in sentences(passage)] == expected


def _texts(text: str) -> list[str]:
    return [text[slice(*each)] for each in sentences(ReadingPassage(text))]


def test_a_call_and_its_arrow_belong_to_no_sentence() -> None:
    text = "zip(*iterables, strict=False) --> Yield tuples until one ends.\n\nzip() is lazy."
    assert _texts(text) == ["Yield tuples until one ends.", "zip() is lazy."]
    assert _texts("D.insert(index, object) -- insert it before index") == ["insert it before index"]


def test_code_of_c_and_properties_are_no_sentences() -> None:
    text = (
        "Default: false (no lock)\n\nType: a number\n\nSince: version 2\n\nOpen the shop first; then\nwait;\n\n"
        "/* Use the shop, then leave. */\nshop_t *shop = shop_open();\nif (shop) {\n  shop_close(shop);\n}\n\n"
        "- a door (or a window);\n- a key (to it);\n\n1. Look (twice);\n2. Go in (once);\n\na) Leave (late);"
    )
    assert _texts(text) == [
        "Open the shop first; then\nwait;",
        "a door (or a window);",
        "a key (to it);",
        "Look (twice);",
        "Go in (once);",
        "a) Leave (late);",
    ]


def test_sentences_of_japanese_end_without_a_space() -> None:
    assert _texts("既定値は30です。秒数を「長い。」と言います。終わり\n\n短い語") == [
        "既定値は30です。",
        "秒数を「長い。」と言います。",
    ]
    assert _texts("短いですか？長い！") == ["短いですか？", "長い！"]


def test_a_verdict_belongs_to_its_explanation() -> None:
    text = "Is it encrypted? No. Use an encrypted disk. Yes! It is fast.\n\nNo."
    assert _texts(text) == ["Is it encrypted?", "No. Use an encrypted disk.", "Yes! It is fast."]

    text = "Is it safe to use? No.\n- Use a lock for it.\n- Or a queue."
    assert _texts(text) == ["Is it safe to use?", "Use a lock for it.", "Or a queue."]


@given(st.text(alphabet="aB. \n->:e.g()|", max_size=600))
def test_sentences_are_in_order_and_do_not_overlap(text: str) -> None:
    passage = ReadingPassage(text)
    spans = sentences(passage)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert all(text[slice(*span)].strip() == text[slice(*span)] for span in spans)
    assert len(spans) <= MAX_SENTENCES


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What does Basket.save do?", "purpose"),
        ("the mode of a basket, what does it mean?", "purpose"),
        ("what is a basket", "purpose"),
        ("How do I write a basket to disk?", "advice"),
        ("how to save a basket", "advice"),
        ("What happens if the file is locked?", "condition"),
        ("Does it fail when the file is locked?", "condition"),
        ("why can't I save my basket", "reason"),
        ("When should I use Basket.save?", "occasion"),
        ("My basket is full, what happens if I add a function?", "condition"),
        ("I can't save my basket, why?", "reason"),
        ("when to use a basket rather than a list", "occasion"),
        ("In which case is a basket locked?", "occasion"),
        ("basket mode, what for", "purpose"),
        ("what is in the shop module", "purpose"),
        ("what's the mode argument of Basket.save?", "purpose"),
        ("what is the lock of a basket for", "purpose"),
        ("Basket.save mode parameter", "purpose"),
        ("mode parameter of Basket.save", "purpose"),
        ("retries in shop.Basket.save", "purpose"),
        ("type of shop.limit", ""),
        ("which argument", ""),
        ("how does a basket keep its order", "fact"),
        ("how does a basket sort, which method", ""),
        ("what is __shop__ of a basket", "purpose"),
        ("what's BasketHandler in shop", "purpose"),
        ("what is shop.limit measured in", ""),
        ("does Basket.save keep the file open", "fact"),
        ("can I save a basket twice?", "fact"),
        ("Is a basket a list?", "fact"),
        ("do baskets keep their order", "fact"),
        ("Is there a function that saves a basket?", ""),
        ("Is the basket locked by default?", ""),
        ("was a basket there in 3.9 or when did it come", ""),
        ("do a save", ""),
        ("What happens if it is locked, which error is raised?", ""),
        ("What does Basket.save return?", ""),
        ("What does mode default to?", ""),
        ("How many retries are there?", ""),
        ("How do I set it, which argument?", ""),
        ("A locked file: what do I get?", ""),
        ("Which function saves a basket?", ""),
        ("When was Basket.save added?", ""),
    ],
)
def test_wording_tells_what_is_to_be_stated(question: str, kind: str) -> None:
    assert statement_kind(question) == kind
    assert (parse_question(question).answer_type.name == "sentence") == bool(kind)


@pytest.mark.parametrize(
    ("question", "weights", "beginning"),
    [
        ("What does shop.Basket.save do?", {"save": 2.0}, "Write the basket"),
        ("What does the mode of Basket.save do?", {"save": 2.0, "mode": 2.0}, "If mode is 'x'"),
        ("Why can't I save my basket?", {"save": 2.0}, "A locked file raises"),
    ],
)
def test_a_statement_is_answered_by_its_sentence(
    question: str, weights: dict[str, float], beginning: str
) -> None:
    assert _first_answer(question, weights).startswith(beginning)


def test_words_beside_the_entrys_name_count() -> None:
    question = parse_question("What happens to a locked basket in save?")
    weights = {"lock": 3.0, "save": 2.0, "basket": 1.0}
    features = [values for _, values in sentence_features(question, _passage(), _logits(), weights)]
    # `save` and `basket` are the entry's name.
    assert [values["overlap"] for values in features] == [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    assert all(set(values) == set(SENTENCE_WEIGHTS) for values in features)


def test_a_passage_without_prose_has_no_statement() -> None:
    only_signature = _passage(SIGNATURE)
    options = {"prior_weight": 1.0, "word_weights": {}, "k": 1}
    parsed = parse_question("What does it do?")
    result = rank_answers(parsed, [only_signature], [_logits()], **options)
    assert result.answers == ()


def test_spans_of_a_module_add_up_where_it_is_introduced() -> None:
    introduction = ReadingPassage("shop sells.", structure=PassageStructure("section", "shop"))
    function = ReadingPassage("shop.sell(it)", structure=PassageStructure("function", "shop"))
    merged = merge_modules(
        [[SpanPrediction(0, 4, 0.0)], [SpanPrediction(0, 4, 0.0), SpanPrediction(5, 9, 1.0)]],
        [introduction, function],
    )
    [[name], [other]] = merged
    assert (name.start, name.end, name.score) == (0, 4, pytest.approx(np.log(2)))
    # `sell` is no module of these passages.
    assert other.score < 1.0


@pytest.mark.parametrize(
    ("answer", "beginning"),
    [
        ("PermissionError", "A locked file raises"),
        ("at least 1", "retries is"),
        ("'x'", "If mode is"),
        ("3.2", "New in version"),
        # Not in a sentence: what tells most about the words of the question.
        ("shop.Basket.save", "Write the basket"),
        ("mode='w'", "Write the basket"),
    ],
)
def test_an_answer_is_shown_with_its_sentence(answer: str, beginning: str) -> None:
    passage = _passage()
    question = parse_question("Which method puts a basket on a disk?")
    start = passage.text.index(answer)
    span = sentence_of_answer(
        question, passage, _logits(), {"basket": 1.0, "disk": 3.0}, (start, start + len(answer))
    )
    assert span is not None
    assert passage.text[slice(*span)].startswith(beginning)


def test_a_passage_without_prose_has_no_sentence() -> None:
    passage = _passage(SIGNATURE)
    question = parse_question("Which method saves a basket?")
    assert sentence_of_answer(question, passage, _logits(), {}, (0, 16)) is None


def test_the_readers_probability_of_a_sentence_is_a_feature() -> None:
    passage = ReadingPassage("It opens. It closes.")
    start = np.array([0, 0, 0, 4, 0, 0], dtype=np.float32)
    end = np.array([0, 1, 0, 0, 0, 3], dtype=np.float32)
    offsets = ((0, 2), (3, 8), (8, 9), (10, 12), (13, 19), (19, 20))
    packed = PackedPassage(np.zeros(6, dtype=np.int64), 0, offsets)
    logits = PassageLogits(packed, start, end, 0.0)

    features = sentence_features(parse_question("What does it do?"), passage, logits, {})
    span_logits = [values["span_logit"] for _, values in features]

    log_sums = np.log(np.exp(start).sum()) + np.log(np.exp(end).sum())
    # From the first token of each sentence to its full stop.
    assert span_logits == pytest.approx([0 + 0 - log_sums, 4 + 3 - log_sums])


def test_a_sentence_that_was_cut_off_has_the_least_probability() -> None:
    passage = ReadingPassage("It opens. It closes.")
    packed = PackedPassage(np.zeros(3, dtype=np.int64), 0, ((0, 2), (3, 8), (8, 9)))
    nothing = np.zeros(3, dtype=np.float32)
    logits = PassageLogits(packed, nothing, nothing, 0.0)

    features = sentence_features(parse_question("What does it do?"), passage, logits, {})
    expected = [pytest.approx(-2 * np.log(3)), MIN_SPAN_LOGIT]
    assert [values["span_logit"] for _, values in features] == expected


def test_where_the_source_is_does_not_tell_about_a_module() -> None:
    passage = _passage("Source code: Lib/shop.py\n\nIt has baskets for shops.", "shop")
    question = parse_question("Which module has baskets?")
    start = passage.text.index("shop.py")
    span = sentence_of_answer(question, passage, _logits(), {"baskets": 1.0}, (start, start + 4))
    assert span is not None
    assert passage.text[slice(*span)] == "It has baskets for shops."
