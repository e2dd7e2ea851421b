"""The quality benchmark on a few documents: its columns, candidates, means and output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.search import judged_sets, quality
from purlin.index.evaluation import ranking
from purlin.index.records import Document, Mode
from purlin.training.data.pairs.rows import function_key
from tests.support.files import write_jsonl
from tests.support.hash_encoder import HashEncoder

WORDS = "red green blue small large round flat soft hard old".split()
COLUMNS = [
    "csn.go",
    "csn.ruby",
    "csn.mean",
    "code_pairs.go",
    "code_pairs.ruby",
    "code_pairs.all",
]
ModeResults = Mapping[Mode, Mapping[str, quality.Result]]


def function_row(language: str, number: int, summary: str) -> dict[str, Any]:
    name = f"{language}{number}"
    code = f"def {name}(): {summary} value {number}"
    return {"language": language, "name": name, "summary": summary, "code": code}


def write_csn(directory: Path, languages: Mapping[str, list[str]]) -> None:
    documents = [
        {"_id": f"{language}{n}", "title": f"t{n}", "text": f"{word} thing", "language": language}
        for language, words in languages.items()
        for n, word in enumerate(words)
    ]
    queries = [{"_id": f"q{n}", "text": word} for n, word in enumerate(WORDS)]
    write_jsonl(directory / "corpus.jsonl.gz", documents)
    write_jsonl(directory / "queries.jsonl", queries)

    (directory / "qrels").mkdir()
    for language, words in languages.items():
        qrels = "".join(f"q{n}\t{language}{(n + n % 2) % 6}\t2.5\n" for n in range(len(words)))
        (directory / "qrels" / f"dev.{language}.tsv").write_text(qrels)


def write_code_pairs(directory: Path, language: str) -> None:
    dev = [function_row(language, n, f"Turn the {word} ones") for n, word in enumerate(WORDS[:5])]
    # The first summary again, in another case and with more white space.
    dev.append(function_row(language, 9, "turn THE  red ones"))
    train = [function_row(language, 70 + n, f"Other {n}") for n in range(20)]

    write_jsonl(directory / f"{language}.dev.jsonl.gz", dev)
    write_jsonl(directory / f"{language}.train.jsonl.gz", train)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    languages = {"go": WORDS, "ruby": WORDS[:6]}
    write_csn(tmp_path / "csn_challenge", languages)
    for language in languages:
        write_code_pairs(tmp_path / "code_pairs", language)

    # Sets are cached, and a test may change how many candidates they have.
    judged_sets.load_set.cache_clear()
    return tmp_path


@pytest.fixture
def results(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModeResults:
    monkeypatch.setattr(judged_sets, "CANDIDATES", 10)
    modes: list[Mode] = ["lexical", "dense", "hybrid"]
    return quality.measure_modes(
        HashEncoder(), data, ["csn", "code_pairs"], modes, cache=tmp_path / "cache"
    )


def test_every_mode_measures_every_column(results: ModeResults) -> None:
    assert list(results) == ["lexical", "dense", "hybrid"]
    assert all(list(columns) == COLUMNS for columns in results.values())

    dense = results["dense"]
    assert dense["code_pairs.all"].documents == 20
    assert dense["code_pairs.go"].measure.queries == 5, "equal summaries are one query"


def test_values_average_to_the_measure(results: ModeResults) -> None:
    for name, result in results["dense"].items():
        assert bool(result.parts) == (name == "csn.mean")
        for column in result.parts or [result]:
            assert column.measure.mean == pytest.approx(np.mean(list(column.values.values())))


def test_cached_passages_are_not_encoded_again(
    results: ModeResults, data: Path, tmp_path: Path
) -> None:
    encoder = HashEncoder()
    csn = {name: result for name, result in results["dense"].items() if name.startswith("csn")}

    again = quality.measure_modes(encoder, data, ["csn"], ["dense"], cache=tmp_path / "cache")
    assert again["dense"] == csn
    assert set(encoder.encoded) <= set(WORDS), "queries alone"


def test_output_compares_with_the_first_row(results: ModeResults) -> None:
    rows = [quality.Row(name, "dense", "", results["dense"]) for name in ("base", "second")]
    changes = quality.differences(rows)

    assert changes[0] == {}
    assert {change.p for change in changes[1].values()} == {1.0}
    assert quality.as_markdown(rows, changes).count("\n| second |") == 2
    assert len(json.loads(json.dumps(quality.as_json(rows, changes)))) == 12


def test_functions_with_one_summary_are_all_relevant(data: Path) -> None:
    column = judged_sets.load_set("code_pairs", data).columns[-1]

    red = column.qrels["go.dev.0"]
    assert set(red) == {"go.dev.0", "go.dev.5", "ruby.dev.0", "ruby.dev.5"}
    assert set(column.queries) == {f"go.dev.{n}" for n in range(5)}


def test_searches_lead_to_the_functions_that_they_name(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged_sets, "SEARCHES", tmp_path / "searches")
    monkeypatch.setattr(judged_sets, "CANDIDATES", 10)
    for language in ("go", "ruby"):
        key = function_key(function_row(language, 85, "Other 15")["code"])
        rows = [
            {"function": key, "queries": [f"{language} {style}"], "style": style, "split": "dev"}
            for style in judged_sets.STYLES
        ]
        other = function_key(function_row(language, 70, "Other 0")["code"])
        rows.append({"function": other, "queries": ["learnt from"], "split": "train"})
        write_jsonl(tmp_path / "searches" / f"{language}.jsonl", rows)

    judged = judged_sets.load_set("searches", data)

    assert len(judged.documents) == 20, "the function that is asked for, and nine others of each"
    web, repository = judged.columns
    assert (web.name, repository.name) == ("searches.web", "searches.repository")
    assert web.queries == {"go.15": "go web", "ruby.15": "ruby web"}
    assert repository.qrels == {"go.15": {"go.15": 1.0}, "ruby.15": {"ruby.15": 1.0}}
    assert set(web.queries) < {document.id for document in judged.documents}


def test_pool_has_judged_documents_with_random_others() -> None:
    documents = [
        Document(f"{n}", "code", "", "x", fields={"language": "go" if n % 2 else "php"})
        for n in range(40)
    ]
    pool = judged_sets.pooled(documents, {"0", "1", "2"}, others=5)

    assert {document.id for document in pool} >= {"0", "1", "2"}
    assert len(pool) == 13
    assert pool == judged_sets.pooled(documents, {"0", "1", "2"}, others=5)


def test_mean_of_one_column_agrees_with_evaluate(data: Path) -> None:
    result = quality.measure_modes(HashEncoder(), data, ["csn"], ["dense"])["dense"]["csn.go"]
    reversed_run = {query: list(reversed(ids)) for query, ids in result.run.items()}
    column = judged_sets.Column("", "nDCG@10", {}, result.qrels)
    worse = replace(result, run=reversed_run, values=quality.per_query(reversed_run, column))

    mean, worse_mean = quality.mean_of([result]), quality.mean_of([worse])
    assert mean.measure.mean == pytest.approx(result.measure.mean)
    assert mean.measure.low == pytest.approx(result.measure.low, abs=0.03)

    change = quality.compare(mean, worse_mean)
    expected = ranking.compare_runs(result.run, worse.run, result.qrels)[1]
    assert (change.mean, change.p) == pytest.approx((expected.mean, expected.p), abs=0.02)
    assert (change.low, change.high) == pytest.approx((expected.low, expected.high), abs=0.05)
