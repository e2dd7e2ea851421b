"""Fixtures: a server with code and a reference, for the tools of agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from purlin.index.indexing.build import build
from purlin.index.sources import open_source
from tests.support.agents import FILES
from tests.support.files import write_tree
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import REFERENCE_PAGE, ready


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, sources, pages = (tmp_path_factory.mktemp(name) for name in ("home", "sources", "pages"))
    write_tree(sources, FILES)
    (sources / "web" / "data.py").write_bytes(b"\0")

    build(home, "project", "code", open_source("code", [sources]), HashEncoder())
    (pages / "functions.html").write_text(REFERENCE_PAGE)
    library = open_source("reference", [pages], base_url="https://example.org")
    build(home, "library", "reference", library, HashEncoder())
    return home


@pytest.fixture(scope="package")
def client(home: Path, reader_directory: Path) -> Iterator[TestClient]:
    with ready(home, reader=reader_directory) as client:
        yield client
