"""Queries for tests, which then come before the code that they test."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.records import Document
from purlin.index.search.ranking.roles import asks_for_tests, is_test
from tests.support.corpora import open_repository


@pytest.mark.parametrize(
    "query",
    [
        "tests of the parser",
        "unit tests for retries",
        "Find all the integration tests that cover uploads",
        "test that a full disk is reported",
        "specs for the cart",
        "is there a test for the empty basket?",
        "where is the cache tested?",
        "how do we test the clock",
        "which functions tests parse_header",
        "what tests are there for uploads",
        "tests which cover uploads",
        "which tests use the clock",
    ],
)
def test_queries_for_tests(query: str) -> None:
    assert asks_for_tests(query)


@pytest.mark.parametrize(
    "query",
    [
        "test whether a file exists",
        "test for a prime number",
        "test which encoding a file has",
        "how do I test if a number is prime",
        "which function tests whether a file exists",
        "how does pytest test discovery work",
        "run the tests in parallel",
        "testing client",
        "specification of the protocol",
        "where is the test database created",
        "contests of this year",
        "",
    ],
)
def test_queries_for_other_code(query: str) -> None:
    assert not asks_for_tests(query)


def test_long_queries_take_no_time_to_speak_of() -> None:
    for piece in ("find all ", "the ", "where is ", "test "):
        assert not asks_for_tests(piece * 20_000 + "x")


def test_tests_beside_other_code_are_known_by_their_names() -> None:
    def document(title: str, role: str = "source") -> Document:
        return Document(f"a::{title}", "code", title, "", fields={"role": role})

    tests = [document("x", "test"), document("Cipher.TestRounds"), document("tests_Balance")]
    others = [
        document("testament"),
        document("Test.run"),
        document("latest"),
        document("x", "stub"),
    ]
    assert list(map(is_test, tests + others)) == [True] * 3 + [False] * 4


FILES = {
    "cart/discount.py": "def apply_discount(cart, code):\n    return cart.total * discount(code)\n",
    "tests/test_discount.py": (
        "def test_apply_discount():\n    assert apply_discount(Cart(10), 'HALF') == 5\n"
    ),
    "vendor/cart/discount.py": "def discount(code):\n    return CODES[code]\n",
}


def test_what_is_asked_for_comes_first(tmp_path: Path) -> None:
    with open_repository(tmp_path, FILES) as corpus:
        for query in ("apply a discount", "apply_discount"):
            assert corpus.search(query).hits[0].title == "apply_discount"
        for query in ("tests of the discount", "where is apply_discount tested"):
            hits = corpus.search(query).hits
            assert hits[0].title == "test_apply_discount"
            assert hits[0].score > hits[1].score
