"""Read rows of CSV, TSV, JSON, JSON Lines, Parquet and XML files as mappings of column to value.

A file without columns is read line by line, each line a row.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import importlib.util
import io
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import IO, NamedTuple

from purlin.index.errors import InvalidInput
from purlin.index.records import Skipped, Stamp
from purlin.index.sources.encodings import other_codec
from purlin.index.sources.files import file_stamp, is_transient
from purlin.index.sources.parts import broken
from purlin.index.sources.words import words

TABLE_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".xml")
MAX_ROW = 1 << 20  # characters
# Of a column or field; names are compared with those of standard columns, and remembered.
MAX_NAME_CHARS = 1_000
_CHUNK_CHARS = 1 << 16
_SHOWN_CHARS = 100
_IS_HEADER = "the first line of a table is its header; delete what stands before it"
# What reading a file may raise that is cut off, damaged, or of another format than its name says.
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    ArithmeticError,
    NotImplementedError,
    zlib.error,
    InvalidInput,
)
TOO_LONG = f"is longer than {MAX_ROW:,} characters"
# Files of spreadsheets, which are read as what they export.
_WORKBOOK_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
# What ZIP archives, such as new workbooks, and old workbooks begin with.
_WORKBOOK_STARTS = (b"PK\3\4", b"\xd0\xcf\x11\xe0")
_WORKBOOK = "is a workbook of a spreadsheet or another archive: export it as CSV"
# A member of an object, up to its value, also after the end of an object; an array of objects.
_MEMBER = re.compile(r'[\s}]*[{,]\s*"([^"\\]{1,64})"\s*:\s*')
_RECORDS = re.compile(r"\[\s*(?=[{\]])")
# What programs call the array of records in what they answer or export. Arrays of other names,
# such as the variants of a single product, are records only as the first value of the object.
_RECORDS_NAMES = words(
    "products items articles records rows entries results data hits docs documents catalog "
    "catalogue listings produkte artikel produits productos prodotti producten texts"
)
# What `open_text` makes of the bytes of a character that the end of a file cuts.
_HALF_CHARACTER = re.compile("[\udc80-\udcff]$")
# The only column of the rows of `read_lines`.
LINE = "line"


class Row(NamedTuple):
    """One record of a table. Rows count from 1 as in the file: the header of a CSV is row 1.

    The number of a product in XML is the line where it begins.
    """

    number: int
    record: Mapping[str, object]


def table_format(path: Path) -> str:
    """The suffix of a file's format, without `.gz`; empty if it is not a known one."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    is_gzipped_parquet = suffix == ".parquet" and name.endswith(".gz")
    return suffix if suffix in TABLE_SUFFIXES and not is_gzipped_parquet else ""


def why_no_table(path: Path) -> str:
    """Say why a file without a known suffix is not read, and what to give instead."""
    if path.suffix.lower() in _WORKBOOK_SUFFIXES:
        return _WORKBOOK
    return f"is no product table: give one of {', '.join(TABLE_SUFFIXES)}"


def read_rows(path: Path, name: str) -> Iterator[Row | Skipped]:
    """Yield the records of a table in any known format; a broken row is a `Skipped`.

    `name` is what a `Skipped` calls the file. Raises InvalidInput for a Parquet file if pyarrow is
    not installed.
    """
    if table_format(path) == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise InvalidInput(
            f"{name} is a Parquet file, and pyarrow is not installed: "
            "pip install 'purlin-search[parquet]', or convert it to CSV or JSON Lines."
        )

    readers = {".parquet": _parquet, ".xml": _xml, ".csv": _csv, ".tsv": _csv, ".json": _json_array}
    for row in _while_readable(readers.get(table_format(path), _json_lines), path, name):
        yield row if isinstance(row, Skipped) else _checked_names(row, name)


def _checked_names(row: Row, name: str) -> Row | Skipped:
    """Return the row, or why it is left out if the name of a column is too long."""
    longest = max(map(len, row.record), default=0)
    if longest <= MAX_NAME_CHARS:
        return row
    return Skipped(name, name_too_long(longest), row.number)


def name_too_long(chars: int) -> str:
    """Say why a record with such a name is left out."""
    return f"has a column whose name has {chars:,} characters; the limit is {MAX_NAME_CHARS:,}"


def read_lines(path: Path, name: str) -> Iterator[Row | Skipped]:
    """Yield the lines of a text that are not blank as rows with the column LINE.

    A line that cannot be read is a `Skipped`, which calls the file `name`.
    """
    return _while_readable(_lines, path, name)


