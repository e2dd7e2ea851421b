"""Configuration that answers a search of code better."""

from __future__ import annotations

from pathlib import Path

from purlin.index.workspaces.configuration import is_configuration, with_other_content
from purlin.index.workspaces.workspace import open_workspace
from tests.support.files import write_tree
from tests.support.hash_encoder import HashEncoder
from tests.support.rerankers import WordReranker


def test_it_comes_first_also_where_code_was_reranked(tmp_path: Path, encoder: HashEncoder) -> None:
    files = {
        "worker.py": "def start_worker(limit):\n    run(limit)\n",
        "deploy.yaml": "worker:\n  memory_limit: 512Mi\n  replicas: 2\n",
    }
    write_tree(tmp_path / "shop", files)

    def paths(query: str, k: int, reranker: WordReranker | None) -> list[str | None]:
        code_hits = workspace.search(query, k, reranker=reranker).hits
        hits = with_other_content(workspace.corpus, query, code_hits, k)
        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        assert [is_configuration(hit) for hit in hits[1:]] == [False] * len(hits[1:])
        return [hit.location.path for hit in hits]

    with open_workspace(
        tmp_path / "shop", cache_directory=tmp_path / "cache", encoder=encoder
    ) as workspace:
        for reranker in (None, WordReranker()):
            query = "memory_limit and replicas of the worker"
            assert paths(query, 2, reranker) == ["deploy.yaml", "worker.py"]
            assert paths(query, 1, reranker) == ["deploy.yaml"]
            assert paths("start_worker", 2, reranker) == ["worker.py"]
