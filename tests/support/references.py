"""Documents and sections of reference pages."""

from __future__ import annotations

from pathlib import Path

from purlin.index.records import Document, Skipped, SourceFile
from purlin.index.sources.references import docstrings, manual
from purlin.index.sources.references.html.reader import read_page
from tests.support.paths import DATA

REFERENCE = DATA / "reference"


def read(root: Path, **options: object) -> tuple[list[Document], list[Skipped]]:
    documents: list[Document] = []
    skipped: list[Skipped] = []
    for file in manual.files(root, **options):  # type: ignore[arg-type]
        for item in [file] if isinstance(file, Skipped) else file.read():
            (skipped if isinstance(item, Skipped) else documents).append(item)  # type: ignore[arg-type]
    return documents, skipped


def by_id(root: Path) -> dict[str, Document]:
    documents, skipped = read(root)
    assert skipped == []
    document_of = {document.id: document for document in documents}
    assert len(document_of) == len(documents)
    return document_of


def page(markup: str) -> list[tuple[str, str]]:
    return [(section.title, section.compose()[0]) for section in read_page(markup).sections]


def only_skipped(root: Path, **options: object) -> str:
    documents, skipped = read(root, **options)
    assert (documents, len(skipped)) == ([], 1)
    return skipped[0].reason


def docstring_documents(module: str) -> dict[str, Document]:
    file = next(file for file in docstrings.files() if file.path == module)
    assert isinstance(file, SourceFile)
    return {item.title: item for item in file.read() if isinstance(item, Document)}
