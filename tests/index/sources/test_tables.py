"""Rows of product tables in every format, whole and broken."""

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

from purlin.index.errors import InvalidInput
from purlin.index.records import Skipped, SourceFile
from purlin.index.sources import tables
from purlin.index.sources.products import catalogue
from tests.support.product_files import atom_texts, read_products, read_table, write

WORKBOOK = "is a workbook of a spreadsheet or another archive: export it as CSV"


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
    (kettle, toaster), skipped = read_products(tmp_path / "p.parquet")

    assert atom_texts(kettle) == ["1.7 litres", "Cordless", "Watt: 2200"]
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
def test_parquet_time_beyond_python_keeps_its_row(
    tmp_path: Path, type_: pyarrow.DataType, time: int, text: str | None
) -> None:
    table = pyarrow.table(
        {"title": ["Kettle", "Toaster"], "since": pyarrow.array([time, None], type_)}
    )
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    (kettle, _), skipped = read_products(tmp_path / "p.parquet")
    assert (kettle.fields.get("since"), skipped) == (text, [])


def test_parquet_without_pyarrow_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"title": ["Kettle"]}), path)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    # Not skipped: a build would lose its products.
    with pytest.raises(InvalidInput, match=r"p\.parquet .* 'purlin-search\[parquet\]'"):
        read_products(path)


def test_unreadable_parquet_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pyarrow.table(
        {"title": ["Kettle"], "for": pyarrow.array([10**18], pyarrow.duration("ms"))}
    )
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    documents, (skipped,) = read_products(tmp_path / "p.parquet")

    assert (documents, skipped.reason[:34]) == ([], "is damaged, as are the rows up to ")

    def open_(_: Path) -> None:
        raise pyarrow.lib.ArrowNotImplementedError("Integers with less than 8 bits")

    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", open_)
    _, (skipped,) = read_products(tmp_path / "p.parquet")

    assert skipped.reason == "cannot be read from here on: Integers with less than 8 bits"


def test_damaged_parquet_row_group_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    titles = [f"Lamp number {number}" for number in range(30)]
    pyarrow.parquet.write_table(
        pyarrow.table({"title": titles}), path, row_group_size=10, compression="gzip"
    )
    start = pyarrow.parquet.read_metadata(path).row_group(1).column(0).dictionary_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 40] = b"\xff" * 40
    documents, (skipped,) = read_table(path, bytes(content))

    assert [document.title for document in documents] == titles[:10] + titles[20:]
    assert (skipped.line, skipped.passing) == (11, False)
    assert skipped.reason.startswith("is damaged, as are the rows up to ")

    _, (skipped,) = read_table(path, bytes(content[:-20]))

    assert skipped.reason.startswith("cannot be read from here on: ")
    assert not skipped.passing


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a.csv", "a.parquet"])
def test_deleted_table_is_a_transient_skip(tmp_path: Path, name: str) -> None:
    (source,) = catalogue.files(write(tmp_path / name, ""))
    assert isinstance(source, SourceFile)
    (tmp_path / name).unlink()
    (skipped,) = source.read()
    assert isinstance(skipped, Skipped)
    assert "cannot be read from here on: [Errno 2] " in skipped.reason
    assert skipped.passing


