"""Documents and sections of reference pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
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


def tokens_in_any_order(tokens: Sequence[str]) -> st.SearchStrategy[str]:
    """Return texts of a language's tokens, with anything between them."""
    return st.lists(st.sampled_from(tokens) | st.text(max_size=3), max_size=40).map("".join)


def read_in_linear_time(html: Callable[[str], str], text: str) -> None:
    """Read a long text, which may have too many entries; fails if that takes more than seconds."""
    started = time.process_time()
    try:
        html(text)
    except InvalidInput as error:
        assert "20,000 entries" in error.message  # noqa: PT017
    assert time.process_time() - started < 10
