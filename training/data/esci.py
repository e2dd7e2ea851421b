"""Amazon ESCI: shopping queries with judged products."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.passages import render
from purlin.index.records import Skipped
from purlin.index.sources import product
from purlin.training.data.pair_rows import Record, TableRow, read_table_rows
from purlin.training.data.pairs import (
    MAX_TEXTS_PER_PAIR,
    Draft,
    Drafts,
    Pair,
    PairSource,
    strip_text,
)

_PRODUCT_COLUMNS = tuple(
    f"product_{name}" for name in ("title", "description", "bullet_point", "brand", "color")
)


def esci_pairs(source: PairSource) -> Drafts:
    """Read the two Parquet files in a directory, or one table with product columns in every row.

    The columns are those of the publication: query_id, query, product_id, product_locale,
    esci_label (E or Exact and so on), small_version and large_version (1 for rows in it), split,
    and product_title, _description, _bullet_point, _brand and _color. Exact matches (E) are
    positives; complements (C) and irrelevant products (I) are negatives of their query.
    """
    # The data may exceed memory, so the join runs in a temporary database on disk.
    with closing(sqlite3.connect("")) as database:
        database.execute("CREATE TABLE judged (query_id, query, product, label)")
        database.execute("CREATE TABLE products (id PRIMARY KEY, title, passage) WITHOUT ROWID")
        yield from _load(database, source)

        # Positives come last, when all negatives of their query are known.
        rows = database.execute(
            "SELECT query_id, query, judged.product, label, title, passage"
            " FROM judged LEFT JOIN products ON products.id = judged.product"
            " ORDER BY query_id, label = 'E', judged.rowid"
        )
        for _, judgements in groupby(rows, itemgetter(0)):
            yield from _drafts(judgements, source.path.name)


def _load(database: sqlite3.Connection, source: PairSource) -> Iterator[Skipped]:
    examples, products = source.path, source.path
    if source.path.is_dir():
        examples = _parquet_file(source.path, "examples")
        products = _parquet_file(source.path, "products")

    for row in read_table_rows(examples):
        if isinstance(row, Skipped):
            yield row
        elif _is_selected(row.record, source):
            columns = ("query_id", "query", "product_id")
            label = _cell(row.record, "esci_label")[:1].upper()
            values = (*(_cell(row.record, name) for name in columns), label)
            database.execute("INSERT INTO judged VALUES (?, ?, ?, ?)", values)
    database.execute("CREATE INDEX judged_product ON judged (product)")

    for row in read_table_rows(products):
        if isinstance(row, TableRow) and _cell(row.record, "product_locale") == source.locale:
            yield from _add_product(database, row)
        elif isinstance(row, Skipped) and products != examples:
            # In a single table the first pass has reported the row.
            yield row


def _parquet_file(directory: Path, name: str) -> Path:
    pattern = f"*{name}.parquet"
    if files := sorted(directory.glob(pattern)):
        return files[0]
    raise NotFound(
        f"{directory} has no file {pattern}: give the directory with ESCI's two Parquet files.",
        field="path",
    )


def _is_selected(record: Record, source: PairSource) -> bool:
    """Return whether a judgement has the source's locale, size and split.

    A column that is missing excludes nothing.
    """
    expected = {
        "product_locale": source.locale,
        f"{source.size}_version": "1",
        "split": source.split,
    }
    return all(
        name not in record or _cell(record, name) == value for name, value in expected.items()
    )


def _cell(record: Record, name: str) -> str:
    return strip_text(str(record.get(name) or ""))


def _add_product(database: sqlite3.Connection, row: TableRow) -> Iterator[Skipped]:
    id_ = _cell(row.record, "product_id")
    is_judged = database.execute("SELECT 1 FROM judged WHERE product = ?", (id_,)).fetchone()
    if not is_judged:
        return

    try:
        document = product.from_record({name: row.record.get(name) for name in _PRODUCT_COLUMNS})
    except InvalidInput as error:
        yield Skipped(row.path, error.message, row.line)
        return

    values = (id_, document.title, render(document))
    database.execute("INSERT OR IGNORE INTO products VALUES (?, ?, ?)", values)


def _drafts(judgements: Iterable[tuple[str, ...]], path: str) -> Drafts:
    """Yield the pairs of one query, whose positives come last."""
    negatives: list[str] = []
    for _, query, id_, label, title, passage in judgements:
        if label in ("C", "I") and passage and len(negatives) < MAX_TEXTS_PER_PAIR:
            negatives.append(passage)
        elif label == "E" and not passage:
            yield Skipped(path, f"the judged product {id_!r} is missing")
        elif label == "E":
            pair = Pair((query,), passage, "product", title=title, negatives=tuple(negatives))
            yield Draft(pair, path)
