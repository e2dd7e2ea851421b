"""Configuration and documentation that answer a search of code, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.workspaces.other_content import (
    default_content,
    is_configuration,
    with_other_content,
)
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


DOCUMENTED = {
    "worker.py": "def start_worker(memory_limit=512):\n    run(memory_limit)\n",
    "docs/changes.md": "# Changes\n\nThe memory limit of the worker is 512 by default.\n",
    "docs/worker.md": "# The worker\n\nThe memory limit of the worker is 512 MiB by default.\n",
}


@pytest.mark.parametrize(
    ("query", "has_documentation"),
    [
        ("change the memory limit of the worker and where it is documented", True),
        ("documentation of the memory limit of the worker", True),
        ("change the memory limit of the worker", False),
        ("start the worker that documents are read by", False),
    ],
)
def test_what_documents_it_is_the_second_hit_where_that_is_wanted(
    tmp_path: Path, encoder: HashEncoder, query: str, has_documentation: bool
) -> None:
    write_tree(tmp_path / "shop", DOCUMENTED)
    with open_workspace(
        tmp_path / "shop", cache_directory=tmp_path / "cache", encoder=encoder
    ) as workspace:
        hits = with_other_content(workspace.corpus, query, workspace.search(query).hits, 5)
        best = with_other_content(workspace.corpus, query, workspace.search(query).hits, 1)

    paths = ["worker.py", "docs/worker.md"][: 1 + has_documentation]
    assert [hit.location.path for hit in hits] == paths
    assert [hit.rank for hit in hits] == list(range(1, len(paths) + 1))
    assert [hit.location.path for hit in best] == ["worker.py"]


def test_code_is_searched_unless_there_is_none(tmp_path: Path, encoder: HashEncoder) -> None:
    for folder, names in (("shop", list(DOCUMENTED)), ("manual", list(DOCUMENTED)[1:])):
        write_tree(tmp_path / folder, {name: DOCUMENTED[name] for name in names})
        with open_workspace(
            tmp_path / folder, cache_directory=tmp_path / "cache", encoder=encoder
        ) as workspace:
            content = default_content(workspace.corpus)
        assert content == {"shop": "code", "manual": "all"}[folder]
