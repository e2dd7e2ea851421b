from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from purlin.cli import evaluate
from purlin.index.classify.trained import publish_classifier
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.evaluation.labels import confusions, evaluate_labels, evaluate_several
from purlin.index.evaluation.ranking import read_list
from purlin.index.records import Classification, LabelScore
from tests.support.files import write_file, write_jsonl
from tests.support.tiny import staged

ROWS = [
    {"text": "sports news", "label": "sports"},
    {"text": "business", "label": "business", "id": 7},
]


def _result(label: str | None, score: float) -> Classification:
    return Classification(label, score, 0.1, (LabelScore(label or "a", score),))


def test_label_names_are_lines(tmp_path: Path) -> None:
    expected = ["good", "very bad"]
    assert read_list(write_file(tmp_path / "labels.txt", b"good\r\n\n very bad \n")) == expected
    with pytest.raises(NotFound):
        read_list(tmp_path / "none")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_list(write_file(tmp_path / "labels.txt", b"\xff"))


def test_accuracy_score_recall_and_precision_are_means_over_texts() -> None:
    results = [_result("a", 0.9), _result("b", 0.7), _result("b", 0.6), _result(None, 0.2)]
    means = {
        measure.name: measure.mean for measure in evaluate_labels(results, ["a", "b", "a", "b"])
    }
    assert means == pytest.approx(
        {
            "accuracy": 0.5,
            "answered": 0.75,
            "score": 0.6,
            "recall of a": 0.5,
            "precision of a": 1.0,
            "recall of b": 0.5,
            "precision of b": 0.5,
        }
    )
    names = [measure.name for measure in evaluate_labels(results[:1], ["a"])]
    assert names == ["accuracy", "score", "recall of a", "precision of a"]
    # No text got b.
    names = [measure.name for measure in evaluate_labels(results[:1], ["b"])]
    assert names == ["accuracy", "score", "recall of b"]


def test_confusions_are_pairs_of_labels_with_the_texts_of_each() -> None:
    results = [_result(label, 0.5) for label in ("a", "b", "b", None, "b", "a")]
    truth = ["a", "a", "c", "a", "a", None]
    assert confusions(results, truth) == [
        ("a", "b", [1, 4]),
        ("c", "b", [2]),
        ("a", None, [3]),
        (None, "a", [5]),
    ]


def test_command_shows_which_labels_are_taken_for_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"sports {number}" for number in range(7)]
    wrong = [{"text": text, "label": "business [b]"} for text in texts]
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"text": "sports", "label": "sports"}, *wrong])
    labels = write_file(tmp_path / "labels.txt", b"sports\nbusiness [b]\n")
    encoder = staged(tmp_path / "staged") / "encoder"
    options = {"labels": labels, "template": ["{label}"], "encoder": encoder}

    evaluate.evaluate_classify(rows, **options)  # type: ignore[arg-type]
    *_, heading, pair = capsys.readouterr().out.strip().splitlines()
    assert heading.split() == ["label", "taken", "for", "texts", "rows"]
    assert pair.split() == "business [b] sports 7 2, 3, 4, 5, 6, …".split()

    right = write_jsonl(tmp_path / "right.jsonl", [{"text": "sports", "label": "sports"}])
    evaluate.evaluate_classify(right, **options)  # type: ignore[arg-type]
    assert "taken for" not in capsys.readouterr().out


def test_command_measures_a_classifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", ROWS)
    labels = write_file(tmp_path / "labels.txt", b"sports\nbusiness\nworld\n")
    encoder = staged(tmp_path / "staged") / "encoder"
    evaluate.evaluate_classify(
        rows, labels=labels, template=["{label}"], as_json=True, encoder=encoder
    )
    by_names = json.loads(capsys.readouterr().out)
    assert by_names[0].items() >= {"name": "accuracy", "mean": 1.0, "queries": 2}.items()
    publish_classifier(tmp_path / "home", "tickets", tmp_path / "staged")
    evaluate.evaluate_classify(rows, classifier="tickets", as_json=True, home=tmp_path / "home")
    assert json.loads(capsys.readouterr().out)[0]["mean"] == 1.0
    for wrong in (
        {},
        {"labels": labels, "classifier": "tickets"},
        {"classifier": "tickets", "template": ["{label}"]},
        {"classifier": "tickets", "multi": True},
    ):
        with pytest.raises(InvalidInput, match="either --labels"):
            evaluate.evaluate_classify(rows, **wrong)  # type: ignore[arg-type]


def test_rows_without_a_text_are_left_out_and_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_file(tmp_path / "rows.csv", b"text,label\n,sports\nsports news,sports\n ,sports\n")
    labels = write_file(tmp_path / "labels.txt", b"sports\nbusiness\n")
    encoder = staged(tmp_path / "staged") / "encoder"
    evaluate.evaluate_classify(rows, labels=labels, as_json=True, encoder=encoder)
    captured = capsys.readouterr()
    assert json.loads(captured.out)[0]["queries"] == 1
    assert "2 rows without a text left out: 2, 4" in captured.err

    empty = write_file(tmp_path / "empty.csv", b"text,label\n,sports\n")
    with pytest.raises(InvalidInput, match="There are no texts"):
        evaluate.evaluate_classify(empty, labels=labels, encoder=encoder)


