"""Loading all sources of a recipe, and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.errors import PurlinError
from purlin.training.data.pairs.loading import load_pairs
from purlin.training.data.pairs.pair import PairSource
from tests.support.files import write_jsonl
from tests.support.pair_files import FLOOD, PAIR_FILES


def test_load_reports_what_it_leaves_out(tmp_path: Path) -> None:
    rows = [
        {"query": "fill a deck with water", "passage": FLOOD},
        {
            "query": "how to reverse a list",
            "passage": "def backwards(items):\n    return items[::-1]",
        },
        {"query": "how to sort a list", "passage": "sorted(items)"},
        {"query": "how to sort a list", "passage": "sorted(items)"},
        {"query": "", "passage": "nothing"},
    ]
    sources = [
        PairSource("pairs", PAIR_FILES / "plain.jsonl", limit=3),
        PairSource("pairs", write_jsonl(tmp_path / "mine.jsonl", rows)),
    ]
    (plain, mine), report = load_pairs(sources, [PAIR_FILES / "beir"])
    assert (len(plain), [pair.passage for pair in mine]) == (3, ["sorted(items)"])
    assert sum(source.read for source in report.sources) == 8
    assert str(report).splitlines() == [
        "plain.jsonl (pairs): 3 pairs of 3 read, 0 repeated, 0 skipped; "
        "in an evaluation set: 0 identical, 0 nearly, 0 by their query",
        "mine.jsonl (pairs): 1 pairs of 5 read, 2 repeated, 1 skipped; "
        "in an evaluation set: 1 identical, 0 nearly, 0 by their query",
        "  1 skipped: the query is empty",
        "4 pairs; 1 removed as copies from 3 evaluation documents",
    ]


def test_load_refuses_a_source_with_nothing_left(tmp_path: Path) -> None:
    (pairs,), report = load_pairs([PairSource("beir", PAIR_FILES / "beir")])
    assert (len(pairs), report.held_out) == (2, 0)
    path = write_jsonl(
        tmp_path / "a.jsonl", [{"query": "fill a deck with water", "passage": FLOOD}]
    )
    with pytest.raises(PurlinError, match=r"Nothing remains of .*1 identical"):
        load_pairs([PairSource("pairs", path)], [PAIR_FILES / "beir"])
