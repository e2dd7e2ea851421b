"""Run SANTA's ablations, the rows of the paper's table 3: one recipe with parts left out, by seed.

    python -m benchmarks.training.santa --data DIR --recipe configs/santa-ablation.toml --out DIR
        [--seeds 1 2 3] [--cells ...] [--sets cosqa code_pairs ...]
        [--judged advtest=FILE codesearchnet=DIR esci=DIR]
        [--dpr-base MODEL] [--teacher DIR] [--bm25]

A recipe's first stage is pretraining, after any that train the decoder alone; the others are
fine-tuning. Cells differ in pretraining: `baseline` has none, `+MEP` and `+SDA` keep one of the
losses, `span mask` and `entity mask` keep both and mask random spans or entities. A cell alone is
measured without fine-tuning; `CELL, in-batch` goes on with the recipe's next stage, and `CELL, hard
negatives` with all. Cells see the same pairs in the same order for as many steps. `DPR` is the
baseline with an encoder for queries and another for passages, whose vectors are those of the first
token, compared by dot product. Both start from `--dpr-base`, which has to be BERT-like; without it
there is no such row. With `--teacher`, an encoder's directory, `+SDA +teacher` adds the divergence
from its ranking to alignment, and `teacher` learns from that alone.

Encoders are exported and measured: on development sets by benchmarks/search/quality.py, on the published
test sets of `--judged` as `purlin evaluate santa` does. The table has the mean over seeds, their
standard deviation, and the difference to `--against`: the mean over seeds of each query's measure,
paired by query. `--bm25` adds a row. Results of earlier calls are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import command_parser
from benchmarks.progress import kept, log_line, log_progress
from benchmarks.search import quality
from benchmarks.search.judged_sets import SETS
from purlin.index.encoder import STATIC_ENCODER, TextEncoder, load_encoder
from purlin.index.evaluation.ranking import Run
from purlin.training import config
from purlin.training.data import judged
from purlin.training.data.published import JUDGED_NAMES, JudgedName, read_judged
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.models.settings import BASE
from purlin.training.models.text_model import load_text_model
from purlin.training.santa.recipe import SantaRecipe, Stage, StageTeacher
from purlin.training.santa.run import train_santa

PRETRAINING: dict[str, dict[str, Any] | None] = {
    "baseline": None,
    "+MEP": {"sda": 0.0},
    "+SDA": {"mep": 0.0},
    "span mask": {"mask": "span"},
    "entity mask": {},
    "DPR": None,
    "+SDA +teacher": {"mep": 0.0},
    "teacher": {"sda": 0.0, "mep": 0.0},
}
"""What a cell changes in pretraining; None leaves it out."""

FINE_TUNING = {"": 0, ", in-batch": 1, ", hard negatives": None}
"""The number of stages after pretraining by the end of a cell's name; None is all."""

CELLS = [name + end for name in PRETRAINING for end in FINE_TUNING if (name, end) != ("DPR", "")]
BM25 = "BM25"

ColumnValues = dict[str, Mapping[str, float]]
"""The measure of each query, by column."""


def recipe_of_cell(
    recipe: SantaRecipe,
    cell: str,
    seed: int,
    dpr_base: str = BASE,
    teacher: StageTeacher | None = None,
) -> SantaRecipe | None:
    """The recipe of one cell, which `SantaRecipe` checks; None for the untrained baseline."""
    name, comma, end = cell.partition(",")
    fine_tuning = _fine_tuning(recipe)[: FINE_TUNING[comma + end]]
    stages = [*_pretraining(recipe, name, teacher), *fine_tuning]
    if not stages:
        return None

    settings = recipe.model
    if name == "DPR":
        settings = replace(
            settings,
            base=dpr_base,
            query_base=dpr_base,
            pooling="first",
            similarity="dot",
            scratch=None,
        )
        # Dot products of whole vectors are large already, as in DPR.
        stages = [replace(stage, temperature=1.0) for stage in stages]
    return replace(recipe, seed=seed, model=settings, stage=tuple(stages))


def _pretraining(recipe: SantaRecipe, name: str, teacher: StageTeacher | None) -> list[Stage]:
    changes = PRETRAINING[name]
    if changes is None:
        return []
    if "teacher" in name:
        changes = {**changes, "teacher": teacher}

    decoder, first = _decoder_stages(recipe), recipe.stage[len(_decoder_stages(recipe))]
    stages = [replace(first, **changes)]
    if stages[0].mep:
        # The decoder is trained for the mask that it meets afterwards.
        stages = [*(replace(stage, mask=stages[0].mask) for stage in decoder), *stages]
    return stages


def _decoder_stages(recipe: SantaRecipe) -> list[Stage]:
    return [stage for stage in recipe.stage if stage.trains == "decoder"]


def _fine_tuning(recipe: SantaRecipe) -> list[Stage]:
    return list(recipe.stage[len(_decoder_stages(recipe)) + 1 :])


# ---- measures


def measure_queries(encoder: TextEncoder, options: argparse.Namespace) -> ColumnValues:
    """The measure of each query; means over several columns are left out."""
    results = quality.measure_modes(encoder, options.data, options.sets, ["dense"])["dense"]
    return _columns(results, lambda judged_set: judged.rank(judged_set, encoder), options)


def bm25_values(options: argparse.Namespace) -> ColumnValues:
    """The measure of each query by words alone."""
    # Building a corpus needs an encoder, of which searching by words makes no use.
    encoder = load_encoder(STATIC_ENCODER)
    results = quality.measure_modes(encoder, options.data, options.sets, ["lexical"])["lexical"]
    return _columns(results, judged.rank_by_words, options)


