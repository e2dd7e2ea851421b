"""The published test sets of SANTA's tables: their files, their measures, and BM25."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from purlin.cli.commands import app
from purlin.index.encoder import STATIC_ENCODER, Vectors
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.search.lexical.tokens import tokens
from purlin.training.data import judged
from purlin.training.data.judged import (
    JudgedSet,
    mean_measure,
    measures,
    query_values,
    rank,
    rank_by_words,
    ranked,
)
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.data.published import read_judged
from purlin.training.dev import DevSet, read_dev_set
from tests.support.files import write_jsonl
from tests.support.hash_encoder import HashEncoder

# -- the published files -------------------------------------------------------------------------


def advtest_row(number: int, docstring: str, body: str) -> dict[str, Any]:
    """A row with the columns of CodeXGLUE's test.jsonl."""
    code = f'def Func(arg_0):\n    """{docstring}"""\n    {body}'
    return {
        "repo": "r/r",
        "path": "a.py",
        "func_name": f"Harbour.f{number}",
        "original_string": "",
        "language": "python",
        "docstring": docstring,
        "docstring_tokens": docstring.replace(".", " .").split(),
        "sha": "0",
        "url": f"https://example.org/a.py#L{number}",
        "partition": "test",
        "function": code,
        "function_tokens": code.split(),
        "identifier": f"f{number}",
        "docstring_summary": docstring.partition(".")[0],
        "parameters": "(boats)",
        "idx": number,
    }


ADVTEST = [
    advtest_row(7, "Count the boats. Also those at sea.", "return len(arg_0)"),
    advtest_row(8, "Moor", "arg_0.moor()"),
    # A copy of another function, and the same words: both stay in the set.
    advtest_row(9, "Moor", "arg_0.moor()"),
]


def test_advtest_keeps_every_row_and_whole_queries(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "test.jsonl", ADVTEST)
    [read] = read_judged("advtest", path)

    assert read.queries == {"7": "Count the boats . Also those at sea .", "8": "Moor", "9": "Moor"}
    assert read.passages["7"] == "def Func(arg_0):\n    return len(arg_0)"
    assert read.passages["8"] == read.passages["9"]
    assert read.qrels == {id_: {id_: 1.0} for id_ in ("7", "8", "9")}
    assert [read] == read_judged("advtest", tmp_path)


def test_a_broken_row_makes_a_test_set_unusable(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "test.jsonl", [*ADVTEST, {**ADVTEST[0], "idx": 7}])
    with pytest.raises(InvalidInput, match=r"row 4: the id .7. comes twice\. A test set is"):
        read_judged("advtest", path)

    rows = [ADVTEST[0], {"idx": 3, "docstring": "x"}]
    with pytest.raises(InvalidInput, match="row 2: has no code"):
        read_judged("advtest", write_jsonl(tmp_path / "test.jsonl", rows))
    with pytest.raises(NotFound, match=r"no valid\.jsonl"):
        read_judged("advtest", tmp_path, "dev")


def search_row(language: str, number: int) -> dict[str, Any]:
    """A row of CodeSearchNet as GraphCodeBERT's preprocessing leaves it."""
    return {
        "repo": "r/r",
        "language": language,
        "code": f"func f{number}() {{}}",
        "code_tokens": ["func", f"f{number}"],
        "docstring": f"Does {number}.",
        "docstring_tokens": ["Does", str(number)],
        "url": f"https://example.org/{language}#L{number}",
        "partition": "test",
    }


def write_codesearchnet(home: Path, suffix: str = "") -> Path:
    for language, tested in (("go", [1]), ("ruby", [2, 3])):
        directory = home / language
        rows = [search_row(language, number) for number in range(5)]
        write_jsonl(directory / f"codebase.jsonl{suffix}", rows)
        write_jsonl(directory / f"test.jsonl{suffix}", [rows[number] for number in tested])
    return home


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_codesearchnet_is_read_by_language(tmp_path: Path, suffix: str) -> None:
    go, ruby = read_judged("codesearchnet", write_codesearchnet(tmp_path, suffix))

    assert (go.name, ruby.name) == ("codesearchnet.go", "codesearchnet.ruby")
    assert list(ruby.queries.values()) == ["Does 2", "Does 3"]
    assert list(ruby.qrels.values()) == [
        {"https://example.org/ruby#L2": 1.0},
        {"https://example.org/ruby#L3": 1.0},
    ]
    assert list(ruby.passages.values()) == [f"func f{number}() {{}}" for number in range(5)]
    assert [ruby] == read_judged("codesearchnet", tmp_path / "ruby")


def test_a_function_outside_the_codebase_is_refused(tmp_path: Path) -> None:
    write_codesearchnet(tmp_path)
    write_jsonl(tmp_path / "go" / "test.jsonl", [search_row("go", 9)])
    with pytest.raises(InvalidInput, match="go#L9' is not in codebase"):
        read_judged("codesearchnet", tmp_path)
    with pytest.raises(NotFound, match=r"no codebase\.jsonl, nor a directory for each language"):
        read_judged("codesearchnet", write_jsonl(tmp_path / "x" / "y.jsonl", []).parent)


