"""Processes of their own, in which tests train."""

from __future__ import annotations

import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from tests.support import training_runs


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_runs, "APART_S", 1)
    with pytest.raises(BrokenProcessPool):
        training_runs.run_apart(time.sleep, 60)
