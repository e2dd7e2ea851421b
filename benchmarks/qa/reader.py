"""Tune a reader on questions: depth, feature weights and calibration.

    python -m benchmarks.qa.reader --reader DIR
        --on python questions/python.jsonl questions/python-unanswerable.jsonl
        --on postgresql questions/postgresql.jsonl questions/postgresql-unanswerable.jsonl
        [--split dev] [--home var] [--brief] [--write]

Prints, in this order:

- PASSAGE_WEIGHTS and SPAN_WEIGHTS of `purlin.index.qa.features`, fitted as conditional logits over the
  questions of all corpora, those of spans over the ones that want a value; and exact match with each
  fifth of these answered by weights fitted to the others.
- SENTENCE_WEIGHTS of `purlin.index.qa.sentences`, fitted in the same way over the questions that want a
  statement, and how many of these are answered by the right sentence with a sixth of them left out.
- `calibration`, fitted by logistic regression to answers under all these weights, with the AUROC of
  `answerable` on the questions it was fitted to (optimistic) and cross-validated in tenths.
- A row of measures for each corpus and depth, unless `--brief`.

The calibration and the table are those of the reader with the fitted weights: copy these to
`index/qa/features.py` and `index/qa/sentences.py`, and `prior_weight` and the calibration to the
recipe's `[export]`. `--write` puts these two into the reader's directory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from benchmarks.options import command_parser
from purlin.index import builds
from purlin.index.encoder import TRANSFORMER_ENCODER, load_encoder
from purlin.index.evaluation.answers import (
    Question,
    answer_measures,
    auroc,
    exact_match,
    judge,
    read_questions,
)
from purlin.index.qa.ask import RANKED_DEPTH, READ_DEPTH, answer_question, passages_to_read
from purlin.index.qa.features import (
    PASSAGE_WEIGHTS,
    SPAN_WEIGHTS,
    passage_features,
    passage_scores,
)
from purlin.index.qa.judging import hit_entry, judge_corpus
from purlin.index.qa.question import parse_question
from purlin.index.qa.reader import (
    PackedPassage,
    PassageLogits,
    Reader,
    ReadingPassage,
)
from purlin.index.qa.reader_settings import READER_SETTINGS
from purlin.index.qa.sentences import SENTENCE_WEIGHTS, sentence_features
from purlin.index.qa.spans import spans_with_features
from purlin.index.search.corpus import Corpus
from purlin.index.search.hits import Retrieved

READ_DEPTHS = (READ_DEPTH, 6, 20)
FOLDS = 5
CALIBRATION_FOLDS = 10

# L2 penalties; those of the conditional logits are for features scaled to variance 1.
CALIBRATION_RIDGE = 1e-2
PASSAGE_RIDGE = 30.0
SPAN_RIDGE = 3.0
SENTENCE_RIDGE = 3.0
SENTENCE_FOLDS = 6

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class CachingReader(Reader):
    """A reader that runs no sequence of tokens twice."""

    cache: dict[bytes, PassageLogits]

    def _run(
        self, packed: Sequence[PackedPassage], deadline: float | None
    ) -> Iterator[PassageLogits]:
        new = [passage for passage in packed if passage.ids.tobytes() not in self.cache]
        for passage, logits in zip(new, super()._run(new, None), strict=True):
            self.cache[passage.ids.tobytes()] = logits

        # Passages with the same ids may have different offsets.
        return iter(
            [replace(self.cache[passage.ids.tobytes()], packed=passage) for passage in packed]
        )


@dataclass(frozen=True, slots=True)
class Candidates:
    """The passages or spans that compete for a question: features (n, f), and which are right."""

    features: Floats
    right: Flags


def retrieve(corpus: Corpus, question: Question) -> Sequence[Retrieved]:
    """Return the passages that are ranked for a question, by the search alone."""
    return corpus.passages(question.question, RANKED_DEPTH).passages


def passage_candidates(question: Question, retrieved: Sequence[Retrieved]) -> Candidates:
    """Candidates of a question; right are the entry's passages with an answer, or all of them."""
    features = passage_features(
        parse_question(question.question), [(each.hit, each.document) for each in retrieved]
    )
    of_entry = np.array([hit_entry(each.hit) == question.entry for each in retrieved], dtype=bool)
    has_answer = np.array([holds_answer(question, each) for each in retrieved], dtype=bool)

    both = of_entry & has_answer
    return Candidates(features, both if both.any() else of_entry)


def holds_answer(question: Question, retrieved: Retrieved) -> bool:
    judgement = judge(question, [(None, retrieved.hit.text)], (), 0.0)
    return judgement.answer_rank == 1


