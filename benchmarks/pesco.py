"""PESCO's tables: the same recipe with parts of it changed, each with several seeds, measured alike.

    python benchmarks/pesco.py --data DIR --out DIR [--sets ag_news ...] [--cells ...] [--seeds 1 2 3 4 5] [--recipe F]

`--data` has for each set a directory with unlabeled.jsonl.gz, dev.jsonl and labels.txt. Prompts are those of the
paper's table 3. A cell is trained, exported and published below `--out`, and then measured as a server would classify:
accuracy on the dev rows, mean, greatest and least over the seeds. Beside it is the mean accuracy of what the cell
serves without training, and of the prompts after it, both before the export. `score` is the mean score of the label
that a row gets: what the accuracy would be, were the scores right. `refused` counts the runs that the default limits of
the check would not have published. Runs that were done before are kept. Seeds draw the texts of each round, their order
and the templates; what does not train does not depend on them and is run once. Prompts are what cells serve, as in the
paper, unless they say "head". Where a set has no unlabelled texts, those of half of its dev rows are, without their
labels, and the other half is measured on; each seed draws another half.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from index.classify.trained import TrainedClassifier
from training.loop import LoopSettings, StepProgress
from training.pesco import self_training
from training.pesco.teacher import Check, Limits
from training.pesco.texts import Labelled, Pool, read_labelled, read_labels, read_pool

TEMPLATES = {
    "ag_news": ("Category: {label} news.", "{label} news."),
    "dbpedia": ("Category: {label}.", "It is about {label}."),
    "yahoo_answers": ("Category: {label}.", "It is about {label}."),
    "amazon_polarity": ("It is a {label} product.", "In summary, the product is {label}."),
}
PAPER = {"calibrate": False, "views": ("prompts",), "confidence": "score"}
BARE = ("{label}",)
HEAD = {"serve": "head"}
POOL = "unlabeled.jsonl.gz"
Changes = Mapping[str, Any]
CELLS: dict[str, Changes] = {
    # table 4
    "untrained, no prompts": {"teacher": PAPER, "student": {"rounds": 0}, "templates": BARE},
    "untrained, prompts": {"teacher": PAPER, "student": {"rounds": 0}},
    "PESCO without prompts": {"templates": BARE},
    "PESCO": {},
    # table 5
    "PESCO -R": {"student": {"key": "random"}},
    "LCT": {"student": {"loss": "lct"}},
    "LCT -R": {"student": {"loss": "lct", "key": "random"}},
    "PCL": {"student": {"loss": "pcl"}},
    "LCT+PCL": {"student": {"loss": "lct+pcl"}},
    "PESCO w/o aug": {"student": {"augment": False}},
    # what the teacher gains by, without training and with it
    "untrained, calibrated": {"teacher": {"views": ("prompts",)}, "student": {"rounds": 0}},
    "untrained, aligned": {
        "teacher": {"views": ("prompts",), "align": True},
        "student": {"rounds": 0},
    },
    "untrained, head": {"student": {"rounds": 0}, "export": HEAD},
    "untrained, head without words": {
        "teacher": {"views": ("prompts", "head")},
        "student": {"rounds": 0},
        "export": HEAD,
    },
    "untrained, centroids": {
        "teacher": {"views": ("centroids",)},
        "student": {"rounds": 0},
        "export": HEAD,
    },
    "the paper's teacher": {"teacher": PAPER},
    "calibrated prompts": {"teacher": {"views": ("prompts",)}},
    "prompts, head": {"teacher": {"views": ("prompts", "head")}},
    "without neighbours": {"teacher": {"views": ("prompts", "head", "words")}},
    "without words": {"teacher": {"views": ("prompts", "head", "neighbours")}},
    "prompts, words": {"teacher": {"views": ("prompts", "words")}},
    "prompts do not fade": {"teacher": {"fading": 1.0}},
    "blended rounds": {"teacher": {"blend": 0.5}},
    "rounds from the base": {"student": {"restart": True}},
    "half the base's weights": {"student": {"base_share": 0.5}},
    "PESCO, head": {"export": HEAD},
    # runs that should go wrong, for the check of what is served by default to find
    "ten times the rate": {
        "student": {"loop": LoopSettings(batch_size=32, learning_rate=2e-4)},
        "export": HEAD,
    },
    "a hundred times the rate": {
        "student": {"loop": LoopSettings(batch_size=32, learning_rate=2e-3)},
        "export": HEAD,
    },
    "all texts from the start": {
        "teacher": PAPER,
        "student": {"first": 1.0, "limit": 1.0},
        "export": HEAD,
    },
}
"""What a cell changes in the recipe."""


def variant(recipe: self_training.Recipe, cell: str, seed: int) -> self_training.Recipe:
    """The recipe of one cell; `Recipe` checks what comes out. The checks do not interfere: variants are compared."""
    changes = dict(CELLS[cell])
    known: dict[str, Any] = {"seed": seed}
    known["check"] = replace(recipe.check, kept=0.0, halves=2.0, spread=0.0)
    for table in ("teacher", "student"):
        known[table] = replace(getattr(recipe, table), **changes.pop(table, {}))
    known["export"] = replace(recipe.export, **{"serve": "prompts", **changes.pop("export", {})})
    return replace(recipe, **known, **changes)


def shown(stage: str) -> StepProgress:
    def step(number: int, total: int, values: Mapping[str, float]) -> None:
        if number % 25 == 0 or number == total:
            print(
                f"  {stage} {number}/{total} loss {values['loss']:.4f}", file=sys.stderr, flush=True
            )

    return step


def run_cell(name: str, cell: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Train and measure, or read what was measured before."""
    kept: Path = given.out / f"{name}-{cell.replace('/', '')}-{seed}.json"
    if not kept.is_file():
        kept.write_text(json.dumps(trained(name, cell, seed, given)))
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def trained(name: str, cell: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    source, place = given.data / name, given.out / name / cell.replace("/", "") / str(seed)
    recipe = replace(self_training.read_recipe(given.recipe), templates=TEMPLATES[name])
    recipe = variant(recipe, cell, seed)
    labels = read_labels(source / "labels.txt")
    pool, dev = material(source, labels, given.limit or recipe.limit, seed)
    started = time.monotonic()
    tell = {"progress": shown, "say": lambda line: print(f"  {line}", file=sys.stderr, flush=True)}
    built = self_training.run(
        recipe, pool, labels, name="cell", out=place / "run", home=place, dev=dev, **tell
    )
    seconds = time.monotonic() - started
    classifier = TrainedClassifier.load(built)
    found = classifier.classify(dev.texts)
    accuracy = float(
        np.mean([one.label == labels[known] for one, known in zip(found, dev.labels, strict=True)])
    )
    score = float(np.mean([one.score for one in found]))
    shutil.rmtree(place)
    return {
        "accuracy": accuracy,
        "score": score,
        "rows": len(found),
        "seconds": seconds,
        **classifier.trained.measures,
    }


def material(source: Path, labels: Sequence[str], limit: int, seed: int) -> tuple[Pool, Labelled]:
    """Texts to learn from and rows to measure on; see above for sets without unlabelled texts."""
    dev = read_labelled(source / "dev.jsonl", labels)
    if (source / POOL).is_file():
        return read_pool(source / POOL, labels=len(labels), limit=limit, seed=seed), dev
    order = np.random.default_rng(seed).permutation(len(dev.texts)).tolist()
    half = len(order) // 2
    pool = dict.fromkeys(dev.texts[row] for row in order[:half])
    rest = [row for row in order[half:] if dev.texts[row] not in pool]
    return Pool(tuple(pool)), Labelled(
        tuple(dev.texts[row] for row in rest), tuple(dev.labels[row] for row in rest)
    )


def line(name: str, cell: str, results: Sequence[Mapping[str, Any]]) -> str:
    values = [result["accuracy"] for result in results]
    before = np.mean([result["dev accuracy untrained"] for result in results])
    prompts = np.mean([result["dev accuracy by prompts"][-1] for result in results])
    score = np.mean([result["score"] for result in results])
    minutes = np.mean([result["seconds"] for result in results]) / 60
    checks = [Check(**result["check"]) for result in results if result.get("check")]
    refused = sum(bool(one.verdict(Limits())) for one in checks)
    spread = f"{np.mean(values):.4f} | {max(values):.4f} | {min(values):.4f} | {len(values)}"
    beside = f"{before:.4f} | {prompts:.4f} | {score:.4f}"
    return f"| {name} | {cell} | {spread} | {beside} | {refused} of {len(checks)} | {minutes:.1f} |"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--recipe", type=Path, help="[default: that of `purlin train pesco`]")
    options.add_argument("--sets", nargs="+", choices=list(TEMPLATES), default=list(TEMPLATES))
    options.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    options.add_argument("--limit", type=int, help="texts drawn from each set")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    print(
        "| set | cell | mean | max | min | runs | untrained | prompts | score | refused | minutes |",
        "|---" * 11 + "|",
        sep="\n",
    )
    for name in given.sets:
        drawn = not (given.data / name / POOL).is_file()
        for cell in given.cells:
            alike = CELLS[cell].get("student", {}).get("rounds") == 0 and not drawn
            seeds = given.seeds[:1] if alike else given.seeds
            print(
                line(name, cell, [run_cell(name, cell, seed, given) for seed in seeds]), flush=True
            )


if __name__ == "__main__":
    main()
