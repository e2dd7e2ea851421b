from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.qa.question_types import answer_class, fit, training_questions, write
from purlin.index.qa import question_types
from purlin.index.qa.answer_types import STATEMENT_KINDS, TYPES_BY_NAME
from purlin.index.qa.question_types import class_probabilities, question_features, released_weights
from tests.support.files import write_jsonl


def record(question: str, form: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": question,
        "question": question,
        "form": form,
        "answers": ["x"],
        "entry": "a.html#x",
        "split": "dev",
    } | fields


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    for manual in ("python", "git", "sqlite"):
        records = [
            record(f"reading {manual} twice, what blows up", "exception raised"),
            record(f"oldest release that has {manual}", "version"),
            record(f"what must {manual} be imported as", "module"),
            record("asked about in a set", "version", entry="kept.html#aside"),
            record("answered by nothing", "version", answers=[]),
            record("of several kinds", "another form"),
        ]
        write_jsonl(tmp_path / "training" / f"{manual}.jsonl", records)
    write_jsonl(tmp_path / "python.jsonl", [record("measured", "version", entry="kept.html#aside")])
    return tmp_path


def test_questions_about_measured_entries_are_left_out_of_training(questions: Path) -> None:
    learnt = training_questions(questions)
    # Other manuals have entries of their own, whatever their names.
    assert sum(question == "asked about in a set" for _, question, _ in learnt) == 2
    assert ("python", "oldest release that has python", "version") in learnt
    assert {name for _, _, name in learnt} == {"exception", "version", "module"}


@pytest.mark.parametrize(
    ("form", "answer", "expected"),
    [
        ("attribute or type", "shop.Door", "type"),
        ("attribute or type", "Door.width", "attribute"),
        ("flag, constant or option", "--quiet", "option"),
        ("flag, constant or option", "O_QUIET", "constant"),
        ("why", "Since it is.", "reason"),
        ("parameter", "It is.", None),
    ],
)
def test_each_form_has_the_class_of_its_answer(
    form: str, answer: str, expected: str | None
) -> None:
    assert answer_class(form, answer) == expected


def test_fitted_weights_are_read_again(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = fit(training_questions(questions))
    # Words of one manual's questions alone have no weights.
    assert "blows" in fitted.rows
    assert "sqlite" not in fitted.rows

    monkeypatch.setattr(question_types, "WEIGHTS", tmp_path / "weights.npz")
    write(fitted, tmp_path / "weights.npz")
    released_weights.cache_clear()
    try:
        for question in ("closing it twice, what blows up", "oldest release that has a walrus"):
            expected = fitted.probabilities(question_features(question))
            assert class_probabilities(question) == pytest.approx(expected)
        assert max(expected, key=lambda name: expected[name]) == "version"
    finally:
        released_weights.cache_clear()


def test_released_classes_are_types_and_kinds_of_statements() -> None:
    assert set(released_weights().classes) <= TYPES_BY_NAME.keys() | set(STATEMENT_KINDS)
