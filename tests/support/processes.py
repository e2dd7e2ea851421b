"""What the processes that run the tests share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def shared_directory(factory: pytest.TempPathFactory) -> Path:
    """Return the directory for temporary files of all processes."""
    root = factory.getbasetemp()
    return root.parent if "PYTEST_XDIST_WORKER" in os.environ else root


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock; its file is made."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