def _columns(
    results: Mapping[str, quality.Result],
    rank: Callable[[judged.JudgedSet], Run],
    options: argparse.Namespace,
) -> ColumnValues:
    columns: ColumnValues = {
        name: dict(result.values) for name, result in results.items() if result.values
    }
    for name, path in options.judged:
        for judged_set in read_judged(name, path):
            columns |= judged.query_values(judged_set, rank(judged_set))
    return columns


def cell_values(
    recipe: SantaRecipe, cell: str, seed: int, options: argparse.Namespace
) -> ColumnValues:
    """Train and measure, or read the result of an earlier call."""
    cell_recipe = recipe_of_cell(recipe, cell, seed, options.dpr_base or BASE, options.teacher)
    # The base model is the same for every seed.
    path: Path = options.out / (f"{cell}-{seed}.json" if cell_recipe else f"{cell}.json")

    def measure() -> ColumnValues:
        # Cells with the same pretraining share a directory, to go on from the same checkpoint.
        directory = options.out / cell.partition(",")[0] / str(seed)
        if cell_recipe is None:
            encoder = export_base(recipe, directory)
        else:
            encoder = train_santa(cell_recipe, directory, progress=log_progress, say=log_line)
        return measure_queries(load_encoder(encoder), options)

    values: ColumnValues = kept(path, measure)
    return values


def export_base(recipe: SantaRecipe, directory: Path) -> Path:
    """Export the base model of a recipe as it is."""
    checkpoint, encoder = directory / "base", directory / recipe.name
    checkpoint.mkdir(parents=True, exist_ok=True)
    load_text_model(recipe.model).save(checkpoint)

    export_encoder(
        checkpoint,
        encoder,
        Card(recipe.name, base_model=recipe.model.base),
        quantization=recipe.export.quantization,
        max_tokens=recipe.export.max_tokens,
        similarity=recipe.model.similarity,
    )

    return encoder


def table_row(name: str, runs: Sequence[ColumnValues], base: Sequence[ColumnValues]) -> str:
    """A Markdown row: for each column the mean, its deviation over seeds, and the difference."""
    cells = []
    for column, first in base[0].items():
        queries = list(first)
        values, base_values = _values(runs, column, queries), _values(base, column, queries)
        seed_means = values.mean(axis=1)
        deviation = seed_means.std(ddof=1) if len(runs) > 1 else 0.0

        gains = values.mean(axis=0) - base_values.mean(axis=0)
        half_width = 1.96 * gains.std() / np.sqrt(len(queries))
        cells.append(
            f"{seed_means.mean():.4f} s {deviation:.4f} ({gains.mean():+.4f} ± {half_width:.4f})"
        )
    return f"| {name} | {' | '.join(cells)} |"


def _values(
    runs: Sequence[ColumnValues], column: str, queries: Sequence[str]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The values (seeds, queries) of a column."""
    return np.array([[run[column][query] for query in queries] for run in runs])


def judged_path(text: str) -> tuple[JudgedName, Path]:
    """Read one of `--judged`, NAME=PATH."""
    name, _, path = text.partition("=")
    for set_name in JUDGED_NAMES:
        if name == set_name and path:
            return set_name, Path(path)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not NAME=PATH with one of {', '.join(JUDGED_NAMES)}"
    )


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--cells", nargs="+", choices=CELLS)
    parser.add_argument(
        "--dpr-base", help="a BERT-like model, such as google-bert/bert-base-uncased"
    )
    parser.add_argument("--teacher", type=Path, metavar="DIR", help="an encoder's directory")
    parser.add_argument("--teacher-temperature", type=float, default=0.05)
    parser.add_argument("--sets", nargs="*", choices=SETS, default=[])
    parser.add_argument("--judged", type=judged_path, nargs="*", default=[], metavar="NAME=PATH")
    parser.add_argument("--against", choices=CELLS, default="baseline")
    parser.add_argument("--bm25", action="store_true")
    options = parser.parse_args()
    if not options.sets and not options.judged:
        parser.error("give --sets or --judged to measure on")
    if not options.teacher and "teacher" in " ".join([*(options.cells or ()), options.against]):
        parser.error("a cell with a teacher needs --teacher")

    available = {"DPR": options.dpr_base, "teacher": options.teacher}
    chosen = options.cells or [
        cell for cell in CELLS if all(value for name, value in available.items() if name in cell)
    ]
    if options.teacher:
        options.teacher = StageTeacher(
            base=options.teacher, temperature=options.teacher_temperature
        )

    options.out.mkdir(parents=True, exist_ok=True)
    recipe = config.load_recipe(options.recipe, SantaRecipe, data=options.data)

    # Seed by seed, so that an interrupted call has run every cell equally often.
    cells = list(dict.fromkeys([options.against, *chosen]))
    runs: dict[str, list[ColumnValues]] = {cell: [] for cell in cells}
    for seed in options.seeds:
        for cell in cells:
            log_line(f"{cell}, seed {seed}")
            runs[cell].append(cell_values(recipe, cell, seed, options))
    if options.bm25:
        runs[BM25] = [bm25_values(options)]

    base = runs[options.against]
    print(
        f"| cell | {' | '.join(f'{name} ({len(of):,} queries)' for name, of in base[0].items())} |"
    )
    print("|---" * (len(base[0]) + 1) + "|")
    for cell, cell_runs in runs.items():
        print(table_row(cell, cell_runs, base))


if __name__ == "__main__":
    main()
