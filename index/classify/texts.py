"""Read the texts that people give: to classify them, or to train a classifier on.

They are a column of a table, the lines of any other file, or one text of many lines. Bytes that are
not valid in the encoding of their file become U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Skipped
from purlin.index.sources.encodings import decoded
from purlin.index.sources.tables import LINE, MAX_ROW, Row, read_lines, read_rows, table_format

MAX_TEXTS = 20_000_000
MAX_TEXT_CHARS = MAX_ROW
REPLACEMENT = "\ufffd"
_SHOWN_COLUMNS = 20
_SHOWN_IDS = 10
# How an array of records begins, also where each value has its own line.
_JSON = re.compile(r"[\[{]|\[\s*\{.*")
# Names of columns: no sentence has separators without spaces alone.
_HEADER = re.compile(r"[^\s,;\t]{1,40}(?:[,;\t][^\s,;\t]{1,40}){1,50}")
# Lines that tell whether a file is a table.
_SAMPLE_LINES = 20
_HTML = re.compile(r"</[a-zA-Z][a-zA-Z0-9]*>|<br ?/?>|&nbsp;")
# Tables have them for invalid bytes, JSON for escapes; no encoder takes them.
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class TextRow:
    """A text, stripped, and its id: the number of its row, or the value of a column.

    The text of a row that has none is empty.
    """

    id: str
    text: str


AnyTextRow = TypeVar("AnyTextRow", bound=TextRow)


def read_texts(
    path: Path, name: str, *, column: str | None = None, id_column: str | None = None
) -> Iterator[TextRow]:
    """Yield the texts in a column of a table, by default "text", or the lines of any other file.

    Blank lines are left out. All but Parquet may be gzipped, by their suffix. `name` is what errors
    call the file. Rows count from 1 as in the file: the header of a CSV is row 1. Raises NotFound,
    and InvalidInput naming the first row that cannot be read or lacks a column.
    """
    is_table = bool(table_format(path))
    for option, value in (("column", column), ("id", id_column)):
        if value is not None and not is_table:
            raise InvalidInput(
                f"{name} has one text a line, and no columns: leave --{option} out, or give CSV, TSV or "
                "JSON Lines, in a file named so. (Spreadsheets save TSV as .txt: rename it to .tsv.)",
                field=option,
            )
    if path.is_dir():
        raise InvalidInput(f"{name} is a directory: give one file of texts.", field="texts")
    if not path.is_file():
        raise NotFound(f"{name} does not exist or is not a file.", field="texts")

    rows = read_rows(path, name) if is_table else read_lines(path, name)
    text_column = (column or "text") if is_table else LINE
    for row in readable_rows(rows, name, field="texts", most=MAX_TEXTS):
        text = cell(row, text_column, name, "column")
        check_text_length(text, f"Row {row.number} of {name}")
        row_id = str(row.number) if id_column is None else cell(row, id_column, name, "id")
        yield TextRow(row_id, text.strip())


def format_of_lines(lines: Sequence[str]) -> str | None:
    """Return the format of the table that lines of a text are: json, jsonl, csv or tsv; None of any other."""
    first = lines[0] if lines else ""
    if _JSON.fullmatch(first):
        return "json"
    if first.startswith('{"'):
        return "jsonl"

    tab_counts = {line.count("\t") for line in lines[:_SAMPLE_LINES]}
    if "\t" in first and (_HEADER.fullmatch(first) or (len(lines) > 1 and len(tab_counts) == 1)):
        return "tsv"
    return "csv" if _HEADER.fullmatch(first) else None


def without_tags(rows: Iterable[AnyTextRow]) -> Iterator[AnyTextRow]:
    """Yield the rows with the HTML tags taken out of their texts."""
    from purlin.index.sources.products.values import plain

    return (replace(row, text=plain(row.text)) for row in rows)


def tag_warnings(texts: Sequence[str]) -> list[str]:
    """Warn of texts with HTML tags."""
    count = sum(bool(_HTML.search(text)) for text in texts)
    return _of_count(count, "HTML tags, which are read as words: --html removes them")


def undecoded_warnings(texts: Sequence[str]) -> list[str]:
    """Warn of texts with bytes that could not be decoded."""
    return _of_count(
        sum(REPLACEMENT in text for text in texts),
        f"{REPLACEMENT} where bytes are no text in the encoding of their file: "
        "convert it first, such as with `iconv -f latin1 -t utf-8`",
    )


def _of_count(count: int, problem: str) -> list[str]:
    texts = "1 text has" if count == 1 else f"{count:,} texts have"
    return [f"{texts} {problem}"] if count else []


def filled_rows(rows: Iterable[AnyTextRow], note: Callable[[str], None]) -> list[AnyTextRow]:
    """Return the rows that have a text; `note` is told how many have none, and which."""
    read = list(rows)
    if empty := [row for row in read if not row.text]:
        shown = ", ".join(row.id for row in empty[:_SHOWN_IDS])
        more = ", …" if len(empty) > _SHOWN_IDS else ""
        count = "1 row" if len(empty) == 1 else f"{len(empty):,} rows"
        note(f"{count} without a text left out: {shown}{more}")
    return [row for row in read if row.text]


def readable_rows(
    rows: Iterable[Row | Skipped], name: str, *, field: str, most: int
) -> Iterator[Row]:
    """Yield rows; raises InvalidInput for the first that cannot be read, or for more than `most`."""
    for count, row in enumerate(rows, 1):
        if isinstance(row, Skipped):
            raise _unreadable(name, row, field)
        if count > most:
            raise InvalidInput(f"{name} has more than {most:,} rows: split the file.", field=field)
        yield row


def read_label_lines(path: Path) -> list[str]:
    """Read one label a line: a name, or `name = one wording | another`.

    Raises NotFound and InvalidInput as `read_texts` does, and InvalidInput for a table.
    """
    if table_format(path):
        raise InvalidInput(
            f"{path} is a table: labels are lines of a text file, each a name, or "
            "`name = description`.",
            field="labels",
        )

    try:
        return [row.text for row in read_texts(path, str(path))]
    except InvalidInput as error:
        raise InvalidInput(error.message, field="labels") from error


def whole_text(content: bytes, name: str) -> TextRow:
    """Return the content of a file as one text, which `name` calls in errors.

    Raises InvalidInput.
    """
    text = decoded(content)
    if text is None:
        text = content.decode(errors="replace")

    if "\0" in text:
        raise InvalidInput(
            f"{name} has zero bytes, as UTF-16 and what is no text have: save it as UTF-8.",
            field="texts",
        )

    check_text_length(text, name)
    return TextRow("1", text.strip())


def check_text_length(text: str, where: str, *, field: str = "texts") -> None:
    """Raise InvalidInput for a text that is longer than MAX_TEXT_CHARS."""
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidInput(
            f"{where} has {len(text):,} characters; {MAX_TEXT_CHARS:,} are allowed: shorten it.",
            field=field,
        )


def _unreadable(name: str, skipped: Skipped, field: str) -> InvalidInput:
    if skipped.line:
        message = f"Row {skipped.line} of {name} {skipped.reason}. Correct it, or leave it out."
    else:
        message = f"{name} {skipped.reason}. Correct the file, or give another."
    return InvalidInput(message, field=field)


def cell(row: Row, column: str, name: str, option: str) -> str:
    """Return the value of a column as text, empty for null.

    Raises InvalidInput, which names the `option` of the command that names the column, if there is
    no such column or it has no text.
    """
    where = f"Row {row.number} of {name}"
    if column not in row.record:
        columns = ", ".join(repr(each) for each in list(row.record)[:_SHOWN_COLUMNS])
        raise InvalidInput(
            f"{where} has no column {column!r:.80}; its columns are {columns:.400}: name one with "
            f"--{option}. (The first line of CSV and TSV is the header: delete what stands before it.)",
            field=option,
        )

    return cell_text(row.record[column], where, column, option)


def cell_text(value: object, where: str, column: str, option: str) -> str:
    """Return a value of a column as text, empty for null; raises InvalidInput as `cell` does."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _SURROGATE.sub(REPLACEMENT, value)
    if isinstance(value, int | float):
        return str(value)

    raise InvalidInput(
        f"{where} has a {type(value).__name__} in the column {column!r:.80}, not a text: name "
        f"another with --{option}.",
        field=option,
    )
