"""Fields of products that are searched by words: attributes, codes and quantities."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.records import Value
from purlin.index.search.store.filters import Condition
from purlin.index.sources.products.records import from_record
from purlin.index.texts.product_fields import is_code, plain, searched_values, spellings, units_of
from tests.support.corpora import new_corpus
from tests.support.documents import source
from tests.support.product_files import read_table


@pytest.mark.parametrize(
    "name",
    [
        *("SKU", "Variant SKU", "ean", "EAN-13", "gtin14", "GTIN", "mpn", "UPC code", "Barcode"),
        *("Model number", "article_no", "partNumber", "Manufacturer part number", "model"),
        *(
            "OE numbers",
            "OEM-Nr.",
            "cross_reference",
            "Interchange part number",
            "Vergleichsnummern",
        ),
        *("variants.sku", "offers.gtin13", "Mfr. part no.", "variants.partNo", "attrs.Mfr. no."),
    ],
)
def test_names_of_codes(name: str) -> None:
    assert is_code(name)


@pytest.mark.parametrize(
    "name",
    ["Stock", "Model year", "Ocean", "item_group_id", "Number of parts", "skus", "sku.note", ""],
)
def test_names_of_other_fields(name: str) -> None:
    assert not is_code(name)


@pytest.mark.parametrize(
    ("code", "others"),
    [
        ("0194644098766", ["194644098766", "00194644098766"]),
        ("194644098766", ["0194644098766", "00194644098766"]),
        # Spreadsheets drop leading zeros.
        ("12345678905", ["012345678905", "0012345678905", "00012345678905"]),
        ("4006381333931", ["04006381333931"]),
        ("3920564", []),
        ("0" * 14, []),
        ("WH1000XM4B.CE7", []),
        ("123456789012345", []),
        # Books have two numbers; the last digit tells them from other codes.
        ("978-3-16-148410-0", ["9783161484100", "316148410X"]),
        ("3-16-148410-X", ["9783161484100", "316148410X"]),
        ("0306406152", ["9780306406157"]),
        ("0306406153", []),
        ("978-3-16-148410-1", []),
    ],
)
def test_barcodes_are_spelled_with_all_leading_zeros(code: str, others: list[str]) -> None:
    assert spellings(code) == [code, *others]


def test_values_are_searched_and_names_are_not() -> None:
    fields = {
        "brand": "Acme",
        "stock": 4,
        "colour": "Red",
        "attrs.pages": 1_234_567.0,
        "attrs.wireless": True,
        "variants.sku": ("A-1", "A-2"),
        "weight": 12.5,
        "weight_unit": "kg",
    }

    assert list(searched_values(fields)) == ["Red", "1234567", "A-1 A-2", "12.5 kg"]
    assert units_of(fields) == {"weight": "weight_unit"}


PATHS = {
    "chain": "Parts > Drive > Chains",
    "saddle": ["Parts > Saddles", "Parts > Leather"],
    "bell": "Accessories>Bells",
    "odd": "> Parts >",
    "lamp": "Default Category/Bikes/Lights",
    "none": "Spare parts",
}


@pytest.mark.parametrize(
    ("category", "ids"),
    [
        ("Parts", {"chain", "saddle"}),
        ("parts > drive", {"chain"}),
        ("Parts > Drive > Chains", {"chain"}),
        ("Parts > Leather", {"saddle"}),
        ("Accessories", {"bell"}),
        ("Drive", set()),
        ("> Parts", {"odd"}),
        ("default category/bikes", {"lamp"}),
        ("Bikes", set()),
        (["Accessories", "Spare parts"], {"bell", "none"}),
    ],
)
def test_a_category_has_the_products_of_those_below_it(
    tmp_path: Path, category: Condition, ids: set[str]
) -> None:
    documents = [
        from_record({"sku": sku, "title": "Thing", "category": path}) for sku, path in PATHS.items()
    ]
    corpus = new_corpus(tmp_path, "product", [source("f", documents)])

    result = corpus.search("thing", filter={"category": category})
    assert ({hit.id for hit in result.hits}, result.total) == (ids, len(ids))
    shown = {hit.id: hit.fields["category"] for hit in result.hits}
    assert shown == {sku: documents[list(PATHS).index(sku)].fields["category"] for sku in ids}


@pytest.mark.parametrize("query", ["04006381333931", "4006381333931", "tv ol 65", "TVOL65"])
def test_products_are_found_by_their_codes(tmp_path: Path, query: str) -> None:
    records = [
        {"id": 11, "sku": "TV-OL-65", "name": "Aurora", "ean": 4006381333931},
        {"id": 12, "sku": "TV-OL-55", "name": "Borealis", "ean": 4006381333948},
    ]
    documents = [from_record(record) for record in records]
    hit = new_corpus(tmp_path, "product", [source("f", documents)]).search(query, k=1).hits[0]

    assert hit.id == "11"


@pytest.mark.parametrize(
    "query", ["3-16-148410-X", "316148410x", "9783161484100", "978-3-16-148410-0"]
)
@pytest.mark.parametrize("isbn", ["9783161484100", "978-3-16-148410-0", "316148410X"])
def test_a_book_is_found_by_either_of_its_numbers(tmp_path: Path, isbn: str, query: str) -> None:
    records = [{"isbn": isbn, "title": "The Orchard"}, {"isbn": "9780306406157", "title": "Paper"}]
    documents = list(map(from_record, records))
    (hit, _) = new_corpus(tmp_path, "product", [source("f", documents)]).search(query, k=2).hits

    assert hit.title == "The Orchard"
    assert hit.scores["lexical"] > 0


PARTS = """sku;name;OE numbers;cross_reference;fits
1;Oil filter;1K0 615 301 A, 40 59 822;LF-6045/4;Saab V62
2;Air filter;9A6 496 490 C, 24 29 773;PH-5237/3;Opel X71
"""


@pytest.mark.parametrize(
    "query",
    [
        *("1K0 615 301 A", "1k0615301a", "1K0.615.301.A", "4059822", "40-59-822"),
        *("LF-6045/4", "lf60454", "LF 6045 4", "filter saab v62"),
    ],
)
def test_a_part_is_found_by_other_makers_numbers(tmp_path: Path, query: str) -> None:
    documents, _ = read_table(tmp_path / "parts.csv", PARTS)
    corpus = new_corpus(tmp_path / "home", "product", [source("f", documents)])

    assert documents[0].fields["OE numbers"] == ("1K0 615 301 A", "40 59 822")
    first, *_ = corpus.search(query).hits
    assert first.id == "1"
    assert first.scores["lexical"] > 0


@pytest.mark.parametrize(
    ("query", "id_"),
    [
        ("4006381333931", "a"),
        ("04006381333931", "a"),
        ("0194644098766", "b"),
        ("tv-ol-65", "c"),
        ("nl-sh-m-t", "e"),
    ],
)
def test_a_code_as_query_scores_one_and_honours_filters(
    tmp_path: Path, query: str, id_: str
) -> None:
    records = [
        # As a number, as text with a leading zero too few, and in capitals.
        {"id": "a", "name": "Aurora", "ean": 4006381333931, "stock": 1},
        {"id": "b", "name": "Borealis", "upc": "194644098766", "stock": 1},
        {"id": "c", "name": "Corona", "mpn": "TV-OL-65", "stock": 1},
        {"id": "d", "name": f"{query} {query} and more", "stock": 0},
        {"id": "e", "name": "Emerald", "variants": [{"sku": "NL-SH-M-T"}], "stock": 1},
    ]
    documents = [from_record(record) for record in records]
    corpus = new_corpus(tmp_path, "product", [source("f", documents)])

    hit, other = corpus.search(query, k=2, explain=True).hits

    assert (hit.id, hit.score, other.id) == (id_, 1.0, "d")
    assert other.score < 1
    assert [each.id for each in corpus.search(query, filter={"stock": 0}).hits] == ["d"]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("kt 1700 s", ["KT-1700-S"]),
        ("kt1700s", ["KT-1700-S"]),
        ("b864 22 b", ["a", "b"]),
        ("B86422B", ["a", "b"]),
        ("40 06381 333931", ["c"]),
        ("rw-90", ["d"]),
        # The code as it is written counts alone.
        ("11-22-3", ["11-22-3"]),
        ("11 22 3", ["11-22-3", "1-12-23"]),
        # Part of a code.
        ("kt 1700", []),
        # A code beside other words, which the product has, too, or no product.
        ("steel kettle kt1700s", ["KT-1700-S"]),
        ("buy: (KT 1700 S)!", ["KT-1700-S"]),
        ("red mixer b86422b", ["b"]),
        ("lid for kt1700s", []),
        # Few digits are rather a size or a count.
        ("bricks 75192", ["bricks"]),
        ("1000 bricks", []),
    ],
)
def test_a_code_scores_one_whatever_separates_its_parts(
    tmp_path: Path, query: str, ids: list[str]
) -> None:
    records = [
        {"sku": "KT-1700-S", "name": "Steel kettle"},
        {"sku": "lid", "name": "Lid"},
        {"sku": "bricks", "name": "Bricks", "mpn": "75192", "model_number": "1000"},
        {"sku": "a", "name": "Mixer", "mpn": "B864-22/B"},
        {"sku": "b", "name": "Mixer, red", "mpn": "B864-22/B"},
        {"sku": "c", "name": "Aurora", "ean": 4006381333931},
        {"sku": "d", "name": "Radio", "model_number": "RW90"},
        {"sku": "11-22-3", "name": "Screw"},
        {"sku": "1-12-23", "name": "Nut"},
        *({"sku": f"x{number}", "name": f"B {number} kt 22"} for number in range(9)),
    ]
    documents = [from_record(record) for record in records]
    hits = new_corpus(tmp_path, "product", [source("f", documents)]).search(query, k=20).hits

    assert sorted(hit.id for hit in hits if hit.score == 1.0) == sorted(ids)


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("power_w", 10, "Power: 10 W"),
        ("Weight (kg)", 1.5, "Weight: 1.5 kg"),
        ("screen_size_inches", 15.6, "Screen size: 15.6 inches"),
        ("cable_length_m", 2, "Cable length: 2 m"),
        ("Volume (LITRES)", 0.5, "Volume: 0.5 litres"),
        ("camera_mp", 12, "Camera: 12 MP"),
        ("motor_rpm", 900, "Motor: 900 rpm"),
        ("usb_c", 2, "Usb c: 2"),
        ("memory_gb", "many", "Memory gb: many"),
        ("fits_in", True, "Fits in: Yes"),
        ("_kg", 3, "Kg: 3"),
        ("attr_n_megapixel", 12, "Megapixel: 12"),
        ("attr_n_weight_kg", 3, "Weight: 3 kg"),
    ],
)
def test_unit_in_the_name_of_a_number_stands_behind_it(
    name: str, value: str | float, line: str
) -> None:
    document = from_record({"title": "T", "attributes": {name: value}})
    assert document.body == line


def test_unit_in_the_name_is_searched() -> None:
    expected = ["10 W", "many"]
    assert list(searched_values({"attrs.power_w": 10, "attrs.memory_gb": "many"})) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authors", ("García Márquez", "O'Brien")),
        ("Material", "Cotton"),
        ("upper_material", "Leather"),
        ("Éditeur", "Folio"),
        ("ageGroup", "Kids"),
        ("tags", "new, vegan"),
    ],
)
def test_traits_are_searched_by_their_words(name: str, value: Value) -> None:
    assert list(searched_values({name: value})) == [plain(value)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("season", 2026), ("material", "x" * 300), ("warehouse", "North"), ("author_checked", "yes")],
)
def test_other_fields_are_not(name: str, value: Value) -> None:
    assert list(searched_values({name: value})) == []
