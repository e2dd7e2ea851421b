from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.records import KINDS, Document, Kind, Location, Skipped, SourceFile
from purlin.index.sources import open_source
from purlin.index.sources.beir import MAX_RECORD_FIELDS, MAX_RECORD_NESTING, files, is_corpus
from purlin.index.sources.tables import MAX_ROW

URL = "https://example.org/repo/blob/main/a.go#L3-L5"


def read(path: Path, kind: Kind = "code") -> list[Document | Skipped]:
    items: list[Document | Skipped] = []
    for file in files(path, kind):
        items += [file] if isinstance(file, Skipped) else file.read()
    return items


def lines(tmp_path: Path, *rows: object, name: str = "corpus.jsonl") -> Path:
    """A file of rows: bytes as they are, anything else as JSON."""
    path = tmp_path / name
    content = b"".join(
        (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows
    )
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def only(tmp_path: Path, record: dict[str, Any], kind: Kind = "code") -> Document:
    (document,) = read(lines(tmp_path, {"_id": "1", "title": "t", "text": "x", **record}), kind)
    assert isinstance(document, Document)
    return document


def test_row_of_code(tmp_path: Path) -> None:
    row = {
        "_id": URL,
        "title": "Open",
        "text": "func Open() {}",
        "docstring": "Open opens.",
        "path": "a.go",
        "start": 3,
        "end": 5,
        "language": "go",
        "depth": 0,
    }

    assert read(lines(tmp_path, row)) == [
        Document(
            id=URL,
            kind="code",
            title="Open",
            body="func Open() {}",
            summary="Open opens.",
            location=Location("a.go", 3, 5, URL),
            fields={
                "docstring": "Open opens.",
                "path": "a.go",
                "start": 3,
                "end": 5,
                "language": "go",
                "depth": 0,
            },
        )
    ]


def test_docstring_within_the_code_is_no_summary(tmp_path: Path) -> None:
    text = 'def f():\n    """Opens\n    a file.\n    """\n'
    assert only(tmp_path, {"text": text, "docstring": "Opens\na file."}).summary == ""
    assert (
        only(tmp_path, {"text": text, "docstring": "Closes a file. "}).summary == "Closes a file."
    )


def test_other_fields_are_flattened(tmp_path: Path) -> None:
    document = only(
        tmp_path,
        {
            "repo": "x/y",
            "attrs": {"a": "b", "n": 23000.0, "size": {"cm": [1, 2.5, None, True]}},
            "ok": False,
            "no": None,
        },
    )

    assert document.fields == {
        "repo": "x/y",
        "attrs.a": "b",
        "attrs.n": 23000.0,
        "attrs.size.cm": ("1", "2.5", "true"),
        "ok": False,
    }


def test_row_of_products_reads_like_a_catalogue(tmp_path: Path) -> None:
    record = {
        "title": "Toner",
        "text": "Six in a box.",
        "brand": "Xerox",
        "attrs": {"attr_t_colour": "Black"},
    }

    document = only(tmp_path, record, "product")

    assert (document.id, document.kind, document.title) == ("1", "product", "Toner")
    assert document.body.startswith("Six in a box.")
    assert document.summary == "Six in a box."
    assert document.fields["brand"] == "Xerox"
    assert "Black" in document.fields.values()


def test_row_of_references(tmp_path: Path) -> None:
    record = {"terms": ["json", "json.dumps", 3], "url": "https://example.org/json.html#dumps"}
    document = only(tmp_path, record, "reference")
    assert document.context == ("json", "json.dumps")
    assert document.location == Location(url="https://example.org/json.html#dumps")


@pytest.mark.parametrize(
    ("record", "location"),
    [
        ({"start_line": 1, "end_line": 2, "start": 8}, Location(None, 1, 2)),
        ({"start": -1, "end": "9", "path": 3}, Location()),
        ({"start": True, "end": 10**12, "url": ["x"]}, Location()),
        ({"_id": "ftp://x"}, Location()),
        ({"_id": URL, "url": "https://other.example"}, Location(url="https://other.example")),
    ],
)
def test_locations_are_read_from_records(
    tmp_path: Path, record: dict[str, Any], location: Location
) -> None:
    assert only(tmp_path, record).location == location


def test_numbers_and_nulls_as_id_title_or_text(tmp_path: Path) -> None:
    items = read(
        lines(
            tmp_path, {"_id": 7, "title": 12, "text": None}, {"_id": "8", "title": "only a title"}
        )
    )

    expected = [("7", "12", ""), ("8", "only a title", "")]
    assert [(d.id, d.title, d.body) for d in items if isinstance(d, Document)] == expected


def test_numbers_beyond_storage_become_text(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        b'{"_id": "1", "text": "x", "big": 92233720368547758080, "inf": 1e999, "nan": NaN, "ok": 1.5}',
    )
    (document,) = read(path)
    assert isinstance(document, Document)
    assert document.fields == {"big": "92233720368547758080", "inf": "inf", "ok": 1.5}


def test_broken_rows_are_reported_by_line(tmp_path: Path) -> None:
    rows: list[tuple[object, str | None]] = [
        ({"_id": "a", "text": "x"}, None),
        (b"{broken", "not valid JSON"),
        (b"[1, 2]", "not a JSON object"),
        ({"text": "x"}, "no _id"),
        ({"_id": True, "text": "x"}, "no _id"),
        ({"_id": "", "text": "x"}, "no _id"),
        ({"_id": "i" * 3000, "text": "x"}, "_id is longer"),
        ({"_id": "a", "text": "again"}, "used before"),
        ({"_id": "b", "title": "", "text": ""}, "neither a title nor a text"),
        ({"_id": "c", "text": ["x"]}, "text is not text"),
        (b'{"_id": "d", "text": "\xff"}', "save the file as UTF-8"),
        (b'{"_id": "e", "text": "\\ud800"}', "holds the escape \\ud800"),
        (b'{"_id": "e", "text": "x", "path": "\xed\xa0\x80"}', "save the file as UTF-8"),
        (b'{"_id": "f", "text": ' + b"[" * 100_000, "not valid JSON"),
        (b'{"_id": "g", "text": "' + b"x" * MAX_ROW + b'"}', "longer than"),
        (b'{"_id": "h", "text": "x", "n": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (
            {"_id": "i", "text": "x", **{f"f{n}": 1 for n in range(MAX_RECORD_FIELDS + 1)}},
            "more than 500 fields",
        ),
        ({"_id": "j", "text": "x", "deep": nested(MAX_RECORD_NESTING)}, "nest deeper"),
        (b"", None),
        ({"_id": "z", "text": "last"}, None),
    ]

    items = read(lines(tmp_path, *(row for row, _ in rows)))

    assert [item.id for item in items if isinstance(item, Document)] == ["a", "z"]

    reasons = {item.line: item.reason for item in items if isinstance(item, Skipped)}
    expected = {number: reason for number, (_, reason) in enumerate(rows, start=1) if reason}

    assert reasons.keys() == expected.keys()

    for number, reason in expected.items():
        assert reason in reasons[number]


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {"end": 1}


def test_endless_line_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b'{"_id": "a", "text": "x"}\n{"_id": "b", "text": "')
        for _ in range(64):
            stream.write(b"x" * 1024 * 1024)
        stream.write(b'"}\n{"_id": "c", "text": "x"}\n')

    tracemalloc.start()
    items = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [getattr(item, "id", getattr(item, "line", None)) for item in items] == ["a", 2, "c"]
    assert peak < 16 * 1024 * 1024


