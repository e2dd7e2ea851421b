"""What a round's teacher decided, on disk."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from purlin.index.classify.scores import ClassScores
from purlin.index.errors import Damaged
from purlin.index.storage import atomic_write
from purlin.training.loop.checkpoints import storing
from purlin.training.pesco.views import Indices

ROUND_STATE = "teacher.npz"

# In a round's state: the accuracy without dev rows, and the key of a text with one sentence.
NOT_MEASURED = -1.0
NO_KEY = -1


@dataclass(frozen=True, slots=True)
class RoundState:
    """What a round's teacher decided, kept on disk.

    `scores` (N, L) of all texts, the `rows` to train on, none in the last round, and the numbers of
    their key sentences. `dev_accuracy` is that of the dev rows with `dev_digest`.
    """

    scores: ClassScores
    rows: Indices
    keys: Indices
    dev_accuracy: float
    dev_digest: str

    @classmethod
    def read(cls, path: Path) -> RoundState:
        """Read what `write` wrote. Raises Damaged."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return cls(
                    arrays["scores"],
                    arrays["rows"],
                    arrays["keys"],
                    float(arrays["dev"]),
                    # The first versions did not write it.
                    str(arrays.get("dev_digest", "")),
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise Damaged(
                f"{path} is damaged: {error}. Remove its directory and those of later rounds."
            ) from error

    def write(self, path: Path) -> None:
        """Write the state atomically."""
        with writing(path) as stream:
            np.savez(
                stream,
                scores=self.scores,
                rows=self.rows,
                keys=self.keys,
                dev=np.array(self.dev_accuracy),
                dev_digest=np.array(self.dev_digest),
            )


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that replaces `path` if the block ends without an error.

    The directory is created. Raises StorageFailed.
    """
    with storing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as stream:
            yield stream
