"""The models that stages start from, and one process to train them in."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelerate import Accelerator

from purlin.training.loop.devices import make_accelerator
from tests.support.santa import LOOP, save_bases


@pytest.fixture(autouse=True)
def accelerator(one_process: None) -> Accelerator:
    return make_accelerator(LOOP, cpu=True)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_bases(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def bert(bases: dict[str, Path]) -> Path:
    return bases["bert"]