def identified(
    row: Row | Skipped, id_of: Callable[[Mapping[str, object]], str]
) -> tuple[str | None, bytes]:
    """Return the id of a row's record, None if it has none, and its content, as `parts.cut` takes them.

    `id_of` may raise InvalidInput. A broken row is identified by its number; after an error that
    may not repeat, nothing is.
    """
    if isinstance(row, Skipped):
        reason = row.reason.encode(errors="replace")
        return (None, reason) if row.passing else broken(row.line, reason)

    content = repr(row.record).encode(errors="surrogatepass")
    try:
        return id_of(row.record) or None, content
    except InvalidInput:
        return broken(row.number, content)


def _while_readable(
    read: Callable[[Path, str], Iterator[Row | Skipped]], path: Path, name: str
) -> Iterator[Row | Skipped]:
    """Yield what `read` yields; where it fails, and for a file without rows, a `Skipped` ends it."""
    row: Row | Skipped | None = None
    try:
        if not path.stat().st_size:
            # Emptied to be written anew: a table without rows has a header or brackets in most formats.
            yield Skipped(name, "holds no rows", cut_off=True)
            return

        if _is_workbook(path):
            yield Skipped(name, _WORKBOOK)
            return

        for row in read(path, name):
            yield row
        if row is None:
            yield Skipped(name, "holds no rows")
    except _UNREADABLE as error:
        # `row` is the last one that could be read.
        number = row.number if isinstance(row, Row) else (row and row.line) or 0
        yield Skipped(
            name,
            f"cannot be read from here on: {error}",
            number + 1,
            passing=is_transient(error),
            # A gzip or Parquet file that is cut off may not give a single row.
            cut_off=row is not None or isinstance(error, EOFError) or _is_parquet(path),
        )


def _is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet does, whose rows cannot be read before its end is written."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(4) == b"PAR1"
    return False


def _is_workbook(path: Path) -> bool:
    """Whether a file begins as workbooks and archives do, whatever its suffix says."""
    with open_bytes(path) as stream:
        return stream.peek(4).startswith(_WORKBOOK_STARTS)


