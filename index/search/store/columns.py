"""Filterable fields of a segment's documents, by column: sorted values, and the rows of each.

    columns.bin    for each column, one after the other:
                   values: 8 bytes each, or texts in UTF-8, and int64 ends of the texts
                   int64 (values,): the end of each value's rows
                   int32 (entries,): document rows, by value
    columns.json   for each column its field, type, place and size, and every n-th of its values

A field has a column for each type that its values have: texts, which sort by code point, integers
of 64 bits, and real numbers. So a condition is a range of values, found by bisection, and its rows
are one slice of the file.
"""

from __future__ import annotations

import heapq
import json
import math
import os
import tempfile
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from purlin.index.search.arrays import Mask
from purlin.index.search.store.filters import Clause, FieldType, Scalar
from purlin.index.storage.blocks import BlockFile, BlockWriter, Buffer, FileReader

COLUMNS_FILE, LAYOUTS_FILE = "columns.bin", "columns.json"
ValueType = Literal["text", "integer", "real"]
# Every n-th value is in memory, as a sample. Texts have more samples, because Python compares them.
_TEXTS_PER_SAMPLE, _NUMBERS_PER_SAMPLE = 64, 512
# What is collected in memory before it is sorted and written: entries, and bytes of new values.
_MOST_ENTRIES, _MOST_BYTES = 4_000_000, 16 * 2**20
_VALUE_OVERHEAD = 150  # bytes of a value and its number in a dictionary
_READ_TOGETHER = 65_536
_DTYPES = {"integer": np.dtype("<i8"), "real": np.dtype("<f8")}
_ROW, _END = np.dtype("<i4"), np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a column is in its file: `start`, and the sizes that its parts follow from.

    `samples` has every n-th value, where n is `values_per_sample`.
    """

    field: str
    type: ValueType
    start: int
    value_bytes: int
    distinct: int
    entries: int
    samples: Sequence[Any]

    @property
    def values_per_sample(self) -> int:
        """Number of values from one sample to the next."""
        return _TEXTS_PER_SAMPLE if self.type == "text" else _NUMBERS_PER_SAMPLE


class Column:
    """The values that a field has of one type."""

    def __init__(self, file: BlockFile | _Spill, layout: Layout) -> None:
        self._file = file
        self.layout = layout
        self._text_ends = layout.start + layout.value_bytes
        texts = layout.distinct if layout.type == "text" else 0
        self._ends = self._text_ends + texts * _END.itemsize
        self._rows = self._ends + layout.distinct * _END.itemsize

        self._samples: Any
        if layout.type == "text":
            self._samples = [text.encode() for text in layout.samples]
        else:
            self._samples = np.array(layout.samples, _DTYPES[layout.type])

    # ---- conditions

    def select(self, clause: Clause, mask: Mask) -> None:
        """Set `mask` (documents,) for those with a value that fulfils a clause."""
        ranges: list[tuple[Scalar | None, Scalar | None]]
        ranges = [(value, value) for value in clause.values] or [(clause.gte, clause.lte)]
        for lowest, highest in ranges:
            first, last = self._first(lowest), self._after(highest)
            if first < last:
                start = self._end_of(first - 1)
                mask[self._read_rows(start, self._end_of(last - 1))] = True

    def _first(self, lowest: Scalar | None) -> int:
        """Position of the first value that is not below `lowest`."""
        if lowest is None:
            return 0
        bound = lower_bound(lowest, self.layout.type)
        return self.layout.distinct if bound is None else self._position(bound, "left")

    def _after(self, highest: Scalar | None) -> int:
        """Position after the last value that is not above `highest`."""
        if highest is None:
            return self.layout.distinct
        bound = upper_bound(highest, self.layout.type)
        return 0 if bound is None else self._position(bound, "right")

    def _position(self, bound: Any, side: Literal["left", "right"]) -> int:
        """Return where a value would be inserted among the sorted ones, before or after equal ones."""
        group = max(_bisect(self._samples, bound, side) - 1, 0)
        start = group * self.layout.values_per_sample
        stop = min(start + self.layout.values_per_sample, self.layout.distinct)

        values = (
            self._read_texts(start, stop)
            if self.layout.type == "text"
            else self.read_numbers(start, stop)
        )

        return start + _bisect(values, bound, side)

    # ---- parts of the file

    def _read(self, dtype: np.dtype[Any], base: int, start: int, stop: int) -> NDArray[Any]:
        size = dtype.itemsize
        return np.frombuffer(self._file.read(base + start * size, base + stop * size), dtype)

    def read_numbers(self, start: int, stop: int) -> NDArray[Any]:
        """Sorted distinct numbers."""
        return self._read(_DTYPES[self.layout.type], self.layout.start, start, stop)

    def _read_texts(self, start: int, stop: int) -> list[bytes]:
        """Sorted distinct texts."""
        before = 1 if start else 0
        ends = self._read(_END, self._text_ends, start - before, stop).tolist()
        if not before:
            ends.insert(0, 0)

        base = self.layout.start
        content = bytes(self._file.read(base + ends[0], base + ends[-1]))
        positions = [end - ends[0] for end in ends]
        return [content[first:last] for first, last in pairwise(positions)]

    def texts(self) -> Iterator[bytes]:
        """Yield the sorted distinct texts."""
        for start in range(0, self.layout.distinct, _READ_TOGETHER):
            yield from self._read_texts(start, min(start + _READ_TOGETHER, self.layout.distinct))

    def _end_of(self, position: int) -> int:
        """Where the rows of a value end."""
        return int(self._read(_END, self._ends, position, position + 1)[0]) if position >= 0 else 0

    def counts(self) -> NDArray[np.int64]:
        """Number of entries (values,) that have each value."""
        return np.diff(self._read(_END, self._ends, 0, self.layout.distinct), prepend=0)

    def _read_rows(self, start: int, stop: int) -> NDArray[np.int32]:
        return self._read(_ROW, self._rows, start, stop)

    def rows(self) -> NDArray[np.int32]:
        """Document rows (entries,), by value."""
        return self._read_rows(0, self.layout.entries)

    def has_any(self, rows: Mask) -> bool:
        """Whether any document of a mask has a value."""
        return any(
            rows[self._read_rows(start, min(start + _READ_TOGETHER, self.layout.entries))].any()
            for start in range(0, self.layout.entries, _READ_TOGETHER)
        )


def _bisect(values: Any, bound: Any, side: Literal["left", "right"]) -> int:
    if isinstance(values, list):
        return (bisect_left if side == "left" else bisect_right)(values, bound)
    return int(np.searchsorted(values, bound, side))


def lower_bound(value: Scalar, type_: ValueType) -> Any:
    """The least value of a type that is not below `value`, or None if there is none.

    Integers and real numbers are compared exactly; texts and numbers never meet.
    """
    if isinstance(value, str) or type_ == "text":
        return value.encode() if isinstance(value, str) and type_ == "text" else None

    if math.isnan(value):
        return None

    if type_ == "real":
        number = float(value)
        return math.nextafter(number, math.inf) if number < value else number

    if value >= 2**63:
        return None
    return math.ceil(value) if value > -(2**63) else -(2**63)


def upper_bound(value: Scalar, type_: ValueType) -> Any:
    """The greatest value of a type that is not above `value`, or None if there is none."""
    if isinstance(value, str) or math.isnan(value):
        return lower_bound(value, type_)

    if type_ == "text":
        return None

    if type_ == "real":
        number = float(value)
        return math.nextafter(number, -math.inf) if number > value else number

    if value < -(2**63):
        return None
    return math.floor(value) if value < 2**63 else 2**63 - 1


class Columns:
    """Reads the columns of one segment."""

    def __init__(self, directory: Path, files: FileReader) -> None:
        self._file = files.blocks(directory / COLUMNS_FILE)
        layouts = json.loads(files.read(directory / LAYOUTS_FILE))
        self.columns = [Column(self._file, Layout(**layout)) for layout in layouts]
        self._by_field: defaultdict[str, list[Column]] = defaultdict(list)
        for column in self.columns:
            self._by_field[column.layout.field].append(column)

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def types(self, rows: Mask | None = None) -> dict[str, FieldType]:
        """Map each field to its type, in the documents of the mask `rows` (documents,) if given."""
        types: dict[str, FieldType] = {}
        for column in self.columns:
            if rows is None or column.has_any(rows):
                name = column.layout.field
                own: FieldType = "texts" if column.layout.type == "text" else "numbers"
                types[name] = own if types.get(name, own) == own else "both"
        return types

    def texts(self, field: str) -> Iterator[str]:
        """Yield the sorted distinct texts of a field."""
        for column in self._by_field.get(field, ()):
            if column.layout.type == "text":
                yield from map(bytes.decode, column.texts())

    def matching(self, clauses: Sequence[Clause], count: int) -> Mask:
        """Mask (count,) of the documents that fulfil every clause."""
        mask = np.ones(count, dtype=np.bool_)
        for clause in clauses:
            fulfilled = np.zeros(count, dtype=np.bool_)
            for column in self._by_field.get(clause.name, ()):
                column.select(clause, fulfilled)
            mask &= ~fulfilled if clause.excludes else fulfilled
        return mask


# ---- writing


class _Collected:
    """Entries of one column that are not sorted yet."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.entries, self.rows = array("i"), array("i")


