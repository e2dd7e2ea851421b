"""Reading of the texts that are classified, or that a classifier learns from."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purlin.index.classify import texts as reading
from purlin.index.classify.texts import TextRow, read_label_lines, read_texts, whole_text
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import is_text
from purlin.index.sources.tables import MAX_ROW


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts_of(path: Path, **columns: str) -> list[str]:
    return [row.text for row in read_texts(path, path.name, **columns)]


def refusal(path: Path, **columns: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        list(read_texts(path, path.name, **columns))
    return caught.value


# -- formats -------------------------------------------------------------------------------------------------------


def _csv(texts: Sequence[str], delimiter: str = ",") -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerows([("number", "text"), *enumerate(texts)])
    return buffer.getvalue()


def _records(texts: Sequence[str]) -> list[dict[str, object]]:
    return [{"number": number, "text": text} for number, text in enumerate(texts)]


def _parquet(texts: Sequence[str]) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(_records(texts)), buffer)
    return buffer.getvalue()


FORMATS: dict[str, Callable[[Sequence[str]], str | bytes]] = {
    "a.csv": _csv,
    "a.tsv": lambda texts: _csv(texts, "\t"),
    "semicolons.csv": lambda texts: _csv(texts, ";"),
    "a.json": lambda texts: json.dumps(_records(texts), indent=1),
    "a.jsonl": lambda texts: "\n".join(json.dumps(record) for record in _records(texts)),
    "a.ndjson": lambda texts: "\n".join(
        json.dumps(record, ensure_ascii=False) for record in _records(texts)
    ),
    "a.parquet": _parquet,
}
# No byte order marks, and no zero bytes, which some formats refuse.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=30)
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])


@settings(max_examples=200)
@given(
    st.lists(TEXT, min_size=1, max_size=4),
    st.sampled_from(sorted(FORMATS)),
    ENCODINGS,
    st.booleans(),
)
def test_texts_are_the_same_in_every_table(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    name: str,
    encoding: str,
    gzipped: bool,
) -> None:
    content = FORMATS[name](texts)
    if isinstance(content, str):
        content = content.encode(encoding)
        name, content = (name + ".GZ", gzip.compress(content)) if gzipped else (name, content)
    path = written(tmp_path_factory.mktemp("table") / name, content)

    expected = [TextRow(str(number), text.strip()) for number, text in enumerate(texts)]
    assert list(read_texts(path, path.name, id_column="number")) == expected


@settings(max_examples=100)
@given(st.lists(TEXT, min_size=1, max_size=4), ENCODINGS, st.booleans())
def test_lines_are_the_texts_of_any_other_file(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], encoding: str, gzipped: bool
) -> None:
    lines = ["a", *(" ".join(text.split("\n")).replace("\r", " ") for text in texts)]
    content = "\n".join(lines).encode(encoding)
    name, content = ("a.txt.gz", gzip.compress(content)) if gzipped else ("a.txt", content)
    path = written(tmp_path_factory.mktemp("lines") / name, content)

    assert list(read_texts(path, path.name)) == [
        TextRow(str(number), line.strip()) for number, line in enumerate(lines, 1) if line.strip()
    ]


NAMES = ["a.txt", "a.txt.gz", "a.csv", "a.tsv", "a.json", "a.jsonl", "a.jsonl.gz", "a.parquet"]


@settings(max_examples=300)
@given(st.binary(max_size=300) | TEXT.map(str.encode), st.sampled_from(NAMES))
@example(b"\xff\xfea", "a.txt")
@example(b"\xff\xfe\x00\xd8", "a.txt")
@example(b'{"text": "\\ud800"}', "a.jsonl")
@example(b"text\n\xf0\x9f", "a.csv")
def test_any_bytes_are_texts_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = written(tmp_path_factory.mktemp("bytes") / name, content)
    rows = rows_or_error(lambda: list(read_texts(path, name)))
    if isinstance(rows, InvalidInput):
        assert name in rows.message
        assert rows.field in ("texts", "column")
    else:
        assert rows
        assert all(is_text(row.text) and row.text == row.text.strip() for row in rows)


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_any_bytes_are_one_text_or_refused(content: bytes) -> None:
    rows = rows_or_error(lambda: [whole_text(content, "stdin")])
    if isinstance(rows, InvalidInput):
        assert rows.message.startswith("stdin has zero bytes")
    else:
        assert is_text(rows[0].text)


def rows_or_error(read: Callable[[], list[TextRow]]) -> list[TextRow] | InvalidInput:
    try:
        return read()
    except InvalidInput as error:
        return error


def test_a_whole_text_keeps_its_lines() -> None:
    assert whole_text(b"\xef\xbb\xbfa\n\nb\n", "stdin") == TextRow("1", "a\n\nb")
    assert whole_text(b"caf\xe9", "stdin").text == "café"
    with pytest.raises(
        InvalidInput, match=r"stdin has 1,048,577 characters; 1,048,576 are allowed"
    ):
        whole_text(b"a" * (MAX_ROW + 1), "stdin")


# -- encodings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_windows_encoding_is_told_from_damage(tmp_path: Path, name: str) -> None:
    german = "text\nDie Größe passt nicht\nSchöne Grüße"
    path = written(tmp_path / name, german.encode("cp1252"))
    assert texts_of(path)[-2:] == ["Die Größe passt nicht", "Schöne Grüße"]

    damaged = written(tmp_path / f"damaged-{name}", german.encode() + b"\nGr\xf6\xdfe")
    assert texts_of(damaged)[-2:] == ["Schöne Grüße", "Gr\ufffd\ufffde"]


def test_lone_surrogates_and_invalid_bytes_are_replaced(tmp_path: Path) -> None:
    content = b'{"text": "\\ud800 a", "number": "\\udfff"}\n{"text": "b\xff", "number": 2}\n'
    path = written(tmp_path / "a.jsonl", content)
    expected = [TextRow("\ufffd", "\ufffd a"), TextRow("2", "b\ufffd")]
    assert list(read_texts(path, "a.jsonl", id_column="number")) == expected


def test_numbers_are_texts_and_null_is_none(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", '[{"text": 404}, {"text": null}, {"text": 1.5}]')
    expected = [TextRow("1", "404"), TextRow("2", ""), TextRow("3", "1.5")]
    assert list(read_texts(path, "a.json")) == expected


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "field", "message"),
    [
        (
            "a.csv",
            "id,body\n1,My parcel\n",
            "column",
            "Row 2 of a.csv has no column 'text'; its columns are 'id', 'body': name one with --column.",
        ),
        (
            "a.csv",
            "id,text\n1,a\n2,b,c\n",
            "texts",
            "Row 3 of a.csv has 3 cells where the header has 2. Correct it, or leave it out.",
        ),
        (
            "a.csv",
            "Export of today\n\nid,text\n1,a\n",
            "texts",
            "Row 3 of a.csv has 2 cells where the header has 1 ('Export of today': the first line of "
            "a table is its header; delete what stands before it).",
        ),
        (
            "a.csv",
            "Export of today;;\n;user: anna;\nid;text;date\n",
            "column",
            "Row 2 of a.csv has no column 'text'; its columns are 'Export of today', '': name one "
            "with --column. (The first line of CSV and TSV is the header: delete what stands before",
        ),
        ("a.csv", "text\n", "texts", "a.csv holds no rows. Correct the file, or give another."),
        ("a.txt", "\n \n", "texts", "a.txt holds no rows. Correct the file, or give another."),
        ("a.json", '{"text": "a"}\n', "texts", "name a file with one record per line .jsonl. Corr"),
        ("a.json", '[{"text": []}]', "column", "Row 1 of a.json has a list in the column 'text', not"),
        ("a.jsonl", '{"text": "a"}\n[1]\n', "texts", "Row 2 of a.jsonl is not a JSON object as {"),
        ("a.json", '["a", "b"]', "texts", 'Row 1 of a.json is not a JSON object as {"column": "'),
        ("a.jsonl", '{"text": "a"}\n{\n', "texts", "Row 2 of a.jsonl is not valid JSON: "),
        ("a.jsonl", "[" * 100_000, "texts", "Row 1 of a.jsonl is not valid JSON: "),
        ("a.txt", "a\n\0b\0\n", "texts", "Row 2 of a.txt has zero bytes, as UTF-16 and what is no"),
        ("a.txt", "a" * (MAX_ROW + 1), "texts", "Row 1 of a.txt is longer than 1,048,576 characters."),
        ("a.jsonl", "a" * (MAX_ROW + 1), "texts", "Row 1 of a.jsonl is longer than 1,048,576 char"),
        ("a.txt.gz", b"\x1f\x8b\x08", "texts", "a.txt.gz cannot be read from here on: "),
        ("a.parquet", _parquet(["a" * (MAX_ROW + 1)]), "texts", "Row 1 of a.parquet has 1,048,577 ch"),
        ("a.parquet.gz", gzip.compress(_parquet(["a"]), mtime=0), "texts", "a.parquet.gz has zero bytes"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused(
    tmp_path: Path, name: str, content: str | bytes, field: str, message: str
) -> None:
    error = refusal(written(tmp_path / name, content))
    assert message in error.message
    assert error.field == field


def test_a_file_is_needed(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path / "none.txt"):
        with pytest.raises(NotFound, match=f"{path.name} does not exist or is not a file"):
            texts_of(path)
    assert "is a directory: give one file" in refusal(tmp_path).message


def test_labels_are_lines_in_any_encoding_and_no_table(tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16", "cp1252"):
        path = written(
            tmp_path / "labels.txt", "Rückgabe\r\n\r\n D1 = Lieferung \r\n".encode(encoding)
        )
        assert read_label_lines(path) == ["Rückgabe", "D1 = Lieferung"]

    for name, content in (("a.csv", "label,description\na,b\n"), ("a.json", '["a", "b"]')):
        with pytest.raises(InvalidInput, match=f"{name} is a table: labels are lines") as caught:
            read_label_lines(written(tmp_path / name, content))
        assert caught.value.field == "labels"


def test_columns_are_those_of_tables(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "number,body\n1,a\n")
    for option, columns in (("column", {"column": "body"}), ("id", {"id_column": "number"})):
        error = refusal(path, **columns)
        assert f"a.txt has one text a line, and no columns: leave --{option} out" in error.message
        assert error.field == option

    table = written(tmp_path / "a.csv", "number,body\n1,a\n")
    assert texts_of(table, column="body") == ["a"]
    assert "name one with --id" in refusal(table, column="body", id_column="ticket").message


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_rows_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(reading, "MAX_TEXTS", 2)
    assert len(texts_of(written(tmp_path / name, "text\na\n"))) == 2 - name.endswith(".csv")
    assert (
        "more than 2 rows: split the file"
        in refusal(written(tmp_path / name, "text\na\nb\nc\n")).message
    )
