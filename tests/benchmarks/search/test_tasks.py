"""Tasks of agents: which needs a search meets, and which a grep."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.search.repo_search import Target
from benchmarks.search.tasks import Outcome, needs_of, outcome, print_shares
from purlin.app.agents.local import LocalCorpora
from tests.support.files import write_tree


def test_targets_of_one_need_are_alternatives() -> None:
    targets = [
        {"path": "a.py", "need": 1},
        {"path": "b.py", "need": 1},
        {"path": "c.py", "need": 2},
    ]
    assert needs_of({"targets": targets}) == [
        [Target("a.py", need=1), Target("b.py", need=1)],
        [Target("c.py", need=2)],
    ]
    assert needs_of({"targets": [{"path": "a.py"}, {"path": "b.py"}]}) == [
        [Target("a.py")],
        [Target("b.py")],
    ]


def test_needs_are_met_by_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURLIN_CACHE", str(tmp_path / "cache"))
    files = {
        "mail.py": "\n\ndef send_receipt(order):\n    post(order)\n",
        "far.py": "def far():\n    return 1\n",
    }
    write_tree(tmp_path / "shop", files)
    record = {
        "query": "send_receipt",
        "grep": "send_receipt",
        "targets": [
            {"path": "mail.py", "start_line": 4, "end_line": 4, "need": 1},
            {"path": "mail.py", "start_line": 3, "end_line": 3, "need": 2},
            {"path": "absent.py", "need": 3},
        ],
    }

    corpora = LocalCorpora(tmp_path / "shop", tmp_path / "none", "static")
    result = outcome(record, corpora, tmp_path / "shop")
    assert result.first == [1, 1, 0]
    assert result.either == [True, True, False]
    assert result.grep == [False, True, False]
    assert result.tokens > 0


def test_shares_count_tasks_and_needs(capsys: pytest.CaptureFixture[str]) -> None:
    print_shares(
        [
            Outcome([1, 0], [0, 2], [False, False], 100, 10),
            Outcome([0], [0], [True], 300, 30),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "| 2 tasks, 3 needs | any | all | needs |",
        "|---|---|---|---|",
        "| first | 1 | 0 | 1 |",
        "| either | 1 | 1 | 2 |",
        "| grep | 1 | 1 | 1 |",
        "tokens, median: first search 200, all that grep finds 20",
    ]
