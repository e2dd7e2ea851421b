"""Amazon ESCI: which judgements make pairs, and the forms of its files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from purlin.index.errors import InvalidInput, NotFound
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import PairSource
from tests.support.pair_files import read_all

ESCI = [
    (1, "mug", 7, "P1", "us", "E", 1, 1, "train"),
    (2, "mug", 7, "P2", "us", "I", 1, 1, "train"),
    (3, "mug", 7, "P3", "us", "S", 1, 1, "train"),
    (4, "mug", 7, "P4", "us", "C", 0, 1, "train"),
    (5, "camping towel", 8, "P3", "us", "E", 0, 1, "train"),
    (6, "camping towel", 8, "GONE", "us", "E", 0, 1, "train"),
    (7, "taza", 9, "P1", "es", "E", 1, 1, "train"),
    (8, "tea towel", 10, "P3", "us", "E", 1, 1, "test"),
    (9, "mug", 7, "P5", "us", "E", 1, 1, "train"),
]
EXAMPLE_COLUMNS = (
    "example_id query query_id product_id product_locale esci_label small_version large_version split"
).split()
PRODUCTS = [
    (
        "P1",
        "Enamel mug",
        "<b>Steel</b> under enamel",
        "Chip proof rim of steel\nHangs on hooks",
        "Harrow",
        "Cream",
        "us",
    ),
    ("P2", "Saw", None, None, None, None, "us"),
    ("P3", "Towel", "Dries fast", None, "Harrow", None, "us"),
    ("P4", "Coffee", None, None, None, None, "us"),
    ("P5", "Tin mug", None, None, None, None, "us"),
    ("P1", "Taza de esmalte", None, None, "Harrow", None, "es"),
]
PRODUCT_COLUMNS = [
    *(
        f"product_{name}"
        for name in ("id", "title", "description", "bullet_point", "brand", "color", "locale")
    )
]


@pytest.fixture
def esci(tmp_path: Path) -> Path:
    for name, columns, rows in (
        ("examples", EXAMPLE_COLUMNS, ESCI),
        ("products", PRODUCT_COLUMNS, PRODUCTS),
    ):
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        table = pyarrow.Table.from_pylist(records)
        pyarrow.parquet.write_table(table, tmp_path / f"shopping_queries_dataset_{name}.parquet")
    return tmp_path


def test_esci_labels_make_pairs_or_negatives(esci: Path) -> None:
    (mug, tin, towel), (gone,) = read_all(PairSource("esci", esci))
    assert (mug.queries, mug.kind, mug.title) == (("mug",), "product", "Enamel mug")
    assert mug.passage.splitlines() == [
        *("Harrow", "Enamel mug", "Steel under enamel", "Chip proof rim of steel", "Hangs on hooks")
    ]
    assert tin.passage == "Tin mug"
    assert sorted(mug.negatives) == sorted(tin.negatives) == ["Coffee", "Saw"]
    assert (towel.queries, towel.negatives) == (("camping towel",), ())
    assert gone.reason == "the judged product 'GONE' is missing"


@pytest.mark.parametrize(
    ("options", "titles"),
    [
        ({"size": "small"}, ["Enamel mug", "Tin mug"]),
        ({"split": "test"}, ["Towel"]),
        ({"locale": "es"}, ["Taza de esmalte"]),
    ],
)
def test_esci_size_split_and_locale(esci: Path, options: dict[str, Any], titles: list[str]) -> None:
    pairs, _ = read_all(PairSource("esci", esci, **options))
    assert [pair.title for pair in pairs] == titles


def test_products_of_one_locale_are_pretrained_on(esci: Path) -> None:
    path = esci / "shopping_queries_dataset_products.parquet"
    rows = pyarrow.parquet.read_table(path).to_pylist()
    rows[-1] |= {
        "product_id": "P9",
        "product_bullet_point": "Borde de acero\nCuelga de ganchos",
        "product_description": "Acero",
    }
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)

    def titles(locale: str | None) -> list[str]:
        pairs, _ = read_all(PairSource("product", path, "product", locale=locale))
        return [pair.title for pair in pairs]

    assert titles("us") == ["Enamel mug"]
    assert titles("es") == ["Taza de esmalte"]
    assert titles(None) == ["Enamel mug", "Taza de esmalte"]


def test_esci_in_one_table(tmp_path: Path) -> None:
    path = tmp_path / "esci.csv"
    columns = [*EXAMPLE_COLUMNS[:-1], "product_title", "product_bullet_point"]
    with path.open("w", newline="") as handle:
        table = csv.writer(handle)
        table.writerow(columns)
        table.writerow([1, "mug", 7, "P1", "us", "Exact", 0, 1, "Enamel mug", "Chip proof rim"])
        table.writerow([2, "mug", 7, "P2", "us", "Irrelevant", 0, 1, "Saw", ""])
    (pair,), _ = read_all(PairSource("esci", path))
    assert (pair.passage, pair.negatives) == ("Enamel mug\nChip proof rim", ("Saw",))
    with pytest.raises(InvalidInput, match="no usable pair"):
        list(read_pairs(PairSource("esci", path, size="small")))


def test_esci_with_damaged_or_missing_products(esci: Path) -> None:
    products = esci / "shopping_queries_dataset_products.parquet"
    products.write_bytes(products.read_bytes()[:60])
    with pytest.raises(InvalidInput, match="cannot be read"):
        list(read_pairs(PairSource("esci", esci)))
    products.unlink()
    with pytest.raises(NotFound, match=r"no file \*products\.parquet"):
        list(read_pairs(PairSource("esci", esci)))
