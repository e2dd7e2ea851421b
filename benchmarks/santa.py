"""Run SANTA's ablations: one recipe with parts left out, each with several seeds.

    python benchmarks/santa.py --data DIR --recipe configs/santa-ablation.toml --out DIR
                               [--seeds 1 2 3] [--cells ...]

Cells change the recipe's first stage, pretraining. `+MEP` and `+SDA` keep one loss; `span mask` and
`entity mask` keep both and mask random spans or entities. The last two cells continue `entity
mask` through the recipe's further stages. Cells of the first stage see the same pairs in the same
order for as many steps.

Encoders are exported and measured by benchmarks/quality.py. The table has the mean over seeds,
their standard deviation, and the difference to the base encoder: the mean over seeds of each
query's measure, paired by query. Results of earlier calls are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import quality

from purlin.index.encoder import RELEASED_ENCODER, TextEncoder, load_encoder
from purlin.training import config, santa

SANTA_CELLS: dict[str, tuple[dict[str, Any], int]] = {
    "+MEP": ({"sda": 0.0}, 1),
    "+SDA": ({"mep": 0.0}, 1),
    "span mask": ({"mask": "span"}, 1),
    "entity mask": ({}, 1),
    "in-batch": ({}, 2),
    "hard negatives": ({}, 3),
}
"""What a cell changes in the first stage, and the number of stages it runs."""

ColumnValues = dict[str, Mapping[str, float]]
"""The measure of each query, by column."""


def recipe_of_cell(recipe: santa.SantaRecipe, cell: str, seed: int) -> santa.SantaRecipe:
    """The recipe of one cell; `SantaRecipe` checks the result."""
    changes, stages = SANTA_CELLS[cell]
    first = replace(recipe.stage[0], **changes)
    return replace(recipe, seed=seed, stage=(first, *recipe.stage[1:stages]))


def log_progress(stage: str) -> santa.StepProgress:
    def step(number: int, total: int, values: Mapping[str, float]) -> None:
        if number % 10 == 0 or number == total:
            log_line(f"  {stage} {number}/{total} {values}")

    return step


def log_line(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def measure_queries(encoder: TextEncoder, options: argparse.Namespace) -> ColumnValues:
    """The measure of each query; means over several columns are left out."""
    results = quality.measure_dense(encoder, options.data, options.sets)
    return {name: dict(result.values) for name, result in results.items() if result.values}


def cell_values(
    recipe: santa.SantaRecipe, cell: str, seed: int, options: argparse.Namespace
) -> ColumnValues:
    """Train and measure, or read the result of an earlier call."""
    path: Path = options.out / f"{cell}-{seed}.json"
    if not path.is_file():
        # Cells of several stages share a directory, to continue from the same first stage.
        first_stage = "entity mask" if SANTA_CELLS[cell][1] > 1 else cell
        encoder = santa.train_santa(
            recipe_of_cell(recipe, cell, seed),
            options.out / first_stage / str(seed),
            progress=log_progress,
            say=log_line,
        )
        path.write_text(json.dumps(measure_queries(load_encoder(encoder), options)))

    values: ColumnValues = json.loads(path.read_text())
    return values


def table_row(name: str, runs: Sequence[ColumnValues], base: ColumnValues) -> str:
    """A Markdown row: for each column the mean, its deviation over seeds, and the difference."""
    cells = []
    for column, base_values in base.items():
        queries = list(base_values)
        # Of shape (seeds, queries).
        values = np.array([[run[column][query] for query in queries] for run in runs])
        seed_means = values.mean(axis=1)
        deviation = seed_means.std(ddof=1) if len(runs) > 1 else 0.0

        gains = values.mean(axis=0) - np.array([base_values[query] for query in queries])
        half_width = 1.96 * gains.std() / np.sqrt(len(queries))
        cells.append(
            f"{seed_means.mean():.4f} s {deviation:.4f} ({gains.mean():+.4f} ± {half_width:.4f})"
        )
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--cells", nargs="+", choices=list(SANTA_CELLS), default=list(SANTA_CELLS))
    parser.add_argument("--sets", nargs="+", choices=quality.SETS, default=["cosqa", "code_pairs"])
    parser.add_argument(
        "--base", type=Path, default=RELEASED_ENCODER, help="the encoder to compare with"
    )
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    recipe = config.load_recipe(options.recipe, santa.SantaRecipe, data=options.data)
    base = measure_queries(load_encoder(options.base), options)

    # Seed by seed, so that an interrupted call has run every cell equally often.
    runs: dict[str, list[ColumnValues]] = {cell: [] for cell in options.cells}
    for seed in options.seeds:
        for cell in options.cells:
            log_line(f"{cell}, seed {seed}")
            runs[cell].append(cell_values(recipe, cell, seed, options))

    columns = [f"{name} ({len(values):,} queries)" for name, values in base.items()]
    print(f"| cell | {' | '.join(columns)} |")
    print("|---" * (len(base) + 1) + "|")
    print(table_row("base", [base], base))
    for cell, cell_runs in runs.items():
        print(table_row(cell, cell_runs, base))


if __name__ == "__main__":
    main()
