"""Hard negatives of a stage: labelled ones, and passages that the current model ranks high."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from accelerate import Accelerator

from purlin.training import mining
from purlin.training.data.pairs.pair import Pair
from purlin.training.models.text_model import TextModel
from purlin.training.santa.recipe import Stage
from purlin.training.schedule import RowNumbers


class HardNegatives:
    """Draws hard negatives for pairs, and mines them again when a round of batches begins.

    A round has `stage.refresh` epochs. `directory` keeps what was mined, for a run that is resumed.
    """

    def __init__(
        self,
        stage: Stage,
        pairs: Sequence[Pair],
        text_model: TextModel,
        accelerator: Accelerator,
        *,
        batches_per_epoch: int,
        directory: Path,
    ) -> None:
        self.stage = stage
        self.pairs = pairs
        self.text_model = text_model
        self.accelerator = accelerator
        self.batches_per_round = batches_per_epoch * stage.refresh
        self.directory = directory

        # The round whose negatives are drawn: rows (pairs, depth) of `candidates`.
        self.round = -1
        self.mined: RowNumbers = np.empty((0, 0), np.int64)
        self.candidates: Sequence[str] = ()

    def draw(self, row: int, rng: random.Random) -> list[str]:
        """Draw `hard_negatives` passages for a pair: labelled ones first, then mined ones."""
        count, labelled = self.stage.hard_negatives, self.pairs[row].negatives
        labelled_count = count
        if self.stage.labelled_share < 1:
            labelled_count = sum(rng.random() < self.stage.labelled_share for _ in range(count))

        drawn = rng.sample(labelled, min(labelled_count, len(labelled)))
        if missing := count - len(drawn):
            mined = rng.sample(self.mined[row].tolist(), missing)
            drawn += [self.candidates[candidate] for candidate in mined]
        return drawn

    def ready(self, number: int) -> bool:
        """Tell whether the negatives of batch `number` can be drawn without mining again."""
        return not self.stage.hard_negatives or number // self.batches_per_round == self.round

    def prepare(self, number: int) -> None:
        """Mine when a round begins; a run that is resumed within a round reads the round's file."""
        if self.ready(number):
            return

        mining_round, number_in_round = divmod(number, self.batches_per_round)
        path = self.directory / f"mined-{mining_round}.npy"
        if not (number_in_round and path.is_file()):
            mining.mine(
                self.text_model,
                self.pairs,
                path,
                depth=self.stage.depth,
                accelerator=self.accelerator,
            )

        self.candidates = mining.candidate_passages(self.pairs)
        self.mined = np.load(path, mmap_mode="r")
        self.round = mining_round
