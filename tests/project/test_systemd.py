"""The unit in docs/running.md, checked by systemd itself; skipped without it."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from purlin.app.settings import Settings
from purlin.app.workers import EXIT_S
from tests.support.paths import ROOT
from tests.support.traffic import run

RUNNING = (ROOT / "docs" / "running.md").read_text()


@pytest.fixture
def unit() -> str:
    (text,) = re.findall(r"```ini\n(.*?)```", RUNNING, re.DOTALL)
    return str(text)


def test_running_requests_finish_before_systemd_kills(unit: str) -> None:
    (seconds,) = re.findall(r"TimeoutStopSec=(\d+)", unit)
    assert int(seconds) > Settings().shutdown_timeout_s + EXIT_S


def test_the_unit_sets_what_the_server_has(unit: str) -> None:
    names = set(re.findall(r"\bPURLIN_(\w+)=", unit)) - {"CACHE"}
    assert {name.lower() for name in names} <= Settings.model_fields.keys()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="takes systemd-analyze")
def test_systemd_accepts_the_unit(unit: str, tmp_path: Path) -> None:
    file = tmp_path / "purlin.service"
    file.write_text(re.sub(r"(?<=ExecStart=)\S+", sys.executable, unit))
    command = ["systemd-analyze", "verify", "--man=no", str(file)]
    checked = run(command)
    # It also tells of other units of this machine.
    complaints = [line for line in checked.stderr.splitlines() if file.name in line]
    assert (checked.returncode, complaints) == (0, [])