LABELS = [
    # query id, query, product, locale, label, small, split
    (7, "mug", "P1", "us", "E", 1, "test"),
    (7, "mug", "P2", "us", "S", 1, "test"),
    (7, "mug", "P3", "us", "C", 1, "test"),
    (7, "mug", "P4", "us", "I", 1, "test"),
    (8, "saw", "P2", "us", "S", 1, "test"),
    (8, "saw", "GONE", "us", "I", 1, "test"),
    (9, "taza", "P1", "es", "E", 1, "test"),
    (10, "rope", "P1", "us", "E", 0, "test"),
    *((number, f"query {number}", "P1", "us", "E", 1, "train") for number in range(100, 180)),
]
LABEL_COLUMNS = ["query_id", "query", "product_id", "product_locale", "esci_label", "small_version"]


@pytest.fixture
def esci(tmp_path: Path) -> Path:
    columns = [*LABEL_COLUMNS, "split"]
    examples = [dict(zip(columns, row, strict=True)) for row in LABELS]
    products = [
        {"product_id": f"P{number}", "product_title": f"Thing {number}", "product_locale": "us"}
        for number in range(1, 6)
    ]
    for name, rows in (("examples", examples), ("products", products)):
        table = pyarrow.Table.from_pylist(rows)
        pyarrow.parquet.write_table(table, tmp_path / f"shopping_queries_dataset_{name}.parquet")
    return tmp_path


def test_esci_has_gains_and_judged_candidates(esci: Path) -> None:
    [read] = read_judged("esci", esci)

    assert read.queries == {"7": "mug", "8": "saw"}
    expected = {"7": {"P1": 1.0, "P2": 0.1, "P3": 0.01, "P4": 0.0}, "8": {"P2": 0.1, "GONE": 0.0}}
    assert read.qrels == expected
    assert read.candidates
    assert {id_: {*ids} for id_, ids in read.candidates.items()} == {
        "7": {"P1", "P2", "P3", "P4"},
        "8": {"P2", "GONE"},
    }
    # P5 was judged for no query, and a product that is missing is ranked without a text.
    assert set(read.passages) == {"P1", "P2", "P3", "P4", "GONE"}
    assert read.passages["GONE"] == ""


def test_esci_in_two_and_in_four_classes_by_hand(esci: Path) -> None:
    [read] = read_judged("esci", esci)
    run = {"7": ["P2", "P1", "P4", "P3"], "8": ["GONE", "P2"]}
    values = query_values(read, run)

    # Of query 8 nothing is exact: in two classes it has no relevant product.
    assert values["esci nDCG@100 two-class"] == {"7": pytest.approx(1 / math.log2(3))}
    gained = 0.1 + 1 / math.log2(3) + 0.01 / math.log2(5)
    ideal = 1 + 0.1 / math.log2(3) + 0.01 / math.log2(4)
    expected = {"7": pytest.approx(gained / ideal), "8": pytest.approx(1 / math.log2(3))}
    assert values["esci nDCG@100 four-class"] == expected
    two, four = measures([read], [run])
    assert (two.queries, two.left_out, four.queries) == (1, 1, 2)


def test_an_unknown_label_is_refused(esci: Path) -> None:
    path = esci / "shopping_queries_dataset_examples.parquet"
    rows = pyarrow.parquet.read_table(path).to_pylist()
    table = pyarrow.Table.from_pylist([rows[0] | {"esci_label": "X"}])
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(InvalidInput, match="label 'X'; known are E, S, C, I"):
        read_judged("esci", esci)
    with pytest.raises(InvalidInput, match="no judgement of the small version"):
        read_judged("esci", esci, "none")


def test_an_eighth_of_escis_training_queries_is_for_development(esci: Path) -> None:
    def queries(split: str) -> set[str]:
        source = PairSource("esci", esci, "product", size="small", split=split)
        return {pair.queries[0] for pair in read_pairs(source) if isinstance(pair, Pair)}

    train, dev = queries("train"), queries("dev")
    assert train | dev == {f"query {number}" for number in range(100, 180)}
    assert not train & dev
    assert 4 <= len(dev) <= 18

    dev_set = DevSet(name="esci", path=esci, format="esci", kind="product", measure="nDCG@100")
    assert set(read_dev_set(dev_set).queries.values()) == dev


# -- ranking and measures ------------------------------------------------------------------------


