"""A server of three corpora, and a browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.gate import Judgements
from purlin.index.sources import open_source
from tests.support.browser import CHROMIUM, Tab, browsing
from tests.support.hash_encoder import HashEncoder
from tests.support.pages import CODE, PRODUCTS, served
from tests.support.serving import REFERENCE_PAGE, make


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, pages = tmp_path_factory.mktemp("page"), tmp_path_factory.mktemp("pages")
    (pages / "functions.html").write_text(REFERENCE_PAGE)
    make(home, "code", CODE)
    make(home, "lamps", PRODUCTS, "product")
    sources = open_source("reference", [pages], base_url="https://example.org")
    judged = Judgements({"q": "range step"}, {"q": {"functions.html#range": 1.0}})
    options = Options(origin=(str(pages),), judged=judged)
    build(home, "library", "reference", sources, HashEncoder(), options=options)
    return home


@pytest.fixture(scope="package")
def site(home: Path) -> Iterator[str]:
    if CHROMIUM is None:
        pytest.skip(
            "takes chromium-headless-shell, Chromium or Google Chrome, such as apt-get install chromium"
        )
    with served(home, reader=home / "none") as address:
        yield address


@pytest.fixture(scope="package")
def tab(site: str) -> Iterator[Tab]:
    """A browser for all tests here; nothing that they do may make it complain or ask elsewhere."""
    with browsing() as tab:
        yield tab
        own = ("http://127.0.0.1:", "about:", "data:")
        assert [url for url in tab.requests if not url.startswith(own)] == []


@pytest.fixture(autouse=True)
def quiet(request: pytest.FixtureRequest) -> Iterator[None]:
    """Clear the storage after each browser test, and fail it for console messages."""
    if "tab" not in request.fixturenames:
        yield
        return
    tab = request.getfixturevalue("tab")
    tab.look()
    tab.complaints.clear()
    yield
    tab.run("sessionStorage.clear(), localStorage.clear()")
    assert [text for text in tab.complaints if "Failed to load resource" not in text] == []
