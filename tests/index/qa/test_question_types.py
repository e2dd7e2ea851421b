from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.qa.answer_types import SENTENCE_TYPE, TYPES_BY_NAME, expected_type
from purlin.index.qa.question_types import (
    MAX_WORDS,
    MIN_SHARE,
    RULES_SHARE,
    TypeWeights,
    class_probabilities,
    expected_types,
    question_features,
)


def test_probabilities_are_those_of_a_logistic_regression() -> None:
    weights = TypeWeights(
        classes=("value", "version"),
        rows={"since": 0, "default": 1},
        weights=np.array([[-10, 127], [127, 0]], dtype=np.int8),
        scale=0.02,
        bias=np.array([0.5, -0.5], dtype=np.float32),
    )
    probabilities = weights.probabilities(frozenset({"since", "unheard of"}))

    value, version = np.exp(0.5 - 0.2), np.exp(-0.5 + 2.54)
    assert probabilities["value"] == pytest.approx(value / (value + version))
    assert sum(probabilities.values()) == pytest.approx(1.0)


def test_features_are_words_groups_of_them_and_rules() -> None:
    assert question_features("Since when is os.fspath there?") == {
        *("^", "since", "when", "is", "NAME", "there", "?", "$"),
        *("^ since", "since when", "when is", "is NAME", "NAME there", "there ?", "? $"),
        *("first: since when", "first: since when is", "last: there ?"),
        *("type: version", "named: version"),
    }


@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ("str.split", "NAME"),
        ("max_workers", "NAME"),
        ("readLine", "NAME"),
        ("range(3)", "CALL"),
        ("42", "NUMBER"),
        ("3.11", "VERSION"),
        ("don't", "don't"),
        ("Path", "path"),
    ],
)
def test_names_and_numbers_are_words_by_their_shape(word: str, shape: str) -> None:
    assert shape in question_features(f"what is {word} like")


def test_words_after_the_limit_do_not_count() -> None:
    question = "it is " * MAX_WORDS
    assert question_features(question) == question_features(f"{question} plainly")


@pytest.mark.parametrize(
    ("question", "likeliest"),
    [
        ("closing a stream twice, what blows up", "exception"),
        ("size of the buffer if I pass nothing", "value"),
        ("import what for reading tar files", "module"),
        ("oldest release that has the walrus", "version"),
    ],
)
def test_wordings_that_no_rule_has(question: str, likeliest: str) -> None:
    probabilities = class_probabilities(question)
    assert max(probabilities, key=lambda name: probabilities[name]) == likeliest


def test_a_statement_is_left_to_the_rules() -> None:
    assert expected_types("what happens if the file is closed") == ((SENTENCE_TYPE, 1.0),)


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from("which what a raise of ( . _".split())).map(" ".join)
)
def test_types_of_any_question(question: str) -> None:
    types = expected_types(question)
    shares = [share for _, share in types]

    assert sum(shares) == pytest.approx(1.0)
    assert shares == sorted(shares, reverse=True)
    assert len({answer_type.name for answer_type, _ in types}) == len(types)
    if types[0][0] is SENTENCE_TYPE:
        return
    assert min(shares) >= MIN_SHARE
    assert {answer_type.name for answer_type, _ in types} <= TYPES_BY_NAME.keys()
    of_rules = next(share for each, share in types if each is expected_type(question))
    assert of_rules >= RULES_SHARE


@pytest.mark.parametrize("sign", ["a", "a.", "_", "(", "'", "1.", "aB", "é", "? "])
def test_long_questions_take_no_longer_than_they_must(sign: str) -> None:
    # A pattern that takes quadratic time would exceed the suite's limit for a test.
    expected_types(sign * 20_000)
