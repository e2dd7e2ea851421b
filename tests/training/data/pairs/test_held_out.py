"""Which pairs match evaluation sets, compared with brute force, and in linear time."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.training.data.pairs.docstrings import first_sentence, without_docstring
from purlin.training.data.pairs.held_out import (
    HeldOut,
    HeldOutDocument,
    read_held_out,
    remove_held_out,
)
from purlin.training.data.pairs.loading import load_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.dev import DevSet, read_dev_set
from tests.support.files import write_jsonl
from tests.support.pair_files import FLOOD, PAIR_FILES, read_all


@pytest.fixture(scope="module")
def held_out() -> HeldOut:
    return read_held_out([PAIR_FILES / "beir"])


def matched(
    held_out: HeldOut, passage: str, query: str = "put water somewhere in here"
) -> str | None:
    return held_out.matches(Pair((query,), passage))


def test_copies_match_despite_layout_and_comments(held_out: HeldOut) -> None:
    bare = without_docstring(FLOOD, "Fill a deck of the ship with water.")
    assert bare != FLOOD
    spaced = bare.replace("    ", "\t").replace(" = ", "=")
    commented = bare.replace("    level +=", "    # now it rises\n    level +=")
    other = FLOOD.replace("Fill a deck of the ship with water.", "Something else.")
    with_rest = f"The rest of a comment.\n{bare}"
    for passage in (FLOOD, bare, spaced, commented, other, with_rest):
        assert matched(held_out, passage) == "identical"


def test_half_a_copy_is_near(held_out: HeldOut) -> None:
    lines = without_docstring(FLOOD, "Fill a deck of the ship with water.").splitlines()
    half = "\n".join([*lines[:4], "    return log(level)"])
    assert matched(held_out, half) == "near"
    renamed = FLOOD.replace("deck", "room").replace("level", "height").replace("amount", "litres")
    assert matched(held_out, renamed) is None
    assert matched(held_out, "def other(self):\n    return 1") is None


def test_shingles_of_several_documents_do_not_add_up() -> None:
    words = [f"w{n}" for n in range(40)]
    parts = [HeldOutDocument((" ".join(words[start : start + 16]),)) for start in (0, 12, 24)]
    whole = Pair(("some query",), " ".join(words), "product")
    assert HeldOut(parts).matches(whole) is None
    assert HeldOut([*parts, HeldOutDocument((" ".join(words[:25]),))]).matches(whole) == "near"


def test_short_texts_match_only_as_a_whole() -> None:
    words = "a b c d e f g h i j k l".split()
    held_out = HeldOut([HeldOutDocument((" ".join(words),))])
    # 11 words have 4 shingles.
    assert held_out.matches(Pair(("q",), " ".join(words[:11]))) is None
    assert held_out.matches(Pair(("q",), " ".join([*words, "m"]))) == "near"
    assert held_out.matches(Pair(("q",), "".join(words).upper())) == "identical"


def test_only_long_queries_match(held_out: HeldOut) -> None:
    passage = "def open_the_valve(deck):\n    valves[deck].open()"
    assert matched(held_out, passage, "How do I let all the water out of one deck?") == "query"
    assert matched(held_out, passage, "fill deck") is None


def test_pair_files_and_bare_corpora_are_evaluation_sets(tmp_path: Path) -> None:
    held_out = read_held_out([PAIR_FILES / "plain.jsonl", PAIR_FILES / "beir" / "corpus.jsonl"])
    assert held_out.documents == 4 + 3
    kept, removed = remove_held_out(
        [Pair(("x",), FLOOD), Pair(("x",), "new = 1"), Pair(("x",), "backwards")], held_out
    )
    expected = (["new = 1", "backwards"], Counter(identical=1))
    assert ([pair.passage for pair in kept], removed) == expected
    with pytest.raises(NotFound, match=r"none"):
        read_held_out([tmp_path / "none"])
    empty = tmp_path / "set"
    empty.mkdir()
    (empty / "corpus.jsonl").write_text("\n")
    (empty / "queries.jsonl").write_text('{"_id": "1", "text": "a"}\n')
    with pytest.raises(InvalidInput, match="has no document"):
        read_held_out([empty])


def test_rows_with_short_queries_are_held_out(tmp_path: Path) -> None:
    rows = [{"query": "flood", "passage": FLOOD}, {"query": "how deep", "passage": ""}]
    measured = write_jsonl(tmp_path / "measured.jsonl", rows)
    training = [
        {"query": "fill a deck with water", "passage": FLOOD},
        {"query": "set new to one", "passage": "new = 1"},
    ]
    source = PairSource("pairs", write_jsonl(tmp_path / "train.jsonl", training))

    (pairs,), report = load_pairs([source], [measured])
    assert [pair.passage for pair in pairs] == ["new = 1"]
    assert report.held_out == 1
    assert "rows that could not be compared, 1: the passage is empty" in str(report)


SHORT = {"_id": "1", "title": "Ceramic mug", "text": "Red, with a handle for two fingers"}
LONG = {
    "_id": "2",
    "title": "Acme X200 wireless over-ear headphones with travel case",
    "text": "Folds flat at night.",
    "brand": "Harrow",
    "attrs": {"battery": "40 hours"},
}
BARE = {"_id": "3", "title": "Six yellow oak chairs without arms", "text": ""}


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("products")
    (directory / "qrels").mkdir()
    write_jsonl(directory / "corpus.jsonl", [SHORT, LONG, BARE])
    write_jsonl(directory / "queries.jsonl", [{"_id": "q", "text": "mug"}])
    judged = "".join(f"q\t{number}\t1\n" for number in (1, 2, 3))
    (directory / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return directory


@pytest.mark.parametrize(("kind", "count"), [("product", 3), ("code", 2), ("reference", 3)])
def test_titled_corpus_matches_itself_as_any_kind(products: Path, kind: Any, count: int) -> None:
    with pytest.raises(InvalidInput, match=f"in an evaluation set: {count} identical"):
        load_pairs([PairSource("beir", products, kind=kind)], [products])


def test_products_match_by_attributes_title_or_text(products: Path, tmp_path: Path) -> None:
    rows = [
        {"title": SHORT["title"], "description": SHORT["text"]},
        {
            "title": LONG["title"],
            "description": "Folds flat at night.",
            "brand": "Harrow",
            "attributes": LONG["attrs"],
        },
        {"title": LONG["title"], "description": "What the shop next door says about it, in black"},
        {"title": "Mug", "bullets": [SHORT["text"]]},
        {"title": "Ceramic mug, blue", "description": "Blue, for two"},
        {"title": "Oak chairs", "description": "Folds flat at night."},
    ]
    path = write_jsonl(tmp_path / "shop.jsonl", rows)
    (pairs,), report = load_pairs([PairSource("product", path)], [products])
    assert [pair.title for pair in pairs] == ["Ceramic mug, blue", "Oak chairs"]
    assert report.sources[0].removed == Counter(identical=3, query=1)


def test_short_title_alone_is_no_match(tmp_path: Path) -> None:
    row = {"_id": "1", "title": "noop", "text": "func noop() {\n}"}
    held_out = read_held_out([write_jsonl(tmp_path / "corpus.jsonl", [row])])
    assert held_out.matches(Pair((), "function doNothing(\nnoop)")) is None
    assert held_out.matches(Pair((), "func noop() {\n}")) == "identical"


def test_advtest_rows_are_held_out() -> None:
    held_out = read_held_out([PAIR_FILES / "advtest.jsonl"])
    moor = Pair((), "def moor ( boat ) :\n  pier . append ( boat )")
    assert held_out.matches(moor) == "identical"
    assert held_out.matches(Pair((), "def Func(arg_0):\n    return arg_0")) is None
    judged = read_dev_set(DevSet(name="AdvTest", format="pairs", path=PAIR_FILES / "advtest.jsonl"))
    expected = ["Count the boats in harbour and print them.", "Moor a boat at the pier"]
    assert list(judged.queries.values()) == expected


def brute_force(documents: Sequence[str], passage: str) -> bool:
    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[start : start + 8]) for start in range(len(words) - 7)}

    mine = shingles(passage)
    return len(mine) >= 5 and any(
        2 * len(mine & shingles(document)) >= len(mine) for document in documents
    )


@given(st.integers(0, 2**32 - 1))
def test_near_matches_equal_brute_force(seed: int) -> None:
    generator = np.random.default_rng(seed)
    base = [f"t{n}" for n in generator.integers(0, 4, size=60)]

    def stretch() -> str:
        start, length = generator.integers(0, 40), generator.integers(0, 30)
        noise = [f"n{n}" for n in generator.integers(0, 9, size=generator.integers(0, 12))]
        return " ".join([*base[start : start + length], *noise])

    documents = [stretch() for _ in range(4)]
    passage = stretch() + " end"
    held_out = HeldOut([HeldOutDocument((document,)) for document in documents])
    match = held_out.matches(Pair((), passage, "product"))
    assert match == ("near" if brute_force(documents, passage) else None)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ['"""', "/*", '"\n', "'\\\n", "#", ". ", "\n ", "a\n@", '\n"', "\\'\n"]
)
def test_matching_takes_linear_time(piece: str, held_out: HeldOut) -> None:
    text = piece * (1_000_000 // len(piece))
    assert without_docstring(text, "Fill a deck") == text
    assert matched(held_out, f"x {text}") is None
    docstring = f"Fill a deck {text[:90_000]}"
    row = {"summary": "Fill a deck with water", "docstring": docstring, "code": "x = 1"}
    with tempfile.TemporaryDirectory() as directory:
        (pair,), _ = read_all(PairSource("pairs", write_jsonl(Path(directory) / "a.jsonl", [row])))
    assert first_sentence(pair.comment, pair.queries[0])[0] == "Fill a deck with water"
