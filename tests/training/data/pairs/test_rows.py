"""Tables with one pair per row."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput
from purlin.index.records import Skipped
from purlin.training.data.pairs.pair import MAX_PAIR_CHARS, Pair, PairSource
from purlin.training.data.pairs.rows import PASSAGE_COLUMNS, function_key
from purlin.training.dev import DevSet, read_dev_set
from tests.support.files import write_jsonl
from tests.support.pair_files import PAIR_FILES, read_all
from tests.support.paths import ROOT


def test_plain_rows_are_read_as_pairs() -> None:
    (mean, close, reverse, mug), skipped = read_all(PairSource("pairs", PAIR_FILES / "plain.jsonl"))
    assert skipped == []
    assert mean == Pair(
        (
            "Return the arithmetic mean of some numbers",
            "Return the arithmetic mean of\nsome numbers.  Empty input raises.\n\nNo weights are taken.",
        ),
        "def mean(numbers):\n    return sum(numbers) / len(numbers)",
        language="python",
        comment=mean.queries[1],
    )
    assert close.queries == ("Close stops the ring and wakes its readers.",)
    expected = ("python", ("def first(items):\n    return items[0]",))
    assert (reverse.language, reverse.negatives) == expected
    passage, title = "Harrow enamel mug, 12 oz", "Harrow enamel mug"
    assert mug == Pair(("enamel mug for camping",), passage, "product", title=title)


def test_bad_rows_are_skipped_with_line_and_reason() -> None:
    pairs, skipped = read_all(PairSource("pairs", PAIR_FILES / "bad.jsonl"))
    assert [pair.language for pair in pairs] == ["cobol"]
    assert [(row.path, row.line) for row in skipped] == [
        ("bad.jsonl", line) for line in range(1, 8)
    ]
    reasons = [row.reason for row in skipped]
    assert reasons[:4] == [
        "the passage is empty",
        "the query is empty",
        "query and passage are the same",
        "the query has fewer than 3 words and 12 characters",
    ]
    assert (
        reasons[4]
        == "has no passage: looked for a column " + " or ".join(PASSAGE_COLUMNS) + ", it has text"
    )
    assert reasons[5].startswith("is not valid JSON")
    assert reasons[6] == 'is not a JSON object as {"column": "value"}'


def test_invalid_and_long_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    huge, long = (
        json.dumps({"query": "a function that is too long", "passage": passage}).encode()
        for passage in ("x = 1\n" * 200_000, "x" * (MAX_PAIR_CHARS + 1))
    )
    good = b'{"query": "one with\\u0000 a surrogate \\ud83d half", "passage": "it = 1\\u0000"}'
    bad = b'{"query": "caf\xe9 au lait to go", "passage": "coffee()"}'
    path.write_bytes(b"\n".join([bad, huge, good, long]))
    (pair,), skipped = read_all(PairSource("pairs", path))
    assert (pair.queries, pair.passage) == (("one with a surrogate  half",), "it = 1")
    assert {row.line: row.reason for row in skipped} == {
        1: "the line is not UTF-8",
        2: "is longer than 1,048,576 characters",
        4: "the passage is longer than 100,000 characters",
    }


def test_a_codesearchnet_directory_is_read_as_pairs() -> None:
    pairs, skipped = read_all(PairSource("codesearchnet", PAIR_FILES / "codesearchnet"))
    tide, wind, stop = pairs
    expected = (("Height of the water above datum, in metres.",), "java")
    assert (tide.queries, tide.language) == expected
    assert wind.queries == (
        "Wind the clock by some turns.",
        "Wind the clock by some turns. Never overwinds.\n\n:param turns: how many",
    )
    assert (
        wind.passage
        == "def wind(self, turns=3):\n    self.spring = min(self.limit, self.spring + turns)"
    )
    docstring = "Stop the clock at once"
    assert stop == Pair(
        (docstring,), "def stop(self):\n    self.spring = 0", language="python", comment=docstring
    )
    assert skipped == [Skipped("python_train_0.jsonl", "is not of the split train", 3)]
    (tick,), _ = read_all(PairSource("codesearchnet", PAIR_FILES / "codesearchnet", split="test"))
    assert tick.queries == ("Move the hands by a second.",)


def test_whole_docstrings_alone_can_be_queries() -> None:
    plain, _ = read_all(PairSource("codesearchnet", PAIR_FILES / "codesearchnet"))
    whole, _ = read_all(PairSource("codesearchnet", PAIR_FILES / "codesearchnet", summaries=False))

    assert max(len(pair.queries) for pair in plain) == 2
    assert [pair.queries for pair in whole] == [pair.queries[-1:] for pair in plain]
    with pytest.raises(InvalidInput, match="summaries = false belongs to"):
        PairSource("pairs", PAIR_FILES / "plain.jsonl", summaries=False)


def test_advtest_rows_are_read_as_pairs() -> None:
    (count, moor), _ = read_all(PairSource("advtest", PAIR_FILES / "advtest.jsonl"))
    docstring = "Count the boats in harbour"
    code = "def Func(arg_0):\n    print(len(arg_0))"
    assert count == Pair((docstring,), code, language="python", comment=docstring)
    assert moor.passage == "def moor ( boat ) : pier . append ( boat )"


def test_cosqa_rejects_become_negatives() -> None:
    (ordered, rows), (empty,) = read_all(PairSource("cosqa", PAIR_FILES / "cosqa.json"))
    assert ordered.queries == ("python sort dict",)
    assert '"""Order by key."""' in ordered.passage
    assert ordered.negatives == ("def keys(d):\n    return list(d)",)
    assert rows.negatives == ()
    assert empty == Skipped("cosqa.json", "the code is empty", 4)


# -- searches ------------------------------------------------------------------------------------

CLOSE = {
    "language": "python",
    "source": "ring",
    "docstring": "Close the ring.",
    "code": 'def close(ring):\n    """Close the ring."""\n    ring.stop()\n',
}
DEPTH = {"language": "go", "source": "sea", "docstring": "Depth is.", "code": "func Depth() {\n}"}


def write_searches(tmp_path: Path, *rows: dict[str, object]) -> PairSource:
    functions = write_jsonl(tmp_path / "functions.jsonl", [CLOSE, DEPTH])
    searches = write_jsonl(tmp_path / "searches.jsonl", rows)
    return PairSource("searches", searches, reference=functions)


def test_searches_lead_to_functions_of_a_table(tmp_path: Path) -> None:
    key = function_key("def close(ring):\n    ring.stop()")
    source = write_searches(
        tmp_path,
        {"function": key, "queries": ["stop it", "where does a ring end"], "split": "train"},
        {"function": function_key(DEPTH["code"]), "queries": ["how deep"], "split": "dev"},
        {"function": "0123456789abcdef", "queries": ["of another version"], "split": "train"},
    )
    (pair,), (skipped,) = read_all(source)
    assert pair == Pair(
        ("stop it", "where does a ring end"),
        "def close(ring):\n    ring.stop()",
        language="python",
        comment="Close the ring.",
        group="ring",
        searches=True,
    )
    assert (skipped.path, skipped.line) == ("searches.jsonl", 3)
    assert skipped.reason == "its function is not in the reference"

    (pair,), _ = read_all(replace(source, split="dev"))
    assert pair.queries == ("how deep",)


def test_several_rows_may_search_for_one_function(tmp_path: Path) -> None:
    rows = [
        {"function": function_key(DEPTH["code"]), "queries": [query], "split": "train"}
        for query in ("how deep", "sea depth")
    ]
    pairs, _ = read_all(write_searches(tmp_path, *rows))
    assert [pair.queries for pair in pairs] == [("how deep",), ("sea depth",)]


def test_searches_measure_a_model_in_training(tmp_path: Path) -> None:
    key = function_key(DEPTH["code"])
    source = write_searches(tmp_path, {"function": key, "queries": ["how deep"], "split": "dev"})
    dev_set = DevSet(
        name="searches", path=source.path, format="searches", reference=source.reference
    )
    judged = read_dev_set(dev_set)
    assert judged.queries == {"0": "how deep"}
    assert judged.passages == {"0": DEPTH["code"]}
    assert judged.qrels == {"0": {"0": 1.0}}


def test_searches_need_a_table_of_functions(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"reference belongs to the formats .*searches") as error:
        PairSource("searches", tmp_path / "searches.jsonl")
    assert error.value.field == "reference"


SEARCHES = ROOT / "questions" / "searches"


@pytest.mark.parametrize("file", sorted(SEARCHES.glob("*.jsonl")), ids=lambda file: file.stem)
def test_shipped_searches_are_complete(file: Path) -> None:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows
    for row in rows:
        assert row["queries"]
        assert all(query == " ".join(query.split()) != "" for query in row["queries"])
    if file.stem == "products":
        assert all(row["passage"] and row["negatives"] for row in rows)
        return

    keys = [(row["function"], row.get("style")) for row in rows]
    assert len(set(keys)) == len(keys)
    assert all(len(function) == 16 for function, _ in keys)
    in_training = {row["function"] for row in rows if row["split"] == "train"}
    assert in_training.isdisjoint(row["function"] for row in rows if row["split"] == "dev")
