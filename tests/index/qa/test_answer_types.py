import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.qa.answer_types import (
    ANSWER_TYPES,
    MAX_CANDIDATES,
    TYPES_BY_NAME,
    candidate_spans,
    expected_type,
    interval_spans,
    quantity_spans,
)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("In which version was basket.save added?", "version"),
        ("since when is there basket.merge", "version"),
        ("basket.total new in", "version"),
        ("In which C++ version was shop::basket added?", "version"),
        ("complexity of basket.sort", "number"),
        ("header to include for shop::basket", "module"),
        ("Which header file has a basket?", "module"),
        ("basket.total was added when", "version"),
        ("What does basket.save raise if the disk is full?", "exception"),
        ("Which exception tells that a keyword argument is missing?", "exception"),
        ("I throw away a basket: what happens?", "sentence"),
        ("Which argument decides whether an error is raised?", "parameter"),
        ("what do I pass to save it twice", "parameter"),
        ("what do I pass as mode", "constant"),
        ("basket.save: the keyword that sets the mode", "parameter"),
        ("Which module do I import for baskets?", "module"),
        ("module for reading baskets", "module"),
        ("How many retries are there?", "number"),
        ("default log level of the shop", "value"),
        ("what range of sizes does the shop have?", "number"),
        ("allowed range of --size", "number"),
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
        ("What does Basket.pop hand back to its caller?", "result"),
        ("what comes out of a basket", "result"),
        ("what do I get if the basket is empty", "result"),
        ("basket.limit when left out", "value"),
        ("which limit out of the box", "value"),
        ("What unit is the timeout in?", "unit"),
        ("a basket's weight is measured in", "unit"),
        ("which unit test covers it", "name"),
        ("what is basket.size_limit measured in?", "unit"),
        ("How do I empty a basket?", "sentence"),
        ("Which function sorts a basket?", "function"),
        ("What do I call to sort it?", "function"),
    ],
)
def test_expected_type_of_a_question(question: str, name: str) -> None:
    assert expected_type(question).name == name


SAVE = """shop.Basket.save(path, *, mode='w', retries=3, size=(80, 24))

Write the basket. retries is at least 1. Raises PermissionError or shop.error, not Other, if it is locked.

New in version 3.2. Changed in version 3.11: mode was added."""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("version", ["3.2", "3.11"]),
        ("unit", []),
        ("exception", ["PermissionError", "shop.error"]),
        ("function", ["shop.Basket.save"]),
        ("parameter", []),
        ("module", []),
        ("number", ["3", "(80, 24)", "1"]),
        ("value", ["'w'", "3", "(80, 24)", "1"]),
    ],
)
def test_spans_that_look_like_a_type(name: str, expected: list[str]) -> None:
    [answer_type] = [answer_type for answer_type in ANSWER_TYPES if answer_type.name == name]
    assert [SAVE[start:end] for start, end in candidate_spans(answer_type, SAVE)] == expected


def test_versions_headers_and_complexities_of_other_languages() -> None:
    text = "Defined in header <shop/basket> since C++17, not C3 or <door>. Since base-4.13.0.0. O(n*log(n)), v2.8"
    expected = {
        "version": ["C++17", "4.13.0.0", "2.8"],
        "module": ["<shop/basket>"],
        "number": ["17", "O(n*log(n))"],
    }
    for name, spans in expected.items():
        candidates = [text[start:end] for start, end in candidate_spans(TYPES_BY_NAME[name], text)]
        assert candidates == spans


def test_errors_without_a_usual_ending_are_exceptions() -> None:
    text = (
        "-1 and ENOENT if it is lost, or BASKET_ERROR_FULL, SHOP_ERR_LOCKED.\n\n"
        "Exceptions thrown: shop.Torn if it tears. ERRATA; ENTRY"
    )
    spans = [text[start:end] for start, end in candidate_spans(TYPES_BY_NAME["exception"], text)]
    assert spans == ["ENOENT", "BASKET_ERROR_FULL", "SHOP_ERR_LOCKED", "shop.Torn"]


def test_units_that_stand_together_are_one_span() -> None:
    text = "It stores days, seconds and microseconds. Sizes are in kB or bytes, not in daybreaks."
    [unit] = [answer_type for answer_type in ANSWER_TYPES if answer_type.name == "unit"]
    spans = [text[start:end] for start, end in candidate_spans(unit, text)]
    assert spans == ["days, seconds and microseconds", "kB or bytes"]


def test_quantities_are_numbers_with_their_units() -> None:
    text = "Ten lines, ten lines, 1,024 bytes, 0.5 s, 64kB, a 32-bit int, v1.2 days, -5 seconds, one page."
    spans = [text[start:end] for start, end in quantity_spans(text)]
    assert spans == ["ten lines", "1,024 bytes", "64kB", "32-bit", "-5 seconds", "one page"]


def test_ranges_of_numbers_are_intervals() -> None:
    text = "Must be in the [0.5, 100.0] range, or 1 to 5. From -70.0 - -5.0. Pages 3, 4, (0 - 90] or v1.2 to 2.0."
    spans = [text[start:end] for start, end in interval_spans(text)]
    assert spans == ["[0.5, 100.0]", "1 to 5", "-70.0 - -5.0", "(0 - 90]"]


@pytest.mark.parametrize(
    "text", ["." * 4096, "a." * 2048, "A." * 10_000, "is " + "x " * 2000, "the " * 1000, "_" * 4096]
)
def test_time_does_not_explode_with_a_text_of_few_signs(text: str) -> None:
    # Cubic patterns took minutes here.
    expected_type(text[:4096])
    for answer_type in ANSWER_TYPES:
        assert len(list(candidate_spans(answer_type, text))) <= MAX_CANDIDATES


@given(st.text(max_size=300), st.text(alphabet="aA1.(), ='\"-_\n", max_size=2000))
def test_spans_are_bounded_in_any_text(question: str, text: str) -> None:
    expected_type(question)
    for answer_type in ANSWER_TYPES:
        spans = list(candidate_spans(answer_type, text))
        assert len(spans) <= MAX_CANDIDATES
        assert all(0 <= start < end <= len(text) for start, end in spans)
