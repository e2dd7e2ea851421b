"""Checks which columns of product tables are assigned to standard ones, by first rows alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from purlin.index.errors import InvalidInput
from purlin.index.product_fields import is_option, units_of
from purlin.index.sources import beir, product
from purlin.index.sources.product_columns import (
    WANTED_COLUMNS,
    check_roles,
    column_names,
    listing,
    may_be_id,
    named_freely,
    standard_of,
)
from purlin.index.sources.product_values import price_of, typed_cell
from purlin.index.sources.tables import Row, read_rows, table_format

_PRICE_NAME = re.compile(
    r"price|cost|amount|rrp|msrp|preis|prix|precio|prijs|\b(?:eur|usd|gbp)\b", re.I
)
# Columns that a remark lists.
_LISTED = 5

Records = Sequence[Mapping[str, object]]


def check_columns(paths: Sequence[Path], columns: Mapping[str, str]) -> None:
    """Check that each of the `columns` is in at least one of the tables at `paths`.

    Raises InvalidInput, which names the option of the command line and the columns that there are.
    """
    check_roles(columns)
    if columns and (beir_files := [path for path in paths if beir.is_corpus(path)]):
        raise InvalidInput(
            f"--column: {beir_files[0].name} is a corpus of BEIR's form (its records have _id), whose "
            "columns cannot be assigned.",
            field="columns",
        )
    present = dict.fromkeys(
        name for table in _tables(paths) for record in _first_rows(table) for name in record
    )
    for standard, name in columns.items():
        if name not in present:
            is_file = len(paths) == 1 and paths[0].is_file()
            lacks = f"{paths[0].name} has no" if is_file else "no table has a"
            raise InvalidInput(
                f"--column {standard}={name!r}: {lacks} column {name!r}; "
                f"columns are {listing(present)}.",
                field="columns",
            )


def remark(paths: Sequence[Path], columns: Mapping[str, str]) -> str:
    """A line on what was not recognised and the columns that may be it; empty if there is none."""
    assigned: dict[str, str] = {}
    fitting: dict[str, None] = {}
    for table in _tables(paths):
        records = _first_rows(table)
        names = dict.fromkeys(chain.from_iterable(records))
        cells = {name: [row.get(name) for row in records] for name in names}
        standard = column_names(cells, columns)
        candidates = {
            role: [name for name in _others(cells, columns) if _may_be(role, name, cells[name])]
            for role in WANTED_COLUMNS
            if role not in standard
        }
        assigned |= {
            role: _likeliest(role, names, cells) for role, names in candidates.items() if names
        }
        fits = set(chain.from_iterable(candidates.values()))
        fitting |= dict.fromkeys(name for name in cells if name in fits)

    if not assigned:
        return ""

    roles = [role for role in WANTED_COLUMNS if role in assigned]
    listed = ", ".join(f'"{name}"' for name in list(fitting)[:_LISTED])
    more = ", …" if len(fitting) > _LISTED else ""
    are = "column {} is" if len(fitting) == 1 else "columns {} are"
    return (
        f"not recognised as {', '.join(roles)}: {are.format(listed + more)} only filterable; "
        f'--column {roles[0]}="{assigned[roles[0]]}" assigns one'
    )


def left_out(paths: Sequence[Path], columns: Mapping[str, str]) -> list[str]:
    """A line for each table that holds no products as far as its columns are known."""
    lines = []
    for table in _tables(paths):
        if reason := product.reason_to_skip(_first_rows(table), columns):
            lines.append(f"{table.name} was left out: {reason}")
    return lines


def _tables(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path / name for name in product.names(path))
        elif table_format(path) and not beir.is_corpus(path):
            yield path


def _first_rows(table: Path) -> Records:
    try:
        rows = islice(read_rows(table, table.name), product.SAMPLE_ROWS)
        return [row.record for row in rows if isinstance(row, Row)]
    except InvalidInput:
        # The build itself tells of files that cannot be read.
        return []


def _others(present: Collection[str], columns: Mapping[str, str]) -> list[str]:
    """Columns that have no standard meaning."""
    excluded = {*columns.values(), *units_of(dict.fromkeys(present, "")).values()}
    return [
        name
        for name in named_freely(present)
        if name not in excluded
        and standard_of(name) is None
        and not (may_be_id(name) or is_option(name))
    ]


def _may_be(standard: str, name: str, cells: Sequence[object]) -> bool:
    """Whether values could be those of a standard column, so that a remark is of use."""
    values = [typed_cell(cell) for cell in cells if isinstance(cell, str | int | float) and cell]
    if standard == "price":
        # Any number could be one: a rating is not.
        return bool(_PRICE_NAME.search(name)) and any(map(_is_price, values))
    if standard == "id":
        return bool(values) and len(set(values)) == len(cells)
    return any(isinstance(value, str) for value in values)


def _is_price(value: object) -> bool:
    try:
        return price_of(value) is not None
    except InvalidInput:
        # The build leaves such rows out.
        return False


def _likeliest(standard: str, names: Sequence[str], cells: Mapping[str, Sequence[object]]) -> str:
    """The column to propose: the longest texts for a description, else the first."""
    if standard == "description":
        return max(names, key=lambda name: sum(len(str(cell)) for cell in cells[name]))
    return names[0]
