"""Texts to classify, from files: each with what tells whose it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.evaluation.ranking import MAX_LINE_CHARS, read_lines
from purlin.index.records import Skipped
from purlin.index.sources.tables import Row, read_rows, table_format

MAX_TEXT_LINES = 20_000_000
_SHOWN_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class TextRow:
    """A text, empty if its row has none, and its id: the row's number or the value of a column."""

    id: str
    text: str


def read_texts(
    path: Path, name: str, *, column: str = "text", id_column: str | None = None
) -> Iterator[TextRow]:
    """Yield the texts in `column` of a table, or the lines of any other file.

    `name` is what errors call the file. Rows count from 1 as in the file: the header of a CSV is
    row 1. Raises NotFound, and InvalidInput naming the row that is not valid or lacks the column.
    """
    if not table_format(path):
        if id_column is not None:
            raise InvalidInput(
                f"{name} has one text a line, and no columns: leave --id out, or give CSV or JSON "
                "Lines.",
                field="id",
            )
        for number, line in read_lines(path, longest=MAX_LINE_CHARS, most=MAX_TEXT_LINES):
            yield TextRow(str(number), line.strip())
        return

    if not path.is_file():
        raise NotFound(f"{name} does not exist or is not a file.", field="texts")
    for row in read_rows(path, name):
        if isinstance(row, Skipped):
            where = f"{name}, row {row.line}" if row.line else name
            raise InvalidInput(f"{where}: {row.reason}. Correct the file.", field="texts")

        text = _cell(row, column, name, "column")
        row_id = str(row.number) if id_column is None else _cell(row, id_column, name, "id")
        yield TextRow(row_id, text.strip())


def _cell(row: Row, column: str, name: str, option: str) -> str:
    """The value of a column as text; nothing for null."""
    if column not in row.record:
        columns = ", ".join(repr(each) for each in list(row.record)[:_SHOWN_COLUMNS])
        raise InvalidInput(
            f"{name}, row {row.number}, has no column {column!r:.80}; its columns are "
            f"{columns:.400}: name one with --{option}.",
            field=option,
        )

    match row.record[column]:
        case None:
            return ""
        case str(value):
            # Tables have lone surrogates for bytes that are not text.
            return value.encode(errors="replace").decode()
        case bool() | int() | float() as value:
            return str(value)
    raise InvalidInput(
        f"{name}, row {row.number}: the column {column!r:.80} holds no text.", field=option
    )
