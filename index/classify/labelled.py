"""Read labelled texts: the rows of a table with a text and a label, or several."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from purlin.index.classify.texts import (
    TextRow,
    cell,
    cell_text,
    check_text_length,
    readable_rows,
)
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.sources.tables import TABLE_SUFFIXES, Row, read_rows, table_format

MAX_LABELLED_ROWS = 1_000_000
MAX_LABELS_OF_ROW = 1_000
# Between the labels of a row, in a table of texts.
LABEL_SEPARATOR = "|"


@dataclass(frozen=True, slots=True)
class LabelledRow(TextRow):
    """A text and its labels, none if none applies; its id is the number of its row."""

    labels: tuple[str, ...]


def read_labelled(
    path: Path, *, column: str = "text", label_column: str = "label", several: bool = False
) -> Iterator[LabelledRow]:
    """Yield the rows of a table: CSV, TSV, JSON, Parquet, or else JSON Lines.

    The text of a row that has none is empty. A row without a label, or with null, has none. With
    `several`, its labels are those of a list, or of a text between `LABEL_SEPARATOR`. Raises
    NotFound, and InvalidInput naming the first row that cannot be read, lacks a column, or has
    several labels where one is expected.
    """
    name = str(path)
    if not path.is_file():
        raise NotFound(f"{name} does not exist or is not a file.", field="rows")

    for row in _rows(path, name):
        text = cell(row, column, name, "column").strip()
        where = f"Row {row.number} of {name}"
        check_text_length(text, where, field="rows")
        yield LabelledRow(str(row.number), text, _labels(row, label_column, name, several))


def _rows(path: Path, name: str) -> Iterator[Row]:
    """Yield the rows of a table; raises InvalidInput for the first that cannot be read."""
    try:
        yield from readable_rows(read_rows(path, name), name, field="rows", most=MAX_LABELLED_ROWS)
    except InvalidInput as error:
        if table_format(path):
            raise
        suffixes = ", ".join(TABLE_SUFFIXES)
        raise InvalidInput(
            f"{error.message} (A file is read as JSON Lines if its name ends in none of {suffixes}: "
            "rename another table.)",
            field="rows",
        ) from error


def _labels(row: Row, column: str, name: str, several: bool) -> tuple[str, ...]:
    where, value = f"Row {row.number} of {name}", row.record.get(column)
    if isinstance(value, list):
        if not several:
            raise InvalidInput(
                f"{where} has a list of labels: --multi measures several labels a text; without it "
                "a row has one.",
                field="rows",
            )
        items = [cell_text(item, where, column, "label-column") for item in value]
    else:
        written = cell(row, column, name, "label-column")
        items = written.split(LABEL_SEPARATOR) if several else [written]

    labels = tuple(dict.fromkeys(item.strip() for item in items if item.strip()))
    if len(labels) > MAX_LABELS_OF_ROW:
        raise InvalidInput(
            f"{where} has {len(labels):,} labels, more than {MAX_LABELS_OF_ROW:,}: give fewer.",
            field="rows",
        )
    return labels


def check_truth(rows: Sequence[LabelledRow], labels: Collection[str]) -> None:
    """Raise InvalidInput if a row has a label that the classifier does not have."""
    available = set(labels)
    unknown = dict.fromkeys(label for row in rows for label in row.labels if label not in available)

    if unknown:
        shown = ", ".join(repr(label[:60]) for label in list(unknown)[:5])
        of_several = any(LABEL_SEPARATOR in label for label in unknown)
        several = f" --multi reads several between {LABEL_SEPARATOR}." if of_several else ""
        raise InvalidInput(
            f"{len(unknown)} labels of the rows are not among those to choose from: {shown}. Correct "
            "them, or add them to the labels; a row to which none applies has no label, or null."
            f"{several}",
            field="rows",
        )