def has_decimal_commas(path: Path) -> bool:
    """Whether a CSV is separated by semicolons, as spreadsheets save it where 9,80 is a number.

    False for a file that cannot be read: its rows will say why.
    """
    if table_format(path) != ".csv":
        return False
    try:
        with open_text(path, _encoding(path)) as handle:
            return _delimiter(_CsvLines(handle), ".csv") == ";"
    except _UNREADABLE:
        return False


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Open a file, which may be gzipped."""
    with path.open("rb") as file:
        yield gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file


@contextmanager
def open_text(path: Path, encoding: str = "utf-8-sig") -> Iterator[IO[str]]:
    """Open a file, which may be gzipped, with its line ends unchanged; UTF-16 has its mark."""
    with open_bytes(path) as stream:
        if stream.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16"

        # Bytes that are not valid become lone surrogates, so that only their row is refused.
        with io.TextIOWrapper(stream, encoding, "surrogateescape", newline="") as text:
            yield text


def _encoding(path: Path) -> str:
    """The encoding of a whole file: UTF-8, unless most of what is not ASCII tells another one."""
    return _encoding_at(path, file_stamp(path))


# The same file is opened for its first rows, its parts and its products.
@lru_cache(maxsize=64)
def _encoding_at(path: Path, stamp: Stamp | None) -> str:
    with open_bytes(path) as stream:
        if _is_utf8(stream):
            return "utf-8-sig"

        stream.seek(0)
        lines = iter(lambda: stream.readline(MAX_ROW), b"")
        foreign = bytearray()
        for line in lines:
            foreign += b"" if line.isascii() else line
            if len(foreign) > MAX_ROW:
                break
    return other_codec(bytes(foreign)) or "utf-8-sig"


def _is_utf8(stream: io.BufferedReader | gzip.GzipFile) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_ascii = True

    try:
        while chunk := stream.read(_CHUNK_CHARS):
            is_ascii = decoder.decode(chunk).isascii() and is_ascii
        # Where a file is cut off, its last character may be incomplete.
        decoder.decode(b"", final=is_ascii)
    except UnicodeDecodeError:
        return False

    return True


def text_lines(handle: IO[str]) -> Iterator[str]:
    """Yield lines with their ends; one that is too long is cut one character over the limit."""
    while line := handle.readline(MAX_ROW + 1):
        rest = line
        while len(rest) > MAX_ROW and not rest.endswith(("\n", "\r")):
            rest = handle.readline(MAX_ROW + 1)
        yield line


def _is_cut_off(line: str) -> bool:
    """Whether a line that is no whole row ends with its file instead of a line end."""
    return not line.endswith(("\n", "\r"))


def _lines(path: Path, name: str) -> Iterator[Row | Skipped]:
    with open_text(path, _encoding(path)) as handle:
        for number, line in enumerate(text_lines(handle), 1):
            if len(line) > MAX_ROW:
                yield Skipped(name, TOO_LONG, number)
            elif "\0" in line:
                reason = "has zero bytes, as UTF-16 and what is no text have: save it as UTF-8"
                yield Skipped(name, reason, number)
            elif line.strip():
                yield Row(number, {LINE: line})


def _json_lines(path: Path, name: str) -> Iterator[Row | Skipped]:
    with open_text(path) as handle:
        for number, line in enumerate(text_lines(handle), 1):
            if len(line) > MAX_ROW:
                yield Skipped(name, TOO_LONG, number)
            elif line.strip():
                yield _json_row(line, name, number)


def _json_row(line: str, name: str, number: int) -> Row | Skipped:
    try:
        record = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        reason = f"is not valid JSON: {error}"
        return Skipped(name, reason, number, cut_off=_is_cut_off(line))

    return _row_or_skipped(record, name, number)


def _row_or_skipped(record: object, name: str, number: int) -> Row | Skipped:
    if isinstance(record, dict):
        return Row(number, record)
    return Skipped(name, 'is not a JSON object as {"column": "value"}', number)


def _json_array(path: Path, name: str) -> Iterator[Row | Skipped]:
    """Yield the rows up to the first broken one: nothing marks where the next one starts.

    The array may be in an object, as in {"products": [...]}.
    """
    decode = json.JSONDecoder(parse_constant=lambda _: None).raw_decode
    with open_text(path) as handle:
        buffer = handle.read(_CHUNK_CHARS).lstrip()
        start = 1 if buffer[:1] == "[" else _start_of_records(buffer)
        if start is None:
            yield Skipped(
                name,
                "is not an array of records, nor an object with one as its first value or named as "
                '"data" or "products": give the array alone, or name a file with one record per line .jsonl',
            )
            return

        number, buffer = 1, buffer[start:]
        while (buffer := buffer.lstrip(" \t\r\n,"))[:1] != "]":
            try:
                record, end = decode(buffer)
            except (ValueError, RecursionError) as error:
                # The record may merely be cut off: read on, up to the limit.
                may_be_cut = len(buffer) <= MAX_ROW and isinstance(error, ValueError)
                chunk = handle.read(_CHUNK_CHARS) if may_be_cut else ""
                if not chunk:
                    reason = TOO_LONG if len(buffer) > MAX_ROW else f"is not valid JSON: {error}"
                    reason = f"{reason}; the rows after it are left out, too"
                    yield Skipped(name, reason, number, cut_off=number > 1)
                    return
                buffer += chunk
                continue

            yield _row_or_skipped(record, name, number)
            number, buffer = number + 1, buffer[end:]


def _start_of_records(text: str) -> int | None:
    """Where the array of records in an object begins, or None.

    It is the first value, or one named as such arrays usually are, also in an object with such a
    name: {"total": 2, "data": {"products": [...]}}. `text` may be cut off after the array's start.
    """
    decode = json.JSONDecoder().raw_decode
    position, is_first = 0, True
    while member := _MEMBER.match(text, position):
        start, is_usual = member.end(), member[1].casefold() in _RECORDS_NAMES
        array = _RECORDS.match(text, start)
        if array and (is_usual or (is_first and text[array.end()] == "{")):
            return array.end()
        if is_usual and text[start : start + 1] == "{":
            # The members go on within it, and those of the outer object are passed over.
            position, is_first = start, False
            continue

        try:
            _, position = decode(text, start)
        except (ValueError, RecursionError):
            return None
        is_first = False
    return None


class _CsvLines:
    """The lines of a CSV file, which can be read again from the second line of a broken row on.

    An open quote swallows all lines up to the next quote or the limit; by reading them again, only
    its own row is lost. The amount that is read again is limited to twice the file (and 16 MiB), so
    that no file takes forever.
    """

    def __init__(self, handle: IO[str]) -> None:
        self._source = text_lines(handle)
        self._returned: deque[str] = deque()
        self._row_lines: list[str] = []
        self._row_chars_left = MAX_ROW
        self._budget = 16 * MAX_ROW

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._returned.popleft() if self._returned else self._next_from_file()
        self._row_lines.append(line)

        self._row_chars_left -= len(line)
        if self._row_chars_left < 0:
            raise InvalidInput(TOO_LONG)
        return line

    def _next_from_file(self) -> str:
        line = next(self._source)
        self._budget += 2 * len(line)
        return line

    def start_row(self) -> None:
        self._row_lines.clear()
        self._row_chars_left = MAX_ROW

    def give_back(self, start: int) -> str:
        """Return the row's lines from `start` on, to be read again as rows of their own.

        Beyond the limit on this they are lost; the result then says so, else it is empty.
        """
        lines = self._row_lines[start:]
        size = sum(map(len, lines))
        if size > self._budget:
            return f"; lines left out with it: {len(lines):,}"

        self._budget -= size
        self._returned.extendleft(reversed(lines))
        return ""

    @property
    def at_end(self) -> bool:
        """Whether no line is left."""
        if not self._returned:
            with suppress(StopIteration):
                self._returned.append(self._next_from_file())
        return not self._returned

    @property
    def ends_in_row(self) -> bool:
        """Whether the file ends with this row, and without a line end."""
        return _is_cut_off(self._row_lines[-1]) and self.at_end


def _csv(path: Path, name: str) -> Iterator[Row | Skipped]:
    csv.field_size_limit(max(MAX_ROW, csv.field_size_limit()))
    # Excel saves CSV in the encoding of its country.
    with open_text(path, _encoding(path)) as handle:
        lines = _CsvLines(handle)
        reader = csv.reader(lines, delimiter=_delimiter(lines, table_format(path)), strict=True)
        columns: dict[str, int] = {}
        width = 0
        # The header, until a row was read: a first row of another width may be the header itself.
        header = ""
        # Whether a quote is open since a row after which none could be read.
        is_unclosed = False

        for number in count(1):
            lines.start_row()
            try:
                cells = [cell.strip() for cell in next(reader)]
            except StopIteration:
                return
            except (csv.Error, InvalidInput) as error:
                swallows_rest = lines.at_end
                reason = f"is not valid CSV: {error}{lines.give_back(1)}"
                is_cut_off = lines.ends_in_row or (is_unclosed and lines.at_end)
                yield Skipped(name, reason, number, cut_off=is_cut_off)
                is_unclosed |= swallows_rest and not lines.at_end
                continue

            if not any(cells):
                continue
            if not columns:
                # The header. Of columns with the same name, the first counts.
                columns, width = {column: cells.index(column) for column in cells}, len(cells)
                header = f" ({reader.dialect.delimiter.join(cells)[:_SHOWN_CHARS]!r}: {_IS_HEADER})"
                continue
            if len(cells) != width:
                reason = f"has {len(cells)} cells where the header has {width}{header}"
                reason += lines.give_back(1)
                is_cut_off = lines.ends_in_row and len(cells) < width
                is_cut_off |= is_unclosed and lines.at_end
                yield Skipped(name, reason, number, cut_off=is_cut_off)
            elif _HALF_CHARACTER.search(cells[-1]) and lines.ends_in_row:
                yield Skipped(name, "ends in the middle of a character", number, cut_off=True)
            else:
                yield Row(number, {column: cells[index] for column, index in columns.items()})
                is_unclosed = False
            header = ""


def _delimiter(lines: _CsvLines, suffix: str) -> str:
    """The separator that gives the first line most cells, or the one in Excel's `sep=;` line."""
    first = next(lines, "")
    if first[:4].lower() == "sep=" and len(first.rstrip("\r\n")) > 4 and not first[5:].strip():
        return first[4]

    lines.give_back(0)
    if suffix == ".tsv" and "\t" in first:
        return "\t"

    unquoted = re.sub(r'"[^"]*"', "", first)
    return max(",;\t|", key=unquoted.count)


def _parquet(path: Path, name: str) -> Iterator[Row | Skipped]:
    from purlin.index.sources.parquet import read_parquet

    return read_parquet(path, name)


def _xml(path: Path, name: str) -> Iterator[Row | Skipped]:
    from purlin.index.sources.feeds import read_feed

    return read_feed(path, name)
