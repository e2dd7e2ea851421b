from __future__ import annotations

from collections.abc import Iterator

import pytest

from purlin.index.errors import InvalidInput
from purlin.index.records import Document, Skipped, SourceFile
from purlin.index.sources import first_texts
from tests.support.documents import source


def _files() -> list[SourceFile | Skipped]:
    def refused() -> Iterator[Document | Skipped]:
        raise InvalidInput("has no rows", field="path")

    documents = [Document(f"d{number}", "product", f"t{number}", "body") for number in range(5)]
    return [
        Skipped("a", "cannot be read"),
        SourceFile("b", "", refused),
        source("c", [documents[0], Skipped("c", "row 2"), documents[1]]),
        source("d", documents[2:]),
    ]


@pytest.mark.parametrize(("count", "titles"), [(1, "t0"), (3, "t0 t1 t2"), (9, "t0 t1 t2 t3 t4")])
def test_first_documents_are_read_and_every_source_stays(count: int, titles: str) -> None:
    files = _files()
    texts, sources = first_texts(iter(files), count)
    assert texts == [f"{title}\nbody" for title in titles.split()]
    assert list(sources) == files
