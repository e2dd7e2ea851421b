"""Cells become text, numbers, prices and links."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.sources.products.records import from_record
from tests.support.product_files import atom_texts, read_table


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
    (document,), _ = read_table(tmp_path / "a.csv", table)

    assert (document.id, document.fields) == ("1,5", {"weight": value})


def test_ids_of_every_column_stay_text(tmp_path: Path) -> None:
    table = "sku,ean,title,stock\n,10.10,Saw,1.10\n,10.1,Vice,2\nA-1,7,Plane,3\n"
    documents, skipped = read_table(tmp_path / "a.csv", table)

    assert skipped == []
    assert [document.id for document in documents] == ["10.10", "10.1", "A-1"]
    assert [document.fields["stock"] for document in documents] == [1.1, 2, 3]
    assert documents[2].fields["ean"] == "7"


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


@settings(max_examples=200)
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


@pytest.mark.parametrize(
    "raw", ["javascript:alert(1)", "/p/1", "https://a b", "https://" + "x" * 3_000, 7]
)
def test_only_web_addresses_become_links(raw: object) -> None:
    assert from_record({"title": "T", "url": raw}).location.url is None
