"""Product tables in every format, whole and broken, and what becomes of their columns."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import re
from decimal import Decimal
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.errors import InvalidInput, NotFound
from index.records import Document, Skipped, SourceFile
from index.sources import nouns, product, tables

DATA = Path(__file__).parent / "data" / "products"


def read(path: Path, **options: object) -> tuple[list[Document], list[Skipped]]:
    documents: list[Document] = []
    skipped: list[Skipped] = []
    for source in product.files(path, **options):  # type: ignore[arg-type]
        for found in source.read() if isinstance(source, SourceFile) else [source]:
            (documents if isinstance(found, Document) else skipped).append(found)  # type: ignore[arg-type]
    return documents, skipped


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def shown(document: Document) -> list[str]:
    return [document.body[atom.start : atom.end] for atom in document.atoms]


# Files


def test_a_directory_is_read_in_order_and_what_is_no_table_is_reported(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("c.jsonl", "b/x.ndjson", "a.jsonl.gz", ".hidden.jsonl", "notes.xlsx"):
        text = json.dumps({"id": name, "title": name}).encode()
        written(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
    found = list(product.files(tmp_path))
    assert [source.path for source in found] == [
        "a.jsonl.gz",
        "b/x.ndjson",
        "c.jsonl",
        "notes.xlsx",
    ]
    assert [type(source) for source in found] == [SourceFile, SourceFile, SourceFile, Skipped]
    assert [document.id for document in read(tmp_path)[0]] == [
        "a.jsonl.gz",
        "b/x.ndjson",
        "c.jsonl",
    ]


def test_a_digest_changes_with_content_and_options_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.jsonl", '{"title": "Saw"}')

    def digest(**options: object) -> str:
        (source,) = product.files(path, **options)  # type: ignore[arg-type]
        assert isinstance(source, SourceFile)
        return source.digest

    first = digest()
    assert digest(columns={}) == first
    others = {digest(entities=True), digest(columns={"title": "name"})}
    monkeypatch.setattr(product, "VERSION", 99)
    others.add(digest())
    monkeypatch.undo()
    written(path, '{"title": "Saws"}')
    others.add(digest())
    assert len(others - {first}) == 4


def test_paths_that_cannot_be_read_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        product.files(tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match=r"notes\.xlsx is no product table: give one of \.jsonl"):
        product.files(written(tmp_path / "notes.xlsx", ""))
    with pytest.raises(InvalidInput, match="Unknown column 'colr'; known are id, title"):
        product.files(tmp_path, columns={"colr": "x"})


def test_an_explicit_column_wins_and_one_that_is_missing_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "id,title,name,artnr\n1,Wrong,Right,A-1\n")
    (document,), _ = read(path, columns={"title": "name", "id": "artnr"})
    assert (document.id, document.title, document.fields) == (
        "A-1",
        "Right",
        {"id": 1, "title": "Wrong"},
    )
    with pytest.raises(
        InvalidInput, match=r"a\.csv has no column 'nme'; it has id, title, name, artnr"
    ):
        read(path, columns={"title": "nme"})


# Formats


def test_icecat_attributes_are_typed_readable_in_the_body_and_filterable_by_their_own_name() -> (
    None
):
    (toner, notebook), skipped = read(DATA / "icecat.jsonl")
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
    assert shown(toner) == toner.body.splitlines()[1:]
    assert toner.fields == {
        "brand": "Brennholt",
        "judged_source": False,
        "attrs.attr_t_type": "Original",
        "attrs.attr_n_black_toner_page_yield": 4100.0,
        "attrs.attr_b_return_program": False,
        "attrs.attr_t_colour": "Black",
    }
    assert notebook.body.startswith("Quad-core processor\n(8M Cache, 2.4 GHz), 16 GB\n")
    assert "Contrast ratio typical: 1000:1" in shown(notebook)


def test_esci_rows_of_one_product_become_one_document_without_the_queries() -> None:
    (mug, towel), skipped = read(DATA / "esci.csv")
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


def test_a_shop_export_with_semicolons_quoted_newlines_and_odd_rows() -> None:
    (lamp, chair, low), skipped = read(DATA / "shop.csv")
    assert lamp.title == 'Desk lamp "Nord", 9 W'
    assert lamp.body.splitlines() == [
        "Bends where you need it.",
        "Three shades of white",
        "USB socket",
        "Brand: Lumo",
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
    assert ("price" in low.fields, shown(low)) == (False, ["plain words", "Brand: Sitwell"])
    assert skipped == [Skipped("shop.csv", "has 3 cells where the header has 10", 5)]


def test_a_json_array_with_nested_records() -> None:
    (trail, floor), skipped = read(DATA / "feed.json")
    assert (trail.id, trail.title) == ("501", "Trail pump")
    assert shown(trail) == ["Presta and Schrader", "Steel barrel", "Brand: Vale"]
    assert trail.fields == {
        "brand": "Vale",
        "tags": ("pump", "bike"),
        "size.length_mm": 230,
        "size.packed.mm": 180,
    }
    assert floor.fields == {"brand": "Vale", "attrs.Max pressure (bar)": 11, "attrs.Gauge": True}
    assert skipped == [Skipped("feed.json", "is not a JSON object", 2)]


def test_broken_lines_are_named_by_number_and_the_rest_is_read() -> None:
    documents, skipped = read(DATA / "broken.jsonl")
    assert [document.id for document in documents[:2]] == ["a", "e"]
    assert [document.title for document in documents] == [
        "Folding saw",
        "A saw without a name. It cuts.",
        "Saw horse",
        "Mitre box",
    ]
    assert len(documents[2].id) == 16
    assert documents[2].id == read(DATA / "broken.jsonl")[0][2].id
    assert documents[2].fields == {"width_cm": 70}
    reasons = {row.line: row.reason.split(":")[0] for row in skipped}
    assert reasons == {
        2: "is not valid JSON",
        3: "is not a JSON object",
        5: "has no title and no other text",
        7: "holds bytes that are not text; save the file as UTF-8",
        8: "holds bytes that are not text; save the file as UTF-8",
        10: "repeats an id with other content",
    }


def test_parquet_with_maps_lists_dates_and_decimals(tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "product_id": ["P1", "P2"],
            "product_title": ["Kettle", "Toaster"],
            "bullet_points": [["1.7 litres", "Cordless"], None],
            "attributes": pyarrow.array(
                [[("watt", 2200.0)], [("slots", 2.0)]],
                pyarrow.map_(pyarrow.string(), pyarrow.float64()),
            ),
            "price": [Decimal("24.90"), None],
            "since": [datetime.date(2024, 5, 1), None],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    (kettle, toaster), skipped = read(tmp_path / "p.parquet")
    assert shown(kettle) == ["1.7 litres", "Cordless", "Watt: 2200"]
    assert kettle.fields == {"since": "2024-05-01", "attrs.watt": 2200.0, "price": 24.9}
    assert toaster.fields == {"attrs.slots": 2.0}
    assert skipped == []


@pytest.mark.parametrize(
    ("type_", "time", "text"),
    [
        (pyarrow.timestamp("ns"), 1, "1970-01-01T00:00:00.000000001"),
        (pyarrow.time64("ns"), 1, "00:00:00.000000001"),
        (pyarrow.timestamp("s"), 10**12, None),
        (pyarrow.date32(), 10**8, None),
    ],
)
def test_a_time_that_python_cannot_hold_costs_no_row(
    tmp_path: Path, type_: pyarrow.DataType, time: int, text: str | None
) -> None:
    table = pyarrow.table(
        {"title": ["Kettle", "Toaster"], "since": pyarrow.array([time, None], type_)}
    )
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    (kettle, _), skipped = read(tmp_path / "p.parquet")
    assert (kettle.fields.get("since"), skipped) == (text, [])


def test_parquet_that_pyarrow_cannot_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pyarrow.table(
        {"title": ["Kettle"], "for": pyarrow.array([10**18], pyarrow.duration("ms"))}
    )
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    documents, (skipped,) = read(tmp_path / "p.parquet")
    assert (documents, skipped.reason[:34]) == ([], "is damaged, as are the rows up to ")

    def open_(_: Path) -> None:
        raise pyarrow.lib.ArrowNotImplementedError("Integers with less than 8 bits")

    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", open_)
    _, (skipped,) = read(tmp_path / "p.parquet")
    assert skipped.reason == "cannot be read from here on: Integers with less than 8 bits"


def test_a_damaged_parquet_row_group_is_skipped_by_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    titles = [f"Lamp number {number}" for number in range(30)]
    pyarrow.parquet.write_table(
        pyarrow.table({"title": titles}), path, row_group_size=10, compression="gzip"
    )
    start = pyarrow.parquet.read_metadata(path).row_group(1).column(0).dictionary_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 40] = b"\xff" * 40
    documents, (skipped,) = read(written(path, bytes(content)))
    assert [document.title for document in documents] == titles[:10] + titles[20:]
    assert (skipped.line, skipped.reason[:34], skipped.passing) == (
        11,
        "is damaged, as are the rows up to ",
        False,
    )
    _, (skipped,) = read(written(path, bytes(content[:-20])))
    assert skipped.reason.startswith("cannot be read from here on: ")
    assert not skipped.passing


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a.csv", "a.parquet"])
def test_a_table_that_goes_after_it_was_listed_may_come_back(tmp_path: Path, name: str) -> None:
    (source,) = product.files(written(tmp_path / name, ""))
    assert isinstance(source, SourceFile)
    (tmp_path / name).unlink()
    (skipped,) = source.read()
    assert isinstance(skipped, Skipped)
    assert "cannot be read from here on: [Errno 2] " in skipped.reason
    assert skipped.passing


def test_a_truncated_gzip_yields_what_comes_before_the_cut(tmp_path: Path) -> None:
    rows = "".join(
        json.dumps({"title": f"Lamp {number}", "id": f"{number}"}) + "\n" for number in range(5_000)
    )
    path = written(tmp_path / "a.jsonl.gz", gzip.compress(rows.encode())[:-2_000])
    documents, (skipped,) = read(path)
    assert 1_000 < len(documents) < 5_000
    assert skipped.line == len(documents) + 1
    assert skipped.reason.startswith("cannot be read from here on: ")
    _, (skipped,) = read(written(path, "no gzip at all"))
    assert skipped == Skipped(
        "a.jsonl.gz", "cannot be read from here on: Not a gzipped file (b'no')", 1
    )


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.jsonl", "", "holds no rows"),
        ("a.csv", "id,title\n", "holds no rows"),
        ("a.json", "[]", "holds no rows"),
        (
            "a.json",
            '{"products": []}',
            "is not an array of records; name a file with one record per line .jsonl",
        ),
        ("a.csv", "x,y\n1,2\n", "none of its columns is known to hold text; it has x, y"),
    ],
)
def test_a_table_without_products_says_so(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    assert read(written(tmp_path / name, text)) == ([], [Skipped(name, reason)])


def test_a_json_array_is_read_up_to_its_first_broken_record(tmp_path: Path) -> None:
    rows = ", ".join(
        json.dumps({"title": f"Lamp {number}", "text": "x" * 900}) for number in range(200)
    )
    documents, skipped = read(
        written(tmp_path / "a.json", f'[{rows}, {{"title": }}, {{"title": "Lost"}}]')
    )
    assert (len(documents), [row.line for row in skipped]) == (200, [201])
    assert skipped[0].reason.endswith("; the rows after it are left out, too")
    documents, skipped = read(written(tmp_path / "a.json", f"[{rows}"))
    assert (len(documents), [row.line for row in skipped]) == (200, [201])
    long = json.dumps({"title": "x" * (2 * tables.MAX_ROW)})
    documents, skipped = read(
        written(tmp_path / "a.json", f'[{rows}, {long}, {{"title": "Lost"}}]')
    )
    assert (len(documents), skipped[0].reason[:34]) == (200, "is longer than 1,048,576 character")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_csv_delimiters_and_byte_order_marks(tmp_path: Path, delimiter: str, encoding: str) -> None:
    text = (
        delimiter.join(["id", '"title, or; name"', "Größe"])
        + "\r\n"
        + delimiter.join(["1", '"a,b;c\td|e"', "4"])
    )
    path = written(tmp_path / "a.csv", text.encode(encoding))
    (document,), skipped = read(path, columns={"title": "title, or; name"})
    assert (document.title, document.fields, skipped) == ("a,b;c d|e", {"Größe": 4}, [])


@pytest.mark.parametrize("separator", [";", "\t"])
def test_the_separator_that_excel_writes_into_the_file(tmp_path: Path, separator: str) -> None:
    rows = [
        f"sep={separator}",
        f"id{separator}title{separator}stock",
        f"1{separator}Lamp, tall{separator}2",
        "",
    ]
    (document,), _ = read(written(tmp_path / "a.csv", "\r\n".join(rows)))
    assert document.title == "Lamp, tall"


def test_an_open_quote_costs_only_its_own_row(tmp_path: Path) -> None:
    rows = [f"{number},Lamp {number}" for number in range(2, 300)]
    rows[50] = '52,"Lamp 52'
    rows[80] = '82,"Lamp" 82'
    documents, skipped = read(written(tmp_path / "a.csv", "id,title\n" + "\n".join(rows)))
    assert {str(number) for number in range(2, 300)} - {document.id for document in documents} == {
        "52",
        "82",
    }
    assert [row.line for row in skipped] == [52, 82]


def test_open_quotes_cost_only_their_own_rows_however_large_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product, "MAX_ROW", 5_000)
    rows = [
        f"{number},{'' if number % 50 else chr(34)}Lamp {number},{'x' * 50}"
        for number in range(1, 5_001)
    ]
    documents, skipped = read(written(tmp_path / "a.csv", "id,title,text\n" + "\n".join(rows)))
    assert [int(document.id) for document in documents] == [
        number for number in range(1, 5_001) if number % 50
    ]
    assert [row.line for row in skipped] == [number + 1 for number in range(50, 5_001, 50)]


def test_open_quotes_all_over_a_file_do_not_take_forever_and_what_they_swallow_is_counted(
    tmp_path: Path,
) -> None:
    rows = "id,title\n" + 'x","\n' * 20_000 + "1,Lamp\n"
    documents, skipped = read(written(tmp_path / "a.csv", rows))
    assert len(skipped) > 100
    assert len(documents) <= 1
    swallowed = [re.search(r"; lines left out with it: ([\d,]+)$", row.reason) for row in skipped]
    lost = len(skipped) + sum(int(found[1].replace(",", "")) for found in swallowed if found)
    assert lost + len(documents) == 20_001


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_bytes_that_are_not_utf_8_cost_only_their_row(tmp_path: Path, name: str) -> None:
    rows = {"a.jsonl": ['{"title": "%s"}'] * 3, "a.csv": ["title,id", "%s,1", "%s,2", "%s,3"]}[name]
    text = (
        "\n".join(rows)
        .replace("%s", "Glühbirne", 1)
        .replace("%s", "Lamp", 1)
        .replace("%s", "Kerze", 1)
    )
    documents, (skipped,) = read(written(tmp_path / name, text.encode("latin-1")))
    assert [document.title for document in documents] == ["Lamp", "Kerze"]
    assert skipped.line == rows.index(next(row for row in rows if "%s" in row)) + 1
    assert skipped.reason.endswith("save the file as UTF-8")


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json"])
def test_a_row_over_the_limit_is_left_out(tmp_path: Path, name: str) -> None:
    titles = ["Lamp", "x" * (tables.MAX_ROW + 1), "Candle"]
    text = {
        "a.jsonl": "\n".join(json.dumps({"title": title}) for title in titles),
        "a.csv": "title\n" + "\n".join(titles),
        "a.json": json.dumps([{"title": title} for title in titles]),
    }[name]
    documents, skipped = read(written(tmp_path / name, text))
    assert [document.title for document in documents] == ["Lamp", "Candle"]
    assert [row.line for row in skipped] == [3 if name == "a.csv" else 2]


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=400),
    st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.tsv", "a.csv.gz", "a.parquet"]),
)
def test_no_bytes_whatsoever_are_fatal(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    documents, _ = read(written(tmp_path_factory.mktemp("bytes") / name, content))
    assert all(document.title for document in documents)


cells = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<&|•"),
    min_size=1,
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=5), st.sampled_from(",;\t"))
def test_what_the_csv_module_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], delimiter: str
) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows(
        [("id", "title", "text"), *((number, *row) for number, row in enumerate(rows))]
    )
    documents, skipped = read(written(tmp_path_factory.mktemp("csv") / "a.csv", buffer.getvalue()))
    expected = [(" ".join(title.split()), " ".join(text.split())) for title, text in rows]
    assert [(found.title, found.body) for found in documents] == [
        (title or (text if len(text) <= 80 else text[:80]), text)
        for title, text in expected
        if title or text
    ]
    assert len(skipped) == len(rows) - len(documents)


# Records


def test_a_beir_record_is_a_product() -> None:
    record = {
        "_id": "p1",
        "title": "T",
        "text": "D",
        "brand": "B",
        "attrs": {"attr_n_x": 1.0},
        "judged_source": False,
    }
    document = product.from_record(record)
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
def test_titles_are_found_under_many_names(record: dict[str, object], title: str) -> None:
    assert product.from_record(record).title == title


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
    assert product.from_record({"title": "T", "description": raw}).body == text


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab <>&;/#x1plitd!-\"'=\n\t\x0b"), max_size=60))
def test_any_text_becomes_clean_lines(raw: str) -> None:
    body = product.from_record({"title": "T", "description": raw}).body
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
    assert shown(product.from_record({"title": "T", "bullets": raw})) == bullets


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
    ],
)
def test_prices_are_numbers_whatever_the_currency(raw: object, price: float | None) -> None:
    assert product.from_record({"title": "T", "price": raw}).fields.get("price") == price


@pytest.mark.parametrize(
    "raw", ["javascript:alert(1)", "/p/1", "https://a b", "https://" + "x" * 3_000, 7]
)
def test_only_web_addresses_become_links(raw: object) -> None:
    assert product.from_record({"title": "T", "url": raw}).location.url is None


def test_icecat_columns_without_a_mapping_and_as_text_are_attributes() -> None:
    record = {
        "title": "T",
        "attr_n_weight__net_": "1.5",
        "attr_b_wi_fi": "true",
        "attr_n_odd": "n/a",
        "attr_t_": "x",
    }
    document = product.from_record(record)
    assert document.fields == {
        "attrs.attr_n_weight__net_": 1.5,
        "attrs.attr_b_wi_fi": True,
        "attrs.attr_n_odd": "n/a",
        "attr_t_": "x",
    }
    assert shown(document) == ["Weight net: 1.5", "Wi fi: Yes", "Odd: n/a"]


def test_what_is_no_value_is_no_field() -> None:
    record = {"title": "T", "none": None, "big": 1 << 70, "inf": float("inf"), "lines": "a<br>b"}
    document = product.from_record({**record, "attributes": {"in": {"a": [1, "b", None]}}})
    assert document.fields == {"big": str(1 << 70), "lines": "a\nb", "attrs.in.a": ("1", "b")}
    assert shown(document) == ["In a: 1, b"]


def test_texts_too_long_to_filter_by_are_kept_and_read() -> None:
    long = "Wash cold. " * 30 + "Dry flat."
    texts = {
        "care": f"{long}<p>Iron it.",
        "tags": ["a", f"b {long}"],
        "images": "https://x.example/1," * 20,
    }
    document = product.from_record(
        {"title": "T", "brand": "B", **texts, "attributes": {"use": long}}
    )
    prose = [long, "Iron it.", f"b {long}"]
    assert shown(document) == [*prose, "Brand: B", f"Use: {long}"]
    assert document.summary.split("\n") == prose
    assert document.fields == texts | {
        "brand": "B",
        "care": f"{long}\nIron it.",
        "attrs.use": long,
    } | {"tags": ("a", f"b {long}")}
    assert product.from_record({"title": "T", "description": long, "plain": long}).body == long


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
        ({"title": "T", "attributes": {"a\0": 1}}, "not text"),
        ({"title": "T", "a": ["x" * 250] * 5_000}, "is longer than 1,048,576 characters"),
        ({"title": "T", "description": "x" * (1 << 20)}, "is longer than 1,048,576 characters"),
    ],
)
def test_records_beyond_the_limits_are_refused(record: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        product.from_record(record)


def test_a_line_nested_deeper_than_json_reads_is_skipped(tmp_path: Path) -> None:
    deep = '{"title": ' + "[" * 100_000
    documents, (skipped,) = read(written(tmp_path / "a.jsonl", f'{deep}\n{{"title": "Lamp"}}\n'))
    assert ([document.title for document in documents], skipped.line) == (["Lamp"], 1)


# Nouns


def marked(title: str, body: str) -> list[str]:
    return [body[span.start : span.end] for span in nouns.shared_nouns(title, body)]


def test_shared_nouns() -> None:
    title = "The Compact TN-2420X Toner Cartridges for Pagewell printers, foldable, 500 pages, 12mm"
    body = "A compact toner for the TN-2420X: one cartridge, foldable, prints 500 pages on a Pagewell printer, 12mm"
    assert marked(title, body) == ["toner", "TN-2420X", "cartridge", "pages", "Pagewell", "printer"]
    assert marked("Drive", "a drive that drives easily") == ["drive", "drives"]
    assert marked("", "nothing") == []


def test_entities_are_marked_on_request_only() -> None:
    record = {"title": "Oak desk", "description": "A desk of oak."}
    assert product.from_record(record).entities == ()
    document = product.from_record(record, entities=True)
    assert [document.body[span.start : span.end] for span in document.entities] == ["desk", "oak"]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.text(max_size=80))
def test_spans_of_nouns_are_ordered_and_inside_the_body(title: str, body: str) -> None:
    spans = nouns.shared_nouns(title, body)
    ends = [0, *(offset for span in spans for offset in (span.start, span.end))]
    assert ends == sorted(ends)
    assert ends[-1] <= len(body)


# The demo


def test_the_demo_catalogue_is_sound() -> None:
    documents, skipped = read(Path(product.__file__).parent.parent / "demo" / "products.jsonl")
    assert skipped == []
    assert len({document.id for document in documents}) == len(documents) >= 220
    assert len({document.fields["category"] for document in documents}) >= 12
    for document in documents:
        assert {"brand", "colour", "category", "price"} <= document.fields.keys()
        assert 3 + 5 + 3 <= len(document.atoms) <= 5 + 8 + 3
        assert document.body.index("\n") > 60


def test_an_attribute_of_the_demo_catalogue_has_one_type_and_numbers_can_be_compared() -> None:
    documents, _ = read(Path(product.__file__).parent.parent / "demo" / "products.jsonl")
    types_of: dict[str, set[str]] = {}
    for document in documents:
        for name, value in document.fields.items():
            types_of.setdefault(name, set()).add(
                "number" if type(value) in (int, float) else type(value).__name__
            )
    assert [name for name, found in types_of.items() if len(found) > 1] == []
    memory = [found for found in documents if found.fields["category"] == "Memory"]
    wanted = [found.id for found in memory if found.fields.get("attrs.speed_mt_s", 0) >= 5600]  # type: ignore[operator]
    assert sorted(wanted) == ["DDR5-5600-32K", "DDR5-5600-48S", "DDR5-6400-64K"]
