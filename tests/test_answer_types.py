import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.qa.answer_types import MAX_CANDIDATES, TYPES, candidates, echoes, expected


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("In which version was basket.save added?", "version"),
        ("since when is there basket.merge", "version"),
        ("basket.total new in", "version"),
        ("What does basket.save raise if the disk is full?", "exception"),
        ("Which exception tells that a keyword argument is missing?", "exception"),
        ("I throw away a basket: what happens?", "name"),
        ("Which argument decides whether an error is raised?", "parameter"),
        ("what do I pass to save it twice", "parameter"),
        ("what do I pass as mode", "constant"),
        ("basket.save: the keyword that sets the mode", "parameter"),
        ("Which module do I import for baskets?", "module"),
        ("module for reading baskets", "module"),
        ("How many retries are there?", "number"),
        ("how many apples fit, which attribute?", "attribute"),
        ("how much is in it, standard library function", "function"),
        ("Which port does the shop listen on?", "number"),
        ("What does mode default to?", "value"),
        ("Which mode applies if I don't choose one?", "value"),
        ("encoding of basket.save unless I set it", "value"),
        ("Which environment variable names the shop?", "variable"),
        ("command line option for a quiet shop", "option"),
        ("Basket.save() of an empty basket", "result"),
        ("I close it twice. What do I get?", "result"),
        ("As what type does it come?", "type"),
        ("How do I empty a basket?", "name"),
        ("Which function sorts a basket?", "function"),
        ("What do I call to sort it?", "function"),
    ],
)
def test_what_a_question_expects(question: str, name: str) -> None:
    assert expected(question).name == name


SAVE = """shop.Basket.save(path, *, mode='w', retries=3, size=(80, 24))

Write the basket. retries is at least 1. Raises PermissionError or shop.error, not Other, if it is locked.

New in version 3.2. Changed in version 3.11: mode was added."""


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("version", ["3.2", "3.11"]),
        ("exception", ["PermissionError", "shop.error"]),
        ("function", ["shop.Basket.save"]),
        ("parameter", []),
        ("module", []),
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
