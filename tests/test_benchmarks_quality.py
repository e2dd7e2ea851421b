"""The quality benchmark on a few documents: what it searches among, and its means."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import quality
from index.evaluation import ranking
from index.records import Document
from tests.conftest import HashEncoder

WORDS = "red green blue small large round flat soft hard old".split()


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


def function(language: str, number: int, summary: str) -> dict[str, Any]:
    name = f"{language}{number}"
    return {
        "language": language,
        "name": name,
        "summary": summary,
        "code": f"def {name}(): {summary} value {number}",
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    csn = tmp_path / "csn_challenge"
    languages = {"go": WORDS, "ruby": WORDS[:6]}
    rows = [
        {"_id": f"{language}{n}", "title": f"t{n}", "text": f"{word} thing", "language": language}
        for language, words in languages.items()
        for n, word in enumerate(words)
    ]
    write(csn / "corpus.jsonl.gz", rows)
    write(csn / "queries.jsonl", [{"_id": f"q{n}", "text": word} for n, word in enumerate(WORDS)])
    (csn / "qrels").mkdir()
    for language, words in languages.items():
        judged = "".join(f"q{n}\t{language}{(n + n % 2) % 6}\t2.5\n" for n in range(len(words)))
        (csn / "qrels" / f"dev.{language}.tsv").write_text(judged)
    pairs = tmp_path / "code_pairs"
    for language in languages:
        dev = [function(language, n, f"Turn the {word} ones") for n, word in enumerate(WORDS[:5])]
        write(
            pairs / f"{language}.dev.jsonl.gz", [*dev, function(language, 9, "turn THE  red ones")]
        )
        write(
            pairs / f"{language}.train.jsonl.gz",
            [function(language, 70 + n, f"Other {n}") for n in range(20)],
        )
    return tmp_path


def test_every_mode_measures_every_column_and_keeps_vectors(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality, "CANDIDATES", 10)
    quality.load.cache_clear()
    encoder = HashEncoder()
    modes = ["lexical", "dense", "hybrid"]
    found = quality.measure_modes(
        encoder, data, ["csn", "code_pairs"], modes, cache=tmp_path / "cache"
    )
    columns = [
        "csn.go",
        "csn.ruby",
        "csn.mean",
        "code_pairs.go",
        "code_pairs.ruby",
        "code_pairs.all",
    ]
    assert all(list(results) == columns for results in found.values())
    assert found["dense"]["code_pairs.all"].documents == 20
    assert found["dense"]["code_pairs.go"].measure.queries == 5, "equal summaries are one query"
    for result in found["dense"].values():
        values = [value for part in result.parts or [result] for value in part.values.values()]
        assert result.parts or result.measure.mean == pytest.approx(np.mean(values))
    again = HashEncoder()
    assert quality.measure(again, data, ["csn"], cache=tmp_path / "cache") == {
        name: result for name, result in found["dense"].items() if name.startswith("csn")
    }
    assert set(again.encoded) <= set(WORDS), "queries alone"
    rows = [quality.Row(name, "dense", "", found["dense"]) for name in ("base", "other")]
    changes = quality.differences(rows)
    assert {change.p for change in changes[1].values()} == {1.0}
    assert quality.as_markdown(rows, changes).count("\n| other |") == 2
    assert len(json.loads(json.dumps(quality.as_json(rows, changes)))) == 12


def test_a_summary_s_functions_are_all_relevant_and_asked_for_once(data: Path) -> None:
    quality.load.cache_clear()
    column = quality.load("code_pairs", data).columns[-1]
    red = column.qrels["go.dev.0"]
    assert set(red) == {"go.dev.0", "go.dev.5", "ruby.dev.0", "ruby.dev.5"}
    assert set(column.queries) == {f"go.dev.{n}" for n in range(5)}


def test_pooled_keeps_judged_and_sampled_documents() -> None:
    documents = [
        Document(f"{n}", "code", "", "x", fields={"language": "go" if n % 2 else "php"})
        for n in range(40)
    ]
    kept = quality.pooled(documents, {"0", "1", "2"}, others=5)
    assert {document.id for document in kept} >= {"0", "1", "2"}
    assert len(kept) == 13
    assert kept == quality.pooled(documents, {"0", "1", "2"}, others=5)


def test_the_mean_of_one_column_equals_evaluate(data: Path) -> None:
    quality.load.cache_clear()
    result = quality.measure(HashEncoder(), data, ["csn"])["csn.go"]
    worse = replace(
        result, run={query: list(reversed(ranking)) for query, ranking in result.run.items()}
    )
    column = quality.Column("", "nDCG@10", {}, result.qrels)
    worse = replace(worse, values=quality.per_query(worse.run, column))
    alone, other = quality.mean_of([result]), quality.mean_of([worse])
    assert alone.measure.mean == pytest.approx(result.measure.mean)
    assert alone.measure.low == pytest.approx(result.measure.low, abs=0.03)
    change, expected = (
        quality.compare(alone, other),
        ranking.compare_runs(result.run, worse.run, result.qrels)[1],
    )
    assert (change.mean, change.p) == pytest.approx((expected.mean, expected.p), abs=0.02)
    assert (change.low, change.high) == pytest.approx((expected.low, expected.high), abs=0.05)
