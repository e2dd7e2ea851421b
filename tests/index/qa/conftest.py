"""What the tests of answers share: a packer of whole words, and the tiny reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.qa.reader import Packer, Reader
from tests.support.readers import word_packer


@pytest.fixture(scope="module")
def packer() -> Packer:
    return word_packer()


@pytest.fixture(scope="module")
def reader(reader_directory: Path) -> Reader:
    return Reader.load(reader_directory, threads=2)
