"""Pairs per second of our training loop beside sentence-transformers' own trainer: same model, pairs, batch, precision.

    python benchmarks/trainers.py --pairs code_pairs/python.train.jsonl.gz [--steps 6] [--rounds 3] [--batch 64]

Both take the contrastive loss with in-batch negatives over the same first pairs, texts cut at the same limits, in bf16
or fp32, whichever is faster here. They run in turns, and a turn counts from its second step on. sentence-transformers
keeps the model's dropout; as 0 is faster, each is run with both. Needs `pip install datasets`.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback

from training import export, model
from training.data.pair_formats import read_pairs
from training.data.pairs import Pair, PairSource
from training.loop import LoopSettings, make_accelerator, train
from training.model import ModelSettings
from training.santa import SantaTask, Stage

QUERY_TOKENS, PASSAGE_TOKENS, TEMPERATURE, RATE = 64, 128, 0.05, 2e-5
Turn = Callable[[], float]


def ours(
    pairs: list[Pair], batch: int, steps: int, dropout: float, accelerator: Accelerator
) -> Turn:
    settings = ModelSettings(
        dropout=dropout, max_query_tokens=QUERY_TOKENS, max_passage_tokens=PASSAGE_TOKENS
    )
    loop = LoopSettings(batch_size=batch, steps=steps, learning_rate=RATE, every=1 << 20)
    stage = Stage(name="speed", temperature=TEMPERATURE, loop=loop)

    def turn() -> float:
        with tempfile.TemporaryDirectory() as work:
            task = SantaTask(
                model.load_text_model(settings),
                [pairs],
                stage,
                accelerator,
                seed=1,
                directory=Path(work),
            )
            ends: list[float] = []
            train(
                task,
                loop,
                Path(work),
                accelerator,
                seed=1,
                recipe={},
                progress=lambda *_: ends.append(time.time()),
            )
            return (
                batch * (len(ends) - 2) / (ends[-2] - ends[0])
            )  # the last step writes the checkpoint

    return turn


class Clock(TrainerCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.time())


def theirs(
    pairs: list[Pair], batch: int, steps: int, dropout: float, accelerator: Accelerator
) -> Turn:
    rows = Dataset.from_dict(
        {
            "anchor": [pair.queries[0] for pair in pairs],
            "positive": [pair.passage for pair in pairs],
        }
    )
    bf16 = accelerator.mixed_precision == "bf16"

    def turn() -> float:
        changes = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        trained = SentenceTransformer(
            str(export.base_checkpoint()), device="cpu", config_kwargs=changes
        )
        trained.max_seq_length = PASSAGE_TOKENS
        clock = Clock()
        with tempfile.TemporaryDirectory() as work:
            arguments = SentenceTransformerTrainingArguments(
                work,
                per_device_train_batch_size=batch,
                max_steps=steps,
                learning_rate=RATE,
                bf16=bf16,
                use_cpu=True,
                report_to=[],
                disable_tqdm=True,
                save_strategy="no",
                logging_strategy="no",
            )
            loss = MultipleNegativesRankingLoss(trained, scale=1 / TEMPERATURE)
            SentenceTransformerTrainer(
                trained, arguments, train_dataset=rows, loss=loss, callbacks=[clock]
            ).train()
        return batch * (len(clock.ends) - 2) / (clock.ends[-2] - clock.ends[0])

    return turn


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--pairs", type=Path, required=True)
    options.add_argument("--steps", type=int, default=6)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--batch", type=int, default=64)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    source = PairSource("pairs", given.pairs, limit=given.batch * given.steps * 2)
    pairs = [pair for pair in read_pairs(source) if isinstance(pair, Pair)]
    accelerator = make_accelerator(LoopSettings(), cpu=True, say=print)
    turns = {
        f"{name}, dropout {dropout}": make(pairs, given.batch, given.steps, dropout, accelerator)
        for dropout in (0.1, 0.0)
        for name, make in (("sentence-transformers", theirs), ("Purlin", ours))
    }
    rates: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(given.rounds):
        for name, turn in turns.items():
            rates[name].append(turn())
    first = np.array(next(iter(rates.values())))
    print(
        f"batch {given.batch}, {torch.get_num_threads()} threads, {given.rounds} rounds of {given.steps} steps"
    )
    print("| trainer | pairs/s, median | least - most | x first |\n|---|---|---|---|")
    for name, found in rates.items():
        ratio = np.median(np.array(found) / first)
        print(
            f"| {name} | {np.median(found):.1f} | {min(found):.1f} - {max(found):.1f} | {ratio:.2f} |"
        )


if __name__ == "__main__":
    main()
