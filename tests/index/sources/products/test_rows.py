"""Products in the forms that shops export: rows of variants, pairs of columns, kinds of cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.sources.products.records import from_record
from purlin.index.sources.products.rows import joined
from purlin.index.sources.tables import MAX_ROW, Row
from tests.support.product_files import atom_texts, read_products, read_table, write

SHOPIFY = """\
Handle,Title,Body (HTML),Vendor,Option1 Name,Option1 Value,Variant SKU,Variant Barcode,Grams,Variant Price,Image
shirt,Linen shirt,<p>Airy.</p>,Norrland,Size,38,NL-38,4006381333931,220,59.90,https://shop.example/1.jpg
shirt,,,,,40,NL-40,0406381333948,230,64.90,
shirt,,,,,,,,,,https://shop.example/2.jpg
hat,Wool hat,,Norrland,Title,Default Title,NL-HAT,,90,29.00,
"""


def test_rows_of_variants_are_one_product(tmp_path: Path) -> None:
    (shirt, hat), skipped = read_table(tmp_path / "shopify.csv", SHOPIFY)

    assert skipped == []
    assert atom_texts(shirt) == [
        "Brand: Norrland",
        "Variant SKU: NL-38, NL-40",
        "Variant Barcode: 4006381333931, 0406381333948",
        "Size: 38, 40",
    ]
    assert shirt.fields == {
        "brand": "Norrland",
        "price": 59.9,
        "Variant SKU": ("NL-38", "NL-40"),
        "Variant Barcode": ("4006381333931", "0406381333948"),
        "Grams": 220,
        "Image": ("https://shop.example/1.jpg", "https://shop.example/2.jpg"),
        "attrs.Size": ("38", "40"),
    }
    assert atom_texts(hat) == ["Brand: Norrland", "Variant SKU: NL-HAT"]


def test_only_rows_without_text_after_their_product_are_joined(tmp_path: Path) -> None:
    table = "sku,title,size\nA,Saw,S\nB,,M\nA,,L\nA,Vice,M\n"
    documents, skipped = read_table(tmp_path / "a.csv", table)

    assert [(document.id, document.fields) for document in documents] == [("A", {"size": "S"})]
    assert [(row.line, row.reason) for row in skipped] == [
        (3, "has no title and no other text"),
        (4, "has no title and no other text"),
        (5, "repeats an id with other content"),
    ]


def test_joined_rows_have_no_more_characters_than_one_may() -> None:
    rows = [Row(number, {"sku": "A", "size": "x" * (MAX_ROW // 4)}) for number in range(6)]

    assert [row.number for row in joined(rows, {}) if isinstance(row, Row)] == [0, 3]


def test_attributes_in_pairs_of_columns(tmp_path: Path) -> None:
    header = "SKU,Name,Attribute 1 name,Attribute 1 value(s),Attribute 2 name,Attribute 2 value(s)"
    table = f"{header}\nA-1,Drive,Capacity,2000 GB,,\nA-2,Shoe,Size,38,Width,wide\n"
    (drive, shoe), _ = read_table(tmp_path / "woocommerce.csv", table)

    assert drive.fields == {"attrs.Capacity": "2000 GB"}
    assert shoe.fields == {"attrs.Size": "38", "attrs.Width": "wide"}


def test_true_and_false_of_spreadsheets(tmp_path: Path) -> None:
    table = "sku,title,in stock,TRUE\nA-1,FALSE,TRUE,false\n"
    (document,), _ = read_table(tmp_path / "a.csv", table)

    assert document.title == "FALSE"
    assert document.fields == {"in stock": True, "TRUE": False}


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (
            {"price": "349.00 EUR", "sale price": "279.00 EUR"},
            {"price": 349.0, "sale price": 279.0},
        ),
        ({"price": 5, "list_price": "on request"}, {"price": 5.0, "list_price": "on request"}),
        (
            {"offers": {"price": "1.299,00", "sku": "A"}},
            {"offers.price": "1.299,00", "offers.sku": "A", "price": 1299.0},
        ),
        (
            {"variants": [{"price": "59.90"}, {"price": "64.90"}]},
            {"variants.price": ("59.90", "64.90"), "price": 59.9},
        ),
        ({"shipping": {"price": 5}}, {"shipping.price": 5}),
        ({"price": "n/a", "offers": {"price": 5}}, {"offers.price": 5}),
    ],
)
def test_prices_beside_the_price_and_in_mappings(
    record: dict[str, object], fields: dict[str, object]
) -> None:
    assert from_record({"title": "T", **record}).fields == fields


def test_every_description_is_prose() -> None:
    document = from_record(
        {
            "title": "T",
            "description": "Four ports. Dark.",
            "short description": "A screen.",
            "summary": "Dark.",
        }
    )

    assert document.summary == "Four ports. Dark.\nA screen."


def test_the_category_is_the_shops_own() -> None:
    record = {"title": "T", "google_product_category": 499, "product_type": "Audio > Over-ear"}

    assert from_record(record).fields["category"] == "Audio > Over-ear"


def test_cells_that_list_several_items_are_lists(tmp_path: Path) -> None:
    header = "sku,title,Categories,Tags,Attribute 1 name,Attribute 1 value(s),Category"
    table = (
        f'{header}\nA,Hoodie,"Clothing > Hoodies, Sale","winter; warm, soft ; red",Size,"S, M, 1,5 l",\n'
        'B,Paint,"Arts\\, Crafts, Kids &amp; Co",,,,\n'
        'C,Clay,,,,,"Arts, Crafts"\n'
        "D,Ink,\"['Arts', 'Crafts']\",,,,\n"
    )
    (hoodie, paint, clay, ink), _ = read_table(tmp_path / "a.csv", table)

    assert hoodie.fields == {
        "category": ("Clothing > Hoodies", "Sale"),
        "Tags": ("winter", "warm, soft", "red"),
        "attrs.Size": ("S", "M", "1,5 l"),
    }
    assert paint.fields["category"] == ("Arts, Crafts", "Kids & Co")
    assert clay.fields == {"category": "Arts, Crafts"}
    # In the notation of a program, brackets and quotes would be parts of the items.
    assert ink.fields == {"category": "['Arts', 'Crafts']"}


def test_attributes_of_magento_are_told_apart(tmp_path: Path) -> None:
    table = "sku,name,additional_attributes\n"
    table += 'A,Tee,"color=Blue, dark,material=Cotton|Linen, Ärmel=lang"\n'
    (tee,), _ = read_table(tmp_path / "magento.csv", table)

    assert tee.fields == {
        "attrs.color": "Blue, dark",
        "attrs.material": ("Cotton", "Linen"),
        "attrs.Ärmel": "lang",
    }
    assert atom_texts(tee) == ["Color: Blue, dark", "Material: Cotton, Linen", "Ärmel: lang"]


def test_variants_of_woocommerce_have_the_id_of_their_parent(tmp_path: Path) -> None:
    table = (
        "ID,Type,SKU,Name,Tax status,Parent\n"
        "1,variable,H-1,Hoodie,taxable,\n2,variation,H-1-S,Hoodie - S,taxable,H-1\n"
        "3,variable,,Cap,taxable,\n4,variation,C-R,Cap - red,taxable,id:3\n"
    )
    documents, _ = read_table(tmp_path / "woocommerce.csv", table)

    assert [(document.id, document.fields.get("parent")) for document in documents] == [
        ("H-1", None),
        ("H-1-S", "H-1"),
        ("3", None),
        ("C-R", "3"),
    ]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("999,00 EUR", 999.0),
        ("1.299,00 €", 1299.0),
        ("$5", 5.0),
        ("¥9,900", 9900.0),
        ("45,- kr.", 45.0),
        ("5 to 9 EUR", "5 to 9 EUR"),
        ("999", 999),
        ("A 5", "A 5"),
        ("EUR", "EUR"),
    ],
)
def test_amounts_with_a_currency_are_numbers(tmp_path: Path, cell: str, value: object) -> None:
    # A size is no amount.
    path = write(tmp_path / "a.csv", f"sku;title;Sonderpreis;Size\nA;Sofa;{cell};EUR 38\n")
    (sofa,), _ = read_products(path)

    assert sofa.fields == {"Sonderpreis": value, "Size": "EUR 38"}
    nested = from_record({"title": "T", "shipping": {"cost": "4.95 EUR"}})
    assert nested.fields == {"shipping.cost": 4.95}
