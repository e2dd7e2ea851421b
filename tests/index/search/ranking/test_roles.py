"""Tests are known by their files and names."""

from __future__ import annotations

from purlin.index.records import Document
from purlin.index.search.ranking.roles import is_test


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
