"""Documents that the reader of code makes of files."""

from __future__ import annotations

from pathlib import Path

from purlin.index.records import Document, Skipped
from purlin.index.sources.code.repository import files
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
    path = tmp_path / f"one{suffix}"
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    return read(path, **options)


def documents_of(tmp_path: Path, suffix: str, source: str) -> list[Document]:
    items = read_text(tmp_path, suffix, source)
    return [item for item in items if isinstance(item, Document)]


def is_module(document: Document) -> bool:
    return document.id.partition("~")[0].endswith("::(module)")


def definitions(items: list[Document | Skipped]) -> list[Document]:
    return [item for item in items if isinstance(item, Document) and not is_module(item)]
