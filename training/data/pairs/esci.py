"""Amazon ESCI: shopping queries with judged products.

The publication has the splits train and test. The paper on SANTA holds out 2,611 of 20,888 training
queries for development, one in eight, without saying which; here a digest of their id decides, so
that a query is in the same split in the small and in the large version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Skipped
from purlin.index.sources.products import records
from purlin.index.texts.passages import render
from purlin.training.data.pairs.pair import (
    MAX_TEXTS_PER_PAIR,
    Draft,
    Drafts,
    Pair,
    PairSource,
    strip_text,
    text_digest,
)
from purlin.training.data.pairs.rows import Record, TableRow, read_table_rows

_PRODUCT_COLUMNS = tuple(
    f"product_{name}" for name in ("title", "description", "bullet_point", "brand", "color")
)
DEV_SHARE = 8  # one in so many training queries belongs to the split dev


class Judgement(NamedTuple):
    """A judged product of a query; `label` is E, S, C or I.

    `title` and `passage` are None if the product is in no table.
    """

    query_id: str
    query: str
    product_id: str
    label: str
    title: str | None
    passage: str | None


def esci_pairs(source: PairSource) -> Drafts:
    """Make pairs of exact matches (E), with complements (C) and irrelevant products as negatives.

    The files are those of `esci_judgements`.
    """
    judgements = esci_judgements(source)
    for is_skipped, items in groupby(judgements, lambda item: isinstance(item, Skipped)):
        if is_skipped:
            yield from (item for item in items if isinstance(item, Skipped))
            continue

        judged = (item for item in items if isinstance(item, Judgement))
        for _, of_query in groupby(judged, attrgetter("query_id")):
            yield from _drafts(of_query, source.path.name)


def esci_judgements(source: PairSource) -> Iterator[Judgement | Skipped]:
    """Read the two Parquet files in a directory, or one table with product columns in every row.

    The columns are those of the publication: query_id, query, product_id, product_locale,
    esci_label (E or Exact and so on), small_version and large_version (1 for rows in it), split,
    and product_title, _description, _bullet_point, _brand and _color. Judgements come query by
    query, exact matches last.
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
        yield from (Judgement(*row) for row in rows)


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
        if isinstance(row, TableRow) and _cell(row.record, "product_locale") == _locale(source):
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
    version = f"{source.size}_version"
    expected = {"product_locale": _locale(source), version: "1"}
    if any(name in record and _cell(record, name) != value for name, value in expected.items()):
        return False

    split = _cell(record, "split") if "split" in record else None
    if split == "train" and source.split != "test":
        is_dev = _is_dev_query(_cell(record, "query_id"))
        return is_dev == (source.split == "dev")
    return split in (None, source.split)


def _is_dev_query(query_id: str) -> bool:
    return int.from_bytes(text_digest(query_id)) % DEV_SHARE == 0


def _locale(source: PairSource) -> str:
    return source.locale or "us"


def _cell(record: Record, name: str) -> str:
    return strip_text(str(record.get(name) or ""))


def _add_product(database: sqlite3.Connection, row: TableRow) -> Iterator[Skipped]:
    id_ = _cell(row.record, "product_id")
    is_judged = database.execute("SELECT 1 FROM judged WHERE product = ?", (id_,)).fetchone()
    if not is_judged:
        return

    try:
        document = records.from_record({name: row.record.get(name) for name in _PRODUCT_COLUMNS})
    except InvalidInput as error:
        yield Skipped(row.path, error.message, row.line)
        return

    values = (id_, document.title, render(document))
    database.execute("INSERT OR IGNORE INTO products VALUES (?, ?, ?)", values)


def _drafts(judgements: Iterable[Judgement], path: str) -> Drafts:
    """Yield the pairs of one query, whose positives come last."""
    negatives: list[str] = []
    for _, query, id_, label, title, passage in judgements:
        if label in ("C", "I") and passage and len(negatives) < MAX_TEXTS_PER_PAIR:
            negatives.append(passage)
        elif label == "E" and not passage:
            yield Skipped(path, f"the judged product {id_!r} is missing")
        elif label == "E" and passage:
            pair = Pair((query,), passage, "product", title=title or "", negatives=tuple(negatives))
            yield Draft(pair, path)
