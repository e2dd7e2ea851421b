"""Documents of product tables: which columns become title, body, atoms and fields."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Skipped, SourceFile
from purlin.index.sources.products import catalogue, values
from purlin.index.sources.products.columns import column_names
from purlin.index.sources.products.records import from_record
from purlin.index.texts.product_fields import searched_values
from tests.support.paths import DATA
from tests.support.product_files import atom_texts, read_products, write

PRODUCT_FILES = DATA / "products"


# Files


def test_directory_is_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("c.jsonl", "b/x.ndjson", "a.jsonl.gz", ".hidden.jsonl", "notes.xlsx"):
        text = json.dumps({"id": name, "title": name}).encode()
        write(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)

    sources = list(catalogue.files(tmp_path))

    assert [source.path for source in sources] == [
        "a.jsonl.gz",
        "b/x.ndjson",
        "c.jsonl",
        "notes.xlsx",
    ]
    assert [type(source) for source in sources] == [SourceFile, SourceFile, SourceFile, Skipped]
    assert [document.id for document in read_products(tmp_path)[0]] == [
        "a.jsonl.gz",
        "b/x.ndjson",
        "c.jsonl",
    ]


def test_digest_follows_content_and_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.jsonl", '{"title": "Saw"}')

    def digest(**options: object) -> str:
        (source,) = catalogue.files(path, **options)  # type: ignore[arg-type]
        assert isinstance(source, SourceFile)
        return source.digest

    first = digest()

    assert digest(columns={}) == first

    others = {digest(columns={"title": "name"})}
    monkeypatch.setattr(catalogue, "VERSION", 99)
    others.add(digest())
    monkeypatch.undo()
    write(path, '{"title": "Saws"}')
    others.add(digest())

    assert len(others - {first}) == 3


def test_unreadable_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        catalogue.files(tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match=r"notes\.pdf is no product table: give one of \.jsonl"):
        catalogue.files(write(tmp_path / "notes.pdf", ""))
    with pytest.raises(InvalidInput, match=r"list\.xlsx is a workbook .*: export it as CSV\."):
        catalogue.files(write(tmp_path / "list.xlsx", ""))
    with pytest.raises(InvalidInput, match="unknown column 'colr'; known are id, title"):
        catalogue.files(tmp_path, columns={"colr": "x"})


def test_explicit_columns_win(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,title,name,artnr\n1,Wrong,Right,A-1\n")
    (document,), _ = read_products(path, columns={"title": "name", "id": "artnr"})

    assert (document.id, document.title, document.fields) == (
        "A-1",
        "Right",
        {"id": "1", "title": "Wrong"},
    )


def test_files_and_rows_without_an_explicit_column_are_read_by_known_names(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "id,title,Long Text\n1,Saw,Cuts wood.\n")
    write(tmp_path / "b.csv", "id,title,description\n2,Vice,Holds wood.\n")
    write(tmp_path / "c.jsonl", '{"id": "3", "title": "File", "description": "Shapes wood."}')
    documents, skipped = read_products(tmp_path, columns={"description": "Long Text"})

    assert skipped == []
    assert [document.body for document in documents] == [
        "Cuts wood.",
        "Holds wood.",
        "Shapes wood.",
    ]


def test_common_headers_of_spreadsheets_are_known(tmp_path: Path) -> None:
    header = "Item No,Title,Long Text,Maker,List Price USD"
    path = write(tmp_path / "a.csv", f'{header}\n00-1,Saw,Cuts wood.,Acme,"$1,299.00"\n')
    (document,), _ = read_products(path)

    assert (document.id, document.title) == ("00-1", "Saw")
    assert document.body == "Cuts wood.\nBrand: Acme"
    assert document.fields == {"brand": "Acme", "price": 1299.0}


@pytest.mark.parametrize(
    "header",
    [
        "Artikelnummer;Artikelname;Beschreibung;Hersteller;Farbe;Kategoriepfad;VK Brutto",
        "Art.-Nr.;Bezeichnung;Langtext;Marke;Farbname;Warengruppe;Preis (EUR)",
        "Référence;Désignation;Description FR;Marque;Coloris;Catégorie;Prix TTC",
        "Referencia;Título;Descripción;Marca;Color;Categoría;Precio",
        "Codice;Nome;Descrizione;Marca;Colore;Categoria;Prezzo",
        "Artikelcode;Naam;Omschrijving;Merk;Kleur;Categorie;Prijs",
        "Item #;Name (EN);Description_en;Brand;Colour;Category path;RRP incl. VAT",
    ],
    ids=["de-1", "de-2", "fr", "es", "it", "nl", "en"],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_headers_of_other_languages_are_known(tmp_path: Path, header: str, form: str) -> None:
    row = "007;Saw;Cuts wood.;Acme;Red;Tools;1.299,50"
    text = unicodedata.normalize(form, f"{header}\n{row}\n")  # type: ignore[arg-type]
    (document,), _ = read_products(write(tmp_path / "a.csv", text))

    assert (document.id, document.title) == ("007", "Saw")
    assert document.body == "Cuts wood.\nBrand: Acme\nCategory: Tools\nColour: Red"
    assert document.fields == {
        "brand": "Acme",
        "category": "Tools",
        "colour": "Red",
        "price": 1299.5,
    }


@pytest.mark.parametrize(
    ("names", "column"),
    [
        (("EAN", "Artikelnummer"), "Artikelnummer"),
        (("title_de", "title_en", "title"), "title"),
        (("title_en", "title_de"), "title_de"),
        (("Preis netto", "Preis brutto"), "Preis brutto"),
        (("UVP", "Verkaufspreis inkl. MwSt"), "Verkaufspreis inkl. MwSt"),
    ],
)
def test_of_several_columns_the_preferred_one_counts(names: tuple[str, ...], column: str) -> None:
    assert list(column_names(names, {}).values()) == [column]


@pytest.mark.parametrize("name", ["weight_de", "colour_ttc", "title_gross", "brand_en", "price_de"])
def test_other_endings_of_names_are_parts_of_them(name: str) -> None:
    assert column_names([name], {}) == {}


@pytest.mark.parametrize(
    ("separator", "cell", "value"),
    [
        (";", "9,80", 9.8),
        (";", "0,5", 0.5),
        (";", "1.299,50", 1299.5),
        (";", "1,250", 1.25),
        (";", "9.80", 9.8),
        (";", "-3,5", -3.5),
        (";", "1,2,3", "1,2,3"),
        (";", "00,5", "00,5"),
        (";", "12.34,5", "12.34,5"),
        (";", "3,5 kg", "3,5 kg"),
        (",", '"9,80"', "9,80"),
        ("\t", "9,80", "9,80"),
    ],
)
def test_cells_between_semicolons_have_decimal_commas(
    tmp_path: Path, separator: str, cell: str, value: object
) -> None:
    table = separator.join(("sku", "title", "weight\n")) + separator.join(("1,5", "Saw", cell))
    if separator == ",":
        table = table.replace("1,5", '"1,5"')
    (document,), _ = read_products(write(tmp_path / "a.csv", table))

    assert (document.id, document.fields) == ("1,5", {"weight": value})


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


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ({"List price (EUR)": "5,50 €"}, {"price": 5.5}),
        ({"price_eur": 5}, {"price": 5.0}),
        ({"Price": 4, "price_eur": 5}, {"price": 4.0, "price_eur": 5}),
        ({"price_eur": 5, "price_usd": 6}, {"price_eur": 5, "price_usd": 6}),
        # Otherwise the prices of one table would be of several currencies.
        ({"price_eur": 5, "price_usd": None}, {"price_eur": 5}),
        ({"price_net": 5, "weight_eur": 6}, {"price_net": 5, "weight_eur": 6}),
    ],
)
def test_currencies_of_price_columns(record: dict[str, object], fields: dict[str, object]) -> None:
    assert from_record({"title": "T", **record}).fields == fields


def test_ids_of_every_column_stay_text(tmp_path: Path) -> None:
    table = "sku,ean,title,stock\n,10.10,Saw,1.10\n,10.1,Vice,2\nA-1,7,Plane,3\n"
    documents, skipped = read_products(write(tmp_path / "a.csv", table))

    assert skipped == []
    assert [document.id for document in documents] == ["10.10", "10.1", "A-1"]
    assert [document.fields["stock"] for document in documents] == [1.1, 2, 3]
    assert documents[2].fields["ean"] == "7"


def test_codes_beside_the_id_are_texts_and_lines(tmp_path: Path) -> None:
    table = "ID,SKU,Name,Variant Barcode,Stock\n11,TV-65,Aurora,4006381333931,10.10\n"
    (document,), _ = read_products(write(tmp_path / "a.csv", table))

    assert document.id == "11"
    assert atom_texts(document) == ["SKU: TV-65", "Variant Barcode: 4006381333931"]
    assert document.fields == {"SKU": "TV-65", "Variant Barcode": "4006381333931", "Stock": 10.1}
    assert document.summary == ""


# Real formats


def test_icecat_attributes_are_typed_fields_and_body_lines() -> None:
    (toner, notebook), skipped = read_products(PRODUCT_FILES / "icecat.jsonl")

    assert skipped == []
    assert toner.id == "70114"
    assert toner.body.splitlines() == [
        "Toner (2 per box) for the Brennholt Pagewell 410 series",
        "Brand: Brennholt",
        "Type: Original",
        "Black toner page yield: 4100",
        "Return program: No",
        "Colour: Black",
    ]
    assert atom_texts(toner) == toner.body.splitlines()[1:]
    assert toner.fields == {
        "brand": "Brennholt",
        "judged_source": False,
        "attrs.attr_t_type": "Original",
        "attrs.attr_n_black_toner_page_yield": 4100.0,
        "attrs.attr_b_return_program": False,
        "attrs.attr_t_colour": "Black",
    }
    assert notebook.body.startswith("Quad-core processor\n(8M Cache, 2.4 GHz), 16 GB\n")
    assert "Contrast ratio typical: 1000:1" in atom_texts(notebook)


def test_esci_rows_of_a_product_become_one_document() -> None:
    (mug, towel), skipped = read_products(PRODUCT_FILES / "esci.csv")

    assert mug.body.splitlines() == [
        "Made to last. Steel under two coats of enamel.",
        "Safe on a stove & over a fire.",
        "NO CHIPS - thick rolled rim",
        "CAMP READY - hangs on a hook",
        "Brand: Harrow",
        "Colour: Cream",
    ]
    assert mug.fields == {"brand": "Harrow", "colour": "Cream", "locale": "us"}
    assert (towel.title, towel.body, towel.fields) == ("Linen Tea Towel", "", {"locale": "us"})
    assert skipped == [Skipped("esci.csv", "repeats an id with other content", 4)]


def test_shop_export_with_semicolons_and_odd_rows() -> None:
    (lamp, chair, low), skipped = read_products(PRODUCT_FILES / "shop.csv")

    assert lamp.title == 'Desk lamp "Nord", 9 W'
    assert lamp.body.splitlines() == [
        "Bends where you need it.",
        "Three shades of white",
        "USB socket",
        "Brand: Lumo",
        "EAN: 0401234567890",
        "Lumen: 800",
        "Dimmable: Yes",
    ]
    assert lamp.location.url == "https://shop.example/lamp"
    assert lamp.fields == {
        "brand": "Lumo",
        "price": 1049.9,
        "Stock": 12,
        "Weight (kg)": 1.4,
        "EAN": "0401234567890",
        "attrs.lumen": 800,
        "attrs.dimmable": True,
    }
    assert (chair.fields["price"], chair.location.url) == (199.0, None)
    assert ("price" in low.fields, atom_texts(low)) == (False, ["plain words", "Brand: Sitwell"])
    assert skipped == [Skipped("shop.csv", "has 3 cells where the header has 10", 5)]


def test_json_array_with_nested_records() -> None:
    (trail, floor), skipped = read_products(PRODUCT_FILES / "feed.json")

    assert (trail.id, trail.title) == ("501", "Trail pump")
    assert atom_texts(trail) == [
        "Presta and Schrader",
        "Steel barrel",
        "Brand: Vale",
        "Tags: pump, bike",
    ]
    assert trail.fields == {
        "brand": "Vale",
        "tags": ("pump", "bike"),
        "images.src": ("a.png",),
        "size.length_mm": 230,
        "size.packed.mm": 180,
    }
    assert floor.fields == {"brand": "Vale", "attrs.Max pressure (bar)": 11, "attrs.Gauge": True}
    assert skipped == [Skipped("feed.json", 'is not a JSON object as {"column": "value"}', 2)]


def test_broken_lines_are_skipped_by_number() -> None:
    documents, skipped = read_products(PRODUCT_FILES / "broken.jsonl")

    assert [document.id for document in documents[:2]] == ["a", "e"]
    assert [document.title for document in documents] == [
        "Folding saw",
        "A saw without a name. It cuts.",
        "Saw horse",
        "Mitre box",
    ]
    assert len(documents[2].id) == 16
    assert documents[2].id == read_products(PRODUCT_FILES / "broken.jsonl")[0][2].id
    assert documents[2].fields == {"width_cm": 70}

    reasons = {row.line: row.reason.split(":")[0] for row in skipped}

    assert reasons == {
        2: "is not valid JSON",
        3: 'is not a JSON object as {"column"',
        5: "has no title and no other text",
        7: "holds the escape \\u0000, which is no character; remove it, or write both halves of a surrogate pair",
        8: "holds the escape \\ud800, which is no character; remove it, or write both halves of a surrogate pair",
        10: "repeats an id with other content",
    }


# Records


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


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("<p>One</p><p>two&nbsp;three</p>", "One\ntwo three"),
        ("A<br>B<BR/>C", "A\nB\nC"),
        ("<ul>\n<li>A\n long</li><li>B</li></ul>after", "A long\nB\nafter"),
        ("<b>AB</b>C <script>alert(1)</script><style>p{}</style><!-- x -->D", "ABC D"),
        ("&lt;b&gt;Bold&lt;/b&gt; &amp; more", "Bold & more"),
        ("R&D under 5 < 6 > 4 & so", "R&D under 5 < 6 > 4 & so"),
        ("1 &amp; 2\n\n 3   4 \x07", "1 & 2\n3 4"),
        ('<?xml version="1.0" encoding="latin-1"?><div>Größe</div>', "Größe"),
        ("<table><tr><td>W</td><td>9</td></tr></table>", "W 9"),
        ("<b>one " * 300 + "deep", "one " * 300 + "deep"),
        ("<div>one " * 3_000 + "deep", "one " * 3_000 + "deep"),
        ("a <!-- <b>b</b> --> c <!-- d", "a c"),
        ("<!-- only -->", ""),
        ("<p></p>", ""),
    ],
)
def test_markup_becomes_text(raw: str, text: str) -> None:
    assert from_record({"title": "T", "description": raw}).body == text


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab <>&;/#x1plitd!-\"'=\n\t\x0b"), max_size=60))
def test_any_text_becomes_clean_lines(raw: str) -> None:
    body = from_record({"title": "T", "description": raw}).body
    assert all(line == " ".join(line.split()) != "" for line in body.splitlines())


@pytest.mark.parametrize(
    ("raw", "bullets"),
    [
        (["A", "", "<b>B</b>", 3], ["A", "B", "3"]),
        ("A\n• B\n- C", ["A", "B", "C"]),
        ("A | B|C", ["A", "B", "C"]),
        ('["A", "B"]', ["A", "B"]),
        ("[sic] one", ["[sic] one"]),
        ("-40 to 85", ["-40 to 85"]),
    ],
)
def test_bullets_are_lines_and_atoms(raw: object, bullets: list[str]) -> None:
    assert atom_texts(from_record({"title": "T", "bullets": raw})) == bullets


@pytest.mark.parametrize(
    ("raw", "price"),
    [
        (5, 5.0),
        ("19.99", 19.99),
        ("1.299", 1.299),
        ("$1,299.00", 1299.0),
        ("1.299,00 EUR", 1299.0),
        ("EUR 1.299", 1299.0),
        ("19,9", 19.9),
        ("1 299,00 kr", 1299.0),
        ("CHF 1'299.-", 1299.0),
        ("10 - 20", None),
        ("-5", -5.0),
        ("ask", None),
        (True, None),
        (float("nan"), None),
        ("1" * 1_000, None),
        ("Rs. 500", 500.0),
        ("Rs.1,25,000.50", 125_000.5),
        ("kr. 99,95", 99.95),
        ("Fr. 12.50", 12.5),
        ("MRP: Rs. 500/-", 500.0),
        ("S.R. 20", 20.0),
        ("руб. 1 500", 1500.0),
        ("Rs. 10 - Rs. 20", None),
        ("Unavailable. 5 left", None),
        ("$.99", None),
        (".99", None),
    ],
)
def test_prices_are_numbers(raw: object, price: float | None) -> None:
    assert from_record({"title": "T", "price": raw}).fields.get("price") == price


EARLIER_AMOUNT = re.compile(r"[^\d,.-]*(\d[\d.,' ]*)[^\d]*")


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from("019.,-' $€kRs/"), max_size=12))
def test_prices_without_an_abbreviation_are_read_as_ever(raw: str) -> None:
    price = values.price_of(raw)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "_AMOUNT", EARLIER_AMOUNT)
        earlier = values.price_of(raw)

    has_abbreviation = re.search(r"[kRs]\.", raw) is not None
    assert price == earlier or (earlier is None and has_abbreviation)


@pytest.mark.parametrize(
    "raw", ["javascript:alert(1)", "/p/1", "https://a b", "https://" + "x" * 3_000, 7]
)
def test_only_web_addresses_become_links(raw: object) -> None:
    assert from_record({"title": "T", "url": raw}).location.url is None


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
        (
            [{"key": "Power", "value": 9}, {"label": "Plug", "value": "EU"}],
            {"Power": 9, "Plug": "EU"},
        ),
        ([{"attribute_code": "volume", "value": "1.5 l"}], {"volume": "1.5 l"}),
        ([{"name": "Use", "value": "in"}, {"name": "Use", "value": "out"}], {"Use": ("in", "out")}),
        ([{"name": "Net", "value": {"kg": 5}}], {"Net.kg": 5}),
        ([{"power": 9}, {"plug": "EU"}], {"power": ("9",), "plug": ("EU",)}),
        (
            [{"name": "Screen", "value": 55, "unit": "inch"}, {"name": "Ports", "value": 4}],
            {"Screen": 55, "Screen.unit": "inch", "Ports": 4},
        ),
        (
            [
                {"name": "Cable", "value": 2.0, "unit": "m"},
                {"name": "Cable", "value": 6, "unit": "ft"},
            ],
            {"Cable": ("2 m", "6 ft")},
        ),
        ({"Capacity": {"value": 2, "unit": "TB"}}, {"Capacity": 2, "Capacity.unit": "TB"}),
        ({"Plug": {"value": 2, "type": "EU"}}, {"Plug.value": 2, "Plug.type": "EU"}),
    ],
)
def test_attributes_of_lists(pairs: object, attributes: dict[str, object]) -> None:
    document = from_record({"title": "T", "attributes": pairs})
    assert document.fields == {f"attrs.{name}": value for name, value in attributes.items()}


def test_quantities_are_lines_with_their_units(tmp_path: Path) -> None:
    table = "sku,name,weight,weight_unit,stock\nA-1,Saw,0.9,kg,4\n"
    (saw,), _ = read_products(write(tmp_path / "a.csv", table))
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
        ({"title": "T", "attributes": '{"a": 1'}, "has attributes that are not valid JSON"),
        ({"title": "T", "attributes": {"a\0": 1}}, "no character"),
        ({"title": "T", "a": ["x" * 250] * 5_000}, "is longer than 1,048,576 characters"),
        ({"title": "T", "description": "x" * (1 << 20)}, "is longer than 1,048,576 characters"),
    ],
)
def test_records_beyond_limits_are_refused(record: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        from_record(record)


def test_line_nested_too_deeply_is_skipped(tmp_path: Path) -> None:
    deep = '{"title": ' + "[" * 100_000
    documents, (skipped,) = read_products(
        write(tmp_path / "a.jsonl", f'{deep}\n{{"title": "Lamp"}}\n')
    )
    assert ([document.title for document in documents], skipped.line) == (["Lamp"], 1)


# The demo


def test_demo_catalogue_is_sound() -> None:
    documents, skipped = read_products(
        Path(catalogue.__file__).parents[2] / "demo" / "products.jsonl"
    )

    assert skipped == []
    assert len({document.id for document in documents}) == len(documents) >= 220
    assert len({document.fields["category"] for document in documents}) >= 12

    for document in documents:
        assert {"brand", "colour", "category", "price"} <= document.fields.keys()
        assert 3 + 5 + 3 <= len(document.atoms) <= 5 + 8 + 3
        assert document.body.index("\n") > 60


def test_demo_attributes_have_one_type_each() -> None:
    documents, _ = read_products(Path(catalogue.__file__).parents[2] / "demo" / "products.jsonl")
    types_of: dict[str, set[str]] = {}

    for document in documents:
        for name, value in document.fields.items():
            types_of.setdefault(name, set()).add(
                "number" if type(value) in (int, float) else type(value).__name__
            )

    assert [name for name, types in types_of.items() if len(types) > 1] == []

    memory = [document for document in documents if document.fields["category"] == "Memory"]
    fast = [item.id for item in memory if item.fields.get("attrs.speed_mt_s", 0) >= 5600]  # type: ignore[operator]

    assert sorted(fast) == ["DDR5-5600-32K", "DDR5-5600-48S", "DDR5-6400-64K"]


def test_of_texts_in_several_languages_the_first_counts() -> None:
    document = from_record(
        {
            "title": {"de-AT": None, "en": "Summer dress", "fr": "Robe d'été"},
            "description": {"en": "Soft.", "fr": "Douce."},
        }
    )

    assert (document.title, document.body) == ("Summer dress", "Soft.")
    assert document.fields == {"title.fr": "Robe d'été", "description.fr": "Douce."}


def test_names_that_programs_write_are_known() -> None:
    document = from_record(
        {
            "productId": 7,
            "productName": "Lamp",
            "longDescription": "Warm light.",
            "brandName": "Aquila",
            "salePrice": "1.299,00 €",
            "itemGroupId": "L",
            "manufacturerPartNumber": "0815",
        }
    )

    assert (document.id, document.title) == ("7", "Lamp")
    assert document.body == "Warm light.\nBrand: Aquila\nManufacturerPartNumber: 0815"
    assert document.fields == {
        "manufacturerPartNumber": "0815",
        "brand": "Aquila",
        "parent": "L",
        "price": 1299.0,
    }


def test_headings_of_a_wholesaler_are_known(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv",
        "Item-No.;Name;Long text (HTML);Mfr.;Mfr. part no.;Net price €\n"
        "A1;Lamp;<p>Warm light.</p>;Aquila;0815;9,80\nA2;Rug;Soft.;Brava;4711;EUR 12,00\n",
    )
    (lamp, rug), skipped = read_products(path)

    assert skipped == []
    assert lamp.body == "Warm light.\nBrand: Aquila\nMfr part no: 0815"
    assert rug.fields == {"Mfr. part no.": "4711", "brand": "Brava", "price": 12.0}


def test_what_variants_share_is_named_once() -> None:
    variants = [{"sku": f"A-{size}", "color": "Red", "size": size} for size in ("S", "M")]
    document = from_record({"title": "Shirt", "variants": variants})

    assert document.body == "Variants sku: A-S, A-M\nVariants color: Red\nVariants size: S, M"
    assert document.fields["variants.color"] == ("Red", "Red")


def test_japanese_columns_are_recognised(tmp_path: Path) -> None:
    table = "商品番号,商品名,商品説明,ブランド,カテゴリ,価格,色,サイズ,JANコード\n"
    table += (
        'S-1,ランニングシューズ,軽量。,アシックス,スポーツ > 靴,"9,900円",白,27cm,4901234567894\n'
    )
    path = tmp_path / "a.csv"
    path.write_bytes(table.encode("cp932"))
    (shoe,), skipped = read_products(path)

    assert skipped == []
    assert (shoe.id, shoe.title) == ("S-1", "ランニングシューズ")
    assert shoe.body.split("\n") == [
        "軽量。",
        "Brand: アシックス",
        "Category: スポーツ > 靴",
        "Colour: 白",
        "サイズ: 27cm",
        "JANコード: 4901234567894",
    ]
    assert shoe.fields["price"] == 9900.0
