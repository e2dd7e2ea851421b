"""Compare the training rate of our loop with that of sentence-transformers' trainer.

    python -m benchmarks.training.trainers --pairs code_pairs/python.train.jsonl.gz
        [--steps 6] [--rounds 3] [--batch 64]

Both train the same model on the same first pairs with the contrastive loss over in-batch
negatives, with the same limits of tokens, in bf16 or fp32, whichever is faster on this machine.
They run in turns, and a run is timed from the end of its first step. sentence-transformers keeps
the model's dropout; as training is faster without it, both run with and without. Needs `pip
install datasets`.
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
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.losses import MultipleNegativesRankingLoss
from transformers import TrainerCallback

from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.run import train
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.sentence_models import base_checkpoint
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import load_text_model
from purlin.training.santa.recipe import Stage
from purlin.training.santa.task import SantaTask

QUERY_TOKENS, PASSAGE_TOKENS, TEMPERATURE, RATE = 64, 128, 0.05, 2e-5
Run = Callable[[], float]
"""One training run; returns its pairs per second."""


def purlin_run(
    pairs: list[Pair], batch: int, steps: int, dropout: float, accelerator: Accelerator
) -> Run:
    settings = ModelSettings(
        dropout=dropout, max_query_tokens=QUERY_TOKENS, max_passage_tokens=PASSAGE_TOKENS
    )
    loop = LoopSettings(batch_size=batch, steps=steps, learning_rate=RATE, every=1 << 20)
    stage = Stage(name="speed", temperature=TEMPERATURE, loop=loop)

    def run() -> float:
        with tempfile.TemporaryDirectory() as work:
            directory = Path(work)
            text_model = load_text_model(settings)
            task = SantaTask(text_model, [pairs], stage, accelerator, seed=1, directory=directory)

            step_ends: list[float] = []
            train(
                task,
                loop,
                directory,
                accelerator,
                seed=1,
                recipe={},
                progress=lambda *_: step_ends.append(time.time()),
            )
        # The last step is left out: it writes the checkpoint.
        return batch * (len(step_ends) - 2) / (step_ends[-2] - step_ends[0])

    return run


class StepClock(TrainerCallback):  # type: ignore[misc]
    """Records the time at which each step ends."""

    def __init__(self) -> None:
        self.step_ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.step_ends.append(time.time())


def sentence_transformers_run(
    pairs: list[Pair], batch: int, steps: int, dropout: float, accelerator: Accelerator
) -> Run:
    # Here, so that --help works without the optional package.
    from datasets import Dataset

    dataset = Dataset.from_dict(
        {
            "anchor": [pair.queries[0] for pair in pairs],
            "positive": [pair.passage for pair in pairs],
        }
    )
    dropouts = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}

    def run() -> float:
        sentence_model = SentenceTransformer(
            str(base_checkpoint()), device="cpu", config_kwargs=dict(dropouts)
        )
        sentence_model.max_seq_length = PASSAGE_TOKENS
        loss = MultipleNegativesRankingLoss(sentence_model, scale=1 / TEMPERATURE)
        clock = StepClock()

        with tempfile.TemporaryDirectory() as work:
            arguments = SentenceTransformerTrainingArguments(
                work,
                per_device_train_batch_size=batch,
                max_steps=steps,
                learning_rate=RATE,
                bf16=accelerator.mixed_precision == "bf16",
                use_cpu=True,
                report_to=[],
                disable_tqdm=True,
                save_strategy="no",
                logging_strategy="no",
            )
            trainer = SentenceTransformerTrainer(
                sentence_model, arguments, train_dataset=dataset, loss=loss, callbacks=[clock]
            )
            trainer.train()

        # Leave out the last step, as with our loop.
        return batch * (len(clock.step_ends) - 2) / (clock.step_ends[-2] - clock.step_ends[0])

    return run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    source = PairSource("pairs", options.pairs, limit=options.batch * options.steps * 2)
    pairs = [pair for pair in read_pairs(source) if isinstance(pair, Pair)]
    accelerator = make_accelerator(LoopSettings(), cpu=True, say=print)

    trainers = (("sentence-transformers", sentence_transformers_run), ("Purlin", purlin_run))
    runs = {
        f"{name}, dropout {dropout}": make_run(
            pairs, options.batch, options.steps, dropout, accelerator
        )
        for dropout in (0.1, 0.0)
        for name, make_run in trainers
    }

    # In turns, so that other work on the machine slows all alike.
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            rates[name].append(run())

    print(
        f"batch {options.batch}, {torch.get_num_threads()} threads, "
        f"{options.rounds} rounds of {options.steps} steps"
    )
    print("| trainer | pairs/s, median | least - most | x first |\n|---|---|---|---|")
    first = np.array(next(iter(rates.values())))
    for name, values in rates.items():
        ratio = np.median(np.array(values) / first)
        print(
            f"| {name} | {np.median(values):.1f} | {min(values):.1f} - {max(values):.1f} "
            f"| {ratio:.2f} |"
        )


if __name__ == "__main__":
    main()
