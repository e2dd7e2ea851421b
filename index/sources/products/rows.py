"""Make product records of the rows of a table: variants are joined, cells of CSV get their type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from purlin.index.records import Skipped
from purlin.index.sources.products.attributes import paired_columns
from purlin.index.sources.products.columns import TEXT_COLUMNS, column_names, may_be_id
from purlin.index.sources.products.values import NUMBER, typed_cell
from purlin.index.sources.tables import MAX_ROW, Row


def joined(rows: Iterable[Row | Skipped], columns: Mapping[str, str]) -> Iterator[Row | Skipped]:
    """Join each row with those after it that have its id and no text: variants of the product.

    Different texts of a column become a list; of numbers and in standard columns what the first
    row says counts. Together the rows have no more characters than one may have.
    """
    lines: list[Row] = []
    size = 0
    for row in rows:
        row_size = _size(row) if isinstance(row, Row) else 0
        if (
            isinstance(row, Row)
            and lines
            and size + row_size <= MAX_ROW
            and _continues(row, lines[0], columns)
        ):
            lines.append(row)
            size += row_size
            continue

        if lines:
            yield _join(lines, columns)
        lines, size = [row] if isinstance(row, Row) else [], row_size
        if isinstance(row, Skipped):
            yield row
    if lines:
        yield _join(lines, columns)


def _size(row: Row) -> int:
    return sum(len(cell) for cell in row.record.values() if isinstance(cell, str))


def _continues(row: Row, first: Row, columns: Mapping[str, str]) -> bool:
    names = column_names([name for name, cell in row.record.items() if cell], columns, row.record)
    id_name = names.get("id")
    return (
        id_name is not None
        and row.record[id_name] == first.record.get(id_name)
        and not names.keys() & TEXT_COLUMNS
    )


def _join(lines: Sequence[Row], columns: Mapping[str, str]) -> Row:
    if len(lines) == 1:
        return lines[0]

    record = dict(lines[0].record)
    standard = set(column_names(list(record), columns).values())
    options = set(paired_columns(record).values())
    for name in record.keys() - standard:
        cells = (line.record.get(name) for line in lines)
        texts = list(dict.fromkeys(cell for cell in cells if isinstance(cell, str) and cell))
        is_text = name in options or may_be_id(name)
        are_numbers = not is_text and all(map(NUMBER.fullmatch, texts))
        if len(texts) > 1 and not are_numbers:
            record[name] = texts
        elif texts:
            record[name] = texts[0]
    return Row(lines[0].number, record)


def with_typed_cells(
    record: Mapping[str, object], columns: Mapping[str, str], *, decimal_comma: bool = False
) -> dict[str, object]:
    """A row of texts whose cells are numbers, true or false where they say so.

    Standard columns stay text, and so do those that may hold ids: as numbers, 10.10 and 10.1 would
    be the same.
    """
    standard = set(column_names(list(record), columns).values())
    return {
        name: cell if name in standard else _typed_cell(name, cell, decimal_comma)
        for name, cell in record.items()
    }


def _typed_cell(name: str, cell: object, decimal_comma: bool) -> object:
    if isinstance(cell, Mapping):
        return {key: _typed_cell(key, value, decimal_comma) for key, value in cell.items()}
    return cell if may_be_id(name) else typed_cell(cell, decimal_comma=decimal_comma)
