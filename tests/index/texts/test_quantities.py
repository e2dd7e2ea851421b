"""Quantities in one spelling, and products that are found by any spelling of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.search.corpus import Corpus
from purlin.index.sources.products.records import from_record
from purlin.index.texts.quantities import in_one_spelling, quantities
from tests.support.corpora import new_corpus
from tests.support.documents import source


@pytest.mark.parametrize(
    ("spelling", "texts"),
    [
        ("2000gb", ["2 TB", "2TB", "2000 GB", "2,000GB", "2-TB", "2048 GB", "2 terabytes"]),
        ("1gb", ["1 GB", "1024 MB", "1,024 MB", "1000MB"]),
        ("17in", ['17"', "17 inch", "17-inch", "17in", "17 in.", "17 in", "17''", "17”"]),
        # Not 15.6in, whose tokens have another quantity, 6in.
        ("15.6 in", ['15.6"', "15,6-inch", "15.6 inches", "15.60 in"]),
        ("1500ml", ["1.5 l", "1500 ml", "1,5 L", "150 cl", "1,500 ml", "1.5 litres"]),
        ("500g", ["500 g", "0.5 kg", "0,500 kg", "500-gram", "500\u00a0g"]),
        ("3m", ["3 m", "300 cm", "3000mm", "3 metres", "3M"]),
        ("1200w", ["1200 W", "1.2 kW", "1200 watts"]),
        ("100nf", ["100 nF", "0.1 µF", "0.1uF", ".1uF", ".1 µF", "0,1 \u03bcF", "100000 pF"]),
        ("4700ohm", ["4.7 kΩ", "4,7k\u2126", "4.7 kohm", "4700 ohms", "4.7k", "4.7k ohm", "4k7Ω"]),
        ("1000uh", ["1 mH", "1000 µH"]),
        ("1000mbps", ["1 Gbit/s", "1 Gbps", "1000 Mbps"]),
        ("2gb", ["4x2GB", "4 x 2 GB", "512 MB/2 GB"]),
    ],
)
def test_equal_quantities_have_one_spelling(spelling: str, texts: list[str]) -> None:
    assert {text: list(quantities(text))[-1].spelling for text in texts} == dict.fromkeys(
        texts, spelling
    )


@pytest.mark.parametrize(
    "text",
    [
        *("2-in-1 laptop", "2 in 1", "2in1", "8 in stock", "DDR4-3200 MHz", '1/2"', "10-20 kg"),
        *(
            "6 Gb/s",
            "80 g/m²",
            "WX500 GB",
            "v2.500 g",
            "17 inchworms",
            "GB",
            "² kg",
            "9" * 20 + "g",
        ),
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert in_one_spelling(text) == text


def test_words_around_a_quantity_stay_words() -> None:
    assert in_one_spelling('4x2GB RAM, 43.2 cm (17") HDD').split() == (
        "4x 2gb RAM, 432mm ( 17in ) HDD".split()
    )


def test_a_resistance_may_have_its_unit_for_a_point() -> None:
    assert in_one_spelling("4k7 0.25 W, 10K0").split() == "4700ohm 0.25 w , 10k ohm".split()
    for text in ("a4k7", "4k72", "4k", "4.4k7"):
        assert "ohm" not in in_one_spelling(text)


def test_a_thread_is_a_word_beside_its_length() -> None:
    spelled = "M6 x 30 hex, m8 x 1.25"
    assert in_one_spelling("M6x30 hex, m8×1.25").split() == spelled.split()
    for text in ("AM6x30", "M6x", "DM600x2", "4x40"):
        assert in_one_spelling(text) == text


@pytest.mark.parametrize("text", ["2 l\u0131tre", "5 \u0131n", "3 lb\u017f", "10 ohm\u017f"])
def test_letters_that_only_ignored_case_equates_make_no_unit(text: str) -> None:
    assert in_one_spelling(text) == text


@given(st.text(alphabet="0123456789.,/ -x\"'inchGBtbml²³ſ٣é", max_size=60))
def test_spelling_is_stable(text: str) -> None:
    once = in_one_spelling(text)
    assert in_one_spelling(once).split() == once.split()
    assert all(each.start < each.end <= len(text) for each in quantities(text))


@pytest.fixture
def shop(tmp_path: Path) -> Corpus:
    records = [
        {"id": "a", "name": "Drive", "description": "Holds 2000 GB."},
        {"id": "b", "name": "Drive", "description": "Holds 2 GB of cache."},
        {"id": "c", "name": "Drive", "capacity": 2, "capacity_unit": "TB"},
        {"id": "d", "name": "Drive, 2 TB disk", "description": "Quiet."},
        {"id": "e", "name": "Cable, two meters", "description": "Also 3 m."},
    ]
    documents = [from_record(record) for record in records]
    return new_corpus(tmp_path, "product", [source("f", documents)])


@pytest.mark.parametrize("query", ["2 TB", "2tb", "2000 GB", "2,000-GB"])
def test_products_are_found_by_equal_quantities(shop: Corpus, query: str) -> None:
    *equal, other = (hit.id for hit in shop.search(query, mode="lexical").hits)
    assert (sorted(equal), other) == (["a", "c", "d"], "b")


@pytest.mark.parametrize("query", ["4.7k resistor", "4k7 resistor"])
def test_a_resistance_is_found_and_highlighted_without_its_unit(tmp_path: Path, query: str) -> None:
    records = [
        {"id": value, "name": "Resistor", "description": f"Of {value} kΩ."}
        for value in ("47", "4.7")
    ]
    shop = new_corpus(tmp_path, "product", [source("f", map(from_record, records))])
    hit = shop.search(query, mode="lexical").hits[0]
    assert [hit.text[start:end] for start, end in hit.highlights] == ["4.7 kΩ"]


def test_equal_quantities_are_highlighted(shop: Corpus) -> None:
    hits = {hit.id: hit for hit in shop.search("drive 2 TB", mode="lexical").hits}
    assert [hits["a"].text[start:end] for start, end in hits["a"].highlights] == ["2000 GB"]
    assert [hits["c"].text[start:end] for start, end in hits["c"].highlights] == ["2 TB"]


def test_unit_of_a_query_is_no_typo(shop: Corpus) -> None:
    assert shop.search("3 metres").corrected is None
    assert shop.search("metres").corrected == "meters"