def read_best(
    reader: Reader, question: Question, retrieved: Sequence[Retrieved], scores: Floats
) -> tuple[list[int], list[ReadingPassage], Sequence[PassageLogits]]:
    """Read the passages with the best `scores` (n,): their numbers, texts and logits."""
    rows = np.argsort(-scores, kind="stable").tolist()
    ranked = [retrieved[row] for row in rows]
    passages = passages_to_read(ranked, [float(scores[row] - scores.max()) for row in rows])
    return rows[: len(passages)], passages, reader.read(question.question, passages)


def span_candidates(
    reader: Reader, question: Question, retrieved: Sequence[Retrieved], scores: Floats
) -> Candidates:
    """Spans of the passages with the best `scores` (n,); the first feature is the passage's score.

    Right are the spans that match an answer exactly: those of the question's entry, if there are
    any.
    """
    parsed = parse_question(question.question)
    rows, passages, logits = read_best(reader, question, retrieved, scores)

    features, exact, of_entry = [], [], []
    for row, passage, passage_logits in zip(rows, passages, logits, strict=True):
        for span, values in spans_with_features(parsed, passage, passage_logits):
            features.append((passage.prior, *(values.get(name, 0.0) for name in SPAN_WEIGHTS)))
            exact.append(exact_match(passage.text[slice(*span)], question.answers))
            of_entry.append(hit_entry(retrieved[row].hit) == question.entry)

    both = np.array(exact) & np.array(of_entry)
    right = both if both.any() else np.array(exact)
    return Candidates(np.array(features, dtype=np.float64), right)


def sentence_candidates(reader: Reader, corpus: Corpus, question: Question) -> Candidates:
    """Sentences of the passages that are read; the first feature is the passage's score.

    Right are the accepted sentences of the question's entry.
    """
    parsed = parse_question(question.question)
    retrieved = retrieve(corpus, question)
    scores = passage_scores(parsed, [(each.hit, each.document) for each in retrieved])
    rows, passages, logits = read_best(reader, question, retrieved, scores)
    word_weights = corpus.weights(question.question)

    features, right = [], []
    for row, passage, passage_logits in zip(rows, passages, logits, strict=True):
        of_entry = hit_entry(retrieved[row].hit) == question.entry
        for sentence, values in sentence_features(parsed, passage, passage_logits, word_weights):
            text = passage.text[slice(*sentence)]
            features.append((passage.prior, *(values[name] for name in SENTENCE_WEIGHTS)))
            right.append(of_entry and exact_match(text, question.answers))
    return Candidates(
        np.array(features, dtype=np.float64).reshape(len(features), 1 + len(SENTENCE_WEIGHTS)),
        np.array(right, dtype=bool),
    )


def fit_sentences(
    questions: Sequence[tuple[Corpus, Question]], reader: Reader
) -> tuple[Floats, float]:
    """The prior's weight and SENTENCE_WEIGHTS; the cross-validated share of right sentences."""
    candidates = [sentence_candidates(reader, corpus, question) for corpus, question in questions]
    fold = np.random.default_rng(0).permutation(len(candidates)) % SENTENCE_FOLDS
    right = []

    for number in range(SENTENCE_FOLDS):
        train = [candidates[row] for row in np.flatnonzero(fold != number)]
        weights = fit_conditional_logit(train, SENTENCE_RIDGE)
        for row in np.flatnonzero(fold == number):
            held_out = candidates[row]
            best = (held_out.features @ weights).argmax() if len(held_out.right) else None
            right.append(best is not None and held_out.right[best])
    return fit_conditional_logit(candidates, SENTENCE_RIDGE), float(np.mean(right))


def fit_conditional_logit(questions: Sequence[Candidates], ridge: float) -> Floats:
    """Weights (f,) that maximize the probability of a right candidate under a softmax per question.

    Newton's method; a step is halved until it improves the objective.
    """
    questions = [candidates for candidates in questions if candidates.right.any()]
    features = np.concatenate([candidates.features for candidates in questions])
    # Scaled to variance 1, so that the penalty treats all features alike.
    deviations = features.std(axis=0) + 1e-9
    scaled = [
        Candidates(candidates.features / deviations, candidates.right) for candidates in questions
    ]

    weights = np.zeros(len(deviations))
    for _ in range(50):
        gradient, curvature = logit_derivatives(scaled, weights, ridge)
        step = np.linalg.solve(curvature, gradient)

        before = log_likelihood(scaled, weights, ridge)
        while np.abs(step).max() > 1e-6 and log_likelihood(scaled, weights + step, ridge) < before:
            step /= 2
        weights += step
    return np.asarray(weights / deviations)


