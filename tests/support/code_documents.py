"""Documents that the reader of code makes of files."""

from __future__ import annotations

from pathlib import Path

from purlin.index.records import Document, Skipped
from purlin.index.sources.code.repository import files
from tests.support.files import write_file
from tests.support.paths import DATA

CODE_FILES = DATA / "code"


def read(path: Path, **options: object) -> list[Document | Skipped]:
    items: list[Document | Skipped] = []
    for file in files(path, **options):  # type: ignore[arg-type]
        items += [file] if isinstance(file, Skipped) else file.read()
    return items


def documents(path: Path, **options: object) -> list[Document]:
    items = read(path, **options)
    assert not [item for item in items if isinstance(item, Skipped)]
    return [item for item in items if isinstance(item, Document)]


def read_text(
    tmp_path: Path, suffix: str, source: str | bytes, **options: object
) -> list[Document | Skipped]:
    return read(write_file(tmp_path / f"one{suffix}", source), **options)


def documents_of(tmp_path: Path, suffix: str, source: str) -> list[Document]:
    items = read_text(tmp_path, suffix, source)
    return [item for item in items if isinstance(item, Document)]


def is_module(document: Document) -> bool:
    return document.id.partition("~")[0].endswith("::(module)")


def definitions(items: list[Document | Skipped]) -> list[Document]:
    return [item for item in items if isinstance(item, Document) and not is_module(item)]


def named(documents: list[Document], title: str) -> Document:
    return next(document for document in documents if document.title == title)


def lines(document: Document) -> tuple[str, int | None, int | None]:
    """Return the title of a document with its first and its last line."""
    return document.title, document.location.start_line, document.location.end_line


Row = tuple[str, object, int | None, int | None, str]


def row(document: Document) -> Row:
    """Return what the tables of expected definitions say of one."""
    title, first, last = lines(document)
    return title, document.fields["kind"], first, last, document.summary.split("\n")[0]


def expected_rows(folder: str) -> dict[str, list[Row]]:
    """Return the expected rows of each file of a folder of tests/data, from the table beside it."""
    rows_of: dict[str, list[Row]] = {}
    for line in (DATA / f"{folder}.tsv").read_text().splitlines()[1:]:
        file, title, kind, summary, first, last = line.split("\t")
        rows_of.setdefault(file, []).append((title, kind, int(first), int(last), summary))
    return rows_of
