"""What is computed once for many items, in a directory: a file of arrays for so many items each.

What a larger model says of texts is the expensive part of learning from it: a run that was killed
goes on after the last complete piece.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.errors import Damaged
from purlin.index.pace import StageProgress
from purlin.index.storage import atomic_write
from purlin.training.loop.checkpoints import storing

ABOUT = "about.json"
POLL_SECONDS = 1.0
Arrays = Mapping[str, NDArray[Any]]
"""The arrays of a piece, by name."""


class Pieces:
    """Arrays about `total` items in `directory`, `size` items a piece; `about` says of what."""

    def __init__(self, directory: Path, about: Mapping[str, Any], total: int, size: int) -> None:
        self.directory = directory
        self.about = {**about, "size": size}
        self.total = total
        self.size = size

        starts = range(0, total, size)
        self.paths = [directory / f"piece-{number:06d}.npz" for number in range(len(starts))]
        self.items = [slice(start, min(start + size, total)) for start in starts]

    def belongs(self) -> bool:
        """Tell whether the directory has pieces of what `about` says."""
        try:
            return bool(json.loads((self.directory / ABOUT).read_bytes()) == self.about)
        except (OSError, ValueError):
            return False

    def missing(self) -> list[int]:
        """Return the numbers of the pieces that are still to be computed."""
        return [number for number, path in enumerate(self.paths) if not path.is_file()]

    def compute(
        self,
        compute: Callable[[slice], Arrays],
        *,
        process: int = 0,
        processes: int = 1,
        progress: StageProgress = lambda finished, total: None,
    ) -> None:
        """Write the missing pieces, or the share of process number `process` of `processes`.

        Returns once all of them exist. Processes wait for each other's files instead of at a
        barrier, which could time out. `progress` gets the items of the pieces so far, and all.
        Raises StorageFailed.
        """
        with storing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            with atomic_write(self.directory / ABOUT) as stream:
                stream.write(json.dumps(self.about).encode())

        for number in self.missing():
            if number % processes == process:
                arrays = compute(self.items[number])
                with storing(self.directory), atomic_write(self.paths[number]) as stream:
                    np.savez(stream, **arrays)  # type: ignore[arg-type]
                progress(self.items[number].stop, self.total)

        while self.missing():
            time.sleep(POLL_SECONDS)

    def read(self, number: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of a piece. Raises Damaged if it cannot be read."""
        path = self.paths[number]
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise Damaged(
                f"{path} is damaged: {error}. Remove it: the same command computes it again."
            ) from error