def logit_derivatives(
    questions: Sequence[Candidates], weights: Floats, ridge: float
) -> tuple[Floats, Floats]:
    """Gradient (f,) of the objective, and an approximation (f, f) of its negative Hessian."""
    gradient, curvature = -ridge * weights, ridge * np.eye(len(weights))
    for candidates in questions:
        scores = candidates.features @ weights
        right_scores = scores[candidates.right]
        probabilities = np.exp(scores - logsumexp(scores))
        among_right = np.exp(right_scores - logsumexp(right_scores))

        mean = probabilities @ candidates.features
        gradient += among_right @ candidates.features[candidates.right] - mean
        weighted = candidates.features * probabilities[:, None]
        curvature += weighted.T @ candidates.features - np.outer(mean, mean)
    return gradient, curvature


def log_likelihood(questions: Sequence[Candidates], weights: Floats, ridge: float) -> float:
    """Logarithm of the probability of a right candidate in every question, less the penalty."""
    total = 0.0
    for candidates in questions:
        scores = candidates.features @ weights
        total += logsumexp(scores[candidates.right]) - logsumexp(scores)
    return total - ridge / 2 * float(weights @ weights)


def fit_logistic(features: Floats, labels: Flags) -> Floats:
    """Logistic regression by Newton's method: a constant, then a weight for each feature."""
    columns = np.hstack([np.ones((len(features), 1)), features])
    weights = np.zeros(columns.shape[1])
    penalty = CALIBRATION_RIDGE * np.eye(len(weights))

    for _ in range(100):
        probabilities = 1 / (1 + np.exp(-columns @ weights))
        gradient = columns.T @ (probabilities - labels) + CALIBRATION_RIDGE * weights
        variances = probabilities * (1 - probabilities)
        curvature = (columns * variances[:, None]).T @ columns + penalty
        weights -= np.linalg.solve(curvature, gradient)
    return weights


def logistic_scores(features: Floats, weights: Floats) -> Floats:
    return np.asarray(weights[0] + features @ weights[1:])


def label_auroc(scores: Floats, labels: Flags) -> float:
    return auroc(scores[labels].tolist(), scores[~labels].tolist())


def cross_validated_auroc(features: Floats, labels: Flags) -> float:
    """AUROC with each tenth scored by weights fitted to the others."""
    fold = np.random.default_rng(1).permutation(len(labels)) % CALIBRATION_FOLDS
    scores = np.zeros(len(labels))
    for number in range(CALIBRATION_FOLDS):
        held_out = fold == number
        weights = fit_logistic(features[~held_out], labels[~held_out])
        scores[held_out] = logistic_scores(features[held_out], weights)
    return label_auroc(scores, labels)


def question_features(corpus: Corpus, reader: Reader, questions: Sequence[Question]) -> Floats:
    """Calibration features of each question, of shape (n, 5)."""
    answers = [
        answer_question(corpus, reader, question.question, k=1, seconds=60.0)
        for question in questions
    ]
    return np.array([answer.calibration_features for answer in answers])


def fit_weights(
    questions: Sequence[tuple[Corpus, Question]],
    statements: Sequence[tuple[Corpus, Question]],
    reader: Reader,
) -> tuple[Floats, Floats, Floats]:
    """PASSAGE_WEIGHTS; the prior's weight and SPAN_WEIGHTS; cross-validated exact matches (n,).

    The n `questions` want a value. `statements` take part in the fit of passages alone.
    """
    retrieved = [retrieve(*each) for each in questions]
    passages = [
        passage_candidates(question, each)
        for (_, question), each in zip(questions, retrieved, strict=True)
    ]
    of_statements = [
        passage_candidates(question, retrieve(corpus, question)) for corpus, question in statements
    ]

    def spans_of(passage_weights: Floats) -> list[Candidates]:
        """Which spans compete depends on the passages that are read, and so on these weights."""
        return [
            span_candidates(reader, question, each, candidates.features @ passage_weights)
            for (_, question), each, candidates in zip(questions, retrieved, passages, strict=True)
        ]

    fold = np.random.default_rng(0).permutation(len(questions)) % FOLDS
    exact = np.zeros(len(questions))
    for number in range(FOLDS):
        train = np.flatnonzero(fold != number)
        passage_weights = fit_conditional_logit(
            [*(passages[row] for row in train), *of_statements], PASSAGE_RIDGE
        )
        spans = spans_of(passage_weights)
        span_weights = fit_conditional_logit([spans[row] for row in train], SPAN_RIDGE)

        for row in np.flatnonzero(fold == number):
            best = (spans[row].features @ span_weights).argmax()
            exact[row] = spans[row].right[best]

    passage_weights = fit_conditional_logit([*passages, *of_statements], PASSAGE_RIDGE)
    span_weights = fit_conditional_logit(spans_of(passage_weights), SPAN_RIDGE)
    return passage_weights, span_weights, exact


