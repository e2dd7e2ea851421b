"""A real Milvus that is killed: nothing that was reported as done is lost, and a build can be repeated.

`make test-long` runs it. MILVUS_SERVER names the command of the server; without it, the package
`milvus` 2.3.5 is installed into an environment of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from purlin.index import builds
from purlin.index.engines import hosting
from purlin.index.engines.hosting import open_corpus
from purlin.index.engines.milvus import Connection, connected
from purlin.index.errors import EngineFailed
from purlin.index.indexing.build import build
from tests.conftest import HashEncoder, source
from tests.milvus_server import Server, installed
from tests.serving import numbered

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


def made(home: Path, connection: Connection, count: int) -> None:
    sources = [source("all", numbered(count))]
    build(home, "killed", "reference", sources, HashEncoder(), engine=connection)


def restarted(server: Server, connection: Connection) -> None:
    """Kill the server as a power cut would, and start it again."""
    server.kill()
    server.start()
    connected(connection).close()


def test_a_finished_build_survives(server: Server, tmp_path: Path) -> None:
    connection = Connection(server.address, timeout_s=30.0)
    made(tmp_path, connection, 300)
    before = hits(tmp_path)
    restarted(server, connection)
    assert hits(tmp_path) == before
    assert hosting.hosted(connection) == ["killed"]


@pytest.mark.parametrize("after_s", [0.5, 2.0, 5.0])
def test_a_build_during_which_the_server_dies_can_be_repeated(
    server: Server, tmp_path: Path, after_s: float
) -> None:
    connection = Connection(server.address, timeout_s=30.0)
    made(tmp_path, connection, 300)
    before, active = hits(tmp_path), builds.current(tmp_path, "killed")

    killer = threading.Thread(target=lambda: (time.sleep(after_s), server.kill()))
    killer.start()
    with pytest.raises(EngineFailed, match=server.address):
        made(tmp_path, connection, 2000)
    killer.join()
    assert builds.current(tmp_path, "killed") == active

    server.start()
    connected(connection).close()
    assert hits(tmp_path) == before
    made(tmp_path, connection, 2000)
    assert builds.current(tmp_path, "killed") != active
    kept = hosting._collections(connected(connection), "killed")
    described = [hosting._description(connected(connection), name) for name in kept]
    assert all(described)
