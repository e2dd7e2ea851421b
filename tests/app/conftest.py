"""What all tests of the server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from purlin.app.corpora import freshness


@pytest.fixture(scope="session", autouse=True)
def finished_looks() -> Iterator[None]:
    """Have requests wait until files are looked at: on a busy machine that takes longer than they would."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(freshness, "WAIT_S", 60.0)
        yield