def install(weights: dict[str, float], fitted: Floats) -> dict[str, float]:
    """Put fitted weights in place of a module's own in this process, and return them.

    What is measured afterwards is what it will be once they are copied to the module.
    """
    weights.update(zip(weights, fitted.round(2).tolist(), strict=True))
    return weights


def write_settings(reader: Reader, directory: Path) -> None:
    """Put the reader's settings and their fingerprint into its directory."""
    path = directory / READER_SETTINGS
    content = json.loads(path.read_text())
    content |= asdict(reader.settings) | {"fingerprint": reader.settings.fingerprint}
    path.write_text(json.dumps(content, indent=2) + "\n")


def print_table(corpora: Sequence[tuple[Corpus, Sequence[Question]]], reader: Reader) -> None:
    names = (
        "entry accuracy@1",
        "entry MRR@100",
        "answer accuracy@1",
        "answer MRR@100",
        "exact match",
        "F1",
        "AUROC",
    )
    print(f"| corpus | depth | {' | '.join(names)} |\n{'|---' * (len(names) + 2)}|")

    for corpus, questions in corpora:
        for depth in READ_DEPTHS:
            measures = answer_measures(judge_corpus(corpus, reader, questions, depth=depth))
            means = {measure.name: measure.mean for measure in measures}
            cells = " | ".join(f"{means[name]:.3f}" for name in names)
            print(f"| {corpus.name} | {depth} | {cells} |", flush=True)


def parse_options() -> argparse.Namespace:
    parser = command_parser(__doc__)

    parser.add_argument("--reader", type=Path, required=True)
    parser.add_argument(
        "--on", nargs="+", action="append", required=True, metavar=("CORPUS", "QUESTIONS")
    )
    parser.add_argument("--split", default="dev")
    parser.add_argument("--home", type=Path, default=Path("var"))
    parser.add_argument("--encoder", type=Path, default=TRANSFORMER_ENCODER)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--brief", action="store_true", help="leave the table out")

    return parser.parse_args()


def load_corpora(options: argparse.Namespace) -> list[tuple[Corpus, list[Question]]]:
    """The corpora of `--on`, each with its questions."""
    encoder = load_encoder(options.encoder)
    corpora = []

    for name, *paths in options.on:
        corpus = Corpus.load(builds.current(options.home, name), encoder)
        questions = [
            question for path in paths for question in read_questions(Path(path), options.split)
        ]
        corpora.append((corpus, questions))
    return corpora


def main() -> None:
    options = parse_options()
    corpora = load_corpora(options)
    reader = CachingReader.load(options.reader)
    reader.cache = {}

    with_answers = [
        (corpus, question)
        for corpus, questions in corpora
        for question in questions
        if question.answers
    ]
    statements = [each for each in with_answers if parse_question(each[1].question).statement]
    answered = [each for each in with_answers if each not in statements]

    passage_weights, span_weights, exact = fit_weights(answered, statements, reader)
    prior_weight = round(float(span_weights[0]), 2)
    reader.settings = replace(reader.settings, prior_weight=prior_weight)
    print("PASSAGE", install(PASSAGE_WEIGHTS, passage_weights))
    print("prior_weight", prior_weight, "SPAN", install(SPAN_WEIGHTS, span_weights[1:]))

    for corpus, _ in corpora:
        of_corpus = np.array([each is corpus for each, _ in answered])
        print(
            f"{corpus.name}: exact match, cross-validated in fifths, "
            f"{exact[of_corpus].mean():.3f} of {of_corpus.sum()}",
            flush=True,
        )

    # After the passages' weights, which decide what is read.
    if statements:
        sentence_weights, share = fit_sentences(statements, reader)
        fitted = {"prior": round(float(sentence_weights[0]), 2)}
        fitted |= install(SENTENCE_WEIGHTS, sentence_weights[1:])
        print("SENTENCE", fitted, f"right {share:.3f} of {len(statements)}")

    features = np.concatenate(
        [question_features(corpus, reader, questions) for corpus, questions in corpora]
    )
    labels = np.array([question.answerable for _, questions in corpora for question in questions])
    weights = fit_logistic(features, labels)
    print(
        f"calibration {np.round(weights, 3).tolist()}, {labels.sum()} answerable of {len(labels)}"
    )
    fitted_auroc = label_auroc(logistic_scores(features, weights), labels)
    held_out_auroc = cross_validated_auroc(features, labels)
    print(f"AUROC {fitted_auroc:.3f}, cross-validated {held_out_auroc:.3f}", flush=True)

    # The table is that of the reader as it would be released.
    calibration = tuple(weights.round(4).tolist())
    reader.settings = replace(reader.settings, calibration=calibration)
    if options.write:
        write_settings(reader, options.reader)
    if not options.brief:
        print_table(corpora, reader)


if __name__ == "__main__":
    main()
