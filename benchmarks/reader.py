"""Tune a reader on questions: how deep it reads, what the features of `index.qa.features` weigh, its calibration.

    python benchmarks/reader.py --reader DIR --on python questions/python.jsonl questions/python-unanswerable.jsonl
        --on postgresql questions/postgresql.jsonl questions/postgresql-unanswerable.jsonl [--split dev] [--home var]

Prints the PASSAGE_WEIGHTS and SPAN_WEIGHTS that a conditional logit finds over all corpora, and the exact match with
each fifth of the questions answered by what the others teach; then the `calibration` that a logistic regression finds,
and the AUROC of `answerable` from the same questions (flattering) and left out in tenths (not so); then a row per
corpus and depth. Take the weights into `index/qa/features.py`, `prior_weight` and calibration into the recipe's
`[export]`, or have `--write` put these two into the reader directory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from index import builds
from index.encoder import RELEASED_ENCODER, Encoder
from index.evaluation.answers import (
    Question,
    answer_measures,
    auroc,
    exact_match,
    judge,
    read_questions,
)
from index.qa.ask import RANKED_DEPTH, READ_DEPTH, answer_question
from index.qa.features import PASSAGE_WEIGHTS, SPAN_WEIGHTS, passage_features
from index.qa.judging import hit_entry, judge_corpus
from index.qa.question import parse_question
from index.qa.reader import (
    READER_SETTINGS,
    PackedPassage,
    PassageLogits,
    Reader,
    reading_passage,
)
from index.qa.spans import spans_with_features
from index.search.corpus import Corpus, Retrieved

DEPTHS = (READ_DEPTH, 6, 20)
RIDGE, PASSAGE_RIDGE, SPAN_RIDGE = 1e-2, 30.0, 3.0  # the latter two for clues of variance 1
FOLDS = 5

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Remembering(Reader):
    """A reader that runs no sequence twice."""

    seen: dict[bytes, PassageLogits]

    def _run(
        self, packed: Sequence[PackedPassage], deadline: float | None
    ) -> Iterator[PassageLogits]:
        new = [one for one in packed if one.ids.tobytes() not in self.seen]
        for one, found in zip(new, super()._run(new, None), strict=True):
            self.seen[one.ids.tobytes()] = found
        # Passages with the same ids may have other offsets.
        return iter([replace(self.seen[one.ids.tobytes()], packed=one) for one in packed])


@dataclass(frozen=True, slots=True)
class Choice:
    """What competes: clues (n, c), and which of the n are right."""

    clues: Numbers
    right: Flags


def passage_choice(question: Question, found: Sequence[Retrieved]) -> Choice:
    """Right are the passages of the entry that hold an answer, or all of the entry if none does."""
    clues = passage_features(
        parse_question(question.question), [(one.hit, one.document) for one in found]
    )
    of_entry = np.array([hit_entry(one.hit) == question.entry for one in found], dtype=bool)
    holds = np.array(
        [judge(question, [(None, one.hit.text)], (), 0.0).answer_rank == 1 for one in found],
        dtype=bool,
    )
    return Choice(clues, of_entry & holds if (of_entry & holds).any() else of_entry)


def span_choice(
    reader: Reader, question: Question, found: Sequence[Retrieved], known: Numbers
) -> Choice:
    """The spans of the passages that are read; the first clue is the passage's score, of those `known`. Right are exact
    matches, of the entry if there is one there.
    """
    order = np.argsort(-known, kind="stable")[:READ_DEPTH]
    passages = [
        reading_passage(found[at].document, found[at].passage, float(known[at] - known.max()))
        for at in order
    ]
    parsed = parse_question(question.question)
    logits = reader.read(question.question, passages)
    rows, right, of_entry = [], [], []
    for at, passage, one in zip(order, passages, logits, strict=True):
        for span, clues in spans_with_features(parsed, passage, one):
            rows.append((passage.prior, *(clues.get(name, 0.0) for name in SPAN_WEIGHTS)))
            right.append(exact_match(passage.text[span.start : span.end], question.answers))
            of_entry.append(hit_entry(found[at].hit) == question.entry)
    exact, both = np.array(right), np.array(right) & np.array(of_entry)
    return Choice(np.array(rows, dtype=np.float64), both if both.any() else exact)


def conditional(choices: Sequence[Choice], ridge: float) -> Numbers:
    """Weights under which the softmax over each choice is most right: Newton's steps, halved until they are a gain."""
    choices = [choice for choice in choices if choice.right.any()]
    spread = np.concatenate([choice.clues for choice in choices]).std(axis=0) + 1e-9
    scaled = [Choice(choice.clues / spread, choice.right) for choice in choices]
    weights = np.zeros(len(spread))
    for _ in range(50):
        slope, bend = -ridge * weights, ridge * np.eye(len(weights))
        for one in scaled:
            scores = one.clues @ weights
            chance = np.exp(scores - log_sum(scores))
            among = np.exp(scores[one.right] - log_sum(scores[one.right]))
            mean = chance @ one.clues
            slope += among @ one.clues[one.right] - mean
            bend += (one.clues * chance[:, None]).T @ one.clues - np.outer(mean, mean)
        step, before = np.linalg.solve(bend, slope), gain(scaled, weights, ridge)
        while np.abs(step).max() > 1e-6 and gain(scaled, weights + step, ridge) < before:
            step /= 2
        weights += step
    return np.asarray(weights / spread)


