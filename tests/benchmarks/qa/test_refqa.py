"""The ablation on reference QA: what its systems are measured on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from benchmarks.qa import refqa
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair
from purlin.training.data.templates.generation import split_of
from tests.support.files import write_jsonl

ADJECTIVES = ("red", "old", "wide", "calm", "thin", "loud")
NOUNS = ("lake", "door", "path", "stone", "tower")
ENTRIES = [f"{first}_{second}" for first, second in product(ADJECTIVES, NOUNS)]


def write_data(directory: Path) -> Path:
    """Write a reference of 30 functions, and a question about the first of them."""
    library = directory / "references" / "python3.11" / "library"
    library.mkdir(parents=True)
    definitions = "".join(
        f'<dl class="py function"><dt id="{name}"><b class=descname>{name}</b>(x)</dt>'
        f"<dd>Return the {name.replace('_', ' ')} that lies behind the {number + 10}th hill.</dd></dl>"
        for number, name in enumerate(ENTRIES)
    )
    (library / "page.html").write_text(f"<h1>Places</h1>{definitions}")
    row = {"id": "1", "question": "what gives the red lake?", "answers": ["red_lake"]}
    row |= {"entry": "library/page.html#red_lake", "form": "term", "split": "dev"}
    write_jsonl(directory / "asked.jsonl", [row])
    return directory


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    data = write_data(tmp_path / "data")

    def command(*options: str) -> None:
        paths = ["--data", data, "--out", tmp_path / "out", "--questions", data / "asked.jsonl"]
        arguments = [*map(str, paths), "--trained", "bm25", "--reader", "none", *options]
        monkeypatch.setattr(sys, "argv", ["refqa.py", *arguments])
        refqa.main()

    return command


def test_template_test_is_reported_apart(
    run: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    run("--splitters", "structure")
    alone = capsys.readouterr().out
    run("--splitters", "structure", "--template-test")
    both = capsys.readouterr().out

    count = sum(split_of(f"library/page.html#{name}") == "test" for name in ENTRIES)
    assert count > 1
    assert both.startswith(alone)
    own, by_template = both.split(f"{count} questions by template; passages:")
    assert own.startswith("1 questions; passages: structure")
    assert "| structure | bm25 | " in by_template
    # BM25 finds what repeats the words of the question.
    assert "1.000 (1.000 to 1.000)" in by_template


@pytest.mark.parametrize("reader", ["released", "trained"])
def test_no_reader_that_may_know_the_template_test_is_measured_on_it(
    run: Callable[..., None], capsys: pytest.CaptureFixture[str], reader: str
) -> None:
    with pytest.raises(SystemExit):
        run("--template-test", "--reader", reader)
    assert "the released reader has learnt" in capsys.readouterr().err


def test_template_test_asks_about_other_entries_than_training(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[refqa.Ablation] = []
    monkeypatch.setattr(refqa, "print_report", lambda ablation, kinds: seen.append(ablation))
    run("--template-test")
    _, ablation = seen
    questions = ablation.questions()
    assert all(question.entry for question in questions)
    for question, relevant in zip(questions, ablation.relevant("structure"), strict=True):
        assert question.answers[0] in question.entry
        assert relevant

    trained = [
        query
        for pair in read_pairs(ablation.source("structure", "template"))
        if isinstance(pair, Pair)
        for query in pair.queries
    ]
    assert trained
    assert not {question.question for question in questions} & set(trained)
