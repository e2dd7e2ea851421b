"""Paths and helpers that the tests of training pairs share."""

from __future__ import annotations

import json

from purlin.index.records import Skipped
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from tests.support.paths import DATA

PAIR_FILES = DATA / "pairs"
REFERENCE = DATA / "reference"

FLOOD = json.loads((PAIR_FILES / "beir" / "corpus.jsonl").read_text().splitlines()[0])["text"]


def read_all(source: PairSource) -> tuple[list[Pair], list[Skipped]]:
    items = list(read_pairs(source))
    pairs = [item for item in items if isinstance(item, Pair)]
    return pairs, [item for item in items if isinstance(item, Skipped)]


def assert_clean(pair: Pair) -> None:
    passage = " ".join(pair.passage.split()).casefold()
    assert passage
    assert pair.queries
    for query in pair.queries:
        assert query == query.strip() != ""
        assert " ".join(query.split()).casefold() != passage
    for text in (*pair.queries, pair.passage, *pair.negatives):
        assert "\0" not in text
        text.encode()
