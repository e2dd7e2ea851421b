"""What a build reads of the one before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from purlin.index import builds
from purlin.index.errors import Altered
from purlin.index.indexing.build import build
from purlin.index.indexing.earlier import Earlier
from purlin.index.records import Document
from purlin.index.search import dense
from purlin.index.storage import blocks
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder

DOCUMENTS = [Document(f"d{number}", "code", f"f{number}", f"word{number}") for number in range(40)]


@pytest.mark.parametrize("exact_rows", [10, 1000])
def test_vectors_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact_rows: int
) -> None:
    monkeypatch.setattr(dense, "EXACT_ROWS", exact_rows)
    build(tmp_path, "c", "code", [source("a.py", DOCUMENTS)], HashEncoder())
    stored = np.load(builds.current(tmp_path, "c") / "base" / dense.VECTORS_FILE)
    rows = np.array([3, 39, 0, 3])
    with Earlier.open(tmp_path, "c", "code") as earlier:
        vectors = earlier.vectors(rows)
    assert vectors.dtype == np.float16
    np.testing.assert_array_equal(vectors, stored[rows])


def test_vectors_that_are_cut_meanwhile_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "EXACT_ROWS", 10)
    monkeypatch.setattr(blocks, "MOST_IN_MEMORY", 0)
    build(tmp_path, "c", "code", [source("a.py", DOCUMENTS)], HashEncoder())
    with Earlier.open(tmp_path, "c", "code") as earlier:
        assert len(earlier.vectors(np.arange(40))) == 40
        with (builds.current(tmp_path, "c") / "base" / dense.VECTORS_FILE).open("r+b") as file:
            file.truncate(200)
        with pytest.raises(Altered, match=r"vectors\.npy was cut"):
            earlier.vectors(np.arange(40))
