"""SANTA's ablations: the same recipe with parts of it left out, each with several seeds, measured alike.

    python benchmarks/santa.py --data DIR --recipe configs/santa-ablation.toml --out DIR [--seeds 1 2 3] [--cells ...]

The cells change the recipe's first stage, pretraining: `+MEP` and `+SDA` keep one loss, `span mask` and `entity mask`
both, with random spans or entities masked. The last cells go on from `entity mask` through the recipe's further stages.
All cells of the first stage see the same pairs in the same order for as many steps. Encoders are exported and
measured by benchmarks/quality.py; the table has the mean over seeds, their spread, and the paired
difference to the base encoder of the seeds' mean value of each query. Runs that were done before are kept.
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

from index.encoder import RELEASED_ENCODER, Encoder
from training import config, santa

CELLS: dict[str, tuple[dict[str, Any], int]] = {
    "+MEP": ({"sda": 0.0}, 1),
    "+SDA": ({"mep": 0.0}, 1),
    "span mask": ({"mask": "span"}, 1),
    "entity mask": ({}, 1),
    "in-batch": ({}, 2),
    "hard negatives": ({}, 3),
}
"""What a cell changes in the first stage, and how many stages it takes."""

Values = dict[str, Mapping[str, float]]


def variant(recipe: santa.SantaRecipe, cell: str, seed: int) -> santa.SantaRecipe:
    """The recipe of one cell; `Recipe` checks what comes out."""
    changes, stages = CELLS[cell]
    first = replace(recipe.stage[0], **changes)
    return replace(recipe, seed=seed, stage=(first, *recipe.stage[1:stages]))


def trained(recipe: santa.SantaRecipe, out: Path) -> Path:
    def progress(stage: str) -> santa.StepProgress:
        def step(number: int, total: int, values: Mapping[str, float]) -> None:
            if number % 10 == 0 or number == total:
                print(f"  {stage} {number}/{total} {values}", file=sys.stderr, flush=True)

        return step

    return santa.train_santa(
        recipe, out, progress=progress, say=lambda line: print(line, file=sys.stderr)
    )


def measured(encoder: Encoder, given: argparse.Namespace) -> Values:
    """Of each column, the measure of each query."""
    results = quality.measure(encoder, given.data, given.sets)
    return {name: dict(result.values) for name, result in results.items() if result.values}


def run_cell(recipe: santa.SantaRecipe, cell: str, seed: int, given: argparse.Namespace) -> Values:
    """Train and measure, or read what was measured before. Later stages go on in the directory of their first."""
    place = given.out / ("entity mask" if CELLS[cell][1] > 1 else cell) / str(seed)
    kept = given.out / f"{cell}-{seed}.json"
    if not kept.is_file():
        found = measured(Encoder.load(trained(variant(recipe, cell, seed), place)), given)
        kept.write_text(json.dumps(found))
    values: Values = json.loads(kept.read_text())
    return values


def line(name: str, seeds: Sequence[Values], base: Values) -> str:
    cells = []
    for column, of_base in base.items():
        queries = list(of_base)
        found = np.array(
            [[values[column][query] for query in queries] for values in seeds]
        )  # (seeds, queries)
        gained = found.mean(axis=0) - np.array([of_base[query] for query in queries])
        spread = 1.96 * gained.std() / np.sqrt(len(queries))
        seed_means = found.mean(axis=1)
        deviation = seed_means.std(ddof=1) if len(seeds) > 1 else 0.0
        cells.append(
            f"{seed_means.mean():.4f} s {deviation:.4f} ({gained.mean():+.4f} ± {spread:.4f})"
        )
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--recipe", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    options.add_argument("--sets", nargs="+", choices=quality.SETS, default=["cosqa", "code_pairs"])
    options.add_argument(
        "--base", type=Path, default=RELEASED_ENCODER, help="the encoder to compare with"
    )
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    recipe = config.load_recipe(given.recipe, santa.SantaRecipe, data=given.data)
    base = measured(Encoder.load(given.base), given)
    found: dict[str, list[Values]] = {cell: [] for cell in given.cells}
    for seed in given.seeds:
        for cell in given.cells:
            print(f"{cell}, seed {seed}", file=sys.stderr, flush=True)
            found[cell].append(run_cell(recipe, cell, seed, given))
    print(
        f"| cell | {' | '.join(f'{name} ({len(values):,} queries)' for name, values in base.items())} |"
    )
    print("|---" * (len(base) + 1) + "|")
    print(line("base", [base], base))
    for cell, seeds in found.items():
        print(line(cell, seeds, base))


if __name__ == "__main__":
    main()
