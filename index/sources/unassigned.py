"""Checks which columns of product tables are assigned to standard ones, by first rows alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from purlin.index.errors import InvalidInput
from purlin.index.sources import beir
from purlin.index.sources.products import catalogue
from purlin.index.sources.products.columns import (
    WANTED_COLUMNS,
    check_roles,
    column_names,
    listing,
    may_be_id,
    named_freely,
    standard_of,
)
from purlin.index.sources.products.values import price_of, typed_cell
from purlin.index.sources.tables import Row, read_rows, table_format
from purlin.index.texts.product_fields import has_trait_name, is_option, units_of
from purlin.index.texts.unspaced import is_unspaced

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


class Unassigned:
    """What the tables of a build have that is not known, by the first records of each.

    `columns` are those that were assigned by hand, by the standard ones that they are.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._left_out: dict[str, str] = {}
        # Standard column that a table lacks -> its column that is most likely this one.
        self._likeliest: dict[str, str] = {}
        # All columns that may be a standard one, in the order in which the tables have them.
        self._fitting: dict[str, None] = {}

    def add(self, table: str, records: Records) -> None:
        """Add a table by its name and first records."""
        if reason := catalogue.reason_to_skip(records, self._columns):
            self._left_out[table] = reason

        names = dict.fromkeys(chain.from_iterable(records))
        cells = {name: [record.get(name) for record in records] for name in names}
        others = _others(cells, self._columns)
        recognised = column_names(cells, self._columns)
        fitting: set[str] = set()
        for role in WANTED_COLUMNS:
            if role in recognised:
                continue
            if candidates := [name for name in others if _may_be(role, name, cells[name])]:
                self._likeliest[role] = _likeliest(role, candidates, cells)
                fitting.update(candidates)
        self._fitting |= dict.fromkeys(name for name in cells if name in fitting)

    def remarks(self) -> list[str]:
        """Lines on the tables that hold no known text, and on the columns that may be standard ones."""
        lines = [f"{table} was left out: {reason}" for table, reason in self._left_out.items()]
        return [*lines, *self._on_columns()]

    def _on_columns(self) -> Iterator[str]:
        roles = [role for role in WANTED_COLUMNS if role in self._likeliest]
        if not roles:
            return

        listed = ", ".join(f'"{name}"' for name in list(self._fitting)[:_LISTED])
        more = ", …" if len(self._fitting) > _LISTED else ""
        are = "column {} is" if len(self._fitting) == 1 else "columns {} are"
        yield (
            f"not recognised as {', '.join(roles)}: {are.format(listed + more)} only filterable; "
            f'--column {roles[0]}="{self._likeliest[roles[0]]}" assigns one'
        )


def _tables(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path / name for name in catalogue.names(path))
        elif table_format(path) and not beir.is_corpus(path):
            yield path


def _first_rows(table: Path) -> Records:
    try:
        rows = islice(read_rows(table, table.name), catalogue.SAMPLE_ROWS)
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
        and not (may_be_id(name) or is_option(name) or has_trait_name(name))
    ]


def _may_be(standard: str, name: str, cells: Sequence[object]) -> bool:
    """Whether values could be those of a standard column, so that a remark is of use."""
    values = [typed_cell(cell) for cell in cells if isinstance(cell, str | int | float) and cell]
    if standard == "price":
        # Any number could be one: a rating is not.
        return bool(_PRICE_NAME.search(name)) and any(map(_is_price, values))
    if standard == "id":
        return bool(values) and len(set(values)) == len(cells)
    texts = [value for value in values if isinstance(value, str)]
    # Prose has several words: a date or a code does not describe a product.
    return any(map(_has_words, texts)) if standard == "description" else bool(texts)


def _has_words(text: str) -> bool:
    """Whether a text has several words, or may have: Japanese has no spaces between them."""
    return " " in text or any(map(is_unspaced, text))


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
