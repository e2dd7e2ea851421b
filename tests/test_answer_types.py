import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.answer_types import MAX_CANDIDATES, TYPES, candidates, echoes, expected


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("In which version was basket.save added?", "version"),
        ("since when is there basket.merge", "version"),
        ("basket.total new in", "version"),
        ("What does basket.save raise if the disk is full?", "exception"),
        ("Which exception tells that a keyword argument is missing?", "exception"),
        ("Which argument decides whether an error is raised?", "parameter"),
        ("basket.save: the keyword that sets the mode", "parameter"),
        ("Which module do I import for baskets?", "module"),
        ("module for reading baskets", "module"),
        ("How many retries are there?", "number"),
        ("Which port does the shop listen on?", "number"),
        ("What does mode default to?", "value"),
        ("encoding of basket.save unless I set it", "value"),
        ("How do I empty a basket?", None),
        ("Which function sorts a basket?", None),
    ],
)
def test_what_a_question_expects(question: str, name: str | None) -> None:
    found = expected(question)
    assert (found.name if found else None) == name


SAVE = """shop.Basket.save(path, *, mode='w', retries=3, size=(80, 24))

Write the basket. retries is at least 1. Raises PermissionError or shop.error, not Other, if it is locked.

New in version 3.2. Changed in version 3.11: mode was added."""


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("version", ["3.2", "3.11"]),
        ("exception", ["PermissionError", "shop.error"]),
        ("parameter", ["path", "mode", "retries", "size"]),
        ("module", ["shop"]),
        ("number", ["3", "(80, 24)", "1"]),
        ("value", ["'w'", "3", "(80, 24)", "1"]),
    ],
)
def test_stretches_of_a_kind(name: str, found: list[str]) -> None:
    [kind] = [kind for kind in TYPES if kind.name == name]
    assert [SAVE[start:end] for start, end in candidates(kind, SAVE)] == found


def test_a_question_that_names_the_answer() -> None:
    assert echoes("mkdir -p with pathlib", "Path.mkdir(mode=0o777")
    assert echoes("What does Basket.save() give?", "shop.Basket.save")
    assert not echoes("What does Basket.save() give?", "saved")
    assert not echoes("What is n?", "n")
    assert not echoes("", "()")


@given(st.text(max_size=300), st.text(alphabet="aA1.(), ='\"-_\n", max_size=2000))
def test_any_text_has_bounded_stretches_inside_it(question: str, text: str) -> None:
    expected(question)
    for kind in TYPES:
        found = list(candidates(kind, text))
        assert len(found) <= MAX_CANDIDATES
        assert all(0 <= start < end <= len(text) for start, end in found)