def gain(choices: Sequence[Choice], weights: Numbers, ridge: float) -> float:
    """The logarithm of the probability of being right in all choices, less the ridge."""
    scores = [(one.clues @ weights, one.right) for one in choices]
    return sum(log_sum(each[right]) - log_sum(each) for each, right in scores) - ridge / 2 * float(
        weights @ weights
    )


def log_sum(scores: Numbers) -> float:
    highest = float(scores.max())
    return highest + float(np.log(np.exp(scores - highest).sum()))


def fitted(x: Numbers, y: Flags) -> Numbers:
    """Logistic regression with a small ridge: a constant and a weight for each of x's columns, by Newton's method."""
    columns = np.hstack([np.ones((len(x), 1)), x])
    weights = np.zeros(columns.shape[1])
    for _ in range(100):
        chance = 1 / (1 + np.exp(-columns @ weights))
        slope = columns.T @ (chance - y) + RIDGE * weights
        bend = (columns * (chance * (1 - chance))[:, None]).T @ columns + RIDGE * np.eye(
            len(weights)
        )
        weights -= np.linalg.solve(bend, slope)
    return weights


def area(x: Numbers, y: Flags, weights: Numbers) -> float:
    scores = weights[0] + x @ weights[1:]
    return auroc(scores[y].tolist(), scores[~y].tolist())


def left_out(x: Numbers, y: Flags, parts: int = 10) -> float:
    """AUROC with each tenth scored by what the others teach."""
    part = np.random.default_rng(1).permutation(len(y)) % parts
    scores = np.zeros(len(y))
    for number in range(parts):
        weights = fitted(x[part != number], y[part != number])
        scores[part == number] = weights[0] + x[part == number] @ weights[1:]
    return auroc(scores[y].tolist(), scores[~y].tolist())


def known(corpus: Corpus, reader: Reader, asked: Sequence[Question]) -> Numbers:
    """(n, 4), as `index.qa.features.calibration_features` has them."""
    return np.array(
        [
            answer_question(
                corpus, reader, question.question, k=1, seconds=60.0
            ).calibration_features
            for question in asked
        ]
    )


