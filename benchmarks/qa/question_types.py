"""Fit what tells the type of answer that a question expects, and measure it.

    python -m benchmarks.qa.question_types [--questions questions] [--write]

Learns from `questions/training`, without what is asked about entries of the sets that are measured
or tuned on, and prints how often the likeliest class is right on the tuning halves, beside the rules
alone. `--write` replaces the weights that `purlin.index.qa.question_types` reads by those that have
learnt from the tuning halves, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from benchmarks.options import command_parser
from purlin.index.evaluation.answers import Question, read_questions
from purlin.index.qa.answer_types import expected_type, statement_kind
from purlin.index.qa.question_types import WEIGHTS, TypeWeights, question_features

MIN_MANUALS = 3  # that have a question with a group of words
INVERSE_PENALTY = 0.3  # the C of LogisticRegression
TUNING_SETS = (
    "python",
    "python-tuning",
    "python-everyday",
    "python-statements",
    "python-descriptive",
    "postgresql-tuning",
)
CLASSES = {
    "which function": "function",
    "return value": "result",
    "parameter name": "parameter",
    "default value": "value",
    "possible value": "value",
    "accepted value": "value",
    "exception raised": "exception",
    "module": "module",
    "which module": "module",
    "version": "version",
    "name of a setting": "constant",
    "variable": "variable",
    "option or flag": "option",
    "keyword or clause": "name",
    "file or path": "name",
    "other name": "name",
    "number or limit": "number",
    "limit": "number",
    "unit": "unit",
    "what happens": "condition",
    "how to": "advice",
    "what it does": "purpose",
    "why": "reason",
    "when to use": "occasion",
}


def answer_class(form: str, answer: str) -> str | None:
    """The class of a question by its form; None for forms that are of several."""
    if form == "attribute or type":
        return "type" if answer.rpartition(".")[2][:1].isupper() else "attribute"
    if form == "flag, constant or option":
        return "option" if answer.startswith("-") else "constant"
    return CLASSES.get(form)


def classified(path: Path, questions: Iterable[Question]) -> list[tuple[str, str, str]]:
    """Manual, question and class of a file's questions that have an answer and a class."""
    manual = path.stem.partition("-")[0]
    classes = [
        (each.question, answer_class(each.form, each.answers[0]))
        for each in questions
        if each.answers
    ]
    return [(manual, question, name) for question, name in classes if name is not None]


def training_questions(directory: Path) -> list[tuple[str, str, str]]:
    """Manual, question and class, without those about entries that other sets ask about."""
    sets = map(read_questions, sorted(directory.glob("*.jsonl")))
    kept_aside = {question.entry for question in chain.from_iterable(sets)}

    classes = []
    for path in sorted((directory / "training").glob("*.jsonl")):
        # The entries of other manuals are others, whatever their names.
        left_out = kept_aside if path.stem.startswith("python") else ()
        classes += classified(
            path, [each for each in read_questions(path) if each.entry not in left_out]
        )
    return classes


def tuning_questions(directory: Path, name: str) -> list[tuple[str, str, str]]:
    """Manual, question and class of the tuning half of a set."""
    path = directory / f"{name}.jsonl"
    return classified(path, read_questions(path, "dev"))


def fit(questions: list[tuple[str, str, str]]) -> TypeWeights:
    """Fit the weights, and round them to 8 bits."""
    features = [question_features(question) for _, question, _ in questions]
    manuals = defaultdict(set)
    for (manual, _, _), of_question in zip(questions, features, strict=True):
        for name in of_question:
            manuals[name].add(manual)

    names = sorted(name for name in manuals if len(manuals[name]) >= MIN_MANUALS)
    rows = {name: row for row, name in enumerate(names)}
    columns = [sorted(rows[name] for name in each if name in rows) for each in features]
    matrix = csr_matrix(
        (
            np.ones(sum(map(len, columns))),
            np.concatenate([np.array(each, dtype=np.int64) for each in columns]),
            np.cumsum([0, *map(len, columns)]),
        ),
        shape=(len(questions), len(names)),
    )

    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=300)
    model.fit(matrix, [name for _, _, name in questions])
    scale = float(np.abs(model.coef_).max()) / 127
    return TypeWeights(
        classes=tuple(map(str, model.classes_)),
        rows=rows,
        weights=np.rint(model.coef_.T / scale).astype(np.int8),
        scale=scale,
        bias=model.intercept_.astype(np.float32),
    )


def write(fitted: TypeWeights, path: Path) -> None:
    np.savez_compressed(
        path,
        classes=np.array("\n".join(fitted.classes)),
        features=np.array("\n".join(fitted.rows)),
        weights=fitted.weights,
        scale=np.float64(fitted.scale),
        bias=fitted.bias,
    )


def print_accuracy(name: str, questions: list[tuple[str, str, str]], fitted: TypeWeights) -> None:
    by_rules, by_words = [], []
    for _, question, expected in questions:
        probabilities = fitted.probabilities(question_features(question))
        by_words.append(max(probabilities, key=lambda each: probabilities[each]) == expected)
        by_rules.append((statement_kind(question) or expected_type(question).name) == expected)
    print(f"{name}: {np.mean(by_words):.3f} of {len(by_words)}, rules {np.mean(by_rules):.3f}")


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--questions", type=Path, default=Path("questions"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    questions = training_questions(options.questions)
    fitted = fit(questions)
    print(f"{len(questions):,} questions, {len(fitted.rows):,} features")

    tuning = {name: tuning_questions(options.questions, name) for name in TUNING_SETS}
    for name, of_set in tuning.items():
        print_accuracy(name, of_set, fitted)

    if options.write:
        write(fit([*questions, *chain.from_iterable(tuning.values())]), WEIGHTS)


if __name__ == "__main__":
    main()
