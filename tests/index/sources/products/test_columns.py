"""Columns that are recognised by their names, in several languages."""

from __future__ import annotations

import csv
import unicodedata
from pathlib import Path

import pytest

from purlin.index.sources.products.columns import column_names
from purlin.index.sources.products.records import from_record
from tests.support.product_files import read_products, write


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
        "Artikelnummer;Benämning;Beskrivning;Varumärke;Färg;Kategori;Pris inkl. moms",
        "Varenummer;Navn;Beskrivelse;Mærke;Farve;Kategori;Salgspris",
        "Varenr.;Produktnavn;Varebeskrivelse;Merke;Farge;Varegruppe;Pris inkl. mva",
        "Kód produktu;Název;Popis CZ;Výrobce;Barva;Kategorie;Cena s DPH",
        "Numer artykułu;Nazwa;Opis;Marka;Kolor;Kategoria;Cena",
        "Código;Nome;Descrição;Marca;Cor;Categoria;Preço",
        "Item #;Name (EN);Description_en;Brand;Colour;Category path;RRP incl. VAT",
    ],
    ids=["de-1", "de-2", "fr", "es", "it", "nl", "sv", "da", "no", "cs", "pl", "pt", "en"],
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


@pytest.mark.parametrize(
    ("heads", "standards"),
    [
        (
            "Title,URL handle,Description,Vendor,Product category,Type,SKU,Barcode,Option1 name,Option1 value,Price,"
            "Compare-at price,Product image URL,SEO title,SEO description",
            {
                "id": "URL handle",
                "title": "Title",
                "description": "Description",
                "brand": "Vendor",
                "category": "Product category",
                "price": "Price",
            },
        ),
        (
            "Product ID,Active (0/1),Name *,Categories (x,y,z...),Price tax excluded,Reference #,Supplier,Manufacturer,"
            "EAN13,Unit price,Summary,Description,Meta title",
            {
                "id": "Product ID",
                "title": "Name *",
                "description": "Description",
                "brand": "Manufacturer",
                "category": "Categories (x,y,z...)",
                "price": "Price tax excluded",
            },
        ),
        (
            "ordernumber,mainnumber,name,supplier,price_EK,pseudoprice_EK,instock,description,description_long,ean,"
            "categories,suppliernumber",
            {
                "id": "ordernumber",
                "parent": "mainnumber",
                "title": "name",
                "description": "description",
                "brand": "supplier",
                "category": "categories",
                "price": "price_EK",
            },
        ),
        (
            "id,parent_id,product_number,stock,name,description,price_net,price_gross,manufacturer_name,categories",
            {
                "id": "id",
                "parent": "parent_id",
                "title": "name",
                "description": "description",
                "brand": "manufacturer_name",
                "category": "categories",
                "price": "price_gross",
            },
        ),
        (
            "Item Type,Product ID,Product Name,Product Code/SKU,Brand Name,Product Description,Price,Cost Price,"
            "Category,Product UPC/EAN",
            {
                "id": "Product ID",
                "title": "Product Name",
                "description": "Product Description",
                "brand": "Brand Name",
                "category": "Category",
                "price": "Price",
            },
        ),
        (
            "g:id,g:title,g:description,g:link,g:price,g:brand,g:gtin,g:product_type,g:item_group_id",
            {
                "id": "g:id",
                "parent": "g:item_group_id",
                "title": "g:title",
                "description": "g:description",
                "brand": "g:brand",
                "category": "g:product_type",
                "price": "g:price",
                "url": "g:link",
            },
        ),
        (
            "ITEM_ID,PRODUCTNAME,PRODUCT,DESCRIPTION,URL,PRICE_VAT,MANUFACTURER,CATEGORYTEXT,EAN,ITEMGROUP_ID",
            {
                "id": "ITEM_ID",
                "parent": "ITEMGROUP_ID",
                "title": "PRODUCTNAME",
                "description": "DESCRIPTION",
                "brand": "MANUFACTURER",
                "category": "CATEGORYTEXT",
                "price": "PRICE_VAT",
                "url": "URL",
            },
        ),
    ],
    ids=["shopify", "prestashop", "shopware-5", "shopware-6", "bigcommerce", "google", "heureka"],
)
def test_exports_of_shops_are_known(heads: str, standards: dict[str, str]) -> None:
    names = next(csv.reader([heads.replace("(x,y,z...)", "(x;y;z...)")]))
    assert column_names([name.replace("x;y;z", "x,y,z") for name in names], {}) == standards


def test_both_descriptions_of_an_export_are_searched() -> None:
    record = {
        "ordernumber": "7",
        "name": "Saw",
        "description": "A saw.",
        "description_long": "Cuts wood.",
    }
    assert from_record(record).summary == "A saw.\nCuts wood."
