"""Records become documents: titles, texts, variants and limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput
from purlin.index.sources.products.records import from_record
from purlin.index.texts.product_fields import searched_values
from tests.support.product_files import atom_texts, read_table


@pytest.mark.parametrize(
    ("record", "parent"),
    [
        ({"parent_sku": "S-1"}, "S-1"),
        ({"Vaterartikel": 12}, "12"),
        ({"Parent": "id:12"}, "12"),
        ({"item_group_id": " G 1 "}, "G 1"),
        ({"isVariantOf": {"@type": "ProductGroup", "sku": "S-1"}}, "S-1"),
        ({"parent_sku": ""}, None),
        ({"parent_sku": None}, None),
    ],
)
def test_variants_know_their_product(record: dict[str, object], parent: str | None) -> None:
    fields = from_record({"title": "T", **record}).fields
    assert fields.get("parent") == parent


def test_sizes_and_options_of_variants_are_lines() -> None:
    options = [{"name": "Color", "value": "Red"}, {"name": "Fit", "value": "Slim"}]
    record = {"sku": "A", "title": "Shirt", "Größe": "M", "attributes": {}, "options": options}
    document = from_record(record | {"attributes": {"material": "linen"}})

    assert atom_texts(document) == ["Größe: M", "Color: Red", "Fit: Slim", "Material: linen"]
    assert list(searched_values(document.fields)) == ["M", "Red", "Slim", "linen"]


def test_codes_beside_the_id_are_texts_and_lines(tmp_path: Path) -> None:
    table = "ID,SKU,Name,Variant Barcode,Stock\n11,TV-65,Aurora,4006381333931,10.10\n"
    (document,), _ = read_table(tmp_path / "a.csv", table)

    assert document.id == "11"
    assert atom_texts(document) == ["SKU: TV-65", "Variant Barcode: 4006381333931"]
    assert document.fields == {"SKU": "TV-65", "Variant Barcode": "4006381333931", "Stock": 10.1}
    assert document.summary == ""


def test_beir_record_is_a_product() -> None:
    record = {
        "_id": "p1",
        "title": "T",
        "text": "D",
        "brand": "B",
        "attrs": {"attr_n_x": 1.0},
        "judged_source": False,
    }

    document = from_record(record)

    assert (document.id, document.kind, document.title) == ("p1", "product", "T")
    assert document.body == "D\nBrand: B\nX: 1"
    assert document.fields == {"brand": "B", "judged_source": False, "attrs.attr_n_x": 1.0}


@pytest.mark.parametrize(
    ("record", "title"),
    [
        ({"Product ID": 1, "PRODUCT-NAME": "Lamp"}, "Lamp"),
        ({"id": "1", "Display name": "Lamp", "title": ""}, "Lamp"),
        ({"sku": "1", "name": "Lamp", "product_name": "Other"}, "Lamp"),
        ({"text": "漢" * 90}, "漢" * 80 + "…"),
        ({"features": ["Bright"]}, "Bright"),
    ],
)
def test_titles_are_read_from_columns_of_many_names(record: dict[str, object], title: str) -> None:
    assert from_record(record).title == title


def test_empty_values_are_no_fields() -> None:
    record = {"title": "T", "none": None, "big": 1 << 70, "inf": float("inf"), "lines": "a<br>b"}
    document = from_record({**record, "attributes": {"in": {"a": [1, "b", None]}}})
    assert document.fields == {"big": str(1 << 70), "lines": "a\nb", "attrs.in.a": ("1", "b")}
    assert atom_texts(document) == ["In a: 1, b"]


def test_long_texts_are_fields_and_body_lines() -> None:
    long = "Wash cold. " * 30 + "Dry flat."
    texts = {
        "care": f"{long}<p>Iron it.",
        "tags": ["a", f"b {long}"],
        "images": "https://x.example/1," * 20,
    }

    document = from_record({"title": "T", "brand": "B", **texts, "attributes": {"use": long}})
    prose = [long, "Iron it.", f"b {long}"]

    assert atom_texts(document) == [*prose, "Brand: B", f"Use: {long}"]
    assert document.summary.split("\n") == prose
    assert document.fields == texts | {
        "brand": "B",
        "care": f"{long}\nIron it.",
        "attrs.use": long,
    } | {"tags": ("a", f"b {long}")}
    assert from_record({"title": "T", "description": long, "plain": long}).body == long


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"id": "1", "price": 5}, "has no title and no other text"),
        ({"title": "T", "id": "x" * 513}, "has an id of 513 characters; the limit is 512"),
        (
            {"title": "T", "attributes": {str(number): 1 for number in range(1_001)}},
            "has 1,001 fields",
        ),
        (
            {"title": "T", "attributes": {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}},
            "nests attributes deeper than 5",
        ),
        (
            {"title": "T", "attributes": {"a" * 600: {"b" * 600: 1}}},
            "a column whose name has 1,201 characters; the limit is 1,000",
        ),
        ({"title": "T", "attributes": '{"a": 1'}, "has attributes that are not valid JSON"),
        ({"title": "T", "attributes": {"a\0": 1}}, "no character"),
        ({"title": "T", "a": ["x" * 250] * 5_000}, "is longer than 1,048,576 characters"),
        ({"title": "T", "description": "x" * (1 << 20)}, "is longer than 1,048,576 characters"),
    ],
)
def test_records_beyond_limits_are_refused(record: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        from_record(record)


def test_of_texts_in_several_languages_the_first_counts() -> None:
    document = from_record(
        {
            "title": {"de-AT": None, "en": "Summer dress", "fr": "Robe d'été"},
            "description": {"en": "Soft.", "fr": "Douce."},
        }
    )

    assert (document.title, document.body) == ("Summer dress", "Soft.")
    assert document.fields == {"title.fr": "Robe d'été", "description.fr": "Douce."}


def test_what_variants_share_is_named_once() -> None:
    variants = [{"sku": f"A-{size}", "color": "Red", "size": size} for size in ("S", "M")]
    document = from_record({"title": "Shirt", "variants": variants})

    assert document.body == "Variants sku: A-S, A-M\nVariants color: Red\nVariants size: S, M"
    assert document.fields["variants.color"] == ("Red", "Red")
