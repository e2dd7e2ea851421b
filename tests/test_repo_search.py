import json
import math
from pathlib import Path

import pytest

from benchmarks import repo_search
from benchmarks.repo_search import Target, ndcg
from purlin.index.records import Location
from tests.conftest import HashEncoder

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


def test_value_by_hand() -> None:
    hits = [Location("b.py", 1, 9), Location("a.py", 1, 9), Location("a.py", 20, 29)]
    targets = [Target("src/a.py", 25, 40), Target("src/a.py")]
    ideal = 1 + 1 / math.log2(3)
    assert ndcg(hits, targets, "src") == pytest.approx((1 / 2 + 1 / math.log2(3)) / ideal)
    assert ndcg(hits, [Target("src/c.py")], "src") == 0
    assert ndcg([Location("x.py")] * 10 + hits, targets, "src") == 0


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
    assert [row.values for row in rows] == [
        [1.0, 1.0],
        [1.0, pytest.approx(1 / (1 + 1 / math.log2(3)))],
    ]

    table = repo_search.as_markdown(rows, repositories[0].queries)
    assert "| hash, hybrid | 1.000 (1.000-1.000) | 1.000 (1.000-1.000) |  | 1.000" in table
    assert "| encoder, mode | shop |" in table
