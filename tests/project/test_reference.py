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
