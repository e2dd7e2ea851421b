"""The options of a source, and the cleaning of pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
from purlin.training.data.pairs.pair import (
    MAX_PAIR_CHARS,
    MAX_TEXTS_PER_PAIR,
    Pair,
    PairSource,
    clean,
)
from tests.support.pair_files import PAIR_FILES, assert_clean


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("weight", 0.0),
        ("weight", 101.0),
        ("weight", float("nan")),
        ("limit", 0),
        ("split", "../train"),
        ("split", ""),
    ],
)
def test_invalid_options_are_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=field) as raised:
        PairSource(**({"format": "pairs", "path": PAIR_FILES} | {field: value}))  # type: ignore[arg-type]
    assert raised.value.field == field


_ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    ["", " ", "A b\tC d", "a B c D", "\ud800"]
)


@given(
    queries=st.lists(_ANY_TEXT, max_size=4),
    passage=_ANY_TEXT,
    negatives=st.lists(_ANY_TEXT, max_size=3),
)
def test_clean_leaves_no_empty_or_equal_side(
    queries: list[str], passage: str, negatives: list[str]
) -> None:
    pair = Pair(tuple(queries), passage, negatives=tuple(negatives))
    try:
        cleaned = clean(pair)
    except InvalidInput:
        return
    assert_clean(cleaned)
    assert clean(cleaned) == cleaned


def test_clean_limits_queries_and_negatives() -> None:
    many = tuple(f"the query number {n}" for n in range(2 * MAX_TEXTS_PER_PAIR))
    cleaned = clean(
        Pair((*many, "x" * (MAX_PAIR_CHARS + 1)), "passage", negatives=(*many, "passage"))
    )
    expected = (MAX_TEXTS_PER_PAIR, MAX_TEXTS_PER_PAIR)
    assert (len(cleaned.queries), len(cleaned.negatives)) == expected


def test_reference_needs_a_format_that_uses_it(tmp_path: Path) -> None:
    for source in (
        {"format": "linked"},
        {"format": "questions"},
        {"format": "pairs", "reference": tmp_path},
    ):
        with pytest.raises(
            InvalidInput, match="reference belongs to the formats linked, questions, unlabelled"
        ):
            PairSource(path=tmp_path, **source)  # type: ignore[arg-type]