def test_truncated_gzip_yields_rows_before_the_cut(tmp_path: Path) -> None:
    rows = "".join(
        json.dumps({"title": f"Lamp {number}", "id": f"{number}"}) + "\n" for number in range(5_000)
    )
    path = write(tmp_path / "a.jsonl.gz", gzip.compress(rows.encode())[:-2_000])
    documents, (skipped,) = read_products(path)

    assert 1_000 < len(documents) < 5_000
    assert skipped.line == len(documents) + 1
    assert skipped.reason.startswith("cannot be read from here on: ")

    _, (skipped,) = read_table(path, "no gzip at all")

    assert skipped == Skipped(
        "a.jsonl.gz", "cannot be read from here on: Not a gzipped file (b'no')", 1
    )


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.jsonl", "\n", "holds no rows"),
        ("a.csv", "id,title\n", "holds no rows"),
        ("a.json", "[]", "holds no rows"),
        (
            "a.json",
            '{"count": 2, "name": "Lamp", "variants": [{"name": "Small"}]}',
            "is not an array of records, nor an object with one as its first value or named as "
            '"data" or "products": give the array alone, or name a file with one record per line .jsonl',
        ),
        ("a.json", '{"count": 0, "products": []}', "holds no rows"),
        ("a.json", '{"products": []}', "holds no rows"),
        ("a.csv", "PK\3\4, with the name of a table", WORKBOOK),
        ("a.jsonl", "PK\3\4, with the name of a table", WORKBOOK),
        (
            "a.csv",
            "x,y\n1,2\n",
            "none of its columns is known to hold text; it has x, y; "
            '--column title="COLUMN" assigns the title',
        ),
    ],
)
def test_table_without_products_is_skipped(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    assert read_table(tmp_path / name, text) == ([], [Skipped(name, reason)])


def test_array_in_an_object_is_read(tmp_path: Path) -> None:
    text = '{\n "products": [{"sku": "1", "name": "Lamp"}, {"sku": "2", "name": "Rug"}], "page": 1}'
    documents, skipped = read_table(tmp_path / "a.json", text)

    assert ([document.id for document in documents], skipped) == (["1", "2"], [])


@pytest.mark.parametrize(
    "text",
    [
        '{"exported": "2026-11-29", "count": 1, "filters": {"shop": [{"id": 1}]}, "products": [%s]}',
        '{"errors": [], "total": 1, "Items": [ %s ], "page": 1}',
        '{"data": {"total": 1, "products": [%s]}}',
        '{"data": {"took": {"ms": 1} }, "results": [%s]}',
        '{"anything": [%s]}',
    ],
)
def test_array_behind_other_members_of_an_object_is_read(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "a.json", text % '{"sku": "1", "name": "Lamp"}')
    documents, skipped = read_products(path)

    assert ([document.id for document in documents], skipped) == (["1"], [])


def test_json_array_is_read_up_to_a_broken_record(tmp_path: Path) -> None:
    rows = ", ".join(
        json.dumps({"title": f"Lamp {number}", "text": "x" * 900}) for number in range(200)
    )
    documents, skipped = read_table(
        tmp_path / "a.json", f'[{rows}, {{"title": }}, {{"title": "Lost"}}]'
    )

    assert (len(documents), [row.line for row in skipped]) == (200, [201])
    assert skipped[0].reason.endswith("; the rows after it are left out, too")

    documents, skipped = read_table(tmp_path / "a.json", f"[{rows}")

    assert (len(documents), [row.line for row in skipped]) == (200, [201])

    long = json.dumps({"title": "x" * (2 * tables.MAX_ROW)})
    documents, skipped = read_table(tmp_path / "a.json", f'[{rows}, {long}, {{"title": "Lost"}}]')

    assert (len(documents), skipped[0].reason[:34]) == (200, "is longer than 1,048,576 character")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_csv_delimiters_and_byte_order_marks(tmp_path: Path, delimiter: str, encoding: str) -> None:
    rows = (["id", '"title, or; name"', "Größe"], ["1", '"a,b;c\td|e"', "4"])
    text = "\r\n".join(map(delimiter.join, rows))
    path = write(tmp_path / "a.csv", text.encode(encoding))
    (document,), skipped = read_products(path, columns={"title": "title, or; name"})
    assert (document.title, document.fields, skipped) == ("a,b;c d|e", {"Größe": 4}, [])


@pytest.mark.parametrize("separator", [";", "\t"])
def test_excel_separator_line(tmp_path: Path, separator: str) -> None:
    table = (["id", "title", "stock"], ["1", "Lamp, tall", "2"])
    rows = [f"sep={separator}", *map(separator.join, table), ""]
    (document,), _ = read_table(tmp_path / "a.csv", "\r\n".join(rows))
    assert document.title == "Lamp, tall"


def test_open_quote_loses_only_its_row(tmp_path: Path) -> None:
    rows = [f"{number},Lamp {number}" for number in range(2, 300)]
    rows[50] = '52,"Lamp 52'
    rows[80] = '82,"Lamp" 82'
    documents, skipped = read_table(tmp_path / "a.csv", "id,title\n" + "\n".join(rows))

    assert {str(number) for number in range(2, 300)} - {document.id for document in documents} == {
        "52",
        "82",
    }
    assert [row.line for row in skipped] == [52, 82]


def test_open_quotes_in_a_large_file_lose_only_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_ROW", 5_000)
    rows = [
        f"{number},{'' if number % 50 else chr(34)}Lamp {number},{'x' * 50}"
        for number in range(1, 5_001)
    ]

    documents, skipped = read_table(tmp_path / "a.csv", "id,title,text\n" + "\n".join(rows))

    assert [int(document.id) for document in documents] == [
        number for number in range(1, 5_001) if number % 50
    ]
    assert [row.line for row in skipped] == [number + 1 for number in range(50, 5_001, 50)]


def test_lines_lost_to_open_quotes_are_counted(tmp_path: Path) -> None:
    rows = "id,title\n" + 'x","\n' * 5_000 + "1,Lamp\n"
    documents, skipped = read_table(tmp_path / "a.csv", rows)

    assert len(skipped) > 100
    assert len(documents) <= 1

    swallowed = [re.search(r"; lines left out with it: ([\d,]+)$", row.reason) for row in skipped]
    lost = len(skipped) + sum(int(match[1].replace(",", "")) for match in swallowed if match)

    assert lost + len(documents) == 5_001


# Cells of several lines, with an umlaut at the end.
SHOP = [
    {"id": f"P{n}", "title": f"Lamp {n}", "text": f"Gives light\nof {n} W, also gr\u00fcn"}
    for n in range(40)
]


def _csv_bytes(records: list[dict[str, str]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def _json_lines_bytes(records: list[dict[str, str]]) -> bytes:
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records).encode()


def _xml_bytes(records: list[dict[str, str]]) -> bytes:
    products = (
        f"<product>{''.join(f'<{name}>{text}</{name}>' for name, text in record.items())}</product>"
        for record in records
    )
    return f"<products>{''.join(products)}</products>\n".encode()


SHOP_FILES = {
    "a.csv": _csv_bytes(SHOP),
    "a.jsonl": _json_lines_bytes(SHOP),
    "a.json": json.dumps(SHOP, ensure_ascii=False).encode(),
    "a.xml": _xml_bytes(SHOP),
}


def _is_cut_off(path: Path, content: bytes) -> bool:
    path.write_bytes(content)
    rows = list(tables.read_rows(path, path.name))
    marked = [isinstance(row, Skipped) and row.cut_off for row in rows]
    # Only the last thing that is read can be the end.
    assert not any(marked[:-1])
    return bool(marked[-1:] == [True])


@pytest.mark.parametrize("name", SHOP_FILES)
def test_a_file_that_ends_in_the_middle_of_a_row_is_told(tmp_path: Path, name: str) -> None:
    content = SHOP_FILES[name]
    assert not _is_cut_off(tmp_path / name, content)

    # Any two bytes of a row, and the middle of the file.
    row = len(content) // len(SHOP)
    whole = [
        end for end in range(len(content) - row, len(content) - 2)
        if not _is_cut_off(tmp_path / name, content[:end])
    ]  # fmt: skip

    # CSV may end behind a row, in the middle of its last cell once it has begun without a quote, or
    # behind the first line of a cell. JSON Lines may end behind a row, with or without its line end.
    assert len(whole) <= {"a.csv": 4, "a.jsonl": 2}.get(name, 0), [content[:end] for end in whole]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.xml", "a.parquet", "a.csv.gz"])
def test_an_empty_file_is_cut_off(tmp_path: Path, name: str) -> None:
    assert _is_cut_off(tmp_path / name, b"")


def test_a_parquet_file_without_its_end_is_cut_off(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({"id": ["1", "2"], "title": ["Saw", "Axe"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()

    assert not _is_cut_off(tmp_path / "a.parquet", content)
    assert _is_cut_off(tmp_path / "a.parquet", content[:-9])
    # Something else that is named so.
    assert not _is_cut_off(tmp_path / "a.parquet", b"id,title\n1,Saw\n")


@pytest.mark.parametrize("name", SHOP_FILES)
def test_a_gzip_that_is_cut_off_is_told(tmp_path: Path, name: str) -> None:
    compressed = gzip.compress(SHOP_FILES[name])
    path = tmp_path / f"{name}.gz"

    assert not _is_cut_off(path, compressed)
    for end in (len(compressed) // 2, len(compressed) - 4):
        assert _is_cut_off(path, compressed[:end])


@pytest.mark.parametrize(
    "content",
    [
        "id,title\n1,Lamp\n2,Chair",
        "id,title\n1,Lamp\n2,Chair,blue",
        "id,title\n1,Lamp\n2\n",
        'id,title\n1,Lamp\n2,"24 inch screen\n',
        'id,title\n1,"Lamp\n2,Chair\n3,Table\n',
        'id,title\n1,"Lamp\n2,Chair\n3,Table',
    ],
    ids=["no line end", "a cell too many", "a cell too few", "a quote", "an early quote", "both"],
)
def test_broken_rows_of_a_whole_file_are_no_end(tmp_path: Path, content: str) -> None:
    assert not _is_cut_off(tmp_path / "a.csv", content.encode())


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_invalid_utf8_loses_only_its_row(tmp_path: Path, name: str) -> None:
    rows = {"a.jsonl": ['{"title": "%s"}'] * 3, "a.csv": ["title,id", "%s,1", "%s,2", "%s,3"]}[name]
    content = "\n".join(rows).encode()
    for title in ("Glühbirne".encode("latin-1"), "Türlampe".encode(), b"Kerze"):
        content = content.replace(b"%s", title, 1)

    documents, (skipped,) = read_table(tmp_path / name, content)

    assert [document.title for document in documents] == ["Türlampe", "Kerze"]
    assert skipped.line == rows.index(next(row for row in rows if "%s" in row)) + 1
    assert skipped.reason.endswith("save the file as UTF-8")


@pytest.mark.parametrize(
    ("titles", "encoding"),
    [
        (["Glühbirne", "Lamp", "Tür „groß“ – 5 €"], "cp1252"),
        (["青いノート", "Lamp", "カメラのレンズ"], "cp932"),
        (["Лампа", "Lamp", "青いノート"], "utf-16"),
    ],
)
def test_csv_in_the_encoding_of_a_country_keeps_all_rows(
    tmp_path: Path, titles: list[str], encoding: str
) -> None:
    text = "".join(f"{number};{title}\r\n" for number, title in enumerate(["title", *titles]))
    content = text.encode(encoding)

    for name, saved in {"a.csv": content, "a.csv.gz": gzip.compress(content)}.items():
        documents, skipped = read_table(tmp_path / name, saved)
        assert ([document.title for document in documents], skipped) == (titles, [])


def test_csv_whose_encoding_cannot_be_told_loses_only_its_rows(tmp_path: Path) -> None:
    content = "id;title\n1;مصباح للطاولة\n2;Lamp\n".encode("cp1256")
    (lamp,), (skipped,) = read_table(tmp_path / "a.csv", content)

    assert (lamp.title, skipped.line) == ("Lamp", 2)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.json"])
def test_row_over_the_limit_is_skipped(tmp_path: Path, name: str) -> None:
    titles = ["Lamp", "x" * (tables.MAX_ROW + 1), "Candle"]
    text = {
        "a.jsonl": "\n".join(json.dumps({"title": title}) for title in titles),
        "a.csv": "title\n" + "\n".join(titles),
        "a.json": json.dumps([{"title": title} for title in titles]),
    }[name]

    documents, skipped = read_table(tmp_path / name, text)

    assert [document.title for document in documents] == ["Lamp", "Candle"]
    assert [row.line for row in skipped] == [3 if name == "a.csv" else 2]


def test_column_with_too_long_a_name_loses_its_row(tmp_path: Path) -> None:
    rows = [{"title": "Kettle", "a" * 1_000: 1}, {"title": "Pan", "a" * 1_001: 1}]
    documents, skipped = read_table(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))

    assert [document.title for document in documents] == ["Kettle"]
    reason = "has a column whose name has 1,001 characters; the limit is 1,000"
    assert skipped == [Skipped("a.jsonl", reason, 2)]


@settings(max_examples=60)
@given(
    st.binary(max_size=400),
    st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.tsv", "a.csv.gz", "a.parquet"]),
)
def test_arbitrary_bytes_do_not_raise(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    documents, _ = read_table(tmp_path_factory.mktemp("bytes") / name, content)
    assert all(document.title for document in documents)


cells = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<&|•"),
    min_size=1,
    max_size=20,
)


@settings(max_examples=60)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=5), st.sampled_from(",;\t"))
def test_csv_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], delimiter: str
) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows(
        [("id", "title", "text"), *((number, *row) for number, row in enumerate(rows))]
    )
    documents, skipped = read_table(tmp_path_factory.mktemp("csv") / "a.csv", buffer.getvalue())
    expected = [(" ".join(title.split()), " ".join(text.split())) for title, text in rows]

    assert [(document.title, document.body) for document in documents] == [
        (title or (text if len(text) <= 80 else text[:80]), text)
        for title, text in expected
        if title or text
    ]
    assert len(skipped) == len(rows) - len(documents)
