"""A real Milvus that is killed: what was reported as done is there, and a build can be repeated.

`make test-long` runs it. MILVUS_SERVER names the command of the server; without it, the package
`milvus` 2.3.5 is installed into an environment of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from purlin.index import builds
from purlin.index.engines import hosting, layout
from purlin.index.engines.hosting import open_corpus
from purlin.index.engines.milvus import Connection, connected
from purlin.index.engines.upload import _Batch
from purlin.index.errors import EngineFailed
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.milvus_server import Server, installed
from tests.support.serving import numbered

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("milvus")
    server = Server(installed(directory / "venv"), directory)
    server.start()
    yield server
    server.kill()


def hits(home: Path) -> list[str]:
    with closing(open_corpus(builds.current(home, "killed"), HashEncoder())) as corpus:
        result = corpus.search("number 17", mode="dense", k=20)
        return [hit.id for hit in result.hits]


def build_numbered(home: Path, connection: Connection, count: int) -> None:
    sources = [source("all", numbered(count))]
    build(home, "killed", "reference", sources, HashEncoder(), options=Options(engine=connection))


def restarted(server: Server, connection: Connection) -> None:
    """Kill the server as a power cut would, and start it again."""
    server.kill()
    server.start()
    connected(connection).close()


def test_a_finished_build_survives(server: Server, tmp_path: Path) -> None:
    connection = Connection(server.address, timeout_s=30.0)
    build_numbered(tmp_path, connection, 300)
    before = hits(tmp_path)
    restarted(server, connection)
    assert hits(tmp_path) == before
    assert hosting.hosted(connection) == ["killed"]


# What the build has begun when the server dies: the second batch, and whatever follows.
STEPS: dict[str, tuple[Any, str, int]] = {
    "upload": (_Batch, "send", 2),
    "index of the passages": (layout, "index_passages", 1),
    "index of the records": (layout, "index_records", 1),
    "description": (hosting, "_describe", 1),
    "switch": (hosting, "_switch", 1),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_build_during_which_the_server_dies_can_be_repeated(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    connection = Connection(server.address, timeout_s=30.0)
    build_numbered(tmp_path, connection, 300)
    before, active = hits(tmp_path), builds.current(tmp_path, "killed")

    owner, name, calls = STEPS[step]
    original = getattr(owner, name)
    begun: list[str] = []

    def dying(*arguments: Any) -> Any:
        begun.append(step)
        if len(begun) == calls:
            server.kill()
        return original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, dying)
        with pytest.raises(EngineFailed, match=server.address):
            build_numbered(tmp_path, connection, 2000)
    assert builds.current(tmp_path, "killed") == active

    server.start()
    connected(connection).close()
    assert hits(tmp_path) == before
    build_numbered(tmp_path, connection, 2000)
    assert builds.current(tmp_path, "killed") != active
    milvus = connected(connection)
    kept = hosting._collections(milvus, "killed")
    assert all(hosting._description(milvus, collection) for collection in kept)


def test_a_server_that_dies_in_the_middle_of_a_call_ends_the_build(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection(server.address, timeout_s=30.0)
    index_passages = layout.index_passages

    def dying(*arguments: Any) -> Any:
        # To flush, index and load takes seconds.
        killer = threading.Timer(0.2, server.kill)
        killer.start()
        try:
            return index_passages(*arguments)
        finally:
            killer.join()

    monkeypatch.setattr(layout, "index_passages", dying)
    with pytest.raises(EngineFailed, match=server.address):
        build_numbered(tmp_path, connection, 300)
    assert builds.corpora(tmp_path) == []
    server.start()
    connected(connection).close()
