"""Columns of fields, against a plain loop over the documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import WrongType
from purlin.index.records import Value
from purlin.index.search.store import columns
from purlin.index.search.store.columns import Columns, ColumnsWriter, lower_bound, upper_bound
from purlin.index.search.store.filters import FieldType, Filter, check_types, clauses, filterable
from purlin.index.storage.blocks import UNCHECKED

TEXTS = st.sampled_from(["", "10", "a", "A", "aé", "a\x00", "\U0001f600", "true"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=3
)
INTEGERS = st.sampled_from([0, 1, 10, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]) | st.integers(
    -(2**63), 2**63 - 1
)
REALS = st.sampled_from([0.5, 10.0, -0.0, 2.0**53, 1e300, math.inf, -math.inf]) | st.floats(
    allow_nan=False
)
SCALARS = TEXTS | INTEGERS | REALS | st.booleans()
FIELDS = st.dictionaries(
    st.sampled_from(["x", "y", "ü"]),
    SCALARS
    | st.integers(2**63, 2**70)
    | st.lists(TEXTS, max_size=3).map(tuple)
    | st.just(math.nan),
)
# A number as text is refused as a bound where a field has numbers.
BOUNDS = TEXTS.filter(lambda text: not any(map(str.isdigit, text))) | INTEGERS | REALS


def accepted(bounds: dict[str, Any]) -> dict[str, Any]:
    """Bounds in order and of one type; others are refused."""
    gte, lte = bounds.get("gte"), bounds.get("lte")
    if gte is None or lte is None:
        return bounds
    if isinstance(gte, str) != isinstance(lte, str):
        return {"gte": gte}
    return {"gte": min(gte, lte), "lte": max(gte, lte)}


RANGES = st.dictionaries(st.sampled_from(["gte", "lte"]), BOUNDS, min_size=1).map(accepted)
INCLUDING = SCALARS | st.lists(SCALARS, min_size=1, max_size=4) | RANGES
CONDITIONS = (
    INCLUDING
    | st.builds(lambda condition: {"not": condition}, INCLUDING)
    | st.builds(lambda bounds, condition: {**bounds, "not": condition}, RANGES, INCLUDING)
)


def write(directory: Path, documents: Sequence[Mapping[str, Value]]) -> Columns:
    writer = ColumnsWriter(directory)
    add(writer, documents)
    writer.close()
    return Columns(directory, UNCHECKED)


def add(writer: ColumnsWriter, documents: Sequence[Mapping[str, Value]], start: int = 0) -> None:
    for row, fields in enumerate(documents, start):
        for name, value in filterable(fields):
            writer.add(name, value, row)


def fulfils(fields: Mapping[str, Value], name: str, condition: Any) -> bool:
    """Whether any value of a field meets a condition, and none its `not`, in plain Python."""
    if isinstance(condition, dict) and "not" in condition:
        bounds = {operator: bound for operator, bound in condition.items() if operator != "not"}
        is_within = not bounds or fulfils(fields, name, bounds)
        return is_within and not fulfils(fields, name, condition["not"])
    values = fields.get(name, ())
    return any(
        meets(value, condition) for value in (values if isinstance(values, tuple) else (values,))
    )


def meets(value: Any, condition: Any) -> bool:
    if isinstance(condition, dict):
        return all(
            compares(value, bound) and (value >= bound if operator == "gte" else value <= bound)
            for operator, bound in condition.items()
        )
    if isinstance(condition, list):
        return any(meets(value, one) for one in condition)
    value, condition = (
        str(one).lower() if isinstance(one, bool) else one for one in (value, condition)
    )
    return compares(value, condition) and bool(value == condition)


def compares(value: Any, bound: Any) -> bool:
    """Texts compare with texts, numbers with numbers; truth values are texts."""
    if isinstance(value, bool):
        return isinstance(bound, str)
    return isinstance(value, str) == isinstance(bound, str)


def text_of(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


@pytest.mark.parametrize("together", ["whole", "in parts"])
@given(documents=st.lists(FIELDS, max_size=30), conditions=st.lists(CONDITIONS, max_size=5))
def test_filters_select_what_a_loop_selects(
    together: str, documents: list[dict[str, Value]], conditions: list[Any]
) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        if together == "in parts":
            patch.setattr(columns, "_MOST_ENTRIES", 7)
            patch.setattr(columns, "_TEXTS_PER_SAMPLE", 2)
            patch.setattr(columns, "_NUMBERS_PER_SAMPLE", 2)
            patch.setattr(columns, "_READ_TOGETHER", 3)
        stored = [{name: text_of(value) for name, value in fields.items()} for fields in documents]
        with closing(write(Path(directory), documents)) as opened:
            types = opened.types()
            for condition in conditions:
                # Numbers cannot be compared with a field that has texts only.
                checked = clauses({"x": condition}, {"x": "numbers"})
                mask = opened.matching(checked, len(documents))
                assert mask.tolist() == [fulfils(fields, "x", condition) for fields in stored]

    for name in ("x", "y", "ü"):
        values = [value for fields in documents for n, value in filterable(fields) if n == name]
        held = {"texts" if isinstance(value, str) else "numbers" for value in values}
        assert types.get(name) == (min(held) if len(held) == 1 else "both" if held else None)


@given(st.lists(FIELDS, max_size=12), st.lists(FIELDS, max_size=12), st.data())
def test_copied_columns_are_those_of_the_documents(
    earlier: list[dict[str, Value]], later: list[dict[str, Value]], data: st.DataObject
) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(earlier), max_size=len(earlier)))
    copied = [fields for fields, keeps in zip(earlier, kept, strict=True) if keeps]
    rows = np.where(kept, np.cumsum(np.array(kept, dtype=np.int32)) - 1, -1).astype(np.int32)

    with (
        TemporaryDirectory() as first,
        TemporaryDirectory() as second,
        TemporaryDirectory() as third,
    ):
        whole = write(Path(first), copied + later)
        with closing(whole), closing(write(Path(second), earlier)) as source:
            writer = ColumnsWriter(Path(third))
            writer.copy(source, rows)
            add(writer, later, len(copied))
            writer.close()
        for name in (columns.COLUMNS_FILE, columns.LAYOUTS_FILE):
            assert (Path(third) / name).read_bytes() == (Path(first) / name).read_bytes()


@given(INTEGERS | REALS | st.just(math.nan), st.lists(INTEGERS | REALS))
def test_bounds_compare_exactly(bound: float, values: list[float]) -> None:
    for type_, own in (("integer", int), ("real", float)):
        lowest, highest = lower_bound(bound, type_), upper_bound(bound, type_)
        for value in values:
            if type(value) is own:
                assert (lowest is not None and value >= lowest) == (value >= bound)
                assert (highest is not None and value <= highest) == (value <= bound)


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ("38", [0, 1]),
        (38, [0, 1]),
        (38.0, [0, 1]),
        (["M", "7.5"], [2, 3, 4]),
        ("038", []),
        ("38.0", []),
        (7.5, [3, 4]),
        (-0.0, []),
    ],
)
def test_number_of_a_field_with_texts_is_one_however_it_is_written(
    tmp_path: Path, value: Any, rows: list[int]
) -> None:
    sizes: list[Value] = [38, "38", "M", 7.5, "7.5", "L"]
    with closing(write(tmp_path, [{"size": size} for size in sizes])) as opened:
        assert opened.types() == {"size": "both"}
        mask = opened.matching(clauses({"size": value}, opened.types()), len(sizes))
        assert np.flatnonzero(mask).tolist() == rows


FIELD_TYPES: dict[str, FieldType] = {"price": "numbers", "brand": "texts", "size": "both"}


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"price": "cheap"}, "'price' has numbers only.*\"cheap\".*give a number, or a range"),
        ({"price": "30"}, "'price' has numbers only; give a number, 30 without quotes"),
        ({"price": True}, "'price' has numbers only.*true"),
        ({"price": ["cheap", "dear"]}, "'price' has numbers only"),
        ({"price": {"lte": "cheap"}}, "'price' has numbers only.*give numbers as bounds"),
        ({"brand": 5}, "'brand' has texts only.*in quotes: \"5\""),
        ({"brand": 1}, "'brand' has texts only.*in quotes: \"1\", or as true"),
        ({"brand": [0]}, "'brand' has texts only.*in quotes: \"0\", or as false"),
        ({"brand": {"gte": 5}}, "'brand' has texts only.*give texts as bounds"),
        ({"price": 1, "brand": [5, 6]}, "'brand' has texts only"),
    ],
)
def test_conditions_that_no_value_can_fulfil_are_refused(conditions: Filter, message: str) -> None:
    with pytest.raises(WrongType, match=message):
        check_types(conditions, FIELD_TYPES)


@pytest.mark.parametrize(
    "conditions",
    [
        {"price": ["cheap", 5]},
        {"price": {"lte": 5}},
        {"brand": True},
        {"brand": ["5", 5]},
        {"size": 5},
        {"size": "M"},
        {"nothing": "x"},
        {"price": []},
        {"price": {}},
    ],
)
def test_other_conditions_pass_the_check_of_types(conditions: Filter) -> None:
    check_types(conditions, FIELD_TYPES)


def test_several_conditions_hold_together(tmp_path: Path) -> None:
    documents: list[dict[str, Value]] = [{"x": 1, "y": "a"}, {"x": 1}, {"x": 2, "y": "a"}]
    conditions: Filter = {"x": {"lte": 1}, "y": "a"}
    with closing(write(tmp_path, documents)) as opened:
        checked = clauses(conditions, opened.types())
        assert opened.matching(checked, 3).tolist() == [True, False, False]
        assert opened.types(np.array([False, True, False])) == {"x": "numbers"}


def test_nothing_is_left_of_what_was_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_MOST_BYTES", 1)
    writer = ColumnsWriter(tmp_path)
    add(writer, [{"x": "a"}, {"x": "b"}])
    assert list(tmp_path.iterdir()) == []
    writer.abandon()
    assert list(tmp_path.iterdir()) == []
