"""What benchmarks that train keep of earlier calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.progress import kept
from tests.support.training_runs import largest_file


def test_a_result_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "cell.json"
    with largest_file(10), pytest.raises(OSError, match="File too large"):
        kept(path, lambda: [0.5] * 1000)
    assert not path.exists()

    assert kept(path, lambda: [0.5]) == [0.5]
    assert kept(path, lambda: pytest.fail("it is measured again")) == [0.5]
