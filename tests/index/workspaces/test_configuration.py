"""Configuration that answers a search of code better."""

from __future__ import annotations

from pathlib import Path

from purlin.index.workspaces.configuration import better_configuration
from purlin.index.workspaces.workspace import open_workspace
from tests.support.files import write_tree
from tests.support.hash_encoder import HashEncoder
from tests.support.rerankers import WordReranker


def test_it_is_named_also_where_code_was_reranked(tmp_path: Path, encoder: HashEncoder) -> None:
    files = {
        "worker.py": "def start_worker(limit):\n    run(limit)\n",
        "deploy.yaml": "worker:\n  memory_limit: 512Mi\n  replicas: 2\n",
    }
    write_tree(tmp_path / "shop", files)

    def better_path(query: str, reranker: WordReranker | None) -> str | None:
        hits = workspace.search(query, reranker=reranker).hits
        hit = better_configuration(workspace.corpus, query, hits)
        return None if hit is None else hit.location.path

    with open_workspace(
        tmp_path / "shop", cache_directory=tmp_path / "cache", encoder=encoder
    ) as workspace:
        for reranker in (None, WordReranker()):
            assert better_path("memory_limit and replicas of the worker", reranker) == "deploy.yaml"
            assert better_path("start_worker", reranker) is None