@given(st.integers(1, 140), st.integers(1, 5), st.booleans())
def test_rankings_equal_a_sort_of_all_scores(
    passages: int, queries: int, is_restricted: bool
) -> None:
    rng = np.random.default_rng(passages + 1000 * queries)
    query_vectors = rng.integers(-3, 4, (queries, 3)).astype(np.float32)
    passage_vectors = rng.integers(-3, 4, (passages, 3)).astype(np.float32)
    ids = [f"p{row}" for row in range(passages)]
    allowed = {
        f"q{row}": tuple(id_ for id_ in ids if rng.random() < 0.5) or (ids[0],)
        for row in range(queries)
    }
    queries_and_texts = dict.fromkeys(allowed, ""), dict.fromkeys(ids, "")
    judged_set = JudgedSet(*queries_and_texts, {}, allowed if is_restricted else None)

    run = ranked(judged_set, query_vectors, passage_vectors)
    for query, query_id in zip(query_vectors, allowed, strict=True):
        scored = [
            (-float(query @ passage), row)
            for row, passage in enumerate(passage_vectors)
            if not is_restricted or ids[row] in allowed[query_id]
        ]
        assert run[query_id] == [ids[row] for _, row in sorted(scored)[:100]]


def test_the_mean_over_languages_weighs_them_alike(tmp_path: Path) -> None:
    sets = read_judged("codesearchnet", write_codesearchnet(tmp_path))
    runs = [
        {"0": ["https://example.org/go#L1"]},
        {"0": ["x", "https://example.org/ruby#L2"], "1": ["x", "y"]},
    ]
    means = {mean.name: mean for mean in measures(sets, runs)}

    assert means["codesearchnet.go MRR@100"].mean == 1.0
    assert means["codesearchnet.ruby MRR@100"].mean == 0.25
    overall = means["overall MRR@100"]
    assert (overall.mean, overall.queries) == (0.625, 3)
    assert overall.low < overall.mean < overall.high


def test_ndcg_to_100_counts_what_stands_below_10() -> None:
    judged_set = JudgedSet({"q": ""}, {}, {"q": {"a": 1.0}})
    run = {"q": [*map(str, range(19)), "a"]}
    assert mean_measure("nDCG@100", run, judged_set) == pytest.approx(1 / math.log2(21))
    assert mean_measure("nDCG@10", run, judged_set) == 0.0
    assert mean_measure("MRR@100", run, judged_set) == 1 / 20


def test_words_rank_by_bm25(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["count the boats", "boats boats harbour", "moor", "a pier in the harbour town"]
    passages = {f"p{row}": text for row, text in enumerate(texts)}
    query = "boats harbour"

    bags = [tokens(text) for text in texts]
    mean = sum(map(len, bags)) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in tokens(query):
            n = sum(word in other for other in bags)
            idf = math.log(1 + (len(bags) - n + 0.5) / (n + 0.5))
            tf = bag.count(word)
            score += idf * tf * 1.9 / (tf + 0.9 * (1 - 0.4 + 0.4 * len(bag) / mean))
        scores.append(score)
    expected = sorted(range(4), key=lambda row: (-scores[row], row))

    seen: list[Vectors] = []
    plain = judged._best
    monkeypatch.setattr(
        judged, "_best", lambda scores, rows: seen.append(scores) or plain(scores, rows)
    )
    run = rank_by_words(JudgedSet({"q": query}, passages, {}))
    assert run["q"] == [f"p{row}" for row in expected]
    np.testing.assert_allclose(seen[0], scores, rtol=1e-5)


# -- the command ---------------------------------------------------------------------------------


def evaluate_santa(*options: str, **settings: Any) -> Any:
    """Run the command in this process; what it raises is raised here."""
    command = ["evaluate", "santa", *options]
    return CliRunner().invoke(app, command, catch_exceptions=False, **settings)


def test_evaluate_santa_prints_the_measures(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "test.jsonl", ADVTEST[:2])
    options = ("--set", "advtest", "--data", str(path), "--json")
    result = evaluate_santa(*options, "--encoder", str(STATIC_ENCODER))

    assert result.exit_code == 0, result.output
    [mrr, gain] = json.loads(result.stdout)
    assert (mrr["name"], mrr["queries"]) == ("advtest MRR@100", 2)
    assert mrr["mean"] in (0.5, 0.75, 1.0)
    assert gain["name"] == "advtest nDCG@100"


def test_ranking_tells_how_many_texts_are_encoded() -> None:
    reports: list[tuple[int, int]] = []
    judged_set = JudgedSet({"q": "moor"}, {"a": "moor the boat", "b": "count"}, {})
    run = rank(judged_set, HashEncoder(), progress=lambda *counts: reports.append(counts))

    assert run["q"][0] == "a"
    assert reports[-1] == (3, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "csn"], "must be one of advtest, codesearchnet, esci, not 'csn'"),
        (["--set", "esci", "--similarity", "dot"], "must be trained or cosine, not 'dot'"),
    ],
)
def test_evaluate_santa_names_what_it_knows(options: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=words):
        evaluate_santa(*options, "--data", str(tmp_path), standalone_mode=False)


def test_evaluate_santa_names_libraries_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name != "torch" else None)
    with pytest.raises(NotFound, match="Training needs torch"):
        evaluate_santa("--set", "esci", "--data", str(tmp_path), standalone_mode=False)
