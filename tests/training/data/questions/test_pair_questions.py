"""Pairs from questions over references."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from purlin.index.errors import InvalidInput, PurlinError
from purlin.index.records import Document, SourceFile
from purlin.index.sources import open_source
from purlin.index.texts.passages import render, split
from purlin.training.data.pairs.pair import PairSource
from purlin.training.data.questions.reader_questions import load_questions
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.data.templates.rules import PAPER_RULES
from purlin.training.dev import DevSet, read_dev_set
from tests.support.files import write_jsonl
from tests.support.pair_files import REFERENCE, read_all
from tests.support.paths import ROOT

CONFIGS = ROOT / "configs"


def entries_of(source: QuestionSource) -> set[str]:
    """Return the entries that the source's questions are about."""
    pool, questions = load_questions(source, {})
    return {pool.entries[question.passage] for question in questions}


def test_template_questions_have_passages() -> None:
    pairs, _ = read_all(PairSource("templates", REFERENCE))
    assert pairs
    for pair in pairs:
        assert pair.kind == "reference"
        assert pair.queries
        assert pair.passage

    # All entries of this small reference are in the train split.
    with pytest.raises(InvalidInput, match="no usable pair"):
        read_all(PairSource("templates", REFERENCE, split="dev"))


def test_recipes_name_the_rules_of_the_paper() -> None:
    by_word, _ = read_all(PairSource("templates", REFERENCE, rules="paper"))
    by_path, _ = read_all(PairSource("templates", REFERENCE, rules=PAPER_RULES))
    assert by_word == by_path
    _, asked = load_questions(QuestionSource(format="templates", path=REFERENCE, rules="paper"), {})
    assert {question.form for question in asked} == {"term"}


def test_recipe_of_the_paper_has_its_template() -> None:
    for name in ("refqa-dpr", "refqa-dpr-reader"):
        recipe = tomllib.loads((CONFIGS / f"{name}.toml").read_text())
        sources = [*recipe.get("pairs", ()), *recipe.get("questions", ()), *recipe["dev"]]
        assert [source["rules"] for source in sources] == ["paper", "paper"]


def test_every_question_of_a_passage_is_judged(tmp_path: Path) -> None:
    rows = [
        {"queries": ["what is red", "what has one colour"], "passage": "a red box"},
        {"queries": ["what is blue", "what has one colour"], "passage": "a blue box"},
    ]
    path = write_jsonl(tmp_path / "pairs.jsonl", rows)
    dev_set = DevSet(name="dev", path=path, format="pairs")
    judged = read_dev_set(dev_set)
    first = ["what is red", "what is blue"]
    assert list(judged.queries.values()) == [*first, *["what has one colour"] * 2]
    assert list(judged.qrels.values()) == [{"0": 1.0}, {"1": 1.0}, *[{"0": 1.0, "1": 1.0}] * 2]

    limited = read_dev_set(replace(dev_set, limit=2))
    assert list(limited.queries.values()) == first


@pytest.fixture
def entry() -> str:
    """An entry that questions are made about by template."""
    pool, questions = load_questions(QuestionSource(format="templates", path=REFERENCE), {})
    return pool.entries[questions[0].passage]


def write_question_set(path: Path, entry: str) -> Path:
    row = {"id": "1", "question": "which", "answers": ["x"], "entry": entry, "form": "a"}
    return write_jsonl(path, [row | {"split": "test"}])


@pytest.mark.parametrize("format", ["templates", "linked"])
def test_leave_out_excludes_entries(tmp_path: Path, entry: str, format: Any) -> None:
    pool, _ = load_questions(QuestionSource(format="templates", path=REFERENCE), {})
    links = [{"title": "how to do it", "entry": link} for link in dict.fromkeys(pool.entries)]
    linked = write_jsonl(tmp_path / "linked.jsonl", links)
    question_set = write_question_set(tmp_path / "set.jsonl", entry)

    options: dict[str, Any] = {"format": format, "path": REFERENCE}
    if format == "linked":
        options |= {"path": linked, "reference": REFERENCE}
    assert entry not in entries_of(QuestionSource(**options, leave_out=(question_set,)))

    pairs, _ = read_all(PairSource(**options, leave_out=(question_set,)))
    all_pairs, _ = read_all(PairSource(**options))
    kept, total = (sum(len(pair.queries) for pair in group) for group in (pairs, all_pairs))
    assert 0 < kept < total


