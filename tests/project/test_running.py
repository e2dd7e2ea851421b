"""docs/running.md lists every setting of the server and every extra of the distribution."""

from __future__ import annotations

import re
import tomllib

from purlin.app.settings import Settings
from tests.support.paths import ROOT

RUNNING = (ROOT / "docs" / "running.md").read_text()
# Extras that only those who develop Purlin install.
NOT_FOR_USERS = {"dev"}


def _section(title: str) -> str:
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## )", RUNNING, re.MULTILINE | re.DOTALL)
    return str(text)


def test_every_setting_is_in_the_table() -> None:
    listed = set(re.findall(r"`PURLIN_(\w+)", _section("Settings")))
    assert {name.upper() for name in Settings.model_fields} <= listed


def test_every_extra_is_in_the_table() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = set(re.findall(r"^\| `(\w+)` \|", _section("Installing"), re.MULTILINE))
    assert set(project["optional-dependencies"]) - NOT_FOR_USERS == listed
