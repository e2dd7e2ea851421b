from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from purlin.index.classify import labelled
from purlin.index.classify.labelled import LabelledRow, check_truth, read_labelled
from purlin.index.errors import InvalidInput, NotFound, PurlinError
from tests.support.files import write_file

ROWS = [LabelledRow("1", "sports news", ("sports",)), LabelledRow("2", "nothing", ())]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows"])
def test_json_lines_are_read(tmp_path: Path, name: str) -> None:
    content = b'{"text": " sports news", "label": "sports", "id": 7}\n{"text": "nothing", "label": null}\n'
    assert list(read_labelled(write_file(tmp_path / name, content))) == ROWS


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", b"label,text\nsports,sports news\n,nothing\n"),
        ("rows.csv", "label;text\r\nsports;sports news\r\n;nothing\r\n".encode("utf-16")),
        ("rows.tsv.gz", b"text\tlabel\nsports news\tsports\nnothing\t\n"),
    ],
)
def test_rows_of_spreadsheets_are_read(tmp_path: Path, name: str, content: bytes) -> None:
    rows = list(read_labelled(write_file(tmp_path / name, content)))
    assert [(row.text, row.labels) for row in rows] == [(row.text, row.labels) for row in ROWS]
    assert [row.id for row in rows] == ["2", "3"]


def test_columns_are_named(tmp_path: Path) -> None:
    path = write_file(tmp_path / "rows.json", b'[{"body": "a", "stars": 5}]')
    assert list(read_labelled(path, column="body", label_column="stars")) == [
        LabelledRow("1", "a", ("5",))
    ]
    with pytest.raises(InvalidInput, match=r"no column 'text'.* --column"):
        list(read_labelled(path))
    with pytest.raises(InvalidInput, match=r"no column 'label'.* --label-column"):
        list(read_labelled(path, column="body"))


def test_a_row_may_have_several_labels(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": ["x", "y|z", "x", None, 5]}, {"text": "b", "label": []}]
    path = write_file(
        tmp_path / "rows.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    )
    assert [row.labels for row in read_labelled(path, several=True)] == [("x", "y|z", "5"), ()]
    with pytest.raises(InvalidInput, match="list of labels: --multi"):
        list(read_labelled(path))

    table = write_file(tmp_path / "rows.csv", b"text,label\na,x | y z|\nb,\n")
    assert [row.labels for row in read_labelled(table, several=True)] == [("x", "y z"), ()]
    assert [row.labels for row in read_labelled(table)] == [("x | y z|",), ()]

    many = "|".join(map(str, range(1001)))
    crowded = write_file(tmp_path / "rows.csv", f"text,label\na,{many}\n".encode())
    with pytest.raises(InvalidInput, match="1,001 labels"):
        list(read_labelled(crowded, several=True))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no rows"),
        (b'{"text": "a", "label": "b"}\n{"text": "a"}\n', "Row 2 of .* has no column 'label'"),
        (b"[]\n", "Row 1"),
        (b'{"text": {}, "label": "b"}\n', "Row 1 .* has a dict"),
        (b'{"text": "a", "label": {"b": 1}}\n', "Row 1 .* has a dict"),
        (b"[" * 100_000, "Row 1"),
        (b'{"text": "' + b"a" * 2**20 + b'", "label": "b"}\n', "Row 1 .* longer than 1,048,576"),
    ],
)
def test_row_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        list(read_labelled(write_file(tmp_path / "rows.jsonl", content)))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        list(read_labelled(tmp_path / "none.jsonl"))
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"{}" * 1000)[:-12])
    with pytest.raises(PurlinError):
        list(read_labelled(tmp_path / "cut.jsonl.gz"))


def test_rows_with_unknown_labels_are_refused() -> None:
    rows = [
        LabelledRow("1", "", ("a",)),
        LabelledRow("2", "", ("c", "a")),
        LabelledRow("3", "", ("c",)),
    ]
    check_truth(rows, ["a", "c"])
    with pytest.raises(InvalidInput, match=r"1 labels of the rows .* 'c'\. Correct .* null\.$"):
        check_truth(rows, ["a", "b"])
    with pytest.raises(InvalidInput, match=r"'a\|b'.* --multi reads several between \|"):
        check_truth([LabelledRow("1", "", ("a|b",))], ["a", "b"])


def test_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled, "MAX_LABELLED_ROWS", 2)
    path = write_file(tmp_path / "rows.csv", b"text,label\na,x\nb,x\nc,x\n")
    with pytest.raises(InvalidInput, match="more than 2 rows: split the file"):
        list(read_labelled(path))
