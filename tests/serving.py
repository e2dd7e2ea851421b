"""Small corpora and an app that serves them, for the tests of `app`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from index.builds import current
from index.encoder import TextEncoder
from index.indexing.build import build
from index.records import Document, Kind, Location
from tests.conftest import HashEncoder, source

FUNCTIONS = [
    Document(
        id="tools/read.py::Reader.read_csv#2:x y?",
        kind="code",
        title="Reader.read_csv",
        body="def read_csv(path):\n    return list(csv.reader(open(path)))",
        summary="Read rows from a csv file.",
        context=("Reader",),
        location=Location("tools/read.py", 10, 11),
        fields={"language": "python", "lines": 2, "tags": ("io", "table")},
    ),
    Document(
        id="tools/sort.py::sort_numbers",
        kind="code",
        title="sort_numbers",
        body="def sort_numbers(numbers):\n    return sorted(numbers)",
        summary="Sort numbers in ascending order.",
        location=Location("tools/sort.py", 1, 2),
        fields={"language": "python", "lines": 2},
    ),
    Document(
        id="web/fetch.js::fetchPage",
        kind="code",
        title="fetchPage",
        body="function fetchPage(url) { return fetch(url).then(page => page.text()) }",
        summary="Download a page from an url.",
        location=Location("web/fetch.js", 5, 5),
        fields={"language": "javascript", "lines": 1},
    ),
]


def numbered(count: int, word: str = "number") -> list[Document]:
    """Documents that all match `word`."""
    return [
        Document(f"n{n}", "reference", f"{word} {n}", f"The {word} {n} of {count}.")
        for n in range(count)
    ]


def make(
    home: Path, name: str, documents: list[Document], encoder: TextEncoder, kind: Kind = "code"
) -> Path:
    """Build and activate a corpus; returns its build's directory."""
    build(home, name, kind, [source("all", documents)], encoder)
    return current(home, name)


@contextmanager
def serving(
    home: Path, encoder: TextEncoder | None = None, **settings: Any
) -> Iterator[TestClient]:
    """A client of an app that serves `home`."""
    app = create_app(Settings(home=home, **settings), encoder or HashEncoder())
    with TestClient(app) as client:
        yield client


def problem(response: Any, status: int) -> dict[str, Any]:
    """The problem in a response, checked to be one of RFC 9457 and of bounded size."""
    assert response.status_code == status, response.text[:500]
    assert response.headers["content-type"] == "application/problem+json"
    assert len(response.content) < 8_000
    found: dict[str, Any] = json.loads(response.content)
    assert found["status"] == status
    assert found["title"]
    assert found["detail"]
    return found


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fails after 10 s."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