def test_tags_are_measured_or_taken_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = [{"text": "sports news today", "label": "sports"}]
    tagged = [{"text": "<p>sports</p>news <b>today</b>", "label": "sports"}]
    labels = write_file(tmp_path / "labels.txt", b"sports\nbusiness\n")
    encoder = staged(tmp_path / "staged") / "encoder"

    measured = []
    for number, (row, html) in enumerate([(plain, False), (tagged, True), (tagged, False)]):
        rows = write_file(tmp_path / f"{number}.jsonl", json.dumps(row[0]).encode())
        evaluate.evaluate_classify(rows, labels=labels, html=html, as_json=True, encoder=encoder)
        captured = capsys.readouterr()
        measured.append(
            (json.loads(captured.out)[1]["mean"], "1 text has HTML tags" in captured.err)
        )

    (score, _), without_tags, (with_tags, is_warned) = measured
    assert without_tags == (score, False)
    assert is_warned
    assert with_tags != score


def test_a_table_with_another_suffix_is_refused_with_a_remedy(tmp_path: Path) -> None:
    rows = write_file(tmp_path / "rows.txt", b"text\tlabel\nsports news\tsports\n")
    labels = write_file(tmp_path / "labels.txt", b"sports\nbusiness\n")
    with pytest.raises(
        InvalidInput, match=r"read as JSON Lines if its name ends in none of .*rename"
    ):
        evaluate.evaluate_classify(rows, labels=labels)


def test_what_misleads_about_the_measures_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["Der Fahrer hat das Paket bei der Nachbarin im falschen Haus abgegeben."] * 3
    rows = write_jsonl(
        tmp_path / "rows.jsonl", [{"text": text, "label": "type 1 diabetes"} for text in texts]
    )
    labels = write_file(tmp_path / "labels.txt", b"type 1 diabetes\ntype 2 diabetes\n")
    evaluate.evaluate_classify(rows, labels=labels)
    errors = " ".join(capsys.readouterr().err.split())
    assert "3 of 3 texts are in another language than English" in errors
    assert "'type 1 diabetes' and 'type 2 diabetes'" in errors


def test_rows_without_a_label_are_warned_of_where_every_text_gets_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_jsonl(
        tmp_path / "rows.jsonl",
        [{"text": "sports", "label": "sports"}, {"text": "tea", "label": None}],
    )
    labels = write_file(tmp_path / "labels.txt", b"sports\nbusiness\n")
    encoder = staged(tmp_path / "staged") / "encoder"

    evaluate.evaluate_classify(rows, labels=labels, encoder=encoder)
    assert "1 of 2 rows have no label" in " ".join(capsys.readouterr().err.split())
    evaluate.evaluate_classify(rows, labels=labels, encoder=encoder, min_score=0.6)
    assert "no label" not in capsys.readouterr().err


def test_a_text_without_a_label_is_right_if_it_gets_none() -> None:
    results = [Classification(None, 0.2, 0.1, ()), Classification(None, 0.3, 0.1, ())]
    measures = {each.name: each.mean for each in evaluate_labels(results, [None, "a"])}
    assert measures["accuracy"] == 0.5
    assert (measures["recall of null"], measures["recall of a"]) == (1.0, 0.0)
    assert measures["precision of null"] == 0.5


def test_measures_of_several_labels() -> None:
    # By hand: right 2 of 2 given and 3 true; none of 1 and 1; none given and none true; none of 1.
    results = [("a", "b"), ("a",), (), ()]
    truth = [("a", "b", "c"), ("b",), (), ("c",)]
    measures = {each.name: (each.mean, each.queries) for each in evaluate_several(results, truth)}
    assert measures == {
        "F1": (pytest.approx((0.8 + 0 + 1 + 0) / 4), 4),
        "precision": (0.5, 2),
        "recall": (pytest.approx(2 / 9), 3),
        "all right": (0.25, 4),
        "recall of a": (1.0, 1),
        "precision of a": (0.5, 2),
        "recall of b": (0.5, 2),
        "precision of b": (1.0, 1),
        "recall of c": (0.0, 2),
    }


def test_f1_of_several_labels_is_that_of_scikit_learn() -> None:
    theirs = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(3)
    results, truth = generator.random((2, 50, 4)) < 0.5
    names = np.array(["a", "b", "c", "d"])
    measures = {
        each.name: each.mean
        for each in evaluate_several([names[row] for row in results], [names[row] for row in truth])
    }

    assert measures["F1"] == pytest.approx(
        theirs.f1_score(truth, results, average="samples", zero_division=1.0)
    )
    assert measures["all right"] == theirs.accuracy_score(truth, results)


def test_command_measures_several_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_file(
        tmp_path / "rows.csv",
        b"body,tags\nsports news,sports|world\nbusiness,business\nnothing,\n",
    )
    labels = write_file(tmp_path / "labels.txt", b"sports\nbusiness\nworld\n")
    encoder = staged(tmp_path / "staged") / "encoder"

    def measured(min_score: float) -> dict[str, float]:
        columns = {"column": "body", "label_column": "tags"}
        options = {"multi": True, "min_score": min_score, "as_json": True, "encoder": encoder}
        evaluate.evaluate_classify(rows, labels=labels, **columns, **options)
        return {each["name"]: each["mean"] for each in json.loads(capsys.readouterr().out)}

    # Every label fits, of which one text has two, one has one, and one none.
    everything = measured(1e-9)
    assert everything["precision"] == pytest.approx((2 / 3 + 1 / 3 + 0) / 3)
    assert everything["recall"] == 1.0
    # No label fits, which is right for one text.
    nothing = measured(1.0)
    assert (nothing["F1"], nothing["recall"]) == (pytest.approx(1 / 3), 0.0)
    assert "precision" not in nothing
