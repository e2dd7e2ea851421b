"""Fixtures: a directory without any setting up, and a small encoder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.quick import MAIL, PAGE, PRICE
from tests.support.static_files import SELF_CHECK_WORDS, write_static


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shop = tmp_path / "shop"
    (shop / ".git").mkdir(parents=True)
    (shop / "web").mkdir()
    (shop / "mail.py").write_text(MAIL)
    (shop / "web" / "price.py").write_text(PRICE)
    (shop / "sessions.md").write_text(PAGE)
    monkeypatch.setenv("PURLIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(shop)
    return shop


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    words = ["send", "receipt", "reminder", "price", "format", "mail", "session", "kept"]
    return str(write_static(tmp_path / "encoder", words + SELF_CHECK_WORDS))
