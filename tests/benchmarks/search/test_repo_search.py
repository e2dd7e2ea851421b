import json
import math
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.search import repo_search
from benchmarks.search.repo_search import Row, Target, ndcg
from purlin.index.records import Location
from tests.support.files import write_jsonl
from tests.support.hash_encoder import HashEncoder
from tests.support.paths import ROOT

QUERIES = ROOT / "questions" / "repositories"
ANNOTATIONS = {
    "repos": [
        {
            "name": "shop",
            "benchmark_root": "src",
            "queries": [
                {"query": "open_cart", "category": "symbol", "relevant": ["src/cart.py"]},
                {
                    "query": "how is the price computed",
                    "category": "architecture",
                    "relevant": [{"path": "src/price.py", "start_line": 4, "end_line": 5}],
                    "secondary": ["src/cart.py"],
                },
            ],
        }
    ]
}


def test_ndcg_equals_the_value_by_hand() -> None:
    hits = [Location("b.py", 1, 9), Location("a.py", 1, 9), Location("a.py", 20, 29)]
    targets = [Target("src/a.py", 25, 40), Target("src/a.py")]
    ideal = 1 + 1 / math.log2(3)
    assert ndcg(hits, targets, "src") == pytest.approx((1 / 2 + 1 / math.log2(3)) / ideal)
    assert ndcg(hits, [Target("src/c.py")], "src") == 0
    assert ndcg([Location("x.py")] * 10 + hits, targets, "src") == 0


def test_rank_is_that_of_the_first_hit_of_any_target() -> None:
    hits = [Location("b.py", 1, 9), Location("a.py", 1, 9), Location("c.py", 20, 29)]
    targets = [Target("c.py", 25, 40), Target("a.py", 9, 12)]
    assert repo_search.first_rank(hits, targets, "") == 2
    assert repo_search.first_rank(hits, targets, "src") == 0
    assert repo_search.first_rank([Location("x.py")] * 10 + hits, targets, "") == 0


def test_ranks_become_measures() -> None:
    measures = Row("hash", "hybrid", [0.5, 1.0, 0.0, 0.3], [3, 1, 0, 4]).measures()
    assert measures == {
        "nDCG@10": [0.5, 1.0, 0.0, 0.3],
        "first": [0.0, 1.0, 0.0, 0.0],
        "first three": [1.0, 1.0, 0.0, 0.0],
        "MRR@10": [1 / 3, 1.0, 0.0, 1 / 4],
    }


@pytest.mark.parametrize(("lines", "touches"), [((1, 4), True), ((6, 9), False), ((5, 5), True)])
def test_lines_are_touched(lines: tuple[int, int], touches: bool) -> None:
    assert Target("src/a.py", 4, 5).has(Location("a.py", *lines), "src") is touches


def test_repository_is_indexed_and_measured(tmp_path: Path) -> None:
    directory = tmp_path / "shop" / "src"
    directory.mkdir(parents=True)
    (directory / "cart.py").write_text("def open_cart():\n    return []\n")
    (directory / "price.py").write_text("\n\n\ndef compute(price):\n    return price\n")
    (tmp_path / "shop" / "open_cart.py").write_text("def open_cart():\n    pass\n")
    (tmp_path / "annotations.json").write_text(json.dumps(ANNOTATIONS))

    repositories = repo_search.read_annotations(tmp_path / "annotations.json")
    rows = repo_search.measured_rows(repositories, tmp_path, HashEncoder(), ["hybrid", "lexical"])
    expected = [[1.0, 1.0], [1.0, pytest.approx(1 / (1 + 1 / math.log2(3)))]]
    assert [row.values for row in rows] == expected

    table = repo_search.as_markdown(rows, repositories[0].queries)
    assert "| hash, hybrid | 1.000 (1.000-1.000) | 1.000 (1.000-1.000) |  | 1.000" in table
    assert "| encoder, mode | shop |" in table


def test_queries_of_a_split_are_measured(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "cart.py").write_text("def open_cart():\n    return []\n")
    target = {"path": "cart.py", "start_line": 1, "end_line": 2}
    records = [
        {"id": "shop-01", "split": "dev", "query": "open a cart", "targets": [target]},
        {"id": "shop-02", "split": "test", "query": "close a cart", "targets": [target]},
    ]
    write_jsonl(tmp_path / "shop.jsonl", records)

    (repository,) = repo_search.read_queries(tmp_path, "dev")
    assert [query.text for query in repository.queries] == ["open a cart"]
    rows = repo_search.measured_rows([repository], tmp_path, HashEncoder(), ["lexical"])
    assert rows[0].ranks == [1]

    table = repo_search.measures_as_markdown(rows, repository.queries)
    assert "| encoder, mode (1) | nDCG@10 | first | first three | MRR@10 |" in table
    assert "| hash, lexical | 1.000 (1.000-1.000) | 1.000 (1.000-1.000) |" in table
    assert "MRR@10:\n\n| encoder, mode | shop |" in table


@pytest.mark.parametrize("file", sorted(QUERIES.rglob("*.jsonl")), ids=lambda file: file.stem)
def test_published_queries_have_splits_and_lines(file: Path) -> None:
    records = [json.loads(line) for line in file.read_text().splitlines()]
    splits = Counter(record["split"] for record in records)
    if file.parent.name == "second":
        assert len(splits) == 1
        assert 10 <= splits.total() <= 14
    elif file.parent.name == "third":
        assert splits.keys() == {"dev", "test"}
        assert 6 <= splits.total() <= 13
    elif file.parent.name == "fourth":
        assert splits == {"dev": 2, "test": 2} or splits.keys() == {"test"}
        assert 1 <= splits.total() <= 4
        assert all(record["grep"] for record in records)
    else:
        assert splits == {"dev": 5, "test": 5}

    targets = [Target(**target) for record in records for target in record["targets"]]
    assert targets
    for target in targets:
        # A playbook, a test, a migration or a notebook is a target as a whole.
        is_file = file.parent.name in ("third", "fourth") and target.start_line is None
        assert is_file or 0 < (target.start_line or 0) <= (target.end_line or 0)


def test_repositories_without_queries_of_a_split_are_left_out(tmp_path: Path) -> None:
    target = {"path": "cart.py", "start_line": 1, "end_line": 2}
    record = {"id": "shop-01", "split": "dev", "query": "open a cart", "targets": [target]}
    write_jsonl(tmp_path / "shop.jsonl", [record])
    assert len(repo_search.read_queries(tmp_path, "dev")) == 1
    assert repo_search.read_queries(tmp_path, "test") == []

    german = {"id": "shop-01", "language": "de", "query": "Warenkorb öffnen"}
    write_jsonl(tmp_path / "searches" / "german.jsonl", [german, german | {"language": "fr"}])
    translations = repo_search.read_translations(tmp_path / "searches/german.jsonl", "de")
    (repository,) = repo_search.read_queries(tmp_path, "dev", translations)
    assert [query.text for query in repository.queries] == ["Warenkorb öffnen"]
    assert repo_search.read_queries(tmp_path, "dev", {"shop-02": "x"}) == []


def test_published_translations_are_of_published_queries() -> None:
    ids = {
        json.loads(line)["id"]
        for file in QUERIES.glob("*.jsonl")
        for line in file.read_text().splitlines()
    }
    translations = QUERIES.parent / "translations/searches.jsonl"
    records = [json.loads(line) for line in translations.read_text().splitlines()]
    assert Counter(record["language"] for record in records) == dict.fromkeys(
        ("de", "es", "fr", "it", "ja", "nl", "pl", "ru", "zh"), 60
    )
    assert {record["id"] for record in records} == ids
