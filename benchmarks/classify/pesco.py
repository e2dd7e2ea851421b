"""PESCO's tables: the same recipe with parts of it changed, with several seeds, measured alike.

    python -m benchmarks.classify.pesco --data DIR --out DIR [--sets ag_news ...] [--cells ...]
        [--seeds 1 2 3 4 5] [--recipe F] [--figure FILE.png]

`--data` has for each set a directory with unlabeled.jsonl.gz, dev.jsonl and labels.txt. Prompts are
those of the paper's table 3. A cell is trained, exported and published below `--out`, and then
measured as a server would classify: accuracy on the dev rows, with mean, maximum and minimum over
the seeds. `untrained` is the mean accuracy of what the cell serves without training, `prompts` that
of the prompts after training, both before the export. `score` is the mean score of the label of a
row: what the accuracy would be if scores were calibrated. `refused` counts the runs that the
default limits of the check would not have published.

Results of earlier calls are kept. Seeds draw the texts of each round, their order and the
templates; what does not train does not depend on them and is run once. Cells serve prompts, as in
the paper, unless they say "head". `--figure` draws the accuracy of the prompts over the rounds, as
in the paper's figure of training. If a set has no unlabelled texts, half of its dev rows are used
without their labels, and the other half is measured on; each seed draws other halves.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import command_parser
from benchmarks.progress import kept, log_line, log_progress
from purlin.index.classify.trained import TrainedClassifier
from purlin.training.loop.settings import LoopSettings
from purlin.training.pesco.check import CheckLimits, TrainingCheck
from purlin.training.pesco.figure import draw_accuracy
from purlin.training.pesco.recipe import PescoRecipe, read_recipe
from purlin.training.pesco.self_training import train_pesco
from purlin.training.pesco.texts import (
    Labelled,
    TextPool,
    read_labelled_texts,
    read_labels,
    read_pool,
)

TEMPLATES = {
    "ag_news": ("Category: {label} news.", "{label} news."),
    "dbpedia": ("Category: {label}.", "It is about {label}."),
    "yahoo_answers": ("Category: {label}.", "It is about {label}."),
    "amazon_polarity": ("It is a {label} product.", "In summary, the product is {label}."),
}
PAPERS_SETTINGS = {"calibrate": False, "views": ("prompts",), "confidence": "score"}
BARE = ("{label}",)
SERVE_HEAD = {"serve": "head"}
POOL_FILE = "unlabeled.jsonl.gz"
Changes = Mapping[str, Any]
PESCO_CELLS: dict[str, Changes] = {
    # table 4
    "untrained, no prompts": {
        "teacher": PAPERS_SETTINGS,
        "student": {"rounds": 0},
        "templates": BARE,
    },
    "untrained, prompts": {"teacher": PAPERS_SETTINGS, "student": {"rounds": 0}},
    "PESCO without prompts": {"templates": BARE},
    "PESCO": {},
    # table 5
    "PESCO -R": {"student": {"key": "random"}},
    "LCT": {"student": {"loss": "lct"}},
    "LCT -R": {"student": {"loss": "lct", "key": "random"}},
    "PCL": {"student": {"loss": "pcl"}},
    "LCT+PCL": {"student": {"loss": "lct+pcl"}},
    "PESCO w/o aug": {"student": {"augment": False}},
    # the teacher's parts, without training and with it
    "untrained, calibrated": {"teacher": {"views": ("prompts",)}, "student": {"rounds": 0}},
    "untrained, head": {"student": {"rounds": 0}, "export": SERVE_HEAD},
    "untrained, head without words": {
        "teacher": {"views": ("prompts", "head")},
        "student": {"rounds": 0},
        "export": SERVE_HEAD,
    },
    "the paper's teacher": {"teacher": PAPERS_SETTINGS},
    "calibrated prompts": {"teacher": {"views": ("prompts",)}},
    "prompts, head": {"teacher": {"views": ("prompts", "head")}},
    "without neighbours": {"teacher": {"views": ("prompts", "head", "words")}},
    "without words": {"teacher": {"views": ("prompts", "head", "neighbours")}},
    "prompts, words": {"teacher": {"views": ("prompts", "words")}},
    "prompts do not fade": {"teacher": {"fading": 1.0}},
    "PESCO, head": {"export": SERVE_HEAD},
    # runs that should go wrong, for the check to reject
    "ten times the rate": {
        "student": {"loop": LoopSettings(batch_size=32, learning_rate=2e-4)},
        "export": SERVE_HEAD,
    },
    "a hundred times the rate": {
        "student": {"loop": LoopSettings(batch_size=32, learning_rate=2e-3)},
        "export": SERVE_HEAD,
    },
    "all texts from the start": {
        "teacher": PAPERS_SETTINGS,
        "student": {"first": 1.0, "limit": 1.0},
        "export": SERVE_HEAD,
    },
}
"""What a cell changes in the recipe."""


def recipe_of_cell(recipe: PescoRecipe, cell: str, seed: int) -> PescoRecipe:
    """The recipe of one cell, with a check that rejects nothing: variants are compared."""
    changes = dict(PESCO_CELLS[cell])
    tables: dict[str, Any] = {
        table: replace(getattr(recipe, table), **changes.pop(table, {}))
        for table in ("teacher", "student")
    }
    tables["export"] = replace(recipe.export, **{"serve": "prompts", **changes.pop("export", {})})
    tables["check"] = replace(recipe.check, kept=0.0, halves=2.0, spread=0.0)

    return replace(recipe, seed=seed, **tables, **changes)


def cell_result(name: str, cell: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train and measure, or read the result of an earlier call."""
    path: Path = options.out / f"{name}-{cell.replace('/', '')}-{seed}.json"
    result: dict[str, Any] = kept(path, lambda: train_and_measure(name, cell, seed, options))
    return result


