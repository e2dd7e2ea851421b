from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from purlin.cli import evaluate
from purlin.index.classify.trained import publish_classifier
from purlin.index.errors import InvalidInput, NotFound, PurlinError
from purlin.index.evaluation.labels import check_truth, evaluate_labels, read_labelled
from purlin.index.evaluation.ranking import read_list
from purlin.index.records import Classification, LabelScore
from tests.support.tiny import staged

ROWS = [
    {"text": "sports news", "label": "sports"},
    {"text": "business", "label": "business", "id": 7},
]


def _result(label: str | None, score: float) -> Classification:
    return Classification(label, score, 0.1, (LabelScore(label or "a", score),))


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_rows_are_read(tmp_path: Path, name: str) -> None:
    content = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    assert read_labelled(_write(tmp_path / name, content)) == (
        ["sports news", "business"],
        ["sports", "business"],
    )


def test_label_names_are_lines(tmp_path: Path) -> None:
    assert read_list(_write(tmp_path / "labels.txt", b"good\r\n\n very bad \n")) == [
        "good",
        "very bad",
    ]
    with pytest.raises(NotFound):
        read_list(tmp_path / "none")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_list(_write(tmp_path / "labels.txt", b"\xff"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b'{"text": "a", "label": "b"}\n{"text": "a"}\n', "line 2 is not a JSON object"),
        (b"[]\n", "line 1"),
        (b'{"text": " ", "label": "b"}\n', "line 1"),
        (b'{"text": 1, "label": "b"}\n', "line 1"),
        (b"[" * 100_000, "line 1"),
        (b'{"text": "\xff", "label": "b"}\n', "UTF-8"),
        (b'{"text": "' + b"a" * 2**20 + b'", "label": "b"}\n', "line 1 has more than 1,048,576"),
    ],
)
def test_invalid_line_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read_labelled(_write(tmp_path / "rows.jsonl", content))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_labelled(tmp_path / "none.jsonl")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"{}" * 1000)[:-12])
    with pytest.raises(PurlinError):
        read_labelled(tmp_path / "cut.jsonl.gz")


def test_accuracy_score_and_recalls_are_means_over_texts() -> None:
    results = [_result("a", 0.9), _result("b", 0.7), _result("b", 0.6), _result(None, 0.2)]
    means = {
        measure.name: measure.mean for measure in evaluate_labels(results, ["a", "b", "a", "b"])
    }
    assert means == pytest.approx(
        {"accuracy": 0.5, "answered": 0.75, "score": 0.6, "recall of a": 0.5, "recall of b": 0.5}
    )
    assert [measure.name for measure in evaluate_labels(results[:1], ["a"])] == [
        "accuracy",
        "score",
        "recall of a",
    ]


def test_rows_with_unknown_labels_are_refused() -> None:
    check_truth(["a", "a"], ["a", "b"])
    with pytest.raises(InvalidInput, match=r"1 labels of the rows .* 'c'"):
        check_truth(["a", "c", "c"], ["a", "b"])


def test_command_measures_a_classifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = _write(tmp_path / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS).encode())
    labels = _write(tmp_path / "labels.txt", b"sports\nbusiness\nworld\n")
    encoder = staged(tmp_path / "staged") / "encoder"
    evaluate.evaluate_classify(
        rows, labels=labels, template=["{label}"], as_json=True, encoder=encoder
    )
    by_names = json.loads(capsys.readouterr().out)
    assert (by_names[0]["name"], by_names[0]["mean"], by_names[0]["queries"]) == (
        "accuracy",
        1.0,
        2,
    )
    publish_classifier(tmp_path / "home", "tickets", tmp_path / "staged")
    evaluate.evaluate_classify(rows, classifier="tickets", as_json=True, home=tmp_path / "home")
    assert json.loads(capsys.readouterr().out)[0]["mean"] == 1.0
    for wrong in (
        {},
        {"labels": labels, "classifier": "tickets"},
        {"classifier": "tickets", "template": ["{label}"]},
    ):
        with pytest.raises(InvalidInput, match="either --labels"):
            evaluate.evaluate_classify(rows, **wrong)  # type: ignore[arg-type]


def test_a_text_without_a_label_is_right_if_it_gets_none(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "rows.jsonl", b'{"text": "x", "label": null}\n{"text": "y", "label": "a"}\n'
    )
    texts, truth = read_labelled(path)
    check_truth(truth, ["a"])
    assert (texts, truth) == (["x", "y"], [None, "a"])

    results = [Classification(None, 0.2, 0.1, ()), Classification(None, 0.3, 0.1, ())]
    measures = {each.name: each.mean for each in evaluate_labels(results, truth)}
    assert measures["accuracy"] == 0.5
    assert (measures["recall of null"], measures["recall of a"]) == (1.0, 0.0)
