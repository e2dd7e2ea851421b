"""Pairs from questions over references."""

from __future__ import annotations

from pathlib import Path

import pytest

from index.errors import InvalidInput, PurlinError
from index.passages import render, split
from index.records import Document, SourceFile
from index.sources import open_source
from tests.pair_files import REFERENCE, read_all, write_jsonl
from training.data.pairs import PairSource
from training.data.questions import QuestionSource, load_questions
from training.dev import DevSet, read_dev_set


def test_template_questions_have_passages() -> None:
    pairs, _ = read_all(PairSource("templates", REFERENCE))
    assert pairs
    for pair in pairs:
        assert pair.kind == "reference"
        assert pair.queries
        assert pair.passage
    with pytest.raises(InvalidInput, match="no usable pair"):  # all entries are in the train split
        read_all(PairSource("templates", REFERENCE, split="dev"))


def test_leave_out_excludes_entries(tmp_path: Path) -> None:
    reference = REFERENCE
    pool, asked = load_questions(QuestionSource(format="templates", path=reference), {})
    entry = pool.entries[asked[0].passage]
    rows = [
        {
            "id": "1",
            "question": "which",
            "answers": ["x"],
            "entry": entry,
            "form": "a",
            "split": "test",
        }
    ]
    sets = (write_jsonl(tmp_path / "set.jsonl", rows),)
    links = [{"title": "how to do it", "entry": each} for each in dict.fromkeys(pool.entries)]
    linked = write_jsonl(tmp_path / "linked.jsonl", links)
    for keys in ({"format": "templates", "path": reference}, {"format": "linked", "path": linked}):
        with_set = keys | {
            "reference": reference if keys["format"] == "linked" else None,
            "leave_out": sets,
        }
        pool, asked = load_questions(QuestionSource(**with_set), {})  # type: ignore[arg-type]
        assert entry not in {pool.entries[one.passage] for one in asked}
        pairs, _ = read_all(PairSource(**with_set))  # type: ignore[arg-type]
        every, _ = read_all(PairSource(**with_set | {"leave_out": ()}))  # type: ignore[arg-type]
        assert (
            0 < sum(len(pair.queries) for pair in pairs) < sum(len(pair.queries) for pair in every)
        )
    elsewhere = write_jsonl(tmp_path / "other.jsonl", [rows[0] | {"entry": "no.html#where"}])
    for path, error in (
        (elsewhere, "asks about no entry"),
        (tmp_path / "none.jsonl", "no file|does not exist"),
    ):
        with pytest.raises(PurlinError, match=error):
            read_all(PairSource("templates", reference, leave_out=(path,)))
    with pytest.raises(InvalidInput, match="leave_out belongs"):
        PairSource("pairs", linked, leave_out=sets)


def test_linked_questions_get_the_first_passage(tmp_path: Path) -> None:
    reference = REFERENCE
    documents = [
        document
        for file in open_source("reference", [reference])
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
    (long, short), (skipped,) = read_all(PairSource("linked", path, reference=reference))
    assert long.queries == ("how to do it", "how to do it\nI have tried all.")
    assert short.queries == ("short",)
    assert long.passage == short.passage == render(document, split(document)[0])
    assert (skipped.line, skipped.reason) == (3, "its entry is not in the reference")


def test_question_set_gets_passages_with_answers(tmp_path: Path) -> None:
    reference = REFERENCE
    pool, _ = load_questions(QuestionSource(format="templates", path=reference), {})
    entry = next(
        entry for entry, one in zip(pool.entries, pool.passages, strict=True) if "weave" in one.text
    )
    about = {"answers": ["weave"], "entry": entry, "form": "module", "split": "train"}
    rows = [
        {"id": "1", "question": "which", **about},
        {"id": "2", "question": "where is that", **about},
    ]
    rows += [{"id": "3", "question": "and this one", **about, "split": "dev"}]
    path = write_jsonl(tmp_path / "asked.jsonl", rows)
    pairs, skipped = read_all(PairSource("questions", path, reference=reference))
    assert [pair.queries for pair in pairs] == [("which",), ("where is that",)]
    assert all("weave" in pair.passage and pair.kind == "reference" for pair in pairs)
    assert skipped == []
    known = DevSet(name="asked", path=path, format="questions", reference=reference)
    assert list(read_dev_set(known).queries.values()) == ["and this one"]
