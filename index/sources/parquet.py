"""Read rows of Parquet files, whose package pyarrow is one of the extra `parquet`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from pyarrow import compute, types

from purlin.index.records import Skipped
from purlin.index.sources.files import is_transient
from purlin.index.sources.tables import Row

_TIMES = (types.is_date, types.is_time, types.is_timestamp)


def read_parquet(path: Path, name: str) -> Iterator[Row | Skipped]:
    """Yield the rows of a Parquet file; a group of rows that is damaged is a `Skipped`."""
    with pyarrow.parquet.ParquetFile(path) as table:
        number = 0
        for group in range(table.num_row_groups):
            end = number + table.metadata.row_group(group).num_rows
            try:
                batches = table.iter_batches(batch_size=256, row_groups=[group])
                for record in chain.from_iterable(map(_records, batches)):
                    number += 1
                    yield Row(number, record)
            except (OSError, ValueError, ArithmeticError, pyarrow.ArrowException) as error:
                yield Skipped(
                    name,
                    f"is damaged, as are the rows up to {end}: {error}",
                    number + 1,
                    passing=is_transient(error),
                )
            number = end


def _in_microseconds(batch: Any) -> Any:
    """Turn times of nanoseconds into microseconds, or into text where that would lose digits.

    Where pandas is installed, pyarrow makes them its types, which lose some without a word.
    """
    for number, column in enumerate(batch.columns):
        if types.is_timestamp(column.type) and column.type.unit == "ns":
            coarser: pyarrow.DataType = pyarrow.timestamp("us", column.type.tz)
        elif types.is_time64(column.type) and column.type.unit == "ns":
            coarser = pyarrow.time64("us")
        else:
            continue
        try:
            column = column.cast(coarser)
        except pyarrow.ArrowInvalid:
            column = _as_text(column)
        batch = batch.set_column(number, batch.schema.names[number], column)
    return batch


def _as_text(times: Any) -> Any:
    return compute.replace_substring(times.cast("string"), " ", "T")


def _records(batch: Any) -> list[dict[str, object]]:
    """Rows of a batch; times become text if one of them does not fit Python's types."""
    batch = _in_microseconds(batch)
    try:
        return list(batch.to_pylist(maps_as_pydicts="lossy"))
    except (OverflowError, ValueError):
        # Python's times have no nanoseconds, and no years beyond 9999.
        for number, column in enumerate(batch.schema):
            if any(is_time(column.type) for is_time in _TIMES):
                batch = batch.set_column(number, column.name, _as_text(batch.column(number)))
        return list(batch.to_pylist(maps_as_pydicts="lossy"))
