"""Read product tables (JSON Lines, JSON arrays, CSV, Parquet, XML) as one document per product.

Rows are streamed: memory holds one block of rows and, to detect repeated ids, a digest per id. What
a document says of its product is decided in `records`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

from purlin.index import versions
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Document, Skipped, SourceFile
from purlin.index.sources.files import file_stamp, files_below, unchanged
from purlin.index.sources.parts import Part, cut, part_files
from purlin.index.sources.products.columns import (
    TEXT_COLUMNS,
    check_roles,
    column_names,
    listing,
    serving_columns,
)
from purlin.index.sources.products.records import from_record, record_id
from purlin.index.sources.products.rows import joined, with_typed_cells
from purlin.index.sources.tables import (
    Row,
    has_decimal_commas,
    identified,
    read_rows,
    table_format,
    why_no_table,
)
from purlin.index.storage.digests import DigestMap, digest
from purlin.index.texts.product_fields import ICECAT

# Rows that decide whether a table holds products.
SAMPLE_ROWS = 50
Record = Mapping[str, object]
# Is called with the name of a table and its first records.
OnSample = Callable[[str, Sequence[Record]], None]

# The cells of these formats are all text.
_TEXT_FORMATS = (".csv", ".tsv", ".xml")


def files(
    path: Path, *, columns: Mapping[str, str] | None = None, on_sample: OnSample | None = None
) -> Iterator[SourceFile | Skipped]:
    """Yield the product tables at `path`: a file, or a directory with all below it, sorted by path.

    `columns` maps standard columns to the names in these files that are not recognised; a file or
    row without such a column is read by the known names. `on_sample` is called with the first
    records of each table when it is listed.

    Raises NotFound for a missing path, InvalidInput for a file of another kind or an unknown
    standard column.
    """
    columns = dict(columns or {})
    check_roles(columns)

    if not path.exists():
        raise NotFound(f"{path} does not exist.", field="path")

    if path.is_file() and not table_format(path):
        raise InvalidInput(f"{path.name} {why_no_table(path)}.", field="path")

    return _files(path, columns, on_sample or (lambda *_: None))


# Files


def _files(
    path: Path, columns: dict[str, str], on_sample: OnSample
) -> Iterator[SourceFile | Skipped]:
    root = path if path.is_dir() else path.parent
    paths: list[Path | Skipped] = []
    if path.is_dir():
        paths = list(files_below(path, _is_not_hidden))
    elif path.is_file() and _is_not_hidden(path.name):
        paths = [path]

    yield from (item for item in paths if isinstance(item, Skipped))
    for file in sorted(item for item in paths if isinstance(item, Path)):
        name = file.relative_to(root).as_posix()
        if not table_format(file):
            yield Skipped(name, why_no_table(file))
            continue

        try:
            yield from _tables(file, name, columns, on_sample)
        except OSError as error:
            yield Skipped(name, f"cannot be read: {error.strerror}")


def _tables(
    path: Path, name: str, columns: Mapping[str, str], on_sample: OnSample
) -> Iterator[SourceFile]:
    """Yield a table as one file, or as its parts if it is long."""
    before = file_stamp(path)
    options = [versions.CATALOGUES, table_format(path), sorted(columns.items())]
    typed = _typing(path, columns)

    def read(rows: Callable[[], Iterator[Row | Skipped]]) -> Iterator[Document | Skipped]:
        documents = _documents(rows(), name, columns, typed)
        return unchanged(documents, path, name, before)

    def digest_of(part_name: str) -> str:
        return hashlib.sha256(json.dumps([*options, part_name]).encode()).hexdigest()

    with path.open("rb") as handle:
        content = hashlib.file_digest(handle, "sha256")
    content.update(json.dumps(options).encode())

    parts, serving = _parts(path, name, columns, on_sample)
    if not parts:
        rows = partial(_checked_rows, path, name, columns)
        yield SourceFile(name, content.hexdigest(), partial(read, rows), columns=serving)
        return
    yield from part_files(name, parts, partial(read_rows, path, name), read, digest_of, serving)


def _typing(path: Path, columns: Mapping[str, str]) -> Callable[[Record], Record]:
    """What gives the cells of a table their type: those of some formats are all text."""
    if table_format(path) not in _TEXT_FORMATS:
        return dict
    return partial(with_typed_cells, columns=columns, decimal_comma=has_decimal_commas(path))


def _parts(
    path: Path, name: str, columns: Mapping[str, str], on_sample: OnSample
) -> tuple[list[Part], Mapping[str, tuple[str, ...]]]:
    """Cut a table of products, and tell which of its columns serve as standard ones.

    It has no parts if it is read, or refused, as a whole.
    """
    serving: Mapping[str, tuple[str, ...]] = {}
    try:
        rows, sample = _sampled(path, name)
        on_sample(name, sample)
        if reason_to_skip(sample, columns):
            return [], {}

        serving = serving_columns(sample, columns)
        return cut(identified(row, partial(record_id, columns=columns)) for row in rows), serving
    except InvalidInput:
        return [], serving


def names(root: Path) -> Iterator[str]:
    """Names of the product tables below a directory; none of them is opened."""
    for file in files_below(root, _is_not_hidden):
        if isinstance(file, Path) and table_format(file):
            yield file.relative_to(root).as_posix()


def _is_not_hidden(name: str) -> bool:
    return not name.startswith(".")


def _sampled(path: Path, name: str) -> tuple[Iterator[Row | Skipped], list[Record]]:
    """All rows of a table, and the records among the first ones."""
    rows = read_rows(path, name)
    first_rows = list(islice(rows, SAMPLE_ROWS))
    return chain(first_rows, rows), [row.record for row in first_rows if isinstance(row, Row)]


def _checked_rows(path: Path, name: str, columns: Mapping[str, str]) -> Iterator[Row | Skipped]:
    """The rows of a table, none but the broken ones among the first if it holds no products."""
    rows, sample = _sampled(path, name)
    if (reason := reason_to_skip(sample, columns)) is None:
        yield from rows
        return
    yield Skipped(name, reason)
    broken_rows = (row for row in islice(rows, SAMPLE_ROWS) if isinstance(row, Skipped))
    # No product is lost with the end of such a table.
    yield from (replace(row, cut_off=False) for row in broken_rows)


def _documents(
    rows: Iterable[Row | Skipped],
    name: str,
    columns: Mapping[str, str],
    typed: Callable[[Record], Record],
) -> Iterator[Document | Skipped]:
    """The products of rows, whose cells get their type by `typed`."""
    # Digest of an id -> the first half of its content's digest.
    contents = DigestMap()
    for row in joined(rows, columns):
        if isinstance(row, Skipped):
            yield row
            continue

        try:
            document = from_record(typed(row.record), columns=columns)
        except InvalidInput as error:
            yield Skipped(name, error.message, row.number)
            continue

        # An exact repeat is dropped without a word: exports often have one row per variant.
        key, content = digest(document.id), int.from_bytes(_content_digest(document)[:7])
        earlier = contents.get(key)
        if earlier is None:
            contents.add(key, content)
            yield document
        elif earlier != content:
            yield Skipped(name, "repeats an id with other content", row.number)


def _content_digest(document: Document) -> bytes:
    content = json.dumps(
        [document.title, document.body, document.location.url, dict(document.fields)],
        sort_keys=True,
    )
    return hashlib.blake2b(content.encode(), digest_size=16).digest()


def reason_to_skip(sample: Sequence[Record], columns: Mapping[str, str]) -> str | None:
    """Why a table holds no products, judging by its first rows, or None."""
    if not sample:
        return None

    present = list(dict.fromkeys(chain.from_iterable(sample)))
    has_text = column_names(present, columns).keys() & TEXT_COLUMNS
    if has_text or any(map(ICECAT.match, present)):
        return None
    return (
        f"none of its columns is known to hold text; it has {listing(present)}; "
        '--column title="COLUMN" assigns the title'
    )
