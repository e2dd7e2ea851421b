"""docs/api.md is what `make docs` generates from the current code."""

import re

import pytest

from docs import reference
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def page() -> str:
    return reference.page()


def test_reference_is_up_to_date(page: str) -> None:
    assert page == (ROOT / "docs" / "api.md").read_text(), (
        "docs/api.md is out of date: run make docs"
    )


def test_reference_lists_every_problem_type(page: str) -> None:
    slugs = {
        slug
        for path in (ROOT / "app").glob("*.py")
        for slug in re.findall(r'slug="([\w-]+)"', path.read_text())
    }
    assert len(slugs) > 4
    assert slugs <= set(re.findall(r"urn:purlin:problem:([\w-]+)", page))


def test_types_and_limits_in_words() -> None:
    texts = {
        "type": "array",
        "maxItems": 10_000,
        "items": {"type": "string", "minLength": 1, "maxLength": 5},
    }
    assert reference._shape(texts) == "list of string"
    assert reference._limits(texts) == "at most 10,000 items, each 1 to 5 characters"
    either = {
        "anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}, {"$ref": "#/a/Hit"}]
    }
    assert reference._shape(either) == "number or [Hit](#hit)"
    assert (
        reference._limits({"type": "integer", "minimum": 0, "exclusiveMaximum": 10}) == "below 10"
    )
    assert reference._shape({"enum": ["a", "b"]}) == '`"a"` or `"b"`'