def test_leave_out_excludes_entries_of_question_sets(tmp_path: Path, entry: str) -> None:
    """Of a directory all sets count, also where some ask about other references."""
    pool, _ = load_questions(QuestionSource(format="templates", path=REFERENCE), {})
    other = next(each for each in pool.entries if each != entry and "#" in each)
    rows = [
        {"id": about, "question": "what", "answers": [], "entry": None, "about": about, "form": "a"}
        for about in (entry, other)
    ]
    written = write_jsonl(tmp_path / "training.jsonl", [row | {"split": "train"} for row in rows])

    measured = tmp_path / "measured"
    measured.mkdir()
    write_question_set(measured / "here.jsonl", entry)
    write_question_set(measured / "elsewhere.jsonl", "no.html#where")
    options: dict[str, Any] = {"format": "questions", "path": written, "reference": REFERENCE}
    assert entries_of(QuestionSource(**options)) == {entry, other}
    assert entries_of(QuestionSource(**options, leave_out=(measured,))) == {other}


def test_useless_leave_out_is_refused(tmp_path: Path, entry: str) -> None:
    elsewhere = write_question_set(tmp_path / "other.jsonl", "no.html#where")
    for path, error in (
        (elsewhere, "asks about no entry"),
        (tmp_path / "none.jsonl", "no file|does not exist"),
    ):
        with pytest.raises(PurlinError, match=error):
            read_all(PairSource("templates", REFERENCE, leave_out=(path,)))

    question_set = write_question_set(tmp_path / "set.jsonl", entry)
    with pytest.raises(InvalidInput, match="leave_out belongs"):
        PairSource("pairs", REFERENCE, leave_out=(question_set,))


def test_linked_questions_get_the_first_passage(tmp_path: Path) -> None:
    documents = [
        document
        for file in open_source("reference", [REFERENCE])
        if isinstance(file, SourceFile)
        for document in file.read()
        if isinstance(document, Document)
    ]
    document = next(document for document in documents if document.title == "loom.weave")
    entry = document.location.url
    rows = [
        {"title": "how to do it", "question": "I have tried all.", "entry": entry},
        {"title": "short", "question": "", "entry": entry},
        {"title": "elsewhere", "question": "", "entry": "no.html#where"},
    ]
    path = write_jsonl(tmp_path / "linked.jsonl", rows)

    (long, short), (skipped,) = read_all(PairSource("linked", path, reference=REFERENCE))
    assert long.queries == ("how to do it", "how to do it\nI have tried all.")
    assert short.queries == ("short",)
    assert long.passage == short.passage == render(document, split(document)[0])
    assert (skipped.line, skipped.reason) == (3, "its entry is not in the reference")


def test_question_set_gets_passages_with_answers(tmp_path: Path) -> None:
    pool, _ = load_questions(QuestionSource(format="templates", path=REFERENCE), {})
    entry = next(
        entry
        for entry, passage in zip(pool.entries, pool.passages, strict=True)
        if "weave" in passage.text
    )
    common = {"answers": ["weave"], "entry": entry, "form": "module", "split": "train"}
    rows = [
        {"id": "1", "question": "which", **common},
        {"id": "2", "question": "where is that", **common},
        {"id": "3", "question": "and this", **common, "split": "dev"},
    ]
    path = write_jsonl(tmp_path / "questions.jsonl", rows)

    pairs, skipped = read_all(PairSource("questions", path, reference=REFERENCE))
    assert [pair.queries for pair in pairs] == [("which",), ("where is that",)]
    assert all("weave" in pair.passage and pair.kind == "reference" for pair in pairs)
    assert skipped == []

    dev_set = DevSet(name="dev", path=path, format="questions", reference=REFERENCE)
    assert list(read_dev_set(dev_set).queries.values()) == ["and this"]
