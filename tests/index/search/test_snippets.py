"""Lines of a long text that are shown for a query."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.records import Location
from purlin.index.search.hits import first_line
from purlin.index.search.snippets import telling_row, with_short_lines

BODY = ["def f():", '    """Upload."""'] + [f"    a{row}()" for row in range(40)]


def code(**rows: str) -> str:
    lines = list(BODY)
    for row, line in rows.items():
        lines[int(row.removeprefix("at"))] = line
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        # As many rows above the matches as below them.
        (code(at30="    retry()", at33="    backoff()"), 28),
        (code(at40="    retry()", at41="    backoff()"), 34),
        # Nothing that closes what is not shown stands at the top.
        (code(at28="    )", at29="", at30="    retry()", at33="    backoff()"), 30),
        # The beginning has as much, or nearly.
        (code(), 0),
        (code(at30="    retry()"), 0),
        (code(at2="    retry()", at30="    retry()", at31="    backoff()"), 0),
        (code(at30="    upload()", at31="    upload()"), 0),
        ("\n".join(BODY[:8]), 0),
        ("", 0),
    ],
    ids=["two", "last", "closing", "none", "one", "both", "common", "short", "empty"],
)
def test_lines_with_most_of_the_words_are_shown(text: str, row: int) -> None:
    assert telling_row("retry an upload with backoff", text, 8) == row


def test_a_word_that_is_everywhere_tells_little() -> None:
    text = "\n".join(["start"] + ["config file"] * 30 + ["parse"] + ["config file"] * 30)
    row = telling_row("parse the config file", text, 6)
    assert row <= 31 < row + 6


@given(
    st.lists(st.sampled_from(["retry", "upload", "x", "", "retried Uploads", "été"]), max_size=30),
    st.integers(1, 12),
)
def test_the_stretch_is_inside_the_text(lines: list[str], rows: int) -> None:
    row = telling_row("retry uploads", "\n".join(lines), rows)
    assert 0 <= row <= max(0, len(lines) - rows)


TEXT = "def f():\n    pass"


def test_lines_are_numbered_if_none_is_left_out() -> None:
    assert first_line(Location("a.py", 7, 8), TEXT) == 7
    assert first_line(Location("a.py", 7, 20), TEXT) is None
    assert first_line(Location("a.py"), TEXT) is None


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Tea.", "Tea."),
        ("x" * 500, f"{'x' * 400}…"),
        # The beginning is kept if it has a match; else the first match is in the middle.
        (f"Tea {'x' * 500} Tea", f"<Tea> {'x' * 396}…"),
        (f"{'x' * 500} Tea {'y' * 500}", f"…{'x' * 196} <Tea> {'y' * 199}…"),
        (f"{'x' * 500} Tea", f"…{'x' * 196} <Tea>"),
    ],
)
def test_long_lines_of_a_hit_are_cut_around_a_match(line: str, shown: str) -> None:
    text = f"First\n{line}\nlast Tea"
    spans = [match.span() for match in re.finditer(r"Tea\b(?!\.)", text)]

    cut, cut_spans = with_short_lines(text, spans, 400)

    for start, end in reversed(cut_spans):
        cut = f"{cut[:start]}<{cut[start:end]}>{cut[end:]}"
    assert cut == f"First\n{shown}\nlast <Tea>"
