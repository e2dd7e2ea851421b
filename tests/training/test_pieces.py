"""Pieces that are computed once: what is missing, by which process, and what damage says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from purlin.index.errors import Damaged
from purlin.training.pieces import Arrays, Pieces


def squares(rows: slice) -> Arrays:
    return {"squares": np.arange(rows.start, rows.stop) ** 2}


def test_what_is_missing_is_computed(tmp_path: Path) -> None:
    finished: list[tuple[int, int]] = []
    pieces = Pieces(tmp_path / "out", {"of": "squares"}, 5, 2)
    assert not pieces.belongs()
    pieces.compute(squares, progress=lambda count, total: finished.append((count, total)))
    assert finished == [(2, 5), (4, 5), (5, 5)]

    (tmp_path / "out/piece-000001.npz").unlink()
    again = Pieces(tmp_path / "out", {"of": "squares"}, 5, 2)
    assert (again.belongs(), again.missing()) == (True, [1])
    again.compute(squares, progress=lambda count, total: finished.append((count, total)))
    assert finished[3:] == [(4, 5)]
    joined = np.concatenate([again.read(number)["squares"] for number in range(3)])
    assert joined.tolist() == [0, 1, 4, 9, 16]

    assert not Pieces(tmp_path / "out", {"of": "cubes"}, 5, 2).belongs()


def test_processes_share_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process finds the first one's pieces, and computes its own."""
    monkeypatch.setattr("purlin.training.pieces.time.sleep", lambda _: pytest.fail("waits"))
    pieces = Pieces(tmp_path, {}, 3, 1)
    with pytest.raises(pytest.fail.Exception):
        pieces.compute(squares, process=0, processes=2)

    assert pieces.missing() == [1]
    pieces.compute(squares, process=1, processes=2)
    assert pieces.missing() == []


def test_a_damaged_piece_is_named(tmp_path: Path) -> None:
    pieces = Pieces(tmp_path, {}, 2, 1)
    pieces.compute(squares)
    for torn in (b"PK torn", b""):
        (tmp_path / "piece-000001.npz").write_bytes(torn)
        with pytest.raises(Damaged, match=r"piece-000001\.npz is damaged.*Remove it"):
            pieces.read(1)
