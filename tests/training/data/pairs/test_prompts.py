"""Texts paired with prompts for labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput, NotFound
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.data.pairs.prompts import TEMPLATES
from tests.support.files import write_jsonl

TEXTS = ["The kettle leaked on the second day.", "Rain is expected in the north.", "Which bus?"]
LABELS = ["complaint", "weather", "question"]


@pytest.fixture
def source(tmp_path: Path) -> PairSource:
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n\n")
    return PairSource(
        "prompts", texts(tmp_path / "texts.jsonl", TEXTS), labels=tmp_path / "labels.txt", prompts=4
    )


def texts(path: Path, rows: list[str], column: str = "text") -> Path:
    return write_jsonl(path, ({column: row} for row in rows))


def pairs_of(source: PairSource) -> list[tuple[str, str]]:
    items = list(read_pairs(source))
    return [(*item.queries, item.passage) for item in items if isinstance(item, Pair)]  # type: ignore[misc]


def test_each_text_has_its_number_of_different_prompts(source: PairSource) -> None:
    pairs = pairs_of(source)
    prompts = {template.format(label=label) for template in TEMPLATES for label in LABELS}
    for text in TEXTS[:2]:
        own = [passage for query, passage in pairs if query == text]
        assert len(set(own)) == len(own) == 4
        assert set(own) <= prompts

    # Of a text with two words, too vague for any format, nothing is made.
    assert {query for query, _ in pairs} == set(TEXTS[:2])


def test_a_texts_prompts_do_not_depend_on_other_texts(source: PairSource, tmp_path: Path) -> None:
    before = pairs_of(source)
    texts(tmp_path / "texts.jsonl", ["A new first line of the file.", *reversed(TEXTS)])
    after = pairs_of(source)
    assert set(before) < set(after)


def test_there_are_no_more_prompts_than_labels_in_templates(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("weather\n")
    path = texts(tmp_path / "rows.jsonl", TEXTS[:1], "title")
    labels = tmp_path / "labels.txt"
    many = PairSource("prompts", path, labels=labels, prompts=1000, column="title")
    assert len(pairs_of(many)) == len(TEMPLATES)


def test_labels_have_wordings_and_paths_as_in_classification(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("D1 = parcel | delivery\nSports > Tennis\n")
    path, labels = texts(tmp_path / "rows.jsonl", TEXTS[:1]), tmp_path / "labels.txt"
    drawn = {
        prompt for _, prompt in pairs_of(PairSource("prompts", path, labels=labels, prompts=1000))
    }
    names = ("parcel", "delivery", "Tennis (Sports)")
    assert drawn == {template.format(label=name) for template in TEMPLATES for name in names}


def test_what_the_format_needs_and_what_others_refuse(source: PairSource, tmp_path: Path) -> None:
    path = source.path
    for options, field in (
        ({"format": "prompts"}, "labels"),
        ({"format": "pairs", "labels": source.labels}, "labels"),
        ({"format": "pairs", "column": "title"}, "column"),
        ({"format": "pairs", "prompts": 2}, "prompts"),
        ({"format": "prompts", "labels": source.labels, "prompts": 0}, "prompts"),
    ):
        with pytest.raises(InvalidInput) as refusal:
            PairSource(path=path, **options)  # type: ignore[arg-type]
        assert refusal.value.field == field

    with pytest.raises(NotFound):
        list(read_pairs(PairSource("prompts", path, labels=tmp_path / "none.txt")))
    with pytest.raises(InvalidInput, match="no column 'body'"):
        list(read_pairs(PairSource("prompts", path, labels=source.labels, column="body")))