def weights_and_exact(
    asked: Sequence[tuple[Corpus, Question]], reader: Reader
) -> tuple[Numbers, Numbers, Numbers]:
    """PASSAGE_WEIGHTS, the prior's and SPAN_WEIGHTS, and exact matches (n,), each fifth answered by the others."""
    found = [corpus.passages(question.question, RANKED_DEPTH)[0] for corpus, question in asked]
    passages = [
        passage_choice(question, each) for (_, question), each in zip(asked, found, strict=True)
    ]

    def spans_by(weights: Numbers) -> list[Choice]:
        every = zip(asked, found, passages, strict=True)
        return [
            span_choice(reader, question, each, one.clues @ weights)
            for (_, question), each, one in every
        ]

    part = np.random.default_rng(0).permutation(len(asked)) % FOLDS
    exact = np.zeros(len(asked))
    for fold in range(FOLDS):
        train = [at for at in range(len(asked)) if part[at] != fold]
        first = conditional([passages[at] for at in train], PASSAGE_RIDGE)
        spans = spans_by(first)
        second = conditional([spans[at] for at in train], SPAN_RIDGE)
        for at in np.flatnonzero(part == fold):
            exact[at] = spans[at].right[(spans[at].clues @ second).argmax()]
    first = conditional(passages, PASSAGE_RIDGE)
    return first, conditional(spans_by(first), SPAN_RIDGE), exact


def write(reader: Reader, directory: Path) -> None:
    settings = reader.settings
    kept = json.loads((directory / READER_SETTINGS).read_text())
    kept |= asdict(settings) | {"fingerprint": settings.fingerprint}
    (directory / READER_SETTINGS).write_text(json.dumps(kept, indent=2) + "\n")


def table(corpora: Sequence[tuple[Corpus, Sequence[Question]]], reader: Reader) -> None:
    shown = (
        "entry accuracy@1",
        "entry MRR@100",
        "answer accuracy@1",
        "answer MRR@100",
        "exact match",
        "F1",
        "AUROC",
    )
    print(f"| corpus | depth | {' | '.join(shown)} |\n{'|---' * (len(shown) + 2)}|")
    for corpus, asked in corpora:
        for depth in DEPTHS:
            found = {
                one.name: one.mean
                for one in answer_measures(judge_corpus(corpus, reader, asked, depth=depth))
            }
            print(
                f"| {corpus.name} | {depth} | {' | '.join(f'{found[name]:.3f}' for name in shown)} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reader", type=Path, required=True)
    parser.add_argument(
        "--on", nargs="+", action="append", required=True, metavar=("CORPUS", "QUESTIONS")
    )
    parser.add_argument("--split", default="dev")
    parser.add_argument("--home", type=Path, default=Path("var"))
    parser.add_argument("--encoder", type=Path, default=RELEASED_ENCODER)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--brief", action="store_true", help="leave the table out")
    options = parser.parse_args()

    encoder = Encoder.load(options.encoder)
    corpora = [
        (
            Corpus.load(builds.current(options.home, name), encoder),
            [question for path in paths for question in read_questions(Path(path), options.split)],
        )
        for name, *paths in options.on
    ]
    reader = Remembering.load(options.reader)
    reader.seen = {}
    answered = [
        (corpus, question) for corpus, asked in corpora for question in asked if question.answers
    ]
    passage, span, exact = weights_and_exact(answered, reader)
    print("PASSAGE", dict(zip(PASSAGE_WEIGHTS, passage.round(2).tolist(), strict=True)))
    print(
        "prior_weight",
        round(float(span[0]), 2),
        "SPAN",
        dict(zip(SPAN_WEIGHTS, span[1:].round(2).tolist(), strict=True)),
    )
    for corpus, _ in corpora:
        of_corpus = np.array([one is corpus for one, _ in answered])
        print(
            f"{corpus.name}: exact match, left out in fifths, {exact[of_corpus].mean():.3f} of {of_corpus.sum()}",
            flush=True,
        )
    x = np.concatenate([known(corpus, reader, asked) for corpus, asked in corpora])
    y = np.array([question.answerable for _, asked in corpora for question in asked])
    weights = fitted(x, y)
    print(f"calibration {np.round(weights, 3).tolist()}, {y.sum()} answerable of {len(y)}")
    print(f"AUROC {area(x, y, weights):.3f}, left out {left_out(x, y):.3f}", flush=True)
    calibration = weights.round(4).tolist()
    reader.settings = replace(
        reader.settings, prior_weight=round(float(span[0]), 2), calibration=tuple(calibration)
    )
    if options.write:
        write(reader, options.reader)
    if not options.brief:
        table(corpora, reader)


if __name__ == "__main__":
    main()
