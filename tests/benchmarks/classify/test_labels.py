"""The benchmark of classification by names: its data, and its figures on texts that are easy."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.classify import labels as benchmark
from purlin.index.classify.zero_shot import Classifier
from purlin.index.evaluation.ranking import read_records
from tests.support.hash_encoder import HashEncoder

QUESTIONS = benchmark.QUESTIONS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sets with one row for each described label, whose text is the label."""
    descriptions = json.loads((QUESTIONS / "descriptions.json").read_text())
    for name in benchmark.SETS:
        labels = list(descriptions[name])
        (tmp_path / name).mkdir()
        rows = (json.dumps({"text": f"all about {label}", "label": label}) for label in labels)
        (tmp_path / name / "dev.jsonl").write_text("\n".join(rows) + "\n")
        (tmp_path / name / "labels.txt").write_text("\n".join(labels) + "\n")
    return tmp_path


def test_tickets_are_what_the_page_says() -> None:
    tickets = [ticket for _, ticket in read_records(QUESTIONS / "tickets.jsonl")]
    names = set(json.loads((QUESTIONS / "descriptions.json").read_text())["tickets"])

    assert len({ticket["text"] for ticket in tickets}) == 200
    assert Counter(len(ticket["labels"]) for ticket in tickets) == {1: 170, 2: 12, 0: 18}
    assert {label for ticket in tickets for label in ticket["labels"]} == names


def test_small_sets_are_what_the_page_says() -> None:
    sets = {labelled.name: labelled for labelled in benchmark.read_written()}
    templates = json.loads((QUESTIONS / "templates.json").read_text())
    assert {name: (len(set(each.texts)), len(each.labels)) for name, each in sets.items()} == {
        "town": (46, 11),
        "bugs": (37, 9),
        "recipes": (32, 14),
        "voice": (60, 15),
        "logs": (40, 8),
        "clauses": (36, 12),
        "survey": (68, 9),
        "comments": (67, 8),
        "hotel": (70, 9),
        "patients": (72, 9),
        "apps": (74, 9),
    }
    assert templates.keys() == sets.keys()
    for each in sets.values():
        assert {label for labels in each.truth for label in labels} == set(each.labels)
        if each.examples:
            assert each.examples.keys() == set(each.labels)
            assert not set(each.texts) & {text for of in each.examples.values() for text in of}


def test_written_texts_do_not_repeat() -> None:
    texts = [
        json.loads(line)["text"]
        for path in sorted((QUESTIONS.parent / "texts").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    assert len(texts) == len(set(texts)) == 4729


def test_figures_of_texts_that_say_their_label(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = {labelled.name: labelled for labelled in benchmark.read_sets(data)}
    classifier = Classifier(HashEncoder())

    benchmark.print_names(classifier, [sets["ag_news"]])
    assert "ag_news, 4: 1.000 (1.000 to 1.000) |" in capsys.readouterr().out
    benchmark.print_several(classifier, [sets["amazon_polarity"]])
    # The texts have the templates' words, so that both labels pass each threshold.
    assert (
        "amazon_polarity: 0.50, 1.00 | 0.50, 1.00 | 0.50, 1.00 | 0.50, 1.00"
        in capsys.readouterr().out
    )

    dbpedia = sets["dbpedia"]
    hits = benchmark.right(classifier, dbpedia, dbpedia.labels)
    assert len(hits) == 14
    benchmark.print_paths(classifier, dbpedia)
    assert f"name alone: {sum(hits) / 14:.3f}\n" in capsys.readouterr().out


def test_pairs_are_compared_by_direction(
    data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = {"same": [["one two", "two one"]], "different": [["red", "blue"], ["go", "go"]]}
    (tmp_path / "pairs.json").write_text(json.dumps(pairs))
    monkeypatch.setattr(benchmark, "QUESTIONS", tmp_path)

    benchmark.print_similar(Classifier(HashEncoder()))
    assert "0.95: 1.00; 0.50 [['go', 'go']]" in capsys.readouterr().out


def test_texts_are_encoded_once() -> None:
    encoder = HashEncoder()
    remembering = benchmark.Remembering(encoder)

    first = remembering.encode(["a", "b", "a"], role="query")
    again = remembering.encode(["b"], role="query")
    assert encoder.encoded == ["a", "b"]
    assert (first[1] == again[0]).all()
    assert remembering.name == "hash"