class _Spill:
    """A temporary file without a name: nothing is left of it, whatever happens."""

    def __init__(self, directory: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by `close`
        self._size = 0

    def write(self, content: Buffer) -> int:
        self._size += len(content)
        return self._file.write(content)

    def tell(self) -> int:
        return self._size

    def read(self, start: int, stop: int) -> bytes:
        self._file.flush()
        return os.pread(self._file.fileno(), stop - start, start)

    def close(self) -> None:
        self._file.close()


class ColumnsWriter:
    """Collects the fields of documents, in bounded memory, and writes their columns.

    What does not fit in memory is sorted and set aside in a temporary file in `directory`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._spill = _Spill(directory)
        self._collected: defaultdict[tuple[str, ValueType], _Collected] = defaultdict(_Collected)
        self._entries = self._bytes = 0

        # Columns to merge; those of earlier segments have the new row of each document, or -1.
        self._parts: defaultdict[
            tuple[str, ValueType], list[tuple[Column, NDArray[np.int32] | None]]
        ] = defaultdict(list)

    def add(self, field: str, value: Scalar, row: int) -> None:
        """Add a value of the document in this row."""
        key: Any = value.encode() if isinstance(value, str) else value
        type_: ValueType = (
            "text" if isinstance(value, str) else "real" if isinstance(value, float) else "integer"
        )
        collected = self._collected[field, type_]
        number = collected.numbers.setdefault(key, len(collected.numbers))
        if number == len(collected.numbers) - 1:
            self._bytes += _VALUE_OVERHEAD + (len(key) if isinstance(key, bytes) else 0)
        collected.entries.append(number)
        collected.rows.append(row)

        self._entries += 1
        if self._entries >= _MOST_ENTRIES or self._bytes >= _MOST_BYTES:
            self._set_aside()

    def copy(self, columns: Columns, rows: NDArray[np.int32]) -> None:
        """Add what an earlier segment has; `rows` has the new row of each of its documents or -1."""
        for column in columns.columns:
            self._parts[column.layout.field, column.layout.type].append((column, rows))

    def _set_aside(self) -> None:
        """Sort what was collected, and write it to the temporary file."""
        for (field, type_), collected in self._collected.items():
            values = sorted(collected.numbers)
            new_numbers = np.empty(len(values), dtype=np.int32)
            new_numbers[[collected.numbers[value] for value in values]] = np.arange(len(values))
            entries = new_numbers[np.frombuffer(collected.entries, np.int32)]
            rows = np.frombuffer(collected.rows, np.int32)

            layout = _write_values(self._spill, field, type_, values)
            layout = _write_entries(self._spill, layout, entries, rows)
            self._parts[field, type_].append((Column(self._spill, layout), None))
        self._collected.clear()
        self._entries = self._bytes = 0

    def close(self) -> None:
        """Write the files."""
        self._set_aside()

        layouts = []
        with BlockWriter(self._directory / COLUMNS_FILE) as file:
            for (field, type_), parts in sorted(self._parts.items(), key=lambda item: item[0]):
                merged = [_Part(column, rows) for column, rows in parts]
                values = _merged_texts(merged) if type_ == "text" else _merged_numbers(merged)
                layout = _write_values(file, field, type_, values)
                numbers = np.concatenate([part.merged[part.numbers] for part in merged])
                rows = np.concatenate([part.rows for part in merged])
                layout = _write_entries(file, layout, numbers, rows)
                if layout.entries:
                    layouts.append(asdict(layout))

        self._spill.close()
        content = json.dumps(layouts, ensure_ascii=False, separators=(",", ":"))
        (self._directory / LAYOUTS_FILE).write_text(content, encoding="utf-8")

    def abandon(self) -> None:
        """Release the temporary file."""
        self._spill.close()


def _write_values(
    file: BlockWriter | _Spill, field: str, type_: ValueType, values: Iterable[Any]
) -> Layout:
    """Write the sorted distinct values of a column, whose entries follow."""
    start = file.tell()
    if type_ != "text":
        numbers = np.fromiter(values, _DTYPES[type_])
        file.write(numbers.tobytes())
        samples = numbers[::_NUMBERS_PER_SAMPLE].tolist()
        return Layout(field, type_, start, numbers.nbytes, len(numbers), 0, samples)

    ends, samples = array("q"), []
    for text in values:
        if len(ends) % _TEXTS_PER_SAMPLE == 0:
            samples.append(text.decode())
        file.write(text)
        ends.append(file.tell() - start)
    value_bytes = file.tell() - start
    file.write(np.frombuffer(ends, np.int64).astype(_END).tobytes())
    return Layout(field, type_, start, value_bytes, len(ends), 0, samples)


def _write_entries(
    file: BlockWriter | _Spill, layout: Layout, numbers: NDArray[np.int32], rows: NDArray[np.int32]
) -> Layout:
    """Write the entries of a column: each the number of a value, and a row that has it."""
    counts = np.bincount(numbers, minlength=layout.distinct)
    file.write(np.cumsum(counts).astype(_END).tobytes())
    # By value, then by row: the file is the same whatever the order in which entries came.
    keys = numbers.astype(np.int64) << 32 | rows
    keys.sort()
    file.write((keys & 0xFFFFFFFF).astype(_ROW).tobytes())
    return replace(layout, entries=len(keys))


class _Part:
    """A column to merge: the numbers of the values and the rows of its entries.

    `new_rows` maps rows to those after the merge, -1 for entries that are left out; None keeps all.
    """

    def __init__(self, column: Column, new_rows: NDArray[np.int32] | None) -> None:
        distinct = column.layout.distinct
        numbers = np.repeat(np.arange(distinct, dtype=np.int32), column.counts())
        rows = column.rows()
        if new_rows is not None:
            rows = new_rows[rows]
            numbers, rows = numbers[rows >= 0], rows[rows >= 0]

        self.column, self.numbers, self.rows = column, numbers, rows
        # Whether some row has each value, and its number after the merge.
        self.used = np.zeros(distinct, dtype=np.bool_)
        self.used[numbers] = True
        self.merged = np.full(distinct, -1, np.int32)

    def texts(self, part: int) -> Iterator[tuple[bytes, int, int]]:
        """Yield the texts that some row has, each with this number of the `part` and its own."""
        used = self.used.tolist()
        return ((text, part, own) for own, text in enumerate(self.column.texts()) if used[own])


def _merged_texts(parts: Sequence[_Part]) -> Iterator[bytes]:
    """Yield the distinct texts of all parts, sorted, and number them in these."""
    previous, position = None, -1
    for text, part, own in heapq.merge(*(each.texts(number) for number, each in enumerate(parts))):
        if text != previous:
            previous = text
            position += 1
            yield text

        parts[part].merged[own] = position


def _merged_numbers(parts: Sequence[_Part]) -> Iterator[int | float]:
    """Yield the distinct numbers of all parts, sorted, and number them in these."""
    kept = [part.column.read_numbers(0, len(part.used))[part.used] for part in parts]
    values, numbers = np.unique(np.concatenate(kept), return_inverse=True)

    start = 0
    for part, own in zip(parts, kept, strict=True):
        part.merged[part.used] = numbers[start : start + len(own)]
        start += len(own)
    yield from values.tolist()
