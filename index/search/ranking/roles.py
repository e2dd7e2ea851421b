"""Queries for tests, such as "tests of the parser" and "where is the cache tested"."""

from __future__ import annotations

import re

from purlin.index.records import Document

_BEFORE = (
    "(?:(?:find|list|show|me|where|which|what|is|are|there|all|any|the|a|an|our|existing"
    "|unit|integration|regression|end-to-end|e2e) )*"
)
_TESTS = r"(?:tests|specs|test ?cases|test ?suites?)"
# "Test for a prime" and "test whether a file exists" are what a function does.
_NOT_A_CONDITION = r"(?! (?:for|if|whether)\b)"
_QUERY = re.compile(
    rf"{_BEFORE}(?:{_TESTS}|test|spec) (?:of|that|checking|covering|covers?)\b"
    rf"|{_BEFORE}{_TESTS} (?:uses?|using|calls?|calling|checks?|testing)\b"
    rf"|{_BEFORE}(?:{_TESTS}|(?:a|the|unit|integration|regression) test) (?:for|on|which)\b"
    r"|(?:where|how) (?:is|are) .*\btested$"
    rf"|(?:where|how) (?:do|does|can|should) (?:we|you|they|i|one) test\b{_NOT_A_CONDITION}"
    rf"|(?:what|which \w+) tests{_NOT_A_CONDITION} \w",
    re.IGNORECASE,
)
# Of a function or class in a file of other code.
_TEST_NAME = re.compile(r"[Tt]ests?(?=[A-Z_]|$)")


def asks_for_tests(query: str) -> bool:
    """Return whether a query asks for tests rather than for the code that they test."""
    return _QUERY.match(" ".join(query.split())[:400].rstrip("?.! ")) is not None


def is_test(document: Document) -> bool:
    """Return whether a document is a test, by its file or mark, or by its name in a file of other code."""
    name = document.title.rpartition(".")[2]
    return document.fields.get("role") == "test" or _TEST_NAME.match(name) is not None
