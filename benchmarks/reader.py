"""Tune a reader on questions: how much the search's score counts beside its own, how deep it reads, its calibration.

    python benchmarks/reader.py --corpus python --reader DIR --questions questions/python.jsonl
        --questions questions/python-unanswerable.jsonl [--split dev] [--home var] [--encoder DIR]

Prints a row per depth and `prior_weight`, then, for the last depth and the weight that was best there, the
`calibration` that a logistic regression finds, with the AUROC of `answerable` by it (from the same questions, so
flattering) and left out in tenths (not so). Take the values into the recipe's `[export]`, or have `--write` put them
into the reader directory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from index import ask, generations
from index.corpus import Corpus
from index.encoder import RELEASED, Encoder
from index.questions import Judged, Question, auroc, measures, read_questions
from index.reader import SETTINGS, Floats, Packed, Reader, evidence

WEIGHTS = (0.0, 6.0, 12.0, 25.0, 50.0)
DEPTHS = (6, 20, 12)
RAW = (0.0, 1.0, 0.0, 0.0)  # the calibration under which `answerable` is eq. 3's own
RIDGE = 1e-2

Features = NDArray[np.float64]


class Remembering(Reader):
    """A reader that runs no sequence twice."""

    seen: dict[bytes, list[Floats]]

    def _outputs(self, packed: Sequence[Packed], deadline: float | None) -> Iterator[list[Floats]]:
        new = [one for one in packed if one.ids.tobytes() not in self.seen]
        for one, found in zip(new, super()._outputs(new, None), strict=True):
            self.seen[one.ids.tobytes()] = found
        return iter([self.seen[one.ids.tobytes()] for one in packed])


def judged(corpus: Corpus, reader: Reader, asked: Sequence[Question], depth: int, weight: float) -> list[Judged]:
    reader.settings = replace(reader.settings, prior_weight=weight, calibration=RAW)
    return ask.judged(corpus, reader, asked, depth=depth)


def features(corpus: Corpus, reader: Reader, asked: Sequence[Question], depth: int) -> Features:
    """(n, 3), as `index.reader.evidence` has them."""
    rows = []
    for question in asked:
        found = ask.ask(corpus, reader, question.question, k=1, depth=depth, seconds=60.0)
        best = found.answers[0].score if found.answers else 0.0
        rows.append(evidence(found.answerable, best, max((hit.score for hit in found.hits), default=0.0)))
    return np.array(rows)


def fitted(x: Features, y: NDArray[np.bool_]) -> Features:
    """Logistic regression with a small ridge: a constant and a weight for each of x's columns, by Newton's method."""
    columns = np.hstack([np.ones((len(x), 1)), x])
    weights = np.zeros(columns.shape[1])
    for _ in range(100):
        chance = 1 / (1 + np.exp(-columns @ weights))
        slope = columns.T @ (chance - y) + RIDGE * weights
        bend = (columns * (chance * (1 - chance))[:, None]).T @ columns + RIDGE * np.eye(len(weights))
        weights -= np.linalg.solve(bend, slope)
    return weights


def area(x: Features, y: NDArray[np.bool_], weights: Features) -> float:
    scores = weights[0] + x @ weights[1:]
    return auroc(scores[y].tolist(), scores[~y].tolist())


def left_out(x: Features, y: NDArray[np.bool_], parts: int = 10) -> float:
    """AUROC with each tenth scored by what the others teach."""
    part = np.random.default_rng(1).permutation(len(y)) % parts
    scores = np.zeros(len(y))
    for number in range(parts):
        weights = fitted(x[part != number], y[part != number])
        scores[part == number] = weights[0] + x[part == number] @ weights[1:]
    return auroc(scores[y].tolist(), scores[~y].tolist())


def write(reader: Reader, directory: Path) -> None:
    settings = reader.settings
    kept = json.loads((directory / SETTINGS).read_text())
    kept |= asdict(settings) | {"fingerprint": settings.fingerprint}
    (directory / SETTINGS).write_text(json.dumps(kept, indent=2) + "\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--corpus", required=True)
    options.add_argument("--reader", type=Path, required=True)
    options.add_argument("--questions", type=Path, action="append", required=True)
    options.add_argument("--split", default="dev")
    options.add_argument("--home", type=Path, default=Path("var"))
    options.add_argument("--encoder", type=Path, default=RELEASED)
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    corpus = Corpus.load(generations.current(given.home, given.corpus), Encoder.load(given.encoder))
    asked = [question for path in given.questions for question in read_questions(path, given.split)]
    reader = Remembering.load(given.reader)
    reader.seen = {}
    shown = ("entry accuracy@1", "entry MRR@100", "answer accuracy@1", "answer MRR@100", "exact match", "F1", "AUROC")
    print(f"| depth | prior_weight | {' | '.join(shown)} |\n{'|---' * (len(shown) + 2)}|")
    best = (-1.0, 0.0, 0.0)
    for depth in DEPTHS:
        for weight in WEIGHTS:
            found = {one.name: one.mean for one in measures(judged(corpus, reader, asked, depth, weight))}
            print(f"| {depth} | {weight} | {' | '.join(f'{found[name]:.3f}' for name in shown)} |", flush=True)
            if depth == DEPTHS[-1]:
                best = max(best, (found["exact match"] + found["F1"], found["answer MRR@100"], weight))
    reader.settings = replace(reader.settings, prior_weight=best[2], calibration=RAW)
    x = features(corpus, reader, asked, DEPTHS[-1])
    y = np.array([question.answerable for question in asked])
    weights = fitted(x, y)
    print(f"prior_weight {best[2]}, calibration {np.round(weights, 3).tolist()}, {y.sum()} answerable of {len(y)}")
    print(f"AUROC {area(x, y, weights):.3f}, left out {left_out(x, y):.3f}")
    if given.write:
        reader.settings = replace(reader.settings, calibration=tuple(np.round(weights, 4).tolist()))
        write(reader, given.reader)


if __name__ == "__main__":
    main()
