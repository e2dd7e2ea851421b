"""Nested fields and lists of attributes become fields and lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.sources.products.records import from_record
from tests.support.product_files import atom_texts, read_table


def test_icecat_columns_are_attributes() -> None:
    record = {
        "title": "T",
        "attr_n_weight__net_": "1.5",
        "attr_b_wi_fi": "true",
        "attr_n_odd": "n/a",
        "attr_t_": "x",
    }

    document = from_record(record)

    assert document.fields == {
        "attrs.attr_n_weight__net_": 1.5,
        "attrs.attr_b_wi_fi": True,
        "attrs.attr_n_odd": "n/a",
        "attr_t_": "x",
    }
    assert atom_texts(document) == ["Weight net: 1.5", "Wi fi: Yes", "Odd: n/a"]


@pytest.mark.parametrize(
    ("column", "raw", "fields"),
    [
        ("brand", {"@type": "Brand", "name": "Acme"}, {"brand": "Acme"}),
        ("vendor", {"id": 3, "name": "Acme"}, {"brand": "Acme", "vendor.id": 3}),
        ("price", {"value": "19.99", "currency": "USD"}, {"price": 19.99, "price.currency": "USD"}),
        (
            "price",
            {"amount": 5, "currency_code": "EUR"},
            {"price": 5.0, "price.currency_code": "EUR"},
        ),
        (
            "categories",
            [{"id": 9, "name": "Shoes"}, {"id": 10, "name": "Boots"}],
            {"category": ("Shoes", "Boots"), "categories.id": ("9", "10")},
        ),
        ("categories", ["Shoes", {"name": "Boots"}], {"category": ("Shoes", "Boots")}),
        ("color", {"de": "Rot", "en": "Red"}, {"colour": "Rot", "color.en": "Red"}),
        ("brand", {"id": "3"}, {"brand.id": "3"}),
        ("price", [{"min": 5, "max": 9}], {"price.min": ("5",), "price.max": ("9",)}),
    ],
)
def test_mappings_in_columns_lose_nothing(
    column: str, raw: object, fields: dict[str, object]
) -> None:
    assert from_record({"title": "T", column: raw}).fields == fields


def test_mappings_stand_for_titles_ids_texts_and_addresses() -> None:
    record = {
        "sku": {"@type": "PropertyValue", "value": "A-1"},
        "title": {"rendered": "Saw"},
        "description": {"html": "<p>Cuts <b>wood</b>."},
        "url": {"@id": "https://shop.example/saw"},
    }
    document = from_record(record)

    assert (document.id, document.title, document.body) == ("A-1", "Saw", "Cuts wood.")
    assert (document.location.url, document.fields) == ("https://shop.example/saw", {})


@pytest.mark.parametrize(
    ("pairs", "attributes"),
    [
        ([{"name": "Power", "value": 9}, {"name": "Plug", "value": None}], {"Power": 9}),
        ([{"id": 1, "name": "Colour", "options": ["Red", "Blue"]}], {"Colour": ("Red", "Blue")}),
        ([{"name": "Size", "values": ["S"]}], {"Size": "S"}),
        ([{"key": "Power", "value": 9}, {"label": "Plug", "value": "EU"}], {"Power": 9, "Plug": "EU"}),
        ([{"attribute_code": "volume", "value": "1.5 l"}], {"volume": "1.5 l"}),
        ([{"name": "Use", "value": "in"}, {"name": "Use", "value": "out"}], {"Use": ("in", "out")}),
        ([{"name": "Net", "value": {"kg": 5}}], {"Net.kg": 5}),
        ([{"power": 9}, {"plug": "EU"}], {"power": ("9",), "plug": ("EU",)}),
        ([{"name": "Screen", "value": 55, "unit": "inch"}, {"name": "Ports", "value": 4}],
         {"Screen": 55, "Screen.unit": "inch", "Ports": 4}),
        ([{"name": "Cable", "value": 2.0, "unit": "m"}, {"name": "Cable", "value": 6, "unit": "ft"}],
         {"Cable": ("2 m", "6 ft")}),
        ({"Capacity": {"value": 2, "unit": "TB"}}, {"Capacity": 2, "Capacity.unit": "TB"}),
        ({"Plug": {"value": 2, "type": "EU"}}, {"Plug.value": 2, "Plug.type": "EU"}),
    ],
)  # fmt: skip
def test_attributes_of_lists(pairs: object, attributes: dict[str, object]) -> None:
    document = from_record({"title": "T", "attributes": pairs})
    assert document.fields == {f"attrs.{name}": value for name, value in attributes.items()}


def test_quantities_are_lines_with_their_units(tmp_path: Path) -> None:
    table = "sku,name,weight,weight_unit,stock\nA-1,Saw,0.9,kg,4\n"
    (saw,), _ = read_table(tmp_path / "a.csv", table)
    screen = {"name": "Screen", "value": 55, "unit": "inch"}
    television = from_record({"title": "T", "attributes": [screen]})

    assert (atom_texts(saw), saw.fields["weight"]) == (["Weight: 0.9 kg"], 0.9)
    assert atom_texts(television) == ["Screen: 55 inch"]


def test_lists_of_mappings_lose_nothing() -> None:
    record = {
        "title": "Linen shirt",
        "variants": [
            {"sku": "NL-1", "price": "59.90", "image": {"src": "https://shop.example/1"}},
            {"sku": "NL-2", "price": "64.90"},
        ],
        "options": [{"name": "Size", "values": ["S", "M"]}],
        "notes": ["plain", {"by": "Ann"}],
    }
    document = from_record(record)

    assert document.fields == {
        "variants.sku": ("NL-1", "NL-2"),
        "variants.price": ("59.90", "64.90"),
        "variants.image.src": ("https://shop.example/1",),
        "attrs.Size": ("S", "M"),
        "notes.by": ("Ann",),
        "notes": ("plain",),
        "price": 59.9,
    }
    assert document.body == "Variants sku: NL-1, NL-2\nSize: S, M"


def test_attributes_among_prose() -> None:
    document = from_record(
        {"title": "T", "attributes": ["Made of steel", {"name": "Power", "value": 9}]}
    )
    assert atom_texts(document) == ["Made of steel", "Power: 9"]