def test_file_that_is_not_gzip_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes(b"plain text")
    (item,) = read(path)
    assert isinstance(item, Skipped)
    assert "cannot be read" in item.reason


def test_missing_file_is_reported(tmp_path: Path) -> None:
    (item,) = read(tmp_path / "corpus.jsonl")
    assert item == Skipped("corpus.jsonl", "cannot be read: No such file or directory")


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (document,) = read(lines(tmp_path, b'\xef\xbb\xbf{"_id": "a", "text": "x"}'))
    assert isinstance(document, Document)


def test_digest_covers_content_and_kind(tmp_path: Path) -> None:
    def digests(path: Path) -> list[str]:
        return [
            file.digest
            for kind in KINDS
            for file in files(path, kind)
            if isinstance(file, SourceFile)
        ]

    first = digests(lines(tmp_path, {"_id": "a", "text": "x"}))

    assert first == digests(tmp_path / "corpus.jsonl")
    assert len(set(first + digests(lines(tmp_path, {"_id": "a", "text": "y"})))) == 6


@pytest.mark.parametrize(
    ("rows", "name", "expected"),
    [
        ([{"_id": "a"}], "corpus.jsonl", True),
        ([{"_id": "a"}], "corpus.jsonl.gz", True),
        ([b"", b"{broken", {"_id": "a"}], "c.jsonl", True),
        ([{"id": "a"}, {"_id": "a"}], "c.jsonl", False),
        ([{"_id": "a"}], "corpus.json", False),
        ([b"x"] * 100, "c.jsonl", False),
        ([], "c.jsonl", False),
    ],
)
def test_a_beir_corpus_is_told_by_its_name_and_first_record(
    tmp_path: Path, rows: list[object], name: str, expected: bool
) -> None:
    assert is_corpus(lines(tmp_path, *rows, name=name)) is expected


def test_is_corpus_rejects_directories_and_broken_gzip(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").mkdir()
    (tmp_path / "x.jsonl.gz").write_bytes(b"plain")
    assert not is_corpus(tmp_path / "d.jsonl")
    assert not is_corpus(tmp_path / "x.jsonl.gz")


@pytest.mark.parametrize("kind", KINDS)
def test_source_of_every_kind(tmp_path: Path, kind: Kind) -> None:
    path = lines(tmp_path, {"_id": "a", "title": "t", "text": "x"}, name="corpus.jsonl.gz")
    (file,) = open_source(kind, [path])
    assert isinstance(file, SourceFile)
    assert [(item.id, item.kind) for item in file.read() if isinstance(item, Document)] == [
        ("a", kind)
    ]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(
    record=st.dictionaries(st.sampled_from(["_id", "title", "text", "a", "url", "start"]), _json),
    kind=st.sampled_from(KINDS),
)
def test_any_json_gives_a_document_or_a_reason(
    tmp_path: Path, record: dict[str, Any], kind: Kind
) -> None:
    (item,) = read(lines(tmp_path, record), kind)
    if isinstance(item, Document):
        assert item.id
        assert item.title or item.body

        for value in item.fields.values():
            assert isinstance(value, str | int | float | bool) or all(
                isinstance(part, str) for part in value
            )

        json.dumps(dict(item.fields), allow_nan=False).encode()
    else:
        assert item.line == 1


@settings(max_examples=150)
@given(content=st.binary(max_size=300), name=st.sampled_from(["c.jsonl", "c.jsonl.gz"]))
def test_arbitrary_bytes_never_raise(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    is_corpus(path)
    for item in read(path):
        assert isinstance(item, Document | Skipped)
