"""The value is told whose condition has most of a question's words."""

from __future__ import annotations

import pytest

from purlin.index.qa.conditions import values_under_condition
from purlin.index.qa.question import parse_question


@pytest.mark.parametrize(
    ("text", "question", "values"),
    [
        ("Exit status is 0 if cloth is whole, 1 if torn, 2 if lost.", "exit status if torn", ["1"]),
        (
            'Returns "warp" if the thread is long, and "weft" when the thread is short.',
            "what does it return for a short thread",
            ['"weft"'],
        ),
        ("True on success, or False on failure.", "what comes back on failure", ["False"]),
        ("0 if a line is cut, 1 if no lines were cut.", "which status if no line is cut", ["1"]),
        ("0 if a line is cut, 1 if no lines were cut.", "which status if a line was cut", ["0"]),
        # Each sentence is for itself, and one that does not tell its values apart has none.
        ("Returns 0 if it is torn. Returns 1 if it is whole.", "what if torn", []),
        ("0 if the thread is long, 1 if the thread is wet.", "what if the thread is red", []),
        ("Returns the thread if it is torn, the cloth if it is whole.", "what if torn", []),
    ],
)
def test_values_are_found_under_their_conditions(
    text: str, question: str, values: list[str]
) -> None:
    spans = values_under_condition(text, parse_question(question).words)
    assert [text[slice(*span)] for span in spans] == values


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["1 if ", '"a', "a if b, ", "1 if a, ", "'", "1.", "-1 if a\n"])
def test_odd_texts_are_read_in_time(part: str) -> None:
    list(values_under_condition(part * 100_000, {"a"}))
