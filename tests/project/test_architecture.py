"""docs/architecture.md names every room of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for package in ("app", "index", "training")
    for path in (ROOT / package).rglob("__init__.py")
)
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in ("app", "index", "training")
    for path in (ROOT / package).rglob("*.py")
    if path.stem != "__init__" and path.parent.name != package
)


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_on_the_page(room: str) -> None:
    assert f"`{room}/`" in PAGE


@pytest.mark.parametrize("module", MODULES)
def test_every_module_of_a_room_is_on_the_page(module: str) -> None:
    assert f"`{Path(module).stem}`" in PAGE