def train_and_measure(
    name: str, cell: str, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    source = options.data / name
    directory = options.out / name / cell.replace("/", "") / str(seed)
    recipe = replace(read_recipe(options.recipe), templates=TEMPLATES[name])
    recipe = recipe_of_cell(recipe, cell, seed)
    labels = read_labels(source / "labels.txt")
    pool, dev = read_data(source, labels, options.limit or recipe.limit, seed)

    started = time.monotonic()
    build = train_pesco(
        recipe,
        pool,
        labels,
        name="cell",
        out=directory / "run",
        home=directory,
        dev=dev,
        progress=log_progress,
        say=log_line,
    )
    seconds = time.monotonic() - started

    classifier = TrainedClassifier.load(build)
    results = classifier.classify(dev.texts)
    correct = [
        result.label == labels[number] for result, number in zip(results, dev.labels, strict=True)
    ]
    score = float(np.mean([result.score for result in results]))

    # A cell's checkpoints take much more room than its result.
    shutil.rmtree(directory)
    return {
        "accuracy": float(np.mean(correct)),
        "score": score,
        "rows": len(results),
        "seconds": seconds,
        **classifier.spec.measures,
    }


def read_data(
    source: Path, labels: Sequence[str], limit: int, seed: int
) -> tuple[TextPool, Labelled]:
    """Texts to learn from and rows to measure on; see above for sets without unlabelled texts."""
    dev = read_labelled_texts(source / "dev.jsonl", labels, print)
    if (source / POOL_FILE).is_file():
        return read_pool(source / POOL_FILE, labels=len(labels), limit=limit, seed=seed), dev

    order = np.random.default_rng(seed).permutation(len(dev.texts)).tolist()
    half = len(order) // 2
    pool = dict.fromkeys(dev.texts[row] for row in order[:half])

    rest = [row for row in order[half:] if dev.texts[row] not in pool]
    texts = tuple(dev.texts[row] for row in rest)
    return TextPool(tuple(pool)), Labelled(texts, tuple(dev.labels[row] for row in rest))


def table_row(name: str, cell: str, results: Sequence[Mapping[str, Any]]) -> str:
    values = [result["accuracy"] for result in results]
    spread = f"{np.mean(values):.4f} | {max(values):.4f} | {min(values):.4f} | {len(values)}"

    untrained = np.mean([result["dev accuracy untrained"] for result in results])
    prompts = np.mean([result["dev accuracy by prompts"][-1] for result in results])
    score = np.mean([result["score"] for result in results])
    comparison = f"{untrained:.4f} | {prompts:.4f} | {score:.4f}"

    checks = [TrainingCheck(**result["check"]) for result in results if result.get("check")]
    refused = sum(bool(check.verdict(CheckLimits())) for check in checks)
    minutes = np.mean([result["seconds"] for result in results]) / 60
    return (
        f"| {name} | {cell} | {spread} | {comparison} | {refused} of {len(checks)} "
        f"| {minutes:.1f} |"
    )


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, help="[default: that of `purlin train pesco`]")
    parser.add_argument("--sets", nargs="+", choices=list(TEMPLATES), default=list(TEMPLATES))
    parser.add_argument("--cells", nargs="+", choices=list(PESCO_CELLS), default=list(PESCO_CELLS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--limit", type=int, help="texts sampled from each set")
    parser.add_argument("--figure", type=Path, help="a PNG of the accuracy over the rounds")
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    print(
        "| set | cell | mean | max | min | runs | untrained | prompts | score | refused | minutes |",
        "|---" * 11 + "|",
        sep="\n",
    )
    curves: dict[str, list[list[float]]] = {}
    for name in options.sets:
        has_pool = (options.data / name / POOL_FILE).is_file()
        for cell in options.cells:
            # Without training and with a fixed pool, every seed gives the same result.
            trains = PESCO_CELLS[cell].get("student", {}).get("rounds") != 0
            seeds = options.seeds if trains or not has_pool else options.seeds[:1]
            results = [cell_result(name, cell, seed, options) for seed in seeds]
            print(table_row(name, cell, results), flush=True)
            curves[f"{name}, {cell}"] = [result["dev accuracy by prompts"] for result in results]

    if options.figure:
        draw_accuracy(curves, options.figure)


if __name__ == "__main__":
    main()
