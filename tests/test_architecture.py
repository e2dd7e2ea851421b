"""docs/architecture.md names every room of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for package in ("app", "index", "training")
    for path in (ROOT / package).rglob("__init__.py")
)
MODULES = sorted(
    path.stem
    for room in (
        "app/agents app/corpora index/classify index/evaluation index/indexing index/qa index/search "
        "index/search/lexical index/search/ranking index/search/store "
        "index/sources index/sources/code index/sources/products index/sources/references "
        "index/sources/references/html training/loop training/models training/pesco"
    ).split()
    for path in (ROOT / room).glob("*.py")
    if path.stem != "__init__"
)


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_on_the_page(room: str) -> None:
    assert f"`{room}/`" in PAGE


@pytest.mark.parametrize("module", MODULES)
def test_every_module_of_the_small_rooms_is_on_the_page(module: str) -> None:
    assert f"`{module}`" in PAGE
